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
so that each weight gradient is one matrix product a model. ``clusterdyn.sweeps.rollout`` under
autograd is the tested reference.
"""

import math
from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from clusterdyn.model import MessagePassingCell
from clusterdyn.schedules import Schedule, StaticSchedule, SweepView
from clusterdyn.sweeps import check_active

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


class _GateView(SweepView):
    """The view of a schedule, whose h and f(h, z) are made from u and r when it asks for them."""

    def __init__(
        self, owner: "RolloutGradient", gate: Tensor, proposed: Tensor, t: int, sweep: int, k: int
    ) -> None:
        self.__dict__.update(owner=owner, gate=gate, proposed=proposed)
        self.__dict__.update(time_step=t, sweep=sweep, update=k, next_loss=None)
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
        steps, width = horizon * self.updates, cell.hidden_size
        labels = torch.tensor(schedule.partition.labels).repeat_interleave(cell.channels)
        membership = torch.eye(schedule.partition.clusters)[:, labels]  # (C, n d)
        self.weight_of_cluster = relaxation * membership.to(like)
        self.static_plan: list[tuple[Tensor, Tensor | float]] | None = None
        if type(schedule).choose is StaticSchedule.choose:
            self.static_plan = [(active, self._weight(active)) for active in schedule.table]
        self._lay_out_messages(like)
        # A product's output must be one contiguous block, or torch loops over the models: so
        # activations are step-first. Inputs and cotangents are population-first for g_M.
        self.activations = like.new_empty(steps, population, batch, width)  # r
        self.hidden = like.new_full((population, steps + 1, batch, width), 0.5)  # u
        self.cotangents = like.new_empty(population, steps, batch, width)  # c_q
        self.drive_cotangents = like.new_empty(population, horizon, batch, width)  # sum of c_q
        # State, control and a 1, which carries the bias; a prediction is the next one's state.
        inputs = cell.state_size + cell.control_size + 1
        self.inputs = like.new_ones(population, horizon + 1, batch, inputs)
        self.errors = like.new_empty(population, horizon, batch, cell.state_size)
        self.cotangent = like.new_empty(population, batch, width)  # c
        self.weighted = torch.empty_like(self.cotangent)  # w c
        self.views = like.new_empty(2, population, batch, width)  # h and f(h, z) for a schedule
        self.minus_one = like.new_tensor(-1.0)

    def _lay_out_messages(self, like: Tensor) -> None:
        """Where messages stand in 4 M and in its transpose, and how to sum g_M over nodes."""
        entry, strength = self.cell.recurrent_layout
        self.entries = [torch.as_tensor(e.ravel(), device=like.device) for e in (entry, entry.T)]
        quadruple = torch.as_tensor(4 * strength).to(like)
        self.strengths = [quadruple, quadruple.mT.contiguous()]
        used = np.flatnonzero(strength)
        self.used = torch.as_tensor(used, device=like.device)
        self.message_of_used = torch.as_tensor(entry.ravel()[used], device=like.device)
        self.strength_of_used = torch.as_tensor(strength.ravel()[used]).to(like)

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
        drive = torch.cat([weights["drive"], weights["drive_bias"].unsqueeze(-1)], dim=-1).mT
        self.drive = 2 * drive  # (S, p + q + 1, n d)
        self.drive[:, -1] -= self.recurrent.sum(dim=1) / 2
        self.feedback = self.drive[:, : self.cell.state_size].mT.contiguous()  # (S, n d, p)
        self.readout = 2 * weights["readout"]  # (S, p, n d)
        self.readout_bias = (weights["readout_bias"] - weights["readout"].sum(-1)).unsqueeze(1)

    def _forward(
        self, generators: Sequence[np.random.Generator]
    ) -> tuple[list[Tensor], list[Tensor | float]]:
        """Fills the buffers; returns the active clusters and the weight w of each update."""
        schedule, readout = self.schedule, self.readout.mT
        times, batch = self.inputs.shape[1:3]
        choice_state = schedule.start(generators, batch)
        activity, weights, step = [], [], 0
        for t in range(times - 1):
            drive = torch.bmm(self.inputs[:, t], self.drive)
            for sweep in range(self.sweeps):
                for update in range(schedule.updates_per_sweep):
                    now, after = self.hidden[:, step], self.hidden[:, step + 1]  # (S, B, n d)
                    proposal = self.activations[step]
                    torch.baddbmm(drive, now, self.recurrent, out=proposal).sigmoid_()
                    if self.static_plan:
                        active, weight = self.static_plan[step % len(self.static_plan)]
                    else:
                        view = _GateView(self, now, proposal, t, sweep, update)
                        active, choice_state = schedule.choose(view, choice_state)
                        weight = self._weight(active)
                    torch.lerp(now, proposal, weight, out=after)
                    activity.append(active)
                    weights.append(weight)
                    step += 1
            state = torch.baddbmm(self.readout_bias, self.hidden[:, step], readout)
            self.inputs[:, t + 1, :, : self.cell.state_size] = state
        return activity, weights

    def next_loss(self, time_step: int, hidden: Tensor) -> Tensor:
        """(S, B): squared error of the read-out of h (S, B, n, d), mean over state channels."""
        gates = hidden.flatten(-2).add(1).div_(2)
        state = torch.baddbmm(self.readout_bias, gates, self.readout.mT)
        return (state - self.targets[:, :, time_step]).square_().mean(dim=-1)

    def shown(self, which: int, gate: Tensor) -> Tensor:
        """h = 2 u - 1, (S, B, n, d), from u (S, B, n d), in a buffer; or f(h, z) from r."""
        torch.add(self.minus_one, gate, alpha=2, out=self.views[which])
        return self.views[which].unflatten(-1, (self.cell.graph.nodes, self.cell.channels))

    def _weight(self, active: Tensor) -> Tensor | float:
        """w = eta a for each hidden channel: one number, (n d,) or (S, B, n d)."""
        check_active(self.schedule, active)
        if active.numel() == 1 and active.item():
            return self.relaxation
        return active.to(self.weight_of_cluster) @ self.weight_of_cluster

    def _backward(self, weights: list[Tensor | float]) -> None:
        cotangent = self.cotangent.zero_()
        for t in reversed(range(self.errors.shape[1])):
            cotangent.baddbmm_(self.errors[:, t], self.readout)
            total = self.drive_cotangents[:, t]
            first = t * self.updates
            for step in reversed(range(first, first + self.updates)):
                activation, weight = self.activations[step], weights[step]
                slope = self.cotangents[:, step]  # c_q
                if isinstance(weight, float):
                    sigmoid_backward(cotangent, activation, grad_input=slope)
                    slope.mul_(weight)
                    cotangent.baddbmm_(slope, self.recurrent_transposed, beta=1 - weight)
                else:
                    torch.mul(cotangent, weight, out=self.weighted)
                    sigmoid_backward(self.weighted, activation, grad_input=slope)
                    cotangent.sub_(self.weighted).baddbmm_(slope, self.recurrent_transposed)
            last = self.cotangents[:, first + self.updates - 1]
            total.copy_(last)
            for step in range(first, first + self.updates - 1):
                total += self.cotangents[:, step]
            if t:  # the drive's state was the last time step's prediction
                self.errors[:, t - 1] += torch.bmm(total, self.feedback)

    def _gradient(self) -> Tensor:
        """(S, P), from the inputs and cotangents of all steps."""
        cell = self.cell
        total = self.drive_cotangents.flatten(1, 2)  # (S, T B, n d)
        inputs = self.inputs[:, :-1].flatten(1, 2)  # (S, T B, p + q + 1)
        drive = 2 * torch.bmm(total.mT, inputs)  # the bias last, (S, n d, p + q + 1)
        bias = drive[..., -1]
        recurrent = torch.bmm(
            self.hidden[:, :-1].flatten(1, 2).mT, self.cotangents.flatten(1, 2)
        )  # (S, n d, n d), by u
        used = recurrent.flatten(1).index_select(1, self.used).mul_(4)
        used -= bias.index_select(1, self.used % cell.hidden_size)
        messages = math.prod(cell.parameter_shapes["messages"])
        errors = self.errors.flatten(1, 2)  # (S, T B, p)
        # Through h, so that the gradient of a node that never moved is exactly 0: Adam would
        # blow up what rounding leaves in its place.
        ends = 2 * self.hidden[:, self.updates :: self.updates] - 1  # (S, T, B, n d)
        pieces = {
            "drive": drive[..., :-1],
            "drive_bias": bias,
            "messages": used.new_zeros(len(used), messages).index_add_(
                1, self.message_of_used, used * self.strength_of_used
            ),
            "readout": torch.bmm(errors.mT, ends.flatten(1, 2)),
            "readout_bias": errors.sum(dim=1),
        }
        return torch.cat([pieces[name].flatten(1) for name in cell.parameter_shapes], dim=1)
