"""Schedules that look at the hidden state and choose for each trajectory."""

import numpy as np
import torch
from torch import Tensor

from clusterdyn.graph import DENSE_CHANNELS, Graph, NeighbourSum, Partition
from clusterdyn.schedules.base import Schedule, SweepView

TIES = ("lowest", "random", "oldest")
NORMS = ("l2", "max", "mean")


class Histogram(Schedule):
    """The cluster with the most nodes in the highest bin of disagreement, for each trajectory.

    A node's disagreement is ||h_i - mean of its neighbours||_2. Its histogram has ``bins`` equal
    bins over [0, the trajectory's largest]. At h = 0 nothing disagrees and every node is in the
    one bin there is, so that clusters tie.

    With its defaults this is the published trial's idea, greedy and deterministic.

    Args:
        partition: of the nodes.
        graph: over the nodes.
        bins: m.
        ties: who wins a tie: "lowest" index, "random" (drawn for each trajectory), or "oldest",
            the cluster whose last update is longest ago (then the lowest index).
        share: "trajectory", or "batch": counts are averaged over the trajectories that run
            together, and all get the same cluster.
    """

    name = "histogram"

    def __init__(
        self,
        partition: Partition,
        graph: Graph,
        bins: int,
        ties: str = "lowest",
        share: str = "trajectory",
    ) -> None:
        super().__init__(partition)
        self.bins, self.ties, self.share = bins, ties, share
        self.reads_batch = share == "batch"
        self._neighbour_mean = graph.neighbour_mean()

    def _deviation_of(self, channels: int) -> np.ndarray:
        """(n d, n d): maps a hidden state to each node's minus the mean of its neighbours'."""
        deviation = np.eye(self.partition.nodes) - self._neighbour_mean.toarray()
        return np.kron(deviation.T, np.eye(channels))

    def disagreement(self, hidden: Tensor) -> Tensor:
        """||h_i - mean of its neighbours||_2 for each node, (S, B, n), from h (S, B, n, d)."""
        return self._squared_disagreement(hidden).sqrt().view(hidden.shape[:-1])

    def _squared_disagreement(self, hidden: Tensor) -> Tensor:
        """As rows (S B, n)."""
        if hidden.shape[-2:].numel() > DENSE_CHANNELS:
            deviation = hidden - self._neighbour_mean_of(hidden)
        else:
            rows = hidden.flatten(0, 1).flatten(1)  # (S B, n d)
            deviation = torch.mm(rows, self._kept(self._deviation_of, hidden)).view(hidden.shape)
        return self.node_sums(deviation.square_())

    def _neighbour_mean_of(self, hidden: Tensor) -> Tensor:
        key = "mean of neighbours", hidden.dtype, hidden.device
        if key not in self._operators:
            self._operators[key] = NeighbourSum(self._neighbour_mean, hidden)
        return self._operators[key](hidden)

    def count(self, hidden: Tensor) -> Tensor:
        """Nodes of each cluster in the highest bin, (S, B, C) or (S, 1, C), from h."""
        squared = self._squared_disagreement(hidden)  # a bin's edge may be squared as well
        edge = squared.amax(dim=-1, keepdim=True).mul_(((self.bins - 1) / self.bins) ** 2)
        in_highest_bin = squared.ge_(edge)  # 0 or 1
        if self.share == "batch":  # summed first: whole numbers, so that equal counts tie
            total = in_highest_bin.view(hidden.shape[:-1]).sum(dim=1, keepdim=True)
            return total @ self.membership(total) / hidden.shape[1]
        count = torch.mm(in_highest_bin, self.membership(in_highest_bin))
        return count.view(*hidden.shape[:2], -1)

    def start(self, generators, batch):
        return _Waiting(generators)

    def choose(self, view, state):
        count = self.count(view.hidden)
        # argmax returns the first of equal maxima.
        if self.ties == "random":
            best = count == count.amax(dim=-1, keepdim=True)
            count = best * (1 + state.draw(count))
        elif self.ties == "oldest":
            best = count == count.amax(dim=-1, keepdim=True)
            count = best * (1 + state.age(count))
        cluster = count.argmax(dim=-1)
        if self.ties == "oldest":
            state.update(self.one_hot(cluster))
        return cluster.expand(-1, view.hidden.shape[1]), state


class _Waiting:
    """Sweeps that each cluster has waited, and the draws that break ties; new in every rollout."""

    def __init__(self, generators) -> None:
        self.generators = generators
        self._age: Tensor | None = None

    def age(self, like: Tensor) -> Tensor:
        """(S, B, C): sweeps since the last update, or since the start."""
        if self._age is None:
            self._age = torch.zeros_like(like)
        return self._age

    def update(self, active: Tensor) -> None:
        """Notes what moved in a sweep, bool, (S, B, C)."""
        self._age = (self._age + 1).masked_fill_(active, 0)

    def draw(self, like: Tensor) -> Tensor:
        """(S, B, C), uniform over [0, 1), from each model's own stream."""
        draws = np.stack([g.random(like.shape[1:]) for g in self.generators])
        return torch.as_tensor(draws).to(like)


class HistogramFair(Histogram):
    """``histogram`` with a bonus for waiting, so that no cluster starves.

    A cluster's count is raised by ``age_weight`` nodes for each sweep since its last update: one
    that waits is passed over for another of k nodes at most k / age_weight + 1 times (rounded
    down).

    Args:
        partition, graph, bins, share: as in ``Histogram``.
        age_weight: in nodes a sweep.
    """

    name = "histogram_fair"

    def __init__(
        self,
        partition: Partition,
        graph: Graph,
        bins: int,
        age_weight: float = 1.0,
        share: str = "trajectory",
    ) -> None:
        super().__init__(partition, graph, bins, share=share)
        self.age_weight = age_weight

    def choose(self, view, state):
        count = self.count(view.hidden)
        score = count + self.age_weight * state.age(count)
        cluster = score.argmax(dim=-1)
        state.update(self.one_hot(cluster))
        return cluster.expand(-1, view.hidden.shape[1]), state


class HistogramOrdered(Histogram):
    """All clusters once a sweep, in the order that the histogram gives as the sweep goes on.

    This is what cluster-scheduled decoding does: after each update the best of the clusters that
    have not moved in this sweep is next (Habib, Beemer, Kliewer, arXiv 2112.13934, algorithm 1).
    """

    name = "histogram_ordered"

    def __init__(self, partition: Partition, graph: Graph, bins: int) -> None:
        super().__init__(partition, graph, bins)
        self.updates_per_sweep = partition.clusters

    def start(self, generators, batch):
        return None

    def choose(self, view, state):
        count = self.count(view.hidden)
        moved = torch.zeros_like(count, dtype=torch.bool) if view.update == 0 else state
        cluster = count.masked_fill_(moved, -1).argmax(dim=-1)
        return cluster, moved | self.one_hot(cluster)


class Residual(Schedule):
    """The cluster whose nodes are farthest from their proposal: the largest ||f(h) - h||.

    Gauss-Southwell's rule with block norms (Nutini, Laradji, Schmidt, arXiv 1712.08859); residual
    belief propagation (Elidan, McGraw, Koller, arXiv 1206.6837) takes the largest node.

    Args:
        partition: of the nodes.
        norm: of a cluster, from its nodes' norms: "l2", their largest ("max") or their "mean".
    """

    name = "residual"

    def __init__(self, partition: Partition, norm: str = "l2") -> None:
        super().__init__(partition)
        self.norm = norm

    def cluster_residual(self, view: SweepView) -> Tensor:
        """(S, B, C); for "l2" its square."""
        squared = self.node_sums((view.proposal - view.hidden).square_())  # (S B, n)
        size = view.hidden.shape[:2]
        if self.norm == "max":
            members = [self.partition.members(c) for c in range(self.partition.clusters)]
            largest = [squared[..., nodes].amax(dim=-1) for nodes in members]
            return torch.stack(largest, dim=-1).view(*size, -1)
        membership = self.membership(squared)
        if self.norm == "mean":
            return (squared.sqrt_() @ (membership / membership.sum(dim=0))).view(*size, -1)
        return torch.mm(squared, membership).view(*size, -1)

    def choose(self, view, state):
        return self.cluster_residual(view).argmax(dim=-1), state


class Oracle(Schedule):
    """The cluster whose update lowers the next read-out's error most: greedy lookahead.

    It needs the answer, so it is a yardstick and not a method; and it is no upper bound where
    model and schedule are trained together.

    Args:
        partition: of the nodes.
        relaxation: eta of the update that is tried.
    """

    name = "oracle"
    needs_answer = True

    def __init__(self, partition: Partition, relaxation: float) -> None:
        super().__init__(partition)
        self.relaxation = relaxation

    def choose(self, view, state):
        losses = view.next_loss((view.proposal - view.hidden) * self.relaxation)  # (S, B, C)
        return losses.argmin(dim=-1), state
