"""Training side by side: chunks, any executor, workers that die, and what is kept of it all."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from populations import SCHEDULES, SMALL, Log, assert_same_bits, small_config, small_runs

from clusterdyn import arms
from clusterdyn.arms import TrainingRun, join_populations
from clusterdyn.config import StudyConfig
from clusterdyn.execution import (
    LOSSES,
    WorkersLost,
    process_pool,
    train_all,
    train_chunk,
    training_cost,
)
from clusterdyn.installation import DifferentInstallation, Installation, instruction_set
from clusterdyn.protocol import Study, open_study
from clusterdyn.strict import results as strict_results
from clusterdyn.training import TrainedPopulation

REPO = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def in_process(tmp_path_factory) -> dict[TrainingRun, TrainedPopulation]:
    """The eight runs, trained one after another in this process."""
    return train_all(small_runs(), Log(tmp_path_factory.mktemp("alone")))


# Chunks.


@pytest.mark.parametrize(
    ("seeds", "rates", "lengths"),
    [
        (2, 1, [2]),
        (256, 1, [256]),
        (257, 1, [257]),  # no chunk of a single seed, which no config can have
        (258, 1, [256, 2]),
        (600, 1, [256, 256, 88]),
        (8, 32, [8]),
        (100, 10, [25, 25, 25, 25]),
        (5, 200, [2, 3]),
        (4, 1000, [2, 2]),
    ],
)
def test_a_run_is_cut_in_chunks_of_at_most_256_models_and_at_least_two_seeds(seeds, rates, lengths):
    grid = tuple(0.001 * (i + 1) for i in range(rates))
    config = replace(StudyConfig(), seeds=tuple(range(seeds)), learning_rates=grid)
    run = TrainingRun(config, "full")
    assert [len(chunk.config.seeds) for chunk in run.chunks] == lengths
    assert sum((chunk.config.seeds for chunk in run.chunks), ()) == config.seeds
    for chunk in run.chunks:
        assert chunk.chunks == (chunk,)
        assert replace(chunk, config=replace(chunk.config, seeds=config.seeds)) == run


def test_more_seeds_leave_the_earlier_chunks_as_they_were():
    shorter, longer = (
        TrainingRun(replace(StudyConfig(), seeds=tuple(range(n)), learning_rates=(0.01,)), "full")
        for n in (512, 900)
    )
    assert longer.chunks[:2] == shorter.chunks
    assert [chunk.stage for chunk in longer.chunks[:2]] == [c.stage for c in shorter.chunks]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_chunks_joined_are_the_run_as_a_whole(schedule, monkeypatch):
    # The second rate makes models diverge.
    config = small_config(seeds=(3, 1, 4, 5, 9), learning_rates=(0.01, 1e200), dtype="float64")
    run = TrainingRun(config, schedule)
    whole = run.train()
    monkeypatch.setattr(arms, "MODELS_PER_CHUNK", 4)
    assert [chunk.models for chunk in run.chunks] == [4, 6]
    joined = run.train()
    assert whole.divergences == joined.divergences and len(whole.divergences) == 5
    assert_array_equal(joined.seeds, [3, 3, 1, 1, 4, 4, 5, 5, 9, 9])
    for name in ("learning_rates", "test_mse", "train_loss", "validation_loss", "parameters"):
        one, other = getattr(whole, name), getattr(joined, name)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        # A product of other matrices beside it may round otherwise.
        assert_allclose(other, one, rtol=1e-9, atol=1e-12)
    # Choices are a mean over models, in single precision.
    assert_allclose(joined.training_choices, whole.training_choices, rtol=1e-6)
    for field in fields(whole.test_ledger):
        assert_array_equal(
            getattr(joined.test_ledger, field.name), getattr(whole.test_ledger, field.name)
        )


def test_choices_of_chunks_are_averaged_over_models_and_their_seconds_added():
    population = TrainingRun(small_config(), "random").train()
    shape = population.training_choices.shape
    parts = [
        replace(population, training_choices=np.full(shape, value, np.float32), seconds=value)
        for value in (1.0, 4.0)
    ]
    first = replace(parts[0], seeds=population.seeds[:3])  # a chunk of half as many models
    joined = join_populations([first, parts[1]])
    assert_array_equal(joined.training_choices, np.full(shape, 3.0, np.float32))
    assert joined.seconds == 5.0


def test_a_run_of_chunks_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(arms, "MODELS_PER_CHUNK", 4)
    run = TrainingRun(small_config(seeds=(0, 1, 2, 3, 4, 5)), "full")
    expected = run.train()

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_all([run], Log(tmp_path, at_first=stop))
    store = Log(tmp_path)
    assert store.kept == 1
    assert_same_bits(train_all([run], store)[run], expected)
    assert store.lines[0] == "runs: training 2 populations, 8 models"
    assert store.kept == 4  # three chunks and the whole
    store.lines.clear()
    assert_same_bits(train_all([run], store)[run], expected)
    assert store.lines == ["runs: 1 of 1 populations reused"]


# Any executor.


class Inline(Executor):
    """Works at once, in this process."""

    def submit(self, fn, /, *arguments, **named) -> Future:
        future = Future()
        try:
            future.set_result(fn(*arguments, **named))
        except BaseException as error:
            future.set_exception(error)
        return future


@pytest.mark.parametrize("make", [Inline, partial(ThreadPoolExecutor, 2)])
def test_any_executor_gives_the_bits_of_this_process(make, tmp_path, in_process):
    with make() as executor:
        populations = train_all(small_runs(), Log(tmp_path), executor=executor)
    for run in small_runs():
        assert_same_bits(populations[run], in_process[run])


def test_lines_of_progress_count_populations_and_tell_what_a_model_took(tmp_path):
    store = Log(tmp_path)
    train_all(small_runs()[:3], store, executor=Inline(), what="strict test")
    assert store.lines[0] == "strict test: training 3 populations, 12 models"
    last = store.lines[-1]
    assert last.startswith("strict test: 3 of 3 populations, ")
    assert last.endswith(" ms a model and core")


def test_an_error_in_training_is_passed_on_and_not_tried_again(tmp_path):
    class Failing(Inline):
        submitted = 0

        def submit(self, fn, /, *arguments, **named):
            self.submitted += 1
            if self.submitted == 2:
                return super().submit(int, "no number")
            return super().submit(fn, *arguments, **named)

    executor, store = Failing(), Log(tmp_path)
    with pytest.raises(ValueError, match="no number"):
        train_all(small_runs(), store, executor=executor)
    assert executor.submitted == len(small_runs())


def test_a_damaged_population_is_trained_again_with_a_warning(tmp_path, in_process):
    run = small_runs()[0]
    train_all([run], Log(tmp_path))
    (directory,) = tmp_path.glob("train-*")
    (directory / "data.npz").write_bytes(b"")
    store = Log(tmp_path)
    assert_same_bits(train_all([run], store)[run], in_process[run])
    assert any("is damaged" in line and line.startswith("warning: ") for line in store.lines)


class Counting(Inline):
    """Counts what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def submit(self, fn, /, run, *arguments) -> Future:
        self.asked.append(run.schedule)
        return super().submit(fn, run, *arguments)


def test_a_study_trains_its_arms_together_on_the_executor_that_it_is_given(tmp_path):
    executor = Counting()
    settings = {**SMALL, "seeds": [0, 1]}

    def study(place: str, **options) -> Study:
        return open_study(
            "quick", settings, tmp_path / place, progress=lambda line: None, **options
        )

    given, alone = study("given", executor=executor), study("alone")
    assert_same_bits(given.population("full"), alone.population("full"))
    assert sorted(executor.asked) == ["full", "histogram"]
    assert_same_bits(given.population("histogram"), alone.population("histogram"))
    assert len(executor.asked) == 2


def test_the_strict_protocol_trains_on_the_executor_that_it_is_given(tmp_path, monkeypatch):
    executor = Counting()
    settings = {**SMALL, "seeds": [0, 1]}

    def run_strict(*arguments, executor):
        raise RuntimeError(executor)

    monkeypatch.setattr(strict_results, "run_strict", run_strict)
    options = {"executor": executor, "progress": lambda line: None}
    with pytest.raises(RuntimeError) as called:
        _ = open_study("quick", settings, tmp_path, **options).strict
    assert called.value.args == (executor,)


# Workers that are not like this process.


class Elsewhere(Inline):
    """A worker to which the caller's installation, or whose result, looks different."""

    def __init__(self, asked: Callable = lambda here: here, answered: Callable = lambda t: t):
        self.asked, self.answered = asked, answered

    def submit(self, fn, /, run, caller, key) -> Future:
        return super().submit(lambda: self.answered(fn(run, self.asked(caller), key)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"source": "0123456789abcdef"},
            r"another source of clusterdyn \([0-9a-f]{10}\) than this command \(0123456789\): put "
            "the same checkout there and start it anew",
        ),
        ({"torch": "1.0"}, r"has PyTorch [0-9.]+\S* and this command PyTorch 1\.0, which round"),
        ({"numpy": "1.0"}, r"has NumPy [0-9.]+ and this command NumPy 1\.0, which round"),
    ],
)
def test_a_worker_of_another_installation_refuses_and_says_what_differs(changes, words, tmp_path):
    executor, store = Elsewhere(asked=lambda here: replace(here, **changes)), Log(tmp_path)
    with pytest.raises(DifferentInstallation, match=words) as refusal:
        train_all(small_runs(), store, executor=executor)
    assert "\n" not in str(refusal.value)
    assert store.kept == 0


def test_a_worker_of_the_same_installation_trains():
    run = small_runs()[0]
    trained = train_chunk(run, Installation.here(), run.stage.key)
    assert_array_equal(trained.result.seeds, [0, 0, 1, 1])
    assert trained.seconds >= trained.result.seconds > 0
    assert trained.instructions == instruction_set()


def test_other_vector_instructions_are_warned_of_once(tmp_path):
    executor = Elsewhere(answered=lambda trained: replace(trained, instructions="ABACUS"))
    store = Log(tmp_path)
    train_all(small_runs()[:3], store, executor=executor)
    (warning,) = (line for line in store.lines if line.startswith("warning: "))
    assert f"computes with ABACUS and this process with {instruction_set()}" in warning


# Workers that die.


def kill_a_worker() -> None:
    """Kills one of this process's workers, as the system does when memory runs out."""
    os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)


def test_a_local_worker_killed_in_the_middle_changes_no_bit(tmp_path):
    runs = small_runs(epochs=12)
    with process_pool(2) as pool:
        store = Log(tmp_path / "pool", at_first=kill_a_worker)
        populations = train_all(runs, store, executor=pool)
    alone = train_all(runs, Log(tmp_path / "alone"))
    for run in runs:
        assert_same_bits(populations[run], alone[run])
    (told,) = (line for line in store.lines if "died" in line)
    assert told.startswith("runs: a worker died; ")
    assert told.endswith(f" populations are trained again (loss 1 of {LOSSES} that are borne)")
    assert store.kept == len(runs)


class Dying(Inline):
    """Does one task, and loses all others."""

    done = False

    def submit(self, fn, /, *arguments, **named) -> Future:
        if self.done:
            future = Future()
            future.set_exception(BrokenExecutor("a worker died"))
            return future
        self.done = True
        return super().submit(fn, *arguments, **named)


def test_workers_that_keep_dying_are_given_up_and_what_arrived_is_kept(tmp_path):
    store = Log(tmp_path)
    with pytest.raises(WorkersLost) as lost:
        train_all(small_runs(), store, executor=Dying(), what="strict test")
    assert str(lost.value).startswith(
        f"strict test: workers died {LOSSES + 1} times, and 7 populations are missing. "
    )
    assert "\n" not in str(lost.value)
    assert len([line for line in store.lines if "a worker died" in line]) == LOSSES
    assert store.kept == 1
    store.lines.clear()
    train_all(small_runs(), store)
    assert store.lines[:2] == [
        "runs: 1 of 8 populations reused",
        "runs: training 7 populations, 28 models",
    ]


def test_an_executor_that_takes_no_more_work_counts_as_lost(tmp_path):
    class Broken(Executor):
        def submit(self, fn, /, *arguments, **named):
            raise BrokenExecutor("cannot")

    with pytest.raises(WorkersLost, match="8 populations are missing"):
        train_all(small_runs(), Log(tmp_path), executor=Broken())


def gone(pid: int, seconds: float = 30) -> bool:
    """Whether a process ends within some seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


POOL = """
import os, time
from clusterdyn.execution import process_pool
if __name__ == "__main__":
    with process_pool(1) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 100)
        while True:  # a signal that comes just before one long sleep would be seen only after it
            time.sleep(0.1)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_process_that_started_them(tmp_path, stop):
    (tmp_path / "pool.py").write_text(POOL)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "pool.py")],
        env={**os.environ, "PYTHONPATH": str(REPO)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    worker = int(process.stdout.readline())
    process.send_signal(stop)
    assert gone(worker)
    _, error = process.communicate(timeout=30)
    if stop == signal.SIGINT:  # one traceback, of this process and not of its worker
        assert error.count("Traceback") == 1 and error.endswith("KeyboardInterrupt\n")


# What it costs.


@pytest.mark.parametrize(
    ("seconds", "models", "cores", "chunks", "core_hours", "hours"),
    [
        (3.6, 256, 1, 1, 0.256, 0.256),
        (3.6, 256, 100, 1, 0.256, 0.256),  # one chunk is for one core
        (3.6, 512, 2, 2, 0.512, 0.256),
        (3.6, 768, 2, 3, 0.768, 0.512),  # the third chunk is alone in its round
        (3.6, 10, 4, 1, 0.01, 0.01),
        (0.36, 1_000_000, 1953, 3907, 100, 3 * 0.0256),  # a third round for the last of 3907
    ],
)
def test_the_cost_of_many_models_counts_rounds_of_chunks(
    seconds, models, cores, chunks, core_hours, hours
):
    cost = training_cost(seconds, models, cores)
    assert (cost.models, cost.cores, cost.chunks) == (models, cores, chunks)
    assert_allclose([cost.core_hours, cost.hours], [core_hours, hours], rtol=1e-12)


@pytest.mark.parametrize("given", [(0, 1, 1), (float("nan"), 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_cost_of_nothing_is_refused(given):
    with pytest.raises(ValueError, match="a cost needs a positive time and at least one model"):
        training_cost(*given)
