"""A rollout laid out beforehand: where nodes stand, who moves when, and views of all buffers."""

from collections import Counter
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from clusterdyn.graph import is_ring
from clusterdyn.model import MessagePassingCell
from clusterdyn.schedules import Schedule, StaticSchedule
from clusterdyn.spans import (
    Actions,
    Buffers,
    DenseBlock,
    DenseWhole,
    Gathered,
    Span,
    Tiles,
    Update,
)
from clusterdyn.sweeps import check_choice

# Channels from which a dense matrix of all is slower than tiles of a ring, or than gathering.
TILES_FROM, GATHERED_FROM = 128, 512


@dataclass(frozen=True)
class Step:
    """An update and who moves in it.

    Attributes:
        update: its views.
        active: the clusters that it moves, bool (C,), or None if the schedule chooses as it goes.
        mask: which channels it moves, (n d,), as ``RolloutPlan.mask`` gives it; None if all of
            the span, or if the schedule chooses as it goes.
        chosen: where the mask of a schedule that chooses as it goes is kept, (S, B, n d): fresh
            memory at every update would cost more than the mask itself.
        sweep, number: of the sweep in its time step, and of the update in that sweep.
    """

    update: Update
    active: Tensor | None
    mask: Tensor | None
    chosen: Tensor | None
    sweep: int
    number: int


@dataclass(frozen=True)
class TimeStep:
    """One time step of a rollout, as views.

    Attributes:
        steps: its updates.
        inputs: x, control and 1, (S, B, p + q + 1).
        prediction: where the next x stands, (S, B, p).
        end: where h stands at its end, (S, B, n d).
        error: dL/d(next x), (S, B, p).
        total: sum of its c_q, (S, B, n d).
        slopes: c_q of its updates, (S, updates, B, n d), where all move in one span; else None.
        parts: where they do not, adds c_q to the parts of ``total``.
    """

    steps: tuple[Step, ...]
    inputs: Tensor
    prediction: Tensor
    end: Tensor
    error: Tensor
    total: Tensor
    slopes: Tensor | None
    parts: Actions


def _kind_of_span(cell: MessagePassingCell) -> type[Span]:
    if cell.hidden_size >= TILES_FROM and is_ring(cell.graph):
        return Tiles
    return Gathered if cell.hidden_size >= GATHERED_FROM else DenseWhole


class RolloutPlan:
    """All buffers of a rollout and its gradient, and its updates as views of them.

    Args:
        cell, schedule, shape, sweeps, relaxation, like: as of ``RolloutGradient``.

    Attributes:
        buffers: u, z and c.
        inputs: x, control and a 1, which carries the bias, (S, T + 1, B, p + q + 1).
        errors: dL/dx, (S, T, B, p).
        ends: h at the end of each time step, (S, T, B, n d).
        totals: sums of each time step's c_q, (S, T, B, n d).
        spans: by the start and stop of their channels.
        time_steps: (T,).
        gates_after: where u stands after each update.
        in_order: whether nodes stand in their own order.
        channels: (n d,), the channels as they stand; ``places`` is the inverse.
        carried: what c is multiplied by on its way back: eta, so that w needs no pass of its own
            where all of a span moves; or 1 if the schedule chooses as it goes.
        membership: (C, n d), eta over ``carried`` where a channel belongs to a cluster.
        heard: (1 + R, n), sums of the relations' rows, self first.
    """

    def __init__(
        self,
        cell: MessagePassingCell,
        schedule: Schedule,
        shape: tuple[int, int, int],
        *,
        sweeps: int,
        relaxation: float,
        like: Tensor,
    ) -> None:
        population, batch, horizon = shape
        self.cell, self.schedule = cell, schedule
        width, p = cell.hidden_size, cell.state_size
        self.kind = _kind_of_span(cell)
        static = type(schedule).choose is StaticSchedule.choose
        self.carried = relaxation if static else 1.0
        order = np.arange(cell.graph.nodes)
        if static and self.kind is DenseWhole:
            order = schedule.partition.by_cluster
        self._lay_out(like, order)
        self.membership *= relaxation / self.carried
        gate = like.new_empty(population, batch, width)
        if self.kind is Tiles:
            gate = Tiles.padded_gate(like, batch, width, cell.channels)
        self.buffers = Buffers(gate, *like.new_empty(2, population, batch, width))
        # A prediction is the state of the next time step's inputs.
        self.inputs = like.new_ones(population, horizon + 1, batch, p + cell.control_size + 1)
        self.errors = like.new_empty(population, horizon, batch, p)
        self.ends = like.new_empty(population, horizon, batch, width)
        self.totals = like.new_empty(population, horizon, batch, width)
        self._plan_updates(sweeps, horizon, like, static)

    def _lay_out(self, like: Tensor, order: np.ndarray) -> None:
        """Where each channel and cluster stands, nodes in a given order."""
        d, device, graph = self.cell.channels, like.device, self.cell.graph
        channels = (order[:, None] * d + np.arange(d)).ravel()
        self.in_order = bool((order == np.arange(len(order))).all())
        self.order = channels
        self.channels = torch.as_tensor(channels, device=device)  # (n d,)
        self.places = torch.as_tensor(np.argsort(channels), device=device)  # the inverse
        labels = np.array(self.schedule.partition.labels)[order].repeat(d)
        membership = np.eye(self.schedule.partition.clusters)[:, labels]
        self.membership = torch.as_tensor(membership).to(like)  # (C, n d)
        heard = np.stack([np.ones(graph.nodes), *(r.sum(axis=1) for r in graph.relations)])
        self.heard = torch.as_tensor(heard).to(like)  # (1 + R, n), sums of the relations' rows

    def _plan_updates(self, sweeps: int, horizon: int, like: Tensor, static: bool) -> None:
        """Plans every time step: the spans of its updates, and views of all buffers."""
        graph, d, width = self.cell.graph, self.cell.channels, self.cell.hidden_size
        per_sweep = self.schedule.updates_per_sweep
        table: list[tuple[Tensor | None, slice, Tensor | None]] = [(None, slice(0, width), None)]
        if static:
            table = [(active, *self._planned(active)) for active in self.schedule.table]
        plan = [table[step % len(table)] for step in range(horizon * sweeps * per_sweep)]
        counts = Counter((own.start, own.stop) for _, own, _ in plan)
        self.spans: dict[tuple[int, int], Span] = {}
        for (start, stop), count in counts.items():
            sizes = {"batch": self.ends.shape[2], "count": count, "like": like}
            own = slice(start, stop)
            if self.kind is Tiles:
                self.spans[start, stop] = Tiles(graph, d, own, **sizes)
            elif self.kind is Gathered:
                self.spans[start, stop] = Gathered(graph, d, **sizes)
            elif stop - start == width:
                self.spans[start, stop] = DenseWhole(graph, self.order, d, **sizes)
            else:
                self.spans[start, stop] = DenseBlock(graph, self.order, d, own, **sizes)
        placed: Counter[tuple[int, int]] = Counter()
        steps: list[Step] = []
        for place, (active, own, mask) in enumerate(plan):
            key = own.start, own.stop
            update = self.spans[key].update(placed[key], self.buffers)
            placed[key] += 1
            sweep, number = divmod(place % (sweeps * per_sweep), per_sweep)
            chosen = torch.empty_like(self.buffers.drive) if active is None else None
            steps.append(Step(update, active, mask, chosen, sweep, number))
        # Where u stands before the next update; a dense product of all channels hears it in place.
        self.gates_after = [step.update.gate for step in steps[1:]] + [self.buffers.gate]
        size = sweeps * per_sweep
        self.time_steps = [
            self._time_step(t, tuple(steps[t * size : (t + 1) * size]), plan)
            for t in range(horizon)
        ]

    def _time_step(self, t: int, steps: tuple[Step, ...], plan: list) -> TimeStep:
        p, total, slopes, parts = self.cell.state_size, self.totals[:, t], None, ()
        span = self.spans.get((0, self.cell.hidden_size))
        if span is not None and len(self.spans) == 1:
            slopes = span.slopes[:, t * len(steps) : (t + 1) * len(steps)]
            slopes = slopes.flatten(2).unflatten(2, total.shape[1:])
        else:
            owns = [own for _, own, _ in plan[t * len(steps) : (t + 1) * len(steps)]]
            parts = tuple(
                partial(total[:, :, own].add_, step.update.slope)
                for own, step in zip(owns, steps, strict=True)
            )
        return TimeStep(
            steps=steps,
            inputs=self.inputs[:, t],
            prediction=self.inputs[:, t + 1, :, :p],
            end=self.ends[:, t],
            error=self.errors[:, t],
            total=total,
            slopes=slopes,
            parts=parts,
        )

    def _planned(self, active: Tensor) -> tuple[slice, Tensor | None]:
        """The range of the active clusters' channels; all channels and a mask if there is none."""
        mask = self.mask(active)
        moved = np.flatnonzero(mask.cpu().numpy())
        ranged = moved.size and moved[-1] - moved[0] + 1 == moved.size
        if moved.size == len(mask) or (ranged and self.kind is not Gathered):
            return slice(int(moved[0]), int(moved[-1]) + 1), None
        return slice(0, self.cell.hidden_size), mask

    def mask(self, choice: Tensor, out: Tensor | None = None) -> Tensor:
        """How far each hidden channel moves in a choice: (n d,) or (S, B, n d).

        In units of ``carried``: w for a schedule that chooses as it goes, and else 1 or 0.

        Args:
            choice: as ``Schedule.choose`` returns it.
            out: where a mask (S, B, n d) is put; the one of all trajectories is new.
        """
        check_choice(self.schedule, choice)
        choice = choice.to(self.membership.device)
        if choice.ndim == 1:
            return choice.to(self.membership) @ self.membership
        if choice.dtype == torch.int64:
            torch.index_select(self.membership, 0, choice.flatten(), out=out.flatten(0, 1))
            return out
        return torch.matmul(choice.to(self.membership), self.membership, out=out)
