"""Which numbers of a report moved since another one, beyond the noise that they have.

A is the report to hold to and B the one to check. A list with a number a seed is compared on the
seeds that both reports have. If it is the same to the bit, it is unchanged and needs no test.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import ttest_1samp

from clusterdyn.compare import series
from clusterdyn.compare.reading import ReportError
from clusterdyn.comparison import SIGNIFICANCE
from clusterdyn.stats import holm, paired_t_interval

ROUNDING = 1e-4
RULE = (
    "A moved number is one of these. Scores and slopes: on the seeds of both reports the paired t "
    f"test of B − A gives p < {SIGNIFICANCE:g} after Holm's adjustment over all lists that "
    f"changed, and the mean changed by more than {ROUNDING:g} of itself; or a seed is finite in "
    "one report only. A single seed that changed is told, and does not count by itself. Numbers "
    "without noise (work, learning rates chosen, yardsticks): a change by more than "
    f"{ROUNDING:g} of itself, which is more than another order of summation makes of float32 "
    "training. Verdicts: any change. What A has and B lacks counts as moved; what only B has does "
    "not. Settings and times are told and never count."
)


@dataclass(frozen=True)
class ScoreChange:
    """A list with a number a seed that is not the same to the bit in both reports.

    Attributes:
        name: of the list.
        seeds: how many both reports have.
        changed: on how many of them the numbers differ.
        before, after: means over the seeds of both on which both are finite; None without any.
        difference: their difference, B − A.
        low, high: its 95 % paired t interval, not adjusted; None for fewer than two seeds.
        adjusted_p: of the paired t test, by Holm's method over all lists that changed.
        diverged: on how many seeds only one report has a finite number.
        moved: whether that is beyond its noise.
    """

    name: str
    seeds: int
    changed: int
    before: float | None
    after: float | None
    difference: float | None
    low: float | None
    high: float | None
    adjusted_p: float | None
    diverged: int
    moved: bool


@dataclass(frozen=True)
class Change:
    """Something without noise that differs.

    Attributes:
        name: of what differs.
        before, after: in A and in B.
        moved: whether it counts.
    """

    name: str
    before: Any
    after: Any
    moved: bool


@dataclass(frozen=True)
class TimeRatio:
    """A time of B over that of A, both in seconds."""

    name: str
    before: float
    after: float
    ratio: float | None


@dataclass(frozen=True)
class ReportComparison:
    """Two reports beside each other.

    Attributes:
        a, b: where they lie.
        compared: how many score lists, figures and verdicts both have.
        scores, figures, verdicts, settings: what differs.
        missing: names that A has and B lacks.
        added: names that B has and A lacks.
        times: ratios of all times that both have.
    """

    a: str
    b: str
    compared: dict[str, int]
    scores: tuple[ScoreChange, ...]
    figures: tuple[Change, ...]
    verdicts: tuple[Change, ...]
    settings: tuple[Change, ...]
    missing: tuple[str, ...]
    added: tuple[str, ...]
    times: tuple[TimeRatio, ...]

    @property
    def moved(self) -> tuple[str, ...]:
        """Names of what moved beyond its noise, and of what B lacks."""
        changes = (*self.scores, *self.figures, *self.verdicts)
        return (*(change.name for change in changes if change.moved), *self.missing)


def compare_results(
    before: dict[str, Any], after: dict[str, Any], *, a: str = "A", b: str = "B"
) -> ReportComparison:
    """Compares the results of two reports by ``RULE``.

    Args:
        before, after: what :func:`clusterdyn.compare.reading.read_results` returned for A and B.
        a, b: where they lie, for the reader.

    Raises:
        ReportError: if results contradict themselves, with the report that does.
    """
    lists, figures, verdicts, settings, times = (
        (_of(kind, before, a), _of(kind, after, b))
        for kind in (
            series.scores,
            series.figures,
            series.verdicts,
            series.settings,
            series.seconds,
        )
    )
    told = (lists, figures, verdicts)
    apart = [name for name, (one, other) in _both(*lists) if len(one.keys() & other.keys()) < 2]
    return ReportComparison(
        a=a,
        b=b,
        compared={
            kind: len(_both(*pair))
            for kind, pair in zip(("lists", "figures", "verdicts"), told, strict=True)
        },
        scores=_score_changes([item for item in _both(*lists) if item[0] not in apart]),
        figures=tuple(
            Change(name, one, other, beyond_rounding(one, other))
            for name, (one, other) in _both(*figures)
            if one != other
        ),
        verdicts=_changes(*verdicts, moved=True),
        settings=_changes(
            *(dict.fromkeys(settings[0] | settings[1], "none") | of for of in settings),
            moved=False,
        ),
        missing=(
            *(f"{name} (fewer than two seeds in common)" for name in apart),
            *(name for one, other in told for name in one if name not in other),
        ),
        added=tuple(name for one, other in told for name in other if name not in one),
        times=tuple(
            TimeRatio(name, one, other, other / one if one > 0 else None)
            for name, (one, other) in _both(*times)
        ),
    )


def _of(kind: Any, results: dict[str, Any], place: str) -> dict[str, Any]:
    try:
        return kind(results)
    except ReportError as error:
        raise ReportError(f"{place}: {error}") from error


def _both(one: dict[str, Any], other: dict[str, Any]) -> list[tuple[str, tuple[Any, Any]]]:
    """What both have: name, and the two values."""
    return [(name, (one[name], other[name])) for name in one if name in other]


def _changes(one: dict[str, str], other: dict[str, str], *, moved: bool) -> tuple[Change, ...]:
    return tuple(Change(n, x, y, moved) for n, (x, y) in _both(one, other) if x != y)


def beyond_rounding(before: float | None, after: float | None) -> bool:
    """Whether a number changed by more than ``ROUNDING`` of itself, or is there only once."""
    if before is None or after is None:
        return before is not after
    return abs(after - before) > ROUNDING * abs(before)


def _score_changes(
    lists: list[tuple[str, tuple[series.BySeed, series.BySeed]]],
) -> tuple[ScoreChange, ...]:
    """What changed among lists with at least two seeds in common."""
    changed = [
        (name, one, other)
        for name, (one, other) in lists
        if any(one[seed] != other[seed] for seed in one.keys() & other.keys())
    ]
    pairs = [_finite_pairs(one, other) for _, one, other in changed]
    tested = [pair for pair in pairs if len(pair[0]) > 1]
    adjusted = iter(holm([_p(after - before) for before, after in tested]) if tested else ())
    return tuple(
        _score_change(*lists, pair, float(next(adjusted)) if len(pair[0]) > 1 else None)
        for lists, pair in zip(changed, pairs, strict=True)
    )


def _finite_pairs(one: series.BySeed, other: series.BySeed) -> np.ndarray:
    """(2, seeds): the numbers of both reports on the seeds on which both are finite."""
    seeds = [seed for seed in one if None not in (one[seed], other.get(seed))]
    return np.array([[each[seed] for seed in seeds] for each in (one, other)], dtype=np.float64)


def _p(differences: np.ndarray) -> float:
    # Equal differences have no spread: then any shift at all is certain.
    if np.ptp(differences) == 0:
        return 1.0 if differences[0] == 0 else 0.0
    return float(ttest_1samp(differences, 0.0).pvalue)


def _score_change(
    name: str,
    one: series.BySeed,
    other: series.BySeed,
    pair: np.ndarray,
    adjusted_p: float | None,
) -> ScoreChange:
    seeds = one.keys() & other.keys()
    diverged = sum((one[seed] is None) != (other[seed] is None) for seed in seeds)
    before, after = (float(x.mean()) if len(x) else None for x in pair)
    interval = None if adjusted_p is None else paired_t_interval(pair[1] - pair[0])
    shifted = adjusted_p is not None and adjusted_p < SIGNIFICANCE
    return ScoreChange(
        name=name,
        seeds=len(seeds),
        changed=sum(one[seed] != other[seed] for seed in seeds),
        before=before,
        after=after,
        difference=None if before is None or after is None else float((pair[1] - pair[0]).mean()),
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        adjusted_p=adjusted_p,
        diverged=diverged,
        moved=diverged > 0 or (shifted and beyond_rounding(before, after)),
    )
