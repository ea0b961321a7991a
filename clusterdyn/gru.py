"""A gated recurrent unit for a population of models: the yardstick of ordinary recurrence.

Every hidden unit is a node of one channel, so that a schedule can act on it. With all units
active, one sweep a time step and relaxation 1, the cell is ``torch.nn.GRUCell`` (Cho et al. 2014,
arXiv 1406.1078, in PyTorch's form), and the rollout feeds predictions back as everywhere else.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class GRUCell:
    """Sizes of a GRU with a linear read-out.

    Attributes:
        units: H.
        state_size: p.
        control_size: q.
    """

    units: int
    state_size: int = 3
    control_size: int = 1

    @cached_property
    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each parameter of one model; gates stand as reset, update, new."""
        gates, inputs = 3 * self.units, self.state_size + self.control_size
        return {
            "drive": (gates, inputs),
            "recurrent": (gates, self.units),
            "drive_bias": (gates,),
            "recurrent_bias": (gates,),
            "readout": (self.state_size, self.units),
            "readout_bias": (self.state_size,),
        }

    @property
    def parameter_count(self) -> int:
        """P, the parameters of one model."""
        return sum(math.prod(shape) for shape in self.parameter_shapes.values())

    @classmethod
    def with_parameters(
        cls, count: int, *, state_size: int = 3, control_size: int = 1, multiple: int = 1
    ) -> "GRUCell":
        """The GRU whose number of parameters is closest to a given one.

        Args:
            count: of parameters.
            state_size, control_size: p and q.
            multiple: of which the number of units is one, so that it divides into clusters.
        """
        possible = range(multiple, count + multiple, multiple)
        cells = (cls(units, state_size, control_size) for units in possible)
        return min(cells, key=lambda cell: abs(cell.parameter_count - count))

    def initial_parameters(self, stream: np.random.SeedSequence) -> np.ndarray:
        """Draws a model's start as ``torch.nn.GRUCell`` and ``nn.Linear`` do: U(-1, 1) / sqrt(H).

        Args:
            stream: root of the random numbers.

        Returns:
            (P,), float64.
        """
        rng = np.random.default_rng(stream)
        return rng.uniform(-1, 1, size=self.parameter_count) / math.sqrt(self.units)

    def bind(self, parameters: Tensor) -> "BoundGRU":
        """The cell with the weights of a population (S, P); gradients flow to it."""
        return BoundGRU(self, parameters)

    def torch_modules(self, parameters: Tensor) -> tuple[nn.GRUCell, nn.Linear]:
        """One model as PyTorch's own cell and read-out, in the precision of its weights.

        Args:
            parameters: (P,), of the model.
        """
        inputs, dtype = self.state_size + self.control_size, parameters.dtype
        gru = nn.GRUCell(inputs, self.units, dtype=dtype)
        readout = nn.Linear(self.units, self.state_size, dtype=dtype)
        targets = (
            gru.weight_ih, gru.weight_hh, gru.bias_ih, gru.bias_hh, readout.weight, readout.bias
        )  # fmt: skip
        pieces = parameters.split([target.numel() for target in targets])
        with torch.no_grad():
            for target, piece in zip(targets, pieces, strict=True):
                target.copy_(piece.view_as(target))
        return gru, readout


class BoundGRU:
    """A GRU with the weights of S models, laid out for batched matrix products."""

    def __init__(self, cell: GRUCell, parameters: Tensor) -> None:
        self.cell = cell
        sizes = [math.prod(shape) for shape in cell.parameter_shapes.values()]
        pieces = parameters.split(sizes, dim=1)
        weights = {
            name: piece.unflatten(1, shape)
            for (name, shape), piece in zip(cell.parameter_shapes.items(), pieces, strict=True)
        }
        self.drive_weight = weights["drive"].mT  # (S, p + q, 3 H)
        self.drive_bias = weights["drive_bias"].unsqueeze(1)
        self.recurrent_weight = weights["recurrent"].mT  # (S, H, 3 H)
        self.recurrent_bias = weights["recurrent_bias"].unsqueeze(1)
        self.readout_weight = weights["readout"].mT  # (S, H, p)
        self.readout_bias = weights["readout_bias"].unsqueeze(1)

    def start(self, batch: int) -> Tensor:
        """h = 0, (S, B, H, 1)."""
        return self.drive_weight.new_zeros(len(self.drive_weight), batch, self.cell.units, 1)

    def drive(self, state: Tensor, control: Tensor) -> Tensor:
        """What the inputs give to the gates, (S, B, 3 H), from (S, B, p) and (S, B, q)."""
        inputs = torch.cat([state, control], dim=-1)
        return torch.baddbmm(self.drive_bias, inputs, self.drive_weight)

    def proposal(self, hidden: Tensor, drive: Tensor) -> Tensor:
        """The GRU's next hidden state, (S, B, H, 1), from h (S, B, H, 1) and the drive."""
        flat = hidden.squeeze(-1)
        heard = torch.baddbmm(self.recurrent_bias, flat, self.recurrent_weight)
        reset_in, update_in, new_in = drive.chunk(3, dim=-1)
        reset_heard, update_heard, new_heard = heard.chunk(3, dim=-1)
        reset = torch.sigmoid(reset_in + reset_heard)
        update = torch.sigmoid(update_in + update_heard)
        new = torch.tanh(new_in + reset * new_heard)
        return torch.lerp(new, flat, update).unsqueeze(-1)

    def readout(self, hidden: Tensor) -> Tensor:
        """The next state (S, B, p), standardised, from h (S, B, H, 1)."""
        return torch.baddbmm(self.readout_bias, hidden.squeeze(-1), self.readout_weight)
