"""The strict study's results as they are read: grouped, sorted, and put into tables."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats as distributions

from clusterdyn.arms import arm_schedule
from clusterdyn.protocol import Study
from clusterdyn.stats import Interval, paired_t_interval
from clusterdyn.strict.arms import CORE, TIE_RULES, Arm, changed_arms, work_arms
from clusterdyn.strict.claims import FAMILIES, Claim
from clusterdyn.strict.study import ArmResult
from clusterdyn.tables import Table

PARTS = ("learning rate", "starvation", "work", "order")
# What a step of the decomposition changes, by the schedule that it leads to.
_PART_OF = {
    "histogram": "learning rate",
    "histogram(ties=oldest)": "starvation",
    "histogram_fair": "starvation",
    "histogram_ordered": "order",
    "cluster_sequential": "order",
    "full": "order",
}


@dataclass(frozen=True)
class Part:
    """One cause of the published gap: one or several steps of the decomposition.

    Attributes:
        name: one of ``PARTS``.
        steps: the claims that it is made of.
        closed: (n,), by how much the steps lower the test MSE, a seed each.
        interval: 95 % t interval of the mean.
    """

    name: str
    steps: tuple[Claim, ...]
    closed: np.ndarray
    interval: Interval


def compared_arms(study: Study) -> dict[str, tuple[ArmResult, ...]]:
    """The arms of every compared schedule, by ascending work."""
    arms = work_arms(study.config, study.strict_config)
    return {name: tuple(map(study.strict.of, group)) for name, group in arms.items()}


def arm_named(study: Study, label: str) -> ArmResult:
    """The arm of a claim."""
    (found,) = (arm for arm in study.strict.arms if arm.label == label)
    return found


def needs_answer(study: Study, arm: ArmResult) -> bool:
    """Whether an arm's schedule reads the loss that it is scored by: a yardstick, no method."""
    return arm_schedule(study.config, arm.schedule).needs_answer


def methods(study: Study) -> list[ArmResult]:
    """Every compared arm but those that need the answer."""
    arms = [arm for group in compared_arms(study).values() for arm in group]
    return [arm for arm in arms if not needs_answer(study, arm)]


def shared_seeds(study: Study) -> int:
    """How many test seeds, from the first, every compared arm was tested on."""
    arms = [arm for group in compared_arms(study).values() for arm in group]
    return min(len(arm.test_mse) for arm in arms)


def pareto_front(arms: Sequence[ArmResult], seeds: int) -> list[ArmResult]:
    """The arms that no other beats in work and mean test MSE, by ascending work.

    Args:
        arms: to choose from.
        seeds: how many test seeds, from the first, the means are taken over: as many as all arms
            share, since means over different seeds also differ by the seeds' data.
    """
    points = [(arm.node_updates, float(arm.test_mse[:seeds].mean())) for arm in arms]
    front = [
        arm
        for arm, (work, mse) in zip(arms, points, strict=True)
        if not any(w <= work and m <= mse and (w, m) != (work, mse) for w, m in points)
    ]
    return sorted(front, key=lambda arm: arm.node_updates)


def best_claim(study: Study, family: str) -> Claim | None:
    """The claim of a family with the smallest ratio whose treatment needs no answer."""
    claims = [
        claim
        for claim in study.inference.family(family)
        if not needs_answer(study, arm_named(study, claim.treatment))
    ]
    return min(claims, key=lambda claim: claim.comparison.ratio.ratio, default=None)


def arms_by_cluster(study: Study) -> list[ArmResult]:
    """Arms at the study's own sweeps that move whole clusters: all compared, and the tie rules."""
    names = dict.fromkeys([*compared_arms(study), *TIE_RULES])
    arms = [study.strict.of(Arm(name)) for name in names]
    return [arm for arm in arms if arm.share.shape[1] == study.config.clusters]


def decomposition_parts(study: Study) -> list[Part]:
    """The causes of the published gap, in the order of ``PARTS``."""
    steps: dict[str, list[Claim]] = {name: [] for name in PARTS}
    for claim in study.inference.family("decomposition"):
        before, after = (arm_named(study, name) for name in (claim.baseline, claim.treatment))
        more_work = before.schedule == after.schedule and before.changes != after.changes
        steps["work" if more_work else _PART_OF[after.schedule]].append(claim)
    parts = []
    for name, claims in steps.items():
        if claims:
            closed = -np.sum([claim.comparison.differences for claim in claims], axis=0)
            parts.append(Part(name, tuple(claims), closed, paired_t_interval(closed)))
    return parts


def core_scores(
    study: Study, field: str
) -> tuple[tuple[int, ...], dict[str, tuple[np.ndarray, ...]]]:
    """Test MSE of the core schedules under each value of a setting, on the same seeds.

    Args:
        study: with the strict protocol.
        field: horizon or epochs.

    Returns:
        The values, ascending, and for every schedule the scores (n,) at each.
    """
    strict = study.strict_config
    values = tuple(sorted({"horizon": strict.horizons, "epochs": strict.epoch_budgets}[field]))
    arms = changed_arms(field, values, getattr(study.config, field))
    scores = [study.strict.of(arm).test_mse for arm in arms]
    count = min(map(len, scores))
    return values, {
        name: tuple(row[:count] for row in scores[i * len(values) : (i + 1) * len(values)])
        for i, name in enumerate(CORE)
    }


def core_orders(study: Study, field: str) -> tuple[list[tuple[str, ...]], float]:
    """The core schedules from best to worst mean at each value, and Kendall's tau of the ends."""
    values, scores = core_scores(study, field)
    means = np.array([[column.mean() for column in scores[name]] for name in CORE])
    ranked = [tuple(CORE[i] for i in np.argsort(means[:, v])) for v in range(len(values))]
    return ranked, float(distributions.kendalltau(means[:, 0], means[:, -1]).statistic)


def found_interval(study: Study) -> np.ndarray:
    """(E, 2): Clopper-Pearson 95 % intervals of the shares of simulated studies."""
    power = study.inference.power
    counts = np.rint(power.found * power.studies).astype(int)
    tests = [distributions.binomtest(int(count), power.studies) for count in counts]
    return np.array([tuple(test.proportion_ci(method="exact")) for test in tests])


def arms(study: Study) -> Table:
    """Every arm from its learning rate to its test score."""
    rows = [
        (
            arm.label,
            f"{arm.rate:g}",
            "given" if len(arm.validation) == 0 else arm.at_edge,
            arm.node_updates,
            len(arm.test_mse),
            float(arm.test_mse.mean()),
            arm.test_diverged,
        )
        for arm in study.strict.arms
    ]
    return Table(
        (
            "arm",
            "learning rate",
            "at edge",
            "node updates",
            "seeds",
            "mean test MSE",
            "diverged",
        ),
        rows,
        "Every arm of the strict study: the learning rate that the validation split chose and "
        "whether it is still an edge of the grid, node updates a time step, test seeds, mean test "
        "MSE in standardised units, and test seeds whose model diverged (scored as persistence).",
    )


def claims(study: Study, family: str) -> Table:
    """Every comparison of a family."""
    return claims_table(study.inference.family(family), FAMILIES[family])


def claims_table(found: Sequence[Claim], meaning: str) -> Table:
    """Every comparison of a family.

    Args:
        found: its claims.
        meaning: what is compared in it.
    """
    baselines = {claim.baseline for claim in found}
    against = f"; the baseline is {found[0].baseline}" if len(baselines) == 1 else ""
    rows = [
        (
            claim.treatment if against else claim.step,
            claim.verdict,
            len(c.seeds),
            f"{c.ratio.ratio:.3g} [{c.ratio.low:.3g}, {c.ratio.high:.3g}]",
            f"{c.test.pvalue:.2g}",
            f"{claim.adjusted_p:.2g}",
            c.win_rate.wins,
            f"{_thousandths(c.mean_difference, '+')} "
            f"[{_thousandths(c.t_interval.low)}, {_thousandths(c.t_interval.high)}]",
        )
        for claim in found
        for c in [claim.comparison]
    ]
    return Table(
        (
            "comparison",
            "verdict",
            "n",
            "ratio",
            "p",
            "adj.\N{NO-BREAK SPACE}p",
            "wins",
            "difference, 10⁻³",
        ),
        rows,
        f"{meaning.capitalize()}{against}. Ratios of geometric means with 95 % intervals; "
        "two-sided sign-flip p, adjusted by Holm's method over these "
        f"{len(found)}; wins count the seeds that are better than the baseline; differences of "
        "mean test MSE, in thousandths, with 95 % t intervals.",
    )


def _thousandths(value: float, sign: str = "") -> str:
    """A thousand times a value, to two digits or to the unit; ``sign`` as of a format."""
    value *= 1000
    return f"{value:{sign}.0f}" if abs(value) >= 10 else f"{value:{sign}.2g}"


def budgets(study: Study) -> Table:
    """What each kind of arm was given, so that every arm of a kind got the same."""
    kinds: dict[tuple[int, int, int], list[ArmResult]] = {}
    for arm in study.strict.arms:
        seeds, rates = arm.validation.shape
        first = rates - arm.extensions if seeds else 0
        kinds.setdefault((seeds, first, len(arm.test_mse)), []).append(arm)
    rows = [
        (
            _kind(group, tests < len(study.strict.test_seeds)),
            f"{seeds} × {rates} = {seeds * rates}" if seeds else "none, rate given",
            f"{seeds} a rate" if seeds else "none",
            tests,
            sum(arm.extensions > 0 for arm in group),
            sum(arm.at_edge for arm in group),
            sum(arm.selection_diverged for arm in group),
            sum(arm.test_diverged for arm in group),
        )
        for (seeds, rates, tests), group in kinds.items()
    ]
    return Table(
        (
            "arms",
            "models an arm for selection, seeds × rates",
            "more for an extension",
            "models an arm for the test",
            "arms extended",
            "arms at edge",
            "diverged in selection",
            "diverged at test",
        ),
        rows,
        "Models trained for every arm of a kind: the same seeds and the same grid within it. Only "
        "where the best rate is an edge does a grid grow.",
    )


def _kind(group: Sequence[ArmResult], side: bool) -> str:
    if len(group) == 1:
        return group[0].label
    return f"{len(group)} arms{' of side experiments' if side else ''}"


def extensions(study: Study) -> Table:
    """The arms whose grid grew, whose rate is still an edge, or of which a model diverged."""
    rows = [
        (
            arm.label,
            f"{arm.rate:g}",
            f"{arm.rates.min():g} to {arm.rates.max():g}",
            arm.extensions,
            arm.at_edge,
            arm.selection_diverged,
            arm.test_diverged,
        )
        for arm in study.strict.arms
        if arm.extensions or arm.at_edge or arm.selection_diverged or arm.test_diverged
    ]
    return Table(
        (
            "arm",
            "learning rate",
            "grid",
            "extensions",
            "at edge",
            "diverged in selection",
            "diverged at test",
        ),
        rows or [("none", *[None] * 6)],
        f"The {len(rows)} of {len(study.strict.arms)} arms whose grid was extended, whose rate is "
        "still an edge, or of which a model diverged.",
    )
