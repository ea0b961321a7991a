"""Two arms on the same seeds: everything that a reader needs to judge the difference."""

import math
from dataclasses import dataclass

import numpy as np

from clusterdyn import stats

SIGNIFICANCE = 0.05
EQUIVALENCE_MARGIN = 0.05  # of the baseline's mean
PUBLISHED_T_CRITICAL = {8: 2.365}  # the published trial's, by number of pairs


@dataclass(frozen=True)
class Comparison:
    """Treatment against baseline, paired by seed; lower scores are better.

    Attributes:
        seeds: (n,).
        baseline, treatment: (n,), test MSE in standardised units.
        differences: (n,), treatment - baseline.
        mean_difference: their mean.
        test: two-sided sign-flip test.
        sign_flip_interval: for the mean difference, at its attained level.
        t_interval: 95 % paired t interval of the mean difference.
        win_rate: seeds on which the treatment is better, with a Clopper-Pearson interval.
        effect: standardised effect sizes.
        ratio: of geometric means, treatment / baseline, with a 95 % interval.
        half_width: of the 95 % t interval, at 8 pairs with the published critical value; the
            published trial calls it "mde".
        detectable: the mean difference that a paired t test would find with 80 % power.
        margin: equivalence margin, in MSE.
        equivalence: two one-sided t tests against +- margin.
        leave_one_out: (n,), the mean difference without each seed.
        correlation: Pearson's r of the two arms over seeds; NaN if an arm does not vary.
    """

    seeds: np.ndarray
    baseline: np.ndarray
    treatment: np.ndarray
    differences: np.ndarray
    mean_difference: float
    test: stats.SignFlipResult
    sign_flip_interval: stats.Interval
    t_interval: stats.Interval
    win_rate: stats.WinRate
    effect: stats.EffectSize
    ratio: stats.Ratio
    half_width: float
    detectable: float
    margin: float
    equivalence: stats.EquivalenceResult
    leave_one_out: np.ndarray
    correlation: float

    @property
    def paired_spread(self) -> float:
        """Standard deviation of the differences over that of two uncorrelated arms.

        Below 1 pairing by seed narrows the intervals; NaN if neither arm varies.
        """
        apart = math.sqrt(self.baseline.var() + self.treatment.var())
        return float(self.differences.std()) / apart if apart > 0 else math.nan


def compare(seeds: np.ndarray, baseline: np.ndarray, treatment: np.ndarray) -> Comparison:
    """Runs the paired analysis.

    Args:
        seeds: (n,), n at least 2.
        baseline, treatment: (n,), positive test MSEs.

    Raises:
        ValueError: if a score is not finite or not positive, naming the seeds.
    """
    baseline, treatment = (np.asarray(x, dtype=np.float64) for x in (baseline, treatment))
    differences = stats.paired_differences(baseline, treatment)
    count, spread = len(differences), float(differences.std(ddof=1))
    margin = EQUIVALENCE_MARGIN * float(baseline.mean())
    # Only above 20 pairs is the test a Monte Carlo one; a fixed seed keeps it reproducible.
    rng = np.random.default_rng(0)
    return Comparison(
        seeds=np.asarray(seeds),
        baseline=baseline,
        treatment=treatment,
        differences=differences,
        mean_difference=float(differences.mean()),
        test=stats.sign_flip_test(differences, rng=rng),
        sign_flip_interval=stats.sign_flip_interval(differences, rng=rng),
        t_interval=stats.paired_t_interval(differences),
        win_rate=stats.win_rate(differences),
        effect=stats.effect_size(differences),
        ratio=stats.geometric_mean_ratio(baseline, treatment),
        half_width=stats.ci_half_width(spread, count, t_critical=PUBLISHED_T_CRITICAL.get(count)),
        detectable=stats.minimum_detectable_effect(spread, count),
        margin=margin,
        equivalence=stats.equivalence_test(differences, -margin, margin),
        leave_one_out=(differences.sum() - differences) / (count - 1),
        correlation=_correlation(baseline, treatment),
    )


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return math.nan
    return float(np.corrcoef(first, second)[0, 1])
