"""The rollout's loss and its gradient by hand: what training spends its time on.

One update, with p = h M + z, f = tanh(p) and the weight w = eta a of each node,

    h' = h + w (f - h),

has the adjoint (g' is the cotangent of h', g that of h, and so on)

    g_p = w g' (1 - f^2),      g = (1 - w) g' + g_p M^T,
    g_z += g_p,                g_M += h^T g_p.

Choices carry no gradient. All h and g_p are kept, so that each weight gradient is one matrix
product a model. ``clusterdyn.sweeps.rollout`` under autograd is the tested reference.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from clusterdyn.model import MessagePassingCell
from clusterdyn.schedules import Schedule, StaticSchedule, SweepView
from clusterdyn.sweeps import check_active


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
        # Where a relation has a weight: node i hears node j along relation r.
        operators = np.concatenate([np.eye(cell.graph.nodes)[None], cell.graph.relations])
        r, i, j = np.nonzero(operators)
        self.heard = torch.as_tensor(j), torch.as_tensor(i)
        strength = (np.arange(len(operators))[:, None] == r) * operators[r, i, j]
        self.strength = torch.as_tensor(strength).to(like)  # (1 + R, connections)
        # A product's output must be one contiguous block, or torch loops over the models: so
        # activations are step-first. Inputs and cotangents are population-first for g_M.
        self.activations = like.new_empty(steps, population, batch, width)
        self.hidden = like.new_zeros(population, steps + 1, batch, width)
        self.cotangents = like.new_empty(population, steps, batch, width)
        self.drive_cotangents = like.new_empty(population, horizon, batch, width)
        self.inputs = like.new_empty(
            population, horizon, batch, cell.state_size + cell.control_size
        )
        self.predictions = like.new_empty(population, horizon, batch, cell.state_size)
        self.errors = torch.empty_like(self.predictions)

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
        with torch.no_grad():
            self._bound = self.cell.bind(parameters)
            activity, weights = self._forward(states, controls, generators)
            targets = states[:, :, 1:].transpose(1, 2)  # (S, T, B, p)
            torch.sub(self.predictions, targets, out=self.errors)
            loss = self.errors.square().mean(dim=(1, 2, 3))
            self.errors.mul_(2 / self.errors[0].numel())
            self._backward(weights)
            return loss, self._gradient(), activity

    def _forward(
        self, states: Tensor, controls: Tensor, generators: Sequence[np.random.Generator]
    ) -> tuple[list[Tensor], list[Tensor | float]]:
        """Fills the buffers; returns the active clusters and the weight w of each update."""
        bound, schedule = self._bound, self.schedule
        twice = 2 * bound.recurrent
        choice_state = schedule.start(generators, states.shape[1])
        state = states[:, :, 0]
        activity, weights, step = [], [], 0
        for t in range(controls.shape[2]):
            torch.cat([state, controls[:, :, t]], dim=-1, out=self.inputs[:, t])
            drive = torch.baddbmm(bound.drive_bias, self.inputs[:, t], bound.drive_weight)
            drive *= 2
            for sweep in range(self.sweeps):
                for update in range(schedule.updates_per_sweep):
                    now, after = self.hidden[:, step], self.hidden[:, step + 1]  # (S, B, n d)
                    proposal = self.activations[step]
                    torch.baddbmm(drive, now, twice, out=proposal)
                    # tanh p = 2 sigmoid(2 p) - 1, and sigmoid is several times as fast.
                    proposal.sigmoid_().mul_(2).sub_(1)
                    if self.static_plan:
                        active, weight = self.static_plan[step % len(self.static_plan)]
                    else:
                        view = SweepView(
                            self._per_node(now), self._per_node(proposal), t, sweep, update
                        )
                        active, choice_state = schedule.choose(view, choice_state)
                        weight = self._weight(active)
                    torch.lerp(now, proposal, weight, out=after)
                    activity.append(active)
                    weights.append(weight)
                    step += 1
            state = torch.baddbmm(bound.readout_bias, self.hidden[:, step], bound.readout_weight)
            self.predictions[:, t] = state
        return activity, weights

    def _per_node(self, flat: Tensor) -> Tensor:
        return flat.unflatten(-1, (self.cell.graph.nodes, self.cell.channels))

    def _weight(self, active: Tensor) -> Tensor | float:
        """w = eta a for each hidden channel: one number, (n d,) or (S, B, n d)."""
        check_active(self.schedule, active)
        if active.numel() == 1 and active.item():
            return self.relaxation
        return active.to(self.weight_of_cluster) @ self.weight_of_cluster

    def _backward(self, weights: list[Tensor | float]) -> None:
        bound, p = self._bound, self.cell.state_size
        recurrent, readout = bound.recurrent.mT, bound.readout_weight.mT
        feedback = bound.drive_weight[:, :p].mT
        cotangent = torch.zeros_like(self.activations[0])  # g, (S, B, n d)
        for t in reversed(range(self.errors.shape[1])):
            cotangent.baddbmm_(self.errors[:, t], readout)
            first = t * self.updates
            for step in reversed(range(first, first + self.updates)):
                activation, slope = self.activations[step], self.cotangents[:, step]
                weighted = cotangent * weights[step]
                torch.addcmul(weighted, weighted * activation, activation, value=-1, out=slope)
                cotangent.sub_(weighted).baddbmm_(slope, recurrent)
            self.drive_cotangents[:, t] = self.cotangents[:, first : first + self.updates].sum(1)
            if t:  # the drive's state was the last time step's prediction
                self.errors[:, t - 1] += torch.bmm(self.drive_cotangents[:, t], feedback)

    def _gradient(self) -> Tensor:
        """(S, P), from the inputs and cotangents of all steps."""
        cell = self.cell
        nodes, channels = cell.graph.nodes, cell.channels
        recurrent = torch.bmm(
            self.hidden[:, :-1].flatten(1, 2).mT, self.cotangents.flatten(1, 2)
        )  # (S, n d, n d)
        by_node = recurrent.view(-1, nodes, channels, nodes, channels)
        sources, targets = self.heard
        by_connection = by_node[:, sources, :, targets]  # (connections, S, d from, d to)
        drive_cotangents = self.drive_cotangents.flatten(1, 2)  # (S, T B, n d)
        errors = self.errors.flatten(1, 2)  # (S, T B, p)
        ends = self.hidden[:, self.updates :: self.updates].flatten(1, 2)  # (S, T B, n d)
        pieces = {
            "drive": torch.bmm(drive_cotangents.mT, self.inputs.flatten(1, 2)),
            "drive_bias": drive_cotangents.sum(dim=1),
            "messages": torch.einsum("rk,ksba->srab", self.strength, by_connection),
            "readout": torch.bmm(errors.mT, ends),
            "readout_bias": errors.sum(dim=1),
        }
        return torch.cat([pieces[name].flatten(1) for name in cell.parameter_shapes], dim=1)
