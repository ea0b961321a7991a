"""Population training against autograd, finite differences, torch.optim and a plain loop."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from test_adaptive_schedules import TEXTS
from torch import Tensor, nn

from clusterdyn.adjoint import RolloutGradient
from clusterdyn.contract import check_schedule
from clusterdyn.datasets import Dataset, Trajectories, pendulum_dataset
from clusterdyn.graph import Partition, coloring, contiguous, random_partition, ring, strided
from clusterdyn.model import MessagePassingCell
from clusterdyn.plain import PlainRingModel, train_plain
from clusterdyn.schedules import SCHEDULES, RoundRobin, Schedule, StaticSchedule, make_schedule
from clusterdyn.spans import Tiles
from clusterdyn.streams import seed_streams
from clusterdyn.sweeps import active_clusters, rollout
from clusterdyn.training import (
    Adam,
    AutogradGradient,
    Divergence,
    TrainedPopulation,
    TrainingConfig,
    bytes_per_model,
    mean_squared_error,
    schedule_generators,
    train_population,
)

NODES, CHANNELS = 6, 2
CELL = MessagePassingCell(ring(NODES), CHANNELS)
CONFIG = TrainingConfig(epochs=3, batch_size=5, sweeps=3, relaxation=0.5, dtype="float64")
ADAPTIVE = ("full", "round_robin", "random", "histogram")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def schedule_of(name: str, partition: Partition | None = None) -> Schedule:
    return make_schedule(name, ring(NODES), partition or contiguous(NODES, 3))


def datasets(*seeds: int, train: int = 12) -> dict[int, Dataset]:
    return {
        seed: pendulum_dataset(seed, train=train, validation=6, test=7, horizon=4) for seed in seeds
    }


def train(
    name: str, data: dict[int, Dataset], rates: list[float], config: TrainingConfig = CONFIG
) -> TrainedPopulation:
    return train_population(CELL, schedule_of(name), data, rates, config)


def row_of(population: TrainedPopulation, seed: int, rate: float) -> int:
    (row,) = np.flatnonzero((population.seeds == seed) & (population.learning_rates == rate))
    return int(row)


# The gradient by hand.


def batch_problem(horizon: int, models: int = 3, batch: int = 4):
    """Parameters (S, P), states (S, B, T + 1, 3) and controls (S, B, T, 1), float64."""
    rng = np.random.default_rng(horizon)
    return (
        torch.as_tensor(0.5 * rng.normal(size=(models, CELL.parameter_count))),
        torch.as_tensor(rng.normal(size=(models, batch, horizon + 1, 3))),
        torch.as_tensor(rng.normal(size=(models, batch, horizon, 1))),
    )


def generators(models: int) -> list[np.random.Generator]:
    return [np.random.default_rng(100 + s) for s in range(models)]


def gradient_by_autograd(
    schedule: Schedule, parameters: Tensor, states: Tensor, controls: Tensor, relaxation: float
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Loss (S,), gradient (S, P) and choices of ``sweeps.rollout``."""
    leaf = parameters.clone().requires_grad_()
    found = rollout(
        CELL.bind(leaf),
        states[:, :, 0],
        controls,
        schedule,
        generators(len(parameters)),
        sweeps=3,
        relaxation=relaxation,
        targets=states[:, :, 1:],
    )
    errors = found.predictions - states[:, :, 1:]
    loss = (errors**2).flatten(1).mean(dim=1)
    (gradient,) = torch.autograd.grad(loss.sum(), leaf)
    return loss.detach(), gradient, list(found.activity)


def gradient_by_hand(
    schedule: Schedule, parameters: Tensor, states: Tensor, controls: Tensor, relaxation: float
) -> RolloutGradient:
    return RolloutGradient(
        CELL, schedule, tuple(controls.shape[:3]), sweeps=3, relaxation=relaxation, like=parameters
    )


def assert_equal_gradients(found, expected) -> None:
    """Loss, gradient and choices; the gradient relative to each model's largest component."""
    assert_allclose(found[0], expected[0], rtol=1e-12)
    scale = expected[1].abs().amax(dim=1, keepdim=True)
    assert_allclose(found[1] / scale, expected[1] / scale, rtol=0, atol=1e-12)
    assert len(found[2]) == len(expected[2])
    for taken, choice in zip(found[2], expected[2], strict=True):
        if taken.dtype == torch.int64:  # a cluster's number for each trajectory
            assert choice.sum(dim=-1).eq(1).all()
            choice = choice.int().argmax(dim=-1)
        assert torch.equal(taken.expand_as(choice), choice)


PARTITIONS = (
    contiguous(NODES, 3),
    strided(NODES, 2),
    random_partition(NODES, 3, 1),
    coloring(ring(NODES)),
    Partition("unequal", (0, 1, 2, 1, 1, 2)),
)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("horizon", [1, 4, 8])
@pytest.mark.parametrize("relaxation", [0.3, 1.0])
def test_loss_and_gradient_by_hand_equal_autograds(name, horizon, relaxation):
    parameters, states, controls = batch_problem(horizon)
    for partition in PARTITIONS:
        schedule = schedule_of(name, partition)
        problem = (schedule, parameters, states, controls, relaxation)
        found = gradient_by_hand(*problem)(parameters, states, controls, generators(3))
        assert_equal_gradients(found, gradient_by_autograd(*problem))


@pytest.mark.parametrize("text", [text for text in TEXTS if "(" in text])
def test_loss_and_gradient_by_hand_equal_autograds_whatever_the_options(text):
    parameters, states, controls = batch_problem(4)
    for partition in PARTITIONS:
        schedule = schedule_of(text, partition)
        problem = (schedule, parameters, states, controls, 0.5)
        found = gradient_by_hand(*problem)(parameters, states, controls, generators(3))
        assert_equal_gradients(found, gradient_by_autograd(*problem))


@pytest.mark.parametrize(
    "name", ["full", "round_robin", "cluster_sequential", "clockwork", "residual"]
)
@pytest.mark.parametrize(
    "partition",
    [
        contiguous(64, 16),  # a tile each
        contiguous(64, 2),  # blocks that reach each other at both ends
        contiguous(66, 6),  # 11 nodes: tiles of one
        contiguous(68, 1),
        strided(64, 4),  # no range: masked
        Partition("unequal", (0,) * 60 + (1,) * 5 + (2,) * 3),
    ],
    ids=lambda partition: f"{partition.name}-{partition.nodes}-{partition.clusters}",
)
def test_tiles_of_a_large_ring_give_autograds_gradient(name, partition):
    cell = MessagePassingCell(ring(partition.nodes), CHANNELS)
    schedule = make_schedule(name, cell.graph, partition)
    rng = np.random.default_rng(partition.nodes)
    parameters = torch.as_tensor(0.3 * rng.normal(size=(2, cell.parameter_count)))
    states = torch.as_tensor(rng.normal(size=(2, 3, 5, 3)))
    controls = torch.as_tensor(rng.normal(size=(2, 3, 4, 1)))
    sizes = {"sweeps": 2, "relaxation": 0.4}
    by_hand = RolloutGradient(cell, schedule, (2, 3, 4), like=parameters, **sizes)
    assert {type(span) for span in by_hand.plan.spans.values()} == {Tiles}
    problem = parameters, states, controls
    expected = AutogradGradient(cell, schedule, **sizes)(*problem, generators(2))
    for _ in range(2):  # the second time with what the first has left in the buffers
        assert_equal_gradients(by_hand(*problem, generators(2)), expected)


@pytest.mark.parametrize("name", ["sequential", "random", "histogram"])
def test_reused_buffers_carry_nothing_over_to_the_next_minibatch(name):
    parameters, states, controls = batch_problem(4)
    schedule = schedule_of(name)
    gradient_of = gradient_by_hand(schedule, parameters, states, controls, 0.5)
    gradient_of(-2 * parameters, 3 * states, -controls, generators(3))
    gradient_of(parameters * torch.nan, states, controls, generators(3))
    found = gradient_of(parameters, states, controls, generators(3))
    expected = gradient_by_autograd(schedule, parameters, states, controls, 0.5)
    assert_equal_gradients(found, expected)


@pytest.mark.parametrize("name", ["cluster_sequential", "histogram"])
def test_gradient_by_hand_agrees_with_finite_differences(name):
    parameters, states, controls = batch_problem(4, models=1)
    problem = (schedule_of(name), parameters, states, controls, 0.5)
    gradient_of = gradient_by_hand(*problem)

    def loss(at: Tensor) -> float:
        return gradient_of(at, states, controls, generators(1))[0].item()

    gradient = gradient_of(parameters, states, controls, generators(1))[1][0]
    step = 1e-5
    for p in range(CELL.parameter_count):
        shift = torch.zeros_like(parameters)
        shift[0, p] = step
        slope = (loss(parameters + shift) - loss(parameters - shift)) / (2 * step)
        assert slope == pytest.approx(gradient[p].item(), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_gradient_of_a_model_does_not_mix_with_its_neighbours(name):
    parameters, states, controls = batch_problem(4)
    schedule = schedule_of(name)
    gradient_of = gradient_by_hand(schedule, parameters, states, controls, 0.5)
    loss, gradient, _ = gradient_of(parameters, states, controls, generators(3))
    disturbed = parameters.clone()
    disturbed[1] = torch.tensor([torch.nan, 1e300]).repeat(CELL.parameter_count)[
        : len(disturbed[1])
    ]
    after_loss, after_gradient, _ = gradient_of(disturbed, states, controls, generators(3))
    for s in (0, 2):
        assert torch.equal(after_loss[s], loss[s])
        assert torch.equal(after_gradient[s], gradient[s])


def test_a_schedule_derived_from_a_static_one_is_trained_as_it_is_evaluated():
    class BackAndForth(RoundRobin):
        """Round robin, in the opposite order at odd time steps."""

        def choose(self, view, state):
            active, state = super().choose(view, state)
            return (active.flip(0) if view.time_step % 2 else active), state

    schedule = BackAndForth(contiguous(NODES, 3))
    check_schedule(schedule, ring(NODES))
    parameters, states, controls = batch_problem(4)
    problem = (schedule, parameters, states, controls, 0.5)
    found = gradient_by_hand(*problem)(parameters, states, controls, generators(3))
    assert_equal_gradients(found, gradient_by_autograd(*problem))


@pytest.mark.parametrize("nodes", [NODES, 66])
def test_a_schedule_that_only_ever_moves_one_cluster_has_autograds_gradient(nodes):
    cell = MessagePassingCell(ring(nodes), CHANNELS)
    table = torch.tensor([[False, True, False]])
    schedule = StaticSchedule(contiguous(nodes, 3), table)
    parameters, states, controls = batch_problem(3)
    parameters = torch.as_tensor(
        0.3 * np.random.default_rng(0).normal(size=(3, cell.parameter_count))
    )
    sizes = {"sweeps": 2, "relaxation": 0.5}
    by_hand = RolloutGradient(cell, schedule, tuple(controls.shape[:3]), like=parameters, **sizes)
    expected = AutogradGradient(cell, schedule, **sizes)(parameters, states, controls, [])
    assert_equal_gradients(by_hand(parameters, states, controls, []), expected)


def test_a_schedule_may_choose_for_all_and_for_each_trajectory_by_turns():
    class WarmUp(Schedule):
        """Every cluster in the first sweep, then the one whose first node proposes most."""

        name = "warm_up"

        def choose(self, view, state):
            if view.sweep == 0:
                return torch.ones(3, dtype=torch.bool), state
            return self.one_hot(view.proposal[..., [0, 2, 4], 0].argmax(dim=-1)), state

    schedule = WarmUp(contiguous(NODES, 3))
    check_schedule(schedule, ring(NODES))
    population = train_population(CELL, schedule, datasets(0), [0.01], CONFIG)
    # Four time steps of 3 clusters and then twice one.
    assert_allclose(population.training_choices.sum(axis=1), 4 * (3 + 2))


# Nodes that never move.


def readout_of(flat: np.ndarray | Tensor) -> np.ndarray:
    """(S, p, n, d): the read-out weights, or their gradient, of a population (S, P)."""
    readout = CELL.unflatten(torch.as_tensor(flat))["readout"].numpy()
    return readout.reshape(len(readout), -1, NODES, CHANNELS)


@pytest.mark.parametrize("text", ["histogram", "histogram(share=batch)", "histogram(ties=oldest)"])
def test_the_read_out_of_nodes_that_never_moved_has_no_gradient_at_all(text):
    parameters, states, controls = (values.float() for values in batch_problem(2, batch=20))
    schedule = schedule_of(text, contiguous(NODES, 6))
    problem = (schedule, parameters, states, controls, 0.5)
    _, gradient, activity = gradient_by_hand(*problem)(parameters, states, controls, generators(3))
    activity = [active_clusters(schedule, choice) for choice in activity]
    moved = torch.stack(activity).any(dim=0).any(dim=1).numpy()  # (S, C), a node a cluster
    assert moved.any(axis=1).all() and not moved.all(axis=1).any()
    for s, node in np.ndindex(*moved.shape):
        weights = readout_of(gradient)[s, :, node]
        assert weights.dtype == np.float32
        assert (weights != 0).all() if moved[s, node] else (weights == 0).all()


def test_training_leaves_the_read_out_of_nodes_that_never_moved_as_it_was():
    # In single precision Adam would make whole steps of what rounding leaves of a gradient.
    config = dataclasses.replace(CONFIG, dtype="float32")
    schedule = schedule_of("histogram", contiguous(NODES, 6))
    population = train_population(CELL, schedule, datasets(0, 1), [0.003, 0.03], config)
    moved = population.training_choices.any(axis=0)  # by any model
    assert moved.any() and not moved.all()
    initial = np.stack(
        [CELL.initial_parameters(seed_streams(seed).weights) for seed in (0, 0, 1, 1)]
    )
    before, after = (readout_of(np.float32(flat)) for flat in (initial, population.parameters))
    assert_array_equal(after[:, :, ~moved].view(np.int32), before[:, :, ~moved].view(np.int32))
    assert (after != before)[:, :, moved].any(axis=(1, 2, 3)).all()


# The optimiser.


@pytest.mark.parametrize("clip_norm", [0.5, 2.0, 1e6])
def test_adam_steps_are_those_of_torch_with_clipping(clip_norm):
    rng = np.random.default_rng(0)
    start = torch.as_tensor(rng.normal(size=(4, 9)))
    rates = [1e-3, 1e-2, 0.1, 3.0]
    population = start.clone()
    optimiser = Adam(population, torch.tensor(rates, dtype=torch.float64), clip_norm)
    peers = [nn.Parameter(row.clone()) for row in start]
    peer_optimisers = [torch.optim.Adam([p], lr=r) for p, r in zip(peers, rates, strict=True)]
    for step in range(30):
        # Norms from far below to far above the clip; sometimes exactly 0.
        gradient = torch.as_tensor(rng.normal(size=(4, 9)) * 10 ** rng.uniform(-3, 2, (4, 1)))
        gradient[step % 4] *= step % 3 > 0
        alive = optimiser.step(population, gradient.clone(), torch.ones(4, dtype=torch.bool))
        assert alive.all()
        for s, (peer, peer_optimiser) in enumerate(zip(peers, peer_optimisers, strict=True)):
            peer.grad = gradient[s].clone()
            nn.utils.clip_grad_norm_([peer], clip_norm)
            peer_optimiser.step()
            assert_allclose(population[s], peer.detach(), rtol=1e-12, atol=1e-13)


def test_adam_moves_only_rows_that_are_alive_and_stay_finite():
    parameters = torch.ones(3, 2, dtype=torch.float64)
    optimiser = Adam(parameters, torch.tensor([0.1, 0.1, math.inf], dtype=torch.float64), 1.0)
    alive = torch.tensor([True, False, True])
    moved = optimiser.step(parameters, torch.full_like(parameters, 0.25), alive)
    assert moved.tolist() == [True, False, False]
    # Adam's first step is the learning rate, against the gradient's sign.
    assert_allclose(parameters, [[0.9, 0.9], [1, 1], [1, 1]], rtol=1e-7)


def test_mean_squared_error_worked_out_by_hand():
    states = torch.tensor([[[[9.0, 9.0], [1.0, 2.0], [3.0, 4.0]]]])  # (1, 1, T + 1, 2)
    predictions = torch.tensor([[[[1.0, 4.0], [0.0, 4.0]]]])
    assert mean_squared_error(predictions, states).tolist() == [(0 + 4 + 9 + 0) / 4]


# Training against the plain loop.


@pytest.mark.parametrize("name", ADAPTIVE)
@pytest.mark.parametrize("clip_norm", [1.0, 0.05])
def test_population_training_is_the_plain_loop_for_each_model(name, clip_norm):
    config = dataclasses.replace(CONFIG, clip_norm=clip_norm)
    data = datasets(3, 8)
    population = train(name, data, [0.003, 0.05], config)
    assert population.seeds.tolist() == [3, 3, 8, 8]
    assert population.learning_rates.tolist() == [0.003, 0.05, 0.003, 0.05]
    for s, (seed, rate) in enumerate(zip(population.seeds, population.learning_rates, strict=True)):
        schedule = schedule_of(name)
        parameters, losses = train_plain(CELL, schedule, data[seed], int(seed), rate, config)
        assert_allclose(population.parameters[s], parameters, rtol=0, atol=1e-10)
        per_epoch = np.reshape(losses, (3, 2)).mean(axis=1)  # 12 trajectories in batches of 5
        assert_allclose(population.train_loss[:, s], per_epoch, rtol=1e-10)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_held_out_scores_are_the_plain_models_on_the_whole_split(name):
    data = datasets(2, 5)
    population = train(name, data, [0.01])
    for s, seed in enumerate((2, 5)):
        model = PlainRingModel(CELL, population.parameters[s], CONFIG)
        scores = {}
        for split in ("validation", "test"):
            trajectories: Trajectories = getattr(data[seed], split)
            with torch.no_grad():
                predictions = model(
                    torch.as_tensor(trajectories.states[:, 0]),
                    torch.as_tensor(trajectories.controls),
                    schedule_of(name),
                    schedule_generators([seed], training=False),
                )
            scores[split] = np.mean((predictions.numpy() - trajectories.states[:, 1:]) ** 2)
        assert population.validation_loss[-1, s] == pytest.approx(scores["validation"], rel=1e-10)
        assert population.test_mse[s] == pytest.approx(scores["test"], rel=1e-10)


def test_training_and_evaluation_draw_from_streams_of_their_own():
    first, again = (schedule_generators([4], training=True)[0] for _ in range(2))
    (held_out,) = schedule_generators([4], training=False)
    draws = first.integers(2**63, size=4)
    assert_array_equal(draws, again.integers(2**63, size=4))
    assert not np.isin(held_out.integers(2**63, size=4), draws).any()


def test_training_lowers_the_loss_of_every_model():
    population = train("full", datasets(0, 1, train=60), [0.01, 0.03])
    assert (population.train_loss[-1] < population.train_loss[0] / 2).all()
    assert (population.validation_loss[-1] < population.validation_loss[0]).all()


@pytest.mark.parametrize(
    ("name", "choices"), [("full", [12]), ("round_robin", [4, 4, 4]), ("sequential", [12] * 6)]
)
def test_choices_are_counted_a_model_and_trajectory(name, choices):
    # Four time steps of three sweeps.
    population = train(name, datasets(0, 1), [0.01])
    assert_allclose(population.training_choices, np.tile(choices, (3, 1)))
    ledger = population.test_ledger
    assert_allclose(ledger.cluster_updates * 4, [sum(choices)] * 2)


def test_choices_of_an_adaptive_schedule_sum_to_its_sweeps():
    population = train("histogram", datasets(0, 1), [0.01])
    assert population.training_choices.shape == (3, 3)
    assert_allclose(population.training_choices.sum(axis=1), 12, rtol=1e-6)
    assert population.training_choices.argmax(axis=1).tolist() == [0, 0, 0]  # starvation


# A population is nothing but its models.


def assert_same_run(first: TrainedPopulation, second: TrainedPopulation) -> None:
    """Bit-equal, but for the time it took."""
    for field in dataclasses.fields(TrainedPopulation):
        before, after = getattr(first, field.name), getattr(second, field.name)
        if field.name == "test_ledger":
            for part in dataclasses.fields(before):
                assert_array_equal(getattr(before, part.name), getattr(after, part.name))
        elif field.name != "seconds":
            assert_array_equal(before, after)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ADAPTIVE)
def test_reruns_are_bit_equal(name, dtype):
    config = dataclasses.replace(CONFIG, dtype=dtype)
    first = train(name, datasets(0, 1), [0.003, 0.03], config)
    assert first.parameters.dtype == np.dtype(dtype)
    assert_same_run(first, train(name, datasets(0, 1), [0.003, 0.03], config))


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_models_numbers_do_not_depend_on_who_else_is_trained(name):
    large = train(name, datasets(9, 4, 0), [0.1, 0.01, 0.001])
    small = train(name, datasets(4), [0.01])
    row = row_of(large, 4, 0.01)
    assert_allclose(large.parameters[row], small.parameters[0], rtol=0, atol=1e-9)
    assert_allclose(large.train_loss[:, row], small.train_loss[:, 0], rtol=1e-9)
    assert_allclose(large.validation_loss[:, row], small.validation_loss[:, 0], rtol=1e-9)
    assert_allclose(large.test_mse[row], small.test_mse[0], rtol=1e-9)
    assert_allclose(large.test_ledger.share[row], small.test_ledger.share[0], rtol=1e-9)


# Divergence.


@pytest.mark.parametrize("name", ADAPTIVE)
@pytest.mark.parametrize(("absurd", "step"), [(1e30, 1), (1e36, 1), (1e38, 0), (1e39, 0)])
def test_an_absurd_learning_rate_diverges_and_is_recorded(name, absurd, step):
    config = dataclasses.replace(CONFIG, dtype="float32")
    data = datasets(2, 6)
    population = train(name, data, [0.01, absurd], config)
    # The first step ends near the learning rate, and the second loss is near its square. Adam's
    # first step divides by 1 - beta1, so that 1e38 is too much for it: float32 ends at 3.4e38.
    assert population.divergences == (Divergence(2, absurd, step), Divergence(6, absurd, step))
    diverged = population.learning_rates == absurd
    assert np.isposinf(population.test_mse[diverged]).all()
    assert np.isnan(population.train_loss[:, diverged]).all()
    assert np.isfinite(population.parameters).all()
    assert np.isfinite(population.test_mse[~diverged]).all()
    assert np.isfinite(population.train_loss[:, ~diverged]).all()


@pytest.mark.parametrize("name", ADAPTIVE)
def test_a_diverged_model_leaves_its_neighbours_bit_equal(name):
    config = dataclasses.replace(CONFIG, dtype="float32")
    calm = train(name, datasets(2, 6), [0.003, 0.02, 0.01], config)
    wild = train(name, datasets(2, 6), [0.003, 1e30, 0.01], config)
    assert [d.learning_rate for d in wild.divergences] == [1e30, 1e30]
    for rate in (0.003, 0.01):
        for seed in (2, 6):
            row = row_of(calm, seed, rate)
            for values in ("parameters", "test_mse"):
                assert_array_equal(getattr(wild, values)[row], getattr(calm, values)[row])
            for values in ("train_loss", "validation_loss"):
                assert_array_equal(getattr(wild, values)[:, row], getattr(calm, values)[:, row])


def test_neighbours_of_a_diverged_model_are_what_they_are_without_it():
    alone = train("full", datasets(2), [0.01])
    beside = train("full", datasets(2), [0.01, 1e200])
    assert beside.divergences == (Divergence(2, 1e200, 1),)
    assert_allclose(beside.parameters[0], alone.parameters[0], rtol=0, atol=1e-9)
    assert_allclose(beside.test_mse[0], alone.test_mse[0], rtol=1e-9)


def test_a_diverged_model_keeps_the_parameters_that_it_had_before_that_step():
    config = dataclasses.replace(CONFIG, batch_size=12, dtype="float32")  # one step an epoch
    one_step = train("full", datasets(2), [0.01, 1e30], dataclasses.replace(config, epochs=1))
    many = train("full", datasets(2), [0.01, 1e30], config)
    assert many.divergences == (Divergence(2, 1e30, 1),)
    assert_array_equal(many.parameters[1], one_step.parameters[1])
    assert (many.parameters[0] != one_step.parameters[0]).all()


def test_the_plain_loop_diverges_at_the_recorded_step():
    data = datasets(2)
    population = train("histogram", data, [1e200])
    _, losses = train_plain(CELL, schedule_of("histogram"), data[2], 2, 1e200, CONFIG)
    first = int(np.flatnonzero(~np.isfinite(losses))[0])
    assert population.divergences == (Divergence(2, 1e200, first),)


def test_a_model_that_diverges_in_its_last_step_is_recorded_too():
    config = dataclasses.replace(CONFIG, epochs=1, batch_size=12, dtype="float32")
    population = train("full", datasets(2), [0.01, 1e30], config)
    assert np.isposinf(population.test_mse[1])
    assert [(d.seed, d.learning_rate) for d in population.divergences] == [(2, 1e30)]


# The test split.


def with_test_split(data: dict[int, Dataset], change) -> dict[int, Dataset]:
    return {
        seed: dataclasses.replace(
            dataset, test=Trajectories(change(dataset.test.states), change(dataset.test.controls))
        )
        for seed, dataset in data.items()
    }


@pytest.mark.parametrize("change", [lambda x: x * np.nan, lambda x: -3 * x + 1])
def test_the_test_split_moves_neither_parameters_nor_validation_losses(change):
    before = train("histogram", datasets(0, 1), [0.01, 0.03])
    after = train("histogram", with_test_split(datasets(0, 1), change), [0.01, 0.03])
    for values in ("parameters", "train_loss", "validation_loss", "training_choices"):
        assert_array_equal(getattr(after, values), getattr(before, values))
    assert not (after.test_mse == before.test_mse).any()


def test_the_test_split_is_read_once_after_the_last_step(monkeypatch):
    events = []
    step = Adam.step

    def recorded_step(self, *arguments):
        events.append("step")
        return step(self, *arguments)

    class Watched:
        def __init__(self, dataset: Dataset) -> None:
            self.train, self.validation = dataset.train, dataset.validation
            self._test = dataset.test

        @property
        def test(self) -> Trajectories:
            events.append("test")
            return self._test

    monkeypatch.setattr(Adam, "step", recorded_step)
    train("full", {0: Watched(datasets(0)[0])}, [0.01])
    assert events == ["step"] * 6 + ["test"]


# Schedules that learn beside their models.


class Attending(RoundRobin):
    """Notes what it is shown after each epoch; at test it is another schedule."""

    def __init__(self, at_test: Schedule) -> None:
        super().__init__(contiguous(NODES, 3))
        self.other, self.shown = at_test, []

    def after_epoch(self, epoch, cell, parameters, states, controls):
        self.shown.append((epoch, parameters.clone(), states, controls))

    def at_test(self):
        return self.other


def test_a_schedule_is_shown_each_models_training_split_after_each_epoch():
    schedule = Attending(schedule_of("full"))
    data, rates = datasets(3, 4), [0.01, 0.03]
    population = train_population(CELL, schedule, data, rates, CONFIG)
    assert [epoch for epoch, *_ in schedule.shown] == [0, 1, 2]
    for _, parameters, states, controls in schedule.shown:
        assert parameters.shape == population.parameters.shape
        for row, seed in enumerate(population.seeds):
            assert_array_equal(states[row], data[seed].train.states)
            assert_array_equal(controls[row], data[seed].train.controls)
    assert_array_equal(schedule.shown[-1][1], population.parameters)
    assert not torch.equal(schedule.shown[0][1], schedule.shown[1][1])


def test_models_are_trained_under_a_schedule_and_scored_under_its_own_at_test():
    data = datasets(3, 4)
    plain, other = train("round_robin", data, [0.01]), schedule_of("full")
    population = train_population(CELL, Attending(other), data, [0.01], CONFIG)
    assert_array_equal(population.parameters, plain.parameters)
    assert (population.test_ledger.node_updates == NODES * CONFIG.sweeps).all()
    assert not (population.test_mse == plain.test_mse).any()
    assert not (population.validation_loss == plain.validation_loss).any()


# Device, precision and progress.


def test_values_go_to_the_device_and_precision_of_the_config():
    config = TrainingConfig(device="meta", dtype="float64")
    assert config.tensor(np.zeros(3)).device.type == "meta"
    assert config.tensor(np.zeros(3)).dtype == torch.float64
    assert TrainingConfig().tensor(np.zeros(3)).device.type == "cpu"
    assert TrainingConfig().tensor(np.zeros(3)).dtype == torch.float32


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", SCHEDULES)
def test_training_on_a_gpu_gives_the_numbers_of_the_cpu(name):
    on_cpu = train(name, datasets(0, 1), [0.01, 0.03])
    on_gpu = train(name, datasets(0, 1), [0.01, 0.03], dataclasses.replace(CONFIG, device="cuda"))
    assert_allclose(on_gpu.parameters, on_cpu.parameters, rtol=0, atol=1e-9)
    assert_allclose(on_gpu.test_mse, on_cpu.test_mse, rtol=1e-9)
    assert_allclose(on_gpu.training_choices, on_cpu.training_choices, rtol=1e-6)


def test_progress_names_arm_epoch_and_population(monkeypatch):
    monkeypatch.setattr("clusterdyn.training.PROGRESS_SECONDS", 0.0)
    lines = []
    train_population(
        CELL, schedule_of("full"), datasets(0, 1), [0.01], CONFIG, progress=lines.append
    )
    assert len(lines) == 3
    for epoch, line in enumerate(lines, start=1):
        assert line.startswith(f"train-full: epoch {epoch} of 3, 2 models, ")


# Chunks of a population.


def test_a_population_in_chunks_is_the_population_at_once(name="histogram"):
    data, rates = datasets(0, 1, 2), [0.01, 0.02]
    schedule = schedule_of(name)
    whole = train(name, data, rates)
    one = bytes_per_model(CELL, schedule, data[0], CONFIG)
    for models in (1, 3, 4, 5):  # splits the rates of a seed, or keeps them together
        parts = train_population(CELL, schedule, data, rates, CONFIG, max_bytes=models * one)
        assert_array_equal(parts.seeds, whole.seeds)
        assert_array_equal(parts.learning_rates, whole.learning_rates)
        for name in ("parameters", "train_loss", "validation_loss", "test_mse"):
            assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-9, atol=1e-12)
        assert_allclose(parts.training_choices, whole.training_choices, rtol=1e-6)
        assert_array_equal(parts.test_ledger.share, whole.test_ledger.share)


def test_too_little_memory_for_one_model_is_refused():
    needed = bytes_per_model(CELL, schedule_of("full"), datasets(0)[0], CONFIG)
    sentence = f"max_bytes must be at least {needed}, which one model takes; got {needed - 1}"
    with pytest.raises(ValueError, match=sentence):
        train_population(
            CELL, schedule_of("full"), datasets(0), [0.01], CONFIG, max_bytes=needed - 1
        )


@pytest.mark.parametrize("name", ["full", "round_robin", "histogram"])
@pytest.mark.parametrize("nodes", [NODES, 192])
def test_memory_of_a_gradient_grows_with_models_and_updates(name, nodes):
    cell = MessagePassingCell(ring(nodes), CHANNELS)
    schedule = make_schedule(name, cell.graph, contiguous(nodes, 3))

    def size(models: int, horizon: int) -> int:
        like = torch.zeros(models, 1)
        shape = (models, 10, horizon)
        return RolloutGradient(cell, schedule, shape, sweeps=3, relaxation=0.5, like=like).nbytes

    per_update = 10 * nodes * CHANNELS * 4  # bytes of one u, of all channels
    moved = 1 / 3 if name == "round_robin" else 1
    # At the least r, c_q and what was heard; at the most tiles hear half as much again. Where the
    # schedule chooses as it goes its choice is kept, too.
    kept = 3 * moved + (name == "histogram")
    grown = (size(2, 12) - size(2, 4)) / (2 * 24) / per_update
    assert kept <= grown < kept + 1.5
    assert size(8, 4) == pytest.approx(4 * size(2, 4), rel=0.2)
