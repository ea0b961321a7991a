"""Processes to measure in: each begins clean, and tells how much memory it came to need."""

import multiprocessing
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

import torch

# The second is what PyTorch's own optimisers import when the first of them is made.
PRELOADED = ["clusterdyn.bench.cost", "torch._dynamo"]


def peak_memory() -> int:
    """The most memory that this process has had resident, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # elsewhere it is counted in KiB


class MeasuringProcess:
    """A process of its own, which makes one object and calls its methods when asked.

    It is forked from a server that has imported PyTorch and computed nothing, so that it starts
    at once and nothing that ran before shows in its time or memory. To be used in a ``with``.

    Args:
        name: what is measured, for messages.
        make: makes the object, in the process; must be picklable.
        threads: that PyTorch uses there.
    """

    def __init__(self, name: str, make: Callable[[], Any], *, threads: int = 1) -> None:
        self.name = name
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, threads), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> "MeasuringProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()

    def ask(self, method: str, *arguments: Any) -> None:
        """Has a method called; ``answer`` waits for its end."""
        try:
            self._connection.send((method, arguments))
        except OSError:
            self._has_ended()

    def answer(self) -> tuple[Any, int]:
        """What the method returned, and the peak memory so far, in bytes, above the start's.

        Raises:
            ChildProcessError: if the process has ended.
            Exception: whatever the method has raised.
        """
        try:
            answer = self._connection.recv()
        except (EOFError, OSError):
            self._has_ended()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def call(self, method: str, *arguments: Any) -> tuple[Any, int]:
        """Asks and waits for the answer."""
        self.ask(method, *arguments)
        return self.answer()

    def _has_ended(self) -> None:
        raise ChildProcessError(
            f"the process that measures {self.name} has ended early (killed, or out of memory); "
            "choose smaller sizes or close other programs"
        ) from None


def _serve(connection: Any, make: Callable[[], Any], threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks decides when to stop
    torch.set_num_threads(threads)
    try:
        measured = make()
        before = peak_memory()
        while True:
            method, arguments = connection.recv()
            answer = getattr(measured, method)(*arguments)
            connection.send((answer, peak_memory() - before))
    except EOFError:
        return  # nobody asks any more
    except Exception as error:
        connection.send(error)
