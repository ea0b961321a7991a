"""Times of calls that are too short to be timed one by one."""

import math
import time
from collections.abc import Callable, Sequence

import numpy as np


def interleaved_times(
    calls: Sequence[Callable[[], object]], *, repeats: int, block_seconds: float
) -> np.ndarray:
    """Seconds a call, in blocks of calls that last long enough to be timed; the calls take turns.

    Each is called once before anything is timed, so that its memory is there. A call that lasts
    long enough by itself is a block.

    Args:
        calls: what is timed.
        repeats: blocks of each.
        block_seconds: the least time of a block, about.

    Returns:
        (calls, repeats).
    """
    for call in calls:
        call()
    once = [_block(call, 1) for call in calls]
    counts = [max(1, math.ceil(block_seconds / max(seconds, 1e-9))) for seconds in once]
    rounds = [once] if max(counts) == 1 else []
    while len(rounds) < repeats:
        rounds.append([_block(call, count) for call, count in zip(calls, counts, strict=True)])
    return np.array(rounds).T


def _block(call: Callable[[], object], count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - started) / count
