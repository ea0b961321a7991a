"""Every verdict of the report, each by a rule that stands here and nowhere else."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterdyn.comparison import EQUIVALENCE_MARGIN, SIGNIFICANCE, Comparison
from clusterdyn.mechanism import MechanismCheck, ReferenceView

SLOPE_RANGE = (1.9, 2.1)
COEFFICIENT_TOLERANCE = 0.01
RICHARDSON_TOLERANCE = 0.001
REFERENCE_SLOPE_RANGE = (1.85, 2.15)

RULES = {
    "comparison": (
        f"Significant: the two-sided sign-flip p is below {SIGNIFICANCE:g}. The sign of the mean "
        "difference says worse or better."
    ),
    "practical_verdict": (
        f"equivalent: two one-sided t tests at {SIGNIFICANCE:g} put the difference inside "
        f"±{EQUIVALENCE_MARGIN:.0%} of the baseline's mean. Otherwise helps or harms if the "
        f"two-sided sign-flip p is below {SIGNIFICANCE:g}, by the sign of the mean difference. "
        "Otherwise unclear."
    ),
    "system_verdict": (
        "works: the practical verdict is helps and the mechanism check passes. failed: it is "
        "harms or equivalent. inconclusive: anything else."
    ),
    "mechanism_ok": (
        "1 if, for both arms, for nodes and clusters, at the start and on the trajectory: the "
        f"90 % interval of the mean small-η slope lies in [{SLOPE_RANGE[0]}, {SLOPE_RANGE[1]}], "
        f"the predicted coefficient is met within {COEFFICIENT_TOLERANCE:.0%} at the smallest η "
        f"and within {RICHARDSON_TOLERANCE:.1%} after Richardson extrapolation for every model, "
        "and the zero controls are exactly 0. By this project's rule; the published one is not "
        "known."
    ),
    "confirmed": (
        "The published trial's view, float32 at η of .2 to .8: the log-log slope of the first "
        f"seed lies in [{REFERENCE_SLOPE_RANGE[0]}, {REFERENCE_SLOPE_RANGE[1]}]. It says nothing "
        "about whether the schedule helps."
    ),
}


def comparison_verdict(comparison: Comparison) -> str:
    """The published trial's wording of the result; rule ``comparison``."""
    if comparison.test.pvalue >= SIGNIFICANCE:
        return "no significant difference"
    side = "worse" if comparison.mean_difference > 0 else "better"
    return f"idea {side} (significant)"


def practical_verdict(comparison: Comparison, *, pvalue: float | None = None) -> str:
    """helps, harms, equivalent or unclear; rule ``practical_verdict``.

    Args:
        comparison: of two arms.
        pvalue: of the sign-flip test, if it was adjusted for several comparisons.
    """
    if comparison.equivalence.pvalue < SIGNIFICANCE:
        return "equivalent"
    if (comparison.test.pvalue if pvalue is None else pvalue) >= SIGNIFICANCE:
        return "unclear"
    return "harms" if comparison.mean_difference > 0 else "helps"


def system_verdict(practical: str, mechanism_ok: bool) -> str:
    """works, failed or inconclusive; rule ``system_verdict``."""
    if practical == "helps" and mechanism_ok:
        return "works"
    return "failed" if practical in ("harms", "equivalent") else "inconclusive"


@dataclass(frozen=True)
class MechanismCriterion:
    """One thing that the mechanism check asks, and whether it held.

    Attributes:
        name: what was asked.
        value: the worst figure found.
        limit: in words.
        held: whether the value is inside the limit.
    """

    name: str
    value: float
    limit: str
    held: bool


def mechanism_criteria(checks: Sequence[MechanismCheck]) -> tuple[MechanismCriterion, ...]:
    """The parts of rule ``mechanism_ok``, over the checks of all arms."""
    laws = [law for check in checks for law in check.laws]
    # numpy's extremes, unlike Python's, hand on a NaN, and a NaN holds no limit.
    low = float(np.min([law.slope_low for law in laws]))
    high = float(np.max([law.slope_high for law in laws]))
    coefficient = float(np.max([law.coefficient_error[0] for law in laws]))
    richardson = float(np.max([law.richardson_error[0] for law in laws]))
    first_block = float(np.max([law.first_block for law in laws]))
    independent = float(np.max([check.independent_sets for check in checks]))
    slopes = f"in [{SLOPE_RANGE[0]}, {SLOPE_RANGE[1]}]"
    smallest = laws[0].relaxations[0]
    return (
        MechanismCriterion(
            "lowest end of a 90 % interval of the slope", low, slopes, low >= SLOPE_RANGE[0]
        ),
        MechanismCriterion(
            "highest end of a 90 % interval of the slope", high, slopes, high <= SLOPE_RANGE[1]
        ),
        MechanismCriterion(
            f"largest error of the predicted coefficient at η = {smallest:g}",
            coefficient,
            f"at most {COEFFICIENT_TOLERANCE:g}",
            coefficient <= COEFFICIENT_TOLERANCE,
        ),
        MechanismCriterion(
            "the same after Richardson extrapolation",
            richardson,
            f"at most {RICHARDSON_TOLERANCE:g}",
            richardson <= RICHARDSON_TOLERANCE,
        ),
        MechanismCriterion(
            "largest discrepancy in the block that moves first",
            first_block,
            "exactly 0",
            first_block == 0,
        ),
        MechanismCriterion(
            "largest discrepancy within independent sets",
            independent,
            "exactly 0",
            independent == 0,
        ),
    )


def confirmed(view: ReferenceView) -> bool:
    """Whether the published view of the mechanism holds; rule ``confirmed``."""
    low, high = REFERENCE_SLOPE_RANGE
    return bool(low <= view.slope[0] <= high)
