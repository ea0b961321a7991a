"""What the strict study found, in sentences whose numbers come from its results."""

from collections.abc import Sequence

import numpy as np

from clusterdyn.comparison import EQUIVALENCE_MARGIN, SIGNIFICANCE
from clusterdyn.display import listed
from clusterdyn.protocol import Study
from clusterdyn.stats import paired_t_interval
from clusterdyn.strict.arms import BASELINE, TIE_RULES, Arm
from clusterdyn.strict.claims import Claim
from clusterdyn.strict.starvation import starvation_by_cluster, starvation_by_sweep
from clusterdyn.strict.tables import (
    arm_named,
    best_claim,
    core_orders,
    core_scores,
    decomposition_parts,
    found_interval,
    methods,
    needs_answer,
    pareto_front,
    shared_seeds,
)

_SENSES = {
    "helps": "better",
    "harms": "worse",
    "equivalent": "equivalent",
    "unclear": "unclear (neither a difference nor equivalence is shown)",
}
# What was changed, by the part of the decomposition: as a cause, and as an action.
_CAUSES = {
    "learning rate": "the selection of the learning rate accounts for",
    "starvation": "the starvation of clusters for",
    "work": "the amount of work for",
    "order": "the order of the updates for",
}
_ACTIONS = {
    "learning rate": "selecting the learning rate on validation",
    "starvation": "keeping clusters from starving",
    "work": "raising the work to the full sweep's",
    "order": "fixing the order and at last moving all nodes at once",
}


def strict_headline(study: Study) -> str:
    """The answer of the strict protocol in two plain sentences."""
    claims, best = study.inference.family("equal_work"), best_claim(study, "equal_work")
    if best is None:
        return f"No schedule can keep the full sweep's work in this run. {_gap(study)}"
    work = arm_named(study, best.baseline).node_updates
    scores = best.comparison.treatment
    same = [claim for claim in claims if np.array_equal(claim.comparison.treatment, scores)]
    names = " = ".join(_treatment(study, claim) for claim in same)
    return (
        f"At equal work ({work:.0f} node updates a time step), against the full sweep: "
        f"{_by_verdict(study, claims)}; of the schedules that do not need the answer, {names} has "
        f"the lowest test MSE ({evidence(best)}). {_gap(study)}"
    )


def schedules(study: Study) -> str:
    """Closes notebook 05."""
    parts = [f"**Equal work.** {strict_headline(study)}", _with_the_answer(study)]
    for family, title in (("equal_sweeps", "Equal sweeps"), ("largest_work", "Largest budget")):
        claims = study.inference.family(family)
        if claims:
            full, seeds = arm_named(study, claims[0].baseline), len(claims[0].comparison.seeds)
            parts.append(
                f"**{title}** ({full.label}, {full.node_updates:.0f} node updates, n = {seeds}): "
                f"{_by_verdict(study, claims)}."
            )
    seeds = shared_seeds(study)
    front = listed(
        f"`{arm.label}` ({arm.node_updates:.3g} updates, MSE {arm.test_mse[:seeds].mean():.3g})"
        for arm in pareto_front(methods(study), seeds)
    )
    parts.append(
        f"**Pareto front** of work and mean test MSE over the {seeds} test seeds that all arms "
        f"share, without the answer: {front}."
    )
    parts += [starvation_by_cluster(study), _matrix(study), _relaxation(study), diverged(study)]
    return "\n\n".join(filter(None, parts))


def _with_the_answer(study: Study) -> str:
    told = [
        f"{arm_named(study, claim.treatment).schedule} ({evidence(claim)}): {claim.verdict}"
        for claim in study.inference.family("equal_work")
        if needs_answer(study, arm_named(study, claim.treatment))
    ]
    return f"**With the answer**, which no method has: {listed(told)}." if told else ""


def _matrix(study: Study) -> str:
    names, means = study.strict.matrix_schedules, study.strict.matrix.mean(axis=-1)
    if not np.isfinite(means).all():
        return "**Train and test.** Some models diverge under another schedule than their own."
    own = np.sum(means.argmin(axis=1) == np.arange(len(names)))
    ratios = means / np.diag(means)[:, None]
    trained, tested = np.unravel_index(ratios.argmax(), ratios.shape)
    return (
        f"**Train and test.** {own} of {len(names)} trained schedules have their lowest mean MSE "
        f"under themselves. The costliest swap is to train with {names[trained]} and test under "
        f"{names[tested]}: {ratios.max():.3g} times the MSE."
    )


def _relaxation(study: Study) -> str:
    result = study.strict
    best = result.relaxations[result.relaxation_mse.mean(axis=-1).argmin(axis=1)]
    told = listed(
        f"{name} at {eta:g}" for name, eta in zip(result.relaxation_schedules, best, strict=True)
    )
    return (
        f"**Relaxation at test time.** All are trained at η = {study.config.relaxation:g}; of the "
        f"tested values, the lowest mean MSE is reached by {told}."
    )


def protocol(study: Study) -> str:
    """Closes notebook 06."""
    result, power = study.strict, study.inference.power
    edges = [f"`{arm.label}`" for arm in result.arms if arm.at_edge]
    edge = (
        f"a better rate may lie outside the grids of {len(edges)}: {listed(edges)}."
        if edges
        else "no arm is left at an edge."
    )
    (null,) = study.inference.family("null")
    low, high = found_interval(study)[0]
    alarm = "covers" if low <= SIGNIFICANCE <= high else "does not cover"
    return "\n\n".join(
        [
            f"**Same treatment.** The grids of {sum(arm.extensions > 0 for arm in result.arms)} of "
            f"{len(result.arms)} arms were extended; {edge} {diverged(study)}",
            "**Nothing against nothing.** The full sweep against itself in another minibatch "
            f"order ({evidence(null)}): {null.verdict}. Of {power.studies} simulated "
            f"studies without a difference, {power.found[0]:.1%} raise a false alarm; the "
            f"Clopper–Pearson 95 % interval, {low:.1%} to {high:.1%}, {alarm} the level of "
            f"{SIGNIFICANCE:.0%}.",
            f"**Something against nothing.** With {power.seeds} seeds, a mean difference of "
            f"{power.detectable:.1%} of the mean score is found with 80 % power, before any "
            f"adjustment for several claims. {_simulated(study)}",
            _limits(study),
        ]
    )


def _simulated(study: Study) -> str:
    power = study.inference.power
    reached = power.improvements[power.found >= 0.8]
    if len(reached) == 0:
        return (
            f"No simulated improvement, up to {power.improvements.max():.0%}, is found in 80 % of "
            f"the studies; the largest share is {power.found.max():.0%}."
        )
    return f"The smallest simulated improvement found in 80 % of studies is {reached.min():.0%}."


def _limits(study: Study) -> str:
    power, claims, config = study.inference.power, study.inference.claims, study.config
    side = "below" if power.detectable > EQUIVALENCE_MARGIN else "not below"
    unclear = sum(claim.verdict == "unclear" for claim in claims)
    return (
        f"**What it cannot do.** The equivalence margin of {EQUIVALENCE_MARGIN:.0%} is {side} the "
        f"detectable {power.detectable:.1%}. {unclear} of {len(claims)} claims stay unclear, which "
        "speaks neither for a difference nor against it. The power is that of the full sweep's "
        "scatter; arms that scatter more are told apart less easily. Seeds say nothing about other "
        f"tasks, or about other sizes than {config.nodes} nodes with {config.channels} channels in "
        f"{config.clusters} clusters. Claims of different families are not adjusted for each other."
    )


def why(study: Study) -> str:
    """Closes notebook 07."""
    parts = [
        f"**The gap.** {_gap(study)} {_parts(study)}",
        _ties(study),
        starvation_by_sweep(study),
        _predictability(study),
        _survival(study, "horizon"),
        _survival(study, "epochs"),
        _yardsticks(study),
        diverged(study),
    ]
    return "\n\n".join(parts)


def _gap(study: Study) -> str:
    parts = decomposition_parts(study)
    closed = sum(part.closed for part in parts)
    gap, interval = closed.mean(), paired_t_interval(closed)
    text = (
        f"The mean test MSE of the published idea lies {abs(gap):.3g} "
        f"{'above' if gap > 0 else 'below'} the full sweep's (95 % t interval of the difference "
        f"{interval.low:.3g} to {interval.high:.3g})"
    )
    if interval.low <= 0:
        return f"{text}, so there is no clear gap to share out."
    shares = [f"{_CAUSES[part.name]} {part.closed.mean() / gap:.0%}" for part in parts]
    return f"{text}; of this gap, {listed(shares)}."


def _parts(study: Study) -> str:
    told = []
    for part in decomposition_parts(study):
        low, high = part.interval.low, part.interval.high
        effect = "lowers it" if low > 0 else "raises it" if high < 0 else "shows no clear effect"
        told.append(
            f"{_ACTIONS[part.name]} {effect} ({part.closed.mean():+.3g}, {low:.3g} to {high:.3g})"
        )
    return f"By how much the mean MSE falls, with 95 % t intervals: {'; '.join(told)}."


def _ties(study: Study) -> str:
    told = "; ".join(
        f"{arm.schedule} has a mean MSE of {arm.test_mse.mean():.3g} and gives one cluster "
        f"{arm.share.max(axis=1).mean():.0%} of the updates"
        for arm in (study.strict.of(Arm(name)) for name in TIE_RULES)
    )
    return f"**Ties** at K = {study.config.sweeps}: {told}."


def _predictability(study: Study) -> str:
    claims = study.inference.family("predictability")
    noisy = [claim for claim in claims if claim.treatment.startswith("round_robin(noise")]
    others = [claim for claim in claims if claim not in noisy]
    (fixed,) = (claim for claim in claims if claim.treatment == "random(share=always)")
    (left,) = (claim for claim in claims if claim.baseline == "random(share=always)")
    (chosen,) = (claim for claim in claims if claim.baseline == "histogram_fair")
    harmed = sum(claim.verdict == "harms" for claim in noisy)
    shown = (harmed == len(noisy)) + (fixed.verdict == "helps")
    conclusion = ("neither is shown", "one of the two is shown", "both are shown")[shown]
    told = "; ".join(f"{claim.step} ({evidence(claim)}): {claim.verdict}" for claim in others)
    return (
        "**Predictability.** A read-out that gets used to an order must lose when noise is put "
        "into round robin, and gain when a random order never changes. Noise harms at "
        f"{harmed} of {len(noisy)} levels, and the unchanging random order, against a new one in "
        f"every rollout, is judged: {fixed.verdict}. So {conclusion}. What is left between it and "
        f"round robin: {left.verdict}. One choice of the histogram for the whole batch, not one a "
        f"trajectory: {chosen.verdict}. In detail: {told}."
    )


def _survival(study: Study, field: str) -> str:
    values, scores = core_scores(study, field)
    ranked, tau = core_orders(study, field)
    told = "; ".join(
        f"{field} {value}: {', '.join(order)}" for value, order in zip(values, ranked, strict=True)
    )
    kept = (
        "The order is the same throughout."
        if len(set(ranked)) == 1
        else f"Kendall's τ between the first and the last order is {tau:.2f}."
    )
    return (
        f"**Other {'horizons' if field == 'horizon' else 'epochs'}.** From best to worst mean test "
        f"MSE of {len(scores[BASELINE][0])} seeds: {told}. {kept}"
    )


def _yardsticks(study: Study) -> str:
    claims = study.inference.family("yardsticks")
    told = "; ".join(f"{claim.treatment} ({evidence(claim)}): {claim.verdict}" for claim in claims)
    return f"**Yardsticks** against the full sweep: {told}."


def diverged(study: Study) -> str:
    """How many models diverged, and what became of them."""
    arms = study.strict.arms
    chosen = sum(arm.selection_diverged for arm in arms)
    tested = [f"{arm.test_diverged} of `{arm.label}`" for arm in arms if arm.test_diverged]
    if not chosen and not tested:
        return "No model diverged, neither in selection nor on the test seeds."
    at_test = f"{listed(tested)}, scored as persistence" if tested else "none"
    return f"Diverged models: {chosen} in selection; on the test seeds {at_test}."


def evidence(claim: Claim) -> str:
    """A claim's ratio with its interval, n and p values."""
    ratio, test = claim.comparison.ratio, claim.comparison.test
    return (
        f"ratio {ratio.ratio:.3g}, 95 % interval {ratio.low:.3g} to {ratio.high:.3g}, n = "
        f"{len(claim.comparison.seeds)}, sign-flip p = {test.pvalue:.2g}, adjusted p = "
        f"{claim.adjusted_p:.2g}"
    )


def _by_verdict(study: Study, claims: Sequence[Claim]) -> str:
    names = {
        sense: [_treatment(study, claim) for claim in claims if claim.verdict == verdict]
        for verdict, sense in _SENSES.items()
    }
    names[_SENSES["helps"]] = names[_SENSES["helps"]] or ["none"]
    return "; ".join(f"{sense}: {listed(found)}" for sense, found in names.items() if found)


def _treatment(study: Study, claim: Claim) -> str:
    arm = arm_named(study, claim.treatment)
    return f"{arm.schedule} (given the answer)" if needs_answer(study, arm) else arm.schedule
