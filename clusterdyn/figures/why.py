"""Figures of notebook 07: why the published idea loses."""

import textwrap
from itertools import accumulate, pairwise

import numpy as np
from matplotlib.axes import Axes

from clusterdyn.display import GRID, INK, MUTED
from clusterdyn.figures.protocol import LOOKS, draw_mean, draw_ratios, log_scale, provenance
from clusterdyn.figures.schedules import draw_core
from clusterdyn.figures.style import (
    BASELINE,
    CLUSTERS,
    IDEA,
    Picture,
    label,
    legend,
    new_figure,
    spread,
)
from clusterdyn.protocol import Study
from clusterdyn.stats import paired_t_interval
from clusterdyn.strict.arms import BASELINE as BASELINE_SCHEDULE
from clusterdyn.strict.arms import TIE_RULES, Arm, noisy_round_robin
from clusterdyn.strict.claims import Claim
from clusterdyn.strict.study import GRU
from clusterdyn.strict.tables import best_claim, core_orders, core_scores

_CLUSTER_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p")
_TIES = (("*", IDEA), ("o", "#E69F00"), ("^", "#009E73"))


def strict_decomposition(study: Study) -> Picture:
    """From the published idea to the full sweep: mean MSE, and the difference of every step."""
    steps = study.inference.family("decomposition")
    start = float(steps[0].comparison.baseline.mean())
    means = list(accumulate((step.comparison.mean_difference for step in steps), initial=start))
    figure, axes = new_figure(2, width=8.4, height=1.6 + 0.62 * len(steps), sharey=True)
    _draw_waterfall(axes[0, 0], means)
    _draw_steps(axes[0, 1], steps)
    names = [f"published: {steps[0].baseline}", *(step.step for step in steps), steps[-1].treatment]
    names = [textwrap.fill(name, 30) for name in names]
    axes[0, 0].set_yticks(range(len(names)), names, fontsize=8.5)
    axes[0, 0].set_ylim(len(names) - 0.4, -0.6)
    label(axes[0, 0], title="Mean test MSE", x="test MSE [standardised]")
    label(axes[0, 1], title="Change by the step", x="change of test MSE [standardised]")
    largest = min(steps, key=lambda step: step.comparison.mean_difference)
    return Picture(
        figure,
        "strict_decomposition",
        f"Waterfall of {len(steps)} steps from {means[0]:.3g} for the published idea to "
        f"{means[-1]:.3g} for {steps[-1].treatment}. The step that lowers the mean most is: "
        f"{largest.step}, {largest.comparison.mean_difference:+.3g}.",
        "Left: mean test MSE before and after each step; the steps add up to the whole difference. "
        f"Right: the step's differences on {len(steps[0].comparison.seeds)} seeds, a dot each, and "
        "their mean with its 95 % t interval; left of zero the step helps. p of the sign-flip test "
        f"is adjusted by Holm's method over the {len(steps)} steps.",
        provenance(study),
    )


def _draw_waterfall(axis: Axes, means: list[float]) -> None:
    """Bars from mean to mean, between the first and the last from zero."""
    last = len(means)
    axis.barh([0, last], [means[0], means[-1]], color=MUTED, height=0.6)
    for row, (before, after) in enumerate(pairwise(means), start=1):
        colour = IDEA if after > before else BASELINE
        axis.barh(row, after - before, left=before, color=colour, height=0.6)
        axis.plot([before, before], [row - 1.3, row + 0.3], color=MUTED, linewidth=0.8)
    ends = [means[0], *map(max, pairwise(means))]
    for row, (mean, end) in enumerate(zip(means, ends, strict=True)):
        axis.annotate(
            f"{mean:.3g}",
            (end, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    axis.set_xlim(0, 1.2 * max(means))


def _draw_steps(axis: Axes, steps: tuple[Claim, ...]) -> None:
    """Every step's differences, their mean with its interval, and the adjusted p."""
    axis.axvline(0, color=MUTED, linewidth=1)
    axis.locator_params(axis="x", nbins=5)
    for row, step in enumerate(steps, start=1):
        comparison = step.comparison
        mean, interval = comparison.mean_difference, comparison.t_interval
        colour = IDEA if mean > 0 else BASELINE
        offsets = spread(len(comparison.seeds), 0.28)
        axis.plot(comparison.differences, row + offsets, ".", color=colour, alpha=0.4, markersize=4)
        axis.errorbar(
            mean,
            row,
            xerr=[[mean - interval.low], [interval.high - mean]],
            fmt="D",
            color=INK,
            capsize=3.5,
            markersize=5,
        )
        axis.annotate(
            f"{mean:+.2g}\np = {step.adjusted_p:.2g}",
            (1, row),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )


def strict_predictability(study: Study) -> Picture:
    """Test MSE of round robin under noise, and what sharing one order does."""
    names = noisy_round_robin(study.strict_config)
    levels = [0.0, *study.strict_config.noise_levels]
    scores = [study.strict.of(Arm(name)).test_mse for name in names]
    claims = study.inference.family("predictability")
    sharing = [claim for claim in claims if claim.treatment not in names[1:]]
    figure, axes = new_figure(1, 2, width=8.4, height=6.2, gridspec_kw={"height_ratios": (1.2, 1)})
    noise, shared = axes[:, 0]
    look = LOOKS["round_robin"]
    for level, values in zip(levels, scores, strict=True):
        x = level + spread(len(values), 0.03)
        noise.plot(x, values, ".", color=look.colour, alpha=0.45, markersize=5)
        draw_mean(noise, level, values, INK, "D")
    noise.plot(levels, [values.mean() for values in scores], color=INK, linewidth=1)
    log_scale(noise, "y")
    noise.set_xticks(levels, [f"{level:g}" for level in levels])
    label(noise, title="Noise in round robin", x="noise", y="test MSE [standardised]")
    draw_ratios(shared, sharing, [f"{claim.treatment}\nover {claim.baseline}" for claim in sharing])
    label(shared, title="Sharing an order", x="test MSE over that of the other, a ratio")
    told = "; ".join(
        f"{claim.treatment} over {claim.baseline} {claim.comparison.ratio.ratio:.2f}"
        for claim in sharing
    )
    return Picture(
        figure,
        "strict_predictability",
        f"Above: mean test MSE of round robin, {scores[0].mean():.3g} without noise and "
        f"{scores[-1].mean():.3g} at noise {levels[-1]:g}. Below: ratios of {told}.",
        f"Above: a dot a seed ({len(scores[0])} of them), diamonds are means with 95 % t "
        "intervals; at noise 1 every cluster is drawn by lot. Below: ratios of geometric means "
        "with 95 % intervals and the ratio of every seed; p is adjusted by Holm's method over all "
        f"{len(claims)} comparisons of the family.",
        provenance(study),
    )


def strict_ties(study: Study) -> Picture:
    """Test MSE of every seed under each tie rule, beside the largest share of a cluster."""
    arms = [study.strict.of(Arm(name)) for name in TIE_RULES]
    figure, axes = new_figure(2, width=8.4, height=3.8, sharey=True)
    by_rule, by_share = axes[0]
    for column, (arm, (marker, colour)) in enumerate(zip(arms, _TIES, strict=True)):
        x = column + spread(len(arm.test_mse))
        by_rule.plot(x, arm.test_mse, marker, color=colour, alpha=0.5, markersize=4.5)
        draw_mean(by_rule, column + 0.32, arm.test_mse, MUTED, "D")
        by_share.plot(
            arm.share.max(axis=1),
            arm.test_mse,
            marker,
            color=colour,
            alpha=0.6,
            markersize=5,
            label=arm.schedule,
        )
    even = 1 / study.config.clusters
    by_share.axvline(even, color=MUTED, linewidth=1, linestyle=":", label="even share")
    by_rule.set_xticks(range(len(arms)), [arm.schedule.replace("(", "\n(") for arm in arms])
    log_scale(by_rule, "y")
    label(by_rule, title="By rule", y="test MSE [standardised]")
    label(by_share, title="By the largest share", x="share of updates of the largest cluster")
    legend(by_share)
    told = "; ".join(
        f"{arm.schedule} {arm.test_mse.mean():.3g} at {arm.share.max(axis=1).mean():.0%}"
        for arm in arms
    )
    return Picture(
        figure,
        "strict_ties",
        f"Test MSE of three tie rules. Mean MSE and mean share of the largest cluster: {told}.",
        f"A dot a seed ({len(arms[0].test_mse)} of them) at K = {study.config.sweeps}; diamonds "
        f"are means with 95 % t intervals. An even schedule gives each cluster {even:.0%}.",
        provenance(study),
    )


def strict_sweep_choices(study: Study) -> Picture:
    """The share of trajectories that each cluster gets in each sweep of the rollout, by seed."""
    choices, steps = study.strict.sweep_choices, study.config.sweeps
    _, seeds, sweeps, clusters = choices.share.shape
    columns = 4
    rows = -(-len(choices.schedules) // columns)
    figure, axes = new_figure(
        columns, rows, width=8.4, height=0.8 + 2.1 * rows, sharex=True, sharey=True
    )
    numbers = np.arange(1, sweeps + 1)
    for axis, name, share, repeats in zip(
        axes.flat, choices.schedules, choices.share, choices.repeats, strict=False
    ):
        for step in range(steps, sweeps, steps):
            axis.axvline(step + 0.5, color=GRID, linewidth=2.5, zorder=0)
        for cluster, aside in enumerate(spread(clusters, 0.2)):
            look = {"color": CLUSTERS[cluster % len(CLUSTERS)], "zorder": 2.5}
            x = numbers + aside  # so that lines of the same height can be told apart
            seeds_apart = np.pad(share[:, :, cluster], ((0, 0), (0, 1)), constant_values=np.nan)
            axis.plot(
                np.tile([*x, np.nan], seeds), seeds_apart.ravel(), alpha=0.35, linewidth=0.6, **look
            )
            axis.plot(
                x,
                share[:, :, cluster].mean(axis=0),
                marker=_CLUSTER_MARKERS[cluster % len(_CLUSTER_MARKERS)],
                markersize=4,
                linewidth=1.5,
                label=f"cluster {cluster}",
                **look,
            )
        axis.grid(False, axis="x")
        axis.set_title(name, fontsize=8.5, loc="left")
        axis.text(1, 1.1, f"same again: {repeats.mean():.0%}", fontsize=8, color=MUTED)
    for axis in axes.flat[len(choices.schedules) :]:
        axis.axis("off")
    axes[0, 0].set_ylim(-0.05, 1.25)
    axes[0, 0].set_yticks([0, 0.5, 1])
    axes[0, 0].set_xticks(range(1, sweeps + 1, steps))
    figure.supxlabel("sweep of the rollout", fontsize=10)
    figure.supylabel("share of trajectories", fontsize=10)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper left", ncols=6, frameon=False, fontsize=9)
    largest = choices.share.max(axis=-1).mean(axis=(1, 2))
    told = "; ".join(
        f"{name} {share:.0%}" for name, share in zip(choices.schedules, largest, strict=True)
    )
    return Picture(
        figure,
        "strict_sweep_choices",
        f"{len(choices.schedules)} small panels of the share of trajectories that each of "
        f"{clusters} clusters gets, against the {sweeps} sweeps of a rollout. The mean share of a "
        f"sweep's most updated cluster: {told}.",
        f"Thin lines are the {seeds} test seeds, thick ones with markers their means, moved a "
        "little aside cluster by cluster; vertical bars part the time steps. A share of 1 says "
        "that the sweep updates this cluster in every trajectory. “Same again”: how often a "
        "trajectory's sweep updates what the sweep before it did; shares can look even although "
        "every trajectory keeps a cluster of its own. "
        f"{choices.schedules[-1]} does not choose and stands for contrast.",
        provenance(study),
    )


def strict_horizons(study: Study) -> Picture:
    """Test MSE of the core schedules against the horizon."""
    return _changed_setting(study, "horizon", "strict_horizons", "horizon T [time steps]")


def strict_epochs(study: Study) -> Picture:
    """Test MSE of the core schedules against the epochs of training."""
    return _changed_setting(study, "epochs", "strict_epochs", "epochs")


def _changed_setting(study: Study, field: str, name: str, x: str) -> Picture:
    values, scores = core_scores(study, field)
    ranked, tau = core_orders(study, field)
    figure, axes = draw_core(values, scores, x)
    for axis in axes.flat:
        axis.set_xscale("log")
        axis.set_xticks(values, [str(value) for value in values])
        axis.minorticks_off()
    told = "; ".join(
        f"at {value} {', '.join(order)}" for value, order in zip(values, ranked, strict=True)
    )
    return Picture(
        figure,
        name,
        f"Test MSE of {len(scores)} schedules against {field}, log scales. From best to worst "
        f"mean: {told}.",
        f"First panel: means over {len(scores[BASELINE_SCHEDULE][0])} seeds; the others: every "
        "seed a faint line, means with 95 % t intervals. Each arm's learning rate is selected anew "
        f"at each value. Kendall's τ between the orders at {values[0]} and {values[-1]}: "
        f"{tau:.2f} (1: the same, −1: reversed).",
        provenance(study),
    )


def strict_yardsticks(study: Study) -> Picture:
    """Test MSE of the full sweep and the best other schedule beside predictors of other kinds."""
    result, best = study.strict, best_claim(study, "equal_work")
    scores = {
        "persistence": result.persistence,
        "linear least squares": result.linear,
        "gru": result.of(GRU).test_mse,
        BASELINE_SCHEDULE: result.of(Arm(BASELINE_SCHEDULE)).test_mse,
    }
    if best is not None:
        scores[f"{best.treatment}\n(best other at equal work)"] = best.comparison.treatment
    figure, axes = new_figure(width=8.4, height=3.6)
    axis = axes[0, 0]
    for row, values in enumerate(scores.values()):
        mean, interval = values.mean(), paired_t_interval(values)
        axis.plot(
            values, row + spread(len(values), 0.22), ".", color=BASELINE, alpha=0.45, markersize=5
        )
        axis.errorbar(
            mean,
            row,
            xerr=[[mean - interval.low], [interval.high - mean]],
            fmt="D",
            color=INK,
            capsize=3.5,
            markersize=6,
        )
    log_scale(axis, "x")
    axis.set_yticks(range(len(scores)), list(scores))
    axis.set_ylim(len(scores) - 0.5, -0.5)
    label(axis, x="test MSE [standardised]")
    told = ", ".join(
        f"{name.splitlines()[0]} {values.mean():.3g}" for name, values in scores.items()
    )
    return Picture(
        figure,
        "strict_yardsticks",
        f"Test MSE of {len(scores)} predictors on a log scale, means: {told}.",
        f"A dot a seed ({len(result.test_seeds)} of them); diamonds are means with 95 % t "
        "intervals. Persistence predicts that the first state stays; the linear map is fitted by "
        "least squares to one step and rolled out on its own predictions; the GRU is trained like "
        "the others.",
        provenance(study),
    )
