"""The arms of the strict study: which schedules, at how many sweeps, and under which changes."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch

from clusterdyn.arms import TrainingRun, arm_schedule, message_passing_cell, study_dataset
from clusterdyn.config import StudyConfig
from clusterdyn.schedules import StaticSchedule
from clusterdyn.schedules.own import is_own, own_source
from clusterdyn.strict.config import StrictConfig
from clusterdyn.sweeps import ledger, rollout
from clusterdyn.threads import torch_threads
from clusterdyn.training import stack_split

BASELINE = "full"
# Every schedule that is compared at equal sweeps and at equal work.
COMPARED = (
    "full",
    "cluster_sequential",
    "sequential",
    "round_robin",
    "random",
    "clockwork",
    "histogram",
    "histogram_fair",
    "histogram_ordered",
    "residual",
    "residual(norm=max)",
    "residual(norm=mean)",
    "oracle",
)
TIE_RULES = ("histogram", "histogram(ties=random)", "histogram(ties=oldest)")
# Random orders, from the least to the most that a read-out can get used to.
PREDICTABILITY = (
    "random",
    "random(share=batch)",
    "random(share=always)",
    "histogram_fair",
    "histogram_fair(share=batch)",
    "round_robin",
)
# Also trained at other horizons and epochs, and run at other relaxation factors.
CORE = ("full", "round_robin", "random", "histogram", "residual")
LARGEST_UPDATES = 64  # updates a time step beyond which an arm is left out of a budget


@dataclass(frozen=True)
class Arm:
    """A schedule under some changes of the study's settings.

    Attributes:
        schedule: as text.
        changes: fields of ``StudyConfig`` and their values.
        cell: as in ``TrainingRun``.
        fixed_rate: a learning rate that is given and not selected, or None.
        side: whether it belongs to a side experiment, of fewer seeds.
    """

    schedule: str
    changes: tuple[tuple[str, object], ...] = ()
    cell: str = "message_passing"
    fixed_rate: float | None = None
    side: bool = False

    @property
    def label(self) -> str:
        """The arm in words."""
        words = ["gru" if self.cell == "gru" else self.schedule]
        words += ["cell=gru_units"] if self.cell == "gru_units" else []
        words += [f"{name}={value}" for name, value in self.changes]
        words += [f"rate={self.fixed_rate:g}"] if self.fixed_rate is not None else []
        return ", ".join(words)

    def first_rates(self, strict: StrictConfig) -> tuple[float, ...]:
        """Learning rates that its grid starts from."""
        return strict.side_rates if self.side else strict.selection_rates

    def selection_seeds(self, strict: StrictConfig) -> tuple[int, ...]:
        """Seeds that its learning rate is chosen on."""
        return strict.selection_seeds[: strict.side_selection_seeds if self.side else None]

    def test_seeds(self, strict: StrictConfig) -> tuple[int, ...]:
        """Seeds that it is tested on."""
        return strict.test_seeds[: strict.side_test_seeds if self.side else None]

    def run(
        self, config: StudyConfig, seeds: tuple[int, ...], rates: tuple[float, ...]
    ) -> TrainingRun:
        """The arm trained on some seeds, at some learning rates."""
        changes = {"seeds": seeds, "learning_rates": rates, "validation_curve": False}
        changes |= dict(self.changes)
        return TrainingRun(replace(config, **changes), self.schedule, self.cell)


def with_sweeps(config: StudyConfig, schedule: str, sweeps: int) -> Arm:
    """A schedule at a number of sweeps a time step; the study's own number is no change."""
    return Arm(schedule, () if sweeps == config.sweeps else (("sweeps", sweeps),))


def sweeps_of(config: StudyConfig, arm: Arm) -> int:
    """K of an arm."""
    return dict(arm.changes).get("sweeps", config.sweeps)


def compared(config: StudyConfig) -> tuple[str, ...]:
    """Every compared schedule, and the study's own idea if it is none of them."""
    return tuple(dict.fromkeys((*COMPARED, config.schedule)))


def nodes_per_sweep(config: StudyConfig, schedule: str) -> float:
    """Node updates of one sweep, on average.

    What a user's own schedule will do is not known beforehand; it is counted on untrained models.
    """
    if is_own(schedule):
        return _counted(config, schedule, own_source(schedule))
    built = arm_schedule(config, schedule)
    sizes = built.partition.sizes
    if isinstance(built, StaticSchedule):
        moved = built.table.double().numpy() @ sizes
        return float(moved.mean() * built.updates_per_sweep)
    return float(sizes.mean() * built.updates_per_sweep)


@lru_cache(maxsize=256)
def _counted(config: StudyConfig, schedule: str, source: str) -> float:
    """Node updates of one sweep on untrained models; ``source`` tells versions of it apart."""
    built, cell = arm_schedule(config, schedule), message_passing_cell(config)
    seeds = config.seeds[:2]
    parameters = np.stack([cell.initial_parameters(np.random.SeedSequence(s)) for s in seeds])
    states, controls = stack_split(
        [study_dataset(config, seed) for seed in seeds], "train", config.training()
    )
    batch = config.batch_size
    with torch.no_grad(), torch_threads(1):
        run = rollout(
            cell.bind(config.training().tensor(parameters)),
            states[:, :batch, 0],
            controls[:, :batch],
            built,
            [np.random.default_rng(seed) for seed in seeds],
            sweeps=config.sweeps,
            relaxation=config.relaxation,
            targets=states[:, :batch, 1:],
        )
    book = ledger(run.activity, built, population=len(seeds), batch=batch, horizon=config.horizon)
    return float(book.node_updates.mean() / config.sweeps)


def at_work(config: StudyConfig, schedule: str, budget: int) -> Arm | None:
    """A schedule at the sweeps whose node updates come closest to a budget.

    Returns:
        None if even one sweep is more than a third above the budget, or if the arm would take
        more than ``LARGEST_UPDATES`` updates a time step.
    """
    per_sweep = nodes_per_sweep(config, schedule)
    sweeps = max(1, round(budget / per_sweep))
    updates = sweeps * arm_schedule(config, schedule).updates_per_sweep
    if sweeps * per_sweep > budget * 4 / 3 or updates > LARGEST_UPDATES:
        return None
    return with_sweeps(config, schedule, sweeps)


def claim_budget(strict: StrictConfig) -> int:
    """The budget of the claims at equal work: the middle one."""
    return strict.work_budgets[len(strict.work_budgets) // 2]


def noisy_round_robin(strict: StrictConfig) -> tuple[str, ...]:
    """Round robin from no noise to nothing but noise."""
    return ("round_robin", *(f"round_robin(noise={level:g})" for level in strict.noise_levels))


def work_arms(config: StudyConfig, strict: StrictConfig) -> dict[str, tuple[Arm, ...]]:
    """Every compared schedule at every budget that it can keep, by ascending sweeps."""
    arms = {}
    for schedule in compared(config):
        found = [Arm(schedule)]
        for budget in strict.work_budgets:
            arm = at_work(config, schedule, budget)
            if arm is not None and arm not in found:
                side = budget != claim_budget(strict) and bool(arm.changes)
                found.append(replace(arm, side=side))
        unique = dict.fromkeys(found)
        arms[schedule] = tuple(sorted(unique, key=lambda arm: sweeps_of(config, arm)))
    return arms


def changed_arms(field: str, values: tuple[int, ...], default: int) -> tuple[Arm, ...]:
    """The core schedules under each value of a setting."""
    return tuple(
        Arm(schedule) if value == default else Arm(schedule, ((field, value),), side=True)
        for schedule in CORE
        for value in values
    )
