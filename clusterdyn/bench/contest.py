"""A contest over one workload: everybody trains the same models on the same data, in turn.

The population trainer runs in one process a core, each of one thread and with its share of the
seeds; the bare kernels likewise; the plain loop in one process with a thread a core, and in one
with a single thread; JAX in one process with the threads that it takes. All processes are there
before anything is timed.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import numpy as np

from clusterdyn.bench.config import CostConfig
from clusterdyn.bench.contenders import PlainTraining, PopulationTraining, Run, Workload
from clusterdyn.bench.jax_training import JaxTraining
from clusterdyn.bench.kernels import BareKernels
from clusterdyn.bench.processes import MeasuringProcess


@dataclass(frozen=True)
class Contest:
    """Times of one workload, in s; those of the same repeat were taken in turn.

    Attributes:
        models: S.
        steps: optimiser steps a model.
        horizon, batch_size: T and B.
        plain_models: how many of the models the plain loop trained; its times are scaled to all.
        product: (repeats,) for each schedule: the population trainer.
        kernels: (repeats,): the bare kernels of the full sweep.
        plain, plain_one_thread: (repeats,), full sweep, with a thread a core and with one.
        jax: (repeats,), full sweep; None if it was not timed.
        jax_compile_s: tracing and compiling, once; None without JAX.
        product_bytes: peak memory of the full sweep's processes together, above their start.
        plain_bytes: the same of the plain loop with one thread.
        jax_bytes: the same of JAX, its compiler included; None without JAX.
        plain_gap, jax_gap: largest relative difference of a model's mean loss over the first
            epoch from the trainer's; NaN if a model diverged, None without that side.
        plain_last_gap, jax_last_gap: the same over the last epoch.
    """

    models: int
    steps: int
    horizon: int
    batch_size: int
    plain_models: int
    product: dict[str, np.ndarray]
    kernels: np.ndarray
    plain: np.ndarray
    plain_one_thread: np.ndarray
    jax: np.ndarray | None
    jax_compile_s: float | None
    product_bytes: int
    plain_bytes: int
    jax_bytes: int | None
    plain_gap: float
    jax_gap: float | None
    plain_last_gap: float
    jax_last_gap: float | None

    @property
    def setting(self) -> str:
        """T and B in words."""
        return f"T = {self.horizon}, B = {self.batch_size}"


def run_contest(
    workload: Workload,
    schedules: Sequence[str],
    cost: CostConfig,
    *,
    with_jax: bool,
    cores: int,
    progress: Callable[[str], None],
) -> Contest:
    """Times the training of a workload on every side.

    Args:
        workload: what is trained.
        schedules: of the population trainer; the first is ``full``, which the others do as well.
        cost: how often everything is timed.
        with_jax: whether JAX takes part.
        cores: processes of the trainer and threads of the plain loop.
        progress: called with one line a repeat.
    """
    models, shares = len(workload.pairs), workload.share(cores)
    plain_models = min(cost.plain_models, models)
    plain = [partial(PlainTraining, workload, plain_models)]
    makers = {
        name: [partial(PopulationTraining, part, name) for part in shares] for name in schedules
    }
    makers |= {"kernels": [partial(BareKernels, part) for part in shares]}
    makers |= {"plain": plain, "plain, one thread": plain}
    if with_jax:
        makers["jax"] = [partial(JaxTraining, workload)]
    with ExitStack() as stack:
        processes = {
            side: [
                stack.enter_context(
                    MeasuringProcess(side, maker, threads=cores if side == "plain" else 1)
                )
                for maker in parts
            ]
            for side, parts in makers.items()
        }
        prepared = {side: _all(parts, "prepare")[0] for side, parts in processes.items()}
        runs: dict[str, list[Run]] = {side: [] for side in processes}
        memory: dict[str, int] = {}
        for repeat in range(cost.cost_repeats):
            for side, parts in processes.items():
                answers, memory[side] = _all(parts, "run")
                runs[side].append(_joined(answers))
            times = ", ".join(f"{side} {done[-1].seconds:.2f} s" for side, done in runs.items())
            progress(
                f"bench: T = {workload.config.horizon}, B = {workload.config.batch_size}, "
                f"repeat {repeat + 1} of {cost.cost_repeats}: {times} "
                f"(plain: {plain_models} of {models} models)"
            )
    seconds = {side: np.array([run.seconds for run in done]) for side, done in runs.items()}
    return Contest(
        models=models,
        steps=workload.steps,
        horizon=workload.config.horizon,
        batch_size=workload.config.batch_size,
        plain_models=plain_models,
        product={name: seconds[name] for name in schedules},
        kernels=seconds["kernels"],
        plain=seconds["plain"] * models / plain_models,
        plain_one_thread=seconds["plain, one thread"] * models / plain_models,
        jax=seconds.get("jax"),
        jax_compile_s=prepared["jax"][0] if with_jax else None,
        product_bytes=memory["full"],
        plain_bytes=memory["plain, one thread"],
        jax_bytes=memory.get("jax"),
        plain_gap=_gap(runs, "plain", "first_loss"),
        jax_gap=_gap(runs, "jax", "first_loss") if with_jax else None,
        plain_last_gap=_gap(runs, "plain", "last_loss"),
        jax_last_gap=_gap(runs, "jax", "last_loss") if with_jax else None,
    )


def _all(processes: Sequence[MeasuringProcess], method: str) -> tuple[list, int]:
    """Has all processes work at the same time; their answers, and their memory together."""
    for process in processes:
        process.ask(method)
    answers = [process.answer() for process in processes]
    return [answer for answer, _ in answers], sum(memory for _, memory in answers)


def _joined(runs: Sequence[Run]) -> Run:
    """Shares of one workload that ran at the same time: as long as the slowest took."""
    return Run(
        max(run.seconds for run in runs),
        np.concatenate([run.first_loss for run in runs]),
        np.concatenate([run.last_loss for run in runs]),
    )


def _gap(runs: Mapping[str, Sequence[Run]], side: str, loss: str) -> float:
    """The largest relative difference of a model's loss from the trainer's."""
    found, own = (getattr(runs[name][-1], loss).astype(float) for name in (side, "full"))
    return float(np.max(np.abs(found / own[: len(found)] - 1)))
