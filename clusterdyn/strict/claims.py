"""Every comparison that the strict study claims anything from, family by family.

Within a family the p values are adjusted by Holm's method. A positive difference says that the
treatment is worse than the baseline.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from clusterdyn.comparison import Comparison, compare
from clusterdyn.config import StudyConfig
from clusterdyn.stats import holm
from clusterdyn.strict.arms import (
    BASELINE,
    CORE,
    Arm,
    at_work,
    claim_budget,
    compared,
    noisy_round_robin,
)
from clusterdyn.strict.config import StrictConfig
from clusterdyn.strict.study import GRU, NULL, StrictResult, published
from clusterdyn.verdicts import practical_verdict

FAMILIES = {
    "equal_sweeps": "every schedule against the full sweep, at the same number of sweeps",
    "equal_work": "every schedule against the full sweep, at the same node updates",
    "largest_work": "the same at the largest budget of node updates",
    "decomposition": "the published gap, one change at a time",
    "predictability": "orders that a read-out can or cannot get used to",
    "yardsticks": "the full sweep against predictors of other kinds",
    "horizons": "the core schedules against the full sweep at other horizons",
    "epochs": "the core schedules against the full sweep after more training",
    "null": "the full sweep against itself in another minibatch order",
}


@dataclass(frozen=True)
class Claim:
    """One comparison.

    Attributes:
        family: a key of ``FAMILIES``.
        step: what is changed from baseline to treatment, in words.
        baseline, treatment: labels of the arms.
        comparison: of their test MSE, paired by seed.
        adjusted_p: by Holm's method over the family.
        verdict: helps, harms, equivalent or unclear, by ``verdicts`` with the adjusted p.
    """

    family: str
    step: str
    baseline: str
    treatment: str
    comparison: Comparison
    adjusted_p: float
    verdict: str


@dataclass(frozen=True)
class Pair:
    """Scores of two arms, by seed; the longer list is cut to the shorter one's seeds.

    Attributes:
        step: what is changed from baseline to treatment, in words.
        baseline, treatment: labels of the arms.
        scores: test MSE of both.
    """

    step: str
    baseline: str
    treatment: str
    scores: tuple[np.ndarray, np.ndarray]


def all_claims(
    result: StrictResult, config: StudyConfig, strict: StrictConfig, published_rate: float
) -> tuple[Claim, ...]:
    """Every claim of every family.

    Args:
        result: what was measured.
        config, strict: the settings that it was measured under.
        published_rate: the learning rate that the reference protocol chose for the histogram.
    """
    budget, largest = claim_budget(strict), max(strict.work_budgets)
    families = {
        "equal_sweeps": _against_full(
            result, [Arm(name) for name in compared(config)], Arm(BASELINE)
        ),
        "equal_work": _at_budget(result, config, strict, budget),
        "largest_work": _at_budget(result, config, strict, largest) if largest > budget else [],
        "decomposition": [
            _pair(result, before, after, step)
            for before, after, step in decomposition(config, strict, published_rate)
        ],
        "predictability": _predictability(result, strict),
        "yardsticks": _yardsticks(result),
        "horizons": _changed(result, "horizon", strict.horizons, config.horizon),
        "epochs": _changed(result, "epochs", strict.epoch_budgets, config.epochs),
        "null": [_pair(result, Arm(BASELINE), NULL, "another minibatch order")],
    }
    return tuple(
        claim
        for family, pairs in families.items()
        for claim in adjusted_claims(family, pairs, result.test_seeds)
    )


def arm_at_budget(
    result: StrictResult, config: StudyConfig, schedule: str, budget: int
) -> Arm | None:
    """The measured arm of a schedule at a budget of node updates, or None."""
    arm = at_work(config, schedule, budget)
    labels = [found.label for found in result.arms]
    return arm if arm is not None and arm.label in labels else None


def decomposition(
    config: StudyConfig, strict: StrictConfig, published_rate: float
) -> list[tuple[Arm, Arm, str]]:
    """The way from the published idea to the full sweep, one change at a time.

    The mean differences of the steps add up to that of the whole way.

    Returns:
        (before, after, what changes) of each step.
    """
    budget = claim_budget(strict)

    def at(schedule: str) -> Arm:
        return at_work(config, schedule, budget) or Arm(schedule)

    way = [
        (published(published_rate), "the published idea at its published learning rate"),
        (Arm("histogram"), "learning rate chosen on validation, from a wider grid"),
        (Arm("histogram(ties=oldest)"), "ties to the cluster that has waited longest"),
        (Arm("histogram_fair"), "a bonus for waiting"),
        (at("histogram_fair"), "as many node updates as the full sweep"),
        (at("histogram_ordered"), "the histogram orders all clusters instead of choosing one"),
        (at("cluster_sequential"), "a fixed order instead of the histogram's"),
        (at("full"), "all nodes at once instead of cluster by cluster"),
    ]
    return [
        (before, after, step) for (before, _), (after, step) in pairwise(way) if before != after
    ]


def _pair(result: StrictResult, baseline: Arm, treatment: Arm, step: str) -> Pair:
    scores = (result.of(baseline).test_mse, result.of(treatment).test_mse)
    return Pair(step, baseline.label, treatment.label, scores)


def _against_full(result: StrictResult, arms: Sequence[Arm], full: Arm) -> list[Pair]:
    return [
        _pair(result, full, arm, f"{arm.schedule} instead of {full.schedule}")
        for arm in arms
        if arm != full
    ]


def _at_budget(
    result: StrictResult, config: StudyConfig, strict: StrictConfig, budget: int
) -> list[Pair]:
    full = arm_at_budget(result, config, BASELINE, budget)
    arms = [arm_at_budget(result, config, name, budget) for name in compared(config)]
    return _against_full(result, [arm for arm in arms if arm], full) if full else []


def _predictability(result: StrictResult, strict: StrictConfig) -> list[Pair]:
    steps = [
        ("random", "random(share=batch)", "one draw for the whole batch, not one a trajectory"),
        ("random", "random(share=always)", "the same random order in every rollout"),
        ("random(share=always)", "round_robin", "round robin, not a fixed random order"),
        ("histogram_fair", "histogram_fair(share=batch)", "one choice for the whole batch"),
    ]
    calm, *noisy = noisy_round_robin(strict)
    steps += [(calm, name, f"{name} instead of {calm}") for name in noisy]
    return [_pair(result, Arm(a), Arm(b), step) for a, b, step in steps]


def _yardsticks(result: StrictResult) -> list[Pair]:
    full = result.of(Arm(BASELINE)).test_mse
    others = {
        "persistence": result.persistence,
        "linear least squares": result.linear,
        "gru": result.of(GRU).test_mse,
    }
    return [
        Pair(f"{name} instead of message passing", BASELINE, name, (full, scores))
        for name, scores in others.items()
    ]


def _changed(result: StrictResult, field: str, values: tuple[int, ...], default: int) -> list[Pair]:
    def arm(schedule: str, value: int) -> Arm:
        return Arm(schedule, () if value == default else ((field, value),))

    return [
        _pair(result, arm(BASELINE, value), arm(name, value), f"{name}, {field} {value}")
        for value in values
        for name in CORE
        if name != BASELINE
    ]


def adjusted_claims(name: str, pairs: Sequence[Pair], seeds: np.ndarray) -> list[Claim]:
    """Comparisons of a family, with Holm's adjustment over it.

    Args:
        name: of the family.
        pairs: what is compared.
        seeds: (n,), of the longest scores.
    """
    if not pairs:
        return []
    comparisons = []
    for pair in pairs:
        count = min(map(len, pair.scores))
        baseline, treatment = (scores[:count] for scores in pair.scores)
        comparisons.append(compare(seeds[:count], baseline, treatment))
    adjusted = holm([comparison.test.pvalue for comparison in comparisons])
    return [
        Claim(
            family=name,
            step=pair.step,
            baseline=pair.baseline,
            treatment=pair.treatment,
            comparison=comparison,
            adjusted_p=float(p),
            verdict=practical_verdict(comparison, pvalue=float(p)),
        )
        for pair, comparison, p in zip(pairs, comparisons, adjusted, strict=True)
    ]
