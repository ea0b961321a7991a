"""Single forward sweeps: a cluster's against all nodes', and against rolls and a product.

One thread, cluster after cluster in turn. A sweep's time is the difference of two forward passes
over one time step, one with more sweeps than the other, so that drive and read-out drop out.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clusterdyn.adjoint import RolloutGradient
from clusterdyn.arms import arm_schedule, message_passing_cell
from clusterdyn.bench.timing import interleaved_times
from clusterdyn.config import StudyConfig


@dataclass(frozen=True)
class SweepTimes:
    """Times of one forward sweep, in s.

    Attributes:
        population: S.
        nodes: n.
        clusters: C, of n / C nodes each.
        full_s: (repeats,), all nodes.
        cluster_s: (repeats,), one cluster, mean over all in turn.
        rolled_s: (repeats,), all nodes by concatenation of h, h rolled left and h rolled right,
            and one product with the shared weights.
    """

    population: int
    nodes: int
    clusters: int
    full_s: np.ndarray
    cluster_s: np.ndarray
    rolled_s: np.ndarray


class SingleSweeps:
    """Forward sweeps of a ring.

    Args:
        config: gives nodes, channels, partition, batch size, relaxation and precision.
    """

    def __init__(self, config: StudyConfig) -> None:
        self.config, self.cell = config, message_passing_cell(config)

    def time(self, population: int, repeats: int, block_seconds: float) -> SweepTimes:
        """Times the sweeps of S models side by side."""
        clusters = self.config.clusters
        few, many = clusters, 3 * clusters  # sweeps of the two passes
        calls = [
            self._forward(population, name, sweeps)
            for name in ("full", "round_robin")
            for sweeps in (few, many)
        ]
        calls.append(self._rolled(population))
        full_few, full_many, cluster_few, cluster_many, rolled = interleaved_times(
            calls, repeats=repeats, block_seconds=block_seconds
        )
        return SweepTimes(
            population=population,
            nodes=self.config.nodes,
            clusters=clusters,
            full_s=(full_many - full_few) / (many - few),
            cluster_s=(cluster_many - cluster_few) / (many - few),
            rolled_s=rolled,
        )

    def _made_up(self, *shape: int) -> Tensor:
        rng = np.random.default_rng(0)
        return self.config.training().tensor(rng.normal(size=shape))

    def _forward(self, population: int, name: str, sweeps: int) -> Callable[[], object]:
        """A forward pass of the trainer over one time step."""
        config, cell, batch = self.config, self.cell, self.config.batch_size
        initial = cell.initial_parameters(np.random.SeedSequence(0))
        parameters = config.training().tensor(initial).expand(population, -1).contiguous()
        gradient = RolloutGradient(
            cell,
            arm_schedule(config, name),
            (population, batch, 1),
            sweeps=sweeps,
            relaxation=config.relaxation,
            like=parameters,
        )
        states = self._made_up(population, batch, 2, cell.state_size)
        controls = self._made_up(population, batch, 1, cell.control_size)
        gradient(parameters, states, controls, [])  # lays out the weights
        return torch.no_grad()(lambda: gradient.forward([]))

    def _rolled(self, population: int) -> Callable[[], object]:
        config, batch = self.config, self.config.batch_size
        nodes, d = config.nodes, config.channels
        hidden = self._made_up(population, batch, nodes, d)
        drive = self._made_up(population, batch, nodes, d)
        weights = self._made_up(population, 3 * d, d)
        return lambda: rolled_sweep(hidden, drive, weights, config.relaxation)


def rolled_sweep(hidden: Tensor, drive: Tensor, weights: Tensor, relaxation: float) -> Tensor:
    """A sweep of a ring by rolls and one product; sigmoid for tanh, as the trainer has it.

    Args:
        hidden: h, (S, B, n, d).
        drive: z, (S, B, n, d).
        weights: (S, 3 d, d), of a node itself, its left and its right neighbour.
        relaxation: eta.

    Returns:
        h + eta (sigmoid(W [h; left; right] + z) - h), (S, B, n, d).
    """
    heard = torch.cat([hidden, hidden.roll(1, dims=2), hidden.roll(-1, dims=2)], dim=-1)
    proposal = torch.baddbmm(drive.flatten(1, 2), heard.flatten(1, 2), weights).sigmoid_()
    return torch.lerp(hidden, proposal.view_as(hidden), relaxation)
