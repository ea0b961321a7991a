"""Predictors that a message-passing model is measured against."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from clusterdyn.datasets import Dataset, Standardisation, Trajectories, pendulum_dataset
from clusterdyn.graph import one_block, ring
from clusterdyn.gru import GRUCell
from clusterdyn.model import MessagePassingCell
from clusterdyn.schedules import Full
from clusterdyn.strict.yardsticks import linear_map, linear_rollout, persistence
from clusterdyn.sweeps import rollout
from clusterdyn.training import AutogradGradient, TrainingConfig, train_population


def linear_system(count: int, seed: int, noise: float = 0.0) -> Trajectories:
    """x' = A x + b u + c, four steps."""
    rng = np.random.default_rng(seed)
    matrix = np.array([[0.9, 0.1, 0.0], [-0.1, 0.8, 0.2], [0.0, 0.3, 0.7]])
    states, controls = [rng.normal(size=(count, 3))], rng.normal(size=(count, 4, 1))
    for t in range(4):
        step = states[-1] @ matrix.T + controls[:, t] * [0.5, -0.2, 0.1] + 0.3
        states.append(step + noise * rng.normal(size=step.shape))
    return Trajectories(np.stack(states, axis=1), controls)


def dataset(train: Trajectories, test: Trajectories) -> Dataset:
    return Dataset(train, test, test, Standardisation.fit(train))


def test_least_squares_finds_a_linear_system_and_rolls_it_out_exactly():
    data = dataset(linear_system(30, 0), linear_system(9, 1))
    assert_allclose(
        linear_map(data.train)[:3].T, [[0.9, 0.1, 0], [-0.1, 0.8, 0.2], [0, 0.3, 0.7]], atol=1e-12
    )
    assert linear_rollout(data) == pytest.approx(0, abs=1e-24)


def test_least_squares_rolls_out_on_its_own_predictions():
    data = dataset(linear_system(40, 0, noise=0.1), linear_system(5, 1, noise=0.1))
    solution, split = linear_map(data.train), data.test
    errors = []
    for b in range(5):
        state = split.states[b, 0]
        for t in range(4):
            state = np.array([*state, *split.controls[b, t], 1.0]) @ solution
            errors.append((state - split.states[b, t + 1]) ** 2)
    assert linear_rollout(data) == pytest.approx(np.mean(errors), rel=1e-12)


def test_persistence_worked_out_by_hand():
    states = np.array([[[0.0, 1.0, 2.0], [1.0, 1.0, 2.0], [2.0, 3.0, 2.0]]])
    split = Trajectories(states, np.zeros((1, 2, 1)))
    assert persistence(split) == pytest.approx((1 + 4 + 4) / 6)


# The gated recurrent unit.

CELL = GRUCell(units=5)


def test_a_rollout_of_the_gru_is_that_of_torchs_gru_cell():
    rng = np.random.default_rng(0)
    parameters = torch.as_tensor(rng.normal(size=(3, CELL.parameter_count)))
    first = torch.as_tensor(rng.normal(size=(3, 4, 3)))
    controls = torch.as_tensor(rng.normal(size=(3, 4, 6, 1)))
    schedule = Full(one_block(CELL.units))
    found = rollout(
        CELL.bind(parameters), first, controls, schedule, [], sweeps=1, relaxation=1.0
    ).predictions
    for s in range(3):
        gru, readout = CELL.torch_modules(parameters[s])
        hidden, state = torch.zeros(4, CELL.units, dtype=torch.float64), first[s]
        for t in range(6):
            hidden = gru(torch.cat([state, controls[s, :, t]], dim=-1), hidden)
            state = readout(hidden)
            assert_allclose(found[s, :, t], state.detach(), rtol=1e-12, atol=1e-12)


def test_the_gru_has_about_as_many_parameters_as_the_message_passing_cell():
    count = MessagePassingCell(ring(16), 4).parameter_count
    cell = GRUCell.with_parameters(count)
    gap = abs(cell.parameter_count - count)
    for units in (cell.units - 1, cell.units + 1):
        assert abs(GRUCell(units).parameter_count - count) >= gap
    assert gap / count < 0.1


def test_initial_weights_of_the_gru_keep_torchs_bound_and_follow_from_the_stream():
    weights = CELL.initial_parameters(np.random.SeedSequence(3))
    bound = 1 / np.sqrt(CELL.units)
    assert np.abs(weights).max() < bound
    assert np.abs(weights).max() > 0.9 * bound
    gru = nn.GRUCell(4, CELL.units)
    assert max(p.abs().max() for p in gru.parameters()) <= bound
    assert (weights == CELL.initial_parameters(np.random.SeedSequence(3))).all()
    assert (weights != CELL.initial_parameters(np.random.SeedSequence(4))).all()


def test_a_population_of_grus_is_trained_as_each_alone():
    data = {
        seed: pendulum_dataset(seed, train=12, validation=4, test=5, horizon=3) for seed in (0, 1)
    }
    config = TrainingConfig(epochs=2, batch_size=6, sweeps=1, relaxation=1.0, dtype="float64")
    schedule = Full(one_block(CELL.units))
    together = train_population(CELL, schedule, data, [0.01, 0.03], config)
    alone = train_population(CELL, schedule, {1: data[1]}, [0.03], config)
    assert_allclose(together.parameters[3], alone.parameters[0], rtol=0, atol=1e-10)
    assert (together.train_loss[-1] < together.train_loss[0]).all()


def test_autograd_and_torchs_own_gradient_agree():
    rng = np.random.default_rng(1)
    parameters = torch.as_tensor(rng.normal(size=(2, CELL.parameter_count)))
    states = torch.as_tensor(rng.normal(size=(2, 4, 4, 3)))
    controls = torch.as_tensor(rng.normal(size=(2, 4, 3, 1)))
    schedule = Full(one_block(CELL.units))
    gradient_of = AutogradGradient(CELL, schedule, sweeps=1, relaxation=1.0)
    loss, gradient, _ = gradient_of(parameters, states, controls, [])
    for s in range(2):
        gru, readout = CELL.torch_modules(parameters[s])
        hidden, state = torch.zeros(4, CELL.units, dtype=torch.float64), states[s, :, 0]
        total = 0.0
        for t in range(3):
            hidden = gru(torch.cat([state, controls[s, :, t]], dim=-1), hidden)
            state = readout(hidden)
            total = total + (state - states[s, :, t + 1]).square().mean() / 3
        total.backward()
        modules = [*gru.parameters(), *readout.parameters()]
        expected = torch.cat([p.grad.reshape(-1) for p in modules])
        assert loss[s].item() == pytest.approx(total.item(), rel=1e-12)
        assert_allclose(gradient[s], expected, rtol=1e-9, atol=1e-12)
