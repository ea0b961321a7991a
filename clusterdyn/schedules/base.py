"""What a schedule is and what it sees.

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

from clusterdyn.graph import DENSE_CHANNELS, Partition

NextLoss = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class SweepView:
    """What a schedule sees before an update.

    Attributes:
        hidden: h, (S, B, n, d), without gradient; must not be changed.
        proposal: f(h, z), (S, B, n, d), without gradient; must not be changed.
        time_step: t, from 0.
        sweep: number of the sweep in this time step, from 0.
        update: number of the update in this sweep, from 0.
        next_loss: for a schedule with ``needs_answer`` alone: maps steps of h, (S, B, n, d), to
            the squared error (S, B, C) that the read-out would have at the end of this time step
            if the nodes of one cluster alone took theirs.
    """

    hidden: Tensor
    proposal: Tensor
    time_step: int
    sweep: int
    update: int
    next_loss: NextLoss | None = None


class Schedule:
    """Base of all schedules. A subclass overrides ``choose``, and ``start`` if it has a state.

    One that learns while its models are trained also overrides ``after_epoch`` and ``at_test``.

    Attributes:
        name: what reports call it.
        partition: of the nodes; choices are clusters of it.
        updates_per_sweep: how often ``choose`` is asked in a sweep.
        needs_answer: whether it reads the loss that it is scored by: a yardstick, no method.
        reads_batch: whether it looks at all trajectories of a model that run together.
    """

    name = "schedule"
    updates_per_sweep = 1
    needs_answer = False
    reads_batch = False

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self._operators: dict[Any, Any] = {}

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
            The active clusters: bool, (C,) if they are the same for all models and trajectories
            and (S, B, C) otherwise; or int64, (S, B), if each trajectory has one, its number. And
            the state after this update.
        """
        raise NotImplementedError

    def after_epoch(
        self, epoch: int, cell: Any, parameters: Tensor, states: Tensor, controls: Tensor
    ) -> None:
        """What a schedule that learns beside its models does after each epoch; nothing here.

        Args:
            epoch: that has just ended, from 0.
            cell: of the models.
            parameters: (S, P), as they are now; must not be changed.
            states: of the training split, (S, N, T + 1, p), standardised.
            controls: (S, N, T, q), standardised.
        """

    def at_test(self) -> "Schedule":
        """The schedule that models trained under this one are validated and tested with."""
        return self

    def one_hot(self, cluster: Tensor) -> Tensor:
        """Clusters (...) as active sets (..., C), bool."""
        return cluster.unsqueeze(-1) == self._kept(self._cluster_numbers, cluster)

    def membership(self, like: Tensor) -> Tensor:
        """(n, C): 1 where a node belongs to a cluster, in the precision and place of ``like``."""
        return self._kept(self._members, like)

    def _kept(self, make: Callable[[int], np.ndarray], like: Tensor) -> Tensor:
        """A constant in the precision and place of ``like``, made once from its last length."""
        length = like.shape[-1] if like.ndim else 1
        key = (make.__name__, like.dtype, like.device, length)
        if key not in self._operators:
            self._operators[key] = torch.as_tensor(make(length)).to(like)
        return self._operators[key]

    def _cluster_numbers(self, length: int) -> np.ndarray:
        return np.arange(self.partition.clusters)

    def _members(self, length: int) -> np.ndarray:
        return np.eye(self.partition.clusters)[list(self.partition.labels)]

    def node_sums(self, values: Tensor) -> Tensor:
        """Sums of (S, B, n, d) over the channels, as rows (S B, n)."""
        if values.shape[-2:].numel() > DENSE_CHANNELS:
            return values.sum(dim=-1).flatten(0, 1)
        return torch.mm(values.flatten(0, 1).flatten(1), self._kept(self._channel_sums, values))

    def _channel_sums(self, channels: int) -> np.ndarray:
        """(n d, n): sums what belongs to each node."""
        return np.repeat(np.eye(self.partition.nodes), channels, axis=0)


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
