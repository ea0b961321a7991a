"""The measured cost in tables."""

import math

import numpy as np

from clusterdyn.bench.scaling import Axis, Scaling
from clusterdyn.bench.side_by_side import BenchResult
from clusterdyn.bench.wall_clock import WallClock
from clusterdyn.protocol import Study
from clusterdyn.tables import Table

SIZES = {
    "models": ("S", "models"),
    "nodes": ("n", "nodes"),
    "horizon": ("T", "time steps"),
    "batch_size": ("B", "trajectories"),
    "sweeps": ("K", "sweeps a time step"),
}
"""Symbol and name of each size that is varied."""

MEBIBYTE = 2**20


def _seconds(value: float | None) -> str:
    return "—" if value is None else f"{value:.3g}"


def _mebibytes(value: int | None) -> str:
    return "—" if value is None else f"{value / MEBIBYTE:.3g}"


def bench_times(bench: BenchResult) -> Table:
    """Times and memory of everybody who trained."""
    longer = bench.longer.setting
    rows = [
        ("population trainer, full", _seconds(bench.product_s), _seconds(bench.long_product_s),
         _mebibytes(bench.product_bytes)),
        ("population trainer, round_robin", _seconds(bench.product_round_robin_s), "—", "—"),
        ("population trainer, histogram", _seconds(bench.product_histogram_s), "—", "—"),
        ("bare kernels of the full sweep", _seconds(bench.kernel_s), "—", "—"),
        (f"plain loop, {_threads(bench.cores)}", _seconds(bench.plain_s),
         _seconds(bench.long_plain_s), "—"),
        ("plain loop, 1 thread", _seconds(bench.plain_one_thread_s), "—",
         _mebibytes(bench.plain_bytes)),
        ("JAX, compiled before", _seconds(bench.jax_s), _seconds(bench.long_jax_s),
         _mebibytes(bench.jax_bytes)),
        ("JAX, compiling", _seconds(bench.jax_compile_s), _seconds(bench.long_jax_compile_s), "—"),
    ]  # fmt: skip
    notes = [
        f"Optimiser steps of {bench.models} models, {bench.steps} each, in seconds, and of "
        f"{bench.longer.steps} each at {longer}: medians of {bench.repeats} repeats in turn.",
        f"The population trainer runs in {bench.cores} "
        f"process{'es' if bench.cores > 1 else ''} of one thread each.",
        f"The plain loop trained {bench.plain_models} of the {bench.models} models and its times "
        "are scaled to all, since it takes them one by one."
        if bench.plain_models < bench.models
        else "",
        "Memory is the peak above what the process held before.",
        f"Over the first epoch, losses differ by at most {bench.loss_gap:.1g} of their value.",
        bench.jax_note,
    ]
    columns = ("who trains", "one arm [s]", f"{longer} [s]", "memory [MiB]")
    return Table(columns, rows, " ".join(filter(None, notes)))


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def bench_targets(bench: BenchResult) -> Table:
    """Every ratio with its interval, and whether its target is kept."""
    rows = [
        (
            target.name,
            *(_seconds(value) for value in (target.ratio, target.low, target.high)),
            target.wanted,
            target.outcome,
        )
        for target in bench.targets
    ]
    return Table(
        ("ratio of times", "median", "smallest", "largest", "target", "outcome"),
        rows,
        f"Ratios of times of one run on {bench.cores} core{'s' if bench.cores > 1 else ''}: "
        f"median, smallest and largest of {bench.repeats} repeats, each of times taken in turn. "
        "The targets are meant for the reference study's sizes on two cores.",
    )


def exponent(axis: Axis) -> str:
    """The fitted exponent of an axis, with its interval where there are points enough for one."""
    if axis.law is None:
        return "—"
    law = axis.law
    interval = "" if math.isnan(law.low) else f" [{law.low:.2f}, {law.high:.2f}]"
    return f"{law.exponent:.2f}{interval}"


def scaling(study: Study) -> Table:
    """How the time of an optimiser step grows with each size."""
    measured = study.cost.scaling
    rows = []
    for axis in measured.axes:
        symbol, name = SIZES[axis.size]
        ends = (0, -1)
        low, high = (f"{1e3 * float(sorted(axis.per_model[end])[0]):.3g}" for end in ends)
        rows.append(
            (
                f"{symbol}, {name}",
                f"{axis.values[0]} to {axis.values[-1]}",
                f"{low} to {high}",
                f"{_mebibytes(axis.memory[0])} to {_mebibytes(axis.memory[-1])}",
                exponent(axis),
            )
        )
    return Table(
        ("size", "from, to", "time a step and model [ms]", "memory [MiB]", "exponent of the time"),
        rows,
        f"An optimiser step of the full sweep at {_where(measured)}, one size varied at a time, in "
        "one process of one thread; the fastest of the repeats at both ends. The exponent of the "
        "time a model is fitted by least squares on logarithms over the upper half of the "
        "values, with its 95 % t interval.",
    )


def _where(measured: Scaling) -> str:
    sizes = ", ".join(f"{SIZES[k][0]} = {v}" for k, v in vars(measured.sizes).items())
    return f"{sizes}, d = {measured.channels}"


def wall_clock(found: WallClock) -> Table:
    """A time step under every schedule at every size, against ``full`` and the ideal."""
    rows = []
    for point in found.points:
        for row, schedule in enumerate(found.schedules):
            ratios = point.ratios[row]
            rows.append(
                (
                    f"{point.nodes}, {point.batch_size}",
                    schedule,
                    f"{1e3 * float(np.median(point.seconds[row])):.3g}",
                    f"{np.median(ratios):.3g}",
                    f"{ratios.min():.3g} to {ratios.max():.3g}",
                    f"{point.ideal[row]:.3g}",
                    _mebibytes(point.memory[row]),
                )
            )
    return Table(
        (
            "n, B",
            "schedule",
            "time step [ms]",
            "over full",
            "repeats",
            "node updates over full",
            "memory [MiB]",
        ),
        rows,
        f"A forward time step of one model on {found.device_in_words} in one thread, "
        f"K = {found.sweeps} sweeps under every schedule, C = {found.clusters}, "
        f"d = {found.channels}, on a ring: median time, its ratio to the full sweep's in the same "
        "repeat (median, smallest and largest), the ratio of node updates by the ledger, which "
        "an ideal machine would reach, and the trainer's buffers for one time step and its "
        "gradient.",
    )


def devices(found: WallClock) -> Table:
    """Which kinds of device were timed."""
    on_cpu = found.device == "cpu"
    rows = [
        ("CPU", "measured" if on_cpu else "not measured", "—"),
        (
            "accelerator",
            "not measured" if on_cpu else found.device,
            "—" if found.utilisation is None else f"{found.utilisation:.0f} %",
        ),
    ]
    return Table(
        ("device", "measured", "utilisation"),
        rows,
        "Devices of this table. `python -m clusterdyn wall-clock --device cuda` measures the same "
        "on an accelerator and samples how busy it was, where NVIDIA's management library tells.",
    )


def stage_seconds(study: Study) -> Table:
    """What the results of the report took."""
    took = study.stage_seconds()
    known = {name: seconds for name, seconds in took.items() if seconds is not None}
    total = sum(known.values())
    rows = [
        (name, _seconds(seconds), "—" if seconds is None else f"{seconds / total:.0%}")
        for name, seconds in took.items()
    ]
    return Table(
        ("stage", "seconds", "share"),
        [*rows, ("all", _seconds(total), f"{1:.0%}")],
        "Seconds that each stage of the report took when its artifact was made; strict holds all "
        "populations of the strict protocol that were not there already. A stage whose artifact is "
        "there is read in milliseconds. Notebooks and pages come on top, and the terminal says "
        "what they take.",
    )
