"""What the study of learned schedules computes, each run kept as an artifact."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from clusterdyn.arms import (
    TrainingRun,
    message_passing_cell,
    study_dataset,
    study_graph,
    study_partition,
)
from clusterdyn.artifacts import ArtifactStore, Stage
from clusterdyn.config import StudyConfig
from clusterdyn.qlearning.config import QLearningConfig
from clusterdyn.qlearning.joint import LearnsBeside
from clusterdyn.qlearning.learning import Learned, learn_policy
from clusterdyn.qlearning.policy import Policy, untrained_policy
from clusterdyn.qlearning.schedules import learned_schedule
from clusterdyn.schedules import Schedule
from clusterdyn.strict.study import run_under
from clusterdyn.sweeps import Ledger
from clusterdyn.threads import torch_threads
from clusterdyn.training import TrainedPopulation, stack_split, train_population

Progress = Callable[[str], None] | None


@dataclass(frozen=True)
class FrozenPolicy:
    """A policy learned on models whose weights stay as they are, and its test.

    Attributes:
        learned: the policy and its learning curves.
        test_mse: (S,).
        test_ledger: what the greedy policy did on the test split.
    """

    learned: Learned
    test_mse: np.ndarray
    test_ledger: Ledger


@dataclass(frozen=True)
class JointPopulation:
    """Models trained under a policy, and the policy.

    Attributes:
        population: the models; their scores are those under the greedy policy.
        policy: after the last epoch; row s belongs to row s of the population.
    """

    population: TrainedPopulation
    policy: Policy


class _WholeRun:
    """A run that is one chunk."""

    config: StudyConfig

    only_here: ClassVar[bool] = False

    @property
    def chunks(self) -> tuple[Any, ...]:
        """Itself: it is not cut."""
        return (self,)

    @property
    def models(self) -> int:
        """S."""
        return len(self.config.seeds) * len(self.config.learning_rates)


@dataclass(frozen=True)
class FrozenRun(_WholeRun):
    """A policy learned on the models of a training run.

    Attributes:
        base: trained these models, at one learning rate.
        ordered, reward: as in ``Policy``.
        sweeps: K at run time.
        learning: how.
        artifacts: where the base is kept.
    """

    base: TrainingRun
    ordered: bool
    reward: str
    sweeps: int
    learning: QLearningConfig
    artifacts: Path

    result_type: ClassVar[type] = FrozenPolicy

    @property
    def models(self) -> int:
        """S."""
        return self.base.models

    @property
    def updates(self) -> int:
        """Updates of a learning pass."""
        config = self.base.config
        return config.horizon * self.sweeps * (config.clusters if self.ordered else 1)

    @property
    def stage(self) -> Stage:
        """What the result depends on."""
        return Stage(
            name=f"learn-{_policy_name(self.ordered)}-{self.reward}-on-{self.base.schedule}",
            module="clusterdyn.qlearning.runs",
            config={
                "ordered": self.ordered,
                "reward": self.reward,
                "sweeps": self.sweeps,
                "learning": asdict(self.learning),
            },
            upstream=(self.base.stage.key,),
        )

    def train(self, progress: Progress = None) -> FrozenPolicy:
        """Learns on the training split, follows the curve on validation, and tests once."""
        config = self.base.config
        training = config.training()
        store = ArtifactStore(self.artifacts, lambda line: None)
        population = store.load_or_compute(self.base.stage, TrainedPopulation, self.base.train)
        datasets = [study_dataset(config, seed) for seed in config.seeds]
        with torch_threads(1):
            learned = learn_policy(
                message_passing_cell(config),
                training.tensor(population.parameters),
                study_partition(config),
                stack_split(datasets, "train", training),
                stack_split(datasets, "validation", training),
                config.seeds,
                ordered=self.ordered,
                reward=self.reward,
                bins=config.bins,
                sweeps=self.sweeps,
                relaxation=config.relaxation,
                config=self.learning,
            )
        schedule = policy_schedule(config, learned.policy)
        mse, book = run_under(self.base, population, schedule, sweeps=self.sweeps)
        return FrozenPolicy(learned, mse, book)


@dataclass(frozen=True)
class JointRun(_WholeRun):
    """Models and their policies trained in turn.

    Attributes:
        config: the settings; every seed at every learning rate.
        ordered, reward: as in ``Policy``.
        learning: how the tables are learned.
    """

    config: StudyConfig
    ordered: bool
    reward: str
    learning: QLearningConfig

    result_type: ClassVar[type] = JointPopulation

    @property
    def updates(self) -> int:
        """Updates that each model trains through."""
        return _training_updates(self.config, self.ordered)

    @property
    def stage(self) -> Stage:
        """What the result depends on."""
        return Stage(
            name=f"train-{_policy_name(self.ordered)}-{self.reward}",
            module="clusterdyn.qlearning.runs",
            config={
                "ordered": self.ordered,
                "reward": self.reward,
                "learning": asdict(self.learning),
                **vars(self.config),
            },
        )

    def train(self, progress: Progress = None) -> JointPopulation:
        """Trains weights and tables in turn."""
        config = self.config
        seeds = np.repeat(config.seeds, len(config.learning_rates))
        blank = untrained_policy(
            study_graph(config),
            study_partition(config),
            config.bins,
            seeds,
            ordered=self.ordered,
            reward=self.reward,
        )
        schedule = LearnsBeside(
            policy_schedule(config, blank),
            seeds,
            reward=self.reward,
            epochs=config.epochs,
            sweeps=config.sweeps,
            relaxation=config.relaxation,
            config=self.learning,
        )
        population = _trained(config, schedule, progress)
        return JointPopulation(population, schedule.learned.learned())


@dataclass(frozen=True)
class RetrainedRun(_WholeRun):
    """Models trained anew, without exploration, under the tables that a joint run has left.

    Attributes:
        config: the settings; its seeds are those of the joint run.
        joint: that learned the tables, at one learning rate or several.
        joint_rate: whose tables are taken.
        artifacts: where the joint run is kept.
    """

    config: StudyConfig
    joint: JointRun
    joint_rate: float
    artifacts: Path

    result_type: ClassVar[type] = TrainedPopulation

    @property
    def updates(self) -> int:
        """Updates that each model trains through."""
        return _training_updates(self.config, self.joint.ordered)

    @property
    def stage(self) -> Stage:
        """What the result depends on."""
        return Stage(
            name=f"retrain-{_policy_name(self.joint.ordered)}-{self.joint.reward}",
            module="clusterdyn.qlearning.runs",
            config={"joint_rate": self.joint_rate, **vars(self.config)},
            upstream=(self.joint.stage.key,),
        )

    def train(self, progress: Progress = None) -> TrainedPopulation:
        """Trains weights alone."""
        store = ArtifactStore(self.artifacts, lambda line: None)
        joint = store.load_or_compute(self.joint.stage, JointPopulation, self.joint.train)
        (kept,) = np.nonzero(joint.population.learning_rates == self.joint_rate)
        policy = joint.policy.rows(np.repeat(kept, len(self.config.learning_rates)))
        return _trained(self.config, policy_schedule(self.config, policy), progress)


def policy_schedule(config: StudyConfig, policy: Policy) -> Schedule:
    """The greedy schedule that follows a policy."""
    return learned_schedule(study_partition(config), study_graph(config), policy)


def _policy_name(ordered: bool) -> str:
    return "q_ordered" if ordered else "q_learning"


def _training_updates(config: StudyConfig, ordered: bool) -> int:
    steps = config.epochs * (config.train_trajectories // config.batch_size)
    return steps * config.horizon * config.sweeps * (config.clusters if ordered else 1)


def _trained(config: StudyConfig, schedule: Schedule, progress: Progress) -> TrainedPopulation:
    datasets = {seed: study_dataset(config, seed) for seed in config.seeds}
    with torch_threads(1):
        return train_population(
            message_passing_cell(config),
            schedule,
            datasets,
            config.learning_rates,
            config.training(),
            progress=progress,
        )
