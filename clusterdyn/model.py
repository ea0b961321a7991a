"""The recurrent message-passing cell, for a population of models at once.

Symbols: S models, B batch, n nodes, d channels a node, p state channels, q control channels,
R relations of the graph. Arrays are population-first.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from clusterdyn.graph import DENSE_CHANNELS, Graph, NeighbourSum


def recurrent_entries(
    graph: Graph, channels: int, sources: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How shared message weights fill a part of the recurrent matrix.

    Args:
        graph: over the nodes.
        channels: d. Hidden channel i d + a is channel a of node i.
        sources, targets: hidden channels, in any order.

    Returns:
        Two arrays (sources, targets). The first, int64, says which entry of the flat messages
        ((1 + R) d d, self first) moves a target when a source does, and points one past their end
        where none does; the second, float64, by how much the graph's relation scales it.
    """
    d = channels
    source_nodes, source_place = np.unique(sources // d, return_inverse=True)
    target_nodes, target_place = np.unique(targets // d, return_inverse=True)
    own = (source_nodes[:, None] == target_nodes).astype(float)
    heard = [r[target_nodes][:, source_nodes].T.toarray() for r in graph.relations]
    weights = np.stack([own, *heard])  # (1 + R, source nodes, target nodes)
    nodes = np.ix_(source_place, target_place)
    relation = np.abs(weights).argmax(axis=0)[nodes]
    strength = weights.sum(axis=0)[nodes]
    entry = relation * d * d + (targets % d) * d + (sources % d)[:, None]
    return np.where(strength != 0, entry, len(weights) * d * d), strength


@dataclass(frozen=True, eq=False)
class MessagePassingCell:
    """One update of all nodes, f(h, z), with its drive z and its read-out.

    z   = W_in [x ; u] + b                                    one vector of d channels a node
    f_i = tanh(W_self h_i + sum_r W_r (A_r h)_i + z_i)        A_r: the graph's relation r
    x'  = W_out h + b_out                                     from all nodes together

    On a ring relation 0 is the left neighbour and relation 1 the right one. Weights are shared
    by the nodes; the drive and the read-out are not.

    Attributes:
        graph: over the n nodes.
        channels: d.
        state_size: p.
        control_size: q.
    """

    graph: Graph
    channels: int
    state_size: int = 3
    control_size: int = 1

    @property
    def hidden_size(self) -> int:
        """n d, the length of the hidden state."""
        return self.graph.nodes * self.channels

    @cached_property
    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each parameter of one model, in the order of the flat vector."""
        relations = len(self.graph.relations)
        return {
            "drive": (self.hidden_size, self.state_size + self.control_size),
            "drive_bias": (self.hidden_size,),
            "messages": (1 + relations, self.channels, self.channels),  # self first
            "readout": (self.state_size, self.hidden_size),
            "readout_bias": (self.state_size,),
        }

    @property
    def parameter_count(self) -> int:
        """P, the parameters of one model."""
        return sum(math.prod(shape) for shape in self.parameter_shapes.values())

    def initial_parameters(self, stream: np.random.SeedSequence) -> np.ndarray:
        """Draws a model's start as ``torch.nn.Linear`` does: U(-1, 1) / sqrt(fan in).

        A node's own state and its messages enter as one linear map of (1 + R) d channels.

        Args:
            stream: root of the random numbers.

        Returns:
            (P,), float64.
        """
        rng = np.random.default_rng(stream)
        fan_in = {
            "drive": self.state_size + self.control_size,
            "drive_bias": self.state_size + self.control_size,
            "messages": (1 + len(self.graph.relations)) * self.channels,
            "readout": self.hidden_size,
            "readout_bias": self.hidden_size,
        }
        return np.concatenate(
            [
                rng.uniform(-1, 1, size=math.prod(shape)) / math.sqrt(fan_in[name])
                for name, shape in self.parameter_shapes.items()
            ]
        )

    def unflatten(self, parameters: Tensor) -> dict[str, Tensor]:
        """Views of a flat population (S, P), each (S, *shape)."""
        sizes = [math.prod(shape) for shape in self.parameter_shapes.values()]
        pieces = parameters.split(sizes, dim=1)
        return {
            name: piece.unflatten(1, shape)
            for (name, shape), piece in zip(self.parameter_shapes.items(), pieces, strict=True)
        }

    def bind(self, parameters: Tensor) -> "BoundCell":
        """The cell with the weights of a population.

        Args:
            parameters: (S, P); gradients flow to it.

        Raises:
            ValueError: if the shape is not (S, P).
        """
        if parameters.ndim != 2 or parameters.shape[1] != self.parameter_count:
            raise ValueError(
                f"parameters must have shape (S, {self.parameter_count}); "
                f"got {tuple(parameters.shape)}"
            )
        return BoundCell(self, parameters)


class BoundCell:
    """A cell with the weights of S models, laid out for batched matrix products."""

    def __init__(self, cell: MessagePassingCell, parameters: Tensor) -> None:
        self.cell = cell
        self.population = parameters.shape[0]
        weights = cell.unflatten(parameters)
        self.drive_weight = weights["drive"].mT  # (S, p + q, n d)
        self.drive_bias = weights["drive_bias"].unsqueeze(1)  # (S, 1, n d)
        self.readout_weight = weights["readout"].mT  # (S, n d, p)
        self.readout_bias = weights["readout_bias"].unsqueeze(1)  # (S, 1, p)
        self.messages = weights["messages"]  # (S, 1 + R, d, d)
        self.recurrent, self.relations = None, ()
        if cell.hidden_size > DENSE_CHANNELS:
            self.relations = tuple(NeighbourSum(r, parameters) for r in cell.graph.relations)
        else:
            every = np.arange(cell.hidden_size)
            entry, strength = recurrent_entries(cell.graph, cell.channels, every, every)
            flat = torch.nn.functional.pad(self.messages.flatten(1), (0, 1))
            places = torch.as_tensor(entry.ravel(), device=parameters.device)
            dense = flat.index_select(1, places).view(-1, *entry.shape)
            # Entry ((j, b), (i, a)): how channel b of node j moves channel a of node i.
            self.recurrent = dense * torch.as_tensor(strength).to(parameters)

    def start(self, batch: int) -> Tensor:
        """h = 0, (S, B, n, d)."""
        shape = (self.population, batch, self.cell.graph.nodes, self.cell.channels)
        return self.messages.new_zeros(shape)

    def drive(self, state: Tensor, control: Tensor) -> Tensor:
        """z, (S, B, n, d), from a state (S, B, p) and a control (S, B, q), standardised."""
        inputs = torch.cat([state, control], dim=-1)
        flat = torch.baddbmm(self.drive_bias, inputs, self.drive_weight)  # (S, B, n d)
        return flat.unflatten(-1, (self.cell.graph.nodes, self.cell.channels))

    def proposal(self, hidden: Tensor, drive: Tensor) -> Tensor:
        """f(h, z) of every node, (S, B, n, d), from h and z of the same shape."""
        if self.recurrent is None:
            return torch.tanh(drive + self._received(hidden))
        flat = torch.baddbmm(drive.flatten(-2), hidden.flatten(-2), self.recurrent)
        return torch.tanh(flat).view_as(hidden)

    def _received(self, hidden: Tensor) -> Tensor:
        """W_self h_i + sum_r W_r (A_r h)_i, node by node: for graphs too large for a matrix."""
        heard = [hidden, *(relation(hidden) for relation in self.relations)]
        rows = torch.cat(heard, dim=-1).flatten(1, 2)  # (S, B n, (1 + R) d)
        weights = self.messages.mT.flatten(1, 2)  # ((r, b), a)
        return torch.bmm(rows, weights).view_as(hidden)

    def readout(self, hidden: Tensor) -> Tensor:
        """The next state (S, B, p), standardised, from h (S, B, n, d)."""
        return torch.baddbmm(self.readout_bias, hidden.flatten(-2), self.readout_weight)
