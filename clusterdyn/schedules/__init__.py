"""Update schedules: which clusters of nodes each update of a sweep may change.

A schedule is written as its name, or with options as in ``histogram(ties=oldest)``.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from clusterdyn.graph import Graph, Partition
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
    "schedule_name",
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
    options: Mapping[str, tuple[str, ...] | tuple[float, float]] = field(default_factory=dict)


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


def schedule_name(text: str) -> str:
    """The name in a schedule's text, without options."""
    return text.split("(")[0].strip()


def _written(text: str) -> dict[str, str]:
    """Options as they stand in ``name(option=value, option=value)``."""
    match = re.fullmatch(r"\s*\w+\s*(?:\((.*)\))?\s*", text)
    if match is None:
        raise ValueError(f"a schedule is written NAME or NAME(OPTION=VALUE, ...); got {text!r}")
    options: dict[str, str] = {}
    for part in filter(None, map(str.strip, (match[1] or "").split(","))):
        name, _, value = map(str.strip, part.partition("="))
        if name in options:
            raise ValueError(f"in {text!r}, option {name!r} is given twice")
        options[name] = value
    return options


def _options(text: str, allowed: Mapping[str, tuple]) -> dict[str, str | float]:
    """The options of a schedule's text, checked."""
    options: dict[str, str | float] = {}
    for name, value in _written(text).items():
        if name not in allowed:
            known = ", ".join(allowed) or "none"
            raise ValueError(f"schedule {text!r} has no option {name!r}; its options are: {known}")
        options[name] = _option_value(text, name, value, allowed[name])
    return options


def _option_value(text: str, name: str, value: str, allowed: tuple) -> str | float:
    if isinstance(allowed[0], str):
        if value not in allowed:
            raise ValueError(f"in {text!r}, {name} must be one of {', '.join(allowed)}")
        return value
    low, high = allowed
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not low <= number <= high:
        raise ValueError(f"in {text!r}, {name} must be a number from {low:g} to {high:g}")
    return number


def make_schedule(
    text: str, graph: Graph, partition: Partition, *, bins: int = 4, relaxation: float = 0.5
) -> Schedule:
    """Builds a schedule.

    Args:
        text: one of ``SCHEDULES``, perhaps with options.
        graph: over the nodes.
        partition: of the nodes.
        bins: m, of the disagreement histogram.
        relaxation: eta of the sweeps, which ``oracle`` tries out.

    Raises:
        ValueError: for an unknown name or option, or a partition of another number of nodes.
    """
    if partition.nodes != graph.nodes:
        raise ValueError(
            f"the partition covers {partition.nodes} nodes and the graph has {graph.nodes}; "
            "they must agree"
        )
    name = schedule_name(text)
    if name not in _REGISTRY:
        raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}; got {text!r}")
    entry = _REGISTRY[name]
    options = _options(text, entry.options)
    schedule = entry.make(_Setting(partition, graph, bins, relaxation), **options)
    if options:
        name += f"({', '.join(f'{option}={value}' for option, value in _written(text).items())})"
    schedule.name = name
    return schedule
