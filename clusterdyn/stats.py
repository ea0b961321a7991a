"""Paired statistics for two arms that were run on the same seeds; lower scores are better.

Throughout, `differences` is a float vector of shape (n,), treatment − baseline, one value a seed,
in the unit of the score (in this study standardised MSE); a negative difference is a win. Invalid
differences (not 1-D, fewer than 2 seeds, NaN or infinity) raise ValueError, as does any other
argument out of range. Everything is a pure function; randomness needs a generator from the caller.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import brentq

from clusterdyn.scores import (
    check_count,
    check_probability,
    checked_pair,
    checked_scores,
    refuse_seeds,
)
from clusterdyn.sign_flip import Interval, SignFlipResult, sign_flip_interval, sign_flip_test

__all__ = [
    "EffectSize",
    "EquivalenceResult",
    "Interval",
    "Ratio",
    "SignFlipResult",
    "WinRate",
    "ci_half_width",
    "effect_size",
    "equivalence_test",
    "geometric_mean_ratio",
    "holm",
    "minimum_detectable_effect",
    "paired_differences",
    "paired_t_interval",
    "sign_flip_interval",
    "sign_flip_test",
    "win_rate",
]


@dataclass(frozen=True)
class WinRate:
    """Counts of seeds; [low, high] is the interval of the probability of a win."""

    wins: int
    ties: int
    losses: int
    low: float
    high: float


@dataclass(frozen=True)
class EffectSize:
    """Standardised mean difference of pairs, plain and corrected for small n."""

    d_z: float
    hedges_g: float


@dataclass(frozen=True)
class Ratio:
    """Ratio of geometric means, treatment / baseline, with its interval."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class EquivalenceResult:
    """Two one-sided tests of `mean` against the margins `low` and `high`."""

    pvalue: float
    p_lower: float
    p_upper: float
    low: float
    high: float
    mean: float


def _check_sd(sd: float) -> None:
    if not 0 <= sd < math.inf:
        raise ValueError(f"sd must be finite and not negative; got {sd!r}")


def _sample_sd(values: np.ndarray) -> float:
    # Rounding would make the deviation of equal values about 1e-17, and a t statistic of it huge.
    return 0.0 if np.ptp(values) == 0 else float(values.std(ddof=1))


def _t_interval(values: np.ndarray, confidence_level: float) -> tuple[float, float, float]:
    mean = float(values.mean())
    half = ci_half_width(_sample_sd(values), values.size, confidence_level=confidence_level)
    return mean, mean - half, mean + half


def paired_differences(baseline: ArrayLike, treatment: ArrayLike) -> np.ndarray:
    """Subtract the baseline's scores from the treatment's, seed by seed.

    Args:
        baseline, treatment: shape (n,), one score a seed, the same seeds in the same order.

    Returns:
        float64 array (n,), treatment − baseline.

    Raises:
        ValueError: not 1-D, fewer than 2 seeds, unequal lengths, NaN or infinity.
    """
    baseline, treatment = checked_pair(baseline, treatment)
    return treatment - baseline


def paired_t_interval(differences: ArrayLike, *, confidence_level: float = 0.95) -> Interval:
    """Student's t interval (Student 1908) of the mean of normal differences, shape (n,).

    Raises:
        ValueError: invalid differences or confidence level.
    """
    _, low, high = _t_interval(checked_scores(differences), confidence_level)
    return Interval(low, high, float(confidence_level))


def win_rate(differences: ArrayLike, *, confidence_level: float = 0.95) -> WinRate:
    """Count wins (d < 0), ties (d = 0) and losses among differences of shape (n,).

    Returns:
        WinRate; the interval is that of wins / n (Clopper & Pearson 1934), so ties stay in n.

    Raises:
        ValueError: invalid differences or confidence level.
    """
    d = checked_scores(differences)
    check_probability(confidence_level, "confidence_level")
    wins, losses = int(np.count_nonzero(d < 0)), int(np.count_nonzero(d > 0))
    tail = (1 - confidence_level) / 2
    low = stats.beta.ppf(tail, wins, d.size - wins + 1) if wins > 0 else 0.0
    high = stats.beta.isf(tail, wins + 1, d.size - wins) if wins < d.size else 1.0
    return WinRate(wins, d.size - wins - losses, losses, float(low), float(high))


def effect_size(differences: ArrayLike) -> EffectSize:
    """Mean of differences (n,) in units of their standard deviation (Lakens 2013).

    Returns:
        EffectSize: d_z = mean / sd with ddof = 1, and g = d_z · (1 − 3 / (4 (n − 1) − 1)), the
        usual approximation of the small-sample correction (Hedges 1981), which is 0 at n = 2.
        Equal differences give an infinite d_z, or NaN if they are all zero.

    Raises:
        ValueError: invalid differences.
    """
    d = checked_scores(differences)
    # np.divide gives the documented limits, ±inf and NaN, where Python's division would raise.
    with np.errstate(divide="ignore", invalid="ignore"):
        d_z = float(np.divide(d.mean(), _sample_sd(d)))
    return EffectSize(d_z, d_z * (1 - 3 / (4 * (d.size - 1) - 1)))


def geometric_mean_ratio(
    baseline: ArrayLike, treatment: ArrayLike, *, confidence_level: float = 0.95
) -> Ratio:
    """Ratio of geometric means, treatment / baseline, with a paired t interval on the log scale.

    Args:
        baseline, treatment: shape (n,), one positive score a seed, the same seeds in order.
        confidence_level: of the interval, in (0, 1).

    Returns:
        Ratio, dimensionless; below 1 is better.

    Raises:
        ValueError: invalid scores, a score of 0 or less, or an invalid confidence level.
    """
    baseline, treatment = checked_pair(baseline, treatment)
    for name, scores in (("baseline", baseline), ("treatment", treatment)):
        complaint = f"{name} must be positive to have a logarithm; got 0 or less"
        refuse_seeds(scores <= 0, complaint, "use paired_t_interval instead")
    log_ratios = np.log(treatment) - np.log(baseline)
    return Ratio(*(math.exp(value) for value in _t_interval(log_ratios, confidence_level)))


def minimum_detectable_effect(
    sd: float, n: int, *, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Smallest |mean difference| that a two-sided paired t test finds with the given power.

    Args:
        sd: standard deviation of the differences, ddof = 1, in the unit of the score.
        n: number of pairs.
        alpha: level of the test, in (0, 1).
        power: probability to reject, above alpha and below 1.

    Returns:
        The effect in the unit of `sd`, from the noncentral t distribution (Cohen 1988); for n < 5
        scipy's has too few digits where alpha is below 1e-4.

    Raises:
        ValueError: sd negative or not finite, n < 2, alpha or power out of range.
    """
    _check_sd(sd)
    check_count(n, "n", 2)
    check_probability(alpha, "alpha")
    check_probability(power, "power")
    if power <= alpha:
        raise ValueError(f"power must exceed alpha; got power={power!r} and alpha={alpha!r}")
    critical = stats.t.isf(alpha / 2, n - 1)

    def surplus(shift: float) -> float:
        # The lower tail as a mirrored upper tail: scipy's nct.cdf gives NaN far out on that side.
        return float(stats.nct.sf(critical, n - 1, [shift, -shift]).sum()) - power

    ceiling = 1.0
    while surplus(ceiling) < 0:
        ceiling *= 2
    return float(brentq(surplus, 0.0, ceiling, xtol=1e-12)) * float(sd) / math.sqrt(n)


def ci_half_width(
    sd: float, n: int, *, confidence_level: float = 0.95, t_critical: float | None = None
) -> float:
    """Half-width of the t interval of a mean difference, t · sd / √n, in the unit of `sd`.

    It is no minimum detectable effect: a true effect of this size is found about half the time.

    Args:
        sd: standard deviation of the differences, ddof = 1.
        n: number of pairs.
        confidence_level: in (0, 1); sets t unless `t_critical` is given.
        t_critical: a tabulated t to use instead, such as 2.365 for 7 degrees of freedom.

    Raises:
        ValueError: sd negative or not finite, n < 2, level or t_critical out of range.
    """
    _check_sd(sd)
    check_count(n, "n", 2)
    check_probability(confidence_level, "confidence_level")
    if t_critical is None:
        t_critical = stats.t.isf((1 - confidence_level) / 2, n - 1)
    elif not 0 < t_critical < math.inf:
        raise ValueError(f"t_critical must be positive and finite; got {t_critical!r}")
    return float(t_critical * sd / math.sqrt(n))


def equivalence_test(differences: ArrayLike, low: float, high: float) -> EquivalenceResult:
    """Test that the mean difference lies within (low, high): TOST on paired t (Schuirmann 1987).

    Args:
        differences: shape (n,).
        low, high: margins in the unit of the score; `p_upper` alone tests noninferiority to `high`.

    Returns:
        EquivalenceResult: `p_lower` against mean ≤ low, `p_upper` against mean ≥ high, `pvalue`
        the larger of the two. Equal differences give 0 strictly within a margin and 1 elsewhere.

    Raises:
        ValueError: invalid differences, or margins that are not finite with low < high.
    """
    d = checked_scores(differences)
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"margins must be finite with low < high; got low={low!r}, high={high!r}")
    mean, standard_error = float(d.mean()), _sample_sd(d) / math.sqrt(d.size)

    def one_sided(distance: float) -> float:
        if standard_error == 0:
            return 0.0 if distance > 0 else 1.0
        return float(stats.t.sf(distance / standard_error, d.size - 1))

    p_lower, p_upper = one_sided(mean - low), one_sided(high - mean)
    pvalue = max(p_lower, p_upper)
    return EquivalenceResult(pvalue, p_lower, p_upper, float(low), float(high), mean)


def holm(pvalues: ArrayLike) -> np.ndarray:
    """Adjust p-values for the family-wise error rate by the step-down method of Holm (1979).

    Args:
        pvalues: shape (m,), m ≥ 1, one a hypothesis.

    Returns:
        float64 array (m,) in the order given: the i-th smallest p (from 0) times m − i, never
        below the adjusted value of a smaller p and at most 1.

    Raises:
        ValueError: not 1-D, empty, or a value outside [0, 1].
    """
    p = np.asarray(pvalues, dtype=np.float64)
    if p.ndim != 1 or p.size == 0:
        raise ValueError(f"pvalues must be one-dimensional and not empty; got shape {p.shape}")
    outside = np.flatnonzero(~((p >= 0) & (p <= 1)))
    if outside.size:
        listed = ", ".join(f"{p[i]} at position {i}" for i in outside)
        raise ValueError(f"pvalues must lie in [0, 1]; got {listed} (from 0)")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)))
    return adjusted
