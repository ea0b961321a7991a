"""The strict study's schedules against slow loops, and the texts that they are written as."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from torch import Tensor

from clusterdyn.contract import ScheduleError, check_schedule
from clusterdyn.graph import Partition, contiguous, random_partition, ring, strided
from clusterdyn.model import MessagePassingCell
from clusterdyn.options import name_of
from clusterdyn.schedules import (
    SCHEDULES,
    RoundRobin,
    Schedule,
    SweepView,
    make_schedule,
)
from clusterdyn.sweeps import Rollout, active_clusters, ledger, rollout
from clusterdyn.training import schedule_generators

NODES, CHANNELS, SWEEPS = 8, 3, 3
FOUR = contiguous(NODES, 4)
UNEQUAL = Partition("unequal", (0, 1, 2, 1, 1, 2, 0, 2))  # sizes 2, 3 and 3
PARTITIONS = (FOUR, strided(NODES, 2), random_partition(NODES, 4, 5), UNEQUAL)

# Every schedule, and every value of every option.
TEXTS = (
    "full",
    "sequential",
    "cluster_sequential",
    "round_robin",
    "round_robin(noise=0.25)",
    "round_robin(noise=1)",
    "random",
    "random(share=batch)",
    "random(share=always)",
    "clockwork",
    "histogram",
    "histogram(ties=lowest, share=trajectory)",
    "histogram(ties=random)",
    "histogram(ties=oldest)",
    "histogram(share=batch)",
    "histogram(ties=random, share=batch)",
    "histogram(ties=oldest, share=batch)",
    "histogram_fair",
    "histogram_fair(age_weight=4)",
    "histogram_fair(age_weight=0.5, share=batch)",
    "histogram_ordered",
    "residual",
    "residual(norm=max)",
    "residual(norm=mean)",
    "oracle",
)
# These look at all trajectories that run together.
LOOKS_AT_THE_BATCH = tuple(t for t in TEXTS if "share=batch" in t and "histogram" in t)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def made(text: str, partition: Partition = FOUR, bins: int = 4, relaxation=0.5) -> Schedule:
    return make_schedule(text, ring(NODES), partition, bins=bins, relaxation=relaxation)


def generators(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


def random_hidden(updates: int, models: int = 2, batch: int = 4, seed: int = 0) -> Tensor:
    """(updates, S, B, n, d), float64."""
    rng = np.random.default_rng(seed)
    return torch.as_tensor(rng.normal(size=(updates, models, batch, NODES, CHANNELS)))


def calm(updates: int, models: int = 2, batch: int = 4, dtype=torch.float64) -> Tensor:
    """h = 0, (updates, S, B, n, d): nothing disagrees, and the largest clusters tie."""
    return torch.zeros(updates, models, batch, NODES, CHANNELS, dtype=dtype)


def spikes(at: np.ndarray) -> Tensor:
    """Hidden states (..., n, 1) in which the node ``at`` (...) alone is in the highest bin.

    It disagrees by 1, its neighbours by 1/2 and nobody else at all.
    """
    return torch.as_tensor(np.eye(NODES)[at][..., None])


def choices(schedule: Schedule, hidden: Tensor, own=None, proposals=None) -> np.ndarray:
    """(updates, S, B, C), bool: the choices in one rollout of given states, update by update."""
    models, batch = hidden.shape[1:3]
    state = schedule.start(own or generators(*range(models)), batch)
    proposals = torch.zeros_like(hidden) if proposals is None else proposals
    taken = []
    for number, (present, proposal) in enumerate(zip(hidden, proposals, strict=True)):
        sweep, update = divmod(number, schedule.updates_per_sweep)
        time_step, sweep = divmod(sweep, SWEEPS)
        choice, state = schedule.choose(
            SweepView(present, proposal, time_step, sweep, update), state
        )
        active = active_clusters(schedule, choice)
        taken.append(active.expand(models, batch, schedule.partition.clusters).numpy())
    return np.stack(taken)


def chosen(schedule: Schedule, hidden: Tensor, own=None, proposals=None) -> np.ndarray:
    """(updates, S, B): the one cluster of each choice."""
    active = choices(schedule, hidden, own, proposals)
    assert (active.sum(axis=-1) == 1).all()
    return active.argmax(axis=-1)


def slow_counts(hidden: Tensor, labels: tuple[int, ...], bins: int) -> list[int]:
    """Nodes in the highest bin, a cluster, of one trajectory (n, d) on a ring."""
    h = hidden.double().numpy()
    disagreement = []
    for i in range(len(h)):
        difference = h[i] - (h[i - 1] + h[(i + 1) % len(h)]) / 2
        disagreement.append(math.sqrt(sum(difference**2)))
    counts = []
    for cluster in range(max(labels) + 1):
        members = [disagreement[i] for i in range(len(h)) if labels[i] == cluster]
        counts.append(int(np.histogram(members, bins, range=(0.0, max(disagreement)))[0][-1]))
    return counts


def all_slow_counts(hidden: Tensor, labels: tuple[int, ...], bins: int) -> np.ndarray:
    """(updates, S, B, C), whole numbers."""
    shape = hidden.shape[:3]
    counts = [slow_counts(hidden[index], labels, bins) for index in np.ndindex(*shape)]
    return np.reshape(counts, (*shape, -1))


def first_of_largest(scores) -> int:
    """The lowest index among the largest."""
    return list(scores).index(max(scores))


def assert_uniform(values: np.ndarray, kinds: int) -> None:
    observed = np.bincount(values.ravel(), minlength=kinds)
    assert len(observed) == kinds
    assert stats.chisquare(observed).pvalue > 0.01


def assert_independent(first: np.ndarray, second: np.ndarray, kinds: int) -> None:
    table = np.zeros((kinds, kinds))
    np.add.at(table, (first.ravel(), second.ravel()), 1)
    assert stats.chi2_contingency(table).pvalue > 0.01


def problem(models: int = 2, batch: int = 3, horizon: int = 3):
    """A cell, parameters (S, P), states (S, B, T + 1, 3) and controls (S, B, T, 1), float64."""
    rng = np.random.default_rng(7)
    cell = MessagePassingCell(ring(NODES), channels=2)
    parameters = torch.as_tensor(rng.normal(size=(models, cell.parameter_count)) / 2)
    states = torch.as_tensor(rng.normal(size=(models, batch, horizon + 1, 3)))
    controls = torch.as_tensor(rng.normal(size=(models, batch, horizon, 1)))
    return cell, parameters, states, controls


def run(
    schedule: Schedule, cell, parameters, states, controls, sweeps=SWEEPS, relaxation=0.5
) -> Rollout:
    return rollout(
        cell.bind(parameters),
        states[:, :, 0],
        controls,
        schedule,
        generators(*range(len(parameters))),
        sweeps=sweeps,
        relaxation=relaxation,
        targets=states[:, :, 1:],
    )


# Clockwork.


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: p.name)
def test_clockwork_moves_cluster_c_in_every_2_to_the_cth_sweep(partition):
    schedule = made("clockwork", partition)
    assert schedule.updates_per_sweep == 1
    active = choices(schedule, random_hidden(20))
    for k, s, b, c in np.ndindex(*active.shape):
        assert active[k, s, b, c] == (k % (1, 2, 4, 8)[c] == 0)


def test_clockwork_counts_sweeps_over_the_whole_rollout_and_anew_in_the_next():
    schedule = made("clockwork")
    expected = [[0, 1, 2, 3], [0], [0, 1], [0], [0, 1, 2], [0], [0, 1], [0], [0, 1, 2, 3]]
    for _ in range(2):  # three time steps of three sweeps
        activity = run(schedule, *problem()).activity
        assert [active.nonzero().ravel().tolist() for active in activity] == expected


# The histogram's ties, drawn at random.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("share", ["trajectory", "batch"])
@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: p.name)
def test_a_random_tie_break_never_chooses_a_cluster_that_does_not_tie(partition, share, dtype):
    hidden = random_hidden(150, batch=2).to(dtype)
    counts = all_slow_counts(hidden, partition.labels, 4)
    if share == "batch":
        counts = np.broadcast_to(counts.sum(axis=2, keepdims=True), counts.shape)
    taken = chosen(made(f"histogram(ties=random, share={share})", partition), hidden)
    ties, beyond_the_first = 0, 0
    for index in np.ndindex(*taken.shape):
        best = np.flatnonzero(counts[index] == max(counts[index]))
        assert taken[index] in best
        ties += len(best) > 1
        beyond_the_first += taken[index] > best[0]
    assert 0 < ties < taken.size
    assert 0.3 * ties < beyond_the_first < 0.8 * ties
    if share == "batch":
        assert (taken == taken[:, :, :1]).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_random_tie_break_is_uniform_among_the_tied(dtype):
    taken = chosen(made("histogram(ties=random)"), calm(500, dtype=dtype))
    assert_uniform(taken, 4)
    assert_independent(taken[:-1], taken[1:], 4)  # updates
    assert_independent(taken[:, 0], taken[:, 1], 4)  # models
    assert_independent(taken[:, :, 0], taken[:, :, 1], 4)  # trajectories
    # Of 2, 3 and 3 nodes the two larger clusters tie.
    taken = chosen(made("histogram(ties=random)", UNEQUAL), calm(500, dtype=dtype))
    assert_uniform(taken - 1, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_draw_that_rounds_to_one_does_not_outweigh_a_node(dtype):
    class Extreme:
        """Draws the largest number below 1 for the smallest cluster and 0 for the others."""

        def random(self, size):
            draws = np.zeros(size)
            draws[..., 0] = np.nextafter(1.0, 0.0)
            return draws

    hidden = calm(2, dtype=dtype)
    assert (chosen(made("histogram(ties=random)", UNEQUAL), hidden, [Extreme()] * 2) == 1).all()


def test_random_ties_follow_from_the_models_own_seed_alone_and_go_on_from_rollout_to_rollout():
    schedule = made("histogram(ties=random)")
    together = chosen(schedule, calm(40, models=3), generators(4, 7, 4))
    own = generators(7)
    assert_array_equal(together[:, 1], chosen(schedule, calm(40, models=1), own)[:, 0])
    assert_array_equal(together[:, 0], together[:, 2])
    assert (together[:, 0] != together[:, 1]).any()
    assert (chosen(schedule, calm(40, models=1), own)[:, 0] != together[:, 1]).any()


# The histogram's ties, by waiting time, and counts of a whole batch.


def slow_oldest(counts: np.ndarray) -> np.ndarray:
    """(updates, ...) from (updates, ..., C): most nodes, longest wait, lowest index."""
    taken = np.zeros(counts.shape[:-1], dtype=int)
    for index in np.ndindex(*counts.shape[1:-1]):
        wait = [0] * counts.shape[-1]  # the start counts as an update of all
        for k in range(len(counts)):
            scores = list(zip(counts[(k, *index)], wait, strict=True))
            taken[(k, *index)] = best = first_of_largest(scores)
            wait = [0 if c == best else w + 1 for c, w in enumerate(wait)]
    return taken


@pytest.mark.parametrize("share", ["trajectory", "batch"])
@pytest.mark.parametrize("bins", [1, 4])
@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: p.name)
def test_oldest_gives_a_tie_to_the_longest_wait_and_then_to_the_lowest_index(
    partition, bins, share
):
    hidden = random_hidden(60, batch=2)
    counts = all_slow_counts(hidden, partition.labels, bins)
    if share == "batch":
        counts = np.broadcast_to(counts.sum(axis=2, keepdims=True), counts.shape)
    schedule = made(f"histogram(ties=oldest, share={share})", partition, bins)
    expected = slow_oldest(counts)
    assert_array_equal(chosen(schedule, hidden), expected)
    assert_array_equal(chosen(schedule, hidden), expected)  # waits begin anew in a rollout
    lowest = chosen(made(f"histogram(share={share})", partition, bins), hidden)
    assert (lowest != expected).any()


def test_where_nothing_ever_disagrees_oldest_takes_the_largest_clusters_in_turn():
    taken = chosen(made("histogram(ties=oldest)"), calm(9))
    assert_array_equal(taken[:, 0, 0], [0, 1, 2, 3, 0, 1, 2, 3, 0])
    taken = chosen(made("histogram(ties=oldest)", UNEQUAL), calm(5))
    assert_array_equal(taken[:, 0, 0], [1, 2, 1, 2, 1])


@pytest.mark.parametrize("text", ["ties=oldest, share=batch", "ties=oldest"])
def test_waiting_times_count_in_single_precision_however_large_the_batch(text):
    # Counts add up to 6000 nodes; with a wait beside them in one float32, a wait of 1 is lost.
    hidden = calm(9, models=1, batch=3000, dtype=torch.float32)
    taken = chosen(made(f"histogram({text})"), hidden)
    assert_array_equal(taken[:, 0, 0], [0, 1, 2, 3, 0, 1, 2, 3, 0])


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: p.name)
def test_a_batch_gets_the_cluster_of_most_nodes_in_all_its_trajectories(partition):
    hidden = random_hidden(60, models=3)
    counts = all_slow_counts(hidden, partition.labels, 4)
    taken = chosen(made("histogram(share=batch)", partition), hidden)
    own = chosen(made("histogram", partition), hidden)
    for k, s in np.ndindex(60, 3):
        best = first_of_largest(sum(counts[k, s, b] for b in range(4)))
        assert (taken[k, s] == best).all()
    assert (taken != own).any()
    assert (taken[:, 0] != taken[:, 1]).any()  # models still differ


@pytest.mark.parametrize("ties", ["lowest", "oldest"])
def test_equal_counts_of_a_batch_tie_whatever_they_are_divided_by(ties):
    # 1 + 2 nodes against 3, of 10 trajectories: 0.1 + 0.2 is not 0.3.
    at = np.random.default_rng(1).integers(NODES, size=(300, 2, 10))
    counts = np.zeros((300, 2, 1, 4), dtype=int)
    for k, s, b in np.ndindex(*at.shape):
        counts[k, s, 0, FOUR.labels[at[k, s, b]]] += 1
    expected = counts.argmax(axis=-1) if ties == "lowest" else slow_oldest(counts)
    taken = chosen(made(f"histogram(ties={ties}, share=batch)"), spikes(at))
    assert_array_equal(taken, np.broadcast_to(expected, taken.shape))


# The histogram with a bonus for waiting.


def slow_fair(counts: np.ndarray, weight: float) -> np.ndarray:
    """(updates, ...), exact: largest count + weight * wait, then lowest index."""
    taken = np.zeros(counts.shape[:-1], dtype=int)
    for index in np.ndindex(*counts.shape[1:-1]):
        wait = [0] * counts.shape[-1]
        for k in range(len(counts)):
            scores = [
                count + Fraction(weight) * w
                for count, w in zip(counts[(k, *index)], wait, strict=True)
            ]
            taken[(k, *index)] = best = first_of_largest(scores)
            wait = [0 if c == best else w + 1 for c, w in enumerate(wait)]
    return taken


@pytest.mark.parametrize("weight", [0, 0.125, 0.5, 1, 3, 1000])
@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: p.name)
def test_fair_adds_a_bonus_for_every_sweep_of_waiting(partition, weight):
    hidden = random_hidden(60)
    counts = all_slow_counts(hidden, partition.labels, 4)
    schedule = made(f"histogram_fair(age_weight={weight})", partition)
    expected = slow_fair(counts, weight)
    assert_array_equal(chosen(schedule, hidden), expected)
    assert_array_equal(chosen(schedule, hidden), expected)  # waits begin anew in a rollout


@pytest.mark.parametrize("weight", [0, 0.125, 0.5, 3])
def test_fair_for_a_batch_adds_the_bonus_to_the_mean_count(weight):
    hidden = random_hidden(60)  # of 4 trajectories: a mean is exact
    counts = np.vectorize(Fraction)(all_slow_counts(hidden, FOUR.labels, 4).sum(axis=2), 4)
    taken = chosen(made(f"histogram_fair(age_weight={weight}, share=batch)"), hidden)
    expected = slow_fair(counts, weight)[:, :, None]
    assert_array_equal(taken, np.broadcast_to(expected, taken.shape))


@pytest.mark.parametrize("share", ["trajectory", "batch"])
def test_fair_without_weight_is_the_histogram(share):
    hidden = random_hidden(100)
    fair = chosen(made(f"histogram_fair(age_weight=0, share={share})"), hidden)
    assert_array_equal(fair, chosen(made(f"histogram(share={share})"), hidden))


def test_fair_has_a_weight_of_one_node_a_sweep_by_default():
    hidden = random_hidden(100)
    one = chosen(made("histogram_fair(age_weight=1)"), hidden)
    assert_array_equal(chosen(made("histogram_fair"), hidden), one)


def lopsided(updates: int) -> Tensor:
    """(updates, 1, 1, n, 1): nodes 0 to 3 are in the highest bin, and nobody else."""
    h = torch.tensor([1.0, -1.0, 1.0, -1.0, 0, 0, 0, 0], dtype=torch.float64)
    return h.reshape(1, 1, 1, 8, 1).expand(updates, -1, -1, -1, -1)


def longest_wait(schedule: Schedule, hidden: Tensor) -> int:
    """Sweeps without an update, the most of any node in any trajectory."""
    active = torch.as_tensor(choices(schedule, hidden))
    population, batch = hidden.shape[1:3]
    accounts = ledger(active.unbind(), schedule, population=population, batch=batch, horizon=1)
    return int(accounts.largest_age.max())


# Let cluster c move in sweep 0 and wait since: at sweep s it has waited s - 1. A cluster j that
# last moved in sweep r has waited s - 1 - r, and beats c only if count_j + w (s - 1 - r) is at
# least count_c + w (s - 1): only if w r <= count_j - count_c <= k, the largest cluster's nodes.
# So a cluster that moves in a sweep after floor(k / w) cannot move again before c does: each of
# the C - 1 others moves once at most from there on, and c moves by sweep floor(k / w) + C. It has
# waited floor(k / w) + C - 1 sweeps at most. (A start counts as sweep 0, of every cluster.)


@pytest.mark.parametrize("share", ["trajectory", "batch"])
@pytest.mark.parametrize("weight", [0.125, 0.5, 1, 1.5, 2, 3, 10, 1000])
@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: p.name)
def test_under_fair_no_cluster_waits_longer_than_size_over_weight_and_all_others(
    partition, weight, share
):
    bound = math.floor(max(partition.sizes) / weight) + partition.clusters - 1
    schedule = made(f"histogram_fair(age_weight={weight}, share={share})", partition)
    for hidden in (random_hidden(150), random_hidden(1).expand(150, -1, -1, -1, -1), calm(150)):
        assert longest_wait(schedule, hidden) <= bound
    assert longest_wait(schedule, lopsided(150)) <= bound


@pytest.mark.parametrize("weight", [0.125, 0.5, 1, 1.5, 4, 1000])
def test_that_bound_is_attained(weight):
    schedule = made(f"histogram_fair(age_weight={weight})", contiguous(NODES, 2))
    assert longest_wait(schedule, lopsided(100)) == math.floor(4 / weight) + 1
    assert longest_wait(made("histogram", contiguous(NODES, 2)), lopsided(100)) == 100


@pytest.mark.parametrize("weight", [3.5, 1000])
@pytest.mark.parametrize("partition", PARTITIONS[:1] + PARTITIONS[2:], ids=lambda p: p.name)
def test_under_fair_with_a_weight_above_all_sizes_clusters_take_turns_in_some_order(
    partition, weight
):
    schedule = made(f"histogram_fair(age_weight={weight})", partition)
    taken = chosen(schedule, random_hidden(60))
    turn = taken[: partition.clusters]
    assert_array_equal(np.sort(turn, axis=0)[:, 0, 0], range(partition.clusters))
    for k, s, b in np.ndindex(*taken.shape):
        assert taken[k, s, b] == turn[k % partition.clusters, s, b]
    assert len(np.unique(turn.reshape(partition.clusters, -1), axis=1).T) > 1  # orders differ


# All clusters in the histogram's order.


@pytest.mark.parametrize("bins", [1, 2, 4])
@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: p.name)
def test_ordered_moves_the_best_of_those_that_have_not_moved_in_the_sweep(partition, bins):
    schedule = made("histogram_ordered", partition, bins)
    clusters = partition.clusters
    assert schedule.updates_per_sweep == clusters
    hidden = random_hidden(12 * clusters)  # another state before each update
    counts = all_slow_counts(hidden, partition.labels, bins)
    taken = chosen(schedule, hidden)
    stale = 0
    for s, b, sweep in np.ndindex(2, 4, 12):
        left = list(range(clusters))
        first = sweep * clusters
        for k in range(first, first + clusters):
            best = left[first_of_largest(counts[k, s, b, left])]
            assert taken[k, s, b] == best
            stale += best != left[first_of_largest(counts[first, s, b, left])]
            left.remove(best)
        assert sorted(taken[first : first + clusters, s, b]) == list(range(clusters))
    if bins == 4 and clusters > 2:
        assert stale > 0  # the order of the sweep's first state would be another


def test_ordered_gives_ties_to_the_lowest_index():
    assert_array_equal(chosen(made("histogram_ordered"), calm(8))[:, 1, 2], [0, 1, 2, 3] * 2)
    # Sizes 2, 3 and 3.
    taken = chosen(made("histogram_ordered", UNEQUAL), calm(6))
    assert_array_equal(taken[:, 1, 2], [1, 2, 0] * 2)


def test_ordered_does_the_work_of_a_full_sweep_and_sees_its_own_updates():
    given = problem()
    schedule = made("histogram_ordered")
    activity = run(schedule, *given).activity
    accounts = ledger(activity, schedule, population=2, batch=3, horizon=3)
    assert_allclose(accounts.node_updates, [24.0, 24.0])  # 3 sweeps of 8 nodes
    assert_array_equal(accounts.largest_age, [0, 0])
    # Before the second update only cluster 0 has moved, so that its surroundings disagree.
    assert activity[0].int().argmax(dim=-1).eq(0).all()
    assert activity[1].int().argmax(dim=-1).ne(2).all()


# The cluster farthest from its proposal.


@pytest.mark.parametrize("norm", ["l2", "max", "mean"])
@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: p.name)
def test_residual_takes_the_cluster_of_largest_norm(partition, norm):
    hidden, proposals = random_hidden(60), random_hidden(60, seed=1)
    taken = chosen(made(f"residual(norm={norm})", partition), hidden, proposals=proposals)
    distance = (proposals - hidden).numpy()
    for index in np.ndindex(*taken.shape):
        sizes = []
        for cluster in range(partition.clusters):
            nodes = [i for i in range(NODES) if partition.labels[i] == cluster]
            lengths = [np.linalg.norm(distance[index][i]) for i in nodes]
            whole = np.linalg.norm([distance[index][i] for i in nodes])
            sizes.append({"l2": whole, "max": max(lengths), "mean": np.mean(lengths)}[norm])
        assert taken[index] == first_of_largest(sizes)


@pytest.mark.parametrize(("norm", "cluster"), [("l2", 1), ("max", 2), ("mean", 0)])
def test_residuals_of_unequal_clusters_worked_out_by_hand(norm, cluster):
    # Distances 3 3 | 2.5 2.5 2.5 | 4 1 0: squares sum up to 18, 18.75 and 17.
    partition = Partition("by hand", (0, 0, 1, 1, 1, 2, 2, 2))
    distance = [3, -3, 2.5, -2.5, 2.5, 4, 1, 0]
    proposals = torch.tensor(distance, dtype=torch.float64).reshape(1, 1, 1, 8, 1)
    schedule = made(f"residual(norm={norm})", partition)
    assert chosen(schedule, torch.zeros_like(proposals), proposals=proposals) == cluster


def test_residual_is_l2_by_default_and_gives_ties_to_the_lowest_index():
    hidden, proposals = random_hidden(60), random_hidden(60, seed=1)
    default = chosen(made("residual", UNEQUAL), hidden, proposals=proposals)
    l2 = chosen(made("residual(norm=l2)", UNEQUAL), hidden, proposals=proposals)
    assert_array_equal(default, l2)
    for norm in ("l2", "max", "mean"):
        still = chosen(made(f"residual(norm={norm})", UNEQUAL), hidden, proposals=hidden)
        assert (still == 0).all()


# Random clusters, and what shares a draw.


def test_shared_by_a_batch_a_draw_is_one_for_all_trajectories():
    schedule = made("random(share=batch)")
    taken = chosen(schedule, random_hidden(2000, batch=3))
    assert (taken == taken[:, :, :1]).all()
    drawn = taken[:, :, 0]
    assert_uniform(drawn, 4)
    assert_independent(drawn[:-1], drawn[1:], 4)  # sweeps
    assert_independent(drawn[:-64, 0], drawn[64:, 0], 4)  # the number drawn at a time
    assert_independent(drawn[:, 0], drawn[:, 1], 4)  # models


def test_shared_by_a_batch_draws_follow_from_the_models_seed_and_go_on_in_the_next_rollout():
    schedule = made("random(share=batch)")
    together = chosen(schedule, calm(40, models=3), generators(4, 7, 4))
    own = generators(7)
    alone = chosen(schedule, calm(40, models=1, batch=9), own)
    assert_array_equal(together[:, 1, 0], alone[:, 0, 0])
    assert_array_equal(together[:, 0], together[:, 2])
    assert (together[:, 0] != together[:, 1]).any()
    assert (chosen(schedule, calm(40, models=1, batch=9), own) != alone).any()


@pytest.mark.parametrize("seed", [0, 5, 2**40 + 3])
def test_shared_always_the_order_is_the_same_in_every_rollout_of_training_and_test(seed):
    schedule = made("random(share=always)")
    training, test = (schedule_generators([seed], training=flag) for flag in (True, False))
    first = chosen(schedule, random_hidden(150, models=1, batch=2), training)
    assert_array_equal(first[:, :, 0], first[:, :, 1])
    for own, batch in ((training, 2), (training, 7), (test, 1), (test, 5)):
        again = chosen(made("random(share=always)"), calm(150, models=1, batch=batch), own)
        assert_array_equal(again, np.broadcast_to(first[:, :, :1], again.shape))


def test_shared_always_the_order_is_each_seeds_own_and_uniform_in_the_long_run():
    own = schedule_generators([3, 4, 3, 2**32 + 3], training=True)
    drawn = chosen(made("random(share=always)"), calm(4000, models=4, batch=1), own)[:, :, 0]
    assert_array_equal(drawn[:, 0], drawn[:, 2])
    for other in (1, 3):
        assert_independent(drawn[:, 0], drawn[:, other], 4)
        assert_uniform(drawn[:, other], 4)
    assert_uniform(drawn[:, 0], 4)
    assert_independent(drawn[:-1, 0], drawn[1:, 0], 4)
    assert_independent(drawn[:-64, 0], drawn[64:, 0], 4)


def test_by_default_and_as_trajectory_every_trajectory_draws_its_own():
    drawn = chosen(made("random"), calm(2000, models=1, batch=2))
    assert_array_equal(drawn, chosen(made("random(share=trajectory)"), calm(2000, 1, 2)))
    assert_independent(drawn[:, 0, 0], drawn[:, 0, 1], 4)


# Round robin with noise.


def test_without_noise_it_is_round_robin():
    schedule = made("round_robin(noise=0)", UNEQUAL)
    assert type(schedule) is RoundRobin
    assert_array_equal(choices(schedule, calm(9)), choices(made("round_robin", UNEQUAL), calm(9)))


def test_with_noise_alone_clusters_are_random():
    taken = chosen(made("round_robin(noise=1)", UNEQUAL), calm(900))  # 3 clusters
    turn = np.broadcast_to(np.arange(900)[:, None, None] % 3, taken.shape)
    assert_uniform(taken, 3)
    assert_independent(taken, turn, 3)
    assert_independent(taken[:-1], taken[1:], 3)
    assert_independent(taken[:, 0], taken[:, 1], 3)
    assert_independent(taken[:, :, 0], taken[:, :, 1], 3)


@pytest.mark.parametrize("partition", [FOUR, UNEQUAL], ids=lambda p: p.name)
@pytest.mark.parametrize("noise", [0.05, 0.25, 0.6])
def test_noise_replaces_the_turn_at_its_rate_by_a_uniform_cluster(noise, partition):
    clusters = partition.clusters
    taken = chosen(made(f"round_robin(noise={noise})", partition), calm(1000, batch=5))
    departure = (taken - np.arange(1000)[:, None, None]) % clusters
    # A replacement may be the turn's own cluster.
    rate = noise * (1 - 1 / clusters)
    departures = int((departure > 0).sum())
    assert stats.binomtest(departures, departure.size, rate).pvalue > 0.01
    assert_uniform(departure[departure > 0] - 1, clusters - 1)
    departed = (departure > 0).astype(int)
    assert_independent(departed[:-1], departed[1:], 2)  # updates
    assert_independent(departed[:, 0], departed[:, 1], 2)  # models
    assert_independent(departed[:, :, 0], departed[:, :, 1], 2)  # trajectories


@pytest.mark.parametrize("partition", [FOUR, UNEQUAL], ids=lambda p: p.name)
def test_the_turn_goes_on_beneath_the_noise_and_over_time_steps(partition):
    # Most trajectories take their turn; draws are taken 64 at a time, which 3 does not divide.
    schedule = made("round_robin(noise=0.25)", partition)
    activity = run(schedule, *problem(models=2, batch=60, horizon=50)).activity
    assert len(activity) == 150
    for k, active in enumerate(activity):
        share = active.double().mean(dim=(0, 1))
        assert share.argmax() == k % partition.clusters
        assert share.max() < 1


def test_noise_follows_from_the_models_own_seed_alone():
    schedule = made("round_robin(noise=0.5)")
    together = chosen(schedule, random_hidden(40, models=3), generators(4, 7, 4))
    alone = chosen(schedule, calm(40, models=1), generators(7))
    assert_array_equal(together[:, 1], alone[:, 0])
    assert_array_equal(together[:, 0], together[:, 2])
    assert (together[:, 0] != together[:, 1]).any()


# All of them. (More in test_training.py and test_model.py, and the oracle.)


@pytest.mark.parametrize("text", TEXTS)
def test_a_schedule_is_called_by_its_text(text):
    assert made(text).name == text
    assert name_of(text) == text.partition("(")[0]


def test_these_texts_cover_every_schedule_and_spaces_do_not_matter():
    assert {name_of(text) for text in TEXTS} == set(SCHEDULES)
    schedule = made(" histogram ( share = batch , ties = random ) ")
    assert (schedule.ties, schedule.share) == ("random", "batch")
    assert schedule.name == "histogram(share=batch, ties=random)"
    assert made("histogram()").name == "histogram"


@pytest.mark.parametrize("text", [text for text in TEXTS if text not in LOOKS_AT_THE_BATCH])
@pytest.mark.parametrize("partition", [FOUR, UNEQUAL], ids=lambda p: p.name)
def test_every_schedule_keeps_the_contract(text, partition):
    check_schedule(made(text, partition), ring(NODES))


@pytest.mark.parametrize("text", LOOKS_AT_THE_BATCH)
def test_a_schedule_that_looks_at_the_whole_batch_must_say_so(text):
    schedule = made(text)
    assert schedule.reads_batch
    check_schedule(schedule, ring(NODES))
    schedule.reads_batch = False
    with pytest.raises(ScheduleError, match=r"schedule 'histogram.*' reads other trajectories"):
        check_schedule(schedule, ring(NODES))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_one_hot_takes_clusters_of_any_shape(shape):
    active = made("full").one_hot(torch.zeros(shape, dtype=torch.int64))
    assert active.tolist() == np.ones((*shape, 1), dtype=bool).tolist()
