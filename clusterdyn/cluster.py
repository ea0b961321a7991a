"""A running Dask cluster as an executor: its scheduler shares work out, and sees to lost workers.

A worker that dies is Dask's to replace: what it had at hand goes to the others, and a task that
four workers have died of (``distributed.scheduler.allowed-failures``) is given up.
"""

import asyncio
import logging
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from clusterdyn.execution import WorkersLost
from clusterdyn.installation import DifferentInstallation

CONNECT_SECONDS = 5.0


class SchedulerError(ValueError):
    """There is no scheduler to work with; the message says why and what to do."""


@contextmanager
def dask_executor(address: str, progress: Callable[[str], None] = print) -> Iterator[Executor]:
    """Connects to a running Dask scheduler.

    Args:
        address: of the scheduler, such as "tcp://10.0.0.5:8786".
        progress: called with one line when workers come or go.

    Raises:
        SchedulerError: if ``distributed`` is not installed, or no scheduler answers there.
        WorkersLost: in the block, if the scheduler went away or gave up a task.
        DifferentInstallation: in the block, if a worker has no ``clusterdyn`` that knows the task.
    """
    try:
        import distributed
    except ImportError as error:
        raise SchedulerError(
            "a Dask cluster needs the package distributed, which is not installed: "
            "pip install -e '.[distributed]'"
        ) from error
    with _quiet("distributed", "tornado"):
        _check_answer(address, distributed)
        with distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False) as client:
            _Watch(client, address, progress)
            try:
                yield DaskExecutor(client.get_executor(pure=False))
            except distributed.KilledWorker as error:
                died = _counted(error.allowed_failures + 1, "worker")
                raise WorkersLost(
                    f"{died} of {address} died over the same task, and Dask has given it up. "
                    "Perhaps memory ran out: see the workers' logs. What was trained is kept, and "
                    "the same command goes on from there"
                ) from error
            except CancelledError as error:
                raise WorkersLost(
                    f"the scheduler at {address} is gone. What was trained is kept, and the same "
                    "command goes on from there"
                ) from error
            except ImportError as error:
                if error.name != _UNREADABLE:
                    raise
                raise DifferentInstallation(str(error)) from error


class DaskExecutor(Executor):
    """Dask's own executor, with tasks that a worker of another installation can refuse.

    A worker, and the scheduler, die of a task that refers to a module they do not have. So a task
    travels as bytes, and a function that travels whole opens them.

    Args:
        executor: as ``distributed.Client.get_executor`` gives it.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._open = _opener()

    def submit(self, fn: Callable, /, *arguments: object, **named: object) -> Future:
        """As of any executor."""
        return self._executor.submit(self._open, pickle.dumps((fn, arguments, named)))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As of any executor."""
        self._executor.shutdown(wait=wait and not cancel_futures)


_UNREADABLE = "a task of clusterdyn"


def _opener() -> Callable[[bytes], Any]:
    unreadable = _UNREADABLE

    # Pickled by value, since it is no module's: it may use nothing but itself and Python.
    def open_task(task: bytes) -> Any:
        import pickle
        import platform

        try:
            function, arguments, named = pickle.loads(task)
        except Exception as error:
            raise ImportError(
                f"the worker on {platform.node()} cannot read its task ({error}): install the "
                "same checkout of clusterdyn there and start it anew",
                name=unreadable,
            ) from None
        return function(*arguments, **named)

    return open_task


def _check_answer(address: str, distributed: Any) -> None:
    """Asks for a handshake first: a client waits forever for a program that never answers."""

    async def shake_hands() -> None:
        options = distributed.Security().get_connection_args("client")
        connection = await distributed.comm.connect(address, timeout=CONNECT_SECONDS, **options)
        await connection.close()

    async def within_seconds() -> None:
        await asyncio.wait_for(shake_hands(), CONNECT_SECONDS)

    try:
        # In a thread of its own, since a notebook's kernel has a loop running in this one.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, within_seconds()).result()
    except Exception as error:  # whatever the bytes of another program are mistaken for
        reason = f" ({error})" if isinstance(error, (ValueError, TypeError)) else ""
        raise SchedulerError(
            f"no Dask scheduler answers at {address!r}{reason}; give the address that "
            "`dask scheduler` prints, such as tcp://10.0.0.5:8786"
        ) from error


class _Watch:
    """Says which workers there are, and which come and go."""

    def __init__(self, client: Any, address: str, progress: Callable[[str], None]) -> None:
        self.progress = progress
        found = client.scheduler_info()["workers"]
        self.workers = set(found)
        threads = sum(worker["nthreads"] for worker in found.values())
        hint = "; waiting for some" if not found else ""
        if threads > len(found):
            hint = f" of {threads} threads; they are quicker as `dask worker --nthreads 1`"
        progress(f"cluster: {self._count()} at {address}{hint}")
        client.subscribe_topic("all", self.tell)

    def tell(self, event: tuple[float, dict[str, Any]]) -> None:
        """Takes an event of the scheduler: its time, and what happened."""
        _, what = event
        worker = what.get("worker")
        if what["action"] == "add-worker":
            self.workers.add(worker)
            self.progress(f"cluster: {worker} has joined; {self._count()}")
        elif what["action"] == "remove-worker":
            self.workers.discard(worker)
            tasks = len(what["processing-tasks"]) + len(what["lost-computed-tasks"])
            again = f"; {_counted(tasks, 'task')} will be done by others" if tasks else ""
            wait = "" if self.workers else "; waiting for another"
            self.progress(f"cluster: {worker} is gone{again}; {self._count()}{wait}")

    def _count(self) -> str:
        return _counted(len(self.workers), "worker")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


@contextmanager
def _quiet(*packages: str) -> Iterator[None]:
    """Keeps packages' logs off the terminal; failures are raised anyway."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in packages]
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
