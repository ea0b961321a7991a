"""Update schedules: which clusters of nodes each update of a sweep may change.

A schedule is written as its name, or with options as in ``histogram(ties=oldest)``, or, if it is a
user's own, as ``package.module:Class``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from clusterdyn.graph import Graph, Partition
from clusterdyn.options import Allowed, name_of, parse_options, written_options
from clusterdyn.schedules.adaptive import (
    NORMS,
    TIES,
    Histogram,
    HistogramFair,
    HistogramOrdered,
    Oracle,
    Residual,
)
from clusterdyn.schedules.base import NextLoss, Schedule, StaticSchedule, SweepView
from clusterdyn.schedules.drawn import SHARES, NoisyRoundRobin, RandomCluster
from clusterdyn.schedules.own import is_own, own_schedule
from clusterdyn.schedules.static import (
    Clockwork,
    ClusterSequential,
    Full,
    RoundRobin,
    Sequential,
)

__all__ = [
    "SCHEDULES",
    "Clockwork",
    "ClusterSequential",
    "Full",
    "Histogram",
    "HistogramFair",
    "HistogramOrdered",
    "NextLoss",
    "NoisyRoundRobin",
    "Oracle",
    "RandomCluster",
    "Residual",
    "RoundRobin",
    "Schedule",
    "Sequential",
    "StaticSchedule",
    "SweepView",
    "make_schedule",
]


@dataclass(frozen=True)
class _Setting:
    """What a schedule's constructor may need from the study."""

    partition: Partition
    graph: Graph
    bins: int
    relaxation: float


@dataclass(frozen=True)
class _Entry:
    """How a schedule is made, and its options: the values allowed, or the range of a number."""

    make: Callable[..., Schedule]
    options: Mapping[str, Allowed] = field(default_factory=dict)


def _round_robin(setting: _Setting, noise: float = 0.0) -> Schedule:
    return NoisyRoundRobin(setting.partition, noise) if noise else RoundRobin(setting.partition)


_REGISTRY: dict[str, _Entry] = {
    "full": _Entry(lambda s: Full(s.partition)),
    "sequential": _Entry(lambda s: Sequential(s.partition)),
    "cluster_sequential": _Entry(lambda s: ClusterSequential(s.partition)),
    "round_robin": _Entry(_round_robin, {"noise": (0.0, 1.0)}),
    "random": _Entry(lambda s, **o: RandomCluster(s.partition, **o), {"share": SHARES}),
    "clockwork": _Entry(lambda s: Clockwork(s.partition)),
    "histogram": _Entry(
        lambda s, **o: Histogram(s.partition, s.graph, s.bins, **o),
        {"ties": TIES, "share": SHARES[:2]},
    ),
    "histogram_fair": _Entry(
        lambda s, **o: HistogramFair(s.partition, s.graph, s.bins, **o),
        {"age_weight": (0.0, 1e3), "share": SHARES[:2]},
    ),
    "histogram_ordered": _Entry(lambda s: HistogramOrdered(s.partition, s.graph, s.bins)),
    "residual": _Entry(lambda s, **o: Residual(s.partition, **o), {"norm": NORMS}),
    "oracle": _Entry(lambda s: Oracle(s.partition, s.relaxation)),
}
SCHEDULES = tuple(_REGISTRY)


def make_schedule(
    text: str, graph: Graph, partition: Partition, *, bins: int = 4, relaxation: float = 0.5
) -> Schedule:
    """Builds a schedule.

    Args:
        text: one of ``SCHEDULES``, perhaps with options, or ``package.module:Class``, whose
            constructor gets those of partition, graph, bins and relaxation that it asks for.
        graph: over the nodes.
        partition: of the nodes.
        bins: m, of the disagreement histogram.
        relaxation: eta of the sweeps, which ``oracle`` tries out.

    Raises:
        ValueError: for an unknown name or option, a partition of another number of nodes, or a
            class that cannot be imported or built.
    """
    if partition.nodes != graph.nodes:
        raise ValueError(
            f"the partition covers {partition.nodes} nodes and the graph has {graph.nodes}; "
            "they must agree"
        )
    setting = _Setting(partition, graph, bins, relaxation)
    if is_own(text):
        return own_schedule(text, vars(setting))
    name = name_of(text)
    if name not in _REGISTRY:
        raise ValueError(
            f"schedule must be one of {', '.join(SCHEDULES)} or, for your own, "
            f"package.module:Class; got {text!r}"
        )
    entry = _REGISTRY[name]
    options = parse_options(text, "schedule", entry.options)
    schedule = entry.make(setting, **options)
    if options:
        written = written_options(text, "schedule")
        name += f"({', '.join(f'{option}={value}' for option, value in written.items())})"
    schedule.name = name
    return schedule
