"""Spans of large graphs, whose work grows with the nodes: tiles of a ring, gathered nodes."""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from clusterdyn.graph import Graph, NeighbourSum, ring
from clusterdyn.model import recurrent_entries
from clusterdyn.spans.base import Span, Update, runs

TILE_NODES = 4  # about as many give the fastest tiles


class Tiles(Span):
    """A range of a ring's channels, tile by tile; one small matrix a model serves all tiles.

    A tile of k nodes hears itself and one node at each side, (k + 2) d channels. Rows are tiles
    of trajectories, so that work and memory grow with n and not with its square. Gates stand in a
    buffer of ``padded_gate``, with a copy of the last node before the first and of the first
    after the last.

    Args:
        own: the range, of whole nodes.
    """

    def __init__(
        self, graph: Graph, d: int, own: slice, *, batch: int, count: int, like: Tensor
    ) -> None:
        self.width, self.d = graph.nodes * d, d
        own_nodes = (own.stop - own.start) // d
        self.whole = own_nodes == graph.nodes
        k = min(
            (k for k in range(1, 2 * TILE_NODES + 1) if own_nodes % k == 0),
            key=lambda k: abs(k - TILE_NODES),
        )
        self.tile, self.tiles = k * d, own_nodes // k
        # A line of nodes: a ring too long for its ends to meet. Node 1 is the tile's first.
        line, window, inner = ring(k + 4), np.arange((k + 2) * d), np.arange(d, (k + 1) * d)
        entries, strengths = recurrent_entries(line, d, inner, window)
        super().__init__(
            own,
            recurrent_entries(line, d, window, inner),
            (entries.T, strengths.T),  # from a window of slopes to a tile of c
            rows=batch * self.tiles,
            count=count,
            like=like,
        )
        # A block reaches one node beyond each end; it is given one tile more there.
        beyond = 0 if self.whole else self.tile
        length = own.stop - own.start + 2 * beyond
        self._inside = slice(d + beyond, d + beyond + own.stop - own.start)
        self._padded_slopes = like.new_zeros(len(like), batch, length + 2 * d)
        self._windows = like.new_empty(len(like), batch, length // self.tile, self.tile + 2 * d)
        self._returned = like.new_empty(len(like), batch, length)
        self._pieces = runs(np.arange(own.start - beyond, own.stop + beyond) % self.width)

    @staticmethod
    def padded_gate(like: Tensor, batch: int, width: int, d: int) -> Tensor:
        """A buffer (S, B, n d) for u, with room for a node before and after each row."""
        return like.new_zeros(len(like), batch, width + 2 * d)[:, :, d:-d]

    def _with_ends(self, gate: Tensor) -> Tensor:
        """The whole buffer of a padded gate, (S, B, (n + 2) d)."""
        shape = (*gate.shape[:2], self.width + 2 * self.d)
        return gate.as_strided(shape, gate.stride(), gate.storage_offset() - self.d)

    def _windows_of(self, padded: Tensor, first: int, tiles: int) -> Tensor:
        """Overlapping windows (S, B, tiles, (k + 2) d) of a padded buffer, as a view."""
        shape = (*padded.shape[:2], tiles, self.tile + 2 * self.d)
        return padded.as_strided(shape, (*padded.stride()[:2], self.tile, 1), first)

    def start(self, gate):
        self._with_ends(gate).fill_(0.5)

    def update(self, number, buffers):
        gate, cotangent, own, d = buffers.gate, buffers.cotangent, self.own, self.d
        rows, padded = (len(gate), -1, self.tile), self._padded_slopes
        heard, slopes = self.heard[:, number], self.slopes[:, number]
        windows = self._windows_of(gate, gate.storage_offset() - d + own.start, self.tiles)
        hearing = [partial(heard.view(windows.shape).copy_, windows)]
        proposal = gate.new_empty(*gate.shape[:2], own.stop - own.start)
        slope = slopes.view(proposal.shape)
        drive = buffers.drive
        if not self.whole:  # a part of z cannot be seen as rows
            drive = torch.empty_like(proposal)
            hearing.append(partial(drive.copy_, buffers.drive[:, :, own]))
        ends, keeping = self._with_ends(gate), []
        if own.stop == self.width:
            keeping.append(partial(ends[:, :, :d].copy_, gate[:, :, -d:]))
        if own.start == 0:
            keeping.append(partial(ends[:, :, -d:].copy_, gate[:, :, :d]))
        returning = [partial(padded[:, :, self._inside].copy_, slope)]
        if self.whole:
            returning.append(partial(padded[:, :, :d].copy_, slope[:, :, -d:]))
            returning.append(partial(padded[:, :, -d:].copy_, slope[:, :, :d]))
        reached = self._windows_of(padded, 0, self._windows.shape[2])
        returning.append(partial(self._windows.copy_, reached))
        returned = cotangent if self.whole else self._returned
        return Update(
            span=self,
            gate=gate,
            own_gate=gate if self.whole else gate[:, :, own],
            hearing=tuple(hearing),
            heard=heard,
            drive=drive.view(rows),
            proposal=proposal,
            proposal_rows=proposal.view(rows),
            keeping=tuple(keeping),
            own_cotangent=cotangent[:, :, own],
            slope=slope,
            returning=tuple(returning),
            slopes=self._windows.flatten(1, 2),
            returned=returned.view(rows),
            adding=()
            if self.whole
            else tuple(
                partial(cotangent[:, :, there].add_, returned[:, :, here])
                for there, here in self._pieces
            ),
        )


class Gathered(Span):
    """All channels of a sparse graph, node by node: rows are nodes of trajectories.

    A node hears itself and one message along each relation, (1 + R) d channels, so that work and
    memory grow with the edges.
    """

    def __init__(self, graph: Graph, d: int, *, batch: int, count: int, like: Tensor) -> None:
        relations = 1 + len(graph.relations)
        entries = np.arange(relations * d * d).reshape(relations, d, d)  # (r, a, b)
        entries = entries.transpose(0, 2, 1).reshape(relations * d, d)  # ((r, b), a)
        layout = entries, np.ones(entries.shape)
        super().__init__(
            slice(0, graph.nodes * d),
            layout,
            (entries.T, layout[1].T),
            rows=batch * graph.nodes,
            count=count,
            like=like,
        )
        self._relations = [NeighbourSum(r, like) for r in graph.relations]
        self._transposed = [NeighbourSum(r.T.tocsr(), like) for r in graph.relations]
        self._nodes = (len(like), batch, graph.nodes)
        self._returned = like.new_empty(len(like), batch * graph.nodes, relations * d)

    def update(self, number, buffers):
        heard, slopes = self.heard[:, number], self.slopes[:, number]
        gate, cotangent = buffers.gate, buffers.cotangent
        proposal = torch.empty_like(buffers.drive)
        rows = (len(gate), -1, slopes.shape[-1])
        nodes = (*self._nodes, slopes.shape[-1])
        parts = heard.view(*self._nodes, 1 + len(self._relations), -1)
        hear = partial(self._hear, gate.view(nodes), parts)
        returned = self._returned.view(parts.shape)
        add = partial(self._add, returned, cotangent.view(nodes))
        slope = slopes.view(proposal.shape)
        return Update(
            self, gate, gate, (hear,), heard, buffers.drive.view(rows), proposal,
            proposal.view(rows), (), cotangent, slope, (), slopes, self._returned, (add,),
        )  # fmt: skip

    def _hear(self, gate: Tensor, heard: Tensor) -> None:
        heard[..., 0, :] = gate
        for r, relation in enumerate(self._relations, start=1):
            heard[..., r, :] = relation(gate)

    def _add(self, returned: Tensor, cotangent: Tensor) -> None:
        cotangent += returned[..., 0, :]
        for r, relation in enumerate(self._transposed, start=1):
            cotangent += relation(returned[..., r, :])
