"""The strict study: selected on validation, frozen, and tested once on fresh seeds."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np
import torch

from clusterdyn.arms import TrainingRun, arm_schedule, message_passing_cell, study_dataset
from clusterdyn.artifacts import ArtifactStore
from clusterdyn.config import StudyConfig
from clusterdyn.execution import train_all
from clusterdyn.schedules import Schedule
from clusterdyn.strict.arms import (
    BASELINE,
    CORE,
    PREDICTABILITY,
    TIE_RULES,
    Arm,
    changed_arms,
    compared,
    noisy_round_robin,
    work_arms,
)
from clusterdyn.strict.config import StrictConfig
from clusterdyn.strict.selection import Selection, select_rates
from clusterdyn.strict.sweep_choices import WATCHED, SweepChoices, sweep_choices
from clusterdyn.strict.yardsticks import linear_rollout, persistence
from clusterdyn.sweeps import Ledger
from clusterdyn.threads import torch_threads
from clusterdyn.training import TrainedPopulation, evaluate, stack_split

GRU = Arm("full", (("relaxation", 1.0), ("sweeps", 1)), cell="gru")
NULL = Arm(BASELINE, (("minibatch_stream", 1),))


@dataclass(frozen=True)
class ArmResult:
    """An arm from its grid to its test scores.

    Attributes:
        label: the arm in words.
        schedule: as text.
        changes: fields of the study's settings and their values, as text.
        cell: as in ``TrainingRun``.
        rates: (L,), of the grid; the one rate, where it was given.
        validation: (selection seeds, L); no row where the rate was given.
        selected: index of the chosen rate.
        extensions: by how many rates the grid has grown.
        at_edge: whether the best is still an end of the grid.
        selection_diverged, test_diverged: models that diverged.
        test_mse: (n,), the arm's test seeds; a diverged model is scored as persistence on its
            test split.
        diverged_seeds: those of the test seeds.
        node_updates: a time step, mean over models.
        share: (n, C), share of the cluster updates.
        largest_age: (n,), in sweeps.
        entropy: (n,), of the shares, over log C.
    """

    label: str
    schedule: str
    changes: tuple[tuple[str, str], ...]
    cell: str
    rates: np.ndarray
    validation: np.ndarray
    selected: int
    extensions: int
    at_edge: bool
    selection_diverged: int
    test_diverged: int
    test_mse: np.ndarray
    diverged_seeds: np.ndarray
    node_updates: float
    share: np.ndarray
    largest_age: np.ndarray
    entropy: np.ndarray

    @property
    def rate(self) -> float:
        """The learning rate that the test seeds were trained at."""
        return float(self.rates[self.selected])


@dataclass(frozen=True)
class StrictResult:
    """All that the strict protocol has measured.

    Attributes:
        test_seeds: (n,).
        arms: every arm, once.
        persistence, linear: (n,), test MSE of the yardsticks without a hidden state.
        matrix_schedules: (M,), the schedules of the train x test matrix.
        matrix: (M trained, M tested, n), test MSE.
        relaxation_schedules: (R,).
        relaxations: (E,), eta at test time.
        relaxation_mse: (R, E, n), test MSE.
        sweep_choices: which clusters are updated, sweep by sweep.
    """

    test_seeds: np.ndarray
    arms: tuple[ArmResult, ...]
    persistence: np.ndarray
    linear: np.ndarray
    matrix_schedules: tuple[str, ...]
    matrix: np.ndarray
    relaxation_schedules: tuple[str, ...]
    relaxations: np.ndarray
    relaxation_mse: np.ndarray
    sweep_choices: SweepChoices

    def of(self, arm: Arm) -> ArmResult:
        """An arm's result."""
        (found,) = (result for result in self.arms if result.label == arm.label)
        return found


def all_arms(config: StudyConfig, strict: StrictConfig, published_rate: float) -> tuple[Arm, ...]:
    """Every arm of the strict study, once.

    Args:
        config, strict: the settings.
        published_rate: that the reference protocol chose for the histogram.
    """
    arms = [arm for group in work_arms(config, strict).values() for arm in group]
    arms += [Arm(name) for name in (*TIE_RULES, *PREDICTABILITY, *noisy_round_robin(strict))]
    arms += changed_arms("horizon", strict.horizons, config.horizon)
    arms += changed_arms("epochs", strict.epoch_budgets, config.epochs)
    arms += [GRU, NULL, published(published_rate)]
    return tuple(dict.fromkeys(arms))


def published(rate: float) -> Arm:
    """The published idea at the learning rate that the published protocol chose."""
    return Arm("histogram", fixed_rate=rate)


def run_strict(
    config: StudyConfig,
    strict: StrictConfig,
    published_rate: float,
    store: ArtifactStore,
    *,
    executor: Executor | None = None,
) -> StrictResult:
    """Runs the strict protocol: select, freeze, test once.

    Args:
        config, strict: the settings.
        published_rate: that the reference protocol chose for the histogram.
        store: where populations are kept.
        executor: trains populations side by side.
    """
    arms = all_arms(config, strict, published_rate)

    def trainer(what: str) -> Callable[[Sequence[TrainingRun]], dict]:
        return lambda runs: train_all(runs, store, executor=executor, what=f"strict {what}")

    selections = select_rates(arms, config, strict, trainer("selection"))
    rates = {arm: arm.fixed_rate or selections[arm].rate for arm in arms}
    runs = {arm: arm.run(config, arm.test_seeds(strict), (rates[arm],)) for arm in arms}
    populations = trainer("test")(list(runs.values()))
    results = tuple(
        arm_result(arm, runs[arm], selections.get(arm), populations[runs[arm]]) for arm in arms
    )
    core = [Arm(name) for name in CORE]
    tests = [study_dataset(config, seed) for seed in strict.test_seeds]

    def scores(arm: Arm, schedule: str, **changes: float) -> np.ndarray:
        built = arm_schedule(replace(config, **changes), schedule)
        return run_under(runs[arm], populations[runs[arm]], built, **changes)[0]

    names = compared(config)
    matrix = [[scores(Arm(name), other) for other in names] for name in names]
    relaxed = [
        [scores(arm, arm.schedule, relaxation=eta) for eta in strict.test_relaxations]
        for arm in core
    ]
    return StrictResult(
        test_seeds=np.array(strict.test_seeds),
        arms=results,
        persistence=np.array([persistence(dataset.test) for dataset in tests]),
        linear=np.array([linear_rollout(dataset) for dataset in tests]),
        matrix_schedules=names,
        matrix=np.array(matrix),
        relaxation_schedules=CORE,
        relaxations=np.array(strict.test_relaxations),
        relaxation_mse=np.array(relaxed),
        sweep_choices=sweep_choices({name: runs[Arm(name)] for name in WATCHED}, populations),
    )


def arm_result(
    arm: Arm, run: TrainingRun, selection: Selection | None, population: TrainedPopulation
) -> ArmResult:
    """An arm's result from its parts.

    Args:
        arm: the arm.
        run: that trained its test seeds.
        selection: of its learning rate; None if that was given.
        population: what the run has trained.
    """
    fallback = [persistence(study_dataset(run.config, seed).test) for seed in run.config.seeds]
    scores = population.test_mse.astype(np.float64)
    diverged = ~np.isfinite(scores)
    book = population.test_ledger
    if selection is None:
        selection = Selection(np.array([arm.fixed_rate]), np.empty((0, 1)), extensions=0)
    given = arm.fixed_rate is not None
    return ArmResult(
        label=arm.label,
        schedule=arm.schedule,
        changes=tuple((name, str(value)) for name, value in arm.changes),
        cell=arm.cell,
        rates=selection.rates,
        validation=selection.validation,
        selected=0 if given else selection.selected,
        extensions=selection.extensions,
        at_edge=not given and selection.at_edge,
        selection_diverged=selection.diverged,
        test_diverged=int(diverged.sum()),
        test_mse=np.where(diverged, fallback, scores),
        diverged_seeds=population.seeds[diverged],
        node_updates=float(book.node_updates.mean()),
        share=book.share,
        largest_age=book.largest_age,
        entropy=book.entropy,
    )


def run_under(
    run: TrainingRun, population: TrainedPopulation, schedule: Schedule, **changes: float
) -> tuple[np.ndarray, Ledger]:
    """Trained models on the test split under a schedule that they may not have been trained with.

    Args:
        run: trained the models, at one learning rate.
        population: the models.
        schedule: at run time.
        changes: fields of ``StudyConfig`` that are others at run time, such as ``sweeps``.

    Returns:
        Test MSE (n,), float64, infinity where it is not finite; and what the schedule did.
    """
    config = replace(run.config, **changes)
    datasets = [study_dataset(config, seed) for seed in config.seeds]
    training = config.training()
    with torch_threads(1):
        scores, book = evaluate(
            message_passing_cell(config),
            training.tensor(population.parameters),
            schedule,
            *stack_split(datasets, "test", training),
            config.seeds,
            training,
        )
    scores = torch.nan_to_num(scores.double(), nan=torch.inf, posinf=torch.inf)
    return scores.cpu().numpy(), book
