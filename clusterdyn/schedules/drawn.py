"""Schedules that draw clusters at random, and how predictable their draws are."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from clusterdyn.graph import Partition
from clusterdyn.schedules.base import Schedule

SHARES = ("trajectory", "batch", "always")
_AT_ONCE = 64  # draws taken from a generator together


def _rows(blocks: Iterator[np.ndarray], batch: int) -> Iterator[Tensor]:
    """(S, B) after (S, B), from blocks (draws, S, B) or (draws, S, 1)."""
    for block in blocks:
        yield from torch.as_tensor(block).expand(-1, -1, batch).unbind(0)


class RandomCluster(Schedule):
    """One cluster a sweep, drawn uniformly from its model's own stream.

    Args:
        partition: of the nodes.
        share: what shares a draw. "trajectory": nothing, each trajectory has its own. "batch":
            all trajectories that run together. "always": every rollout of the model, in training
            and at test: a random order, but one that the model can get used to.
    """

    name = "random"

    def __init__(self, partition: Partition, share: str = "trajectory") -> None:
        super().__init__(partition)
        self.share = share

    def start(self, generators, batch):
        if self.share == "always":
            # The entropy of a model's generators is its seed, in training and at test.
            seeds = [g.bit_generator.seed_seq.entropy for g in generators]
            generators = [np.random.default_rng([*np.atleast_1d(s), 1]) for s in seeds]
        width = batch if self.share == "trajectory" else 1
        return _rows(self._blocks(generators, width), batch)

    def _blocks(self, generators: Sequence[np.random.Generator], width: int):
        while True:
            size = (_AT_ONCE, width)
            yield np.stack(
                [g.integers(self.partition.clusters, size=size) for g in generators], axis=1
            )

    def choose(self, view, state):
        return next(state), state  # without a look at the view, which would have to be made


class NoisyRoundRobin(RandomCluster):
    """Round robin in which a sweep's turn is replaced by a random cluster now and then.

    Args:
        partition: of the nodes.
        noise: probability, in [0, 1], that a trajectory's turn is replaced: 0 is round robin, 1
            is ``random``.
    """

    name = "round_robin"

    def __init__(self, partition: Partition, noise: float) -> None:
        super().__init__(partition)
        self.noise = noise

    def _blocks(self, generators, width):
        turn = np.arange(_AT_ONCE).reshape(-1, 1, 1)
        while True:
            size = (_AT_ONCE, width)
            drawn = [
                (g.random(size) < self.noise, g.integers(self.partition.clusters, size=size))
                for g in generators
            ]
            replaced, other = (np.stack(part, axis=1) for part in zip(*drawn, strict=True))
            yield np.where(replaced, other, turn % self.partition.clusters)
            turn = turn + _AT_ONCE
