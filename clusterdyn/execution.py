"""Training runs carried out side by side, each kept as an artifact as soon as it is done."""

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from clusterdyn.artifacts import ArtifactStore, Stage

PROGRESS_SECONDS = 2.0  # between lines of progress


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def process_pool(workers: int):
    """Processes of one thread each; their start-up is paid once for all that they run.

    Args:
        workers: how many; with 1 there is no pool, and None is given.
    """
    if workers < 2:
        yield None
        return
    # Spawned, not forked: PyTorch's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class Run(Protocol):
    """What can be trained and kept, such as ``arms.TrainingRun``; equal runs have equal hashes.

    Attributes:
        result_type: dataclass of what ``train`` returns.
        models: how many models are trained.
        updates: that each goes through.
        stage: what the result depends on.
    """

    result_type: type
    models: int
    updates: int
    stage: Stage

    def train(self) -> Any:
        """Does the work."""


def train_all(
    runs: Sequence[Run],
    store: ArtifactStore,
    *,
    executor: Executor | None = None,
    what: str = "runs",
    progress: Callable[[str], None] | None = None,
) -> dict[Run, Any]:
    """Every run's result, from its artifact where there is one.

    Args:
        runs: may repeat.
        store: where artifacts are kept.
        executor: carries out what is missing; in this process without one. Its workers must see
            the store's directory.
        what: names the runs in lines of progress.
        progress: called with one line now and then; the store's by default.

    Returns:
        A result for each run.
    """
    say = progress or store.progress
    runs = list(dict.fromkeys(runs))
    missing = [run for run in runs if not store.directory(run.stage).exists()]
    if len(missing) < len(runs):
        say(f"{what}: {len(runs) - len(missing)} of {len(runs)} populations reused")
    if missing:
        models = sum(run.models for run in missing)
        say(f"{what}: training {len(missing)} populations, {models} models")
    started = said = time.monotonic()
    # The longest first, so that no worker is left with one at the end.
    missing.sort(key=lambda run: run.models * run.updates, reverse=True)
    if executor is None or len(missing) < 2:
        jobs = (_train_and_keep(run, store.root) for run in missing)
    else:
        futures = [executor.submit(_train_and_keep, run, store.root) for run in missing]
        jobs = (future.result() for future in as_completed(futures))
    for done, _ in enumerate(jobs, start=1):
        if time.monotonic() - said > PROGRESS_SECONDS or done == len(missing):
            said = time.monotonic()
            say(f"{what}: {done} of {len(missing)} populations, {said - started:.1f} s")
    quiet = ArtifactStore(store.root, _no_progress)
    return {run: quiet.load_or_compute(run.stage, run.result_type, run.train) for run in runs}


def _train_and_keep(run: Run, root: Path) -> None:
    ArtifactStore(root, _no_progress).load_or_compute(run.stage, run.result_type, run.train)


def _no_progress(line: str) -> None:
    pass
