"""Published figure beside this run's, each with the rule that says whether they agree.

Only some rows are evidence. Settings were set; the baseline's grid was fitted; and the values of
single seeds follow from their mean and spread. What is left was measured, and a row of it says
something about the idea if a copy of the baseline in the idea's place would not be within.

Seeds are labels here and there: the two programs draw different numbers from the same seed, so
per-seed values are compared in ascending order, not seed by seed.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterdyn.comparison import SIGNIFICANCE
from clusterdyn.stats import paired_t_interval

_SETTINGS = frozenset(
    {
        "bench_version", "track", "model", "metric_direction", "n_seeds", "n", "n_pairs", "lr",
        "epochs", "clusters", "histogram_bins", "eta", "eta2", "paired_seeds", "dataset_sizes",
    }
)  # fmt: skip
_SELECTED = ("baseline.best_cfg.lr", "protocol_notes.selected_idea_cfg.lr")
# The sizes were chosen by the three grid means of the baseline; what it selects, and its mean
# over all seeds, follow from them.
_FITTED = ("baseline.best_cfg.lr", "baseline.full.mean")
KINDS = {
    "measured": "measured by both",
    "fitted": "what the sizes were fitted to, and what follows from it",
    "seed": "values of single seeds, in ascending order, which follow from the means and spreads",
    "setting": "set, not measured",
}
MEAN_FACTOR = 1.5
SPREAD_FACTOR = 2.0


@dataclass(frozen=True)
class Agreement:
    """One figure of the published report.

    Attributes:
        figure: its place in the report's JSON.
        published, measured: the two values, as text.
        rule: what "within" asks.
        within: whether the rule holds.
        within_without_idea: whether it would, were the idea's arm a copy of the baseline.
        kind: a key of ``KINDS``.
        ratio: measured over published, or None where one of them is no quantity.
    """

    figure: str
    published: str
    measured: str
    rule: str
    within: bool
    within_without_idea: bool
    kind: str
    ratio: float | None


@dataclass(frozen=True)
class Allowed:
    """What a figure may be.

    Attributes:
        rule: the same in words.
        low, high: its range, both ends included; None for a figure that has one value.
        value: that value.
    """

    rule: str
    low: float | None = None
    high: float | None = None
    value: Any = None

    def holds(self, measured: Any) -> bool:
        """Whether a figure that was measured is allowed."""
        if self.low is None or self.high is None:
            return measured == self.value
        return self.low <= measured <= self.high


def agreement(
    published: dict[str, Any], measured: dict[str, Any], without_idea: dict[str, Any]
) -> tuple[Agreement, ...]:
    """Every figure of the published report beside this run's.

    Args:
        published: ``published_report()``.
        measured: ``bench_report(...)`` of a study.
        without_idea: the same of its result ``without_idea(...)``.
    """
    differences = published["comparison"]["per_seed_diffs"]
    ours, copied = (dict(leaves_of(_ordered(report))) for report in (measured, without_idea))
    rows = []
    for figure, value in leaves_of(_ordered(published)):
        rule = allowed(figure, value, differences)
        within, within_without_idea = (
            leaves.get(figure) is not None and rule.holds(leaves[figure])
            for leaves in (ours, copied)
        )
        found = ours.get(figure)
        rows.append(
            Agreement(
                figure=figure,
                published=_text(value),
                measured=_text(found),
                rule=rule.rule,
                within=within,
                within_without_idea=within_without_idea,
                kind=kind_of(figure),
                ratio=_ratio(value, found),
            )
        )
    return tuple(rows)


def kind_of(figure: str) -> str:
    """What sort of figure stands at a place, a key of ``KINDS``."""
    leaf = _name(figure)
    if leaf in _SETTINGS and figure not in _SELECTED:
        return "setting"
    if figure in _FITTED or figure.startswith("baseline.sweep"):
        return "fitted"
    return "seed" if leaf in ("per_seed", "per_seed_diffs") else "measured"


def _ratio(published: Any, measured: Any) -> float | None:
    if not (isinstance(published, float) and isinstance(measured, float) and published != 0):
        return None
    return measured / published


def allowed(figure: str, published: Any, differences: list[float]) -> Allowed:
    """What a figure may be, to agree with a published one.

    Args:
        figure: its place in the report, as in ``Agreement``.
        published: its value there.
        differences: the published difference of each seed.
    """
    leaf = _name(figure)
    if figure.startswith("comparison.per_seed_diffs"):
        spread = 2 * float(np.std(differences, ddof=1))
        return Allowed(f"± {spread:.2g} (2 sd)", published - spread, published + spread)
    if figure == "comparison.delta_mean":
        interval = paired_t_interval(differences)
        words = f"in the published 95 % interval [{interval.low:.2g}, {interval.high:.2g}]"
        return Allowed(words, interval.low, interval.high)
    if figure == "comparison.p_value":
        below = (0.0, math.nextafter(SIGNIFICANCE, 0))
        side = below if published < SIGNIFICANCE else (SIGNIFICANCE, 1.0)
        return Allowed(f"same side of {SIGNIFICANCE:g}", *side)
    if leaf in ("mean", "observed_linf", "eta2_ratio_range"):
        return _factor(MEAN_FACTOR, published)
    if leaf in ("std", "mde", "mde_rel_pct", "per_seed"):
        return _factor(SPREAD_FACTOR, published)
    if leaf in ("eta", "eta2", "lr"):
        return Allowed("equal", published * (1 - 1e-9), published * (1 + 1e-9))
    return Allowed("equal", value=published)


def _name(figure: str) -> str:
    """The last field of a place in the report."""
    return figure.split(".")[-1].split("[")[0]


def _factor(factor: float, published: float) -> Allowed:
    rule = f"factor {factor:g}"
    if not published > 0:  # nothing is a factor away from it
        return Allowed(rule, math.inf, -math.inf)
    return Allowed(rule, published / factor, published * factor)


def _ordered(report: dict[str, Any]) -> dict[str, Any]:
    """The report with its per-seed values in ascending order."""
    return {
        key: sorted(value)
        if key in ("per_seed", "per_seed_diffs")
        else _ordered(value)
        if isinstance(value, dict)
        else value
        for key, value in report.items()
    }


def leaves_of(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """(place, value) of every figure of a report."""
    if isinstance(value, dict):
        pairs = [(f"{path}.{key}" if path else key, item) for key, item in value.items()]
    elif isinstance(value, list):
        pairs = [(f"{path}[{i}]", item) for i, item in enumerate(value)]
    else:
        return [(path, value)]
    return [leaf for place, item in pairs for leaf in leaves_of(item, place)]


def _text(value: Any) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
