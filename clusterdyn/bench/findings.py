"""What training costs, in sentences whose numbers come from the measurements."""

import numpy as np

from clusterdyn.bench.scaling import Scaling
from clusterdyn.bench.side_by_side import BenchResult
from clusterdyn.bench.tables import MEBIBYTE, SIZES, exponent
from clusterdyn.bench.targets import Target
from clusterdyn.bench.wall_clock import WallClock, WallClockPoint
from clusterdyn.execution import training_cost
from clusterdyn.protocol import Study

MILLION = 10**6  # models


def cost(study: Study) -> str:
    """Closes notebook 08."""
    measured = study.cost
    return "\n\n".join(
        filter(
            None,
            (
                _speed(measured.bench),
                _targets(measured.bench),
                _growth(measured.scaling),
                _chunks(measured.scaling),
                f"**Wall-clock.** {saved_time(measured.wall_clock)}",
                _stages(study),
            ),
        )
    )


def machine(study: Study) -> str:
    """What the times were measured on."""
    found = study.cost.machine
    return (
        f"Measured on {found.cores} core{'s' if found.cores > 1 else ''} of "
        f"{found.cpu} ({found.architecture}, {found.system}), with Python {found.python}, PyTorch "
        f"{found.torch}, NumPy {found.numpy}"
        + (f" and JAX {found.jax}. " if found.jax else " and without JAX. ")
        + "On another machine, or with other versions, it is measured again."
    )


def _speed(bench: BenchResult) -> str:
    each = bench.product_s * bench.cores / bench.models  # on one core
    hours = training_cost(each, MILLION, bench.cores).hours
    return (
        f"**Speed.** One arm, {bench.models} models of {bench.steps} optimiser steps, takes "
        f"{bench.product_s:.3g} s with the full sweep, {1e3 * bench.product_s / bench.models:.3g} "
        f"ms a model; at that rate a million models take {hours:.3g} hours here. With "
        f"`round_robin` it takes {bench.product_round_robin_s:.3g} s, with `histogram` "
        f"{bench.product_histogram_s:.3g} s. The plain loop takes {bench.plain_s:.3g} s with "
        f"{bench.cores} thread{'s' if bench.cores > 1 else ''} and {bench.plain_one_thread_s:.3g} "
        "s with one"
        + (
            f", JAX {bench.jax_s:.3g} s after {bench.jax_compile_s:.3g} s of compiling"
            if bench.jax_s is not None
            else ""
        )
        + f", and the bare kernels alone {bench.kernel_s:.3g} s. Everybody trains the same models: "
        f"losses of the first epoch differ by at most {bench.loss_gap:.1g} of their value."
        + (f" {bench.jax_note}" if bench.jax_note else "")
    )


def _targets(bench: BenchResult) -> str:
    bound = [target for target in bench.targets if target.kept is not None]
    missed = [target for target in bound if not target.kept]
    text = f"**Targets.** {len(bound) - len(missed)} of {len(bound)} measured targets are kept."
    if missed:
        text += f" Missed: {'; '.join(_missed(target) for target in missed)}."
    return text


def _missed(target: Target) -> str:
    return (
        f"{target.name}, {target.ratio:.3g} [{target.low:.3g}, {target.high:.3g}] where "
        f"{target.wanted} is wanted"
    )


def _growth(scaling: Scaling) -> str:
    told = [
        f"${SIZES[axis.size][0]}$: {exponent(axis)}"
        for axis in scaling.axes
        if axis.law is not None
    ]
    if not told:
        return ""
    return (
        "**Growth.** Exponents of the time of an optimiser step a model, with 95 % t intervals: "
        f"{'; '.join(told)}. One model by itself costs {_alone(scaling):.2g} times what it costs "
        f"among {scaling.axis('models').values[-1]}."
    )


def _alone(scaling: Scaling) -> float:
    per_model = np.median(scaling.axis("models").per_model, axis=1)
    return float(per_model[0] / per_model[-1])


def _chunks(scaling: Scaling) -> str:
    whole, smallest = scaling.chunks[-1], scaling.chunks[0]
    usual = np.median(whole.seconds)
    fastest = min(scaling.chunks, key=lambda chunk: np.median(chunk.seconds))
    return (
        f"**Memory.** {whole.models} models at once took {whole.memory / MEBIBYTE:.3g} MiB, and "
        f"{smallest.memory / MEBIBYTE:.3g} MiB in chunks of {smallest.models} "
        f"(max_bytes at {smallest.max_bytes / MEBIBYTE:.2g} MiB), in "
        f"{np.median(smallest.seconds) / usual:.2f} times the time. Chunks of {fastest.models} "
        f"were the fastest, with {np.median(fastest.seconds) / usual:.2f} times the time."
    )


def saved_time(found: WallClock) -> str:
    """How much of a time step schedules save, and how many save none."""
    slower = sum(int(np.sum(np.median(point.ratios[1:], axis=1) > 1)) for point in found.points)
    cases = len(found.points) * (len(found.schedules) - 1)
    ends = dict.fromkeys((0, len(found.points) - 1))
    told = "; ".join(_fastest(found, found.points[end]) for end in ends)
    return (
        f"At equal sweeps a schedule takes longer than the full sweep in {slower} of {cases} "
        f"cases. The fastest: {told}."
    )


def _fastest(found: WallClock, point: WallClockPoint) -> str:
    ratios = np.median(point.ratios, axis=1)
    fastest = 1 + int(np.argmin(ratios[1:]))
    return (
        f"at n = {point.nodes}, B = {point.batch_size} `{found.schedules[fastest]}` with "
        f"{ratios[fastest]:.2g} of the full sweep's time and {point.ideal[fastest]:.2g} of its "
        "node updates"
    )


def _stages(study: Study) -> str:
    took = {name: s for name, s in study.stage_seconds().items() if s is not None}
    own = took.pop("cost")
    longest = max(took, key=took.get)
    return (
        f"**Where the time goes.** The report's results took {sum(took.values()):.3g} s, of which "
        f"`{longest}` took {took[longest] / sum(took.values()):.0%}, and the measurements on this "
        f"page {own:.3g} s."
    )
