"""A cost whose every number is known: power laws without noise, and ratios made to measure."""

import numpy as np

from clusterdyn.bench.contest import Contest
from clusterdyn.bench.cost import Cost
from clusterdyn.bench.machine import Machine
from clusterdyn.bench.power_law import fit_power_law
from clusterdyn.bench.scaling import Axis, Chunk, Scaling, Sizes
from clusterdyn.bench.side_by_side import bench_result
from clusterdyn.bench.sweeps import SweepTimes
from clusterdyn.bench.wall_clock import WallClock, WallClockPoint

EXPONENTS = {"models": -0.1, "nodes": 1.2, "horizon": 0.9, "batch_size": 0.75, "sweeps": 0.5}
MACHINE = Machine(
    cpu="Abacus 9",
    architecture="bead",
    cores=2,
    system="Table",
    python="3.11.0",
    torch="2.0",
    numpy="2.1",
    jax="0.1",
)


def contest(*, jax: bool = True, long: bool = False) -> Contest:
    """Three repeats: product 1, 2 and 4 s; plain 60, JAX 3, kernels half of it."""
    full = np.array([1.0, 2.0, 4.0])
    product = {"full": full}
    if not long:
        product |= {"round_robin": full * np.array([0.6, 0.7, 0.8]), "histogram": 2 * full}
    return Contest(
        models=24,
        steps=240,
        horizon=20 if long else 4,
        batch_size=32 if long else 20,
        plain_models=2,
        product=product,
        kernels=full / 2,
        plain=60 * full,
        plain_one_thread=30 * full,
        jax=3 * full if jax else None,
        jax_compile_s=1.5 if jax else None,
        product_bytes=10 * 2**20,
        plain_bytes=2**20,
        jax_bytes=100 * 2**20 if jax else None,
        plain_gap=1e-7,
        jax_gap=2e-6 if jax else None,
        plain_last_gap=3e-7,
        jax_last_gap=4e-6 if jax else None,
    )


def sweeps() -> tuple[SweepTimes, ...]:
    """At S n = 2048 and 4096; a cluster takes .35 of a full sweep, rolls take 5 full sweeps."""
    full = np.array([1e-3, 1e-3, 2e-3])
    return tuple(
        SweepTimes(population, 256, 4, full, 0.35 * full, 5 * full) for population in (8, 16)
    )


def axis(size: str) -> Axis:
    """Six values of a size that follow their power law to the digit, in two equal repeats."""
    values = 2 ** np.arange(2, 8)
    per_model = 1e-3 * values.astype(float) ** EXPONENTS[size]
    models = values if size == "models" else np.full(6, 8)
    seconds = np.stack([per_model * models] * 2, axis=1)
    return Axis(size, values, models, seconds, values * 2**20, fit_power_law(values, per_model))


def wall_clock() -> WallClock:
    """At two sizes: round robin, of a quarter of the work, takes half the time; histogram twice."""
    full = np.array([1e-3, 2e-3, 4e-3])
    points = [
        WallClockPoint(
            nodes,
            20,
            nodes * np.stack([full, full * np.array([0.4, 0.5, 0.6]), 2 * full]),
            3.0 * nodes * np.array([1, 0.25, 0.25]),
            2**20 * np.array([4, 2, 5]),
        )
        for nodes in (16, 256)
    ]
    schedules = ("full", "round_robin", "histogram")
    return WallClock("cpu", schedules, 3, 4, 4, tuple(points), None)


def made_up_cost(*, jax: bool = True) -> Cost:
    """All of it."""
    chunks = [
        Chunk(5, 4 * 2**20, np.array([0.6, 0.6, 0.6]), 5 * 2**20),
        Chunk(20, 16 * 2**20, np.array([0.15, 0.15, 0.15]), 15 * 2**20),
        Chunk(100, 80 * 2**20, np.array([0.3, 0.3, 0.3]), 70 * 2**20),
    ]
    scaling = Scaling(Sizes(8, 16, 4, 20, 3), 4, tuple(map(axis, EXPONENTS)), 100, tuple(chunks))
    note = "" if jax else "There is no JAX."
    bench = bench_result(
        contest(jax=jax), contest(jax=jax, long=True), sweeps(), cores=2, jax_note=note
    )
    return Cost(MACHINE, bench, scaling, wall_clock())
