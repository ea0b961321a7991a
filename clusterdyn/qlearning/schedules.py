"""Schedules that follow a learned policy."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clusterdyn.graph import Graph, Partition
from clusterdyn.qlearning.learner import choose, values_at
from clusterdyn.qlearning.policy import Policy
from clusterdyn.qlearning.states import rank_table, state_numbers
from clusterdyn.schedules import Histogram

_AT_ONCE = 12  # choices that are drawn for together


@dataclass(frozen=True)
class Turn:
    """Where a rollout stands.

    Attributes:
        draws: uniform over [0, 1), (S, B, C + 1) for every choice.
        allowed: bool, (S, B, C): clusters that the next choice may fall on, or None for all.
    """

    draws: Iterator[Tensor]
    allowed: Tensor | None = None


def _drawn(generators: Sequence[np.random.Generator], *size: int) -> Iterator[Tensor]:
    """(S, *size), float64, from each model's own stream, time and again."""
    while True:
        block = np.stack([g.random((_AT_ONCE, *size)) for g in generators], axis=1)
        yield from torch.as_tensor(block).unbind(0)


class QLearned(Histogram):
    """One cluster a sweep: the one with the largest learned value at its own state.

    Args:
        partition: of the nodes.
        graph: over the nodes.
        policy: a table for each of the models that will run together, in their order.
        exploration: epsilon, the probability of a random choice; 0 at test.

    Raises:
        ValueError: if the policy was learned on another graph or partition, or in rounds where
            this schedule has none.
    """

    name = "q_learning"
    ordered = False

    def __init__(
        self, partition: Partition, graph: Graph, policy: Policy, exploration: float = 0.0
    ) -> None:
        super().__init__(partition, graph, policy.bins)
        self._check(policy, graph)
        self.policy, self.exploration = policy, exploration
        self.values = torch.tensor(policy.values)  # (S, C, X), float64, learned in place
        self.visits = torch.tensor(policy.visits, dtype=torch.float64)
        self.edges = torch.tensor(policy.edges)  # (S, m - 1)

    def _check(self, policy: Policy, graph: Graph) -> None:
        if (policy.graph, tuple(policy.labels)) != (graph.name, self.partition.labels):
            raise ValueError(
                f"a policy for the graph {policy.graph!r} and clusters {policy.labels.tolist()} "
                f"does not fit the graph {graph.name!r} and clusters "
                f"{list(self.partition.labels)}; learn one for them"
            )
        if policy.ordered != self.ordered:
            raise ValueError(f"{self.name} cannot follow a policy of {policy.name}")

    def _ranks(self, length: int) -> np.ndarray:
        return rank_table(int(self.partition.sizes.max()), self.bins)

    def cluster_states(self, hidden: Tensor) -> Tensor:
        """Number of each cluster's state, (S, B, C), int64, from h (S, B, n, d)."""
        disagreement = self.disagreement(hidden)
        edges = self.edges.to(disagreement).T[:, :, None, None]  # (m - 1, S, 1, 1)
        below = (disagreement < edges.contiguous()).to(disagreement)  # (m - 1, S, B, n)
        numbers = (below @ self.membership(disagreement)).long()  # (m - 1, S, B, C)
        return state_numbers(numbers, self._kept(self._ranks, numbers))

    def start(self, generators, batch):
        if len(generators) != len(self.values):
            raise ValueError(
                f"the policy of {self.name} holds {len(self.values)} models and "
                f"{len(generators)} are run; give Policy.rows the rows of these"
            )
        return Turn(_drawn(generators, batch, self.partition.clusters + 1))

    def pick(self, states: Tensor, turn: Turn) -> tuple[Tensor, Turn]:
        """The next cluster of each trajectory, (S, B), and where the rollout then stands.

        Args:
            states: of the clusters, (S, B, C).
            turn: what ``start`` or the last ``pick`` returned.
        """
        values = values_at(self.values.to(states.device), states)
        draws = next(turn.draws).to(values)
        cluster = choose(values, draws, exploration=self.exploration, allowed=turn.allowed)
        return cluster, self._next(turn, cluster)

    def _next(self, turn: Turn, cluster: Tensor) -> Turn:
        return turn

    def choose(self, view, state):
        cluster, state = self.pick(self.cluster_states(view.hidden), state)
        return self.one_hot(cluster), state

    def at_test(self) -> "QLearned":
        """The same tables without exploration: whatever is learned later shows in both."""
        greedy = copy.copy(self)
        greedy.exploration = 0.0
        return greedy

    def learned(self) -> Policy:
        """The policy as it stands."""
        return Policy(
            **{
                **vars(self.policy),
                "edges": self.edges.numpy().copy(),
                "values": self.values.numpy().copy(),
                "visits": self.visits.numpy().astype(np.int64),
            }
        )


class QOrdered(QLearned):
    """All clusters once a sweep: after each update, the best of those that have not moved yet.

    Args:
        partition, graph, policy, exploration: as in ``QLearned``.
    """

    name = "q_ordered"
    ordered = True

    def __init__(
        self, partition: Partition, graph: Graph, policy: Policy, exploration: float = 0.0
    ) -> None:
        super().__init__(partition, graph, policy, exploration)
        self.updates_per_sweep = partition.clusters

    def _next(self, turn, cluster):
        moved = self.one_hot(cluster)
        allowed = ~moved if turn.allowed is None else turn.allowed & ~moved
        # Every trajectory is at the same update of the sweep: all rounds end together.
        return Turn(turn.draws, allowed if allowed.any() else None)


def learned_schedule(
    partition: Partition, graph: Graph, policy: Policy, exploration: float = 0.0
) -> QLearned:
    """The schedule that follows a policy: ``QOrdered`` for one that orders, else ``QLearned``."""
    kind = QOrdered if policy.ordered else QLearned
    return kind(partition, graph, policy, exploration)
