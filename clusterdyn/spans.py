"""Linear maps of one update: what a span of nodes hears, and how its slopes go back.

A *span* is a range of channels that move together. With u the gates, M the recurrent matrix of a
model and eta the relaxation factor (see ``clusterdyn.adjoint``) a span gives

    q = 4 u M + z                of its own channels alone, from the sources that it hears,
    c <- c + eta 4 c_q M^T,
    g_W from u^T c_q             of all its updates at once, one matrix product a model.

Four kinds: all channels by a dense matrix, a range by a smaller one, tiles of a ring, and nodes
of a sparse graph. They differ in where things stand and not in what is done, so a span plans each
of its updates as views of buffers that are made once: at these sizes a view made on the way costs
as much as a product.

A product's output must be one contiguous block, or PyTorch loops over the models; what is kept
for the gradient of the weights is population-first, so that all updates of a span are one product.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from clusterdyn.graph import Graph, NeighbourSum, ring
from clusterdyn.model import recurrent_entries

TILE_NODES = 4  # about as many give the fastest tiles
Actions = tuple[Callable[[], object], ...]


@dataclass(frozen=True)
class Buffers:
    """What all updates of a rollout share.

    Attributes:
        gate: u, (S, B, n d), where it moves in place.
        drive: z in the units of q, (S, B, n d), of the present time step.
        cotangent: eta dL/du, (S, B, n d).
    """

    gate: Tensor
    drive: Tensor
    cotangent: Tensor


@dataclass(frozen=True)
class Update:
    """One update of a rollout, as views and actions on them; rows are B, or B times the tiles.

    Attributes:
        span: whose update it is.
        gate: u before it, (S, B, n d).
        own_gate: u of the span, (S, B, own); ``gate`` itself if that is all.
        hearing: fills ``heard``, and ``drive`` where that is a copy.
        heard: u of the sources, (S, rows, sources).
        drive: z of the span, (S, rows, targets).
        proposal: r of the span, (S, B, own), and as rows.
        keeping: makes copies of u anew once it has moved.
        own_cotangent: eta c of the span, (S, B, own).
        slope: c_q of the span, (S, B, own).
        returning: fills ``slopes``.
        slopes: c_q as the product back takes it, (S, rows, targets).
        returned: that product, (S, rows, sources); eta c itself if ``adding`` is empty.
        adding: adds ``returned`` to eta c.
    """

    span: "Span"
    gate: Tensor
    own_gate: Tensor
    hearing: Actions
    heard: Tensor
    drive: Tensor
    proposal: Tensor
    proposal_rows: Tensor
    keeping: Actions
    own_cotangent: Tensor
    slope: Tensor
    returning: Actions
    slopes: Tensor
    returned: Tensor
    adding: Actions


class _Layout:
    """Where the flat messages stand in a matrix, and how strongly."""

    def __init__(self, entries: np.ndarray, strengths: np.ndarray, like: Tensor) -> None:
        self.matrix = like.new_empty(len(like), *entries.shape)
        self._entries = torch.as_tensor(entries.ravel(), device=like.device)
        plain = np.isin(strengths, (0, 1)).all()
        self._strengths = None if plain else torch.as_tensor(strengths).to(like)

    def fill(self, messages: Tensor) -> None:
        """Fills the matrix from flat messages (S, M + 1), the last of which is 0."""
        torch.index_select(messages, 1, self._entries, out=self.matrix.view(len(messages), -1))
        if self._strengths is not None:
            self.matrix.mul_(self._strengths)


class Span:
    """A range of channels, what its updates keep, and the weights between it and its sources.

    Args:
        own: the channels.
        layout: entries and strengths, (sources, targets), as of ``recurrent_entries``.
        back: the same of the product back, (targets, sources).
        rows: of one update.
        count: updates in a rollout.
        like: a tensor (S, ...) of the precision and device to work in.

    Attributes:
        own: the channels.
        heard: (S, count, rows, sources), u of the sources before each update.
        slopes: (S, count, rows, targets), c_q of each update.
        weights: 4 M, (S, sources, targets).
        back: what c_q is multiplied by on its way to eta c.
    """

    def __init__(
        self,
        own: slice,
        layout: tuple[np.ndarray, np.ndarray],
        back: tuple[np.ndarray, np.ndarray],
        *,
        rows: int,
        count: int,
        like: Tensor,
    ) -> None:
        self.own = own
        entries, strengths = layout
        population, (sources, targets) = len(like), entries.shape
        # One more than needed: models a multiple of 4096 bytes apart share cache lines.
        self.heard = like.new_empty(population, count + 1, rows, sources)[:, :count]
        self.slopes = like.new_empty(population, count + 1, rows, targets)[:, :count]
        self._forward, self._backward = _Layout(*layout, like), _Layout(*back, like)
        self.weights, self.back = self._forward.matrix, self._backward.matrix
        self._product = torch.empty_like(self.weights)
        used = np.flatnonzero(strengths)
        self._used = torch.as_tensor(used, device=like.device)
        self._message_of_used = torch.as_tensor(entries.ravel()[used], device=like.device)
        self._strength_of_used = 4 * torch.as_tensor(strengths.ravel()[used]).to(like)

    def bind(self, quadruple: Tensor, relaxation: float) -> None:
        """Lays out the weights of the population.

        Args:
            quadruple: 4 times the messages, (S, M + 1), flat; the last column 0.
            relaxation: eta.
        """
        self._forward.fill(quadruple)
        self._backward.fill(quadruple * relaxation)

    def add_gradient(self, messages: Tensor) -> None:
        """Adds 4 u^T c_q of all updates to the gradient of the flat messages, (S, M)."""
        heard, slopes = self.heard.flatten(1, 2), self.slopes.flatten(1, 2)
        torch.bmm(heard.mT, slopes, out=self._product)
        used = self._product.flatten(1).index_select(1, self._used).mul_(self._strength_of_used)
        messages.index_add_(1, self._message_of_used, used)

    def start(self, gate: Tensor) -> None:
        """Sets u to 1 / 2, which is h = 0."""
        gate.fill_(0.5)

    def update(self, number: int, buffers: Buffers) -> Update:
        """Plans one of the span's updates."""
        raise NotImplementedError


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
        self._pieces = _runs(places)
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


def _runs(places: np.ndarray) -> list[tuple[slice, slice]]:
    """Places as ranges without gaps, each with the range that it takes when they are packed."""
    starts = np.flatnonzero(np.diff(places, prepend=places[0] - 2) != 1)
    stops = np.append(starts[1:], len(places))
    return [
        (slice(int(places[a]), int(places[b - 1]) + 1), slice(int(a), int(b)))
        for a, b in zip(starts, stops, strict=True)
    ]


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
        self._pieces = _runs(np.arange(own.start - beyond, own.stop + beyond) % self.width)

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
