"""The bare kernels of the full sweep: the products and activations of a training, no more.

What no population trainer in PyTorch that multiplies by the whole recurrent matrix can stay
below: the same shapes, as often, in the layout that is fastest, but nothing laid out, copied,
summed, clipped or stepped in between. Values are made up, of the size that training has.
"""

import time

import numpy as np
import torch
from torch import Tensor

from clusterdyn.arms import message_passing_cell
from clusterdyn.bench.contenders import Run, Workload

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


class BareKernels:
    """Forward, backward and weight gradients of one population's full sweeps, S models at once.

    Args:
        workload: whose shapes and steps are taken.
    """

    def __init__(self, workload: Workload) -> None:
        config, cell = workload.config, message_passing_cell(workload.config)
        self.workload = workload
        self.horizon, self.sweeps, self.relaxation = (
            config.horizon,
            config.sweeps,
            config.relaxation,
        )
        population, batch, width = len(workload.pairs), config.batch_size, cell.hidden_size
        horizon, updates = config.horizon, config.horizon * config.sweeps
        generator = torch.Generator().manual_seed(0)

        def made_up(*shape: int, size: float = 1.0) -> Tensor:
            values = torch.rand(shape, generator=generator, dtype=torch.float64) - 0.5
            return config.training().tensor((values * 2 * size).numpy())

        inputs = cell.state_size + cell.control_size + 1
        self.recurrent = made_up(population, width, width, size=width**-0.5)
        self.recurrent_transposed = self.recurrent.mT.contiguous()
        self.drive = made_up(population, inputs, width)
        self.feedback = made_up(population, width, cell.state_size)
        self.readout = made_up(population, cell.state_size, width)
        self.readout_transposed = self.readout.mT
        self.readout_bias = made_up(population, 1, cell.state_size)
        self.inputs = made_up(population, horizon, batch, inputs)
        self.errors = made_up(population, horizon, batch, cell.state_size)
        self.ends = made_up(population, horizon, batch, width)
        self.totals = made_up(population, horizon, batch, width)
        # One more than needed: models a multiple of 4096 bytes apart share cache lines.
        gates = made_up(population, updates + 2, batch, width).abs()  # u, in (0, 1)
        slopes = made_up(population, updates + 1, batch, width)  # c_q
        self.gates = [gates[:, step] for step in range(updates + 1)]
        self.slopes = [slopes[:, step] for step in range(updates)]
        self.all_gates = gates[:, :updates].flatten(1, 2).mT
        self.all_slopes = slopes[:, :updates].flatten(1, 2)
        self.proposals = [made_up(population, batch, width).abs() for _ in range(updates)]
        self.cotangent = made_up(population, batch, width)

    def prepare(self) -> float:
        """Runs one step; returns 0, as nothing has to be compiled."""
        self._step()
        return 0.0

    def run(self) -> Run:
        """Runs the kernels of all steps; there are no losses."""
        started = time.perf_counter()
        for _ in range(self.workload.steps):
            self._step()
        seconds = time.perf_counter() - started
        nothing = np.full(len(self.errors), np.nan)
        return Run(seconds, nothing, nothing)

    def _step(self) -> None:
        for t in range(self.horizon):
            drive = torch.bmm(self.inputs[:, t], self.drive)
            for step in range(t * self.sweeps, (t + 1) * self.sweeps):
                gate, proposal = self.gates[step], self.proposals[step]
                torch.baddbmm(drive, gate, self.recurrent, out=proposal)
                proposal.sigmoid_()
                torch.lerp(gate, proposal, self.relaxation, out=self.gates[step + 1])
            torch.baddbmm(self.readout_bias, self.gates[step + 1], self.readout_transposed)
        for t in reversed(range(self.horizon)):
            # The first of a step begins anew.
            begin = float(t < self.horizon - 1)
            self.cotangent.baddbmm_(self.errors[:, t], self.readout, beta=begin)
            for step in reversed(range(t * self.sweeps, (t + 1) * self.sweeps)):
                slope = self.slopes[step]
                sigmoid_backward(self.cotangent, self.proposals[step], grad_input=slope)
                self.cotangent.baddbmm_(slope, self.recurrent_transposed, beta=1 - self.relaxation)
            if t:
                torch.bmm(self.totals[:, t], self.feedback)
        torch.bmm(self.all_gates, self.all_slopes)
        torch.bmm(self.totals.flatten(1, 2).mT, self.inputs.flatten(1, 2))
        torch.bmm(self.errors.flatten(1, 2).mT, self.ends.flatten(1, 2))
