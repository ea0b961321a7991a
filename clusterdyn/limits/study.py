"""Carries the experiments out by the strict protocol, and re-measures the eta-squared law."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from clusterdyn.arms import TrainingRun, message_passing_cell, study_dataset, study_partition
from clusterdyn.artifacts import ArtifactStore
from clusterdyn.config import StudyConfig
from clusterdyn.execution import train_all
from clusterdyn.limits.config import LimitsConfig
from clusterdyn.limits.experiments import LeftOut, Place, plan
from clusterdyn.limits.gru_agreement import difference_from_torch
from clusterdyn.limits.settling import Settling, settle
from clusterdyn.mechanism import EtaSquareLaw, check_mechanism
from clusterdyn.strict.config import StrictConfig
from clusterdyn.strict.selection import select_rates
from clusterdyn.strict.study import ArmResult, arm_result
from clusterdyn.threads import torch_threads
from clusterdyn.training import TrainedPopulation

LAW_PLACES = ("graphs", "partitions")
LAW_TRAJECTORIES = 20  # of the test split, for each seed


@dataclass(frozen=True)
class PlaceLaw:
    """The eta-squared law at a place, on its models of the full sweep.

    Attributes:
        law: clusters one after another, at a state on the trajectory.
        independent_sets: (S,), the largest difference between moving an independent set at once
            and node by node; 0 exactly.
    """

    law: EtaSquareLaw
    independent_sets: np.ndarray


@dataclass(frozen=True)
class PlaceResult:
    """What was measured at a place.

    Attributes:
        experiment, name: of the place.
        arms: the full sweep first.
        left_out: schedules that take too many updates.
        law: where it is re-measured, else None.
        settling: of the full sweep's models where the sweeps are varied, else None.
        torch_difference: (n,), of the full sweep's predictions from those of ``torch.nn.GRUCell``
            where the cell is a GRU, else None.
    """

    experiment: str
    name: str
    arms: tuple[ArmResult, ...]
    left_out: tuple[str, ...]
    law: PlaceLaw | None
    settling: Settling | None
    torch_difference: np.ndarray | None


@dataclass(frozen=True)
class LimitsResult:
    """What was measured at all places.

    Attributes:
        test_seeds: (n,), of every arm.
        places: in the order of their experiments.
        left_out: places that are not measured.
    """

    test_seeds: np.ndarray
    places: tuple[PlaceResult, ...]
    left_out: tuple[LeftOut, ...]


def run_limits(
    config: StudyConfig,
    strict: StrictConfig,
    limits: LimitsConfig,
    store: ArtifactStore,
    *,
    executor: Executor | None = None,
) -> LimitsResult:
    """Selects, freezes and tests every arm of every place, on the seeds of side experiments.

    Args:
        config, strict: the settings of the study and of its strict protocol.
        limits: the places.
        store: where populations are kept.
        executor: trains populations side by side.
    """
    places, left_out = plan(config, limits)
    arms = list(dict.fromkeys(arm for place in places for arm in place.arms))

    def trainer(what: str) -> Callable[[Sequence[TrainingRun]], dict]:
        return lambda runs: train_all(runs, store, executor=executor, what=f"limits {what}")

    selections = select_rates(arms, config, strict, trainer("selection"))
    runs = {arm: arm.run(config, arm.test_seeds(strict), (selections[arm].rate,)) for arm in arms}
    populations = trainer("test")(list(runs.values()))

    def measured(place: Place) -> PlaceResult:
        run = runs[place.arms[0]]
        return PlaceResult(
            place.experiment,
            place.name,
            tuple(
                arm_result(arm, runs[arm], selections[arm], populations[runs[arm]])
                for arm in place.arms
            ),
            place.left_out,
            _law(run, populations, limits) if place.experiment in LAW_PLACES else None,
            settle(run, populations[run]) if place.experiment == "sweeps" else None,
            difference_from_torch(run, populations[run]) if place.experiment == "gru" else None,
        )

    return LimitsResult(
        test_seeds=np.array(arms[0].test_seeds(strict)),
        places=tuple(measured(place) for place in places),
        left_out=left_out,
    )


def _law(
    run: TrainingRun, populations: Mapping[TrainingRun, TrainedPopulation], limits: LimitsConfig
) -> PlaceLaw:
    config, partition = run.config, study_partition(run.config)
    seeds = config.seeds[: limits.law_seeds]
    tests = [study_dataset(config, seed).test for seed in seeds]
    count = min(LAW_TRAJECTORIES, config.test_trajectories)
    with torch_threads(1):
        check = check_mechanism(
            message_passing_cell(config),
            populations[run].parameters[: len(seeds)],
            np.array(seeds),
            [partition.members(cluster) for cluster in range(partition.clusters)],
            np.stack([test.states[:count] for test in tests]),
            np.stack([test.controls[:count] for test in tests]),
            sweeps=config.sweeps,
            relaxation=config.relaxation,
        )
    (law,) = (law for law in check.laws if (law.unit, law.state) == ("clusters", "trajectory"))
    return PlaceLaw(law, check.independent_sets)
