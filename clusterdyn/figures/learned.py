"""Figures of notebook 09: learned schedules."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from clusterdyn.comparison import EQUIVALENCE_MARGIN
from clusterdyn.display import INK, MUTED
from clusterdyn.figures.protocol import Look, draw_ratios, log_scale
from clusterdyn.figures.style import BASELINE, IDEA, Picture, label, new_figure, spread
from clusterdyn.protocol import Study
from clusterdyn.provenance import describe
from clusterdyn.qlearning.config import REWARDS
from clusterdyn.qlearning.states import histogram_states
from clusterdyn.qlearning.study import FrozenResult, RunTimeScore
from clusterdyn.qlearning.tables import (
    against_random,
    bin_correlation,
    by_work,
    joint_arms,
    mean_bin,
    short,
    state_values,
)
from clusterdyn.stats import paired_t_interval
from clusterdyn.strict.claims import Claim
from clusterdyn.strict.study import ArmResult

_LOOKS = {
    "q_learning(reward=residual)": Look(IDEA, "o"),
    "q_learning(reward=loss)": Look(BASELINE, "s"),
    "q_ordered(reward=residual)": Look("#E69F00", "^"),
    "q_ordered(reward=loss)": Look("#56B4E9", "D"),
}
_PEER = Look(MUTED, "v")


def provenance(study: Study) -> str:
    """Where a figure of learned schedules came from."""
    learned = study.learned
    return describe(study.label, learned.stage, learned.claims_stage)


def _setting(frozen: FrozenResult) -> str:
    return f"trained with {frozen.base}, run at K = {frozen.sweeps}"


def learned_curves(study: Study) -> Picture:
    """Total reward and validation MSE of the greedy policy against learning passes."""
    settings = study.learned.result.frozen
    rows = [*REWARDS, "MSE"]
    figure, axes = new_figure(len(settings), len(rows), width=8.4, height=7.2, sharex=True)
    told = []
    for column, frozen in enumerate(settings):
        for learned, score in zip(frozen.learned, frozen.scores, strict=True):
            look, passes = _LOOKS[score.label], learned.passes
            _draw_curve(axes[2, column], passes, learned.validation_mse, look, score.label)
            if not learned.policy.ordered:
                row = rows.index(learned.policy.reward)
                axis = axes[row, column]
                _draw_curve(axis, passes, learned.total_reward, look, score.label)
                start, end = learned.total_reward[[0, -1]].mean(axis=1)
                axis.axhline(start, color=MUTED, linewidth=1, linestyle=(0, (5, 2)))
                told.append(f"{score.label}, {_setting(frozen)}: {start:.3g} to {end:.3g}")
        log_scale(axes[2, column], "y")
        label(axes[0, column], title=f"{frozen.base}, K = {frozen.sweeps}")
        axes[2, column].set_xlabel("learning passes")
    for row, words in enumerate(("fall of residual norm", "fall of loss", "validation MSE")):
        axes[row, 0].set_ylabel(f"{words}\n[standardised]")
    _legend_below(figure, axes[2, 0])
    return Picture(
        figure,
        "learned_curves",
        f"Learning curves of {len(settings)} settings. Mean total reward before and after "
        f"learning: {'; '.join(told)}.",
        "The greedy policy on the validation split, a faint line a seed, the mean strong: total "
        "reward of a rollout, without discount, of the policies that update one cluster a sweep, "
        "and MSE of all. At 0 passes all values tie and the choice is random; the dashed line "
        "keeps that level. A column is a way the models were trained and a number of sweeps at "
        "run time.",
        provenance(study),
    )


def _draw_curve(axis: Axes, passes: np.ndarray, values: np.ndarray, look: Look, name: str) -> None:
    """A faint line a seed, and the mean; values (points, n)."""
    axis.plot(passes, values, "-", color=look.colour, alpha=0.18, linewidth=0.6)
    axis.plot(passes, values.mean(axis=1), **look.line, markersize=4, label=name)


def _legend_below(figure: Any, axis: Axes) -> None:
    handles, names = axis.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=9)


def learned_table(study: Study) -> Picture:
    """Which histograms are worth updating: values by state, and the states themselves."""
    frozen = study.learned.result.frozen[0]
    shown = [learned for learned in frozen.learned if not learned.policy.ordered]
    first = shown[0].policy
    order = np.argsort(mean_bin(first), kind="stable")
    clusters = first.values.shape[1]
    figure, axes = new_figure(
        len(shown),
        3,
        width=8.4,
        height=7.0,
        sharex=True,
        gridspec_kw={"height_ratios": (1, 2.2, 1)},
    )
    nodes = int(np.bincount(first.labels).max())
    states = histogram_states(nodes, first.bins)[order]
    told = []
    for column, learned in enumerate(shown):
        policy = learned.policy
        strip, dots, heat = axes[:, column]
        strip.imshow(states.T, aspect="auto", cmap="cividis", origin="lower")
        values, visits = state_values(policy)[:, order], policy.visits.sum(axis=0)[:, order]
        for row in values:
            dots.plot(row, ".", color=_look(policy).colour, alpha=0.25, markersize=3)
        means = np.nanmean(np.where(np.isfinite(values).any(axis=0), values, 0.0), axis=0)
        dots.plot(means, "-", color=INK, linewidth=1.4)
        weights = policy.visits[:, :, order]
        total = (policy.values[:, :, order] * weights).sum(axis=0)
        mean = np.divide(total, visits, out=np.full(total.shape, np.nan), where=visits > 0)
        image = heat.imshow(mean, aspect="auto", cmap="cividis")
        figure.colorbar(
            image, ax=axes[:, column], location="bottom", shrink=0.8, aspect=40, pad=0.02
        ).set_label("mean Q [units of the reward]")
        for axis in (strip, heat):
            axis.grid(False)
        strip.set_yticks(range(first.bins), [f"bin {b}" for b in range(first.bins)], fontsize=8)
        heat.set_yticks(range(clusters), [f"cluster {c}" for c in range(clusters)], fontsize=8)
        label(strip, title=f"reward: fall of the {policy.reward}")
        label(heat, x=f"states, from low to high disagreement (of {len(order)})")
        correlation = bin_correlation(policy).mean()
        told.append(f"{policy.reward}: mean correlation {correlation:+.2f}")
    axes[1, 0].set_ylabel("Q [units of the reward]")
    return Picture(
        figure,
        "learned_table",
        f"Learned tables over {len(order)} histogram states, ordered by disagreement. Value of a "
        f"state against the mean bin of its nodes: {'; '.join(told)}.",
        f"Policies of one cluster a sweep, {_setting(frozen)}. Top: how many of the {nodes} nodes "
        "of a cluster lie in each bin, bright is more; a column is a state. Middle: its value, a "
        f"dot for each of {len(first.seeds)} seeds, mean over clusters weighted by visits, and the "
        "mean over seeds as a line. Bottom: the mean for each cluster, blank where no seed has met "
        "the state. The first state is also that of every cluster at the start, when h = 0.",
        provenance(study),
    )


def _look(policy: Any) -> Look:
    return _LOOKS[f"{policy.name}(reward={policy.reward})"]


def learned_frozen(study: Study) -> Picture:
    """Test MSE of learned and other schedules on models whose weights stay as they are."""
    settings = study.learned.result.frozen
    counts = [len(frozen.scores) + len(frozen.peers) for frozen in settings]
    figure, axes = new_figure(
        1,
        len(settings),
        width=8.4,
        height=1.2 + 0.27 * sum(counts),
        gridspec_kw={"height_ratios": counts},
    )
    told = []
    for axis, frozen in zip(axes[:, 0], settings, strict=True):
        groups = by_work((*frozen.scores, *frozen.peers))
        _draw_scores(axis, groups)
        label(axis, title=f"Models {_setting(frozen)}", x="test MSE [standardised]")
        told.append(
            f"{_setting(frozen)}: "
            + ", ".join(
                f"{score.label} {score.test_mse.mean():.3g} ({score.node_updates:.0f} updates)"
                for score in frozen.scores
            )
        )
    return Picture(
        figure,
        "learned_frozen",
        f"Test MSE of schedules at run time. Learned ones: {'; '.join(told)}.",
        f"A dot for each of the {len(study.learned.result.test_seeds)} test seeds, means with 95 % "
        "t intervals; in colour the learned policies. Schedules of the same node updates a time "
        "step, in brackets, stand together, the lowest mean first. The oracle needs the answer "
        "and is no method.",
        provenance(study),
    )


def _draw_scores(axis: Axes, groups: dict[int, list[RunTimeScore | ArmResult]]) -> None:
    """A row a schedule: a dot a seed, the mean and its interval; groups are ruled off."""
    names, row = [], 0
    for updates, scores in groups.items():
        if names:
            axis.axhline(row - 0.5, color=MUTED, linewidth=0.8)
        for score in scores:
            look = _LOOKS.get(score.label.removesuffix(", retrained"), _PEER)
            height = row + spread(len(score.test_mse), 0.3)
            axis.plot(score.test_mse, height, ".", color=look.colour, alpha=0.35, markersize=4)
            _draw_mean_along(axis, row, score.test_mse, look)
            names.append(f"{score.label} ({updates})")
            row += 1
    log_scale(axis, "x")
    axis.set_yticks(range(row), names, fontsize=8.5)
    axis.set_ylim(row - 0.4, -0.6)


def _draw_mean_along(axis: Axes, row: float, values: np.ndarray, look: Look) -> None:
    """A mean with its 95 % t interval, lying down."""
    mean, interval = values.mean(), paired_t_interval(values)
    # A logarithmic axis has no room for an interval that ends below zero.
    ends = [[mean - max(interval.low, values.min() / 2)], [interval.high - mean]]
    axis.errorbar(mean, row, xerr=ends, fmt=look.marker, color=look.colour, capsize=3, markersize=6)


def learned_joint(study: Study) -> Picture:
    """Test MSE of arms whose policy was learned beside the weights, and of other trained arms."""
    result = study.learned.result
    groups = by_work((*joint_arms(study), *result.peers))
    counts = [len(group) for group in groups.values()]
    figure, axes = new_figure(
        1,
        len(groups),
        width=8.4,
        height=1.2 + 0.3 * sum(counts),
        gridspec_kw={"height_ratios": counts},
    )
    told = []
    for axis, (updates, group) in zip(axes[:, 0], groups.items(), strict=True):
        _draw_scores(axis, {updates: group})
        label(axis, title=f"{updates} node updates a time step", x="test MSE [standardised]")
        told.append(
            f"at {updates} updates "
            + ", ".join(f"{arm.label} {arm.test_mse.mean():.3g}" for arm in group)
        )
    return Picture(
        figure,
        "learned_joint",
        f"Test MSE of trained arms, the lowest mean first: {'; '.join(told)}.",
        "Every arm was trained with its schedule, at a learning rate selected on validation. A dot "
        "a test seed, means with 95 % t intervals; in colour the learned schedules, whose "
        "exploration is off at test. “Retrained”: the weights anew, under the tables that joint "
        "training has left, without exploration. The oracle needs the answer and is no method.",
        provenance(study),
    )


def learned_against_random(study: Study) -> Picture:
    """Every learned schedule over a random one at the same work."""
    return _ratios(
        study,
        "learned_against_random",
        against_random(study),
        "test MSE over that of a random schedule, a ratio",
        "Every learned schedule against a random choice, or a random order, of clusters at the "
        "same node updates.",
    )


def learned_exploration(study: Study) -> Picture:
    """What exploration in joint training costs, and what the reward changes."""
    claims = [*study.learned.family("exploration"), *study.learned.family("reward")]
    return _ratios(
        study,
        "learned_exploration",
        claims,
        "test MSE after the change over that before, a ratio",
        "First: models trained anew without exploration, under the tables that joint training has "
        "left, against the jointly trained ones. Then: the fall of the loss as reward against the "
        "fall of the residual.",
    )


def _ratios(study: Study, name: str, claims: Sequence[Claim], x: str, what: str) -> Picture:
    """A list of ratios with a picture's texts."""
    figure, axes = new_figure(width=8.4, height=1.3 + 0.42 * len(claims))
    draw_ratios(axes[0, 0], claims, [short(claim) for claim in claims])
    label(axes[0, 0], x=x)
    told = (
        f"{short(claim)} {claim.comparison.ratio.ratio:.2g} ({claim.verdict})" for claim in claims
    )
    return Picture(
        figure,
        name,
        f"Ratios of test MSE: {'; '.join(told)}.".replace("\n", ", "),
        f"{what} Diamonds are ratios of geometric means with 95 % intervals, dots those of the "
        f"test seeds; left of 1 the change helps. Shaded: ±{EQUIVALENCE_MARGIN:.0%}, the "
        "equivalence margin. p is that of the sign-flip test of the mean difference, adjusted by "
        "Holm's method over the claim's family.",
        provenance(study),
    )
