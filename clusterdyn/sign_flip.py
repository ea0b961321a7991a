"""The sign-flip test of paired differences, and the interval that inverts it.

Conventions as in ``clusterdyn.stats``, which hands all of this on.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from clusterdyn.scores import check_count, check_generator, check_probability, checked_scores

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
    d = checked_scores(differences)
    if alternative not in ALTERNATIVES:
        raise ValueError(f"alternative must be one of {ALTERNATIVES}; got {alternative!r}")
    check_count(max_exact_n, "max_exact_n", 0, LARGEST_EXACT_N)
    check_count(n_resamples, "n_resamples", 1)
    observed, magnitude = float(d.sum()), float(np.abs(d).sum())
    tolerance = TIE_TOLERANCE * magnitude

    if d.size <= max_exact_n:
        sums = observed - 2 * _subset_sums(d)
        clearest = -magnitude if alternative == "less" else magnitude
        pvalue = _count_extreme(sums, observed, tolerance, alternative) / sums.size
        smallest = _count_extreme(sums, clearest, tolerance, alternative) / sums.size
        return SignFlipResult(float(d.mean()), pvalue, "exact", sums.size, smallest)

    check_generator(rng, d.size, max_exact_n)
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
    d = checked_scores(differences)
    check_probability(confidence_level, "confidence_level")
    check_count(n_resamples, "n_resamples", 1)
    means = None
    if d.size <= LARGEST_LISTED_N:
        means = _subset_sums(d)[1:] / _subset_sums(np.ones_like(d))[1:]
        means = np.clip(means, d.min(), d.max())  # where rounding puts means of equal values
    elif d.size > LARGEST_SPLIT_N:
        check_generator(rng, d.size, LARGEST_SPLIT_N)
        means = _random_subset_means(d, int(n_resamples), rng)

    parts = 2**d.size if means is None else means.size + 1
    rank = max(1, math.floor((1 - confidence_level) * parts / 2))
    if means is None:
        low, high = _ordered_subset_mean(d, rank), -_ordered_subset_mean(-d, rank)
    else:
        low, high = np.partition(means, (rank - 1, means.size - rank))[[rank - 1, -rank]]
    return Interval(float(low), float(high), 1 - 2 * rank / parts)
