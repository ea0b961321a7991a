"""Linear maps of one update: what a span of nodes hears, and how its slopes go back.

A *span* is a range of channels that move together. With u the gates, M the recurrent matrix of a
model and c what goes back, times a factor that it is carried with (see ``clusterdyn.adjoint``), a
span gives

    q = 4 u M + z                of its own channels alone, from the sources that it hears,
    c <- c + factor 4 c_q M^T,
    g_W from u^T c_q             of all its updates at once, one matrix product a model.

Four kinds: all channels by a dense matrix, a range by a smaller one, tiles of a ring, and nodes
of a sparse graph. They differ in where things stand and not in what is done, so a span plans each
of its updates as views of buffers that are made once: at these sizes a view made on the way costs
as much as a product.

A product's output must be one contiguous block, or PyTorch loops over the models; what is kept
for the gradient of the weights is population-first, so that all updates of a span are one product.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Actions = tuple[Callable[[], object], ...]


@dataclass(frozen=True)
class Buffers:
    """What all updates of a rollout share.

    Attributes:
        gate: u, (S, B, n d), where it moves in place.
        drive: z in the units of q, (S, B, n d), of the present time step.
        cotangent: c, (S, B, n d).
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
        own_cotangent: c of the span, (S, B, own).
        slope: c_q of the span, (S, B, own).
        returning: fills ``slopes``.
        slopes: c_q as the product back takes it, (S, rows, targets).
        returned: that product, (S, rows, sources); c itself if ``adding`` is empty.
        adding: adds ``returned`` to c.
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


class Span(ABC):
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
        back: what c_q is multiplied by on its way to c.
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

    def bind(self, quadruple: Tensor, factor: float) -> None:
        """Lays out the weights of the population.

        Args:
            quadruple: 4 times the messages, (S, M + 1), flat; the last column 0.
            factor: that c is carried with.
        """
        self._forward.fill(quadruple)
        self._backward.fill(quadruple * factor)

    def add_gradient(self, messages: Tensor) -> None:
        """Adds 4 u^T c_q of all updates to the gradient of the flat messages, (S, M)."""
        heard, slopes = self.heard.flatten(1, 2), self.slopes.flatten(1, 2)
        torch.bmm(heard.mT, slopes, out=self._product)
        used = self._product.flatten(1).index_select(1, self._used).mul_(self._strength_of_used)
        messages.index_add_(1, self._message_of_used, used)

    def start(self, gate: Tensor) -> None:
        """Sets u to 1 / 2, which is h = 0."""
        gate.fill_(0.5)

    def tensors(self) -> list[Tensor]:
        """All that it keeps."""
        owners = (self, self._forward, self._backward)
        return [v for owner in owners for v in vars(owner).values() if isinstance(v, Tensor)]

    @abstractmethod
    def update(self, number: int, buffers: Buffers) -> Update:
        """Plans one of the span's updates."""


def runs(places: np.ndarray) -> list[tuple[slice, slice]]:
    """Places as ranges without gaps, each with the range that it takes when they are packed."""
    starts = np.flatnonzero(np.diff(places, prepend=places[0] - 2) != 1)
    stops = np.append(starts[1:], len(places))
    return [
        (slice(int(places[a]), int(places[b - 1]) + 1), slice(int(a), int(b)))
        for a, b in zip(starts, stops, strict=True)
    ]
