"""Figures of notebook 04: the eta^2 law."""

import numpy as np

from clusterdyn.display import INK, MUTED
from clusterdyn.figures.style import (
    BASELINE,
    CLUSTERS,
    IDEA,
    Picture,
    label,
    legend,
    new_figure,
    spread,
    tick_values,
)
from clusterdyn.mechanism import SWEEP_COUNTS, TIME_SPAN, EtaSquareLaw
from clusterdyn.protocol import Study
from clusterdyn.provenance import describe
from clusterdyn.reference.published import published_report
from clusterdyn.stats import paired_t_interval
from clusterdyn.verdicts import SLOPE_RANGE


def _arms(study: Study) -> tuple[tuple[str, str], tuple[str, str]]:
    return (study.config.baseline, BASELINE), (study.config.schedule, IDEA)


def _provenance(study: Study) -> str:
    return describe(study.label, *(study.mechanism_stage(arm) for arm, _ in _arms(study)))


def _law(study: Study, arm: str, unit: str, state: str) -> EtaSquareLaw:
    laws = study.mechanism(arm).laws
    (law,) = (law for law in laws if (law.unit, law.state) == (unit, state))
    return law


def discrepancy(study: Study) -> Picture:
    """Size of D against eta for every seed, with the predicted eta^2 line of the first."""
    figure, axes = new_figure(2, width=8.4, height=3.7, sharey=True)
    for axis, unit in zip(axes[0], ("nodes", "clusters"), strict=True):
        for arm, colour in _arms(study):
            law = _law(study, arm, unit, "trajectory")
            axis.loglog(law.relaxations, law.size, ".", color=colour, alpha=0.55, markersize=6)
            axis.loglog([], [], ".", color=colour, markersize=8, label=f"{arm}, a dot a seed")
            axis.loglog(
                law.relaxations,
                law.predicted_size[0] * law.relaxations**2,
                color=colour,
                linewidth=1.1,
                label=f"η²·max |L(J)F|, seed {study.config.seeds[0]}",
            )
        label(axis, title=f"{unit} in turn", x="relaxation factor η")
        legend(axis)
    axes[0, 0].set_ylabel("largest |D| [hidden units]")
    laws = [
        _law(study, arm, unit, "trajectory")
        for arm, _ in _arms(study)
        for unit in ("nodes", "clusters")
    ]
    slopes = [slope for law in laws for slope in law.slope]
    ratios = [r for law in laws for r in law.size[0] / law.relaxations[0] ** 2 / law.predicted_size]
    return Picture(
        figure,
        "eta2_discrepancy",
        "Log-log plot of the largest discrepancy against the relaxation factor, nodes left and "
        f"clusters right. Fitted slopes lie between {min(slopes):.3f} and {max(slopes):.3f}; at "
        f"η = {law.relaxations[0]:g} the sizes are {min(ratios):.3f} to {max(ratios):.3f} of the "
        "predicted ones.",
        "D is one sequential minus one synchronous sweep of a trained model, in float64, at a "
        "state on the trajectory. The lines are no fits: their height is the coefficient "
        "predicted from Jacobian-vector products.",
        _provenance(study),
    )


def local_slopes(study: Study) -> Picture:
    """Slope of log |D| between neighbouring eta, and error of the predicted coefficient."""
    figure, axes = new_figure(2, width=8.4, height=3.6)
    for arm, colour in _arms(study):
        law = _law(study, arm, "nodes", "trajectory")
        middle = np.sqrt(law.relaxations[1:] * law.relaxations[:-1])
        slopes = np.log2(law.size[1:] / law.size[:-1])
        axes[0, 0].semilogx(middle, slopes, color=colour, alpha=0.55, linewidth=1)
        axes[0, 0].semilogx([], [], color=colour, label=f"{arm}, a line a seed")
        axes[0, 1].loglog(
            law.relaxations, law.coefficient_error, color=colour, alpha=0.55, linewidth=1
        )
        axes[0, 1].loglog(
            law.relaxations[:-1],
            law.richardson_error,
            "--",
            color=colour,
            alpha=0.55,
            linewidth=1,
        )
    axes[0, 0].axhline(2, color=MUTED, linewidth=1)
    axes[0, 1].loglog([], [], color=INK, label="D/η² against L(J)F")
    axes[0, 1].loglog([], [], "--", color=INK, label="after Richardson extrapolation")
    tick_values(axes[0, 0], middle)
    label(axes[0, 0], title="Local slopes", x="relaxation factor η", y="slope")
    label(
        axes[0, 1],
        title="Error of the coefficient",
        x="relaxation factor η",
        y="largest relative error",
    )
    legend(axes[0, 0]), legend(axes[0, 1])
    laws = [_law(study, arm, "nodes", "trajectory") for arm, _ in _arms(study)]
    finest = np.concatenate([np.log2(law.size[1] / law.size[0]) for law in laws])
    errors = np.max([law.coefficient_error.max(axis=1) for law in laws], axis=0)
    extrapolated = max(law.richardson_error[0].max() for law in laws)
    return Picture(
        figure,
        "eta2_local_slopes",
        f"Left: local slopes of every seed, between {finest.min():.3f} and {finest.max():.3f} at "
        f"the smallest η. Right: the largest error of the predicted coefficient falls from "
        f"{errors[-1]:.2g} to {errors[0]:.2g} as η falls from {law.relaxations[-1]:g} to "
        f"{law.relaxations[0]:g}, and to {extrapolated:.2g} after extrapolation.",
        "Nodes in turn, at a state on the trajectory. The error is the largest over trajectories, "
        "nodes and channels, relative to the largest coefficient.",
        _provenance(study),
    )


def seed_slopes(study: Study) -> Picture:
    """Fitted slope of every seed with the mean's 90 % interval."""
    figure, axes = new_figure(width=8.4, height=3.5)
    axis, names = axes[0, 0], []
    column = 0
    for arm, colour in _arms(study):
        for unit in ("nodes", "clusters"):
            for state in ("start", "trajectory"):
                law = _law(study, arm, unit, state)
                axis.plot(
                    column + spread(len(law.slope)),
                    law.slope,
                    "o",
                    color=colour,
                    alpha=0.6,
                    markersize=4,
                )
                middle = law.slope.mean()
                axis.errorbar(
                    column + 0.3,
                    middle,
                    yerr=[[middle - law.slope_low], [law.slope_high - middle]],
                    fmt="s",
                    color=MUTED,
                    capsize=4,
                    markersize=5,
                )
                names.append(f"{arm}\n{unit}\n{state}")
                column += 1
    for bound in SLOPE_RANGE:
        axis.axhline(bound, color=MUTED, linewidth=1, dashes=(4, 3))
    axis.set_xticks(range(column), names, fontsize=8.5)
    label(axis, y="slope of log |D| over log η")
    laws = [law for arm, _ in _arms(study) for law in study.mechanism(arm).laws]
    return Picture(
        figure,
        "eta2_seed_slopes",
        "Fitted slopes of every seed for both arms, nodes and clusters, start and trajectory. The "
        f"intervals of their means reach from {min(law.slope_low for law in laws):.3f} to "
        f"{max(law.slope_high for law in laws):.3f}.",
        "A dot a seed; squares are means with 90 % t intervals over seeds. The claim is that "
        "every interval lies between the dashed lines.",
        _provenance(study),
    )


def coefficient(study: Study) -> Picture:
    """Measured against predicted coefficient of every node and channel of one model."""
    figure, axes = new_figure(2, width=8.4, height=3.9)
    law = None
    for axis, unit in zip(axes[0], ("nodes", "clusters"), strict=True):
        law = _law(study, study.config.schedule, unit, "trajectory")
        blocks = law.block_of_node
        for block in np.unique(blocks):
            rows = blocks == block
            colour = CLUSTERS[block % len(CLUSTERS)] if unit == "clusters" else BASELINE
            axis.plot(
                law.predicted[rows].ravel(),
                law.measured[rows].ravel(),
                "o",
                color=colour,
                markersize=4.5,
                alpha=0.75,
                label=f"cluster {block}" if unit == "clusters" else None,
            )
        ends = [law.predicted.min(), law.predicted.max()]
        axis.plot(ends, ends, color=MUTED, linewidth=1, zorder=0)
        label(
            axis,
            title=f"{unit} in turn",
            x="predicted (L(J)F)ᵢ",
            y=f"measured Dᵢ/η² at η = {law.relaxations[0]:g}",
        )
        if unit == "clusters":
            legend(axis)
    laws = [_law(study, study.config.schedule, u, "trajectory") for u in ("nodes", "clusters")]
    distance = max(
        np.abs(law.measured - law.predicted).max() / np.abs(law.predicted).max() for law in laws
    )
    first = max(law.first_block.max() for law in laws)
    return Picture(
        figure,
        "eta2_coefficient",
        "Scatter of the measured against the predicted coefficient of every node and channel. "
        f"No point is farther from the diagonal than {distance:.2%} of the largest coefficient; "
        f"the largest discrepancy in a block that moves first is {first:.2g}.",
        f"Signed, for the {study.config.schedule} model of seed {study.config.seeds[0]} and one "
        "test trajectory. The line is the diagonal, not a fit.",
        _provenance(study),
    )


def order_control(study: Study) -> Picture:
    """D against eta after several sweeps: a fixed number of them, and a fixed span of K eta."""
    figure, axes = new_figure(width=6.4, height=3.7)
    axis = axes[0, 0]
    check = study.mechanism(study.config.schedule).order
    for values, colour, name in (
        (check.fixed_sweeps, IDEA, f"K = {SWEEP_COUNTS} sweeps"),
        (check.fixed_span, BASELINE, f"K = {TIME_SPAN:g}/η sweeps"),
    ):
        axis.loglog(check.relaxations, values, ".-", color=colour, alpha=0.55, linewidth=0.9)
        axis.loglog([], [], ".-", color=colour, label=f"{name}, a line a seed")
    tick_values(axis, check.relaxations)
    label(axis, x="relaxation factor η", y="largest |D| [hidden units]")
    legend(axis)
    fixed = paired_t_interval(check.fixed_sweeps_slope, confidence_level=0.9)
    span = paired_t_interval(check.fixed_span_slope, confidence_level=0.9)
    coarsest = np.log2(check.fixed_sweeps[-1] / check.fixed_sweeps[-2]).mean()
    return Picture(
        figure,
        "eta2_order",
        f"Log-log plot of the discrepancy after several sweeps. With {SWEEP_COUNTS} sweeps the "
        f"mean slope between neighbouring η goes from {coarsest:.3f} at the largest to "
        f"{check.fixed_sweeps_slope.mean():.3f} at the smallest; with a number of sweeps that "
        f"grows as η falls it is {check.fixed_span_slope.mean():.3f} there.",
        f"Mean slope between the two smallest η, with its 90 % t interval over seeds: "
        f"{check.fixed_sweeps_slope.mean():.3f} [{fixed.low:.3f}, {fixed.high:.3f}] with "
        f"{SWEEP_COUNTS} sweeps, on its way from {coarsest:.3f} between the two largest to the "
        f"limit 2; {check.fixed_span_slope.mean():.3f} [{span.low:.3f}, {span.high:.3f}] over a "
        "fixed span Kη, where the limit is 1. Comparing schedules at one η and a fixed number of "
        "sweeps mixes the two.",
        _provenance(study),
    )


def reference_view(study: Study) -> Picture:
    """The published view beside this run's: |D| / eta^2 at large eta, in float32."""
    rows = published_report()["mechanism_signature"]["signature"]["rows"]
    figure, axes = new_figure(width=6.4, height=3.7)
    axis = axes[0, 0]
    view = study.reference.signature
    ratios = view.size / view.relaxations[:, None] ** 2
    published = [row["observed_linf"] / row["eta2"] for row in rows]
    axis.plot(view.relaxations, ratios, color=IDEA, alpha=0.35, linewidth=1)
    axis.plot([], [], color=IDEA, alpha=0.5, label="this run, a line a seed")
    axis.plot(
        view.relaxations,
        ratios[:, 0],
        "o-",
        color=IDEA,
        label=f"this run, seed {study.config.seeds[0]} (the one reported)",
    )
    axis.plot(
        [row["eta"] for row in rows],
        published,
        "s--",
        color=INK,
        label="published",
    )
    axis.set_ylim(0, None)
    label(axis, x="relaxation factor η", y="largest |D| / η²")
    legend(axis)
    return Picture(
        figure,
        "eta2_reference_view",
        f"The ratio of discrepancy to η squared at {len(view.relaxations)} large η: from "
        f"{ratios.min():.2g} to {ratios.max():.2g} over the seeds of this run, from "
        f"{min(published):.2g} to {max(published):.2g} in the published report.",
        "The published trial's own view: float32, four large η, the largest |D|. Here for clusters "
        "in turn at a state on the trajectory of the idea's models. A flat line is the η² law; "
        "its height is a property of one trained model.",
        _provenance(study),
    )
