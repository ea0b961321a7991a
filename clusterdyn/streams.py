"""Independent random streams: everything random in a run comes from its seed alone.

A stream belongs to a seed and a purpose, never to an arm, a learning rate or the size of the
population. Two arms on one seed therefore see the same data, start from the same weights and
visit the same minibatches: they are a true pair.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SeedStreams:
    """The root of each random stream of one seed.

    The fields are :class:`numpy.random.SeedSequence` children, spawned in this order (a new
    purpose goes to the end, so that it changes no earlier stream).
    """

    train: np.random.SeedSequence
    validation: np.random.SeedSequence
    test: np.random.SeedSequence
    weights: np.random.SeedSequence
    minibatches: np.random.SeedSequence
    schedule_training: np.random.SeedSequence
    schedule_evaluation: np.random.SeedSequence
    policy_learning: np.random.SeedSequence

    def minibatch_stream(self, number: int) -> np.random.SeedSequence:
        """One of the seed's minibatch orders; number 0 is ``minibatches`` itself."""
        root = self.minibatches
        if number == 0:
            return root
        return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, number))


def seed_streams(seed: int) -> SeedStreams:
    """Spawns the streams of one seed (``numpy.random.SeedSequence(seed).spawn``).

    Args:
        seed: a non-negative integer.

    Returns:
        One independent root per purpose.
    """
    children = np.random.SeedSequence(seed).spawn(len(SeedStreams.__dataclass_fields__))
    return SeedStreams(*children)
