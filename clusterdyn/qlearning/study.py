"""The study of learned schedules: on frozen models, and beside models in training."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterdyn.arms import (
    TrainingRun,
    arm_schedule,
    study_dataset,
    study_graph,
    study_partition,
)
from clusterdyn.artifacts import ArtifactStore
from clusterdyn.config import StudyConfig
from clusterdyn.execution import train_all
from clusterdyn.qlearning.arms import (
    ALL_A_SWEEP,
    ONE_A_SWEEP,
    RANDOM_ORDER,
    SETTINGS,
    FrozenSetting,
    JointArm,
    RetrainedArm,
    joint_arms,
    peers_of,
)
from clusterdyn.qlearning.config import REWARDS, QLearningConfig
from clusterdyn.qlearning.learning import Learned
from clusterdyn.qlearning.policy import Policy, untrained_policy
from clusterdyn.qlearning.runs import (
    FrozenPolicy,
    FrozenRun,
    JointPopulation,
    JointRun,
    policy_schedule,
)
from clusterdyn.schedules import Schedule
from clusterdyn.strict.arms import BASELINE, Arm
from clusterdyn.strict.config import StrictConfig
from clusterdyn.strict.selection import select_rates
from clusterdyn.strict.study import ArmResult, arm_result, run_under
from clusterdyn.strict.yardsticks import persistence
from clusterdyn.sweeps import Ledger
from clusterdyn.training import TrainedPopulation


@dataclass(frozen=True)
class RunTimeScore:
    """Trained models under a schedule that they may not have been trained with.

    Attributes:
        label: the schedule in words.
        needs_answer: whether the schedule reads the loss that it is scored by.
        test_mse: (n,), the test seeds; one that is not finite is scored as persistence.
        node_updates: a time step, mean over models.
        share: (n, C), share of the cluster updates.
        largest_age: (n,), in sweeps.
        entropy: (n,), of the shares, over log C.
    """

    label: str
    needs_answer: bool
    test_mse: np.ndarray
    node_updates: float
    share: np.ndarray
    largest_age: np.ndarray
    entropy: np.ndarray


@dataclass(frozen=True)
class FrozenResult:
    """Policies learned on models whose weights stay as they are, beside other schedules.

    Attributes:
        base: the schedule that the models were trained under.
        base_rate: the learning rate that was selected for it.
        sweeps: K at run time.
        learned: curves and tables of each policy.
        scores: of each policy, in the order of ``learned``.
        peers: the other schedules.
    """

    base: str
    base_rate: float
    sweeps: int
    learned: tuple[Learned, ...]
    scores: tuple[RunTimeScore, ...]
    peers: tuple[RunTimeScore, ...]


@dataclass(frozen=True)
class JointResult:
    """A policy that was learned while its models were trained.

    Attributes:
        arm: from its grid to its test scores.
        policy: of the test seeds' models.
        validation_loss: (epochs, n), of the test seeds' models under the greedy policy.
    """

    arm: ArmResult
    policy: Policy
    validation_loss: np.ndarray


@dataclass(frozen=True)
class LearnedResult:
    """All that the study of learned schedules measures.

    Attributes:
        test_seeds: (n,).
        frozen: one a setting.
        joint: one a joint arm.
        retrained: joint arms that were trained anew without exploration.
        peers: the strict study's arms that joint arms are compared with.
    """

    test_seeds: np.ndarray
    frozen: tuple[FrozenResult, ...]
    joint: tuple[JointResult, ...]
    retrained: tuple[ArmResult, ...]
    peers: tuple[ArmResult, ...]


class _Trainer:
    """Carries out runs and remembers what they gave."""

    def __init__(self, store: ArtifactStore, executor: Executor | None) -> None:
        self.store, self.executor = store, executor
        self.results: dict[Any, Any] = {}

    def __call__(self, runs: Sequence[Any], what: str = "selection") -> dict[Any, Any]:
        found = train_all(runs, self.store, executor=self.executor, what=f"learned {what}")
        self.results |= found
        return found

    def populations(self, runs: Sequence[Any]) -> dict[Any, TrainedPopulation]:
        """What a selection reads."""
        return {run: _population(result) for run, result in self(runs).items()}


def _population(result: TrainedPopulation | JointPopulation) -> TrainedPopulation:
    return result.population if isinstance(result, JointPopulation) else result


def run_learned(
    config: StudyConfig,
    strict: StrictConfig,
    learning: QLearningConfig,
    store: ArtifactStore,
    *,
    executor: Executor | None = None,
) -> LearnedResult:
    """Learns, selects and tests; every choice is made on the training or validation split.

    Args:
        config, strict: the settings of the study and of its strict protocol.
        learning: how tables are learned.
        store: where populations and policies are kept.
        executor: carries out runs side by side.
    """
    trainer = _Trainer(store, executor)
    joint = joint_arms(learning)
    peers = tuple(dict.fromkeys(peer for arm in joint for peer in peers_of(config, arm)))
    bases = tuple(Arm(name) for name in dict.fromkeys(setting.base for setting in SETTINGS))
    first = tuple(dict.fromkeys((*bases, *peers, *joint)))
    selections = select_rates(first, config, strict, trainer.populations)
    tests = {arm: arm.run(config, arm.test_seeds(strict), (selections[arm].rate,)) for arm in first}
    trainer(list(tests.values()), "test")
    retrained = tuple(
        _retrained(arm, selections[arm].rate, tests[arm], trainer, strict)
        for arm in joint
        if not arm.ordered
    )
    again = select_rates(retrained, config, strict, trainer.populations)
    selections |= again
    tests |= {arm: arm.run(config, arm.test_seeds(strict), (again[arm].rate,)) for arm in retrained}
    frozen = [
        FrozenRun(tests[Arm(s.base)], ordered, reward, s.sweeps(config), learning, store.root)
        for s in SETTINGS
        for ordered, reward in _policies(s)
    ]
    trainer([*(tests[arm] for arm in retrained), *frozen], "policies")

    def result_of(arm: Arm) -> ArmResult:
        population = _population(trainer.results[tests[arm]])
        return arm_result(arm, tests[arm], selections[arm], population)

    return LearnedResult(
        test_seeds=np.array(strict.test_seeds),
        frozen=tuple(
            _frozen_result(setting, tests[Arm(setting.base)], config, frozen, trainer.results)
            for setting in SETTINGS
        ),
        joint=tuple(
            JointResult(
                result_of(arm),
                trainer.results[tests[arm]].policy,
                trainer.results[tests[arm]].population.validation_loss,
            )
            for arm in joint
        ),
        retrained=tuple(result_of(arm) for arm in retrained),
        peers=tuple(result_of(arm) for arm in dict.fromkeys((*peers, *bases))),
    )


def _policies(setting: FrozenSetting) -> list[tuple[bool, str]]:
    """(ordered, reward) of what is learned; rounds of all clusters need no more sweeps."""
    kinds = (False,) if setting.spread else (False, True)
    return [(ordered, reward) for ordered in kinds for reward in REWARDS]


def _retrained(
    arm: JointArm, rate: float, test: JointRun, trainer: _Trainer, strict: StrictConfig
) -> RetrainedArm:
    """The arm that starts from the tables of a joint arm at its selected rate."""
    seeds = arm.selection_seeds(strict)
    (selection,) = (  # the grid, or the run by which it grew
        run
        for run in trainer.results
        if isinstance(run, JointRun)
        and (run.ordered, run.reward, run.config.seeds) == (arm.ordered, arm.reward, seeds)
        and rate in run.config.learning_rates
    )
    return RetrainedArm(
        arm.schedule,
        reward=arm.reward,
        learning=arm.learning,
        joint_rate=rate,
        joint_runs=(selection, test),
        artifacts=trainer.store.root,
    )


def _frozen_result(
    setting: FrozenSetting,
    base: TrainingRun,
    config: StudyConfig,
    runs: Sequence[FrozenRun],
    results: Mapping[Any, Any],
) -> FrozenResult:
    sweeps = setting.sweeps(config)
    mine = [run for run in runs if run.base == base and run.sweeps == sweeps]
    policies: list[FrozenPolicy] = [results[run] for run in mine]
    return FrozenResult(
        base=setting.base,
        base_rate=base.config.learning_rates[0],
        sweeps=sweeps,
        learned=tuple(policy.learned for policy in policies),
        scores=tuple(
            _score(
                f"{policy.learned.policy.name}(reward={policy.learned.policy.reward})",
                policy_schedule(config, policy.learned.policy),
                policy.test_mse,
                policy.test_ledger,
                base,
            )
            for policy in policies
        ),
        peers=tuple(
            _score(name, schedule, *run_under(base, results[base], schedule, sweeps=count), base)
            for name, schedule, count in _peers(setting, base)
        ),
    )


def _peers(setting: FrozenSetting, base: TrainingRun) -> list[tuple[str, Schedule, int]]:
    """The schedules that frozen models are run under besides: label, schedule and sweeps."""
    config = base.config
    peers = [(name, arm_schedule(config, name), setting.sweeps(config)) for name in ONE_A_SWEEP]
    peers.append((BASELINE, arm_schedule(config, BASELINE), config.sweeps))
    if not setting.spread:
        peers += [(name, arm_schedule(config, name), config.sweeps) for name in ALL_A_SWEEP]
        graph, partition = study_graph(config), study_partition(config)
        blank = untrained_policy(
            graph, partition, config.bins, np.array(config.seeds), ordered=True
        )
        peers.append((RANDOM_ORDER, policy_schedule(config, blank), config.sweeps))
    return peers


def _score(
    label: str, schedule: Schedule, mse: np.ndarray, book: Ledger, base: TrainingRun
) -> RunTimeScore:
    fallback = [persistence(study_dataset(base.config, seed).test) for seed in base.config.seeds]
    return RunTimeScore(
        label=label,
        needs_answer=schedule.needs_answer,
        test_mse=np.where(np.isfinite(mse), mse, fallback),
        node_updates=float(book.node_updates.mean()),
        share=book.share,
        largest_age=book.largest_age,
        entropy=book.entropy,
    )
