"""Paired statistics for two arms that were run on the same seeds; lower scores are better.

Throughout, `differences` is a float vector of shape (n,), treatment − baseline, one value a seed,
in the unit of the score (in this study standardised MSE); a negative difference is a win. Invalid
differences (not 1-D, fewer than 2 seeds, NaN or infinity) raise ValueError, as does any other
argument out of range. Everything is a pure function; randomness needs a generator from the caller.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import brentq

ALTERNATIVES = ("two-sided", "less", "greater")
LARGEST_EXACT_N = 24  # 2**24 float64 sums take 128 MiB
LARGEST_LISTED_N = 20  # beyond, the interval does not list all subset means
LARGEST_SPLIT_N = 36  # beyond, two sorted halves take seconds
TIE_TOLERANCE = 1e-12  # relative to Σ|d|, the scale of rounding in a sign sum
BLOCK_SIZE = 2**20  # random Booleans held at once


@dataclass(frozen=True)
class SignFlipResult:
    """Outcome of `sign_flip_test`; `method` is "exact" or "monte-carlo"."""

    statistic: float
    pvalue: float
    method: str
    n_permutations: int
    min_attainable_pvalue: float


@dataclass(frozen=True)
class Interval:
    """A closed interval for the mean difference, and the level that it attains."""

    low: float
    high: float
    confidence_level: float


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


def _refuse_seeds(offending: np.ndarray, complaint: str, remedy: str) -> None:
    if offending.any():
        positions = ", ".join(str(i) for i in np.flatnonzero(offending))
        raise ValueError(f"{complaint} for the seeds at positions {positions} (from 0): {remedy}")


def _checked_scores(values: ArrayLike, name: str = "differences") -> np.ndarray:
    """Return `values` as a finite float64 vector of at least two seeds, or say why it is none."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, one value a seed; got shape {vector.shape}: "
            "compare one pair of arms at a time"
        )
    if vector.size < 2:
        raise ValueError(f"{name} must hold at least 2 seeds; got {vector.size}: run more seeds")
    _refuse_seeds(
        ~np.isfinite(vector),
        f"{name} must be finite; got NaN or infinity",
        "count diverged runs apart, or score them by a finite value",
    )
    return vector


def _checked_pair(baseline: ArrayLike, treatment: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    pair = _checked_scores(baseline, "baseline"), _checked_scores(treatment, "treatment")
    if pair[0].size != pair[1].size:
        raise ValueError(
            "baseline and treatment must hold the same seeds in the same order; got "
            f"{pair[0].size} and {pair[1].size} values: run both arms on every seed"
        )
    return pair


def _check_probability(value: float, name: str) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1; got {value!r}")


def _check_count(value: int, name: str, smallest: int, largest: float = math.inf) -> None:
    if not (isinstance(value, Integral) and smallest <= value <= largest):
        allowed = f"at least {smallest}" if largest == math.inf else f"{smallest} to {largest}"
        raise ValueError(f"{name} must be an integer, {allowed}; got {value!r}")


def _check_sd(sd: float) -> None:
    if not 0 <= sd < math.inf:
        raise ValueError(f"sd must be finite and not negative; got {sd!r}")


def _check_generator(rng: object, n: int, largest: int) -> None:
    if not isinstance(rng, np.random.Generator):
        raise ValueError(
            f"rng must be a numpy.random.Generator for more than {largest} seeds; got {rng!r} "
            f"for {n}: pass rng=numpy.random.default_rng(seed)"
        )


def _sample_sd(values: np.ndarray) -> float:
    # Rounding would make the deviation of equal values about 1e-17, and a t statistic of it huge.
    return 0.0 if np.ptp(values) == 0 else float(values.std(ddof=1))


def _t_interval(values: np.ndarray, confidence_level: float) -> tuple[float, float, float]:
    mean = float(values.mean())
    half = ci_half_width(_sample_sd(values), values.size, confidence_level=confidence_level)
    return mean, mean - half, mean + half


def _subset_sums(values: np.ndarray) -> np.ndarray:
    """Sums over all 2**n subsets, shape (2**n,), by doubling; the empty subset comes first."""
    sums = np.zeros(2**values.size)
    for i, value in enumerate(values):
        np.add(sums[: 2**i], value, out=sums[2**i : 2 ** (i + 1)])
    return sums


def _random_subsets(n: int, count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield `count` uniform subsets of n seeds as Boolean blocks (rows, n) of bounded size."""
    rows = max(1, BLOCK_SIZE // n)
    for start in range(0, count, rows):
        yield rng.integers(0, 2, size=(min(rows, count - start), n), dtype=np.bool_)


def paired_differences(baseline: ArrayLike, treatment: ArrayLike) -> np.ndarray:
    """Subtract the baseline's scores from the treatment's, seed by seed.

    Args:
        baseline, treatment: shape (n,), one score a seed, the same seeds in the same order.

    Returns:
        float64 array (n,), treatment − baseline.

    Raises:
        ValueError: not 1-D, fewer than 2 seeds, unequal lengths, NaN or infinity.
    """
    baseline, treatment = _checked_pair(baseline, treatment)
    return treatment - baseline


def _count_extreme(sums: np.ndarray, observed: float, tolerance: float, alternative: str) -> int:
    if alternative == "two-sided":
        sums, observed = np.abs(sums), abs(observed)
    elif alternative == "less":
        sums, observed = -sums, -observed
    return int(np.count_nonzero(sums >= observed - tolerance))


def sign_flip_test(
    differences: ArrayLike,
    *,
    alternative: str = "two-sided",
    max_exact_n: int = 20,
    n_resamples: int = 9999,
    rng: np.random.Generator | None = None,
) -> SignFlipResult:
    """Test that differences are symmetric about 0 by flipping their signs (Fisher 1935, §21).

    Up to `max_exact_n` seeds all 2**n sign vectors are counted; above, `n_resamples` random ones,
    with p = (b + 1) / (N + 1), which is never 0 (Phipson & Smyth 2010). Sums within 1e-12 · Σ|d|
    of the observed one are ties and count as extreme; zero differences stay in.

    Args:
        differences: shape (n,).
        alternative: "two-sided" (|sum| at least as large), "less" (treatment lower) or "greater".
        max_exact_n: most seeds to enumerate, 0 to 24.
        n_resamples: sign vectors that the Monte Carlo test draws.
        rng: required by the Monte Carlo test, unused otherwise.

    Returns:
        SignFlipResult: `statistic` is the mean difference; `min_attainable_pvalue` is what these
        magnitudes would give if all signs agreed: with z zeros 2**z / 2**n one-sided, twice that
        two-sided (at most 1), and 1 / (N + 1) for Monte Carlo.

    Raises:
        ValueError: invalid differences or options, or no generator where one is needed.
    """
    d = _checked_scores(differences)
    if alternative not in ALTERNATIVES:
        raise ValueError(f"alternative must be one of {ALTERNATIVES}; got {alternative!r}")
    _check_count(max_exact_n, "max_exact_n", 0, LARGEST_EXACT_N)
    _check_count(n_resamples, "n_resamples", 1)
    observed, magnitude = float(d.sum()), float(np.abs(d).sum())
    tolerance = TIE_TOLERANCE * magnitude

    if d.size <= max_exact_n:
        sums = observed - 2 * _subset_sums(d)
        clearest = -magnitude if alternative == "less" else magnitude
        pvalue = _count_extreme(sums, observed, tolerance, alternative) / sums.size
        smallest = _count_extreme(sums, clearest, tolerance, alternative) / sums.size
        return SignFlipResult(float(d.mean()), pvalue, "exact", sums.size, smallest)

    _check_generator(rng, d.size, max_exact_n)
    total = int(n_resamples)
    extreme = sum(
        _count_extreme(observed - 2 * (flipped @ d), observed, tolerance, alternative)
        for flipped in _random_subsets(d.size, total, rng)
    )
    pvalue = (extreme + 1) / (total + 1)
    return SignFlipResult(float(d.mean()), pvalue, "monte-carlo", total, 1 / (total + 1))


def _ordered_subset_mean(d: np.ndarray, rank: int) -> float:
    """The `rank`-th smallest mean of the non-empty subsets, for n too large to list them.

    A subset's mean is at most c where its sum of (d − c) is at most 0, and a subset is one of each
    half: two sorted lists of 2**(n/2) sums count all 2**n subsets, and a root finder does the rest.
    """
    low, high = float(d.min()), float(d.max())
    if low == high:
        return low
    left, right = np.array_split(d, 2)
    left_sums, left_sizes = _subset_sums(left), _subset_sums(np.ones_like(left))
    right_sums, right_sizes = _subset_sums(right), _subset_sums(np.ones_like(right))

    def excess(c: float) -> float:
        reached = np.sort(left_sums - c * left_sizes)
        allowed = np.sort(c * right_sizes - right_sums)
        n_with_empty = np.searchsorted(reached, allowed, side="right").sum()
        return float(n_with_empty - 1) - (rank - 0.5)

    span = high - low
    return float(brentq(excess, low - span, high, xtol=1e-13 * span))


def _random_subset_means(d: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    blocks = [block[block.any(axis=1)] for block in _random_subsets(d.size, count, rng)]
    return np.concatenate([block @ d / block.sum(axis=1) for block in blocks])


def sign_flip_interval(
    differences: ArrayLike,
    *,
    confidence_level: float = 0.95,
    n_resamples: int = 9999,
    rng: np.random.Generator | None = None,
) -> Interval:
    """Invert the two-sided sign-flip test: all c for which d − c is not rejected.

    The 2**n − 1 means of the non-empty subsets cut the line into 2**n parts that are equally
    likely to hold the centre of symmetry (Hartigan 1969), so both ends are such means: listed up
    to n = 20, found without a list up to n = 36 (within 1e-12 of the range of d); above, random
    subsets stand for all, which keeps the level valid.

    Args:
        differences: shape (n,).
        confidence_level: the level asked for, in (0, 1).
        n_resamples: random subsets drawn where n > 36.
        rng: required where n > 36, unused otherwise.

    Returns:
        Interval with the level *attained*: the lowest attainable one not below the level asked
        for. Where there is none (n ≤ 5 at 95 %), the widest interval, [min d, max d], at its own
        level 1 − 2 / 2**n, below the level asked for.

    Raises:
        ValueError: invalid differences or options, or no generator where one is needed.
    """
    d = _checked_scores(differences)
    _check_probability(confidence_level, "confidence_level")
    _check_count(n_resamples, "n_resamples", 1)
    means = None
    if d.size <= LARGEST_LISTED_N:
        means = _subset_sums(d)[1:] / _subset_sums(np.ones_like(d))[1:]
        means = np.clip(means, d.min(), d.max())  # where rounding puts means of equal values
    elif d.size > LARGEST_SPLIT_N:
        _check_generator(rng, d.size, LARGEST_SPLIT_N)
        means = _random_subset_means(d, int(n_resamples), rng)

    parts = 2**d.size if means is None else means.size + 1
    rank = max(1, math.floor((1 - confidence_level) * parts / 2))
    if means is None:
        low, high = _ordered_subset_mean(d, rank), -_ordered_subset_mean(-d, rank)
    else:
        low, high = np.partition(means, (rank - 1, means.size - rank))[[rank - 1, -rank]]
    return Interval(float(low), float(high), 1 - 2 * rank / parts)


def paired_t_interval(differences: ArrayLike, *, confidence_level: float = 0.95) -> Interval:
    """Student's t interval (Student 1908) of the mean of normal differences, shape (n,).

    Raises:
        ValueError: invalid differences or confidence level.
    """
    _, low, high = _t_interval(_checked_scores(differences), confidence_level)
    return Interval(low, high, float(confidence_level))


def win_rate(differences: ArrayLike, *, confidence_level: float = 0.95) -> WinRate:
    """Count wins (d < 0), ties (d = 0) and losses among differences of shape (n,).

    Returns:
        WinRate; the interval is that of wins / n (Clopper & Pearson 1934), so ties stay in n.

    Raises:
        ValueError: invalid differences or confidence level.
    """
    d = _checked_scores(differences)
    _check_probability(confidence_level, "confidence_level")
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
    d = _checked_scores(differences)
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
    baseline, treatment = _checked_pair(baseline, treatment)
    for name, scores in (("baseline", baseline), ("treatment", treatment)):
        complaint = f"{name} must be positive to have a logarithm; got 0 or less"
        _refuse_seeds(scores <= 0, complaint, "use paired_t_interval instead")
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
    _check_count(n, "n", 2)
    _check_probability(alpha, "alpha")
    _check_probability(power, "power")
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
    _check_count(n, "n", 2)
    _check_probability(confidence_level, "confidence_level")
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
    d = _checked_scores(differences)
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
