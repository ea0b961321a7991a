"""The bench: everybody trains the same models, and each process tells what it measured."""

import os
import signal
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch.utils._python_dispatch import TorchDispatchMode

from clusterdyn.arms import message_passing_cell, study_dataset
from clusterdyn.bench import timing
from clusterdyn.bench.contenders import PlainTraining, PopulationTraining, Run, Workload
from clusterdyn.bench.contest import run_contest
from clusterdyn.bench.jax_training import JaxTraining
from clusterdyn.bench.kernels import BareKernels
from clusterdyn.bench.machine import jax_version, this_machine
from clusterdyn.bench.processes import MeasuringProcess
from clusterdyn.bench.sweeps import SingleSweeps, rolled_sweep
from clusterdyn.bench.timing import interleaved_times
from clusterdyn.profiles import cost_config, study_config

TINY = {
    "nodes": 6,
    "channels": 2,
    "clusters": 3,
    "horizon": 3,
    "sweeps": 2,
    "train_trajectories": 50,
    "validation_trajectories": 4,
    "test_trajectories": 4,
    "batch_size": 10,
    "epochs": 3,
    "learning_rates": (0.003, 0.03),
    "seeds": (0, 1, 5),
}
needs_jax = pytest.mark.skipif(
    jax_version() is None, reason='JAX is not installed; pip install -e ".[bench]" adds it'
)


def workload(**changes) -> Workload:
    config = study_config("quick", {**TINY, **changes})
    return Workload(config, {seed: study_dataset(config, seed) for seed in config.seeds})


def run_apart(make) -> Run:
    """Prepares and runs in a process of its own."""
    with MeasuringProcess("a test", make) as process:
        process.call("prepare")
        return process.call("run")[0]


# Same models on every side.


# At a norm clip of 0.05 every step of these models is clipped.
@pytest.mark.parametrize("clip_norm", [0.05, 1.0])
def test_the_plain_loop_trains_the_models_of_the_population(clip_norm):
    work = workload(dtype="float64", clip_norm=clip_norm)
    population = PopulationTraining(work, "full").run()
    plain = PlainTraining(work, 6).run()
    assert_allclose(plain.first_loss, population.first_loss, rtol=1e-10)
    assert_allclose(plain.last_loss, population.last_loss, rtol=1e-9)
    assert np.all(population.last_loss < population.first_loss)


@needs_jax
@pytest.mark.parametrize(
    ("dtype", "clip_norm", "first", "last"),
    [("float64", 0.05, 1e-10, 1e-9), ("float64", 1.0, 1e-10, 1e-9), ("float32", 1.0, 1e-4, 1e-2)],
)
def test_jax_trains_the_models_of_the_population(dtype, clip_norm, first, last):
    work = workload(dtype=dtype, clip_norm=clip_norm)
    population = PopulationTraining(work, "full").run()
    jax = run_apart(partial(JaxTraining, work))
    assert jax.first_loss.dtype == dtype
    assert_allclose(jax.first_loss, population.first_loss, rtol=first)
    assert_allclose(jax.last_loss, population.last_loss, rtol=last)


def test_a_plain_loop_over_some_models_takes_the_first_ones():
    work = workload(dtype="float64")
    some, every = PlainTraining(work, 3).run(), PopulationTraining(work, "full").run()
    assert_allclose(some.first_loss, every.first_loss[:3], rtol=1e-10)


def test_preparing_trains_nothing_away():
    work = workload()
    training = PopulationTraining(work, "histogram")
    training.prepare()
    assert_array_equal(training.run().last_loss, training.run().last_loss)


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_shares_are_whole_seeds_in_order_and_none_is_lost(parts):
    work = workload()
    shares = work.share(parts)
    assert len(shares) == min(parts, 3)
    assert [pair for share in shares for pair in share.pairs] == work.pairs
    sizes = [len(share.pairs) for share in shares]
    assert max(sizes) - min(sizes) <= 2  # a seed of two rates


def test_shares_train_what_the_whole_trains():
    work = workload(dtype="float64")
    parts = [PopulationTraining(share, "full").run().last_loss for share in work.share(2)]
    whole = PopulationTraining(work, "full").run().last_loss
    assert_allclose(np.concatenate(parts), whole, rtol=1e-9)


@pytest.mark.parametrize("with_jax", [False, pytest.param(True, marks=needs_jax)])
def test_a_contest_tells_the_gaps_and_scales_the_plain_loop_to_all_models(with_jax):
    work, lines = workload(), []
    cost = cost_config("quick", {**TINY, "cost_repeats": 3, "plain_models": 2})
    contest = run_contest(
        work, ("full", "histogram"), cost, with_jax=with_jax, cores=1, progress=lines.append
    )
    assert (contest.models, contest.steps, contest.plain_models) == (6, 15, 2)
    assert (contest.horizon, contest.batch_size) == (3, 10)
    assert set(contest.product) == {"full", "histogram"}
    for times in (*contest.product.values(), contest.kernels, contest.plain):
        assert times.shape == (3,) and np.all(times > 0)
    assert contest.plain_gap < 1e-5 and contest.plain_last_gap < 1e-3
    assert contest.product_bytes >= 0 and contest.plain_bytes >= 0
    # What the lines tell is the time of the two models that were trained.
    told = [float(line.split("plain, one thread ")[1].split(" s")[0]) for line in lines]
    assert_allclose(contest.plain_one_thread, np.multiply(told, 3), atol=0.0151)
    if with_jax:
        assert contest.jax.shape == (3,) and contest.jax_compile_s > 0
        assert contest.jax_gap < 1e-4 and contest.jax_bytes > 0
    else:
        assert contest.jax is contest.jax_gap is contest.jax_bytes is contest.jax_compile_s is None


# The bare kernels.


class Operations(TorchDispatchMode):
    """Counts the operations that PyTorch carries out, views left aside, and multiplications."""

    VIEWS = ("select", "transpose", "slice", "view", "_unsafe_view", "detach", "t", "as_strided")

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.multiplications = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        name = function.overloadpacket.__name__.rstrip("_")
        if name not in self.VIEWS:
            self.counts[name] += 1
        if name in ("bmm", "baddbmm"):
            left, right = arguments[-2:]
            self.multiplications += left.numel() * right.shape[-1]
        return function(*arguments, **(keywords or {}))


def test_the_bare_kernels_are_products_and_activations_and_nothing_else():
    work = workload(epochs=1, train_trajectories=20)
    kernels, operations = BareKernels(work), Operations()
    with operations:
        kernels.run()
    steps, horizon, updates = 2, 3, 3 * 2  # T K updates a step
    assert operations.counts == {
        "bmm": steps * (2 * horizon - 1 + 3),  # drives, feedbacks and three weight gradients
        "baddbmm": steps * (2 * updates + 2 * horizon),  # both ways, with the read-outs
        "sigmoid": steps * updates,
        "sigmoid_backward": steps * updates,
        "lerp": steps * updates,
    }


def test_the_bare_kernels_multiply_as_much_as_one_training_does():
    work = workload(epochs=1, train_trajectories=20)
    kernels, operations = BareKernels(work), Operations()
    with operations:
        kernels.run()
    models, batch, width, inputs, channels = 6, 10, 12, 5, 3  # S, B, n d, p + q + 1, p
    horizon, updates, steps = 3, 6, 2
    recurrent = 3 * updates * width * width  # forward, backward, weight gradient
    drive = width * (2 * horizon * inputs + (horizon - 1) * channels)
    readout = 3 * horizon * width * channels
    assert operations.multiplications == steps * models * batch * (recurrent + drive + readout)


def test_values_of_the_bare_kernels_keep_their_size():
    # Numbers that overflow, or underflow to denormal ones, would be multiplied at another speed.
    kernels = BareKernels(workload())
    for _ in range(2):
        run = kernels.run()
        assert np.isnan(run.first_loss).all() and run.first_loss.shape == (6,)
    for values in (*kernels.gates, *kernels.slopes, *kernels.proposals, kernels.cotangent):
        assert values.isfinite().all()
        assert 1e-5 < values.abs().median() < 1e2


# Single sweeps.


def test_the_sweep_by_rolls_is_a_sweep_of_the_cell():
    config = study_config("quick", {**TINY, "dtype": "float64"})
    cell, relaxation = message_passing_cell(config), 0.3
    rng = np.random.default_rng(0)
    parameters = torch.as_tensor(0.3 * rng.normal(size=(2, cell.parameter_count)))
    hidden, drive = (torch.as_tensor(0.3 * rng.normal(size=(2, 4, 6, 2))) for _ in range(2))
    weights = cell.unflatten(parameters)["messages"].mT.flatten(1, 2)  # (S, 3 d, d)
    before = torch.atanh(cell.bind(parameters).proposal(hidden, drive))
    expected = torch.lerp(hidden, torch.sigmoid(before), relaxation)
    assert_allclose(rolled_sweep(hidden, drive, weights, relaxation), expected, rtol=1e-10)


def test_sweeps_are_timed_at_their_sizes():
    times = SingleSweeps(study_config("quick", TINY)).time(2, 4, 1e-3)
    assert (times.population, times.nodes, times.clusters) == (2, 6, 3)
    for seconds in (times.full_s, times.cluster_s, times.rolled_s):
        assert seconds.shape == (4,) and np.isfinite(seconds).all()


def test_calls_take_turns_and_one_that_is_long_enough_is_a_block():
    order: list[str] = []
    calls = [lambda: order.append("a"), lambda: order.append("b")]
    assert interleaved_times(calls, repeats=3, block_seconds=0).shape == (2, 3)
    assert "".join(order) == "ab" + "ab" * 3  # one of each before anything is timed


def test_short_calls_are_timed_in_blocks_of_the_time_asked_for(monkeypatch):
    clock = [0.0]

    def call(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    calls = [partial(call, 0.25), partial(call, 2.0)]
    times = interleaved_times(calls, repeats=2, block_seconds=1.0)
    assert_allclose(times, [[0.25, 0.25], [2.0, 2.0]])
    # Twice each, to prepare and to size the blocks; then blocks of four and of one, twice.
    assert clock[0] == 2 * (0.25 + 2.0) + 2 * (4 * 0.25 + 2.0)


# Processes.


class Hungry:
    """Takes memory, and misbehaves when asked to."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []

    def eat(self, mebibytes: int) -> int:
        self.kept.append(b"x" * (mebibytes * 2**20))
        return os.getpid()

    def threads(self) -> int:
        return torch.get_num_threads()

    def fail(self) -> None:
        raise ValueError("no more")

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_tells_what_it_returns_and_the_memory_that_it_came_to_need():
    with MeasuringProcess("hunger", Hungry) as process:
        pid, little = process.call("eat", 1)
        assert pid != os.getpid()
        assert process.call("eat", 64)[0] == pid
        _, much = process.call("eat", 1)
        assert 64 * 2**20 < much - little < 72 * 2**20
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_memory_of_one_process_does_not_show_in_the_next():
    for _ in range(2):
        with MeasuringProcess("hunger", Hungry) as process:
            assert process.call("eat", 32)[1] < 40 * 2**20


@pytest.mark.parametrize("threads", [1, 2])
def test_a_process_uses_the_threads_that_it_is_given(threads):
    with MeasuringProcess("threads", Hungry, threads=threads) as process:
        assert process.call("threads")[0] == threads


def test_what_a_process_raises_is_raised_here():
    with (
        MeasuringProcess("hunger", Hungry) as process,
        pytest.raises(ValueError, match="no more"),
    ):
        process.call("fail")


def test_a_process_that_is_killed_is_told_in_a_sentence():
    with MeasuringProcess("hunger", Hungry) as process:
        words = "the process that measures hunger has ended early .* choose smaller sizes"
        with pytest.raises(ChildProcessError, match=words):
            process.call("die")
        with pytest.raises(ChildProcessError, match=words):
            process.call("eat", 1)


# The machine.


def test_the_machine_is_named_with_all_that_a_time_depends_on():
    machine = this_machine()
    assert machine.torch == torch.__version__ and machine.numpy == np.__version__
    assert machine.cores == len(os.sched_getaffinity(0)) and machine.cpu
    assert machine.jax == jax_version()
