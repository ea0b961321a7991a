"""How the time and the memory of training grow with its sizes, and what chunks cost.

One optimiser step of the full sweep on made-up standardised data, in a process of one thread that
is new for every size. The sizes are the study's but for one at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from clusterdyn.adjoint import RolloutGradient
from clusterdyn.bench.config import CostConfig
from clusterdyn.bench.power_law import PowerLaw, fit_power_law
from clusterdyn.bench.processes import MeasuringProcess
from clusterdyn.bench.timing import interleaved_times
from clusterdyn.config import StudyConfig
from clusterdyn.datasets import Dataset, pendulum_dataset
from clusterdyn.graph import one_block, ring
from clusterdyn.model import MessagePassingCell
from clusterdyn.optimiser import Adam
from clusterdyn.schedules import Full
from clusterdyn.training import bytes_per_model, train_population

CHUNK_STEPS = 8  # optimiser steps of the population that is trained in chunks


@dataclass(frozen=True)
class Sizes:
    """Sizes of a training.

    Attributes:
        models: S.
        nodes: n.
        horizon: T.
        batch_size: B.
        sweeps: K.
    """

    models: int
    nodes: int
    horizon: int
    batch_size: int
    sweeps: int


@dataclass(frozen=True)
class Axis:
    """Cost of an optimiser step against one size.

    Attributes:
        size: field of ``Sizes`` that varies.
        values: (points,), its values.
        models: (points,), S.
        seconds: (points, repeats), of a step of all models.
        memory: (points,), bytes: peak of the process above its start.
        law: of the time a model (``per_model``), or None if there are too few points.
    """

    size: str
    values: np.ndarray
    models: np.ndarray
    seconds: np.ndarray
    memory: np.ndarray
    law: PowerLaw | None

    @property
    def per_model(self) -> np.ndarray:
        """(points, repeats): seconds of a step, a model."""
        return self.seconds / self.models[:, None]


@dataclass(frozen=True)
class Chunk:
    """A population trained within a given memory.

    Attributes:
        models: that fit into the memory at a time.
        max_bytes: the memory, by ``bytes_per_model``.
        seconds: (repeats,), of an optimiser step of all models.
        memory: bytes: peak of the process above its start.
    """

    models: int
    max_bytes: int
    seconds: np.ndarray
    memory: int


@dataclass(frozen=True)
class Scaling:
    """All that was measured of the growth of costs.

    Attributes:
        sizes: through which the axes go.
        channels: d.
        axes: one a size.
        chunk_population: S of the population that was trained in chunks.
        chunks: by ascending memory; the last holds all models.
    """

    sizes: Sizes
    channels: int
    axes: tuple[Axis, ...]
    chunk_population: int
    chunks: tuple[Chunk, ...]

    def axis(self, size: str) -> Axis:
        """The axis of a size."""
        (found,) = (axis for axis in self.axes if axis.size == size)
        return found


class OptimiserStep:
    """Times an optimiser step; each call makes what it needs anew.

    Args:
        config: gives channels, relaxation, norm clip and precision.
    """

    def __init__(self, config: StudyConfig) -> None:
        self.config = config
        self.time(Sizes(models=1, nodes=3, horizon=1, batch_size=1, sweeps=1), 1, 0)

    def time(self, sizes: Sizes, repeats: int, block_seconds: float) -> np.ndarray:
        """(repeats,), in s."""
        return interleaved_times([self._step(sizes)], repeats=repeats, block_seconds=block_seconds)[
            0
        ]

    def _step(self, sizes: Sizes) -> Callable[[], None]:
        training = self.config.training()
        rng = np.random.default_rng(0)
        cell = MessagePassingCell(ring(sizes.nodes), self.config.channels)
        initial = training.tensor(cell.initial_parameters(np.random.SeedSequence(0)))
        parameters = initial.repeat(sizes.models, 1)
        batch = (sizes.models, sizes.batch_size)
        states = training.tensor(rng.normal(size=(*batch, sizes.horizon + 1, cell.state_size)))
        controls = training.tensor(rng.normal(size=(*batch, sizes.horizon, cell.control_size)))
        gradient_of = RolloutGradient(
            cell,
            Full(one_block(sizes.nodes)),
            (*batch, sizes.horizon),
            sweeps=sizes.sweeps,
            relaxation=self.config.relaxation,
            like=parameters,
        )
        rates = parameters.new_full((sizes.models,), min(self.config.learning_rates))
        optimiser = Adam(parameters, rates, self.config.clip_norm)
        alive = rates > 0

        def step() -> None:
            _, gradient, _ = gradient_of(parameters, states, controls, [])
            optimiser.step(parameters, gradient, alive)

        return step


class ChunkedTraining:
    """Trains one seed at many learning rates, for a few steps, within a given memory.

    Args:
        config: the rest.
        dataset: of the seed; its training split holds the batches.
    """

    def __init__(self, config: StudyConfig, dataset: Dataset) -> None:
        self.dataset, self.training = dataset, config.training()
        self.rate = min(config.learning_rates)
        self.cell = MessagePassingCell(ring(config.nodes), config.channels)
        self.schedule = Full(one_block(config.nodes))
        self.time(1, 1, 1)

    def time(self, models: int, fit: int, repeats: int) -> tuple[int, np.ndarray]:
        """Trains so many models in the memory that a chunk of ``fit`` models takes.

        Returns:
            That memory, and seconds of an optimiser step of all models, (repeats,).
        """
        each = bytes_per_model(self.cell, self.schedule, self.dataset, self.training)
        rates = self.rate * np.linspace(0.5, 1, models)
        runs = [
            train_population(
                self.cell,
                self.schedule,
                {0: self.dataset},
                rates,
                self.training,
                max_bytes=fit * each,
            )
            for _ in range(repeats)
        ]
        return fit * each, np.array([run.seconds / CHUNK_STEPS for run in runs])


def study_sizes(config: StudyConfig, models: int) -> Sizes:
    """The study's own sizes."""
    return Sizes(models, config.nodes, config.horizon, config.batch_size, config.sweeps)


def measure_scaling(
    config: StudyConfig, cost: CostConfig, *, progress: Callable[[str], None] = print
) -> Scaling:
    """Measures every axis, one size after another.

    Args:
        config: of the study.
        cost: the grids.
        progress: called with one line an axis.
    """
    config = cost.on_a_ring(config)
    sizes = study_sizes(config, cost.scaling_population)
    grids = {
        "models": cost.scaling_populations,
        "nodes": cost.scaling_nodes,
        "horizon": cost.scaling_horizons,
        "batch_size": cost.scaling_batch_sizes,
        "sweeps": cost.scaling_sweeps,
    }
    axes = []
    for size, values in grids.items():
        progress(f"cost: an optimiser step at {len(values)} values of {size}")
        axes.append(_axis(size, [replace(sizes, **{size: v}) for v in values], config, cost))
    progress(f"cost: {cost.chunk_population} models in chunks")
    return Scaling(
        sizes=sizes,
        channels=config.channels,
        axes=tuple(axes),
        chunk_population=cost.chunk_population,
        chunks=_chunks(config, cost),
    )


def _axis(size: str, points: list[Sizes], config: StudyConfig, cost: CostConfig) -> Axis:
    seconds, memory = [], []
    for sizes in points:
        name = f"an optimiser step at {size} = {getattr(sizes, size)}"
        with MeasuringProcess(name, partial(OptimiserStep, config)) as process:
            times, peak = process.call("time", sizes, cost.cost_repeats, cost.scaling_seconds)
        seconds.append(times)
        memory.append(peak)
    values = np.array([getattr(sizes, size) for sizes in points])
    models = np.array([sizes.models for sizes in points])
    medians = np.median(seconds, axis=1) / models
    return Axis(
        size=size,
        values=values,
        models=models,
        seconds=np.array(seconds),
        memory=np.array(memory),
        law=fit_power_law(values, medians),
    )


def _chunks(config: StudyConfig, cost: CostConfig) -> tuple[Chunk, ...]:
    count = CHUNK_STEPS * config.batch_size
    dataset = pendulum_dataset(0, train=count, validation=1, test=1, horizon=config.horizon)
    short = replace(config, epochs=1, train_trajectories=count)
    chunks = []
    population = cost.chunk_population
    for models in (*(fit for fit in cost.chunk_models if fit < population), population):
        name = f"training in chunks of {models}"
        with MeasuringProcess(name, partial(ChunkedTraining, short, dataset)) as process:
            (max_bytes, seconds), memory = process.call(
                "time", population, models, cost.cost_repeats
            )
        chunks.append(Chunk(models, max_bytes, seconds, memory))
    return tuple(chunks)
