"""Linear maps of one update, as views planned beforehand."""

from clusterdyn.spans.base import Actions, Buffers, Span, Update
from clusterdyn.spans.dense import DenseBlock, DenseWhole
from clusterdyn.spans.sparse import Gathered, Tiles

__all__ = ["Actions", "Buffers", "DenseBlock", "DenseWhole", "Gathered", "Span", "Tiles", "Update"]
