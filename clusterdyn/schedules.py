"""Update schedules: which clusters of nodes each update of a sweep may change.

A sweep is made of one or more *updates*. Before each update the schedule sees the present hidden
state and what the cell proposes for it, and names the active clusters of its partition. All
active nodes then move at once, h <- h + eta (f(h, z) - h); the others hold.

A schedule sees nothing else: no later time step, no target. Choices carry no gradient.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clusterdyn.graph import Graph, Partition, one_block, singletons


@dataclass(frozen=True)
class SweepView:
    """What a schedule sees before an update.

    Attributes:
        hidden: h, (S, B, n, d), without gradient; must not be changed.
        proposal: f(h, z), (S, B, n, d), without gradient; must not be changed.
        time_step: t, from 0.
        sweep: number of the sweep in this time step, from 0.
        update: number of the update in this sweep, from 0.
    """

    hidden: Tensor
    proposal: Tensor
    time_step: int
    sweep: int
    update: int


class Schedule:
    """Base of all schedules. A subclass overrides ``choose``, and ``start`` if it has a state.

    Attributes:
        name: what reports call it.
        partition: of the nodes; choices are clusters of it.
        updates_per_sweep: how often ``choose`` is asked in a sweep.
    """

    name = "schedule"
    updates_per_sweep = 1

    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    def start(self, generators: Sequence[np.random.Generator], batch: int) -> Any:
        """The state before the first update of a rollout.

        Args:
            generators: one a model, seeded from the model's seed alone. A schedule that draws
                random numbers draws them here or keeps the generators in its state.
            batch: B, trajectories a model.

        Returns:
            Anything; it is handed to the first ``choose``.
        """
        return None

    def choose(self, view: SweepView, state: Any) -> tuple[Tensor, Any]:
        """Names the active clusters.

        Args:
            view: the present.
            state: what ``start`` or the last ``choose`` returned.

        Returns:
            The active clusters, bool, (C,) if the same for all models and trajectories and
            (S, B, C) otherwise; and the state after this update.
        """
        raise NotImplementedError

    def one_hot(self, cluster: Tensor) -> Tensor:
        """Clusters (...) as active sets (..., C), bool."""
        return torch.nn.functional.one_hot(cluster, self.partition.clusters).bool()


class StaticSchedule(Schedule):
    """A schedule that is written down beforehand; it repeats over the updates of a rollout.

    Args:
        partition: of the nodes.
        table: bool, (period, C): the active clusters of each update, in order.
    """

    def __init__(self, partition: Partition, table: Tensor) -> None:
        super().__init__(partition)
        self.table = table

    def start(self, generators, batch):
        return 0

    def choose(self, view, state):
        return self.table[state % len(self.table)].to(view.hidden.device), state + 1


class Full(StaticSchedule):
    """All nodes at once (Jacobi): the baseline."""

    name = "full"

    def __init__(self, partition: Partition) -> None:
        super().__init__(one_block(partition.nodes), torch.ones(1, 1, dtype=torch.bool))


class RoundRobin(StaticSchedule):
    """One cluster a sweep, in turn; the turn carries over time steps."""

    name = "round_robin"

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition, torch.eye(partition.clusters, dtype=torch.bool))


class ClusterSequential(RoundRobin):
    """All clusters in each sweep, one after another (block Gauss-Seidel)."""

    name = "cluster_sequential"

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition)
        self.updates_per_sweep = partition.clusters


class Sequential(ClusterSequential):
    """All nodes in each sweep, one after another (Gauss-Seidel)."""

    name = "sequential"

    def __init__(self, partition: Partition) -> None:
        super().__init__(singletons(partition.nodes))


class RandomCluster(Schedule):
    """One cluster a sweep, drawn uniformly for each trajectory from its model's own stream."""

    name = "random"
    draws_at_once = 64

    def start(self, generators, batch):
        return generators, batch, []

    def choose(self, view, state):
        generators, batch, drawn = state
        if not drawn:
            size = (self.draws_at_once, batch)
            draws = np.stack([g.integers(self.partition.clusters, size=size) for g in generators])
            # (S, draws, B) to a list of (S, B)
            drawn = list(torch.as_tensor(draws, device=view.hidden.device).unbind(1))
        return self.one_hot(drawn[0]), (generators, batch, drawn[1:])


class Histogram(Schedule):
    """The cluster with the most nodes in the highest bin of disagreement, for each trajectory.

    A node's disagreement is ||h_i - mean of its neighbours||_2. Its histogram has ``bins`` equal
    bins over [0, the trajectory's largest]. Ties go to the cluster of lowest index; at h = 0,
    where nothing disagrees, every node is in the one bin there is, so the first cluster of
    largest size is chosen.

    This is the published trial's idea, greedy and deterministic.
    """

    name = "histogram"

    def __init__(self, partition: Partition, graph: Graph, bins: int) -> None:
        super().__init__(partition)
        self.bins = bins
        self._deviation = torch.as_tensor(np.eye(graph.nodes) - graph.neighbour_mean())  # (n, n)
        membership = np.eye(partition.clusters)[list(partition.labels)]
        self._membership = torch.as_tensor(membership)  # (n, C)

    def disagreement(self, hidden: Tensor) -> Tensor:
        """||h_i - mean of its neighbours||_2 for each node, (S, B, n), from h (S, B, n, d)."""
        deviation = hidden.mT @ self._deviation.mT.to(hidden)  # (S, B, d, n)
        return deviation.square().sum(dim=-2).sqrt()

    def choose(self, view, state):
        disagreement = self.disagreement(view.hidden)
        edge = disagreement.amax(dim=-1, keepdim=True) * ((self.bins - 1) / self.bins)
        in_highest_bin = (disagreement >= edge).to(disagreement)  # (S, B, n)
        count = in_highest_bin @ self._membership.to(disagreement)  # (S, B, C)
        # argmax returns the first of equal maxima.
        return self.one_hot(count.argmax(dim=-1)), state


_PLAIN: dict[str, Callable[[Partition], Schedule]] = {
    schedule.name: schedule
    for schedule in (Full, Sequential, ClusterSequential, RoundRobin, RandomCluster)
}
SCHEDULES = (*_PLAIN, Histogram.name)


def make_schedule(name: str, graph: Graph, partition: Partition, *, bins: int = 4) -> Schedule:
    """Builds a schedule by name.

    Args:
        name: one of ``SCHEDULES``.
        graph: over the nodes.
        partition: of the nodes.
        bins: m, bins of the ``histogram`` schedule.

    Raises:
        ValueError: for an unknown name, or a partition of another number of nodes.
    """
    if partition.nodes != graph.nodes:
        raise ValueError(
            f"the partition covers {partition.nodes} nodes and the graph has {graph.nodes}; "
            "they must agree"
        )
    if name == Histogram.name:
        return Histogram(partition, graph, bins)
    if name not in _PLAIN:
        raise ValueError(f"schedule must be one of {', '.join(SCHEDULES)}; got {name!r}")
    return _PLAIN[name](partition)
