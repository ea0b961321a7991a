"""The rollout's loss and its gradient by hand: what training spends its time on.

One update, with p = h M + z, f = tanh(p) and the weight w = eta a of each node,

    h' = h + w (f - h),

has the adjoint (g' is the cotangent of h', g that of h, and so on)

    g_p = w g' (1 - f^2),      g = (1 - w) g' + g_p M^T,
    g_z += g_p,                g_M += h^T g_p.

Choices carry no gradient. Kept is not h but u = (1 + h) / 2, for tanh(p) = 2 sigmoid(2 p) - 1 and
sigmoid is several times as fast. In u, with q = 2 p and r = sigmoid(q),

    q = 4 u M + 2 (z - 1 M),   u' = u + w (r - u),
    c_q = w c' r (1 - r),      c = (1 - w) c' + 4 c_q M^T,       c = dL/du,
    g_z += 2 c_q,              g_M += 4 u^T c_q - 2 1^T c_q,

in which no pass over the activations is spent on the change of variable. Going back, eta c is
carried instead of c, so that w needs no pass of its own where every node of an update is active.
All u and c_q are kept, so that each weight gradient is one matrix product a model.

Nodes stand in the order of their clusters. Where a schedule is written down beforehand, an update
then touches one range of neighbouring channels; ``clusterdyn.spans`` holds the products of such a
range, dense on small graphs and in tiles on large rings.
``clusterdyn.sweeps.rollout`` under autograd is the tested reference.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from clusterdyn.graph import is_ring
from clusterdyn.model import MessagePassingCell
from clusterdyn.schedules import Schedule, StaticSchedule, SweepView
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
from clusterdyn.sweeps import check_active

# Channels from which a dense matrix of all is slower than tiles of a ring, or than gathering.
TILES_FROM, GATHERED_FROM = 128, 512
sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


@dataclass(frozen=True)
class _Step:
    """An update and who moves in it.

    Attributes:
        update: its views.
        active: the clusters that it moves, bool (C,), or None if the schedule chooses as it goes.
        mask: 1 for each channel that it moves, (n d,), or None if all of the span or if the
            schedule chooses as it goes.
        sweep, number: of the sweep in its time step, and of the update in that sweep.
    """

    update: Update
    active: Tensor | None
    mask: Tensor | None
    sweep: int
    number: int


@dataclass(frozen=True)
class _TimeStep:
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

    steps: tuple[_Step, ...]
    inputs: Tensor
    prediction: Tensor
    end: Tensor
    error: Tensor
    total: Tensor
    slopes: Tensor | None
    parts: Actions


class _GateView(SweepView):
    """The view of a schedule, whose h and f(h, z) are made from u and r when it asks for them."""

    def __init__(self, owner: "RolloutGradient", step: _Step, t: int) -> None:
        self.__dict__.update(owner=owner, gate=step.update.gate, proposed=step.update.proposal)
        self.__dict__.update(time_step=t, sweep=step.sweep, update=step.number, next_loss=None)
        if owner.schedule.needs_answer:
            self.__dict__["next_loss"] = partial(owner.next_loss, step.update.gate, t)

    @cached_property
    def hidden(self) -> Tensor:
        return self.owner.shown(0, self.gate)

    @cached_property
    def proposal(self) -> Tensor:
        return self.owner.shown(1, self.proposed)


def _kind_of_span(cell: MessagePassingCell) -> type[Span]:
    if cell.hidden_size >= TILES_FROM and is_ring(cell.graph):
        return Tiles
    return Gathered if cell.hidden_size >= GATHERED_FROM else DenseWhole


class RolloutGradient:
    """Loss and gradient of a population on minibatches of one shape; buffers are made once.

    Args:
        cell: the cell.
        schedule: chooses the active clusters.
        shape: (S, B, T).
        sweeps: K, a time step.
        relaxation: eta in (0, 1].
        like: a tensor (S, ...) of the precision and device to work in.
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
        self.cell, self.schedule, self.relaxation = cell, schedule, relaxation
        width, p = cell.hidden_size, cell.state_size
        self.kind = _kind_of_span(cell)
        static = type(schedule).choose is StaticSchedule.choose
        order = np.arange(cell.graph.nodes)
        if static and self.kind is DenseWhole:
            order = schedule.partition.by_cluster
        self._lay_out(like, order)
        gate = like.new_empty(population, batch, width)
        if self.kind is Tiles:
            gate = Tiles.padded_gate(like, batch, width, cell.channels)
        self.buffers = Buffers(gate, *like.new_empty(2, population, batch, width))
        # State, control and a 1, which carries the bias; a prediction is the next one's state.
        self.inputs = like.new_ones(population, horizon + 1, batch, p + cell.control_size + 1)
        self.errors = like.new_empty(population, horizon, batch, p)
        self.ends = like.new_empty(population, horizon, batch, width)  # h at each time step's end
        self.totals = like.new_empty(population, horizon, batch, width)  # sums of c_q
        self._plan_updates(sweeps, horizon, like, static)
        self.masked = torch.empty_like(self.buffers.drive)
        self.views = like.new_empty(2, population, batch, width)  # h and f(h, z) for a schedule
        self.states = like.new_empty(population, batch, p)  # predicted
        # Numbers as tensors: PyTorch makes one of a Python number at every call.
        self.minus_one, self.factor = like.new_tensor(-1.0), like.new_tensor(relaxation)
        self.decay = 1 - self.factor

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
        steps: list[_Step] = []
        for place, (active, own, mask) in enumerate(plan):
            key = own.start, own.stop
            update = self.spans[key].update(placed[key], self.buffers)
            placed[key] += 1
            sweep, number = divmod(place % (sweeps * per_sweep), per_sweep)
            steps.append(_Step(update, active, mask, sweep, number))
        # Where u stands before the next update; a dense product of all channels hears it in place.
        self.gates_after = [step.update.gate for step in steps[1:]] + [self.buffers.gate]
        size = sweeps * per_sweep
        self.time_steps = [
            self._time_step(t, tuple(steps[t * size : (t + 1) * size]), plan)
            for t in range(horizon)
        ]

    def _time_step(self, t: int, steps: tuple[_Step, ...], plan: list) -> _TimeStep:
        p, total, slopes, parts = self.cell.state_size, self.totals[:, t], None, ()
        if len(self.spans) == 1:
            (span,) = self.spans.values()
            slopes = span.slopes[:, t * len(steps) : (t + 1) * len(steps)]
            slopes = slopes.flatten(2).unflatten(2, total.shape[1:])
        else:
            owns = [own for _, own, _ in plan[t * len(steps) : (t + 1) * len(steps)]]
            parts = tuple(
                partial(total[:, :, own].add_, step.update.slope)
                for own, step in zip(owns, steps, strict=True)
            )
        return _TimeStep(
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
        mask = self._mask(active)
        moved = np.flatnonzero(mask.cpu().numpy())
        ranged = moved.size and moved[-1] - moved[0] + 1 == moved.size
        if moved.size == len(mask) or (ranged and self.kind is not Gathered):
            return slice(int(moved[0]), int(moved[-1]) + 1), None
        return slice(0, self.cell.hidden_size), mask

    def __call__(
        self,
        parameters: Tensor,
        states: Tensor,
        controls: Tensor,
        generators: Sequence[np.random.Generator],
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """One forward and one backward pass.

        Args:
            parameters: (S, P).
            states: (S, B, T + 1, p), standardised.
            controls: (S, B, T, q), standardised.
            generators: one a model, for schedules that draw random numbers.

        Returns:
            The loss (S,), its gradient (S, P), and the active clusters of each update.
        """
        p = self.cell.state_size
        with torch.no_grad():
            self._bind(parameters)
            self.inputs[:, 0, :, :p] = states[:, :, 0]
            self.inputs[:, :-1, :, p:-1] = controls.transpose(1, 2)
            self.targets = states[:, :, 1:]
            activity, masks = self._forward(generators)
            predictions = self.inputs[:, 1:, :, :p]  # (S, T, B, p)
            torch.sub(predictions, self.targets.transpose(1, 2), out=self.errors)
            loss = self.errors.square().mean(dim=(1, 2, 3))
            self.errors.mul_(2 / self.errors[0].numel())
            self._backward(masks)
            return loss, self._gradient(), activity

    def _bind(self, parameters: Tensor) -> None:
        """Lays out the weights of the population for the passes in u."""
        weights, p = self.cell.unflatten(parameters), self.cell.state_size
        quadruple = torch.nn.functional.pad(4 * weights["messages"].flatten(1), (0, 1))
        for span in self.spans.values():
            span.bind(quadruple, self.relaxation)
        received = torch.matmul(self.heard.T, weights["messages"].sum(dim=-1))  # 1 M, (S, n, d)
        bias = weights["drive_bias"] - received.flatten(1)
        drive = torch.cat([weights["drive"].mT, bias.unsqueeze(1)], dim=1)
        self.drive = 2 * self._arranged(drive, 2, self.channels)  # (S, p + q + 1, n d)
        self.feedback = self.drive[:, :p].mT.contiguous()  # (S, n d, p)
        readout = self._arranged(weights["readout"], 2, self.channels)  # (S, p, n d)
        self.readout = (2 * readout).mT.contiguous()
        self.readout_back = 2 * self.relaxation * readout
        if self.schedule.needs_answer:
            by_cluster = readout.mT.unsqueeze(2) * self.membership.T.unsqueeze(-1)
            self.readout_of_clusters = by_cluster.flatten(2)  # (S, n d, C p)
        self.readout_bias = (weights["readout_bias"] - weights["readout"].sum(-1)).unsqueeze(1)

    def _arranged(self, values: Tensor, dim: int, places: Tensor) -> Tensor:
        """Values with their channels along a dimension in another order, if it is another."""
        return values if self.in_order else values.index_select(dim, places)

    def _forward(
        self, generators: Sequence[np.random.Generator]
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        """Fills the buffers; returns the active clusters and the mask of each update."""
        schedule, drive = self.schedule, self.buffers.drive
        choice_state = schedule.start(generators, drive.shape[1])
        activity, masks = [], []
        gate = self.time_steps[0].steps[0].update.gate
        next(iter(self.spans.values())).start(gate)
        gates_after = iter(self.gates_after)
        for t, time_step in enumerate(self.time_steps):
            torch.bmm(time_step.inputs, self.drive, out=drive)
            for step in time_step.steps:
                update = step.update
                if update.gate is not gate:
                    gate = update.gate.copy_(gate)
                self._propose(update)
                active, mask = step.active, step.mask
                if active is None:
                    view = _GateView(self, step, t)
                    active, choice_state = schedule.choose(view, choice_state)
                    mask = self._mask(active)
                gate = self._relax(update, mask, next(gates_after))
                activity.append(active)
                masks.append(mask)
            torch.add(self.minus_one, gate, alpha=2, out=time_step.end)
            torch.baddbmm(self.readout_bias, gate, self.readout, out=self.states)
            time_step.prediction.copy_(self.states)
        return activity, masks

    def _propose(self, update: Update) -> None:
        """r of the span's channels."""
        for act in update.hearing:
            act()
        torch.baddbmm(update.drive, update.heard, update.span.weights, out=update.proposal_rows)
        update.proposal.sigmoid_()

    def _relax(self, update: Update, mask: Tensor | None, after: Tensor) -> Tensor:
        """Moves u to u'; returns where that stands, which is ``after`` if all of it has moved."""
        gate = update.gate
        if update.own_gate is not gate:  # a part of the channels
            update.own_gate.lerp_(update.proposal, self.relaxation)
        else:
            weight = self.relaxation if mask is None else mask * self.factor
            torch.lerp(gate, update.proposal, weight, out=after)
            gate = after
        for act in update.keeping:
            act()
        return gate

    def next_loss(self, gate: Tensor, time_step: int, steps: Tensor) -> Tensor:
        """Squared error (S, B, C) of the read-out if one cluster's nodes alone take their steps.

        Args:
            gate: u, (S, B, n d).
            time_step: t.
            steps: of h, (S, B, n, d).
        """
        missing = self.readout_bias - self.targets[:, :, time_step]  # (S, B, p)
        missing = torch.baddbmm(missing, gate, self.readout).unsqueeze(2)
        by_cluster = torch.bmm(steps.flatten(-2), self.readout_of_clusters)  # (S, B, C p)
        clusters = self.schedule.partition.clusters
        return by_cluster.unflatten(-1, (clusters, -1)).add_(missing).square_().mean(dim=-1)

    def shown(self, which: int, gate: Tensor) -> Tensor:
        """h = 2 u - 1, (S, B, n, d), from u (S, B, n d), in a buffer; or f(h, z) from r."""
        torch.add(self.minus_one, gate, alpha=2, out=self.views[which])
        return self.views[which].unflatten(-1, (self.cell.graph.nodes, self.cell.channels))

    def _mask(self, active: Tensor) -> Tensor:
        """1 for each hidden channel that moves: (n d,) or (S, B, n d)."""
        check_active(self.schedule, active)
        return active.to(self.membership) @ self.membership

    def _backward(self, masks: list[Tensor | None]) -> None:
        cotangent = self.buffers.cotangent.zero_()
        masks_before = reversed(masks)
        for t in reversed(range(len(self.time_steps))):
            time_step = self.time_steps[t]
            cotangent.baddbmm_(time_step.error, self.readout_back)
            for step in reversed(time_step.steps):
                self._pull_back(step.update, next(masks_before))
            if time_step.slopes is not None:
                torch.sum(time_step.slopes, dim=1, out=time_step.total)
            else:
                time_step.total.zero_()
                for act in time_step.parts:
                    act()
            if t:  # the drive's state was the last time step's prediction
                self.time_steps[t - 1].error.add_(torch.bmm(time_step.total, self.feedback))

    def _pull_back(self, update: Update, mask: Tensor | None) -> None:
        """c_q of one update, and eta c before it from eta c after it."""
        beta = 1.0
        if mask is None:
            beta = 1 - self.relaxation
            sigmoid_backward(update.own_cotangent, update.proposal, grad_input=update.slope)
        else:
            cotangent = self.buffers.cotangent
            torch.mul(cotangent, mask, out=self.masked)
            sigmoid_backward(self.masked, update.proposal, grad_input=update.slope)
            cotangent.sub_(self.masked, alpha=self.relaxation)
        for act in update.returning:
            act()
        if not update.adding:
            update.returned.baddbmm_(update.slopes, update.span.back, beta=beta)
            return
        if mask is None:
            update.own_cotangent.mul_(self.decay)
        torch.bmm(update.slopes, update.span.back, out=update.returned)
        for act in update.adding:
            act()

    def _gradient(self) -> Tensor:
        """(S, P), from the inputs and cotangents of all updates."""
        cell = self.cell
        total = self.totals.flatten(1, 2)  # (S, T B, n d)
        inputs = self.inputs[:, :-1].flatten(1, 2)  # (S, T B, p + q + 1)
        drive = self._arranged(2 * torch.bmm(inputs.mT, total), 2, self.places)  # the bias last
        bias = drive[:, -1]
        nodes = bias.unflatten(-1, (cell.graph.nodes, cell.channels))
        # What u^T c_q leaves out, u being (1 + h) / 2; alike for all channels that are heard.
        offset = torch.matmul(self.heard, nodes).unsqueeze(-1)
        messages = offset.expand(-1, *cell.parameter_shapes["messages"]).flatten(1).neg()
        for span in self.spans.values():
            span.add_gradient(messages)
        errors = self.errors.flatten(1, 2)  # (S, T B, p)
        # The read-out's gradient goes through h, so that it is exactly 0 for a node that never
        # moved: Adam would blow up what rounding leaves in its place.
        readout = torch.bmm(errors.mT, self.ends.flatten(1, 2))
        pieces = {
            "drive": drive[:, :-1].mT,
            "drive_bias": bias,
            "messages": messages,
            "readout": self._arranged(readout, 2, self.places),
            "readout_bias": errors.sum(dim=1),
        }
        return torch.cat([pieces[name].flatten(1) for name in cell.parameter_shapes], dim=1)
