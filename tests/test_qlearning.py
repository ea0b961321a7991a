"""The learner: states, one step of Q-learning, known Markov decision processes, known faults."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import Tensor

from clusterdyn.graph import Partition, contiguous, random_partition, ring, strided
from clusterdyn.model import MessagePassingCell
from clusterdyn.qlearning import learner, learning, schedules
from clusterdyn.qlearning.config import QLearningConfig
from clusterdyn.qlearning.learning import learning_generators, run_episodes
from clusterdyn.qlearning.policy import Policy, untrained_policy
from clusterdyn.qlearning.schedules import QLearned, learned_schedule
from clusterdyn.qlearning.states import (
    histogram_states,
    quantile_edges,
    rank_table,
    state_count,
    state_numbers,
)

NODES, CHANNELS, BINS = 8, 2, 3
GRAPH = ring(NODES)
CELL = MessagePassingCell(GRAPH, CHANNELS)
FOUR = contiguous(NODES, 4)
UNEQUAL = Partition("unequal", (0, 1, 2, 1, 1, 2, 0, 2))  # sizes 2, 3 and 3
PARTITIONS = (FOUR, strided(NODES, 2), random_partition(NODES, 4, 5), UNEQUAL)
SWEEPING = {"sweeps": 2, "relaxation": 0.5}
QUICK = QLearningConfig(passes=5, pass_trajectories=5, scored_passes=2, edge_trajectories=8)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def random_policy(
    partition: Partition = FOUR, models: int = 2, seed: int = 0, ordered: bool = False
) -> Policy:
    """A policy in which no two entries of a table tie."""
    rng = np.random.default_rng(seed)
    blank = untrained_policy(GRAPH, partition, BINS, np.arange(models), ordered=ordered)
    return replace(
        blank,
        values=rng.normal(size=blank.values.shape),
        visits=rng.integers(100, size=blank.visits.shape),
        edges=np.sort(rng.uniform(0.5, 2, size=blank.edges.shape), axis=1),
    )


def problem(models: int = 3, batch: int = 6, horizon: int = 3, seed: int = 0):
    """A bound cell of random models, states (S, B, T + 1, 3) and controls (S, B, T, 1)."""
    rng = np.random.default_rng(seed)
    parameters = torch.as_tensor(0.7 * rng.normal(size=(models, CELL.parameter_count)))
    states = torch.as_tensor(rng.normal(size=(models, batch, horizon + 1, 3)))
    controls = torch.as_tensor(rng.normal(size=(models, batch, horizon, 1)))
    return parameters, states, controls


# The states.


@pytest.mark.parametrize(
    ("nodes", "bins"), [(1, 4), (4, 4), (4, 1), (1, 1), (6, 2), (3, 5), (7, 4)]
)
def test_there_are_as_many_states_as_multisets_and_each_stands_at_its_number(nodes, bins):
    multisets = {
        tuple(Counter(bag)[b] for b in range(bins))
        for bag in combinations_with_replacement(range(bins), nodes)
    }
    states = histogram_states(nodes, bins)
    assert len(states) == state_count(nodes, bins) == math.comb(nodes + bins - 1, bins - 1)
    assert {tuple(state) for state in states.tolist()} == multisets
    below = states.cumsum(axis=1)[:, :-1].T  # (m - 1, X)
    numbers = state_numbers(
        torch.as_tensor(below)[:, None, :, None], torch.as_tensor(rank_table(nodes, bins))
    )
    assert_array_equal(numbers.flatten(), np.arange(len(states)))


def test_the_states_of_a_cluster_of_two_nodes_over_three_bins_by_hand():
    assert_array_equal(
        histogram_states(2, 3),
        [[0, 0, 2], [0, 1, 1], [1, 0, 1], [0, 2, 0], [1, 1, 0], [2, 0, 0]],
    )


def test_a_table_that_nobody_could_fill_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"256 nodes has 2862209 histograms .* use fewer bins"):
        untrained_policy(ring(1024), contiguous(1024, 4), 4, np.arange(2), ordered=False)


def slow_state(disagreement: np.ndarray, edges: np.ndarray, nodes: list[int]) -> tuple[int, ...]:
    """Occupancy of the bins, by a loop over nodes."""
    occupancy = [0] * (len(edges) + 1)
    for node in nodes:
        occupancy[sum(disagreement[node] >= edge for edge in edges)] += 1
    return tuple(occupancy)


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: f"{p.name} {p.clusters}")
def test_cluster_states_are_those_of_a_loop_over_nodes(partition):
    schedule = QLearned(partition, GRAPH, random_policy(partition))
    hidden = torch.as_tensor(np.random.default_rng(1).normal(size=(2, 5, NODES, CHANNELS)))
    found = schedule.cluster_states(hidden)
    neighbours = (hidden.roll(1, dims=2) + hidden.roll(-1, dims=2)) / 2
    disagreement = (hidden - neighbours).norm(dim=-1).numpy()
    for s, b, c in np.ndindex(2, 5, partition.clusters):
        members = partition.members(c)
        occupancy = slow_state(disagreement[s, b], schedule.policy.edges[s], members)
        assert tuple(histogram_states(len(members), BINS)[found[s, b, c]]) == occupancy
    assert len(np.unique(found)) > 3


def test_a_state_does_not_depend_on_the_order_of_its_nodes():
    # On a partition into singletons' unions, swapping equal disagreements within a cluster.
    ranks = torch.as_tensor(rank_table(4, 4))
    edges = np.array([1.0, 2.0, 3.0])
    bag = np.array([0.5, 1.5, 1.7, 3.5])
    numbers = set()
    for _ in range(10):
        bag = np.random.default_rng(len(numbers)).permutation(bag)
        below = torch.as_tensor((bag < edges[:, None]).sum(axis=1))[:, None, None, None]
        numbers.add(int(state_numbers(below, ranks)))
    assert len(numbers) == 1


def test_edges_make_the_bins_of_each_model_equally_full():
    rng = np.random.default_rng(0)
    seen = np.stack([rng.exponential(size=3000), 100 * rng.exponential(size=3000)])
    seen[:, :500] = 0  # at the start of a rollout nothing disagrees
    edges = quantile_edges(seen, 4)
    for row in range(2):
        counts, _ = np.histogram(seen[row, 500:], [0, *edges[row], np.inf])
        assert_array_equal(counts, [625, 625, 625, 625])
    assert_array_equal(quantile_edges(seen[:1], 4), edges[:1])


def test_edges_pass_over_what_is_not_finite_and_are_zero_where_nothing_disagrees():
    seen = np.array([[0, 1, 2, 3, np.nan, np.inf], [0, 0, 0, 0, 0, np.nan]])
    assert_array_equal(quantile_edges(seen, 2), [[2], [0]])


# One step of Q-learning.


def one_step(values, action, states, target, step_size=0.1) -> tuple[np.ndarray, np.ndarray]:
    """Values and visits after ``learn``, for one model; values (C, X), the rest (B, ...)."""
    table = torch.tensor(np.array(values, dtype=np.float64))[None]
    visits = learner.learn(
        table,
        torch.tensor(action)[None],
        torch.tensor(states)[None],
        torch.tensor(target, dtype=torch.float64)[None],
        step_size=step_size,
    )
    return table[0].numpy(), visits[0].numpy()


def test_one_trajectory_moves_one_entry_by_the_textbooks_step():
    values, visits = one_step([[1, 2], [3, 4]], [1], [[0, 1]], [10])
    assert_allclose(values, [[1, 2], [3, 0.9 * 4 + 0.1 * 10]], rtol=1e-15)
    assert_array_equal(visits, [[0, 0], [0, 1]])


def test_trajectories_that_meet_in_an_entry_are_as_many_steps_towards_their_mean():
    # Three of them chose cluster 0 in state 1, one chose cluster 1 in state 0.
    values, visits = one_step(
        [[1, 2], [3, 4]], [0, 1, 0, 0], [[1, 0], [1, 0], [1, 1], [1, 0]], [5, 7, 6, 10]
    )
    expected = 2.0
    for _ in range(3):
        expected = 0.9 * expected + 0.1 * 7.0
    assert_allclose(values, [[1, expected], [0.9 * 3 + 0.1 * 7, 4]], rtol=1e-15)
    assert_array_equal(visits, [[0, 3], [1, 0]])


def test_the_order_of_the_trajectories_does_not_matter():
    rng = np.random.default_rng(3)
    start, action = rng.normal(size=(3, 4)), rng.integers(3, size=50)
    states, target = rng.integers(4, size=(50, 3)), rng.normal(size=50)
    order = rng.permutation(50)
    first, _ = one_step(start, action, states, target)
    second, _ = one_step(start, action[order], states[order], target[order])
    assert_allclose(second, first, rtol=0, atol=1e-14)
    assert np.abs(first - start).max() > 0.1


def test_trajectories_in_entries_of_their_own_are_steps_one_after_another():
    states, action, target = [[0, 1], [1, 0], [2, 2]], [0, 1, 0], [3.0, -1.0, 2.0]
    together, _ = one_step([[1, 2, 3], [4, 5, 6]], action, states, target)
    values = [[1, 2, 3], [4, 5, 6]]
    for number in (2, 0, 1):
        values, _ = one_step(values, [action[number]], [states[number]], [target[number]])
    assert_allclose(together, values, rtol=1e-15)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_target_that_is_not_finite_counts_as_no_visit(bad):
    values, visits = one_step([[1, 2]], [0, 0, 0], [[0], [1], [0]], [3, bad, bad])
    assert_allclose(values, [[1.2, 2]], rtol=1e-15)
    assert_array_equal(visits, [[1, 0]])


@pytest.mark.parametrize(("step_size", "value"), [(0.0, 2.0), (1.0, 7.0)])
def test_a_step_size_of_0_learns_nothing_and_one_of_1_forgets_all(step_size, value):
    values, _ = one_step([[2, 2]], [0, 0], [[0], [0]], [6, 8], step_size)
    assert_array_equal(values, [[value, 2]])


# Markov decision processes whose Q* is known. Clusters stand for actions. Every cluster calls the
# process's state by a name of its own, so that each table row needs its own cluster's state.

Bootstrap = Callable[[Tensor, Tensor, Tensor | None], Tensor]
NAMES = {  # (actions, states): of each state for each cluster, by the shape of the rewards
    (2, 2): np.array([[0, 1], [1, 0]]),
    (5, 3): np.array([[0, 1, 2, 3, 4], [3, 0, 4, 2, 1], [2, 4, 1, 0, 3]]),
}


def named(states: np.ndarray, reward: np.ndarray) -> Tensor:
    """Each cluster's name of the process's state: (1, B, C) from (B,)."""
    return torch.as_tensor(NAMES[reward.shape][:, states].T[None])


def by_state(table: Tensor, reward: np.ndarray) -> np.ndarray:
    """Q (states, actions) from a table (1, C, X)."""
    return np.take_along_axis(table[0].numpy(), NAMES[reward.shape], axis=1).T


def value_iteration(reward: np.ndarray, chance: np.ndarray, discount: float) -> np.ndarray:
    """Q* (states, actions) from rewards (states, actions) and chances (states, actions, next)."""
    values = np.zeros_like(reward)
    for _ in range(2000):
        values = reward + discount * chance @ values.max(axis=1)
    return values


def learned_by_steps(
    reward: np.ndarray,
    chance: np.ndarray,
    *,
    copies: int,
    steps: int,
    average: int = 1,
    best_value: Bootstrap = learner.best_value,
) -> np.ndarray:
    """Q (states, actions) that the learner finds when every pair is tried in every step.

    Args:
        reward: (states, actions).
        chance: (states, actions, next states).
        copies: trajectories a pair and step.
        steps: how many.
        average: over that many last steps.
        best_value: what an update bootstraps on.
    """
    count, actions = reward.shape
    rng = np.random.default_rng(0)
    table = torch.zeros(1, actions, count, dtype=torch.float64)
    state, action = (x.ravel().repeat(copies) for x in np.indices(reward.shape))
    total = np.zeros((count, actions))
    for step in range(steps):
        draws = rng.random(len(state))[:, None]
        after = (chance[state, action].cumsum(axis=1) < draws - 1e-12).sum(axis=1)
        future = best_value(table, named(after, reward), None)
        target = torch.as_tensor(reward[state, action]) + 0.9 * future
        learner.learn(table, torch.as_tensor(action)[None], named(state, reward), target,
                     step_size=0.1)  # fmt: skip
        if step >= steps - average:
            total += by_state(table, reward)
    return total / average


STAY_OR_SWITCH = (
    np.array([[1.0, 0.0], [0.0, 0.0]]),  # only staying in state 0 is rewarded
    np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], dtype=float),
)


def test_stay_or_switch_is_learned_to_its_closed_form():
    # V(0) = 1 / (1 - 0.9) = 10 and V(1) = 0.9 V(0) = 9.
    found = learned_by_steps(*STAY_OR_SWITCH, copies=1, steps=2000)
    assert_allclose(found, [[10, 0.9 * 9], [0.9 * 9, 0.9 * 10]], rtol=1e-7)


def deterministic_process(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(5, 3)), np.eye(5)[rng.integers(5, size=(5, 3))]


@pytest.mark.parametrize("seed", range(3))
def test_a_deterministic_process_is_learned_to_its_value_iteration(seed):
    process = deterministic_process(seed)
    found = learned_by_steps(*process, copies=1, steps=1500)
    assert_allclose(found, value_iteration(*process, 0.9), atol=1e-5)


def test_a_random_process_is_learned_to_its_value_iteration_within_its_noise():
    rng = np.random.default_rng(7)
    reward, chance = rng.normal(size=(5, 3)), rng.dirichlet(np.ones(5), size=(5, 3))
    best = value_iteration(reward, chance, 0.9)
    copies, average = 800, 200
    found = learned_by_steps(reward, chance, copies=copies, steps=400, average=average)
    # The noise of a target's mean; a discount of 0.9 adds it up over about 10 steps.
    error = 10 * best.max(axis=1).std() / math.sqrt(copies * average)
    assert np.abs(found - best).max() < 4 * error < 0.1 * best.std()


def test_one_epsilon_greedy_walk_ends_in_the_best_policy():
    reward, chance = deterministic_process(4)
    best = value_iteration(reward, chance, 0.9)
    table, state = torch.zeros(1, 3, 5, dtype=torch.float64), 0
    rng = np.random.default_rng(0)
    for _ in range(6000):
        now = named(np.array([state]), reward)
        draws = torch.as_tensor(rng.random((1, 1, 4)))
        action = learner.choose(learner.values_at(table, now), draws, exploration=0.6)
        after = int(chance[state, int(action)].argmax())
        future = learner.best_value(table, named(np.array([after]), reward))
        target = reward[state, int(action)] + 0.9 * future
        learner.learn(table, action, now, target, step_size=0.1)
        state = after
    found = by_state(table, reward)
    assert_array_equal(found.argmax(axis=1), best.argmax(axis=1))
    assert_allclose(found, best, atol=0.05 * np.abs(best).max())


# The faults of public implementations. Each claim holds for the learner, and not for the fault.


def exploits_with_probability_epsilon(values, draws, *, exploration, allowed=None):
    return learner.choose(values, draws, exploration=1 - exploration, allowed=allowed)


def takes_a_local_index_for_a_global_one(values, draws, *, exploration, allowed=None):
    if allowed is None:
        return learner.choose(values, draws, exploration=exploration)
    remaining = allowed.sum(dim=-1).max()
    order = allowed.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[..., :remaining]
    local = torch.cat([draws.gather(-1, order), draws[..., -1:]], dim=-1)
    return learner.choose(values.gather(-1, order), local, exploration=exploration)


def bootstraps_on_one_clusters_state(values, states, allowed=None):
    return learner.best_value(values, states[..., :1].expand_as(states), allowed)


def bootstraps_on_masked_clusters(values, states, allowed=None):
    return learner.best_value(values, states)


def claim_most_choices_are_greedy(choose):
    rng = np.random.default_rng(0)
    values = torch.as_tensor(rng.normal(size=(1, 4000, 4)))
    draws = torch.as_tensor(rng.random((1, 4000, 5)))
    for exploration in (0.05, 0.6):
        greedy = choose(values, draws, exploration=exploration) == values.argmax(dim=-1)
        share = 1 - exploration * 3 / 4  # a random choice is the best one in one of four cases
        assert abs(greedy.double().mean() - share) < 4 * math.sqrt(share * (1 - share) / 4000)


def claim_the_best_allowed_cluster_is_chosen(choose):
    values = torch.tensor([[[9.0, 1.0, 3.0, 2.0]]])
    draws, allowed = torch.full((1, 1, 5), 0.5), torch.tensor([[[False, True, True, True]]])
    assert choose(values, draws, exploration=0.0, allowed=allowed).tolist() == [[2]]
    allowed = torch.tensor([[[False, True, False, True]]])
    assert choose(values, draws, exploration=0.0, allowed=allowed).tolist() == [[3]]


def claim_each_cluster_is_valued_at_its_own_next_state(best_value):
    values = torch.tensor([[[1.0, 5.0, 0.0], [2.0, 0.0, 8.0]]])
    # Cluster 0 in state 0 and cluster 1 in state 1, then in states 2 and 2, then 1 and 0.
    states = torch.tensor([[[0, 1], [2, 2], [1, 0]]])
    assert best_value(values, states, None).tolist() == [[1, 8, 5]]


def claim_a_process_is_learned_under_names_of_each_clusters_own(best_value):
    process = deterministic_process(0)
    found = learned_by_steps(*process, copies=1, steps=1500, best_value=best_value)
    assert_allclose(found, value_iteration(*process, 0.9), atol=1e-5)


def claim_what_may_not_be_chosen_is_not_bootstrapped_on(best_value):
    values = torch.tensor([[[1.0], [7.0], [3.0]]])
    states = torch.zeros(1, 1, 3, dtype=torch.int64)
    allowed = torch.tensor([[[True, False, True]]])
    assert best_value(values, states, allowed).tolist() == [[3]]


@pytest.mark.parametrize(
    ("claim", "ours", "fault"),
    [
        (claim_most_choices_are_greedy, learner.choose, exploits_with_probability_epsilon),
        (
            claim_the_best_allowed_cluster_is_chosen,
            learner.choose,
            takes_a_local_index_for_a_global_one,
        ),
        (
            claim_each_cluster_is_valued_at_its_own_next_state,
            learner.best_value,
            bootstraps_on_one_clusters_state,
        ),
        (
            claim_a_process_is_learned_under_names_of_each_clusters_own,
            learner.best_value,
            bootstraps_on_one_clusters_state,
        ),
        (
            claim_what_may_not_be_chosen_is_not_bootstrapped_on,
            learner.best_value,
            bootstraps_on_masked_clusters,
        ),
    ],
)
def test_a_known_fault_is_not_the_learners(claim, ours, fault):
    claim(ours)
    with pytest.raises(AssertionError):
        claim(fault)


def test_ties_are_broken_evenly_and_choices_at_random_are_uniform_over_what_is_allowed():
    rng = np.random.default_rng(0)
    draws = torch.as_tensor(rng.random((1, 6000, 5)))
    tied = torch.tensor([2.0, 1.0, 2.0, 2.0]).expand(1, 6000, 4)
    counts = np.bincount(learner.choose(tied, draws, exploration=0.0).flatten(), minlength=4)
    assert counts[1] == 0 and np.abs(counts[[0, 2, 3]] - 2000).max() < 4 * math.sqrt(6000 * 2 / 9)
    allowed = torch.tensor([True, True, False, True]).expand(1, 6000, 4)
    chosen = learner.choose(tied, draws, exploration=1.0, allowed=allowed)
    counts = np.bincount(chosen.flatten(), minlength=4)
    assert counts[2] == 0 and np.abs(counts[[0, 1, 3]] - 2000).max() < 4 * math.sqrt(6000 * 2 / 9)


# The learning rollout against a slow one: a dictionary for a table, one update after another.


def slow_learning(
    cell, policy: Policy, partition, states, controls, generators, *, ordered, reward, exploration
) -> dict[tuple[int, tuple[int, ...]], float]:
    """The table of one model after its trajectories have run side by side."""
    table: dict[tuple[int, tuple[int, ...]], float] = {}
    clusters = range(partition.clusters)
    members = [partition.members(c) for c in clusters]
    batch, horizon = states.shape[1], controls.shape[2]
    follows = learned_schedule(partition, GRAPH, policy)
    draws = follows.start(generators, batch).draws
    updates = SWEEPING["sweeps"] * (partition.clusters if ordered else 1)

    def histograms(hidden) -> list[list[tuple[int, ...]]]:
        mean = (hidden.roll(1, dims=2) + hidden.roll(-1, dims=2)) / 2
        apart = (hidden - mean).norm(dim=-1)[0].numpy()
        return [[slow_state(row, policy.edges[0], nodes) for nodes in members] for row in apart]

    def costs(hidden, drive, target) -> list[float]:
        if reward == "loss":
            errors = (cell.readout(hidden) - target)[0]
            return [float((error**2).mean()) for error in errors]
        fall = (cell.proposal(hidden, drive) - hidden)[0]
        return [float((node**2).sum().sqrt()) for node in fall]

    hidden, state = cell.start(batch), states[:, :, 0]
    waiting = [set(clusters) for _ in range(batch)]
    for t in range(horizon):
        drive, target = cell.drive(state, controls[:, :, t]), states[:, :, t + 1]
        for update in range(updates):
            drawn = next(draws)[0].numpy()
            now, before = histograms(hidden), costs(hidden, drive, target)
            moved = hidden.clone()
            proposal = cell.proposal(hidden, drive)
            chosen = []
            for b in range(batch):
                candidates = waiting[b] if ordered else set(clusters)
                worth = {c: table.get((c, now[b][c]), 0.0) for c in candidates}
                if drawn[b, -1] < exploration:
                    worth = dict.fromkeys(candidates, 0.0)
                best = [c for c in candidates if worth[c] == max(worth.values())]
                cluster = max(best, key=lambda c: drawn[b, c])
                chosen.append(cluster)
                waiting[b].discard(cluster)
                waiting[b] = waiting[b] or set(clusters)
                for node in members[cluster]:
                    moved[0, b, node] += SWEEPING["relaxation"] * (proposal - hidden)[0, b, node]
            hidden = moved
            after, cost = histograms(hidden), costs(hidden, drive, target)
            targets: dict[tuple[int, tuple[int, ...]], list[float]] = {}
            for b, cluster in enumerate(chosen):
                value = before[b] - cost[b]
                if (t, update) != (horizon - 1, updates - 1):
                    candidates = waiting[b] if ordered else set(clusters)
                    value += 0.9 * max(table.get((c, after[b][c]), 0.0) for c in candidates)
                targets.setdefault((cluster, now[b][cluster]), []).append(value)
            for entry, values in targets.items():
                for _ in values:
                    table[entry] = 0.9 * table.get(entry, 0.0) + 0.1 * np.mean(values)
        state = cell.readout(hidden)
    return table


def claim_learning_is_the_slow_loop(ordered: bool, reward: str, batch: int, partition=UNEQUAL):
    parameters, states, controls = problem(models=1, batch=batch, horizon=4)
    cell = CELL.bind(parameters)
    blank = untrained_policy(GRAPH, partition, BINS, [5], ordered=ordered, reward=reward)
    policy = replace(blank, edges=np.array([[0.3, 0.6]]))
    schedule = learned_schedule(partition, GRAPH, policy, exploration=0.4)
    run_episodes(
        cell,
        schedule,
        states,
        controls,
        learning_generators([5]),
        reward=reward,
        config=QLearningConfig(),
        **SWEEPING,
    )
    expected = slow_learning(
        cell,
        policy,
        partition,
        states,
        controls,
        learning_generators([5]),
        ordered=ordered,
        reward=reward,
        exploration=0.4,
    )
    found = schedule.learned()
    assert len(expected) > 5
    for c in range(partition.clusters):
        for x, occupancy in enumerate(histogram_states(len(partition.members(c)), BINS).tolist()):
            entry = (c, tuple(occupancy))
            assert_allclose(found.values[0, c, x], expected.get(entry, 0.0), rtol=0, atol=1e-12)
            assert (found.visits[0, c, x] > 0) == (entry in expected)
    updates = 4 * SWEEPING["sweeps"] * (partition.clusters if ordered else 1)
    assert found.visits.sum() == updates * batch


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("reward", ["residual", "loss"])
@pytest.mark.parametrize("batch", [1, 7])
def test_learning_is_that_of_a_slow_loop_over_trajectories_and_nodes(ordered, reward, batch):
    claim_learning_is_the_slow_loop(ordered, reward, batch)


@pytest.mark.parametrize(
    ("module", "name", "fault"),
    [
        (schedules, "choose", exploits_with_probability_epsilon),
        (schedules, "choose", takes_a_local_index_for_a_global_one),
        (learning, "best_value", bootstraps_on_one_clusters_state),
        (learning, "best_value", bootstraps_on_masked_clusters),
    ],
)
def test_learning_with_a_known_fault_is_not_that_of_the_slow_loop(module, name, fault, monkeypatch):
    monkeypatch.setattr(module, name, fault)
    with pytest.raises(AssertionError):
        claim_learning_is_the_slow_loop(ordered=True, reward="residual", batch=7)
