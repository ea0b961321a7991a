"""The study: which models are trained, how an arm is selected, and what is compared.

``reference`` is the protocol of the published trial, flaws included: the learning rate is chosen
on the test score; the baseline's grid averages its first seeds only, the idea's all of them.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from clusterdyn.arms import TrainingRun, message_passing_cell, study_dataset, study_partition
from clusterdyn.artifacts import ArtifactStore, Stage, default_root
from clusterdyn.bench.config import CostConfig
from clusterdyn.bench.cost import Cost, measure_cost
from clusterdyn.bench.machine import this_machine
from clusterdyn.comparison import Comparison, compare
from clusterdyn.config import StudyConfig
from clusterdyn.datasets import Dataset
from clusterdyn.execution import train_all
from clusterdyn.grids import ArmGrid, arm_grid
from clusterdyn.limits.config import LimitsConfig
from clusterdyn.limits.results import LimitsStudy
from clusterdyn.mechanism import MechanismCheck, ReferenceView, check_mechanism
from clusterdyn.profiles import (
    cost_config,
    learning_config,
    limits_config,
    strict_config,
    study_config,
)
from clusterdyn.qlearning.config import QLearningConfig
from clusterdyn.qlearning.results import LearnedStudy
from clusterdyn.recordings import PENDULUM
from clusterdyn.strict.config import StrictConfig
from clusterdyn.strict.inference import StrictInference
from clusterdyn.strict.results import StrictStudy
from clusterdyn.strict.study import StrictResult
from clusterdyn.threads import torch_threads
from clusterdyn.training import TrainedPopulation
from clusterdyn.verdicts import (
    MechanismCriterion,
    comparison_verdict,
    confirmed,
    mechanism_criteria,
    practical_verdict,
    system_verdict,
)

MECHANISM_TRAJECTORIES = 20  # of the test split, for each seed


@dataclass(frozen=True)
class ReferenceResult:
    """The published trial, run again.

    Attributes:
        baseline, idea: the two grids and what was selected.
        comparison: at the selected learning rates, on all seeds.
        signature: the published view of the mechanism: the idea's models, clusters one after
            another, at a state on the trajectory; its first seed is the one reported.
        criteria: the parts of the mechanism verdict.
        verdict: the published wording.
        practical_verdict, system_verdict, mechanism_ok, confirmed: by ``clusterdyn.verdicts``.
    """

    baseline: ArmGrid
    idea: ArmGrid
    comparison: Comparison
    signature: ReferenceView
    criteria: tuple[MechanismCriterion, ...]
    verdict: str
    practical_verdict: str
    system_verdict: str
    mechanism_ok: bool
    confirmed: bool


class Study:
    """All results of one config, each computed once and kept as an artifact.

    Args:
        config: the settings.
        store: where artifacts are kept.
        label: profile and settings in words.
        strict_config: settings of the strict protocol, or None if it is not run.
        learning_config: settings of learned schedules, or None if there are none.
        cost_config: settings of the cost measurements, or None if they are not made.
        executor: trains populations side by side. Without one the reference protocol trains in
            this process, and the strict one in as many as there are cores.
        limits_config: settings of the places away from the study's own, or None if there are none.
    """

    def __init__(
        self,
        config: StudyConfig,
        store: ArtifactStore,
        label: str = "",
        strict_config: StrictConfig | None = None,
        learning_config: QLearningConfig | None = None,
        cost_config: CostConfig | None = None,
        executor: Executor | None = None,
        limits_config: LimitsConfig | None = None,
    ) -> None:
        self.config = config
        self.strict_config = strict_config
        self.learning_config = learning_config
        self.cost_config = cost_config
        self.limits_config = limits_config
        self.store = store
        self.label = label
        self.executor = executor
        self._populations: dict[str, TrainedPopulation] = {}
        self._checks: dict[str, MechanismCheck] = {}

    @cached_property
    def datasets(self) -> dict[int, Dataset]:
        """Data of every seed."""
        return {seed: study_dataset(self.config, seed) for seed in self.config.seeds}

    def training_stage(self, schedule: str) -> Stage:
        """What an arm's training depends on."""
        return TrainingRun(self.config, schedule).stage

    def population(self, schedule: str) -> TrainedPopulation:
        """The trained models of an arm, every seed at every learning rate."""
        if schedule not in self._populations:
            run = TrainingRun(self.config, schedule)
            if self.executor is None and len(run.chunks) == 1:
                self._populations[schedule] = self.store.load_or_compute(
                    run.stage, TrainedPopulation, lambda: run.train(self.store.progress)
                )
            else:
                # Both arms at once, so that workers train them side by side.
                arms = (schedule, self.config.baseline, self.config.schedule)
                runs = {arm: TrainingRun(self.config, arm) for arm in arms}
                trained = train_all(
                    list(runs.values()), self.store, executor=self.executor, what="reference"
                )
                self._populations |= {arm: trained[run] for arm, run in runs.items()}
        return self._populations[schedule]

    def grid(self, schedule: str) -> ArmGrid:
        """An arm's grid; the baseline's averages its first seeds only."""
        population = self.population(schedule)
        rates = np.array(self.config.learning_rates)
        grid_seeds = len(self.config.seeds)
        if schedule == self.config.baseline:
            grid_seeds = min(grid_seeds, self.config.baseline_grid_seeds)
        scores = population.test_mse.astype(np.float64).reshape(-1, len(rates))
        return arm_grid(schedule, rates, scores, grid_seeds)

    def mechanism_stage(self, schedule: str) -> Stage:
        """What an arm's mechanism check depends on."""
        return Stage(
            name=f"mechanism-{schedule}",
            module="clusterdyn.mechanism",
            config={
                "selected": self.grid(schedule).selected,
                "trajectories": MECHANISM_TRAJECTORIES,
                **self.config.dependencies(),
            },
            upstream=(self.training_stage(schedule).key,),
        )

    def mechanism(self, schedule: str) -> MechanismCheck:
        """The mechanism check on an arm's models at its selected learning rate."""
        if schedule not in self._checks:

            def check() -> MechanismCheck:
                rates, selected = len(self.config.learning_rates), self.grid(schedule).selected
                parameters = self.population(schedule).parameters
                partition = study_partition(self.config)
                tests = [dataset.test for dataset in self.datasets.values()]
                count = min(MECHANISM_TRAJECTORIES, self.config.test_trajectories)
                with torch_threads(1):
                    return check_mechanism(
                        message_passing_cell(self.config),
                        parameters.reshape(len(tests), rates, -1)[:, selected],
                        np.array(self.config.seeds),
                        [partition.members(c) for c in range(partition.clusters)],
                        np.stack([test.states[:count] for test in tests]),
                        np.stack([test.controls[:count] for test in tests]),
                        sweeps=self.config.sweeps,
                        relaxation=self.config.relaxation,
                    )

            self._checks[schedule] = self.store.load_or_compute(
                self.mechanism_stage(schedule), MechanismCheck, check
            )
        return self._checks[schedule]

    @cached_property
    def strict_study(self) -> StrictStudy:
        """The strict protocol.

        Raises:
            ValueError: if the profile does not run it.
        """
        if self.strict_config is None:
            raise ValueError(
                f"{self.label or 'this study'} does not run the strict protocol; use profile full"
            )
        return StrictStudy(
            self.config,
            self.strict_config,
            self.grid("histogram").learning_rate,
            self.store,
            self.executor,
        )

    @cached_property
    def strict(self) -> StrictResult:
        """All that the strict protocol measures; see ``strict_study``."""
        return self.strict_study.result

    @cached_property
    def inference(self) -> StrictInference:
        """Every comparison of the strict study, and the power of its protocol."""
        return self.strict_study.inference

    def cost_stage(self) -> Stage:
        """What the measured cost depends on, the machine included."""
        return Stage(
            name="cost",
            module="clusterdyn.bench.cost",
            config={
                "cost": asdict(self.cost_config),
                "machine": asdict(this_machine()),
                **self.config.dependencies(),
            },
        )

    @cached_property
    def cost(self) -> Cost:
        """What training costs on this machine.

        Raises:
            ValueError: if the profile does not measure it.
        """
        if self.cost_config is None:
            raise ValueError(
                f"{self.label or 'this study'} does not measure the cost; use profile full"
            )

        def measure() -> Cost:
            return measure_cost(
                self.config, self.cost_config, this_machine(), progress=self.store.progress
            )

        return self.store.load_or_compute(self.cost_stage(), Cost, measure)

    def stages(self) -> list[Stage]:
        """Every stage that a report is made from, in the order in which they are computed."""
        arms = (self.config.baseline, self.config.schedule)
        stages = [self.training_stage(arm) for arm in arms]
        stages += [self.mechanism_stage(arm) for arm in arms]
        if self.strict_config is not None:
            stages += [self.strict_study.stage, self.strict_study.inference_stage]
        if self.learning_config is not None:
            stages += [self.learned.stage, self.learned.claims_stage]
        if self.limits_config is not None:
            stages += [self.limits.stage, self.limits.claims_stage]
        if self.cost_config is not None:
            stages.append(self.cost_stage())
        return stages

    def stage_seconds(self) -> dict[str, float | None]:
        """How long each stage took when its artifact was made; None if there is none yet."""
        return {stage.name: self.store.seconds(stage) for stage in self.stages()}

    @cached_property
    def learned(self) -> LearnedStudy:
        """The study of learned schedules.

        Raises:
            ValueError: if the profile does not run it.
        """
        if self.strict_config is None or self.learning_config is None:
            raise ValueError(
                f"{self.label or 'this study'} learns no schedules, which the strict protocol "
                "tests; use profile full"
            )
        return LearnedStudy(
            self.config, self.strict_config, self.learning_config, self.store, self.executor
        )

    @cached_property
    def limits(self) -> LimitsStudy:
        """The study away from the published setting.

        Raises:
            ValueError: if the profile does not run it.
        """
        if self.strict_config is None or self.limits_config is None:
            raise ValueError(
                f"{self.label or 'this study'} stays at its own setting, and the strict protocol "
                "is what leaves it; use profile full"
            )
        return LimitsStudy(
            self.config, self.strict_config, self.limits_config, self.store, self.executor
        )

    @cached_property
    def reference(self) -> ReferenceResult:
        """Selection, comparison, mechanism and verdicts of the reference protocol."""
        baseline, idea = self.grid(self.config.baseline), self.grid(self.config.schedule)
        comparison = compare(
            np.array(self.config.seeds), baseline.selected_scores, idea.selected_scores
        )
        checks = [self.mechanism(self.config.baseline), self.mechanism(self.config.schedule)]
        criteria = mechanism_criteria(checks)
        mechanism_ok = all(criterion.held for criterion in criteria)
        (signature,) = (
            view
            for view in checks[1].reference_views
            if (view.unit, view.state) == ("clusters", "trajectory")
        )
        practical = practical_verdict(comparison)
        return ReferenceResult(
            baseline=baseline,
            idea=idea,
            comparison=comparison,
            signature=signature,
            criteria=criteria,
            verdict=comparison_verdict(comparison),
            practical_verdict=practical,
            system_verdict=system_verdict(practical, mechanism_ok),
            mechanism_ok=mechanism_ok,
            confirmed=confirmed(signature),
        )


def open_study(
    profile: str = "reference",
    settings: dict | None = None,
    artifacts: str | Path = "",
    *,
    executor: Executor | None = None,
    progress: Callable[[str], None] = print,
) -> Study:
    """A study by profile and settings; what notebooks start from.

    Args:
        profile: quick, reference or full.
        settings: fields of ``StudyConfig`` and of the configs of the profile's other parts to
            replace.
        artifacts: directory of the artifacts; ``artifacts`` beside the package if empty.
        executor: trains populations side by side, as of :class:`Study`.
        progress: called with one line a block of work.

    Raises:
        ValueError: for an unknown profile or setting, a wrong type or a value out of range.
    """
    root = Path(artifacts) if artifacts else default_root()
    config = study_config(profile, settings)
    strict, cost = strict_config(profile, settings), cost_config(profile, settings)
    learning, limits = learning_config(profile, settings), limits_config(profile, settings)
    used: dict[str, Any] = {}
    for part in (config, strict, learning, limits, cost):
        used |= vars(part) if part else {}
    changes = [f"{name} = {used[name]}" for name in sorted(settings or {})]
    label = ", ".join([f"profile {profile}", *changes])
    check_splits(config, strict)
    store = ArtifactStore(root, progress)
    return Study(config, store, label, strict, learning, cost, executor, limits)


def check_splits(config: StudyConfig, strict: StrictConfig | None) -> None:
    """Raises ValueError if a recording is too short for any seed's splits at any horizon."""
    if config.data == PENDULUM:
        return
    horizons = {config.horizon: config.seeds}
    if strict is not None:
        side = strict.selection_seeds + strict.test_seeds
        horizons |= dict.fromkeys(strict.horizons, side)
        horizons[config.horizon] = config.seeds + side
    for horizon, seeds in horizons.items():
        for seed in seeds:
            study_dataset(replace(config, horizon=horizon), seed)
