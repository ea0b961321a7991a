"""The arms of the study of learned schedules, and whom each is compared with."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from clusterdyn.config import StudyConfig
from clusterdyn.qlearning.config import REWARDS, QLearningConfig
from clusterdyn.qlearning.runs import JointRun, RetrainedRun
from clusterdyn.strict.arms import BASELINE, Arm, at_work, nodes_per_sweep
from clusterdyn.strict.config import StrictConfig

# One cluster a sweep, and all clusters once a sweep: what a learned schedule is held against.
ONE_A_SWEEP = ("random", "round_robin", "histogram", "histogram_fair", "residual", "oracle")
ALL_A_SWEEP = ("cluster_sequential", "histogram_ordered")
RANDOM_ORDER = "random order"  # all clusters once a sweep, in a random order: an untrained table
RETRAINED = ", retrained"  # what the label of a joint arm that was trained anew ends in
# Of the trained ones at the full sweep's work, for the schedule that orders.
AT_FULL_WORK = ("random", "round_robin", "residual", *ALL_A_SWEEP, BASELINE)


@dataclass(frozen=True)
class FrozenSetting:
    """Models that were trained under one schedule and are run under others.

    Attributes:
        base: the schedule of their training.
        spread: whether one cluster a sweep gets C times the sweeps: the node updates of the full
            sweep, and not its sweeps.
    """

    base: str
    spread: bool

    def sweeps(self, config: StudyConfig) -> int:
        """K at run time."""
        return config.sweeps * (config.clusters if self.spread else 1)


SETTINGS = (
    FrozenSetting("round_robin", spread=False),
    FrozenSetting("full", spread=False),
    FrozenSetting("full", spread=True),
)


@dataclass(frozen=True)
class JointArm(Arm):
    """A policy learned while its models are trained; its learning rate is selected as any arm's.

    Attributes:
        reward: as in ``Policy``.
        learning: how tables are learned.
    """

    reward: str = "residual"
    learning: QLearningConfig = field(default_factory=QLearningConfig)

    @property
    def ordered(self) -> bool:
        """Whether all clusters move once a sweep."""
        return self.schedule == "q_ordered"

    @property
    def label(self) -> str:
        """The arm in words."""
        return f"{self.schedule}(reward={self.reward})"

    def test_seeds(self, strict: StrictConfig) -> tuple[int, ...]:
        """Seeds that it is tested on."""
        return strict.test_seeds[: self.learning.ordered_test_seeds if self.ordered else None]

    def run(
        self, config: StudyConfig, seeds: tuple[int, ...], rates: tuple[float, ...]
    ) -> JointRun:
        """The arm trained on some seeds, at some learning rates."""
        settled = replace(config, seeds=seeds, learning_rates=rates)
        return JointRun(settled, self.ordered, self.reward, self.learning)


@dataclass(frozen=True)
class RetrainedArm(JointArm):
    """Models trained anew, without exploration, under the tables that a joint arm has left.

    Attributes:
        joint_rate: the learning rate that was selected for the joint arm, whose tables are taken.
        joint_runs: that learned these tables, one on the selection seeds and one on the test seeds.
        artifacts: where they are kept.
    """

    joint_rate: float = 0.0
    joint_runs: tuple[JointRun, ...] = ()
    artifacts: Path = Path()

    @property
    def label(self) -> str:
        """The arm in words."""
        return f"{super().label}{RETRAINED}"

    def run(
        self, config: StudyConfig, seeds: tuple[int, ...], rates: tuple[float, ...]
    ) -> RetrainedRun:
        """The arm trained on some seeds, at some learning rates."""
        settled = replace(config, seeds=seeds, learning_rates=rates)
        (joint,) = (run for run in self.joint_runs if run.config.seeds == seeds)
        return RetrainedRun(settled, joint, self.joint_rate, self.artifacts)


def joint_arms(learning: QLearningConfig) -> tuple[JointArm, ...]:
    """Every joint arm."""
    kinds = [("q_learning", REWARDS), ("q_ordered", learning.ordered_rewards)]
    return tuple(
        JointArm(schedule, reward=reward, learning=learning)
        for schedule, rewards in kinds
        for reward in rewards
    )


def peers_of(config: StudyConfig, arm: JointArm) -> tuple[Arm, ...]:
    """Arms of the strict study at a joint arm's node updates."""
    if not arm.ordered:
        return tuple(Arm(name) for name in ONE_A_SWEEP)
    budget = round(nodes_per_sweep(config, BASELINE) * config.sweeps)
    found = [at_work(config, name, budget) for name in AT_FULL_WORK]
    return tuple(arm for arm in found if arm is not None)
