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

in which no pass over the activations is spent on the change of variable. All u and c_q are kept,
so that each weight gradient is one matrix product a model.

Nodes stand in the order of their clusters. Where a schedule is written down beforehand, an update
then touches one *block* of neighbouring channels, q, r and c_q have the block's width alone, and
the u of all updates of one block stand together, ready for the block's columns of g_M.
``clusterdyn.sweeps.rollout`` under autograd is the tested reference.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from clusterdyn.model import MessagePassingCell
from clusterdyn.schedules import Schedule, StaticSchedule, SweepView
from clusterdyn.sweeps import check_active

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


@dataclass(frozen=True)
class _Update:
    """One update of a rollout, and where it keeps what it needs.

    Attributes:
        block: the channels that it may move.
        active: the clusters that it moves, bool (C,), or None if the schedule chooses as it goes.
        weight: w, for the block alike or (n d,); None if the schedule chooses as it goes.
        gate: u before the update, (S, B, n d).
        proposal: r in the block, (S, B, block).
        slope: c_q in the block, (S, B, block).
    """

    block: slice
    active: Tensor | None
    weight: Tensor | float | None
    gate: Tensor
    proposal: Tensor
    slope: Tensor


class _GateView(SweepView):
    """The view of a schedule, whose h and f(h, z) are made from u and r when it asks for them."""

    def __init__(
        self, owner: "RolloutGradient", update: _Update, t: int, sweep: int, number: int
    ) -> None:
        self.__dict__.update(owner=owner, gate=update.gate, proposed=update.proposal)
        self.__dict__.update(time_step=t, sweep=sweep, update=number, next_loss=None)
        if owner.schedule.needs_answer:
            self.__dict__["next_loss"] = partial(owner.next_loss, t)

    @cached_property
    def hidden(self) -> Tensor:
        return self.owner.shown(0, self.gate)

    @cached_property
    def proposal(self) -> Tensor:
        return self.owner.shown(1, self.proposed)


class RolloutGradient:
    """Loss and gradient of a population on minibatches of one shape; buffers are made once.

    Args:
        cell: the cell.
        schedule: chooses the active clusters.
        shape: (S, B, T).
        sweeps: K, a time step.
        relaxation: eta in (0, 1].
        like: a tensor of the precision and device to work in.
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
        self.sweeps, self.relaxation = sweeps, relaxation
        self.updates = sweeps * schedule.updates_per_sweep  # a time step
        width = cell.hidden_size
        static = type(schedule).choose is StaticSchedule.choose
        nodes = np.arange(cell.graph.nodes)
        self._lay_out(like, schedule.partition.by_cluster if static else nodes)
        self._make_updates(shape, like, static)
        self.drive_cotangents = like.new_empty(population, horizon, batch, width)  # sum of c_q
        # State, control and a 1, which carries the bias; a prediction is the next one's state.
        inputs = cell.state_size + cell.control_size + 1
        self.inputs = like.new_ones(population, horizon + 1, batch, inputs)
        self.errors = like.new_empty(population, horizon, batch, cell.state_size)
        self.ends = like.new_empty(population, horizon, batch, width)  # h at each time step's end
        self.cotangent = like.new_empty(population, batch, width)  # c
        self.weighted = torch.empty_like(self.cotangent)  # w c
        self.views = like.new_empty(2, population, batch, width)  # h and f(h, z) for a schedule
        self.minus_one = like.new_tensor(-1.0)

    def _lay_out(self, like: Tensor, order: np.ndarray) -> None:
        """Where the shared messages stand in 4 M and in its transpose, nodes in a given order."""
        d, device = self.cell.channels, like.device
        channels = (order[:, None] * d + np.arange(d)).ravel()
        self.in_order = bool((order == np.arange(len(order))).all())
        self.channels = torch.as_tensor(channels, device=device)  # (n d,)
        self.places = torch.as_tensor(np.argsort(channels), device=device)  # the inverse
        labels = np.array(self.schedule.partition.labels)[order].repeat(d)
        membership = np.eye(self.schedule.partition.clusters)[:, labels]  # (C, n d)
        self.weight_of_cluster = self.relaxation * torch.as_tensor(membership).to(like)
        pairs = np.ix_(channels, channels)
        entry, strength = (layout[pairs] for layout in self.cell.recurrent_layout)
        self.entries = [torch.as_tensor(e.ravel(), device=device) for e in (entry, entry.T)]
        quadruple = torch.as_tensor(4 * strength).to(like)
        self.strengths = [quadruple, quadruple.mT.contiguous()]
        used = np.flatnonzero(strength)
        self.used = torch.as_tensor(used, device=device)
        self.message_of_used = torch.as_tensor(entry.ravel()[used], device=device)
        self.strength_of_used = torch.as_tensor(strength.ravel()[used]).to(like)

    def _planned(self, active: Tensor) -> tuple[int, int, Tensor | float]:
        """Start and end of the block that holds the active clusters' channels, and its w.

        Clusters that do not stand side by side take the block of all channels, masked.
        """
        moved = np.flatnonzero(self._weight(active).cpu().numpy())
        if moved.size and moved[-1] - moved[0] + 1 == moved.size:
            return int(moved[0]), int(moved[-1]) + 1, self.relaxation
        return 0, self.cell.hidden_size, self._weight(active)

    def _make_updates(self, shape: tuple[int, int, int], like: Tensor, static: bool) -> None:
        """Buffers of every update. Those of one block stand together for its part of g_M.

        A product's output must be one contiguous block, or torch loops over the models: so r is
        step-first. u and c_q are population-first.
        """
        population, batch, horizon = shape
        width, steps = self.cell.hidden_size, horizon * self.updates
        plan: list[tuple[Tensor | None, tuple]] = [(None, (0, width, None))]
        if static:
            plan = [(active, self._planned(active)) for active in self.schedule.table]
        plan = [plan[step % len(plan)] for step in range(steps)]
        counts = Counter((start, stop) for _, (start, stop, _) in plan)
        self.blocks = {
            (start, stop): (
                # One more than needed: models a multiple of 4096 bytes apart share cache lines.
                like.new_empty(population, count + 1, batch, width)[:, :count],  # u
                like.new_empty(population, count + 1, batch, stop - start)[:, :count],  # c_q
            )
            for (start, stop), count in counts.items()
        }
        placed: Counter[tuple[int, int]] = Counter()
        self.steps: list[_Update] = []
        for active, (start, stop, weight) in plan:
            gates, slopes = self.blocks[start, stop]
            number = placed[start, stop]
            placed[start, stop] += 1
            proposal = like.new_empty(population, batch, stop - start)
            buffers = (gates[:, number], proposal, slopes[:, number])
            self.steps.append(_Update(slice(start, stop), active, weight, *buffers))
        self.steps[0].gate.fill_(0.5)  # h = 0
        self.last = like.new_empty(population, batch, width)  # u after the last update

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
            activity, weights = self._forward(generators)
            predictions = self.inputs[:, 1:, :, :p]  # (S, T, B, p)
            torch.sub(predictions, self.targets.transpose(1, 2), out=self.errors)
            loss = self.errors.square().mean(dim=(1, 2, 3))
            self.errors.mul_(2 / self.errors[0].numel())
            self._backward(weights)
            return loss, self._gradient(), activity

    def _bind(self, parameters: Tensor) -> None:
        """Lays out the weights of the population for the passes in u."""
        weights = self.cell.unflatten(parameters)
        messages = torch.nn.functional.pad(weights["messages"].flatten(1), (0, 1))
        width = self.cell.hidden_size
        self.recurrent, self.recurrent_transposed = (  # 4 M and its transpose, (S, n d, n d)
            messages.index_select(1, entry).view(-1, width, width).mul_(strength)
            for entry, strength in zip(self.entries, self.strengths, strict=True)
        )
        drive = torch.cat([weights["drive"], weights["drive_bias"].unsqueeze(-1)], dim=-1)
        self.drive = 2 * self._arranged(drive, 1, self.channels).mT  # (S, p + q + 1, n d)
        self.drive[:, -1] -= self.recurrent.sum(dim=1) / 2
        self.feedback = self.drive[:, : self.cell.state_size].mT.contiguous()  # (S, n d, p)
        self.readout = 2 * self._arranged(weights["readout"], 2, self.channels)  # (S, p, n d)
        self.readout_bias = (weights["readout_bias"] - weights["readout"].sum(-1)).unsqueeze(1)

    def _arranged(self, values: Tensor, dim: int, places: Tensor) -> Tensor:
        """Values with their channels along a dimension in another order, if it is another."""
        return values if self.in_order else values.index_select(dim, places)

    def _forward(
        self, generators: Sequence[np.random.Generator]
    ) -> tuple[list[Tensor], list[Tensor | float]]:
        """Fills the buffers; returns the active clusters and the weight w of each update."""
        schedule, readout = self.schedule, self.readout.mT
        choice_state = schedule.start(generators, self.inputs.shape[2])
        activity, weights = [], []
        for t in range(self.inputs.shape[1] - 1):
            drive = torch.bmm(self.inputs[:, t], self.drive)
            for number in range(self.updates):
                step = t * self.updates + number
                update = self.steps[step]
                after = self.steps[step + 1].gate if step + 1 < len(self.steps) else self.last
                self._propose(update, drive)
                active, weight = update.active, update.weight
                if active is None:
                    sweep, within = divmod(number, schedule.updates_per_sweep)
                    view = _GateView(self, update, t, sweep, within)
                    active, choice_state = schedule.choose(view, choice_state)
                    weight = self._weight(active)
                self._relax(update, weight, after)
                activity.append(active)
                weights.append(weight)
            torch.add(self.minus_one, after, alpha=2, out=self.ends[:, t])
            state = torch.baddbmm(self.readout_bias, after, readout)
            self.inputs[:, t + 1, :, : self.cell.state_size] = state
        return activity, weights

    def _propose(self, update: _Update, drive: Tensor) -> None:
        """r of the block's channels."""
        weights = self.recurrent[:, :, update.block]
        torch.baddbmm(drive[:, :, update.block], update.gate, weights, out=update.proposal)
        update.proposal.sigmoid_()

    def _relax(self, update: _Update, weight: Tensor | float, after: Tensor) -> None:
        """u' from u and r."""
        if update.proposal.shape == after.shape:
            torch.lerp(update.gate, update.proposal, weight, out=after)
        else:
            after.copy_(update.gate)
            after[:, :, update.block].lerp_(update.proposal, weight)

    def next_loss(self, time_step: int, hidden: Tensor) -> Tensor:
        """(..., S, B): squared error of the read-outs of h (..., S, B, n, d), mean over p."""
        gates = hidden.flatten(-2).add(1).div_(2)
        missing = self.readout_bias - self.targets[:, :, time_step]  # (S, B, p)
        return (gates @ self.readout.mT).add_(missing).square_().mean(dim=-1)

    def shown(self, which: int, gate: Tensor) -> Tensor:
        """h = 2 u - 1, (S, B, n, d), from u (S, B, n d), in a buffer; or f(h, z) from r."""
        torch.add(self.minus_one, gate, alpha=2, out=self.views[which])
        return self.views[which].unflatten(-1, (self.cell.graph.nodes, self.cell.channels))

    def _weight(self, active: Tensor) -> Tensor:
        """w = eta a for each hidden channel: (n d,) or (S, B, n d)."""
        check_active(self.schedule, active)
        return active.to(self.weight_of_cluster) @ self.weight_of_cluster

    def _backward(self, weights: list[Tensor | float]) -> None:
        cotangent = self.cotangent.zero_()
        for t in reversed(range(self.errors.shape[1])):
            cotangent.baddbmm_(self.errors[:, t], self.readout)
            total = self.drive_cotangents[:, t]
            first = t * self.updates
            for step in reversed(range(first, first + self.updates)):
                self._pull_back(self.steps[step], weights[step])
            self._sum_slopes(first, total)
            if t:  # the drive's state was the last time step's prediction
                self.errors[:, t - 1] += torch.bmm(total, self.feedback)

    def _sum_slopes(self, first: int, total: Tensor) -> None:
        """The sum of a time step's c_q, (S, B, n d)."""
        if len(self.blocks) == 1:
            ((_, slopes),) = self.blocks.values()
            torch.sum(slopes[:, first : first + self.updates], dim=1, out=total)
            return
        total.zero_()
        for update in self.steps[first : first + self.updates]:
            total[:, :, update.block] += update.slope

    def _pull_back(self, update: _Update, weight: Tensor | float) -> None:
        """c_q of one update, and c before it from c after it."""
        cotangent, slope = self.cotangent, update.slope
        within = cotangent[:, :, update.block]
        back = self.recurrent_transposed[:, update.block]
        if isinstance(weight, float):
            sigmoid_backward(within, update.proposal, grad_input=slope)
            slope.mul_(weight)
            if within.shape == cotangent.shape:
                cotangent.baddbmm_(slope, back, beta=1 - weight)
            else:
                within.mul_(1 - weight)
                cotangent.baddbmm_(slope, back)
        else:
            torch.mul(cotangent, weight, out=self.weighted)
            sigmoid_backward(self.weighted, update.proposal, grad_input=slope)
            cotangent.sub_(self.weighted).baddbmm_(slope, back)

    def _gradient(self) -> Tensor:
        """(S, P), from the inputs and cotangents of all updates."""
        cell = self.cell
        total = self.drive_cotangents.flatten(1, 2)  # (S, T B, n d)
        inputs = self.inputs[:, :-1].flatten(1, 2)  # (S, T B, p + q + 1)
        drive = 2 * torch.bmm(total.mT, inputs)  # the bias last, (S, n d, p + q + 1)
        bias = drive[..., -1]
        recurrent = self.recurrent.new_zeros(self.recurrent.shape)  # (S, n d, n d), by u
        for (start, stop), (gates, slopes) in self.blocks.items():
            product = torch.bmm(gates.flatten(1, 2).mT, slopes.flatten(1, 2))
            recurrent[:, :, start:stop] += product
        used = recurrent.flatten(1).index_select(1, self.used).mul_(4)
        used -= bias.index_select(1, self.used % cell.hidden_size)
        messages = math.prod(cell.parameter_shapes["messages"])
        errors = self.errors.flatten(1, 2)  # (S, T B, p)
        # The read-out's gradient goes through h, so that it is exactly 0 for a node that never
        # moved: Adam would blow up what rounding leaves in its place.
        pieces = {
            "drive": self._arranged(drive[..., :-1], 1, self.places),
            "drive_bias": self._arranged(bias, 1, self.places),
            "messages": used.new_zeros(len(used), messages).index_add_(
                1, self.message_of_used, used * self.strength_of_used
            ),
            "readout": self._arranged(
                torch.bmm(errors.mT, self.ends.flatten(1, 2)), 2, self.places
            ),
            "readout_bias": errors.sum(dim=1),
        }
        return torch.cat([pieces[name].flatten(1) for name in cell.parameter_shapes], dim=1)
