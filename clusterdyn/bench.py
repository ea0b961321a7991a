"""How fast the population trainer is against the plain loop, measured side by side in one run."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from clusterdyn.arms import arm_schedule, message_passing_cell, study_dataset
from clusterdyn.config import StudyConfig
from clusterdyn.datasets import Dataset
from clusterdyn.plain import train_plain
from clusterdyn.threads import torch_threads
from clusterdyn.training import train_population


@dataclass(frozen=True)
class BenchResult:
    """Times of one arm of the study (all its seeds and learning rates), in s.

    Attributes:
        models: S.
        steps: optimiser steps a model.
        threads: that PyTorch used, for both sides.
        repeats: interleaved repeats; times are their medians.
        plain_s: the plain loop, one model at a time, baseline schedule.
        product_s: the population trainer, baseline schedule.
        product_round_robin_s, product_histogram_s: other schedules.
        ratio: plain_s / product_s, the median over repeats.
        ratio_low, ratio_high: the smallest and largest over repeats.
        loss_gap: largest relative difference of the first epoch's mean loss between the two.
    """

    models: int
    steps: int
    threads: int
    repeats: int
    plain_s: float
    product_s: float
    product_round_robin_s: float
    product_histogram_s: float
    ratio: float
    ratio_low: float
    ratio_high: float
    loss_gap: float


def check_counts(repeats: int, threads: int) -> None:
    """Raises ValueError unless there is at least one of each."""
    if repeats < 1 or threads < 1:
        raise ValueError(f"repeats and threads must be at least 1; got {repeats} and {threads}")


def run_bench(
    config: StudyConfig,
    *,
    repeats: int = 3,
    threads: int = 1,
    progress: Callable[[str], None] = print,
) -> BenchResult:
    """Times one arm both ways, on the same data, in turn.

    Args:
        config: of the study; its baseline is timed both ways.
        repeats: interleaved repeats.
        threads: for PyTorch, on both sides; restored afterwards.
        progress: called with one line a repeat.
    """
    check_counts(repeats, threads)
    with torch_threads(threads):
        return _run(config, repeats, threads, progress)


def _run(
    config: StudyConfig, repeats: int, threads: int, progress: Callable[[str], None]
) -> BenchResult:
    cell, training = message_passing_cell(config), config.training()
    datasets: dict[int, Dataset] = {seed: study_dataset(config, seed) for seed in config.seeds}
    steps = config.epochs * (config.train_trajectories // config.batch_size)
    names = tuple(dict.fromkeys((config.baseline, "round_robin", "histogram")))
    product: dict[str, list[float]] = {name: [] for name in names}
    plain: list[float] = []
    first_epoch = steps // config.epochs
    for repeat in range(repeats):
        for name in names:
            population = train_population(
                cell, arm_schedule(config, name), datasets, config.learning_rates, training
            )
            product[name].append(population.seconds)
            if name == config.baseline:
                population_loss = population.train_loss[0]  # (S,)
        started = time.perf_counter()
        losses = []
        schedule = arm_schedule(config, config.baseline)
        for seed, dataset in datasets.items():
            for rate in config.learning_rates:
                _, history = train_plain(cell, schedule, dataset, seed, rate, training)
                losses.append(np.mean(history[:first_epoch]))
        plain.append(time.perf_counter() - started)
        gap = float(np.max(np.abs(population_loss / np.array(losses) - 1)))
        ratio = plain[-1] / product[config.baseline][-1]
        progress(
            f"repeat {repeat + 1} of {repeats}: plain {plain[-1]:.2f} s, "
            f"population {product[config.baseline][-1]:.2f} s, ratio {ratio:.1f}"
        )
    ratios = [p / q for p, q in zip(plain, product[config.baseline], strict=True)]
    return BenchResult(
        models=len(config.seeds) * len(config.learning_rates),
        steps=steps,
        threads=threads,
        repeats=repeats,
        plain_s=statistics.median(plain),
        product_s=statistics.median(product[config.baseline]),
        product_round_robin_s=statistics.median(product["round_robin"]),
        product_histogram_s=statistics.median(product["histogram"]),
        ratio=statistics.median(ratios),
        ratio_low=min(ratios),
        ratio_high=max(ratios),
        loss_gap=gap,
    )
