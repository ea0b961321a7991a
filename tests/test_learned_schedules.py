"""Learned schedules: their files, their contract, and what learning may see."""

import dataclasses
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from test_qlearning import (
    BINS,
    CELL,
    CHANNELS,
    FOUR,
    GRAPH,
    NODES,
    PARTITIONS,
    SWEEPING,
    problem,
    random_policy,
)

from clusterdyn.contract import ScheduleError, check_schedule
from clusterdyn.datasets import Dataset, pendulum_dataset
from clusterdyn.graph import contiguous, ring, strided
from clusterdyn.qlearning.config import QLearningConfig
from clusterdyn.qlearning.joint import LearnsBeside
from clusterdyn.qlearning.learning import Learned, learn_policy, run_episodes
from clusterdyn.qlearning.policy import Policy, load_policy, untrained_policy
from clusterdyn.qlearning.schedules import QLearned, QOrdered, learned_schedule
from clusterdyn.schedules import SweepView
from clusterdyn.sweeps import rollout
from clusterdyn.training import (
    TrainingConfig,
    evaluate,
    schedule_generators,
    stack_split,
    train_population,
)

QUICK = QLearningConfig(passes=5, pass_trajectories=4, scored_passes=2, edge_trajectories=8)
KINDS = [(ordered, reward) for ordered in (False, True) for reward in ("residual", "loss")]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def chosen(schedule: QLearned, updates: int = 12, models: int = 2, seed: int = 0) -> np.ndarray:
    """(updates, S, B): the cluster of each choice at made-up hidden states."""
    hidden = np.random.default_rng(seed).normal(size=(updates, models, 5, NODES, CHANNELS))
    state = schedule.start([np.random.default_rng(s) for s in range(models)], 5)
    taken = []
    for number, now in enumerate(torch.as_tensor(hidden)):
        sweep, update = divmod(number, schedule.updates_per_sweep)
        active, state = schedule.choose(SweepView(now, now, 0, sweep, update), state)
        assert (active.sum(dim=-1) == 1).all()
        taken.append(active.to(torch.int8).argmax(dim=-1).numpy())
    return np.stack(taken)


# The schedules.


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: f"{p.name} {p.clusters}")
@pytest.mark.parametrize("ordered", [False, True])
def test_learned_schedules_keep_the_contract(partition, ordered):
    policy = random_policy(partition, ordered=ordered)
    check_schedule(learned_schedule(partition, GRAPH, policy), GRAPH)
    check_schedule(learned_schedule(partition, GRAPH, policy, exploration=0.5), GRAPH)
    blank = untrained_policy(GRAPH, partition, BINS, np.arange(2), ordered=ordered)
    check_schedule(learned_schedule(partition, GRAPH, blank), GRAPH)


def test_a_policy_that_read_another_model_would_break_the_contract():
    class ReadsOthers(QLearned):
        def cluster_states(self, hidden):
            return super().cluster_states(hidden.flip(0))

    with pytest.raises(ScheduleError, match="other models"):
        check_schedule(ReadsOthers(FOUR, GRAPH, random_policy()), GRAPH)


def test_the_cluster_with_the_largest_value_at_its_own_state_is_chosen():
    schedule = QLearned(FOUR, GRAPH, random_policy())
    hidden = torch.as_tensor(np.random.default_rng(3).normal(size=(2, 5, NODES, CHANNELS)))
    states = schedule.cluster_states(hidden)
    active, _ = schedule.choose(
        SweepView(hidden, hidden, 0, 0, 0),
        schedule.start([np.random.default_rng(s) for s in range(2)], 5),
    )
    for s, b in np.ndindex(2, 5):
        values = [schedule.policy.values[s, c, states[s, b, c]] for c in range(4)]
        assert active[s, b, int(np.argmax(values))]


def test_rounds_go_through_every_cluster_once_from_the_largest_value_on():
    # Values that depend on the cluster alone: the order is theirs in every sweep.
    blank = untrained_policy(GRAPH, FOUR, BINS, np.arange(2), ordered=True)
    values = np.broadcast_to(np.array([0.1, 0.4, -0.2, 0.3])[:, None], blank.values.shape)
    order = chosen(QOrdered(FOUR, GRAPH, replace(blank, values=values)))
    assert_array_equal(order.reshape(3, 4, 2, 5)[:, :, 1, 2], [[1, 3, 0, 2]] * 3)
    random = chosen(QOrdered(FOUR, GRAPH, blank)).reshape(3, 4, 10)
    assert (np.sort(random, axis=1) == np.arange(4)[:, None]).all()
    assert len({tuple(o) for o in random.transpose(0, 2, 1).reshape(-1, 4)}) > 5


def test_an_untrained_policy_chooses_evenly_at_random():
    blank = untrained_policy(GRAPH, FOUR, BINS, np.arange(2), ordered=False)
    counts = np.bincount(chosen(QLearned(FOUR, GRAPH, blank), updates=400).ravel(), minlength=4)
    assert np.abs(counts - 1000).max() < 4 * np.sqrt(4000 * 3 / 16)


def test_exploration_is_off_at_test_and_later_learning_shows_there():
    schedule = QLearned(FOUR, GRAPH, random_policy(), exploration=1.0)
    greedy = schedule.at_test()
    assert (schedule.exploration, greedy.exploration) == (1.0, 0.0)
    before = chosen(greedy)
    assert_array_equal(before, chosen(QLearned(FOUR, GRAPH, random_policy())))
    schedule.values.neg_()
    assert not np.array_equal(chosen(greedy), before)


@pytest.mark.parametrize(
    ("partition", "graph", "models", "message"),
    [
        (strided(NODES, 4), GRAPH, 2, r"clusters \[0, 0, 1, 1, .* does not fit .* learn one"),
        (contiguous(12, 4), ring(12), 2, r"does not fit"),
        (FOUR, GRAPH, 3, r"holds 2 models and 3 are run; give Policy.rows"),
    ],
)
def test_a_policy_is_refused_where_it_was_not_learned(partition, graph, models, message):
    with pytest.raises(ValueError, match=message):
        schedule = QLearned(partition, graph, random_policy())
        schedule.start([np.random.default_rng(s) for s in range(models)], 5)


def test_a_policy_of_rounds_is_refused_by_a_schedule_without():
    with pytest.raises(ValueError, match="q_learning cannot follow a policy of q_ordered"):
        QLearned(FOUR, GRAPH, random_policy(ordered=True))


# The file.


@pytest.mark.parametrize("ordered", [False, True])
def test_a_policy_that_was_saved_and_loaded_chooses_the_same_to_the_bit(ordered, tmp_path):
    policy = random_policy(ordered=ordered)
    policy.save(tmp_path / "policy.npz")
    loaded = load_policy(tmp_path / "policy.npz")
    for field in dataclasses.fields(Policy):
        before, after = getattr(policy, field.name), getattr(loaded, field.name)
        assert type(after) is type(before)
        assert_array_equal(after, before)
        if isinstance(before, np.ndarray):
            assert after.dtype == before.dtype
    first = chosen(learned_schedule(FOUR, GRAPH, policy))
    assert_array_equal(chosen(learned_schedule(FOUR, GRAPH, loaded)), first)
    assert len(np.unique(first)) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["policy.npz"]


def damaged(path: Path, **changes: np.ndarray | None) -> None:
    """Writes a policy with some arrays changed, or left out where they are None."""
    random_policy().save(path)
    with np.load(path) as file:
        arrays = {**file, **changes}
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": None}, "values"),
        ({"format": np.array("another")}, "its format is not"),
        ({"values": np.array([{"a": "pickle"}], dtype=object)}, "allow_pickle=False"),
        ({"values": np.zeros((2, 4, 5))}, r"values .* must have shape \(2, 4, 6\)"),
        ({"edges": np.zeros((3, 2))}, r"edges .* must have shape \(2, 2\)"),
        ({"edges": np.array([[2.0, 1.0], [0.0, 1.0]])}, "ascend"),
        ({"values": np.full((2, 4, 6), np.nan)}, "finite"),
        ({"visits": np.zeros((2, 4, 6))}, "its visits are float64"),
        ({"reward": np.array("praise")}, "reward must be one of residual, loss"),
        ({"labels": np.zeros((2, 2), dtype=np.int64)}, "labels"),
        ({"labels": -np.ones(8, dtype=np.int64)}, "labels"),
    ],
)
def test_a_damaged_policy_is_refused_in_a_sentence(changes, message, tmp_path):
    damaged(tmp_path / "policy.npz", **changes)
    with pytest.raises(ValueError, match=rf"policy.npz is not a whole policy \(.*{message}"):
        load_policy(tmp_path / "policy.npz")


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_policy_is_refused_in_a_sentence(content, tmp_path):
    (tmp_path / "policy.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"is not a whole policy .* Policy.save"):
        load_policy(tmp_path / "policy.npz")


def test_a_policy_that_cannot_be_put_in_place_leaves_no_pieces(tmp_path):
    (tmp_path / "policy.npz").mkdir()
    with pytest.raises(OSError):
        random_policy().save(tmp_path / "policy.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["policy.npz"]


def test_rows_of_a_policy_choose_what_they_chose_among_the_others():
    policy = random_policy(models=3)
    hidden = torch.as_tensor(np.random.default_rng(0).normal(size=(3, 5, NODES, CHANNELS)))
    together = QLearned(FOUR, GRAPH, policy).cluster_states(hidden)
    part = QLearned(FOUR, GRAPH, policy.rows(np.array([2, 0, 2])))
    assert_array_equal(part.cluster_states(hidden[[2, 0, 2]]), together[[2, 0, 2]])
    assert_array_equal(part.policy.values, policy.values[[2, 0, 2]])
    assert_array_equal(part.policy.seeds, [2, 0, 2])


# The learning rollout.


@pytest.mark.parametrize(("ordered", "reward"), KINDS)
def test_the_learning_rollout_is_the_sweep_loop(ordered, reward):
    parameters, states, controls = problem()
    policy = random_policy(models=3, ordered=ordered)
    schedule = learned_schedule(FOUR, GRAPH, policy)
    config = TrainingConfig(dtype="float64", **SWEEPING)
    generators = schedule_generators(range(3), training=False)
    brought = run_episodes(
        CELL.bind(parameters), schedule, states, controls, generators, reward=reward, **SWEEPING
    )
    mse, _ = evaluate(CELL, parameters, schedule, states, controls, range(3), config)
    assert_allclose(brought.mse, mse, rtol=1e-13)
    assert_array_equal(schedule.values, policy.values)  # nothing was learned


def test_the_total_reward_is_the_fall_within_each_time_step():
    parameters, states, controls = problem()
    cell = CELL.bind(parameters)
    schedule = learned_schedule(FOUR, GRAPH, random_policy(models=3))

    def total(reward: str) -> torch.Tensor:
        generators = schedule_generators(range(3), training=False)
        return run_episodes(
            cell, schedule, states, controls, generators, reward=reward, **SWEEPING
        ).total_reward

    # Falls of the loss add up to its values at the ends of each time step.
    ends: list[torch.Tensor] = []

    class Noting(QLearned):
        def choose(self, view, state):
            if view.sweep == 0:
                ends.append(view.hidden)
            return super().choose(view, state)

    generators = schedule_generators(range(3), training=False)
    run = rollout(
        cell,
        states[:, :, 0],
        controls,
        Noting(FOUR, GRAPH, schedule.policy),
        generators,
        **SWEEPING,
    )
    expected = 0.0
    for t, start in enumerate(ends):
        before = (cell.readout(start) - states[:, :, t + 1]).square().mean(dim=-1)
        after = (run.predictions[:, :, t] - states[:, :, t + 1]).square().mean(dim=-1)
        expected = expected + (before - after).mean(dim=1)
    assert_allclose(total("loss"), expected, rtol=1e-12)
    assert not np.allclose(total("residual"), expected)


def learned(
    parameters: torch.Tensor,
    states: torch.Tensor,
    controls: torch.Tensor,
    seeds: tuple[int, ...],
    *,
    ordered: bool = False,
    reward: str = "residual",
    validation=None,
) -> Learned:
    split = (states, controls)
    return learn_policy(
        CELL,
        parameters,
        FOUR,
        split,
        validation or split,
        seeds,
        ordered=ordered,
        reward=reward,
        bins=BINS,
        config=QUICK,
        **SWEEPING,
    )


def assert_same_policy(first: Policy, second: Policy, rows=slice(None)) -> None:
    for name in ("seeds", "edges", "values", "visits"):
        assert_array_equal(getattr(first, name)[rows], getattr(second, name)[rows])


@pytest.mark.parametrize(("ordered", "reward"), KINDS)
def test_a_models_policy_does_not_depend_on_the_other_models(ordered, reward):
    kind = {"ordered": ordered, "reward": reward}
    first = learned(*problem(models=3, batch=9), (4, 5, 6), **kind)
    mixed = [part.clone() for part in problem(models=3, batch=9, seed=1)]
    for part, own in zip(mixed, problem(models=3, batch=9), strict=True):
        part[1] = own[1]
    second = learned(*mixed, (8, 5, 9), **kind)
    assert_same_policy(first.policy, second.policy, rows=slice(1, 2))
    assert_array_equal(first.validation_mse[:, 1], second.validation_mse[:, 1])
    assert_array_equal(first.total_reward[:, 1], second.total_reward[:, 1])
    assert not np.allclose(first.policy.values[0], second.policy.values[0])
    alone = learned(*(part[1:2] for part in problem(models=3, batch=9)), (5,), **kind)
    assert_allclose(alone.policy.values[0], first.policy.values[1], rtol=0, atol=1e-12)
    assert_array_equal(alone.policy.visits[0], first.policy.visits[1])


def test_a_learning_run_is_repeated_to_the_bit():
    first, second = (learned(*problem(batch=9), (4, 5, 6)) for _ in range(2))
    assert_same_policy(first.policy, second.policy)
    assert_array_equal(first.total_reward, second.total_reward)


def test_the_residual_as_reward_needs_no_answer_and_the_loss_does():
    parameters, states, controls = problem(batch=9)
    blind = states.clone()
    blind[:, :, 1:] = np.nan
    with_answer = learned(parameters, states, controls, (1, 2, 3))
    without = learned(parameters, blind, controls, (1, 2, 3), validation=(states, controls))
    assert_same_policy(without.policy, with_answer.policy)
    loss = learned(parameters, blind, controls, (1, 2, 3), reward="loss")
    assert not loss.policy.visits.any()  # no target was finite


def test_the_validation_split_does_not_reach_the_tables():
    parameters, states, controls = problem(batch=9)
    first = learned(parameters, states, controls, (1, 2, 3))
    other = learned(
        parameters, states, controls, (1, 2, 3), validation=(states.neg(), controls.neg())
    )
    assert_same_policy(first.policy, other.policy)
    assert not (first.total_reward == other.total_reward).any()


def test_curves_start_at_the_random_policy_and_have_a_point_at_the_end():
    parameters, states, controls = problem(batch=9)
    result = learned(parameters, states, controls, (1, 2, 3))
    assert_array_equal(result.passes, [0, 2, 4, 5])
    config = TrainingConfig(dtype="float64", **SWEEPING)
    blank = untrained_policy(GRAPH, FOUR, BINS, (1, 2, 3), ordered=False)
    for policy, point in ((blank, 0), (result.policy, -1)):
        schedule = learned_schedule(FOUR, GRAPH, policy)
        mse, _ = evaluate(CELL, parameters, schedule, states, controls, (1, 2, 3), config)
        assert_allclose(result.validation_mse[point], mse, rtol=1e-13)
    updates = controls.shape[2] * SWEEPING["sweeps"]
    assert (result.policy.visits.sum(axis=(1, 2)) == 5 * 4 * updates).all()


def test_the_one_cluster_that_anything_drives_is_learned_to_be_updated():
    # Only cluster 2 has a drive, so only there does an update lower the residual.
    parameters, states, controls = problem(models=1, batch=20)
    weights = {name: part.clone() for name, part in CELL.unflatten(parameters).items()}
    driven = np.repeat(np.array(FOUR.labels) == 2, CHANNELS)
    for name in ("drive", "drive_bias"):
        weights[name][:, ~driven] = 0
    weights["messages"].zero_()
    parameters = torch.cat([part.flatten(1) for part in weights.values()], dim=1)
    # Without a future to look at, an update elsewhere is worth exactly nothing.
    config = QLearningConfig(passes=40, discount=0.0)
    result = learn_policy(
        CELL,
        parameters,
        FOUR,
        (states, controls),
        (states, controls),
        (0,),
        ordered=False,
        reward="residual",
        bins=BINS,
        config=config,
        **SWEEPING,
    )
    _, book = evaluate(
        CELL,
        parameters,
        learned_schedule(FOUR, GRAPH, result.policy),
        states,
        controls,
        (0,),
        TrainingConfig(dtype="float64", **SWEEPING),
    )
    assert_array_equal(book.share, [[0, 0, 1, 0]])
    assert result.total_reward[-1] > 2 * result.total_reward[0]


# Weights and tables in turn.


TRAINING = TrainingConfig(epochs=3, batch_size=5, dtype="float64", **SWEEPING)


def data(*seeds: int) -> dict[int, Dataset]:
    return {seed: pendulum_dataset(seed, train=12, validation=6, test=7) for seed in seeds}


def trained_jointly(
    datasets: dict[int, Dataset], rates=(0.01, 0.03), *, ordered=False, reward="residual"
):
    """A population and the schedule that learned beside it."""
    seeds = np.repeat(list(datasets), len(rates))
    blank = untrained_policy(GRAPH, FOUR, BINS, seeds, ordered=ordered, reward=reward)
    schedule = LearnsBeside(
        learned_schedule(FOUR, GRAPH, blank),
        seeds,
        reward=reward,
        epochs=TRAINING.epochs,
        config=QUICK,
        **SWEEPING,
    )
    return train_population(CELL, schedule, datasets, list(rates), TRAINING), schedule


@pytest.mark.parametrize(("ordered", "reward"), KINDS)
def test_jointly_trained_models_are_scored_under_their_greedy_policy(ordered, reward):
    datasets = data(3, 4)
    population, schedule = trained_jointly(datasets, ordered=ordered, reward=reward)
    greedy = learned_schedule(FOUR, GRAPH, schedule.learned.learned())
    assert greedy.exploration == 0
    rows = [datasets[seed] for seed in population.seeds]
    for split, found in (
        ("validation", population.validation_loss[-1]),
        ("test", population.test_mse),
    ):
        mse, _ = evaluate(
            CELL,
            torch.as_tensor(population.parameters),
            greedy,
            *stack_split(rows, split, TRAINING),
            population.seeds,
            TRAINING,
        )
        assert_allclose(found, mse, rtol=1e-12)


def test_weights_are_trained_under_an_exploration_that_falls_from_epoch_to_epoch():
    seen = []

    class Watched(LearnsBeside):
        def start(self, generators, batch):
            seen.append(self.learned.exploration)
            return super().start(generators, batch)

    blank = untrained_policy(GRAPH, FOUR, BINS, (3,), ordered=False)
    schedule = Watched(
        learned_schedule(FOUR, GRAPH, blank),
        (3,),
        reward="residual",
        epochs=3,
        config=QUICK,
        **SWEEPING,
    )
    train_population(CELL, schedule, data(3), [0.01], TRAINING)
    assert_allclose(seen, [0.6, 0.6, 0.325, 0.325, 0.05, 0.05])  # two minibatches an epoch


def test_tables_are_learned_after_every_epoch_at_edges_of_the_models_as_they_are():
    _, schedule = trained_jointly(data(3, 4))
    policy = schedule.learned.learned()
    updates = 4 * SWEEPING["sweeps"]
    passes = TRAINING.epochs * QUICK.epoch_passes
    assert (policy.visits.sum(axis=(1, 2)) == passes * QUICK.pass_trajectories * updates).all()
    assert (policy.edges > 0).all() and len(np.unique(policy.edges)) == policy.edges.size


def test_a_jointly_trained_model_does_not_depend_on_the_other_models():
    together, schedule = trained_jointly(data(9, 4), (0.1, 0.01))
    alone, own = trained_jointly(data(4), (0.01,))
    (row,) = np.flatnonzero((together.seeds == 4) & (together.learning_rates == 0.01))
    assert_allclose(together.parameters[row], alone.parameters[0], rtol=0, atol=1e-9)
    assert_allclose(schedule.learned.values[row], own.learned.values[0], rtol=0, atol=1e-9)
    assert_array_equal(schedule.learned.visits[row], own.learned.visits[0])


@pytest.mark.parametrize("reward", ["residual", "loss"])
def test_a_diverged_model_leaves_its_neighbours_tables_bit_equal_and_its_own_finite(reward):
    calm, first = trained_jointly(data(3), (0.01, 0.02), reward=reward)
    wild, second = trained_jointly(data(3), (0.01, 1e200), reward=reward)
    assert len(wild.divergences) == 1 and not calm.divergences
    assert_array_equal(wild.parameters[0], calm.parameters[0])
    assert_array_equal(second.learned.values[0], first.learned.values[0])
    second.learned.learned()  # refuses what is not finite
