"""Pairing, standardisation and splits: what makes two arms on one seed a true pair."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import clusterdyn.training
from clusterdyn.adjoint import RolloutGradient
from clusterdyn.datasets import (
    PendulumSampling,
    Standardisation,
    Trajectories,
    minibatch_order,
    pendulum_dataset,
    sample_trajectories,
)
from clusterdyn.graph import contiguous, ring
from clusterdyn.model import MessagePassingCell
from clusterdyn.pendulum import Pendulum, simulate
from clusterdyn.schedules import SCHEDULES, make_schedule
from clusterdyn.streams import SeedStreams, seed_streams
from clusterdyn.training import TrainingConfig, train_population

SPLITS = ("train", "validation", "test")
SIZES = {"train": 12, "validation": 5, "test": 5, "horizon": 3}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def physical(dataset, split: str) -> Trajectories:
    """A split in physical units again."""
    moments, trajectories = dataset.standardisation, getattr(dataset, split)
    return Trajectories(
        states=trajectories.states * moments.state_std + moments.state_mean,
        controls=trajectories.controls * moments.control_std + moments.control_mean,
    )


# Pairing.


class Recording(RolloutGradient):
    """Keeps the minibatches and the parameters that every optimiser step sees."""

    seen: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]

    def __call__(self, parameters, states, controls, generators):
        self.seen.append((parameters.clone(), states.clone(), controls.clone()))
        return super().__call__(parameters, states, controls, generators)


@pytest.fixture
def steps_seen(monkeypatch):
    """A function that trains a population and returns what its optimiser steps saw.

    It returns initial parameters (P,), states (steps, B, T + 1, p) and controls (steps, B, T, q)
    of each model, by seed and learning rate.
    """

    def train(schedule: str, seeds, learning_rates):
        Recording.seen = []
        monkeypatch.setattr(clusterdyn.training, "RolloutGradient", Recording)
        graph = ring(6)
        population = train_population(
            MessagePassingCell(graph, channels=2),
            make_schedule(schedule, graph, contiguous(6, 3)),
            {seed: pendulum_dataset(seed, **SIZES) for seed in seeds},
            learning_rates,
            TrainingConfig(epochs=2, batch_size=4, sweeps=2, dtype="float64"),
        )
        models = zip(population.seeds, population.learning_rates, strict=True)
        return {
            (int(seed), float(rate)): (
                Recording.seen[0][0][s],
                torch.stack([states[s] for _, states, _ in Recording.seen]),
                torch.stack([controls[s] for _, _, controls in Recording.seen]),
            )
            for s, (seed, rate) in enumerate(models)
        }

    return train


def test_arms_population_and_learning_rates_leave_weights_and_batches_of_a_seed_bit_equal(
    steps_seen,
):
    alone = steps_seen("full", [7], [0.01])[7, 0.01]
    for schedule in SCHEDULES:
        for (seed, _), seen in steps_seen(schedule, [3, 7, 1], [0.003, 0.1]).items():
            if seed == 7:
                assert all(map(torch.equal, seen, alone))


def test_a_models_first_parameters_and_batches_come_from_its_seeds_own_streams(steps_seen):
    (parameters, states, controls) = steps_seen("random", [4, 9], [0.01])[9, 0.01]
    streams, dataset = seed_streams(9), pendulum_dataset(9, **SIZES)
    cell = MessagePassingCell(ring(6), channels=2)
    assert_array_equal(parameters, cell.initial_parameters(streams.weights))
    order = minibatch_order(streams.minibatches, 12, 4, 2).reshape(6, 4)
    assert_array_equal(states, dataset.train.states[order])
    assert_array_equal(controls, dataset.train.controls[order])


def test_two_seeds_differ_in_weights_and_in_batch_order(steps_seen):
    models = steps_seen("full", [0, 1], [0.01])
    assert not (models[0, 0.01][0] == models[1, 0.01][0]).any()
    orders = [minibatch_order(seed_streams(s).minibatches, 12, 4, 2) for s in (0, 1)]
    assert (orders[0] != orders[1]).any()


def test_one_seed_gives_bit_equal_data():
    first, second = pendulum_dataset(5, **SIZES), pendulum_dataset(5, **SIZES)
    for split in SPLITS:
        assert_array_equal(getattr(first, split).states, getattr(second, split).states)
        assert_array_equal(getattr(first, split).controls, getattr(second, split).controls)


def test_no_trajectory_is_shared_across_seeds_or_splits():
    initial, torques = [], []
    for seed in range(6):
        dataset = pendulum_dataset(seed, train=40, validation=20, test=20, horizon=3)
        for split in SPLITS:
            trajectories = physical(dataset, split)
            initial.append(trajectories.states[:, 0])
            torques.append(trajectories.controls.reshape(-1, 1))
    for values in (np.concatenate(initial), np.concatenate(torques)):
        rounded = np.round(values, 12)  # standardising and back moves the last bits
        assert len(np.unique(rounded, axis=0)) == len(rounded)


def test_the_streams_of_a_seed_are_spawned_children_and_all_different():
    names = list(SeedStreams.__dataclass_fields__)
    streams = [seed_streams(seed) for seed in (0, 1, 2**40)]
    first_draws = [
        np.random.default_rng(getattr(s, name)).integers(2**63) for s in streams for name in names
    ]
    assert len(set(first_draws)) == 3 * len(names)
    # A new purpose goes to the end: these seven keep their place.
    assert names[:7] == [
        "train",
        "validation",
        "test",
        "weights",
        "minibatches",
        "schedule_training",
        "schedule_evaluation",
    ]
    children = np.random.SeedSequence(2**40).spawn(7)
    for name, child in zip(names[:7], children, strict=True):
        assert_array_equal(getattr(streams[2], name).generate_state(4), child.generate_state(4))


@pytest.mark.parametrize("longer", ["validation", "test"])
def test_a_larger_split_leaves_the_draws_of_the_others_bit_equal(longer):
    small = pendulum_dataset(2, **SIZES)
    large = pendulum_dataset(2, **{**SIZES, longer: 50})
    assert len(getattr(large, longer).states) == 50
    for split in SPLITS:
        if split != longer:
            assert_array_equal(getattr(small, split).states, getattr(large, split).states)
            assert_array_equal(getattr(small, split).controls, getattr(large, split).controls)


def test_a_larger_training_split_leaves_the_raw_draws_of_the_others_alone():
    # Its moments change, so the standardised values do; undone, they are the same trajectories.
    small, large = pendulum_dataset(2, **SIZES), pendulum_dataset(2, **{**SIZES, "train": 50})
    for split in ("validation", "test"):
        before, after = physical(small, split), physical(large, split)
        assert_allclose(after.states, before.states, rtol=0, atol=1e-13)
        assert_allclose(after.controls, before.controls, rtol=0, atol=1e-13)
        assert not np.allclose(getattr(small, split).states, getattr(large, split).states)


# What is drawn.


def test_draws_are_uniform_over_the_studys_ranges():
    trajectories = sample_trajectories(np.random.SeedSequence(0), 4000, 2)
    angle = np.arctan2(trajectories.states[:, 0, 0], trajectories.states[:, 0, 1])
    ranges = (
        (angle, math.pi / 2),
        (trajectories.states[:, 0, 2], 1.0),
        (trajectories.controls.ravel(), 2.0),
    )
    for values, largest in ranges:
        assert np.abs(values).max() <= largest * (1 + 1e-12)
        assert stats.kstest(values, stats.uniform(-largest, 2 * largest).cdf).pvalue > 0.01


def test_the_draws_of_a_trajectory_are_uncorrelated():
    trajectories = sample_trajectories(np.random.SeedSequence(1), 4000, 3)
    drawn = np.column_stack([trajectories.states[:, 0, [0, 2]], trajectories.controls[..., 0]])
    correlation = np.corrcoef(drawn.T) - np.eye(5)
    assert np.abs(correlation).max() < 4 / math.sqrt(4000)


def test_observations_are_those_of_the_simulated_pendulum():
    pendulum, sampling = Pendulum(mass=2.0), PendulumSampling(0.1, 5.0, 0.2, 3.0)
    trajectories = sample_trajectories(
        np.random.SeedSequence(3), 20, 4, pendulum=pendulum, sampling=sampling
    )
    assert trajectories.states.shape == (20, 5, 3)
    assert trajectories.controls.shape == (20, 4, 1)
    sine, cosine, velocity = np.moveaxis(trajectories.states, -1, 0)
    initial = np.column_stack([np.arctan2(sine, cosine)[:, 0], velocity[:, 0]])
    states = simulate(pendulum, initial, trajectories.controls[..., 0], time_step=0.1)
    assert_allclose(sine, np.sin(states[..., 0]), rtol=0, atol=1e-12)
    assert_allclose(cosine, np.cos(states[..., 0]), rtol=0, atol=1e-12)
    assert_allclose(velocity, states[..., 1], rtol=0, atol=1e-12)
    assert 0.15 < np.abs(initial[:, 0]).max() <= 0.2
    assert 2.0 < np.abs(initial[:, 1]).max() <= 3.0
    assert 4.0 < np.abs(trajectories.controls).max() <= 5.0


# Standardisation.


def test_training_split_has_mean_zero_and_standard_deviation_one():
    train = pendulum_dataset(0, **{**SIZES, "train": 60}).train
    for values in (train.states, train.controls):
        flat = values.reshape(-1, values.shape[-1])
        assert_allclose(flat.mean(axis=0), 0, rtol=0, atol=1e-13)
        assert_allclose((flat**2).mean(axis=0), 1, rtol=1e-13)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_other_splits_are_standardised_by_the_training_moments(split):
    seed = 6
    dataset = pendulum_dataset(seed, **SIZES)
    train = sample_trajectories(seed_streams(seed).train, SIZES["train"], 3)
    raw = sample_trajectories(getattr(seed_streams(seed), split), 5, 3)
    standardised = getattr(dataset, split)
    for kind in ("states", "controls"):
        for channel in range(getattr(raw, kind).shape[-1]):
            reference = getattr(train, kind)[..., channel]
            expected = getattr(raw, kind)[..., channel] - reference.mean()
            expected /= np.sqrt(((reference - reference.mean()) ** 2).mean())
            assert_allclose(getattr(standardised, kind)[..., channel], expected, atol=1e-12)
    # Its own moments are others, so a leak of them would show.
    assert np.abs(standardised.states.mean(axis=(0, 1))).max() > 0.01


def test_standardisation_worked_out_by_hand():
    states = np.array([[[1.0, 10.0], [3.0, 30.0]], [[5.0, 10.0], [7.0, 30.0]]])
    controls = np.array([[[2.0]], [[6.0]]])
    moments = Standardisation.fit(Trajectories(states, controls))
    assert_allclose(moments.state_mean, [4.0, 20.0])
    assert_allclose(moments.state_std, [math.sqrt(5), 10.0])
    assert_allclose(moments.control_mean, [4.0])
    assert_allclose(moments.control_std, [2.0])
    unseen = Trajectories(np.full((1, 2, 2), 30.0), np.zeros((1, 1, 1)))
    applied = moments.apply(unseen)
    assert_allclose(applied.states[0, 0], [26 / math.sqrt(5), 1.0])
    assert_allclose(applied.controls, [[[-2.0]]])


@pytest.mark.parametrize(
    ("kind", "channel", "sentence"),
    [
        ("state", 1, "state channel 1 is constant over the training split"),
        ("control", 0, "control channel 0 is constant over the training split"),
    ],
)
def test_a_constant_channel_cannot_be_standardised(kind, channel, sentence):
    rng = np.random.default_rng(0)
    arrays = {"state": rng.normal(size=(4, 3, 2)), "control": rng.normal(size=(4, 2, 1))}
    arrays[kind][..., channel] = 0.5
    with pytest.raises(ValueError, match=sentence):
        Standardisation.fit(Trajectories(arrays["state"], arrays["control"]))


@pytest.mark.parametrize(
    ("states", "controls", "sentence"),
    [
        ((4, 3, 2), (4, 3, 1), r"one control a time step.*\(4, 3, 1\) and \(4, 3, 2\)"),
        ((4, 3, 2), (5, 2, 1), r"one control a time step.*\(5, 2, 1\) and \(4, 3, 2\)"),
        ((4, 3), (4, 2, 1), r"states \(N, T \+ 1, p\) and controls.*got shapes \(4, 3\)"),
        ((4, 3, 2), (4, 2), r"got shapes \(4, 3, 2\) and \(4, 2\)"),
    ],
)
def test_states_and_controls_must_belong_together(states, controls, sentence):
    with pytest.raises(ValueError, match=sentence):
        Trajectories(np.zeros(states), np.zeros(controls))


# Minibatches.


def test_every_trajectory_comes_once_an_epoch():
    order = minibatch_order(np.random.SeedSequence(0), 12, 4, 5)
    assert order.shape == (5, 3, 4)
    for epoch in order:
        assert sorted(epoch.ravel()) == list(range(12))


def test_every_epoch_has_an_order_of_its_own():
    order = minibatch_order(np.random.SeedSequence(0), 40, 4, 6).reshape(6, 40)
    assert len(np.unique(order, axis=0)) == 6


def test_a_last_smaller_batch_is_left_out():
    order = minibatch_order(np.random.SeedSequence(3), 11, 4, 200)
    assert order.shape == (200, 2, 4)
    for epoch in order.reshape(200, 8):
        assert len(set(epoch)) == 8
    # Not always the same three are left out: each is seen in 8 of 11 epochs.
    seen = np.bincount(order.ravel(), minlength=11)
    assert stats.chisquare(seen).pvalue > 0.01


def test_orders_of_more_epochs_begin_like_those_of_fewer():
    few = minibatch_order(np.random.SeedSequence(1), 12, 4, 3)
    many = minibatch_order(np.random.SeedSequence(1), 12, 4, 7)
    assert_array_equal(many[:3], few)


@pytest.mark.parametrize("batch_size", [0, 13])
def test_a_batch_must_fit_the_training_split(batch_size):
    sentence = f"batch_size must lie between 1 and the 12 training trajectories; got {batch_size}"
    with pytest.raises(ValueError, match=sentence):
        minibatch_order(np.random.SeedSequence(0), 12, batch_size, 1)
