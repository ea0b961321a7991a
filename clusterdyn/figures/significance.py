"""Figures of notebook 03: the paired comparison."""

import numpy as np

from clusterdyn.display import MUTED
from clusterdyn.figures.style import BASELINE, IDEA, Picture, label, legend, new_figure
from clusterdyn.protocol import Study
from clusterdyn.provenance import describe


def _provenance(study: Study) -> str:
    arms = (study.config.baseline, study.config.schedule)
    return describe(study.label, *(study.training_stage(arm) for arm in arms))


def slope_graph(study: Study) -> Picture:
    """Both arms' test MSE of every seed, joined."""
    comparison = study.reference.comparison
    figure, axes = new_figure(width=5.6, height=4.2)
    axis = axes[0, 0]
    for seed, low, high in zip(
        comparison.seeds, comparison.baseline, comparison.treatment, strict=True
    ):
        colour = IDEA if high > low else BASELINE
        axis.plot([0, 1], [low, high], "o-", color=colour, alpha=0.8, linewidth=1.2, markersize=5)
        axis.annotate(
            f"seed {seed}",
            (1, high),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    axis.plot([], [], "o-", color=IDEA, label="idea worse")
    axis.plot([], [], "o-", color=BASELINE, label="idea better")
    axis.set_xticks([0, 1], [study.config.baseline, study.config.schedule])
    axis.set_xlim(-0.25, 1.35)
    axis.set_ylim(0, None)
    label(axis, y="test MSE [standardised]")
    legend(axis, loc="upper left")
    rate = comparison.win_rate
    return Picture(
        figure,
        "significance_pairs",
        f"Slope graph: a line a seed from {study.config.baseline} to {study.config.schedule}. "
        f"{rate.losses} of {len(comparison.seeds)} lines rise.",
        "Each line is one seed: same data, same initial weights, same minibatches, two schedules.",
        _provenance(study),
    )


def difference_plot(study: Study) -> Picture:
    """Differences of all seeds with their mean and its intervals."""
    comparison = study.reference.comparison
    figure, axes = new_figure(width=7.6, height=3.5)
    axis = axes[0, 0]
    order = np.argsort(comparison.differences)
    for height, index in enumerate(order):
        value = comparison.differences[index]
        axis.plot(value, height, "o", color=IDEA if value > 0 else BASELINE, markersize=6)
    axis.set_yticks(range(len(order)), [f"seed {comparison.seeds[index]}" for index in order])
    t, flip = comparison.t_interval, comparison.sign_flip_interval
    for row, (interval, marker, name) in enumerate(
        (
            (flip, "s", f"sign-flip interval, {flip.confidence_level:.1%}"),
            (t, "D", f"t interval, {t.confidence_level:.0%}"),
        )
    ):
        axis.errorbar(
            comparison.mean_difference,
            -1.3 - 0.9 * row,
            xerr=[
                [comparison.mean_difference - interval.low],
                [interval.high - comparison.mean_difference],
            ],
            fmt=marker,
            color=MUTED,
            capsize=4,
            markersize=6,
            label=f"mean with {name}",
        )
    margin = comparison.margin
    axis.axvspan(-margin, margin, color=MUTED, alpha=0.18, linewidth=0, label="equivalence margin")
    axis.axvline(0, color=MUTED, linewidth=1)
    label(axis, x=f"test MSE, {study.config.schedule} − {study.config.baseline} [standardised]")
    axis.set_ylim(-2.9, len(order) - 0.4)
    legend(axis, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return Picture(
        figure,
        "significance_differences",
        f"A dot a seed for the difference of the two arms, with its mean at "
        f"{comparison.mean_difference:.2g}. The t interval runs from {t.low:.2g} to {t.high:.2g}.",
        "Differences right of zero say that the idea is worse. The intervals are for the mean "
        "difference: one inverts the sign-flip test, at the level that this many seeds can "
        "attain; one assumes normal differences. Shaded: differences that would count as "
        "equivalent.",
        _provenance(study),
    )
