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

in which no pass over the activations is spent on the change of variable. Going back, eta c may be
carried instead of c, so that w needs no pass of its own where every node of an update is active.
All u and c_q are kept, so that each weight gradient is one matrix product a model.

Nodes stand in the order of their clusters. Where a schedule is written down beforehand, an update
then touches one range of neighbouring channels; ``clusterdyn.spans`` holds the products of such a
range, dense on small graphs and in tiles on large rings.
``clusterdyn.sweeps.rollout`` under autograd is the tested reference.
"""

from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from clusterdyn.model import MessagePassingCell
from clusterdyn.rollout_plan import RolloutPlan, Step
from clusterdyn.schedules import Schedule, SweepView
from clusterdyn.spans import Update

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


class _GateView(SweepView):
    """The view of a schedule, whose h and f(h, z) are made from u and r when it asks for them."""

    def __init__(self, owner: "RolloutGradient", step: Step, t: int) -> None:
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
        self.cell, self.schedule, self.relaxation = cell, schedule, relaxation
        self.plan = plan = RolloutPlan(
            cell, schedule, shape, sweeps=sweeps, relaxation=relaxation, like=like
        )
        self.masked = torch.empty_like(plan.buffers.drive)
        self.views = like.new_empty(2, *self.masked.shape)  # h and f(h, z) for a schedule
        self.states = like.new_empty(*shape[:2], cell.state_size)  # predicted
        # Numbers as tensors: PyTorch makes one of a Python number at every call.
        self.minus_one, self.factor = like.new_tensor(-1.0), like.new_tensor(relaxation)
        self.decay = 1 - self.factor

    @property
    def nbytes(self) -> int:
        """Memory of all buffers that are made once, in bytes."""
        plan = self.plan
        tensors = [value for span in plan.spans.values() for value in span.tensors()]
        for step in (step for time in plan.time_steps for step in time.steps):
            tensors += [step.update.proposal, *([] if step.chosen is None else [step.chosen])]
        for owner in (self, plan, plan.buffers):
            tensors += [value for value in vars(owner).values() if isinstance(value, Tensor)]
        storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage() for tensor in tensors}
        return sum(storage.nbytes() for storage in storages.values())

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
            The loss (S,), its gradient (S, P), and the choice made at each update.
        """
        p = self.cell.state_size
        with torch.no_grad():
            self._bind(parameters)
            self.plan.inputs[:, 0, :, :p] = states[:, :, 0]
            self.plan.inputs[:, :-1, :, p:-1] = controls.transpose(1, 2)
            self.targets = states[:, :, 1:]
            activity, masks = self.forward(generators)
            predictions = self.plan.inputs[:, 1:, :, :p]  # (S, T, B, p)
            torch.sub(predictions, self.targets.transpose(1, 2), out=self.plan.errors)
            loss = self.plan.errors.square().mean(dim=(1, 2, 3))
            self.plan.errors.mul_(2 / self.plan.errors[0].numel())
            self._backward(masks)
            return loss, self._gradient(), activity

    def _bind(self, parameters: Tensor) -> None:
        """Lays out the weights of the population for the passes in u."""
        weights, p = self.cell.unflatten(parameters), self.cell.state_size
        quadruple = torch.nn.functional.pad(4 * weights["messages"].flatten(1), (0, 1))
        for span in self.plan.spans.values():
            span.bind(quadruple, self.plan.carried)
        received = torch.matmul(
            self.plan.heard.T, weights["messages"].sum(dim=-1)
        )  # 1 M, (S, n, d)
        bias = weights["drive_bias"] - received.flatten(1)
        drive = torch.cat([weights["drive"].mT, bias.unsqueeze(1)], dim=1)
        self.drive = 2 * self._arranged(drive, 2, self.plan.channels)  # (S, p + q + 1, n d)
        self.feedback = self.drive[:, :p].mT.contiguous()  # (S, n d, p)
        readout = self._arranged(weights["readout"], 2, self.plan.channels)  # (S, p, n d)
        self.readout = (2 * readout).mT.contiguous()
        self.readout_back = 2 * self.plan.carried * readout
        if self.schedule.needs_answer:
            members = self.plan.membership.T.sign()
            by_cluster = readout.mT.unsqueeze(2) * members.unsqueeze(-1)
            self.readout_of_clusters = by_cluster.flatten(2)  # (S, n d, C p)
        self.readout_bias = (weights["readout_bias"] - weights["readout"].sum(-1)).unsqueeze(1)

    def _arranged(self, values: Tensor, dim: int, places: Tensor) -> Tensor:
        """Values with their channels along a dimension in another order, if it is another."""
        return values if self.plan.in_order else values.index_select(dim, places)

    def forward(
        self, generators: Sequence[np.random.Generator]
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        """The forward pass alone, with the weights, inputs and targets that are laid out.

        Args:
            generators: one a model.

        Returns:
            The choice and the mask of each update.
        """
        schedule, drive = self.schedule, self.plan.buffers.drive
        choice_state = schedule.start(generators, drive.shape[1])
        activity, masks = [], []
        gate = self.plan.time_steps[0].steps[0].update.gate
        next(iter(self.plan.spans.values())).start(gate)
        gates_after = iter(self.plan.gates_after)
        for t, time_step in enumerate(self.plan.time_steps):
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
                    mask = self.plan.mask(active, step.chosen)
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
            weight = self.relaxation
            if mask is not None:
                weight = mask if self.plan.carried == 1 else mask * self.factor
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

    def _backward(self, masks: list[Tensor | None]) -> None:
        cotangent = self.plan.buffers.cotangent.zero_()
        masks_before = reversed(masks)
        for t in reversed(range(len(self.plan.time_steps))):
            time_step = self.plan.time_steps[t]
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
                self.plan.time_steps[t - 1].error.add_(torch.bmm(time_step.total, self.feedback))

    def _pull_back(self, update: Update, mask: Tensor | None) -> None:
        """c_q of one update, and c before it from c after it."""
        beta = 1.0
        if mask is None:
            beta = 1 - self.relaxation
            sigmoid_backward(update.own_cotangent, update.proposal, grad_input=update.slope)
        else:
            cotangent = self.plan.buffers.cotangent
            torch.mul(cotangent, mask, out=self.masked)
            sigmoid_backward(self.masked, update.proposal, grad_input=update.slope)
            cotangent.sub_(self.masked, alpha=self.plan.carried)
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
        total = self.plan.totals.flatten(1, 2)  # (S, T B, n d)
        inputs = self.plan.inputs[:, :-1].flatten(1, 2)  # (S, T B, p + q + 1)
        drive = self._arranged(
            2 * torch.bmm(inputs.mT, total), 2, self.plan.places
        )  # the bias last
        bias = drive[:, -1]
        nodes = bias.unflatten(-1, (cell.graph.nodes, cell.channels))
        # What u^T c_q leaves out, u being (1 + h) / 2; alike for all channels that are heard.
        offset = torch.matmul(self.plan.heard, nodes).unsqueeze(-1)
        messages = offset.expand(-1, *cell.parameter_shapes["messages"]).flatten(1).neg()
        for span in self.plan.spans.values():
            span.add_gradient(messages)
        errors = self.plan.errors.flatten(1, 2)  # (S, T B, p)
        # The read-out's gradient goes through h, so that it is exactly 0 for a node that never
        # moved: Adam would blow up what rounding leaves in its place.
        readout = torch.bmm(errors.mT, self.plan.ends.flatten(1, 2))
        pieces = {
            "drive": drive[:, :-1].mT,
            "drive_bias": bias,
            "messages": messages,
            "readout": self._arranged(readout, 2, self.plan.places),
            "readout_bias": errors.sum(dim=1),
        }
        return torch.cat([pieces[name].flatten(1) for name in cell.parameter_shapes], dim=1)
