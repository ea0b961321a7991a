"""Training runs carried out side by side, each kept as an artifact as soon as it is done.

The unit of work is a chunk of one arm's run. Any ``concurrent.futures.Executor`` will do, also
one whose workers are other machines: a chunk's settings go out, its population comes back, and
this process alone writes artifacts.
"""

import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from clusterdyn.arms import MODELS_PER_CHUNK
from clusterdyn.artifacts import ArtifactStore, Stage
from clusterdyn.installation import DifferentInstallation, Installation, instruction_set
from clusterdyn.populations import join_populations

PROGRESS_SECONDS = 2.0  # between lines of progress
LOSSES = 3  # how often workers may die before training gives up


class WorkersLost(RuntimeError):
    """Workers died, and what they had at hand is not done; the message says what to do."""


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parse_workers(text: str) -> int:
    """Reads a number of worker processes.

    Raises:
        ValueError: unless it is a whole number of at least 1.
    """
    try:
        workers = int(text)
    except ValueError:
        workers = 0
    if workers < 1:
        raise ValueError(f"workers must be a whole number of at least 1; got {text!r}")
    return workers


class LocalProcesses(Executor):
    """Processes of this machine; a new set takes over where one of them has died.

    A process that dies breaks a ``ProcessPoolExecutor`` for good: all that it had not finished
    raises ``BrokenProcessPool``. The next ``submit`` then starts a new one.

    Args:
        workers: how many processes; each starts when it is first needed.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        # Spawned, not forked: PyTorch's threads do not survive a fork.
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.workers, context, initializer=_end_with_parent)

    def submit(self, fn: Callable, /, *arguments: object, **named: object) -> Future:
        """As of any executor."""
        # Processes start here and inherit the mask: Ctrl-C is for this process alone to answer.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            try:
                return self._pool.submit(fn, *arguments, **named)
            except BrokenExecutor:
                self._pool.shutdown()
                self._pool = self._new_pool()
                return self._pool.submit(fn, *arguments, **named)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As of any executor."""
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)

    def terminate(self) -> None:
        """Ends the processes at once, whatever they are at."""
        # From Python 3.14 on, ProcessPoolExecutor.terminate_workers does it.
        processes = list((self._pool._processes or {}).values())
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


def _end_with_parent() -> None:
    """Lets a worker process end when the one that started it is killed; it would wait forever."""

    def watch() -> None:
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def process_pool(workers: int | None = None) -> Iterator[Executor | None]:
    """Processes of this machine, whose start-up is paid once for all that they run.

    Args:
        workers: how many. By default one for each core that this process may use; on a single
            core there is no pool then, and None is given.
    """
    if workers is None and available_cores() < 2:
        yield None
        return
    with LocalProcesses(workers or available_cores()) as pool:
        try:
            yield pool
        except BaseException:
            pool.terminate()  # Ctrl-C should not wait for the longest of the trainings
            raise


@contextmanager
def workers_of(executor: Executor | None) -> Iterator[Executor | None]:
    """A given executor, which stays open for what comes after, or processes of this machine.

    Args:
        executor: or None.
    """
    if executor is not None:
        yield executor
        return
    with process_pool() as pool:
        yield pool


class Run(Protocol):
    """What can be trained and kept, such as ``arms.TrainingRun``; equal runs have equal hashes.

    Attributes:
        result_type: dataclass of what ``train`` returns.
        models: how many models are trained.
        updates: that each goes through.
        stage: what the result depends on.
        chunks: runs that can be done apart, of which it is put together; itself if it is one.
        only_here: whether no other process can do it, as where a notebook cell defines a schedule.
    """

    result_type: type
    models: int
    updates: int
    stage: Stage
    chunks: tuple["Run", ...]
    only_here: bool

    def train(self) -> Any:
        """Does the work."""


@dataclass(frozen=True)
class Trained:
    """What a worker hands back.

    Attributes:
        result: of the run.
        seconds: that it took, data and evaluation included, in s.
        instructions: the worker's instruction set.
    """

    result: Any
    seconds: float
    instructions: str


def train_chunk(run: Run, caller: Installation, key: str) -> Trained:
    """A worker's task.

    Args:
        run: a chunk.
        caller: the installation that the result is for.
        key: of the run's stage, as the caller has it.

    Raises:
        DifferentInstallation: if this process's own would give another result.
    """
    caller.check(Installation.here())
    if run.stage.key != key:
        raise DifferentInstallation(
            f"a worker has another source of {run.stage.name!r} than this command: the module of "
            "your schedule has changed meanwhile, or is another one there"
        )
    started = time.perf_counter()
    result = run.train()
    return Trained(result, time.perf_counter() - started, instruction_set())


def train_all(
    runs: Sequence[Run],
    store: ArtifactStore,
    *,
    executor: Executor | None = None,
    what: str = "runs",
    progress: Callable[[str], None] | None = None,
) -> dict[Run, Any]:
    """Every run's result, from its artifact where there is one.

    A population is stored as soon as it is there: whatever stops the training, it is not lost.

    Args:
        runs: may repeat.
        store: where artifacts are kept; only this process needs to see it.
        executor: carries out what is missing; in this process without one.
        what: names the runs in lines of progress.
        progress: called with one line now and then; the store's by default.

    Returns:
        A result for each run.

    Raises:
        WorkersLost: if workers died more than ``LOSSES`` times.
        DifferentInstallation: if a worker's code or PyTorch is not this process's.
    """
    say = progress or store.progress
    runs = list(dict.fromkeys(runs))
    missing = [run for run in runs if not store.directory(run.stage).exists()]
    chunks = [c for run in missing for c in run.chunks if not store.directory(c.stage).exists()]
    if len(missing) < len(runs):
        say(f"{what}: {len(runs) - len(missing)} of {len(runs)} populations reused")
    models = sum(chunk.models for chunk in chunks)
    if chunks:
        say(f"{what}: training {len(chunks)} populations, {models} models")
    # The longest first, so that no worker is left with one at the end.
    chunks.sort(key=lambda chunk: chunk.models * chunk.updates, reverse=True)
    started = said = time.monotonic()
    instructions, seconds = {instruction_set()}, 0.0
    for done, (chunk, trained) in enumerate(_trained(chunks, executor, what, say), start=1):
        store.keep(chunk.stage, trained.result, trained.seconds)
        seconds += trained.seconds
        if trained.instructions not in instructions:
            instructions.add(trained.instructions)
            say(
                f"warning: a worker computes with {trained.instructions} and this process with "
                f"{instruction_set()}: their results agree but for rounding, and not to the bit"
            )
        if time.monotonic() - said > PROGRESS_SECONDS or done == len(chunks):
            said = time.monotonic()
            each = f"; {1000 * seconds / models:.0f} ms a model and core"
            say(
                f"{what}: {done} of {len(chunks)} populations, {said - started:.1f} s"
                f"{each if done == len(chunks) else ''}"
            )
    quiet = ArtifactStore(store.root, lambda line: say(line) if "warning" in line else None)
    return {run: _stored(run, quiet) for run in runs}


def _trained(
    chunks: Sequence[Run],
    executor: Executor | None,
    what: str,
    say: Callable[[str], None],
) -> Iterator[tuple[Run, Trained]]:
    """Each chunk as it is done; those that a dead worker had at hand are sent out again."""
    here = Installation.here()
    own = [chunk for chunk in chunks if executor is None or chunk.only_here]
    yield from ((chunk, train_chunk(chunk, here, chunk.stage.key)) for chunk in own)
    chunks = [chunk for chunk in chunks if chunk not in own]
    if executor is None or not chunks:
        return
    for loss in range(LOSSES + 1):
        lost = []
        futures = {}
        try:
            for chunk in chunks:
                try:
                    futures[executor.submit(train_chunk, chunk, here, chunk.stage.key)] = chunk
                except BrokenExecutor:
                    lost.append(chunk)
            for future in as_completed(futures):
                chunk = futures.pop(future)  # lets go of its result
                try:
                    trained = future.result()
                except BrokenExecutor:
                    lost.append(chunk)
                else:
                    yield chunk, trained
        except BaseException:
            # Local processes are ended instead: in Python 3.11 a pool that breaks stumbles over
            # futures that were cancelled.
            if not isinstance(executor, LocalProcesses):
                for future in futures:
                    future.cancel()
            raise
        if not lost:
            return
        chunks = lost
        if loss < LOSSES:
            say(
                f"{what}: a worker died; {len(lost)} populations are trained again (loss "
                f"{loss + 1} of {LOSSES} that are borne)"
            )
    raise WorkersLost(
        f"{what}: workers died {LOSSES + 1} times, and {len(lost)} populations are missing. "
        "Perhaps memory ran out: try fewer workers. What was trained is kept, and the same command "
        "goes on from there"
    )


def _stored(run: Run, store: ArtifactStore) -> Any:
    """A run's result from its artifact; put together of its chunks where that is missing."""

    def whole() -> Any:
        if len(run.chunks) == 1:
            return run.train()
        return join_populations([_stored(chunk, store) for chunk in run.chunks])

    return store.load_or_compute(run.stage, run.result_type, whole)


@dataclass(frozen=True)
class TrainingCost:
    """What it takes to train many models.

    Attributes:
        models, cores: what was asked for.
        chunks: pieces that the work is cut in.
        core_hours: of work.
        hours: until the last chunk is done, with one chunk at a time on a core.
    """

    models: int
    cores: int
    chunks: int
    core_hours: float
    hours: float


def training_cost(seconds_per_model: float, models: int, cores: int) -> TrainingCost:
    """Extrapolates a measured time to many models on many cores.

    Chunks are not divided: on more cores than chunks some have nothing to do, and in the last
    round some are done before others.

    Args:
        seconds_per_model: on one core, in a chunk of ``MODELS_PER_CHUNK`` models, in s.
        models, cores: at least one.

    Raises:
        ValueError: for a time that is not positive, or for less than one model or core.
    """
    if not seconds_per_model > 0 or models < 1 or cores < 1:
        raise ValueError(
            "a cost needs a positive time and at least one model and core; got "
            f"{seconds_per_model} s, {models} models and {cores} cores"
        )
    chunks = math.ceil(models / MODELS_PER_CHUNK)
    rounds = math.ceil(chunks / cores)
    longest = min(models, MODELS_PER_CHUNK)
    return TrainingCost(
        models=models,
        cores=cores,
        chunks=chunks,
        core_hours=models * seconds_per_model / 3600,
        hours=rounds * longest * seconds_per_model / 3600,
    )
