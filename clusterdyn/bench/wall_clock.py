"""Time and memory of a time step under each schedule, against ``full``, on a CPU or an accelerator.

What is timed is the population trainer's forward pass of one model over one time step of K sweeps,
drive, read-out and the schedule's own choices included. Every schedule makes the same number of
sweeps; so the ideal ratio to ``full`` is that of the node updates in the ledger of the pass.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
import torch

from clusterdyn.adjoint import RolloutGradient
from clusterdyn.arms import arm_schedule, message_passing_cell
from clusterdyn.bench.config import CostConfig
from clusterdyn.bench.timing import interleaved_times
from clusterdyn.config import StudyConfig
from clusterdyn.sweeps import active_clusters, ledger
from clusterdyn.threads import torch_threads

SCHEDULES = (
    "full",
    "cluster_sequential",
    "round_robin",
    "random",
    "histogram",
    "residual",
)

SAMPLE_SECONDS = 0.05  # between samples of an accelerator's utilisation


@dataclass(frozen=True)
class WallClockPoint:
    """All schedules at one size.

    Attributes:
        nodes: n.
        batch_size: B.
        seconds: (schedules, repeats), of a time step; the schedules took turns.
        node_updates: (schedules,), a time step and trajectory, counted in a pass.
        memory: (schedules,), bytes of all buffers that the trainer makes once for one time step
            and its gradient; what a schedule takes for a moment while it looks is not in it.
    """

    nodes: int
    batch_size: int
    seconds: np.ndarray
    node_updates: np.ndarray
    memory: np.ndarray

    @property
    def ratios(self) -> np.ndarray:
        """(schedules, repeats): time over that of ``full`` in the same turn."""
        return self.seconds / self.seconds[0]

    @property
    def ideal(self) -> np.ndarray:
        """(schedules,): node updates over those of ``full``."""
        return self.node_updates / self.node_updates[0]


@dataclass(frozen=True)
class WallClock:
    """All sizes on one device.

    Attributes:
        device: its name, as PyTorch has it.
        schedules: in the order of the points' rows; ``full`` comes first.
        sweeps: K.
        channels: d.
        clusters: C.
        points: by nodes, then by batch size.
        utilisation: of an accelerator while it was timed, mean of samples, in %; None on a CPU and
            where nothing tells it.
    """

    device: str
    schedules: tuple[str, ...]
    sweeps: int
    channels: int
    clusters: int
    points: tuple[WallClockPoint, ...]
    utilisation: float | None

    @property
    def device_in_words(self) -> str:
        """As a sentence names it."""
        return "the CPU" if self.device == "cpu" else self.device

    def point(self, nodes: int, batch_size: int) -> WallClockPoint:
        """The point of a size."""
        (found,) = (p for p in self.points if (p.nodes, p.batch_size) == (nodes, batch_size))
        return found


def measure_wall_clock(
    config: StudyConfig,
    cost: CostConfig,
    *,
    device: str = "cpu",
    progress: Callable[[str], None] = print,
) -> WallClock:
    """Measures every schedule at every size, in one thread.

    Args:
        config: gives channels, clusters, bins, sweeps, relaxation and precision.
        cost: gives the sizes, the repeats and the time of a block.
        device: of PyTorch, such as cpu or cuda.
        progress: called with one line a number of nodes.

    Raises:
        ValueError: if the device is not there.
    """
    name = device_name(device)
    points = []
    with torch_threads(1), sampled_utilisation(device) as samples:
        for nodes in cost.wall_clock_nodes:
            progress(f"wall-clock: {len(SCHEDULES)} schedules at n = {nodes} on {name}")
            ring = cost.on_a_ring(replace(config, nodes=nodes))
            points += [_point(ring, cost, batch, device) for batch in cost.wall_clock_batch_sizes]
    return WallClock(
        device=name,
        schedules=SCHEDULES,
        sweeps=config.sweeps,
        channels=config.channels,
        clusters=config.clusters,
        points=tuple(points),
        utilisation=float(np.mean(samples)) if samples else None,
    )


@contextmanager
def sampled_utilisation(device: str) -> Iterator[list[float]]:
    """Samples of an accelerator's utilisation, in %, taken in a thread meanwhile.

    Only CUDA tells it, and only with NVIDIA's management library; elsewhere there are none.
    """
    samples: list[float] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE_SECONDS):
            samples.append(float(torch.cuda.utilization()))

    if device != "cuda" or find_spec("pynvml") is None:
        yield samples
        return
    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield samples
    finally:
        done.set()
        watching.join()


def device_name(device: str) -> str:
    """What PyTorch calls a device.

    Raises:
        ValueError: if the device is not there.
    """
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if not there.get(device, False):
        found = ", ".join(name for name, is_there in there.items() if is_there)
        raise ValueError(f"device must be one that this machine has ({found}); got {device!r}")
    return torch.cuda.get_device_name() if device == "cuda" else device


def _point(config: StudyConfig, cost: CostConfig, batch: int, device: str) -> WallClockPoint:
    passes = [TimeStepPass(config, name, batch, device) for name in SCHEDULES]
    seconds = interleaved_times(
        passes, repeats=cost.cost_repeats, block_seconds=cost.wall_clock_seconds
    )
    return WallClockPoint(
        nodes=config.nodes,
        batch_size=batch,
        seconds=seconds,
        node_updates=np.array([each.node_updates for each in passes]),
        memory=np.array([each.memory for each in passes]),
    )


class TimeStepPass:
    """A forward pass over one time step; each call makes one and waits until it is done.

    Args:
        config: gives the ring, sweeps, relaxation and precision.
        name: the schedule's.
        batch: B.
        device: of PyTorch.

    Attributes:
        memory: bytes, as ``WallClockPoint`` has it.
        node_updates: a time step and trajectory.
    """

    def __init__(self, config: StudyConfig, name: str, batch: int, device: str) -> None:
        self.device, self.cell = device, message_passing_cell(config)
        self.schedule = arm_schedule(config, name)
        self.generators = [np.random.default_rng(0)]
        training = replace(config.training(), device=device)
        rng, cell = np.random.default_rng(0), self.cell
        initial = cell.initial_parameters(np.random.SeedSequence(0))
        parameters = training.tensor(initial).unsqueeze(0)
        states = training.tensor(rng.normal(size=(1, batch, 2, cell.state_size)))
        controls = training.tensor(rng.normal(size=(1, batch, 1, cell.control_size)))

        self.gradient = RolloutGradient(
            cell,
            self.schedule,
            (1, batch, 1),
            sweeps=config.sweeps,
            relaxation=config.relaxation,
            like=parameters,
        )
        self.memory = self.gradient.nbytes
        # Lays out the weights, and tells the choices.
        _, _, choices = self.gradient(parameters, states, controls, self.generators)
        active = [active_clusters(self.schedule, choice) for choice in choices]
        told = ledger(active, self.schedule, population=1, batch=batch, horizon=1)
        self.node_updates = float(told.node_updates[0])

    def __call__(self) -> None:
        with torch.no_grad():
            self.gradient.forward(self.generators)
        synchronise(self.device)


def synchronise(device: str) -> None:
    """Waits until a device has done all that it was asked for."""
    if device != "cpu":
        getattr(torch, device).synchronize()
