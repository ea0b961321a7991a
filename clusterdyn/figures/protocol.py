"""Figures of notebook 06, and the looks and marks that all figures of the strict protocol share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from clusterdyn.comparison import EQUIVALENCE_MARGIN, SIGNIFICANCE
from clusterdyn.display import GRID, INK, MUTED
from clusterdyn.figures.style import BASELINE, IDEA, Picture, label, legend, new_figure, spread
from clusterdyn.protocol import Study
from clusterdyn.provenance import describe
from clusterdyn.stats import paired_t_interval
from clusterdyn.strict.arms import Arm, claim_budget, compared
from clusterdyn.strict.claims import Claim, arm_at_budget
from clusterdyn.strict.study import GRU, ArmResult
from clusterdyn.strict.tables import found_interval

POWER = 0.8  # that a detectable effect is found with


@dataclass(frozen=True)
class Look:
    """How a schedule is drawn everywhere.

    Attributes:
        colour: unlike that of any other schedule of its group.
        marker: its own.
        dashes: of its group.
    """

    colour: str
    marker: str
    dashes: tuple[float, ...] = ()

    @property
    def line(self) -> dict:
        """Keywords of ``Axes.plot``."""
        style = (0, self.dashes) if self.dashes else "-"
        return {"color": self.colour, "marker": self.marker, "linestyle": style}


_DASHED, _CHAINED, _DOTTED = (5, 2), (6, 2, 1.5, 2), (1.5, 1.5)
GROUPS = {
    "all nodes in a sweep": {
        "full": Look(BASELINE, "o"),
        "cluster_sequential": Look("#E69F00", "s"),
        "sequential": Look("#009E73", "^"),
        "histogram_ordered": Look("#CC79A7", "D"),
    },
    "one cluster, in turn or by lot": {
        "round_robin": Look("#009E73", "v", _DASHED),
        "random": Look("#E69F00", "P", _DASHED),
        "clockwork": Look("#8C6BB1", "X", _DASHED),
    },
    "one cluster, by the histogram": {
        "histogram": Look(IDEA, "*", _CHAINED),
        "histogram_fair": Look("#999933", "h", _CHAINED),
    },
    "one cluster, by the residual or the answer": {
        "residual": Look("#CC79A7", "<", _DOTTED),
        "residual(norm=max)": Look("#56B4E9", ">", _DOTTED),
        "residual(norm=mean)": Look("#8C6BB1", "p", _DOTTED),
        "oracle": Look(MUTED, "d", _DOTTED),
    },
}
_OWN = Look(INK, "H")  # a schedule that is in no group
LOOKS = {name: look for group in GROUPS.values() for name, look in group.items()}
_VERDICTS = {"helps": BASELINE, "harms": IDEA, "equivalent": "#009E73", "unclear": MUTED}


def look_of(schedule: str) -> Look:
    """How a schedule is drawn."""
    return LOOKS.get(schedule, _OWN)


def groups_of(study: Study) -> dict[str, dict[str, Look]]:
    """The groups, and one more if the study's own idea is in none of them."""
    idea = study.config.schedule
    return GROUPS if idea in LOOKS else {**GROUPS, "the idea of this study": {idea: _OWN}}


def provenance(study: Study) -> str:
    """Where a figure of the strict study came from."""
    return describe(study.label, study.strict_study.stage, study.strict_study.inference_stage)


def log_scale(
    axis: Axes,
    direction: str,
    values: np.ndarray | None = None,
    *,
    digits: tuple[int, ...] = (1, 2, 5),
) -> None:
    """Makes the x or y axis logarithmic, its ticks plain numbers.

    Args:
        axis: the panel.
        direction: x or y.
        values: that the axis should just hold; an interval may then run out of it.
        digits: that a tick may begin with.
    """
    getattr(axis, f"set_{direction}scale")("log")
    if values is not None:
        finite = values[np.isfinite(values)]
        getattr(axis, f"set_{direction}lim")(finite.min() / 1.2, finite.max() * 1.2)
    ticks = getattr(axis, f"{direction}axis")
    ticks.set_major_locator(LogLocator(subs=digits))
    ticks.set_major_formatter(StrMethodFormatter("{x:g}"))
    ticks.set_minor_locator(NullLocator())


def draw_mean(axis: Axes, x: float, values: np.ndarray, colour: str, marker: str) -> None:
    """A mean with its 95 % t interval."""
    mean, interval = values.mean(), paired_t_interval(values)
    ends = [[mean - interval.low], [interval.high - mean]]
    axis.errorbar(x, mean, yerr=ends, fmt=marker, color=colour, capsize=3, markersize=6)


def draw_ratios(axis: Axes, claims: Sequence[Claim], names: Sequence[str]) -> None:
    """A row a claim, from the top: a dot a seed, the ratio and its interval, and the verdict."""
    margin = (1 - EQUIVALENCE_MARGIN, 1 + EQUIVALENCE_MARGIN)
    axis.axvspan(*margin, color=MUTED, alpha=0.18, linewidth=0)
    axis.axvline(1, color=MUTED, linewidth=1)
    columns = {"ratio, 95 %": 8, "adj. p": 104, "verdict": 149}  # in points, right of the panel
    for row, claim in enumerate(claims):
        ratio, colour = claim.comparison.ratio, _VERDICTS[claim.verdict]
        ratios = claim.comparison.treatment / claim.comparison.baseline
        offsets = spread(len(ratios), 0.25)
        axis.plot(ratios, row + offsets, ".", color=colour, alpha=0.35, markersize=4)
        axis.errorbar(
            ratio.ratio,
            row,
            xerr=[[ratio.ratio - ratio.low], [ratio.high - ratio.ratio]],
            fmt="D",
            color=INK,
            capsize=3.5,
            markersize=4.5,
        )
        interval = f"{_short(ratio.ratio)} [{_short(ratio.low)}, {_short(ratio.high)}]"
        cells = (interval, f"{claim.adjusted_p:.2g}", claim.verdict)
        for cell, place in zip(cells, columns.values(), strict=True):
            _beside(axis, cell, (1, row), ("axes fraction", "data"), (place, 0), va="center")
    for name, place in columns.items():
        _beside(axis, name, (1, 1), "axes fraction", (place, 5), color=MUTED)
    log_scale(axis, "x")
    axis.set_yticks(range(len(claims)), names, fontsize=9)
    axis.set_ylim(len(claims) - 0.4, -0.6)


def _short(ratio: float) -> str:
    return f"{ratio:.2f}" if 0.1 <= ratio < 10 else f"{ratio:.2g}"


def _beside(axis: Axes, text: str, place: tuple, coordinates: object, move: tuple, **look) -> None:
    axis.annotate(
        text,
        place,
        xycoords=coordinates,
        xytext=move,
        textcoords="offset points",
        fontsize=9,
        **look,
    )


def _selected_arms(study: Study) -> dict[str, dict[str, ArmResult]]:
    """For every panel the arms at the study's own sweeps and at the budget of the claims."""
    result, budget = study.strict, claim_budget(study.strict_config)
    panels = {}
    for schedule in compared(study.config):
        panels[schedule] = {_own_sweeps(study): result.of(Arm(schedule))}
        arm = arm_at_budget(result, study.config, schedule, budget)
        if arm is not None and arm != Arm(schedule):
            panels[schedule][_about(budget)] = result.of(arm)
    panels[f"gru, K = {dict(GRU.changes)['sweeps']}"] = {_own_sweeps(study): result.of(GRU)}
    return panels


def _own_sweeps(study: Study) -> str:
    return f"K = {study.config.sweeps}"


def _about(budget: int) -> str:
    return f"about {budget} node updates"


def strict_selection(study: Study) -> Picture:
    """Validation MSE against learning rate, with what was selected and where grids grew."""
    panels = _selected_arms(study)
    base = (min(study.strict_config.selection_rates), max(study.strict_config.selection_rates))
    columns = 4
    rows = -(-(len(panels) + 1) // columns)  # one more panel for the legend
    figure, axes = new_figure(columns, rows, width=8.4, height=2 * rows, sharex=True, sharey=True)
    styles = {
        _own_sweeps(study): ("o", "-", BASELINE),
        _about(claim_budget(study.strict_config)): ("^", "--", IDEA),
    }
    for axis, (name, arms) in zip(axes.flat, panels.items(), strict=False):
        for edge in base:
            axis.axvline(edge, color=MUTED, linewidth=0.9, linestyle=":")
        for which, arm in arms.items():
            _draw_grid(axis, arm, base, *styles[which])
        axis.set_title(name, fontsize=9, loc="left")
        axis.set_xscale("log"), log_scale(axis, "y", digits=(1,))
        axis.minorticks_off()
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    _selection_legend(axes.flat[len(panels)], styles)
    figure.supxlabel("learning rate", fontsize=10)
    figure.supylabel("validation MSE [standardised]", fontsize=10)
    shown = [arm for arms in panels.values() for arm in arms.values()]
    edges = sum(arm.at_edge for arm in shown)
    grown = sum(arm.extensions > 0 for arm in shown)
    rates = [arm.rate for arm in shown]
    return Picture(
        figure,
        "strict_selection",
        f"{len(panels)} small panels of validation MSE against learning rate. The {len(shown)} "
        f"arms select rates from {min(rates):g} to {max(rates):g}; {grown} grids grew, {edges} "
        "selected rates are still an edge.",
        f"A dot a selection seed ({len(shown[0].validation)} of them), lines their means, squares "
        "the selected rates. Dotted: the edges of the grid that all arms start with; shaded: rates "
        "that an arm's grid grew by. A rate at which a model diverged has no mean "
        f"({sum(arm.selection_diverged for arm in shown)} models).",
        provenance(study),
    )


def _draw_grid(
    axis: Axes,
    arm: ArmResult,
    base: tuple[float, float],
    marker: str,
    style: str,
    colour: str,
) -> None:
    for low, high in ((arm.rates.min(), base[0]), (base[1], arm.rates.max())):
        if low < high:
            axis.axvspan(low, high, color=GRID, alpha=0.6, linewidth=0, zorder=0)
    scores = np.where(np.isfinite(arm.validation), arm.validation, np.nan)
    axis.plot(arm.rates, scores.T, marker, color=colour, alpha=0.3, markersize=2.5)
    means = scores.mean(axis=0)
    axis.plot(arm.rates, means, linestyle=style, color=colour, linewidth=1.3)
    axis.plot(
        arm.rate, means[arm.selected], "s", color=colour, markersize=9, markerfacecolor="none"
    )


def _selection_legend(axis: Axes, styles: dict[str, tuple[str, str, str]]) -> None:
    for which, (marker, style, colour) in styles.items():
        axis.plot([], [], color=colour, marker=marker, linestyle=style, label=which, markersize=4)
    axis.plot([], [], "s", color=MUTED, markerfacecolor="none", markersize=9, label="selected")
    axis.plot([], [], ":", color=MUTED, label="edge of the grid")
    axis.fill_between([], [], [], color=GRID, label="extension")
    legend(axis, loc="center left")
    axis.get_legend().set_in_layout(False)  # it may reach into the next free panel


def strict_null(study: Study) -> Picture:
    """The full sweep against itself: differences of all seeds, the mean, and its intervals."""
    (claim,) = study.inference.family("null")
    comparison = claim.comparison
    figure, axes = new_figure(width=8.4, height=1.9 + 0.13 * len(comparison.seeds))
    axis, order = axes[0, 0], np.argsort(comparison.differences)
    for row, index in enumerate(order):
        axis.plot(comparison.differences[index], row, "o", color=BASELINE, markersize=4.5)
    names = [f"seed {seed}" for seed in comparison.seeds[order]]
    axis.set_yticks(range(len(order)), names, fontsize=7.5)
    t, flip = comparison.t_interval, comparison.sign_flip_interval
    gap = 1 + 0.05 * len(order)
    for place, (interval, marker, name) in enumerate(
        ((flip, "s", "sign-flip"), (t, "D", "t")), start=1
    ):
        mean = comparison.mean_difference
        axis.errorbar(
            mean,
            -gap * place,
            xerr=[[mean - interval.low], [interval.high - mean]],
            fmt=marker,
            color=MUTED,
            capsize=4,
            label=f"mean, {name} interval {interval.confidence_level:.1%}",
        )
    margin = comparison.margin
    axis.axvspan(-margin, margin, color=MUTED, alpha=0.18, linewidth=0, label="equivalence margin")
    axis.axvline(0, color=MUTED, linewidth=1)
    axis.locator_params(axis="x", nbins=6)
    axis.set_ylim(-2.8 * gap, len(order) - 0.4)
    label(axis, x="test MSE, other minibatch order − first order [standardised]")
    legend(axis, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return Picture(
        figure,
        "strict_null",
        f"A dot a seed for the difference of the full sweep from itself, "
        f"{comparison.differences.min():.2g} to {comparison.differences.max():.2g}. The t interval "
        f"of the mean runs from {t.low:.2g} to {t.high:.2g}, the margin is ±{margin:.2g}.",
        "Both arms are the same schedule, data and initial weights; only the order of the "
        f"minibatches differs. The sign-flip p is {comparison.test.pvalue:.2g}; the verdict is "
        f"{claim.verdict}.",
        provenance(study),
    )


def strict_power(study: Study) -> Picture:
    """Share of simulated studies that find an improvement, beside what is promised."""
    power, intervals = study.inference.power, found_interval(study)
    figure, axes = new_figure(width=8.4, height=4.2)
    axis, percent = axes[0, 0], 100 * power.improvements
    axis.axhline(SIGNIFICANCE, color=MUTED, linewidth=1, linestyle=":", label="level")
    axis.axhline(POWER, color=MUTED, linewidth=1, linestyle="--", label=f"power of {POWER:.0%}")
    axis.axvline(
        100 * power.detectable,
        color=MUTED,
        linewidth=1.2,
        linestyle="-.",
        label=f"detectable, {power.detectable:.1%}",
    )
    axis.plot(percent, power.promised, "s-", color=IDEA, markersize=4, label="promised")
    axis.errorbar(
        percent,
        power.found,
        yerr=np.abs(intervals.T - power.found),
        fmt="o",
        color=BASELINE,
        capsize=4,
        label="found in simulation",
    )
    axis.set_ylim(-0.03, 1.03)
    label(axis, x="improvement of the mean test MSE [%]", y="share of studies")
    legend(axis, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Picture(
        figure,
        "strict_power",
        f"Share of studies that find an improvement, from {power.found[0]:.1%} at none to "
        f"{power.found[-1]:.1%} at {power.improvements[-1]:.0%}. An improvement of "
        f"{power.detectable:.1%} is promised to be found with {POWER:.0%} power.",
        f"Circles: share of {power.studies} simulated studies of {power.seeds} seeds, drawn from "
        "the null arms' scores, whose sign-flip test finds the improvement, with Clopper–Pearson "
        "95 % intervals; at no improvement this is the false alarm rate. Squares: a paired t test "
        "by the noncentral t distribution. No adjustment for several claims.",
        provenance(study),
    )
