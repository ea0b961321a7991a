import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import ttost_paired

from clusterdyn.stats import (
    EffectSize,
    EquivalenceResult,
    Interval,
    SignFlipResult,
    WinRate,
    ci_half_width,
    effect_size,
    equivalence_test,
    geometric_mean_ratio,
    holm,
    minimum_detectable_effect,
    paired_differences,
    paired_t_interval,
    sign_flip_interval,
    sign_flip_test,
    win_rate,
)

# The published per-seed test MSEs (standardised units), seeds 0 to 7, and what was published of
# them. The baseline is the full sweep, the treatment the histogram policy.
BASELINE = np.array(
    [
        0.004058382008224726,
        0.003425257047638297,
        0.00307759759016335,
        0.004406292922794819,
        0.004498522728681564,
        0.0026040049269795418,
        0.005265520885586739,
        0.003349053207784891,
    ]
)
TREATMENT = np.array(
    [
        0.005886178929358721,
        0.003636509645730257,
        0.005781157873570919,
        0.010280938819050789,
        0.007521466817706823,
        0.0044521004892885685,
        0.006602167151868343,
        0.004865251947194338,
    ]
)
DIFFERENCES = np.array(
    [
        0.001827796921133995,
        0.00021125259809195995,
        0.002703560283407569,
        0.00587464589625597,
        0.003022944089025259,
        0.0018480955623090267,
        0.0013366462662816048,
        0.0015161987394094467,
    ]
)

ALTERNATIVES = ["two-sided", "less", "greater"]

# Tenths are not exact in binary, so equal sums are often unequal by rounding.
tenths = st.integers(-9, 9).map(lambda i: i / 10)
tied_differences = st.lists(tenths, min_size=2, max_size=9).map(np.array)


def brute_force_pvalue(differences, alternative):
    exact = [Fraction(round(10 * d), 10) for d in differences]
    observed = sum(exact)
    extreme = 0
    for signs in itertools.product((1, -1), repeat=len(exact)):
        total = sum(s * abs(d) for s, d in zip(signs, exact, strict=True))
        extreme += {
            "two-sided": abs(total) >= abs(observed),
            "less": total <= observed,
            "greater": total >= observed,
        }[alternative]
    return Fraction(extreme, 2 ** len(exact))


def brute_force_subset_means(integers):
    subsets = itertools.chain.from_iterable(
        itertools.combinations(integers, size) for size in range(1, len(integers) + 1)
    )
    return sorted(Fraction(sum(subset), len(subset)) for subset in subsets)


def counted_subset_means(integers):
    """Sorted (mean, number of subsets), from counts of (size, sum) built up value by value."""
    counts = {(0, 0): 1}
    for value in integers:
        grown = dict(counts)
        for (size, total), count in counts.items():
            key = size + 1, total + value
            grown[key] = grown.get(key, 0) + count
        counts = grown
    del counts[0, 0]
    return sorted((Fraction(total, size), count) for (size, total), count in counts.items())


def mean_of_rank(counted, rank):
    reached = 0
    for mean, count in counted:
        reached += count
        if reached >= rank:
            return mean
    raise AssertionError("rank exceeds the number of subsets")


# --- The published comparison ---------------------------------------------------------------


def test_published_differences_and_their_mean_are_reproduced_bit_for_bit():
    differences = paired_differences(BASELINE, TREATMENT)
    assert_array_equal(differences, DIFFERENCES, strict=True)
    assert sign_flip_test(differences).statistic == 0.002292642544489354
    assert equivalence_test(differences, -1, 1).mean == 0.002292642544489354


def test_published_standard_deviations_are_population_ones_bit_for_bit():
    assert BASELINE.std(ddof=0) == 0.0008182271774829689
    assert TREATMENT.std(ddof=0) == 0.0019430310597602655


def test_published_mde_is_a_t_interval_half_width_bit_for_bit():
    half_width = ci_half_width(DIFFERENCES.std(ddof=1), 8, t_critical=2.365)
    assert half_width == 0.0014061178480241382
    assert 100 * half_width / BASELINE.mean() == 36.65985967916089


def test_published_mde_would_be_detected_with_power_of_only_53_percent():
    half_width = ci_half_width(DIFFERENCES.std(ddof=1), 8, t_critical=2.365)
    detectable = minimum_detectable_effect(DIFFERENCES.std(ddof=1), 8, power=0.53)
    assert half_width == pytest.approx(detectable, rel=0.01)
    power = TTestPower().power(half_width / DIFFERENCES.std(ddof=1), nobs=8, alpha=0.05)
    assert power == pytest.approx(0.53, abs=0.005)


def test_effect_detectable_with_80_percent_power_is_half_of_the_published_baseline():
    effect = minimum_detectable_effect(DIFFERENCES.std(ddof=1), 8)
    assert effect == pytest.approx(0.001944, abs=5e-7)
    assert 100 * effect / BASELINE.mean() == pytest.approx(50.7, abs=0.05)


def test_exact_pvalue_of_the_published_pairs_is_the_smallest_that_eight_pairs_can_give():
    assert sign_flip_test(DIFFERENCES) == SignFlipResult(
        0.002292642544489354, 0.0078125, "exact", 256, 0.0078125
    )


def test_one_sided_pvalues_of_the_published_pairs_say_which_arm_is_worse():
    greater = sign_flip_test(DIFFERENCES, alternative="greater")
    less = sign_flip_test(DIFFERENCES, alternative="less")
    assert (greater.pvalue, greater.min_attainable_pvalue) == (1 / 256, 1 / 256)
    assert (less.pvalue, less.min_attainable_pvalue) == (1.0, 1 / 256)


def test_published_monte_carlo_pvalue_agrees_with_the_exact_one_and_with_a_rerun():
    standard_error = math.sqrt(0.0078125 * (1 - 0.0078125) / 9999)
    rerun = sign_flip_test(DIFFERENCES, max_exact_n=7, rng=np.random.default_rng(0))
    assert (rerun.method, rerun.n_permutations) == ("monte-carlo", 9999)
    assert rerun.min_attainable_pvalue == 1 / 10000
    assert abs(0.0081 - 0.0078125) < 3 * standard_error
    assert abs(rerun.pvalue - 0.0078125) < 3 * standard_error


def test_published_intervals_of_the_mean_difference():
    t_interval = paired_t_interval(DIFFERENCES)
    assert (t_interval.low, t_interval.high) == pytest.approx((0.000887, 0.003699), abs=5e-7)
    assert t_interval.confidence_level == 0.95
    sign_flip = sign_flip_interval(DIFFERENCES)
    assert (sign_flip.low, sign_flip.high) == pytest.approx((0.001030, 0.003851), abs=5e-7)
    assert sign_flip.confidence_level == 1 - 12 / 256


def test_published_paired_t_pvalue_is_twice_the_one_sided_test_against_zero():
    assert 2 * equivalence_test(DIFFERENCES, 0, 1).p_lower == pytest.approx(0.00624, abs=5e-6)


def test_published_effect_sizes():
    size = effect_size(DIFFERENCES)
    assert size.d_z == pytest.approx(1.363, abs=5e-4)
    assert size.hedges_g == pytest.approx(1.212, abs=5e-4)


def test_published_ratio_of_geometric_means():
    ratio = geometric_mean_ratio(BASELINE, TREATMENT)
    assert (ratio.ratio, ratio.low, ratio.high) == pytest.approx((1.56, 1.27, 1.91), abs=0.005)


def test_published_treatment_wins_on_no_seed():
    rate = win_rate(DIFFERENCES)
    assert (rate.wins, rate.ties, rate.losses, rate.low) == (0, 0, 8, 0.0)
    assert rate.high == pytest.approx(0.369, abs=5e-4)


# --- Sign-flip test: closed forms and brute force -------------------------------------------


@pytest.mark.parametrize(
    ("differences", "alternative", "pvalue"),
    [
        ([1, 2, 3], "two-sided", 2 / 8),
        ([1, 2, 3], "greater", 1 / 8),
        ([1, 2, 3], "less", 1),
        ([-1, -2, -3], "less", 1 / 8),
        ([3, 1, -1], "two-sided", 6 / 8),
        ([3, 1, -1], "greater", 3 / 8),
        ([1, 2, -3], "two-sided", 1),
        ([1, 2, -3], "greater", 5 / 8),
    ],
)
def test_pvalues_counted_by_hand(differences, alternative, pvalue):
    assert sign_flip_test(differences, alternative=alternative).pvalue == pvalue


def test_ties_near_zero_that_a_relative_tolerance_miscounts_are_counted():
    differences = np.array([0.1, 0.2, -0.3, 0.4, 0.1, -0.5])
    assert sign_flip_test(differences).pvalue == 1.0
    peer = scipy_stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    assert peer.pvalue == 0.9375  # the fault that the tolerance of this package avoids


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@given(differences=tied_differences)
@settings(max_examples=60, deadline=None)
def test_exact_pvalue_equals_rational_enumeration_on_tied_values(alternative, differences):
    pvalue = sign_flip_test(differences, alternative=alternative).pvalue
    assert Fraction(pvalue) == brute_force_pvalue(differences, alternative)


@pytest.mark.parametrize(
    ("differences", "two_sided", "one_sided"),
    [
        ([1, 2, 3, 4], 2 / 16, 1 / 16),
        ([0, 2, 3, 4], 4 / 16, 2 / 16),
        ([0, 0, 3, 4], 8 / 16, 4 / 16),
        ([0, 0, 0, 4], 1, 8 / 16),
        ([0, 0, 0, 0], 1, 1),
        ([1e-15, 2, 3, 4], 4 / 16, 2 / 16),
    ],
)
def test_zero_differences_stay_in_and_raise_the_smallest_attainable_pvalue(
    differences, two_sided, one_sided
):
    for alternative, smallest in zip(ALTERNATIVES, [two_sided, one_sided, one_sided], strict=True):
        sign = -1 if alternative == "less" else 1
        result = sign_flip_test(sign * np.array(differences), alternative=alternative)
        assert (result.pvalue, result.min_attainable_pvalue) == (smallest, smallest)
        mixed = sign_flip_test(np.array(differences) * [1, -1, 1, -1], alternative=alternative)
        assert mixed.min_attainable_pvalue == smallest


def test_all_zero_differences_are_no_evidence_in_any_summary():
    zeros = np.zeros(8)
    assert sign_flip_test(zeros).pvalue == 1.0
    assert sign_flip_test(zeros, max_exact_n=0, rng=np.random.default_rng(0)).pvalue == 1.0
    assert sign_flip_interval(zeros) == Interval(0.0, 0.0, 1 - 12 / 256)
    assert paired_t_interval(zeros) == Interval(0.0, 0.0, 0.95)
    assert win_rate(zeros).ties == 8
    assert math.isnan(effect_size(zeros).d_z)
    assert math.isnan(effect_size(zeros).hedges_g)


def test_exact_test_of_24_seeds_counts_all_sign_vectors():
    result = sign_flip_test(np.arange(1, 25), max_exact_n=24)
    assert (result.n_permutations, result.pvalue) == (2**24, 2 / 2**24)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_monte_carlo_pvalue_lies_within_three_standard_errors_of_the_exact_one(alternative):
    differences = np.random.default_rng(5).normal(0.25, 1, size=18)
    exact = sign_flip_test(differences, alternative=alternative).pvalue
    # More resamples than fit into one block, so that the sum over blocks is tested as well.
    drawn = sign_flip_test(
        differences,
        alternative=alternative,
        max_exact_n=17,
        n_resamples=150_000,
        rng=np.random.default_rng(6),
    )
    assert drawn.n_permutations == 150_000
    assert abs(drawn.pvalue - exact) < 3 * math.sqrt(exact * (1 - exact) / 150_000)


def test_monte_carlo_pvalue_is_never_zero_and_repeats_with_its_generator():
    differences = np.arange(1, 41)
    first, second = (
        sign_flip_test(differences, n_resamples=99, rng=np.random.default_rng(3)) for _ in range(2)
    )
    assert first == second
    assert first.pvalue == first.min_attainable_pvalue == 1 / 100


# --- Sign-flip interval: closed forms and brute force ---------------------------------------


@pytest.mark.parametrize(
    ("confidence_level", "expected"),
    [
        # The seven subset means of 1, 2, 4 are 1, 3/2, 2, 7/3, 5/2, 3, 4.
        (0.75, Interval(1, 4, 0.75)),
        (0.6, Interval(1, 4, 0.75)),
        (0.5, Interval(1.5, 3, 0.5)),
        (0.25, Interval(2, 2.5, 0.25)),
        (0.2, Interval(2, 2.5, 0.25)),
    ],
)
def test_interval_ends_are_subset_means_at_the_next_attainable_level(confidence_level, expected):
    assert sign_flip_interval([2, 4, 1], confidence_level=confidence_level) == expected


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_interval_of_too_few_seeds_is_the_range_at_its_own_lower_level(n):
    expected = Interval(float(DIFFERENCES[:n].min()), DIFFERENCES[:n].max(), 1 - 2 / 2**n)
    assert sign_flip_interval(DIFFERENCES[:n]) == expected
    assert expected.confidence_level < 0.95


def test_six_seeds_are_the_fewest_that_attain_95_percent():
    assert sign_flip_interval(DIFFERENCES[:6]).confidence_level == 1 - 2 / 2**6 >= 0.95


@given(st.lists(st.integers(-20, 20), min_size=2, max_size=9), st.sampled_from([0.5, 0.8, 0.95]))
@settings(max_examples=60, deadline=None)
def test_interval_equals_ranked_rational_subset_means(integers, level):
    means = brute_force_subset_means(integers)
    interval = sign_flip_interval(integers, confidence_level=level)
    rank = round((1 - interval.confidence_level) * 2 ** len(integers) / 2)
    assert interval.low == pytest.approx(float(means[rank - 1]), abs=1e-13)
    assert interval.high == pytest.approx(float(means[-rank]), abs=1e-13)
    narrower = 1 - 2 * (rank + 1) / 2 ** len(integers)
    assert narrower < level
    assert interval.confidence_level >= level or rank == 1


@pytest.mark.parametrize("n", [21, 26, 32])
def test_interval_too_large_to_list_equals_counted_rational_subset_means(n):
    integers = [int(i) for i in np.random.default_rng(n).integers(-30, 60, size=n)]
    counted = counted_subset_means(integers)
    assert sum(count for _, count in counted) == 2**n - 1
    interval = sign_flip_interval(integers)
    rank = math.floor(2**n / 40)
    assert interval.confidence_level == 1 - 2 * rank / 2**n
    assert interval.low == pytest.approx(float(mean_of_rank(counted, rank)), abs=1e-10)
    high = float(mean_of_rank(counted[::-1], rank))
    assert interval.high == pytest.approx(high, abs=1e-10)


def test_outermost_intervals_too_large_to_list_end_at_the_outermost_subset_means():
    # Of 0, 1, ..., 20 the smallest subset means are 0, 1/2, 1 and the largest 20, 39/2, 19.
    for rank, low, high in [(1, 0, 20), (2, 0.5, 19.5), (3, 1, 19)]:
        level = 1 - 2 * rank / 2**21
        interval = sign_flip_interval(np.arange(21), confidence_level=level)
        assert interval.confidence_level == level
        assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-10)


def test_interval_of_equal_differences_is_that_point_at_every_size():
    for n in (2, 8, 21, 36):
        interval = sign_flip_interval(np.full(n, 0.1))
        assert (interval.low, interval.high) == (0.1, 0.1)


def test_interval_from_random_subsets_has_the_ranks_of_all_subsets_within_sampling_error():
    integers = [int(i) for i in np.random.default_rng(40).integers(-30, 60, size=40)]
    counted = counted_subset_means(integers)
    interval = sign_flip_interval(integers, n_resamples=99_999, rng=np.random.default_rng(1))
    assert interval.confidence_level == 0.95
    below = sum(count for mean, count in counted if mean <= interval.low) / 2**40
    above = sum(count for mean, count in counted if mean >= interval.high) / 2**40
    # One atom of the discrete distribution is added to three standard errors of a 2.5 % quantile.
    atom = max(count for _, count in counted) / 2**40
    margin = 3 * math.sqrt(0.025 * 0.975 / 99_999) + atom
    assert below == pytest.approx(0.025, abs=margin)
    assert above == pytest.approx(0.025, abs=margin)
    repeated = sign_flip_interval(integers, n_resamples=99_999, rng=np.random.default_rng(1))
    assert repeated == interval


# --- Sign-flip test and interval: what they promise -----------------------------------------


def test_exactly_twelve_of_256_sign_patterns_reject_at_five_percent():
    magnitudes = np.random.default_rng(2).exponential(size=8)
    patterns = np.array(list(itertools.product((1, -1), repeat=8)))
    pvalues = [sign_flip_test(pattern * magnitudes).pvalue for pattern in patterns]
    assert sum(pvalue <= 0.05 for pvalue in pvalues) == 12
    assert_array_equal(np.sort(pvalues), np.repeat(np.arange(1, 129), 2) / 128)


def test_null_rejection_rate_and_coverage_match_the_attainable_level_without_normality():
    rng = np.random.default_rng(20)
    n_trials = 4000
    # Heavy tails and a scale of its own for every seed: symmetric, and nothing else.
    draws = rng.standard_t(2, size=(n_trials, 8)) * np.geomspace(0.1, 10, 8)
    rejected = sum(sign_flip_test(d).pvalue <= 0.05 for d in draws) / n_trials
    intervals = [sign_flip_interval(d + 0.3) for d in draws]
    covered = sum(i.low <= 0.3 <= i.high for i in intervals) / n_trials
    standard_error = math.sqrt(12 / 256 * 244 / 256 / n_trials)
    assert abs(rejected - 12 / 256) < 3 * standard_error
    assert abs(covered - 244 / 256) < 3 * standard_error


def test_monte_carlo_test_keeps_its_level_with_few_resamples():
    rng = np.random.default_rng(21)
    draws = rng.standard_normal(size=(3000, 12))
    rejected = sum(
        sign_flip_test(d, max_exact_n=0, n_resamples=19, rng=rng).pvalue <= 0.05 for d in draws
    )
    # With 19 resamples the level is 1 / 20 exactly, less the share of draws that are ties.
    assert abs(rejected / 3000 - 0.05) < 3 * math.sqrt(0.05 * 0.95 / 3000)


@given(tied_differences)
@settings(max_examples=60, deadline=None)
def test_swapping_the_arms_mirrors_test_and_interval(differences):
    swapped = -differences
    assert sign_flip_test(swapped).pvalue == sign_flip_test(differences).pvalue
    less = sign_flip_test(swapped, alternative="less").pvalue
    assert less == sign_flip_test(differences, alternative="greater").pvalue
    mirrored, interval = sign_flip_interval(swapped), sign_flip_interval(differences)
    assert (mirrored.low, mirrored.high) == (-interval.high, -interval.low)


@given(tied_differences.flatmap(lambda d: st.tuples(st.just(d), st.permutations(list(d)))))
@settings(max_examples=60, deadline=None)
def test_order_of_the_seeds_does_not_matter(pair):
    differences, reordered = pair
    assert sign_flip_test(reordered).pvalue == sign_flip_test(differences).pvalue
    interval, other = sign_flip_interval(differences), sign_flip_interval(reordered)
    assert (other.low, other.high) == pytest.approx((interval.low, interval.high), abs=1e-14)


@given(tied_differences, st.floats(1e-6, 1e6))
@settings(max_examples=60, deadline=None)
def test_unit_of_the_score_does_not_matter(differences, scale):
    result, scaled = sign_flip_test(differences), sign_flip_test(scale * differences)
    assert (scaled.pvalue, scaled.min_attainable_pvalue) == (
        result.pvalue,
        result.min_attainable_pvalue,
    )
    interval, stretched = sign_flip_interval(differences), sign_flip_interval(scale * differences)
    expected = (scale * interval.low, scale * interval.high)
    assert (stretched.low, stretched.high) == pytest.approx(expected, rel=1e-12, abs=1e-14 * scale)


@given(tied_differences, st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95]))
@settings(max_examples=100, deadline=None)
def test_interval_holds_just_the_centres_that_the_test_does_not_reject(differences, where, level):
    interval = sign_flip_interval(differences, confidence_level=level)
    alpha = 1 - interval.confidence_level
    inside = interval.low + where * (interval.high - interval.low)
    assert sign_flip_test(differences - inside).pvalue > alpha
    assert sign_flip_test(differences - (interval.low - 1e-6)).pvalue <= alpha
    assert sign_flip_test(differences - (interval.high + 1e-6)).pvalue <= alpha


@given(tied_differences, st.sampled_from(ALTERNATIVES))
@settings(max_examples=60, deadline=None)
def test_no_pvalue_is_below_the_smallest_attainable_one(differences, alternative):
    result = sign_flip_test(differences, alternative=alternative)
    zeros = int(np.count_nonzero(differences == 0))
    one_sided = 2**zeros / 2**differences.size
    expected = min(1, 2 * one_sided) if alternative == "two-sided" else one_sided
    assert result.min_attainable_pvalue == expected
    assert expected <= result.pvalue <= 1


# --- Peers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_exact_test_agrees_with_scipy_where_there_are_no_ties(alternative):
    for seed in range(5):
        differences = np.random.default_rng(seed).normal(0.4, 1, size=9)
        peer = scipy_stats.permutation_test(
            (differences,),
            lambda x, axis: np.mean(x, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=np.inf,
            alternative=alternative,
        )
        assert sign_flip_test(differences, alternative=alternative).pvalue == peer.pvalue


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_sign_flip_test_of_signed_ranks_is_the_exact_wilcoxon_test(alternative):
    for seed in range(5):
        differences = np.random.default_rng(seed).normal(0.4, 1, size=12)
        signed_ranks = np.sign(differences) * scipy_stats.rankdata(np.abs(differences))
        peer = scipy_stats.wilcoxon(differences, alternative=alternative, method="exact")
        pvalue = sign_flip_test(signed_ranks, alternative=alternative).pvalue
        assert pvalue == pytest.approx(peer.pvalue, rel=1e-12)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_t_interval_agrees_with_scipy(level):
    peer = scipy_stats.ttest_rel(TREATMENT, BASELINE).confidence_interval(level)
    interval = paired_t_interval(DIFFERENCES, confidence_level=level)
    assert (interval.low, interval.high) == pytest.approx((peer.low, peer.high), rel=1e-12)
    half_width = ci_half_width(DIFFERENCES.std(ddof=1), 8, confidence_level=level)
    assert half_width == pytest.approx((peer.high - peer.low) / 2, rel=1e-12)


def test_ratio_of_geometric_means_agrees_with_scipy():
    peer = scipy_stats.ttest_rel(np.log(TREATMENT), np.log(BASELINE)).confidence_interval(0.9)
    ratio = geometric_mean_ratio(BASELINE, TREATMENT, confidence_level=0.9)
    expected = scipy_stats.gmean(TREATMENT) / scipy_stats.gmean(BASELINE)
    assert ratio.ratio == pytest.approx(expected, rel=1e-12)
    assert (ratio.low, ratio.high) == pytest.approx(np.exp([peer.low, peer.high]), rel=1e-12)


@pytest.mark.parametrize(("wins", "losses"), [(0, 8), (1, 7), (23, 9), (32, 0)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_win_rate_interval_agrees_with_statsmodels(wins, losses, level):
    differences = np.repeat([-1.0, 1.0], [wins, losses])
    low, high = proportion_confint(wins, wins + losses, alpha=1 - level, method="beta")
    rate = win_rate(differences, confidence_level=level)
    assert (rate.wins, rate.losses) == (wins, losses)
    assert (rate.low, rate.high) == pytest.approx((low, high), rel=1e-10)


def test_ties_are_neither_wins_nor_losses_but_count_as_trials():
    rate = win_rate([-1, 0, -0.0, 2, -3, 0])
    assert (rate.wins, rate.ties, rate.losses) == (2, 3, 1)
    low, high = proportion_confint(2, 6, alpha=0.05, method="beta")
    assert rate == WinRate(2, 3, 1, pytest.approx(low), pytest.approx(high))


@pytest.mark.parametrize("n", [8, 32, 200])  # fewer give NaN in statsmodels; see below for them
@pytest.mark.parametrize(("alpha", "power"), [(0.05, 0.8), (0.01, 0.9), (0.1, 0.5), (0.05, 0.06)])
def test_detectable_effect_agrees_with_statsmodels(n, alpha, power):
    effect = minimum_detectable_effect(0.25, n, alpha=alpha, power=power)
    # statsmodels's own power function, not its solver, which stops early.
    attained = TTestPower().power(effect / 0.25, nobs=n, alpha=alpha, alternative="two-sided")
    assert attained == pytest.approx(power, abs=1e-7)


def test_detectable_effect_of_the_published_pairs_agrees_with_statsmodels_solver():
    sd = DIFFERENCES.std(ddof=1)
    peer = TTestPower().solve_power(nobs=8, alpha=0.05, power=0.8, alternative="two-sided")
    assert minimum_detectable_effect(sd, 8) == pytest.approx(peer * sd, rel=1e-6)


@pytest.mark.parametrize(("n", "alpha"), [(2, 0.05), (3, 0.001), (5, 0.001), (8, 0.001)])
def test_detectable_effect_is_found_with_its_power_where_the_lower_tail_is_tiny(n, alpha):
    effect = minimum_detectable_effect(1.0, n, alpha=alpha)
    rng = np.random.default_rng(n)
    draws = rng.normal(effect, 1.0, size=(200_000, n))
    t = draws.mean(axis=1) / (draws.std(axis=1, ddof=1) / math.sqrt(n))
    found = np.mean(np.abs(t) >= scipy_stats.t.isf(alpha / 2, n - 1))
    assert found == pytest.approx(0.8, abs=3 * math.sqrt(0.8 * 0.2 / 200_000))


def test_no_scatter_leaves_every_effect_detectable():
    assert minimum_detectable_effect(0.0, 8) == 0.0
    assert ci_half_width(0.0, 8) == 0.0


@pytest.mark.parametrize(("low", "high"), [(-0.001, 0.004), (0.002, 0.003), (-0.005, 0.0002)])
def test_equivalence_test_agrees_with_statsmodels(low, high):
    pvalue, (_, p_lower, _), (_, p_upper, _) = ttost_paired(TREATMENT, BASELINE, low, high)
    result = equivalence_test(DIFFERENCES, low, high)
    assert (result.pvalue, result.p_lower, result.p_upper) == pytest.approx(
        (pvalue, p_lower, p_upper), rel=1e-10
    )
    assert (result.low, result.high) == (low, high)


def test_equivalence_at_five_percent_means_a_90_percent_t_interval_within_the_margins():
    interval = paired_t_interval(DIFFERENCES, confidence_level=0.9)
    tight = equivalence_test(DIFFERENCES, interval.low, interval.high)
    assert (tight.p_lower, tight.p_upper) == pytest.approx((0.05, 0.05), rel=1e-9)
    wide = equivalence_test(DIFFERENCES, interval.low - 1e-6, interval.high + 1e-6)
    assert wide.pvalue < 0.05


def test_equal_differences_are_equivalent_just_where_they_lie_within_the_margins():
    differences = np.full(5, 0.1)
    mean = float(differences.mean())
    assert equivalence_test(differences, -0.2, 0.2) == EquivalenceResult(
        0.0, 0.0, 0.0, -0.2, 0.2, mean
    )
    assert equivalence_test(differences, 0.2, 0.3) == EquivalenceResult(
        1.0, 1.0, 0.0, 0.2, 0.3, mean
    )
    assert equivalence_test(np.zeros(5), 0.0, 0.3).p_lower == 1.0


@pytest.mark.parametrize("m", [1, 2, 5, 14])
def test_holm_agrees_with_statsmodels(m):
    rng = np.random.default_rng(m)
    for pvalues in (rng.beta(0.3, 3, size=m), rng.integers(0, 5, size=m) / 50, np.ones(m)):
        assert_allclose(holm(pvalues), multipletests(pvalues, method="holm")[1], rtol=1e-12)


def test_holm_by_hand_keeps_the_order_given():
    assert_allclose(holm([0.04, 0.01, 0.03, 0.5]), [0.09, 0.04, 0.09, 0.5], rtol=1e-12)


def test_effect_sizes_by_hand():
    # Mean 2, sd 1, correction 1 − 3 / 7 for two degrees of freedom.
    assert effect_size([1, 2, 3]) == EffectSize(2.0, pytest.approx(2 * 4 / 7, rel=1e-15))
    assert effect_size([1, 3]).hedges_g == 0.0


def test_equal_differences_have_an_infinite_effect_size_and_a_point_interval():
    # 0.1 three times has a standard deviation of 1.7e-17 when computed naively.
    assert effect_size([0.1, 0.1, 0.1]) == EffectSize(math.inf, math.inf)
    assert effect_size([-0.1, -0.1, -0.1]).d_z == -math.inf
    interval = paired_t_interval([0.1, 0.1, 0.1])
    assert interval.low == interval.high == pytest.approx(0.1, rel=1e-15)


def test_float32_scores_are_subtracted_in_double_precision():
    baseline = np.array([1.0, 2.0], dtype=np.float32)
    treatment = np.array([1.0 + 2**-23, 2.0], dtype=np.float32)
    assert_array_equal(paired_differences(baseline, treatment), [2**-23, 0.0], strict=True)


# --- Refusals -------------------------------------------------------------------------------

DIFFERENCE_FUNCTIONS = [
    sign_flip_test,
    sign_flip_interval,
    paired_t_interval,
    win_rate,
    effect_size,
    lambda d: equivalence_test(d, -1, 1),
]
SCORE_FUNCTIONS = [paired_differences, geometric_mean_ratio]

BAD_VECTORS = [
    (
        [1, 2, math.nan, 4, 5, math.inf],
        r"{} must be finite; got NaN or infinity for the seeds at positions 2, 5 \(from 0\): "
        "count diverged runs apart, or score them by a finite value",
    ),
    (
        [-math.inf, 1],
        r"{} must be finite; got NaN or infinity for the seeds at positions 0 \(from 0\)",
    ),
    (
        [[1.0, 2.0]],
        r"{} must be one-dimensional, one value a seed; got shape \(1, 2\): "
        "compare one pair of arms at a time",
    ),
    (3.0, r"{} must be one-dimensional, one value a seed; got shape \(\)"),
    ([1.0], "{} must hold at least 2 seeds; got 1: run more seeds"),
    ([], "{} must hold at least 2 seeds; got 0: run more seeds"),
]


@pytest.mark.parametrize("function", DIFFERENCE_FUNCTIONS)
@pytest.mark.parametrize(("values", "sentence"), BAD_VECTORS)
def test_invalid_differences_are_refused_by_every_function(function, values, sentence):
    with pytest.raises(ValueError, match="^" + sentence.format("differences")):
        function(values)


@pytest.mark.parametrize("function", SCORE_FUNCTIONS)
@pytest.mark.parametrize(("values", "sentence"), BAD_VECTORS)
def test_invalid_scores_are_refused_with_the_name_of_their_arm(function, values, sentence):
    with pytest.raises(ValueError, match="^" + sentence.format("baseline")):
        function(values, [1, 2])
    with pytest.raises(ValueError, match="^" + sentence.format("treatment")):
        function([1, 2], values)


@pytest.mark.parametrize("function", SCORE_FUNCTIONS)
def test_arms_with_unequal_numbers_of_seeds_are_refused(function):
    sentence = (
        "^baseline and treatment must hold the same seeds in the same order; got 3 and 2 values: "
        "run both arms on every seed$"
    )
    with pytest.raises(ValueError, match=sentence):
        function([1, 2, 3], [1, 2])


@pytest.mark.parametrize(
    ("baseline", "treatment", "sentence"),
    [
        ([1, 0, -2], [1, 1, 1], r"^baseline must be .* got 0 or less .* positions 1, 2 \(from 0\)"),
        ([1, 1, 1], [0, 1, 1], r"^treatment must be positive to have a logarithm; .* positions 0 "),
        ([1, 1, 1], [0, 1, 1], r": use paired_t_interval instead$"),
    ],
)
def test_scores_without_a_logarithm_are_refused(baseline, treatment, sentence):
    with pytest.raises(ValueError, match=sentence):
        geometric_mean_ratio(baseline, treatment)


@pytest.mark.parametrize("level", [0, 1, -0.5, 1.5, 95, math.nan])
@pytest.mark.parametrize(
    "function",
    [
        lambda level: sign_flip_interval(DIFFERENCES, confidence_level=level),
        lambda level: paired_t_interval(DIFFERENCES, confidence_level=level),
        lambda level: win_rate(DIFFERENCES, confidence_level=level),
        lambda level: geometric_mean_ratio(BASELINE, TREATMENT, confidence_level=level),
        lambda level: ci_half_width(1.0, 8, confidence_level=level),
        lambda level: ci_half_width(1.0, 8, confidence_level=level, t_critical=2.365),
    ],
)
def test_confidence_levels_outside_zero_to_one_are_refused(function, level):
    sentence = f"^confidence_level must lie strictly between 0 and 1; got {level}$"
    with pytest.raises(ValueError, match=sentence):
        function(level)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"alternative": "lower"}, r"^alternative must be one of .*'less'.*; got 'lower'$"),
        ({"max_exact_n": 25}, r"^max_exact_n must be an integer, 0 to 24; got 25$"),
        ({"max_exact_n": -1}, r"^max_exact_n must be an integer, 0 to 24; got -1$"),
        ({"max_exact_n": 8.0}, r"^max_exact_n must be an integer, 0 to 24; got 8.0$"),
        ({"n_resamples": 0}, r"^n_resamples must be an integer, at least 1; got 0$"),
        ({"n_resamples": 1e4}, r"^n_resamples must be an integer, at least 1; got 10000.0$"),
        (
            {"max_exact_n": 7},
            r"^rng must be a numpy.random.Generator for more than 7 seeds; got None for 8: "
            r"pass rng=numpy.random.default_rng\(seed\)$",
        ),
        ({"max_exact_n": 7, "rng": 0}, r"^rng must be a numpy.random.Generator .* got 0 for 8"),
    ],
)
def test_invalid_options_of_the_sign_flip_test_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        sign_flip_test(DIFFERENCES, **options)


def test_twenty_seeds_need_no_generator_but_21_do():
    assert sign_flip_test(np.arange(1, 21)).method == "exact"
    with pytest.raises(ValueError, match="for more than 20 seeds; got None for 21"):
        sign_flip_test(np.arange(1, 22))


def test_interval_of_more_than_36_seeds_needs_a_generator_and_resamples():
    with pytest.raises(ValueError, match="for more than 36 seeds; got None for 37"):
        sign_flip_interval(np.arange(37))
    with pytest.raises(ValueError, match=r"^n_resamples must be an integer, at least 1; got 0$"):
        sign_flip_interval(np.arange(37), n_resamples=0, rng=np.random.default_rng(0))


@pytest.mark.parametrize("function", [minimum_detectable_effect, ci_half_width])
def test_impossible_spreads_and_sample_sizes_are_refused(function):
    for sd in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"^sd must be finite and not negative; got {sd}$"):
            function(sd, 8)
    for n in (1, 0, 8.0, 8.5):
        with pytest.raises(ValueError, match=f"^n must be an integer, at least 2; got {n}$"):
            function(1.0, n)


@pytest.mark.parametrize("name", ["alpha", "power"])
@pytest.mark.parametrize("value", [0, 1, 1.5, math.nan])
def test_levels_and_powers_outside_zero_to_one_are_refused(name, value):
    sentence = f"^{name} must lie strictly between 0 and 1; got {value}$"
    with pytest.raises(ValueError, match=sentence):
        minimum_detectable_effect(1.0, 8, **{name: value})


def test_power_that_no_effect_is_needed_for_is_refused():
    with pytest.raises(ValueError, match=r"^power must exceed alpha; got power=0.05 and alpha="):
        minimum_detectable_effect(1.0, 8, alpha=0.05, power=0.05)


@pytest.mark.parametrize("t_critical", [0.0, -2.365, math.nan, math.inf])
def test_impossible_critical_values_are_refused(t_critical):
    sentence = f"^t_critical must be positive and finite; got {t_critical}$"
    with pytest.raises(ValueError, match=sentence):
        ci_half_width(1.0, 8, t_critical=t_critical)


@pytest.mark.parametrize(
    ("low", "high"), [(1, 1), (2, 1), (math.nan, 1), (-math.inf, 1), (0, math.inf)]
)
def test_margins_that_enclose_nothing_are_refused(low, high):
    sentence = f"^margins must be finite with low < high; got low={low}, high={high}$"
    with pytest.raises(ValueError, match=sentence):
        equivalence_test(DIFFERENCES, low, high)


@pytest.mark.parametrize(
    ("pvalues", "sentence"),
    [
        (
            [0.1, 1.5, 0.2, -0.1],
            r"^pvalues must lie in \[0, 1\]; got 1.5 at position 1, -0.1 at position 3 \(from 0\)$",
        ),
        ([0.1, math.nan], r"^pvalues must lie in \[0, 1\]; got nan at position 1 \(from 0\)$"),
        ([], r"^pvalues must be one-dimensional and not empty; got shape \(0,\)$"),
        ([[0.1, 0.2]], r"^pvalues must be one-dimensional and not empty; got shape \(1, 2\)$"),
    ],
)
def test_invalid_pvalues_are_refused(pvalues, sentence):
    with pytest.raises(ValueError, match=sentence):
        holm(pvalues)


def test_results_cannot_be_changed_by_accident():
    with pytest.raises(AttributeError):
        sign_flip_test(DIFFERENCES).pvalue = 0.5
