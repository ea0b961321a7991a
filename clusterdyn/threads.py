"""How many threads PyTorch uses, set and restored explicitly."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Runs PyTorch on ``count`` threads, then restores the earlier number.

    The products of this study are too small to share. A second thread gains little on a quiet
    machine and costs an order of magnitude on a busy one, where threads wait for each other; so
    training runs on one, and two processes are the way to use two cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
