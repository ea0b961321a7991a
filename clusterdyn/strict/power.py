"""What the protocol would say of nothing, and of something, simulated from its own scores."""

from dataclasses import dataclass

import numpy as np
from scipy import stats as distributions

from clusterdyn.comparison import SIGNIFICANCE
from clusterdyn.stats import minimum_detectable_effect, sign_flip_test

IMPROVEMENTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)


@dataclass(frozen=True)
class PowerSimulation:
    """Studies of n seeds each, drawn from the scores of two arms that are the same schedule.

    Attributes:
        seeds: n, of each study.
        studies: how many were simulated at each improvement.
        improvements: (E,), by which share the second arm's scores were lowered.
        found: (E,), share of the studies whose sign-flip p is below the level with the right sign
            (at no improvement: below the level at all, which is the false alarm rate).
        promised: (E,), power of a two-sided paired t test at the mean and spread of the
            differences, from the noncentral t distribution.
        detectable: the mean difference promised to be found with 80 % power, as a share of the
            mean score.
    """

    seeds: int
    studies: int
    improvements: np.ndarray
    found: np.ndarray
    promised: np.ndarray
    detectable: float


def simulate_power(
    first: np.ndarray, second: np.ndarray, *, seeds: int, studies: int, rng: np.random.Generator
) -> PowerSimulation:
    """Draws studies from the stored scores of an arm and of its twin.

    A study draws seeds with replacement, and for each seed which twin is called baseline; so
    nothing but the improvement tells the arms apart.

    Args:
        first, second: (N,), test MSE of one schedule in two minibatch orders, the same seeds.
        seeds: n, of each study.
        studies: how many to simulate at each improvement.
        rng: draws seeds and names.
    """
    pairs = np.stack([first, second], axis=1)
    found, promised = [], []
    spread = float(np.std(first - second, ddof=1))
    for improvement in IMPROVEMENTS:
        alarms = 0
        for _ in range(studies):
            rows = rng.integers(len(pairs), size=seeds)
            side = rng.integers(2, size=seeds)
            baseline = pairs[rows, side]
            treatment = pairs[rows, 1 - side] * (1 - improvement)
            test = sign_flip_test(treatment - baseline, n_resamples=999, rng=rng)
            right = improvement == 0 or test.statistic < 0
            alarms += test.pvalue < SIGNIFICANCE and right
        found.append(alarms / studies)
        promised.append(_promised_power(pairs, improvement, seeds))
    detectable = minimum_detectable_effect(spread, seeds) / float(pairs.mean())
    return PowerSimulation(
        seeds=seeds,
        studies=studies,
        improvements=np.array(IMPROVEMENTS),
        found=np.array(found),
        promised=np.array(promised),
        detectable=detectable,
    )


def _promised_power(pairs: np.ndarray, improvement: float, seeds: int) -> float:
    """Power of a two-sided paired t test against the population that studies are drawn from."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    differences = both[:, 1] * (1 - improvement) - both[:, 0]
    shift = differences.mean() / differences.std() * np.sqrt(seeds)
    critical = distributions.t.isf(SIGNIFICANCE / 2, seeds - 1)
    power = distributions.nct.sf(critical, seeds - 1, [shift, -shift]).sum()
    return float(power)
