"""The one sweep loop: relaxation of the hidden state, and the rollout over time steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from clusterdyn.model import BoundCell
from clusterdyn.schedules import Schedule, SweepView


@dataclass(frozen=True)
class Rollout:
    """A free-running prediction.

    Attributes:
        predictions: (S, B, T, p), standardised.
        activity: one entry an update, in order: the active clusters, bool, (C,) or (S, B, C).
    """

    predictions: Tensor
    activity: tuple[Tensor, ...]


def check_choice(schedule: Schedule, choice: Tensor) -> None:
    """Raises ValueError if a choice is not what ``Schedule.choose`` may return."""
    clusters = schedule.partition.clusters
    one_each = choice.dtype == torch.int64 and choice.ndim == 2
    sets = choice.dtype == torch.bool and choice.ndim in (1, 3) and choice.shape[-1] == clusters
    if not (one_each or sets):
        raise ValueError(
            f"schedule {schedule.name!r} must return its active clusters as bool of shape "
            f"({clusters},) or (S, B, {clusters}), or one cluster's number for each trajectory as "
            f"int64 of shape (S, B); got {choice.dtype} of shape {tuple(choice.shape)}"
        )


def active_clusters(schedule: Schedule, choice: Tensor) -> Tensor:
    """A choice as bool, (C,) or (S, B, C).

    Raises:
        ValueError: if it is not what ``Schedule.choose`` may return.
    """
    check_choice(schedule, choice)
    if choice.dtype == torch.bool:
        return choice
    clusters = schedule.partition.clusters
    if choice.numel() and not 0 <= int(choice.min()) <= int(choice.max()) < clusters:
        raise ValueError(
            f"schedule {schedule.name!r} must number its clusters 0 to {clusters - 1}; got "
            f"{int(choice.min())} to {int(choice.max())}"
        )
    return torch.nn.functional.one_hot(choice, clusters).bool()


def relax(hidden: Tensor, proposal: Tensor, active_nodes: Tensor, relaxation: float) -> Tensor:
    """One update, h + eta a (f - h).

    Args:
        hidden: h, (S, B, n, d).
        proposal: f(h, z), (S, B, n, d).
        active_nodes: a, bool, (n, 1) or (S, B, n, 1).
        relaxation: eta.
    """
    return torch.lerp(hidden, proposal, active_nodes.to(hidden) * relaxation)


def rollout(
    cell: BoundCell,
    first_state: Tensor,
    controls: Tensor,
    schedule: Schedule,
    generators: Sequence[np.random.Generator],
    *,
    sweeps: int,
    relaxation: float,
    targets: Tensor | None = None,
) -> Rollout:
    """Predicts T time steps from the first state alone; predictions are fed back.

    Args:
        cell: with the weights of S models.
        first_state: x_0, (S, B, p), standardised.
        controls: (S, B, T, q), standardised.
        schedule: chooses the active clusters.
        generators: one a model, for schedules that draw random numbers.
        sweeps: K, sweeps a time step.
        relaxation: eta in (0, 1].
        targets: x_1 to x_T, (S, B, T, p), for a schedule that needs the answer.

    Returns:
        Predictions with gradient, and the choices made.

    Raises:
        ValueError: if the schedule needs the answer and none is given, or its choice has another
            type, shape or range than ``Schedule.choose`` allows.
    """
    if schedule.needs_answer and targets is None:
        raise ValueError(f"schedule {schedule.name!r} needs the answer: give targets")
    labels = torch.tensor(schedule.partition.labels, device=first_state.device)
    choice_state = schedule.start(generators, first_state.shape[1])
    hidden = cell.start(first_state.shape[1])  # (S, B, n, d)
    state = first_state
    predictions: list[Tensor] = []
    activity: list[Tensor] = []
    for time_step in range(controls.shape[2]):
        drive = cell.drive(state, controls[:, :, time_step])
        for sweep in range(sweeps):
            for update in range(schedule.updates_per_sweep):
                proposal = cell.proposal(hidden, drive)
                with torch.no_grad():
                    seen = hidden.detach()
                    next_loss = None
                    if schedule.needs_answer:
                        target = targets[:, :, time_step]
                        next_loss = partial(losses_ahead, cell.readout, target, seen, labels)
                    view = SweepView(seen, proposal.detach(), time_step, sweep, update, next_loss)
                    choice, choice_state = schedule.choose(view, choice_state)
                    active = active_clusters(schedule, choice).to(labels.device)
                    active_nodes = active[..., labels].unsqueeze(-1)
                hidden = relax(hidden, proposal, active_nodes, relaxation)
                activity.append(active)
        state = cell.readout(hidden)
        predictions.append(state)
    return Rollout(torch.stack(predictions, dim=2), tuple(activity))


def losses_ahead(
    readout: Callable[[Tensor], Tensor],
    target: Tensor,
    hidden: Tensor,
    labels: Tensor,
    steps: Tensor,
) -> Tensor:
    """Squared error (S, B, C) of the read-out if one cluster's nodes alone take their steps.

    Args:
        readout: maps h (S, B, n, d) to a state (S, B, p).
        target: the true state, (S, B, p).
        hidden: h, (S, B, n, d).
        labels: (n,), the cluster of each node.
        steps: of h, (S, B, n, d).
    """
    losses = []
    for cluster in range(int(labels.max()) + 1):
        moved = hidden + steps * (labels == cluster).unsqueeze(-1)
        losses.append((readout(moved) - target).square().mean(dim=-1))
    return torch.stack(losses, dim=-1)


@dataclass(frozen=True)
class Ledger:
    """What a schedule did, a model a row; averages run over trajectories and time steps.

    Attributes:
        node_updates: (S,), a time step.
        cluster_updates: (S,), a time step.
        share: (S, C), share of the cluster updates that went to each cluster.
        largest_age: (S,), the most sweeps that any node of any trajectory has waited since its
            last update (or since the start), seen at the end of a sweep.
        entropy: (S,), entropy of ``share`` over log C; 1 if all clusters are updated alike, NaN
            if there is one cluster.
    """

    node_updates: np.ndarray
    cluster_updates: np.ndarray
    share: np.ndarray
    largest_age: np.ndarray
    entropy: np.ndarray


def ledger(
    activity: Sequence[Tensor], schedule: Schedule, *, population: int, batch: int, horizon: int
) -> Ledger:
    """Accounts for the choices of a rollout.

    Args:
        activity: one entry an update, bool, (C,) or (S, B, C), as in ``Rollout``.
        schedule: that made the choices.
        population: S.
        batch: B.
        horizon: T, in time steps.
    """
    clusters = schedule.partition.clusters
    taken = np.stack(
        [
            np.broadcast_to(active.cpu().numpy(), (population, batch, clusters))
            for active in activity
        ]
    )  # (updates, S, B, C)
    counts = taken.sum(axis=0).mean(axis=1)  # (S, C)
    share = counts / counts.sum(axis=1, keepdims=True)
    by_sweep = taken.reshape(-1, schedule.updates_per_sweep, *taken.shape[1:]).any(axis=1)
    age = np.zeros(taken.shape[1:], dtype=np.int64)
    largest_age = np.zeros(population, dtype=np.int64)
    for updated in by_sweep:
        age = np.where(updated, 0, age + 1)
        largest_age = np.maximum(largest_age, age.max(axis=(1, 2)))
    logarithms = np.log(share, out=np.zeros_like(share), where=share > 0)
    entropy = np.full(population, np.nan)
    if clusters > 1:
        entropy = -(share * logarithms).sum(axis=1) / np.log(clusters)
    return Ledger(
        node_updates=(counts * schedule.partition.sizes).sum(axis=1) / horizon,
        cluster_updates=counts.sum(axis=1) / horizon,
        share=share,
        largest_age=largest_age,
        entropy=entropy,
    )
