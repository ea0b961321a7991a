"""Spans of small graphs, by dense matrices."""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from clusterdyn.graph import Graph
from clusterdyn.model import recurrent_entries
from clusterdyn.spans.base import Span, Update, runs


class DenseWhole(Span):
    """All channels, on any graph, by one dense matrix a model: for small graphs.

    What it hears is u itself: before its update u stands in ``heard``.
    """

    def __init__(
        self, graph: Graph, channels: np.ndarray, d: int, *, batch: int, count: int, like: Tensor
    ) -> None:
        entries, strengths = recurrent_entries(graph, d, channels, channels)
        sizes = {"rows": batch, "count": count, "like": like}
        own = slice(0, len(channels))
        super().__init__(own, (entries, strengths), (entries.T, strengths.T), **sizes)

    def update(self, number, buffers):
        gate, slope = self.heard[:, number], self.slopes[:, number]
        proposal = torch.empty_like(buffers.drive)
        return Update(
            self, gate, gate, (), gate, buffers.drive, proposal, proposal, (),
            buffers.cotangent, slope, (), slope, buffers.cotangent, (),
        )  # fmt: skip


class DenseBlock(Span):
    """A range of channels on any graph, by a dense matrix from those that it hears.

    Args:
        channels: (n d,), the channels in the order in which they are kept.
        own: the range.
    """

    def __init__(
        self,
        graph: Graph,
        channels: np.ndarray,
        d: int,
        own: slice,
        *,
        batch: int,
        count: int,
        like: Tensor,
    ) -> None:
        heard = graph.closed_neighbourhood(channels[own] // d)
        places = np.flatnonzero(np.isin(channels // d, heard))  # ascending, among those kept
        entries, strengths = recurrent_entries(graph, d, channels[places], channels[own])
        sizes = {"rows": batch, "count": count, "like": like}
        super().__init__(own, (entries, strengths), (entries.T, strengths.T), **sizes)
        self._pieces = runs(places)
        self._returned = like.new_empty(len(like), batch, len(places))

    def update(self, number, buffers):
        heard, slope, own = self.heard[:, number], self.slopes[:, number], self.own
        gate, cotangent = buffers.gate, buffers.cotangent
        proposal = slope.new_empty(slope.shape)
        return Update(
            span=self,
            gate=gate,
            own_gate=gate[:, :, own],
            hearing=tuple(
                partial(heard[:, :, here].copy_, gate[:, :, there]) for there, here in self._pieces
            ),
            heard=heard,
            drive=buffers.drive[:, :, own],
            proposal=proposal,
            proposal_rows=proposal,
            keeping=(),
            own_cotangent=cotangent[:, :, own],
            slope=slope,
            returning=(),
            slopes=slope,
            returned=self._returned,
            adding=tuple(
                partial(cotangent[:, :, there].add_, self._returned[:, :, here])
                for there, here in self._pieces
            ),
        )
