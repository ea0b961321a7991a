"""Settings of the experiments beyond the published setting, beside those of the study."""

from dataclasses import dataclass

from clusterdyn.settings import check_distinct, check_positive, check_types


@dataclass(frozen=True)
class LimitsConfig:
    """Where schedules are compared once more; the defaults are ``full``.

    Attributes:
        graphs: as ``StudyConfig.graph``.
        partitions: as ``StudyConfig.partition``; the clusters of a coloring follow from the graph.
        clusters: C, of the study's own partition.
        nodes: n, with as many clusters as the study has.
        node_epochs: training epochs at other n than the study's.
        sweeps: K of the full sweep; a schedule that moves one cluster a sweep gets K C.
        relaxations: eta in training and at test.
        rates: of the grids, in place of the strict protocol's; they are extended as there.
        largest_updates: updates a time step beyond which a schedule is left out.
        largest_choices: the same for schedules that look at the state before each of them.
        law_seeds: models that the eta-squared law is measured on, from the first test seed.
    """

    graphs: tuple[str, ...] = ("torus", "random_regular(degree=4, seed=0)", "complete")
    partitions: tuple[str, ...] = ("strided", "random", "coloring")
    clusters: tuple[int, ...] = (8,)
    nodes: tuple[int, ...] = (64, 128)
    node_epochs: int = 2
    sweeps: tuple[int, ...] = (1, 2, 6, 12, 24)
    relaxations: tuple[float, ...] = (0.1, 1.0)
    rates: tuple[float, ...] = (0.00316, 0.01, 0.0316)
    largest_updates: int = 24
    largest_choices: int = 12
    law_seeds: int = 4

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(
            self,
            (
                "clusters", "nodes", "node_epochs", "sweeps", "relaxations", "rates",
                "largest_updates", "largest_choices", "law_seeds",
            ),
        )  # fmt: skip
        for name in ("graphs", "partitions", "clusters", "nodes", "sweeps", "relaxations"):
            check_distinct(name, getattr(self, name))
        if max(self.relaxations) > 1:
            raise ValueError(f"relaxations must lie in (0, 1]; got {list(self.relaxations)}")
        if self.law_seeds < 2:
            raise ValueError(f"law_seeds must be at least 2; got {self.law_seeds}")
