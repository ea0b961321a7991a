"""The bench: an arm of the study, a longer setting, and single sweeps, and their targets."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from clusterdyn.arms import study_dataset
from clusterdyn.bench.config import CostConfig
from clusterdyn.bench.contenders import Workload
from clusterdyn.bench.contest import Contest, run_contest
from clusterdyn.bench.machine import jax_version
from clusterdyn.bench.processes import MeasuringProcess
from clusterdyn.bench.sweeps import SingleSweeps, SweepTimes
from clusterdyn.bench.targets import Target, target
from clusterdyn.config import StudyConfig

SCHEDULES = ("full", "round_robin", "histogram")
INSTALL_JAX = 'pip install -e ".[bench]"'


@dataclass(frozen=True)
class BenchResult:
    """All that was timed side by side. Times in s are medians over the repeats.

    Attributes:
        models, steps: S, and optimiser steps a model, of one arm of the study.
        cores: processes of the trainer, and threads of the plain loop.
        repeats: how often everything was timed, in turn.
        plain_models: how many models the plain loop trained; its times are scaled to all.
        plain_s, plain_one_thread_s, jax_s, kernel_s, product_s: one arm, full sweep; ``jax_s`` is
            None without JAX.
        jax_compile_s: JAX's tracing and compiling, which comes before its ``jax_s``.
        product_round_robin_s, product_histogram_s: the trainer's other schedules.
        long_plain_s, long_jax_s, long_jax_compile_s, long_product_s: the longer setting.
        product_bytes, plain_bytes, jax_bytes: peak memory of one arm above the process's start.
        loss_gap: the largest relative gap of a first epoch's loss to the trainer's, over all
            sides and settings; NaN if a model diverged.
        jax_note: why there is no JAX, or an empty text.
        arm, longer: the two settings in full.
        sweeps: single forward sweeps.
        targets: what should be reached, and what was.
    """

    models: int
    steps: int
    cores: int
    repeats: int
    plain_models: int
    plain_s: float
    plain_one_thread_s: float
    jax_s: float | None
    jax_compile_s: float | None
    kernel_s: float
    product_s: float
    product_round_robin_s: float
    product_histogram_s: float
    long_plain_s: float
    long_jax_s: float | None
    long_jax_compile_s: float | None
    long_product_s: float
    product_bytes: int
    plain_bytes: int
    jax_bytes: int | None
    loss_gap: float
    jax_note: str
    arm: Contest
    longer: Contest
    sweeps: tuple[SweepTimes, ...]
    targets: tuple[Target, ...]


def run_bench(
    config: StudyConfig,
    cost: CostConfig,
    *,
    cores: int,
    progress: Callable[[str], None] = print,
) -> BenchResult:
    """Times one arm on every side, a longer setting, and single sweeps.

    Args:
        config: of the study; its sizes, seeds and learning rates are those of the arm, which is
            timed on a ring.
        cost: what is timed, and how often.
        cores: processes of the trainer and threads of the plain loop.
        progress: called with one line a repeat.
    """
    with_jax = cost.with_jax and jax_version() is not None
    config = cost.on_a_ring(config)
    contests = []
    for settings, schedules in ((config, SCHEDULES), (cost.longer(config), SCHEDULES[:1])):
        datasets = {seed: study_dataset(settings, seed) for seed in settings.seeds}
        workload = Workload(settings, datasets)
        contests.append(
            run_contest(
                workload, schedules, cost, with_jax=with_jax, cores=cores, progress=progress
            )
        )
    progress(f"bench: single sweeps at n = {cost.single_sweeps(config).nodes}")
    return bench_result(
        *contests, _sweeps(config, cost), cores=cores, jax_note=_note(cost, with_jax)
    )


def _note(cost: CostConfig, with_jax: bool) -> str:
    if with_jax:
        return ""
    if not cost.with_jax:
        return f"JAX is left out, as the setting cost_peers={cost.cost_peers} asks for."
    return f"JAX is not installed, so it is left out; `{INSTALL_JAX}` in the checkout adds it."


def _sweeps(config: StudyConfig, cost: CostConfig) -> tuple[SweepTimes, ...]:
    times = []
    for population in cost.sweep_populations:
        name = f"single sweeps of {population} models"
        with MeasuringProcess(name, partial(SingleSweeps, cost.single_sweeps(config))) as process:
            arguments = (population, cost.cost_repeats, cost.scaling_seconds)
            times.append(process.call("time", *arguments)[0])
    return tuple(times)


def bench_targets(
    arm: Contest, longer: Contest, sweeps: Sequence[SweepTimes]
) -> tuple[Target, ...]:
    """Every target, from the times that it compares.

    Args:
        arm: one arm of the study, every schedule.
        longer: the longer setting.
        sweeps: at least one; the first is compared with the form by rolls.
    """
    full, robin, histogram = (arm.product[name] for name in SCHEDULES)
    long_full = longer.product["full"]
    targets = [
        target("plain loop / full", arm.plain, full, 60),
        target("plain loop on one thread / full", arm.plain_one_thread, full, None),
        target("JAX / full", arm.jax, full, 2.5),
        target("full / bare kernels", full, arm.kernels, 1.25, at_least=False),
        target("plain loop / round_robin", arm.plain, robin, 85),
        target("round_robin / full", robin, full, 0.65, at_least=False),
        target("plain loop / histogram", arm.plain, histogram, 40),
        target(f"plain loop / full, {longer.setting}", longer.plain, long_full, 50),
        target(f"JAX / full, {longer.setting}", longer.jax, long_full, 3.5),
    ]
    for times in sweeps:
        where = f"n = {times.nodes}, S = {times.population}"
        bound = 0.3 if times.nodes * times.population >= 4096 else 0.4
        name = f"a cluster's sweep / full sweep, {where}"
        targets.append(target(name, times.cluster_s, times.full_s, bound, at_least=False))
    first = sweeps[0]
    name = f"sweep by rolls / full sweep, n = {first.nodes}, S = {first.population}"
    targets.append(target(name, first.rolled_s, first.full_s, 2.5))
    return tuple(targets)


def bench_result(
    arm: Contest,
    longer: Contest,
    sweeps: tuple[SweepTimes, ...],
    *,
    cores: int,
    jax_note: str,
) -> BenchResult:
    gaps = [gap for c in (arm, longer) for gap in (c.plain_gap, c.jax_gap) if gap is not None]
    return BenchResult(
        models=arm.models,
        steps=arm.steps,
        cores=cores,
        repeats=len(arm.plain),
        plain_models=arm.plain_models,
        plain_s=_median(arm.plain),
        plain_one_thread_s=_median(arm.plain_one_thread),
        jax_s=_median(arm.jax),
        jax_compile_s=arm.jax_compile_s,
        kernel_s=_median(arm.kernels),
        product_s=_median(arm.product["full"]),
        product_round_robin_s=_median(arm.product["round_robin"]),
        product_histogram_s=_median(arm.product["histogram"]),
        long_plain_s=_median(longer.plain),
        long_jax_s=_median(longer.jax),
        long_jax_compile_s=longer.jax_compile_s,
        long_product_s=_median(longer.product["full"]),
        product_bytes=arm.product_bytes,
        plain_bytes=arm.plain_bytes,
        jax_bytes=arm.jax_bytes,
        loss_gap=float(np.max(gaps)),
        jax_note=jax_note,
        arm=arm,
        longer=longer,
        sweeps=sweeps,
        targets=bench_targets(arm, longer, sweeps),
    )


def _median(times: np.ndarray | None) -> float | None:
    return None if times is None else statistics.median(times.tolist())
