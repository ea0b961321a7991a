"""Settings of the experiments beyond the published setting, beside those of the study."""

from dataclasses import dataclass

from clusterdyn.settings import check_distinct, check_positive, check_types


@dataclass(frozen=True)
class LimitsConfig:
    """Where schedules are compared once more; the defaults are ``full``.

    Attributes:
        other_graphs: as ``StudyConfig.graph``.
        other_partitions: as ``StudyConfig.partition``; the clusters of a coloring follow from the
            graph.
        other_clusters: C, of the study's own partition.
        other_nodes: n, with as many clusters as the study has.
        other_nodes_trajectories, other_nodes_batch, other_nodes_epochs: size of the training
            split, trajectories an optimiser step, and epochs at other n than the study's.
        other_sweeps: K of the full sweep; a schedule that moves one cluster a sweep gets K C.
        other_relaxations: eta in training and at test.
        largest_updates: updates a time step beyond which a schedule is left out.
        largest_choices: the same for schedules that look at the state before each of them.
        law_seeds: models that the eta-squared law is measured on, from the first test seed.
    """

    other_graphs: tuple[str, ...] = ("torus", "random_regular(degree=4, seed=0)", "complete")
    other_partitions: tuple[str, ...] = ("strided", "random", "coloring")
    other_clusters: tuple[int, ...] = (2, 8)
    other_nodes: tuple[int, ...] = (64, 256, 1024)
    other_nodes_trajectories: int = 100
    other_nodes_batch: int = 5
    other_nodes_epochs: int = 2
    other_sweeps: tuple[int, ...] = (1, 2, 6, 12, 24)
    other_relaxations: tuple[float, ...] = (0.1, 1.0)
    largest_updates: int = 24
    largest_choices: int = 12
    law_seeds: int = 4

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(
            self,
            (
                "other_clusters", "other_nodes", "other_nodes_trajectories", "other_nodes_batch",
                "other_nodes_epochs", "other_sweeps",
                "other_relaxations", "largest_updates", "largest_choices", "law_seeds",
            ),
        )  # fmt: skip
        for name in (
            "other_graphs", "other_partitions", "other_clusters", "other_nodes", "other_sweeps",
            "other_relaxations",
        ):  # fmt: skip
            check_distinct(name, getattr(self, name))
        if max(self.other_relaxations) > 1:
            raise ValueError(
                f"other_relaxations must lie in (0, 1]; got {list(self.other_relaxations)}"
            )
        if self.law_seeds < 2:
            raise ValueError(f"law_seeds must be at least 2; got {self.law_seeds}")
