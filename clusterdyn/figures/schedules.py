"""Figures of notebook 05: every schedule at equal work, under another one, and at another eta."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from clusterdyn.comparison import EQUIVALENCE_MARGIN
from clusterdyn.display import GRID, INK, PAPER
from clusterdyn.figures.protocol import (
    draw_mean,
    draw_ratios,
    groups_of,
    log_scale,
    look_of,
    provenance,
)
from clusterdyn.figures.style import BASELINE, Picture, label, legend, new_figure, spread
from clusterdyn.protocol import Study
from clusterdyn.strict.arms import BASELINE as BASELINE_SCHEDULE
from clusterdyn.strict.study import ArmResult
from clusterdyn.strict.tables import (
    arm_named,
    arms_by_cluster,
    compared_arms,
    methods,
    needs_answer,
    pareto_front,
    shared_seeds,
)


def _work_axes(study: Study, axis: Axes) -> None:
    budgets = sorted(study.strict_config.work_budgets)
    scores = [arm.test_mse for arms in compared_arms(study).values() for arm in arms]
    axis.set_xscale("log"), log_scale(axis, "y", np.concatenate(scores))
    axis.set_xticks(budgets, [str(budget) for budget in budgets])
    axis.minorticks_off()


def strict_work(study: Study) -> Picture:
    """Test MSE against work on the seeds that all arms share, a line a schedule, and the front."""
    figure, axes = new_figure(width=8.4, height=5.4)
    axis, groups, seeds = axes[0, 0], compared_arms(study), shared_seeds(study)
    means = {arm.label: arm.test_mse[:seeds].mean() for arms in groups.values() for arm in arms}
    for name in sorted(groups, key=lambda name: means[groups[name][-1].label], reverse=True):
        arms, look = groups[name], look_of(name)
        for arm in arms:
            x = arm.node_updates * (1 + spread(seeds, 0.05))
            axis.plot(x, arm.test_mse[:seeds], ".", color=look.colour, alpha=0.18, markersize=4)
        axis.plot(
            [arm.node_updates for arm in arms],
            [means[arm.label] for arm in arms],
            **look.line,
            linewidth=3 if name == BASELINE_SCHEDULE else 1.5,
            markersize=7,
            label=f"{name}, needs the answer" if needs_answer(study, arms[0]) else name,
            zorder=2.8 if name == BASELINE_SCHEDULE else 2.5,
        )
    front = pareto_front(methods(study), seeds)
    axis.plot(
        [arm.node_updates for arm in front],
        [means[arm.label] for arm in front],
        "o",
        color=INK,
        markerfacecolor="none",
        markersize=14,
        label="Pareto front",
    )
    _work_axes(study, axis)
    label(axis, x="node updates a time step [updates]", y="test MSE [standardised]")
    legend(axis, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3.6)
    named = "; ".join(f"{arm.label} with {means[arm.label]:.3g}" for arm in front)
    return Picture(
        figure,
        "strict_work",
        f"Log-log plot of test MSE against node updates a time step, {len(groups)} schedules. By "
        f"ascending work the Pareto front holds: {named}.",
        f"Lines join means over {_shared(study)}; faint dots are these seeds. The legend is sorted "
        "by the mean at each line's end. Circled: no other method has both less work and a lower "
        "mean over these seeds. The oracle, which tries every cluster and keeps the best, needs "
        "the answer and takes no part in the front. Page 05 shows every seed of every arm, and "
        "intervals.",
        provenance(study),
    )


def _shared(study: Study) -> str:
    """The seeds of the figure of work, and who was tested on more."""
    seeds = shared_seeds(study)
    counts = [len(arm.test_mse) for arms in compared_arms(study).values() for arm in arms]
    more = [count for count in counts if count > seeds]
    if not more:
        return f"the {seeds} test seeds"
    longer = " or ".join(map(str, sorted(set(more))))
    return (
        f"the first {seeds} test seeds, which all {len(counts)} arms share, although {len(more)} "
        f"were tested on {longer}"
    )


def strict_work_seeds(study: Study) -> Picture:
    """The same, a panel a group, with every seed and the intervals of the means."""
    groups, panels = compared_arms(study), groups_of(study)
    rows = -(-len(panels) // 2)
    figure, axes = new_figure(2, rows, width=8.4, height=3.7 * rows, sharex=True, sharey=True)
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis, (title, looks) in zip(axes.flat, panels.items(), strict=False):
        shown = dict.fromkeys([BASELINE_SCHEDULE, *looks])
        for name, shift in zip(shown, np.exp(spread(len(shown), 0.17)), strict=True):
            _draw_arms(axis, name, groups[name], shift)
        _work_axes(study, axis)
        label(axis, title=title)
        legend(axis, handlelength=3)
    for axis in axes[-1]:
        axis.set_xlabel("node updates a time step [updates]")
    for axis in axes[:, 0]:
        axis.set_ylabel("test MSE [standardised]")
    arms = [arm for group in groups.values() for arm in group]
    best, worst = (pick(arms, key=lambda arm: arm.test_mse.mean()) for pick in (min, max))
    seeds = sorted({len(arm.test_mse) for arm in arms})
    return Picture(
        figure,
        "strict_work_seeds",
        f"{len(panels)} panels of test MSE against node updates, a dot a seed. The lowest mean is "
        f"that of "
        f"{best.label}, {best.test_mse.mean():.3g} over {len(best.test_mse)} seeds; the highest "
        f"that of {worst.label}, {worst.test_mse.mean():.3g} over {len(worst.test_mse)}.",
        f"Markers are means of all of an arm's test seeds ({' or '.join(map(str, seeds))} of them) "
        "with 95 % t intervals of the mean; the schedules of a panel are moved aside so that they "
        "can be told apart. The full sweep stands in every panel.",
        provenance(study),
    )


def _draw_arms(axis: Axes, name: str, arms: Sequence[ArmResult], shift: float) -> None:
    """A schedule's arms with every seed, moved aside by a factor."""
    look = look_of(name)
    for arm in arms:
        x = arm.node_updates * shift * (1 + spread(len(arm.test_mse), 0.03))
        axis.plot(x, arm.test_mse, ".", color=look.colour, alpha=0.3, markersize=4)
        draw_mean(axis, arm.node_updates * shift, arm.test_mse, look.colour, look.marker)
    means = [arm.test_mse.mean() for arm in arms]
    axis.plot(
        [arm.node_updates * shift for arm in arms], means, **look.line, linewidth=1.2, label=name
    )


def strict_equal_work(study: Study) -> Picture:
    """Every schedule against the full sweep, at equal work and at equal sweeps."""
    figure, axes = new_figure(1, 2, width=8.4, height=7.6)
    told = []
    for axis, words in zip(axes[:, 0], ("equal work", "equal sweeps"), strict=True):
        claims = study.inference.family(words.replace(" ", "_"))
        claims = sorted(claims, key=lambda claim: claim.comparison.ratio.ratio)
        names = [arm_named(study, claim.treatment).schedule for claim in claims]
        draw_ratios(axis, claims, names)
        x = f"test MSE over that of {BASELINE_SCHEDULE}, a ratio"
        if not claims:
            label(axis, title=f"At {words}: no arm", x=x)
            continue
        updates = arm_named(study, claims[0].baseline).node_updates
        label(axis, title=f"At {words}: {BASELINE_SCHEDULE} with {updates:.0f} node updates", x=x)
        counts = Counter(claim.verdict for claim in claims)
        told.append(
            f"at {words} {names[0]} has the lowest ratio, {claims[0].comparison.ratio.ratio:.2f}, "
            f"and {names[-1]} the highest, {claims[-1].comparison.ratio.ratio:.2f} ("
            + ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
            + ")"
        )
    return Picture(
        figure,
        "strict_equal_work",
        f"Two lists of ratios to the full sweep, sorted: {'; '.join(told)}.",
        f"Diamonds are ratios of geometric means with 95 % intervals, dots the ratios of the "
        f"{len(study.strict.test_seeds)} test seeds; left of 1 the schedule is better. Shaded: "
        f"±{EQUIVALENCE_MARGIN:.0%}, the equivalence margin. p is that of the sign-flip test of "
        "the mean difference, adjusted by Holm's method over the list.",
        provenance(study),
    )


def strict_starvation(study: Study) -> Picture:
    """Share of the updates of every cluster and seed, entropy, and largest age."""
    arms = arms_by_cluster(study)
    clusters, seeds = arms[0].share.shape[1], len(arms[0].share)
    figure, axes = new_figure(
        3, width=8.4, height=5.2, sharey=True, gridspec_kw={"width_ratios": (5, 1.6, 1.6)}
    )
    shares, entropy, age = axes[0]
    image = shares.imshow(
        np.array([arm.share.T.ravel() for arm in arms]),
        norm=Normalize(0, 1),
        cmap="cividis",
        aspect="auto",
        interpolation="nearest",
        extent=(0, clusters, len(arms) - 0.5, -0.5),
    )
    for border in range(1, clusters):
        shares.axvline(border, color=PAPER, linewidth=2)
    shares.grid(False), shares.tick_params(length=0)
    shares.set_xticks(np.arange(clusters) + 0.5, [f"cluster {c}" for c in range(clusters)])
    shares.set_yticks(range(len(arms)), [arm.label for arm in arms], fontsize=9)
    figure.colorbar(image, ax=shares, location="top", shrink=0.6, aspect=30, pad=0.02).set_label(
        f"share of updates; an even schedule gives {1 / clusters:.2g}"
    )
    for row, arm in enumerate(arms):
        for axis, values in ((entropy, arm.entropy), (age, arm.largest_age)):
            axis.plot(
                values, row + spread(seeds, 0.3), ".", color=BASELINE, alpha=0.5, markersize=4
            )
    entropy.set_xlim(-0.06, 1.06)
    age.set_xlim(0, 1.05 * study.config.sweeps * study.config.horizon)
    label(entropy, x="entropy\nover log C")
    label(age, x="largest age\n[sweeps]")
    largest = {arm.label: arm.share.max(axis=1).mean() for arm in arms}
    most = max(largest, key=largest.get)
    oldest = max(arms, key=lambda arm: arm.largest_age.mean())
    return Picture(
        figure,
        "strict_starvation",
        f"Heat map of the share of updates by cluster and seed. {most} gives its favourite "
        f"{largest[most]:.0%} on average; the largest age, {oldest.largest_age.mean():.3g} sweeps "
        f"on average, is that of {oldest.label}.",
        f"At K = {study.config.sweeps} on the test split; each block holds the {seeds} test seeds "
        "side by side, and so do the dots. The entropy of the shares is 1 where all clusters are "
        "updated alike. The age counts sweeps since a node's last update, of "
        f"{study.config.sweeps * study.config.horizon} in a rollout.",
        provenance(study),
    )


def strict_matrix(study: Study) -> Picture:
    """Mean test MSE of every trained schedule under every tested one."""
    names, means = study.strict.matrix_schedules, study.strict.matrix.mean(axis=-1)
    logs = np.log10(means)
    finite = np.isfinite(logs)
    figure, axes = new_figure(width=8.4, height=6.6)
    axis = axes[0, 0]
    image = axis.imshow(np.where(finite, logs, np.nan), cmap="cividis", aspect="auto")
    middle = (logs[finite].min() + logs[finite].max()) / 2
    for (row, column), value in np.ndenumerate(logs):
        axis.text(
            column,
            row,
            f"{value:.2f}" if finite[row, column] else "div.",
            ha="center",
            va="center",
            fontsize=8,
            fontweight="bold" if row == column else "normal",
            color="#111111" if finite[row, column] and value > middle else "#fefefe",
        )
    axis.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    axis.set_yticks(range(len(names)), names)
    axis.tick_params(labelsize=8.5, length=0)
    axis.grid(False)
    label(axis, x="tested under [schedule]", y="trained with [schedule]")
    figure.colorbar(image, ax=axis, fraction=0.04).set_label("log₁₀ of test MSE [standardised]")
    own = int(np.sum(means.argmin(axis=1) == np.arange(len(names))))
    lost = int(np.sum(~finite))
    return Picture(
        figure,
        "strict_matrix",
        f"Heat map of {len(names)} trained by {len(names)} tested schedules. Mean MSEs run from "
        f"{means[finite].min():.3g} to {means[finite].max():.3g}; in {own} rows the diagonal is "
        f"lowest; {lost} cells diverge.",
        f"Each cell is log₁₀ of the mean test MSE over {study.strict.matrix.shape[-1]} seeds at K "
        f"= {study.config.sweeps}: rows were trained with a schedule, columns are tested under "
        "another, without training again. On the diagonal, bold, both are the same. “div.” would "
        "say that at least one seed's score is not finite.",
        provenance(study),
    )


def draw_core(
    values: Sequence[float], scores: Mapping[str, Sequence[np.ndarray]], x: str
) -> tuple[Figure, np.ndarray]:
    """Six panels: the means of the core schedules, and each with its seeds.

    Args:
        values: of a setting.
        scores: (n,) at each value, for each schedule; what is not finite is not drawn.
        x: what the values are.

    Returns:
        The figure and its axes.
    """
    figure, axes = new_figure(3, 2, width=8.4, height=5.6, sharex=True, sharey=True)
    first, *others = axes.flat
    for (name, columns), axis in zip(scores.items(), others, strict=True):
        look, drawn = look_of(name), np.where(np.isfinite(columns), columns, np.nan)
        first.plot(values, drawn.mean(axis=1), **look.line, markersize=6, label=name)
        axis.plot(values, drawn, "-", color=look.colour, alpha=0.25, linewidth=0.7)
        axis.plot(values, drawn.mean(axis=1), **look.line, markersize=6)
        for value, column in zip(values, drawn, strict=True):
            if np.isfinite(column).all():
                draw_mean(axis, value, column, look.colour, look.marker)
        label(axis, title=name)
    log_scale(first, "y", np.array([*scores.values()]))
    label(first, title="means")
    handles, names = first.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    for axis in axes[-1]:
        axis.set_xlabel(x)
    for axis in axes[:, 0]:
        axis.set_ylabel("test MSE [standardised]")
    return figure, axes


def strict_relaxation(study: Study) -> Picture:
    """Test MSE of the core schedules against eta at test time."""
    result, trained = study.strict, study.config.relaxation
    scores = dict(zip(result.relaxation_schedules, result.relaxation_mse, strict=True))
    figure, axes = draw_core(result.relaxations, scores, "relaxation factor η at test time")
    for axis in axes.flat:
        axis.axvline(trained, color=GRID, linewidth=5, zorder=0)
    means = result.relaxation_mse.mean(axis=-1)
    best = result.relaxations[means.argmin(axis=1)]
    told = ", ".join(f"{name} at {eta:g}" for name, eta in zip(scores, best, strict=True))
    lost = int(np.sum(~np.isfinite(result.relaxation_mse)))
    return Picture(
        figure,
        "strict_relaxation",
        f"Test MSE of {len(scores)} schedules against η at test time, trained at η = {trained:g}. "
        f"The lowest means: {told}.",
        f"First panel: means over {result.relaxation_mse.shape[-1]} seeds; the others: every seed "
        "a faint line, means with 95 % t intervals. The broad line marks the η of training; no "
        f"model is trained again. Scores that are not finite and so not drawn: {lost}.",
        provenance(study),
    )
