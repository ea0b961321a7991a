"""Figures of notebook 10: other graphs, partitions, sizes, sweeps and relaxation factors."""

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes

from clusterdyn.comparison import EQUIVALENCE_MARGIN
from clusterdyn.display import INK, MUTED
from clusterdyn.figures.protocol import log_scale, look_of
from clusterdyn.figures.style import CLUSTERS, Picture, label, legend, new_figure, spread
from clusterdyn.limits.experiments import EXPERIMENTS
from clusterdyn.limits.study import PlaceResult
from clusterdyn.limits.tables import places
from clusterdyn.protocol import Study
from clusterdyn.provenance import describe
from clusterdyn.stats import geometric_mean_ratio


def provenance(study: Study) -> str:
    """Where a figure came from."""
    return describe(study.label, study.limits.stage, study.limits.claims_stage)


def limits_structure(study: Study) -> Picture:
    """Every schedule over the full sweep on other graphs, partitions and numbers of nodes."""
    return _over_full(study, "limits_structure", ("graphs", "partitions", "nodes"))


def limits_dynamics(study: Study) -> Picture:
    """Every schedule over the full sweep at other sweeps and relaxation factors."""
    return _over_full(study, "limits_dynamics", ("sweeps", "relaxations"))


def _over_full(study: Study, name: str, experiments: tuple[str, ...]) -> Picture:
    """A panel an experiment: ratios of test MSE by place, a look a schedule."""
    shown = [experiment for experiment in experiments if places(study, experiment)]
    counts = [len(places(study, experiment)) for experiment in shown]
    figure, axes = new_figure(
        1,
        len(shown),
        width=8.4,
        height=1.4 + 0.62 * sum(counts),
        sharex=True,
        gridspec_kw={"height_ratios": counts},
    )
    told, handles = [], {}
    for axis, experiment in zip(axes[:, 0], shown, strict=True):
        found = places(study, experiment)
        axis.axvline(1, color=MUTED, linewidth=1)
        axis.axvspan(
            1 - EQUIVALENCE_MARGIN, 1 + EQUIVALENCE_MARGIN, color=MUTED, alpha=0.18, linewidth=0
        )
        for row, place in enumerate(found):
            told += _draw_place(axis, row, place, handles)
        axis.set_yticks(range(len(found)), [place.name for place in found], fontsize=9)
        axis.set_ylim(len(found) - 0.5, -0.5)
        log_scale(axis, "x")
        label(axis, title=EXPERIMENTS[experiment])
    axes[-1, 0].set_xlabel("test MSE over that of the full sweep at the same work, a ratio")
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
        fontsize=9,
    )
    return Picture(
        figure,
        name,
        f"Ratios of test MSE to the full sweep's: {'; '.join(told)}.",
        "Every schedule against the full sweep of its place, at the same node updates a time step. "
        f"Marks are ratios of geometric means over {len(study.limits.result.test_seeds)} test "
        "seeds with 95 % intervals, faint dots the seeds; left of 1 a schedule is better. Shaded: "
        f"±{EQUIVALENCE_MARGIN:.0%}, the equivalence margin."
        + _unmarked(place for name in shown for place in places(study, name)),
        provenance(study),
    )


def _unmarked(found: Iterable[PlaceResult]) -> str:
    """Says why rows are empty."""
    empty = [place.name for place in found if not place.arms[1:]]
    if not empty:
        return ""
    return (
        f" Without marks: {', '.join(empty)}, where the full sweep's work is more updates of one "
        "cluster than are measured."
    )


def _draw_place(axis: Axes, row: int, place: PlaceResult, handles: dict) -> list[str]:
    """Ratios of a place's arms around its row; returns them in words."""
    full, *others = place.arms
    told = []
    for move, arm in zip(spread(len(others), 0.3), others, strict=False):
        look, ratios = look_of(arm.schedule), arm.test_mse / full.test_mse
        axis.plot(ratios, np.full(len(ratios), row + move), ".", color=look.colour, alpha=0.3)
        ratio = geometric_mean_ratio(full.test_mse, arm.test_mse)
        handles[arm.schedule] = axis.errorbar(
            ratio.ratio,
            row + move,
            xerr=[[ratio.ratio - ratio.low], [ratio.high - ratio.ratio]],
            fmt=look.marker,
            color=look.colour,
            ecolor=INK,
            capsize=2.5,
            markersize=5.5,
        )
        told.append(f"{place.name}, {arm.schedule} {ratio.ratio:.2g}")
    return told


def limits_settling(study: Study) -> Picture:
    """The residual of full sweeps that are carried on past the trained number."""
    found = [place for place in places(study, "sweeps") if place.settling is not None]
    figure, axes = new_figure(width=7.6, height=4.0)
    axis, told = axes[0, 0], []
    for colour, place in zip(CLUSTERS, found, strict=False):
        settling = place.settling
        curves = np.maximum(settling.residual / settling.residual[0], 1e-17)
        sweeps = np.arange(len(curves))
        axis.plot(sweeps, curves, "-", color=colour, alpha=0.2, linewidth=0.6)
        axis.plot(sweeps, np.median(curves, axis=1), "-", color=colour, label=place.name)
        axis.plot(
            settling.sweeps, np.median(curves[settling.sweeps]), "o", color=colour, markersize=6
        )
        told.append(f"{place.name} {np.median(curves[-1]):.1g}")
    axis.set_yscale("log")
    axis.set_xscale("symlog", linthresh=10)
    axis.set_xlim(left=0)
    label(axis, x="full sweeps of the first time step", y="residual over the first, a ratio")
    legend(axis, title="trained with", loc="lower left")
    return Picture(
        figure,
        "limits_settling",
        f"Residual against sweeps. Median at the end: {'; '.join(told)}.",
        "Root mean square of f(h, z) − h of models of the full sweep, over its value before the "
        "first sweep, float64: a faint line a model, the median strong; the dot is the number of "
        "sweeps that the models were trained with. Up to 10 sweeps the axis is linear. Values "
        "below 1e-17 are drawn there.",
        provenance(study),
    )


def limits_law(study: Study) -> Picture:
    """The eta-squared law's slope and coefficient at every other graph and partition."""
    found = [place for place in study.limits.result.places if place.law is not None]
    figure, axes = new_figure(2, 1, width=8.4, height=1.3 + 0.4 * len(found), sharey=True)
    slopes, errors = axes[0]
    slopes.axvspan(1.9, 2.1, color=MUTED, alpha=0.18, linewidth=0)
    for row, place in enumerate(found):
        law = place.law.law
        moves = row + spread(len(law.slope), 0.2)
        mean = law.slope.mean()
        slopes.plot(law.slope, moves, ".", color=CLUSTERS[0], alpha=0.6)
        slopes.errorbar(
            mean,
            row,
            xerr=[[mean - law.slope_low], [law.slope_high - mean]],
            fmt="D",
            color=INK,
            capsize=3,
            markersize=4.5,
        )
        errors.plot(law.coefficient_error[0], moves, ".", color=CLUSTERS[0], alpha=0.6)
        errors.plot(law.richardson_error[0], moves, "^", color=CLUSTERS[5], alpha=0.6, markersize=4)
    slopes.set_yticks(range(len(found)), [place.name for place in found], fontsize=9)
    slopes.set_ylim(len(found) - 0.5, -0.5)
    errors.set_xscale("log")
    label(slopes, title="slope", x="log-log slope")
    label(errors, title="coefficient", x="relative error at the smallest η")
    told = [f"{place.name} {place.law.law.slope.mean():.3f}" for place in found]
    return Picture(
        figure,
        "limits_law",
        f"Slopes of the η² law by graph and partition: {'; '.join(told)}.",
        "Clusters one after another against all at once, on models of the full sweep. Left: slope, "
        "a dot a model, the mean with its 90 % t interval; shaded is what the law claims. Right: "
        "largest error of the predicted coefficient relative to it, a dot a model, and triangles "
        "after Richardson extrapolation.",
        provenance(study),
    )
