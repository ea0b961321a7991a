"""Which clusters the idea's selected models update at test, and which of them starve."""

from dataclasses import dataclass

import numpy as np

from clusterdyn.arms import arm_schedule
from clusterdyn.config import StudyConfig
from clusterdyn.protocol import Study
from clusterdyn.schedules import Histogram


@dataclass(frozen=True)
class Choices:
    """What a schedule chose on the test split, over an arm's selected models.

    Attributes:
        share: (C,), of the cluster updates, mean over models.
        ever: (C,), bool: whether any model updated the cluster in any test rollout.
        sizes: (C,), nodes.
        longest_wait: of any node of any rollout, in sweeps.
    """

    share: np.ndarray
    ever: np.ndarray
    sizes: np.ndarray
    longest_wait: int

    @property
    def clusters(self) -> int:
        """C."""
        return len(self.share)

    @property
    def updated(self) -> int:
        """Clusters that were ever updated."""
        return int(self.ever.sum())

    @property
    def starves(self) -> bool:
        """Whether some cluster was never updated."""
        return self.updated < self.clusters

    @property
    def nodes(self) -> int:
        """n."""
        return int(self.sizes.sum())

    @property
    def still_nodes(self) -> int:
        """Nodes that never moved in any test rollout."""
        return int(self.sizes[~self.ever].sum())


def choices_at_test(study: Study) -> Choices:
    """What the idea's models chose at test, at the selected learning rate."""
    config, rows = study.config, _selected(study)
    book = study.population(config.schedule).test_ledger
    share = book.share[rows]  # (seeds, C)
    return Choices(
        share=share.mean(axis=0),
        ever=(share > 0).any(axis=0),
        sizes=arm_schedule(config, config.schedule).partition.sizes,
        longest_wait=int(book.largest_age[rows].max()),
    )


def work_ratio(study: Study) -> float:
    """The idea's node updates at test over the baseline's."""
    baseline, idea = (
        study.population(arm).test_ledger.node_updates
        for arm in (study.config.baseline, study.config.schedule)
    )
    return float(idea[_selected(study)].mean() / baseline.mean())


def _selected(study: Study) -> slice:
    """The idea's models at its selected learning rate, among all of its population."""
    config = study.config
    return slice(study.grid(config.schedule).selected, None, len(config.learning_rates))


def lowest_wins_ties(config: StudyConfig) -> bool:
    """Whether the idea is the histogram under this project's own rule for ties."""
    schedule = arm_schedule(config, config.schedule)
    return type(schedule) is Histogram and schedule.ties == "lowest"
