"""Schedules against slow loops, ledgers against hand counts, and the contract against cheats."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from torch import Tensor

from clusterdyn.contract import ScheduleError, check_schedule
from clusterdyn.graph import Partition, coloring, contiguous, random_partition, ring, strided
from clusterdyn.model import MessagePassingCell
from clusterdyn.schedules import (
    SCHEDULES,
    RandomCluster,
    Schedule,
    StaticSchedule,
    SweepView,
    make_schedule,
)
from clusterdyn.sweeps import active_clusters, ledger, rollout

NODES, CHANNELS, SWEEPS, HORIZON = 8, 3, 3, 2
PARTITIONS = (contiguous(8, 4), strided(8, 4), random_partition(8, 2, 5), coloring(ring(8)))
UNEQUAL = Partition("unequal", (0, 1, 2, 1, 1, 2, 0, 2))


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def generators(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


def random_hidden(updates: int, models: int = 2, batch: int = 5, nodes: int = NODES) -> Tensor:
    """(updates, S, B, n, d), float64."""
    rng = np.random.default_rng(0)
    return torch.as_tensor(rng.normal(size=(updates, models, batch, nodes, CHANNELS)))


def active_nodes(schedule: Schedule, hidden: Tensor, seeds=(0, 1)) -> np.ndarray:
    """(updates, S, B, n), bool: what a schedule makes of given hidden states, update by update."""
    models, batch = hidden.shape[1:3]
    state = schedule.start(generators(*seeds[:models]), batch)
    taken = []
    for number, present in enumerate(hidden):
        sweep, update = divmod(number, schedule.updates_per_sweep)
        time_step, sweep = divmod(sweep, SWEEPS)
        view = SweepView(present, torch.zeros_like(present), time_step, sweep, update)
        choice, state = schedule.choose(view, state)
        active = active_clusters(schedule, choice)
        clusters = active.expand(models, batch, schedule.partition.clusters)
        taken.append(clusters[..., list(schedule.partition.labels)].numpy())
    return np.stack(taken)


def expected_nodes(chosen_cluster, labels, shape) -> np.ndarray:
    """(updates, S, B, n): the nodes whose label ``chosen_cluster(update, s, b)`` names."""
    active = np.zeros(shape, dtype=bool)
    updates, models, batch, nodes = shape
    for k in range(updates):
        for s in range(models):
            for b in range(batch):
                for i in range(nodes):
                    active[k, s, b, i] = labels[i] == chosen_cluster(k, s, b)
    return active


# Each schedule against a loop over updates, models, trajectories and nodes.


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: p.name)
def test_full_updates_every_node_every_time(partition):
    schedule = make_schedule("full", ring(NODES), partition)
    assert schedule.updates_per_sweep == 1
    assert active_nodes(schedule, random_hidden(5)).all()


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: p.name)
def test_sequential_updates_one_node_after_another(partition):
    schedule = make_schedule("sequential", ring(NODES), partition)
    assert schedule.updates_per_sweep == NODES
    active = active_nodes(schedule, random_hidden(2 * NODES))
    assert_array_equal(active, expected_nodes(lambda k, s, b: k % 8, range(8), active.shape))


@pytest.mark.parametrize("partition", [*PARTITIONS, UNEQUAL], ids=lambda p: p.name)
def test_cluster_sequential_updates_all_clusters_in_a_sweep(partition):
    schedule = make_schedule("cluster_sequential", ring(NODES), partition)
    clusters = partition.clusters
    assert schedule.updates_per_sweep == clusters
    active = active_nodes(schedule, random_hidden(2 * clusters))
    expected = expected_nodes(lambda k, s, b: k % clusters, partition.labels, active.shape)
    assert_array_equal(active, expected)
    # A sweep visits every node once.
    assert_array_equal(active[:clusters].sum(axis=0), np.ones(active.shape[1:]))


@pytest.mark.parametrize("partition", [*PARTITIONS, UNEQUAL], ids=lambda p: p.name)
def test_round_robin_updates_one_cluster_a_sweep_in_turn(partition):
    schedule = make_schedule("round_robin", ring(NODES), partition)
    assert schedule.updates_per_sweep == 1
    active = active_nodes(schedule, random_hidden(7))
    clusters = partition.clusters
    expected = expected_nodes(lambda k, s, b: k % clusters, partition.labels, active.shape)
    assert_array_equal(active, expected)


def slow_histogram_choice(hidden: np.ndarray, labels: tuple[int, ...], bins: int) -> int:
    """The cluster that the histogram policy updates in one trajectory, (n, d), of a ring."""
    nodes = len(hidden)
    disagreement = np.zeros(nodes)
    for i in range(nodes):
        mean = (hidden[i - 1] + hidden[(i + 1) % nodes]) / 2
        disagreement[i] = math.sqrt(sum((hidden[i] - mean) ** 2))
    best, most = -1, -1
    for cluster in range(max(labels) + 1):
        members = [disagreement[i] for i in range(nodes) if labels[i] == cluster]
        counts, _ = np.histogram(members, bins=bins, range=(0.0, disagreement.max()))
        if counts[-1] > most:
            best, most = cluster, counts[-1]
    return best


@pytest.mark.parametrize("bins", [1, 2, 4, 7])
@pytest.mark.parametrize("partition", [*PARTITIONS, UNEQUAL], ids=lambda p: p.name)
def test_histogram_counts_nodes_as_numpy_histogram_does(partition, bins):
    hidden = random_hidden(20)
    schedule = make_schedule("histogram", ring(NODES), partition, bins=bins)
    active = active_nodes(schedule, hidden)

    def choice(k, s, b):
        return slow_histogram_choice(hidden[k, s, b].numpy(), partition.labels, bins)

    assert_array_equal(active, expected_nodes(choice, partition.labels, active.shape))
    if bins == 4:  # the choices do depend on the hidden state
        assert len(np.unique(active.reshape(-1, NODES), axis=0)) > 1


def test_histogram_puts_a_node_on_the_edge_into_the_upper_bin_and_ties_to_the_lowest_index():
    # Disagreements 0 4 | 3 3.5 | 3 3 | 4 2.5: the highest of four bins over [0, 4] begins at 3
    # and holds 1, 2, 2 and 1 nodes; clusters 1 and 2 tie.
    values = [-3.0, -6.0, -1.0, -2.0, 4.0, 4.0, -2.0, 0.0]
    hidden = torch.tensor(values, dtype=torch.float64).reshape(1, 1, 1, 8, 1)
    partition = contiguous(8, 4)
    schedule = make_schedule("histogram", ring(8), partition, bins=4)
    disagreement = schedule.disagreement(hidden[0])[0, 0]
    assert disagreement.tolist() == [0.0, 4.0, 3.0, 3.5, 3.0, 3.0, 4.0, 2.5]
    assert active_nodes(schedule, hidden)[0, 0, 0].nonzero()[0].tolist() == [2, 3]
    assert slow_histogram_choice(hidden[0, 0, 0].numpy(), partition.labels, 4) == 1


def test_histogram_chooses_the_first_cluster_of_largest_size_when_nothing_disagrees():
    zero = torch.zeros(1, 1, 1, 8, CHANNELS, dtype=torch.float64)
    for hidden in (zero, zero + 0.5):
        schedule = make_schedule("histogram", ring(8), contiguous(8, 4))
        assert active_nodes(schedule, hidden)[0, 0, 0].nonzero()[0].tolist() == [0, 1]
        # Sizes 2, 3 and 3.
        schedule = make_schedule("histogram", ring(8), UNEQUAL)
        assert active_nodes(schedule, hidden)[0, 0, 0].nonzero()[0].tolist() == [1, 3, 4]


def test_histogram_chooses_for_each_trajectory_alone():
    hidden = random_hidden(1, models=3, batch=6)
    schedule = make_schedule("histogram", ring(NODES), contiguous(NODES, 4))
    together = active_nodes(schedule, hidden, seeds=(0, 1, 2))
    for s in range(3):
        for b in range(6):
            alone = active_nodes(schedule, hidden[:, s : s + 1, b : b + 1])
            assert_array_equal(together[:, s, b], alone[:, 0, 0])


# Random choices.


def test_random_choices_depend_on_the_models_own_seed_alone():
    schedule = make_schedule("random", ring(NODES), contiguous(NODES, 4))
    hidden = random_hidden(100, models=3)
    together = active_nodes(schedule, hidden, seeds=(4, 7, 4))
    alone = active_nodes(schedule, -3 * hidden[:, :1], seeds=(7,))
    assert_array_equal(together[:, 1], alone[:, 0])
    assert_array_equal(together[:, 0], together[:, 2])  # one seed at two learning rates
    assert (together[:, 0] != together[:, 1]).any()


def random_clusters(updates: int, batch: int, models: int = 1) -> np.ndarray:
    """(updates, S, B): clusters drawn of 4."""
    schedule = RandomCluster(contiguous(NODES, 4))
    state = schedule.start(generators(*range(models)), batch)
    view = SweepView(*[torch.zeros(models, batch, NODES, 1)] * 2, 0, 0, 0)
    drawn = []
    for _ in range(updates):
        drawn_now, state = schedule.choose(view, state)
        drawn.append(drawn_now.numpy())
    return np.stack(drawn)


def test_random_choices_are_uniform_over_the_clusters():
    drawn = random_clusters(updates=500, batch=8)
    assert stats.chisquare(np.bincount(drawn.ravel(), minlength=4)).pvalue > 0.01


def test_random_choices_are_independent_across_trajectories_updates_and_models():
    drawn = random_clusters(updates=2000, batch=2, models=2)
    pairs = (
        (drawn[:, 0, 0], drawn[:, 0, 1]),
        (drawn[:, 0, 0], drawn[:, 1, 0]),
        (drawn[:-1, 0, 0], drawn[1:, 0, 0]),
        (drawn[:-64, 0, 0], drawn[64:, 0, 0]),  # the number drawn at a time
    )
    for first, second in pairs:
        table = np.zeros((4, 4))
        np.add.at(table, (first, second), 1)
        assert stats.chi2_contingency(table).pvalue > 0.01


def test_random_choices_go_on_from_one_rollout_to_the_next():
    schedule = RandomCluster(contiguous(NODES, 4))
    own = generators(3)
    view = SweepView(*[torch.zeros(1, 20, NODES, 1)] * 2, 0, 0, 0)
    first, _ = schedule.choose(view, schedule.start(own, 20))
    second, _ = schedule.choose(view, schedule.start(own, 20))
    assert not torch.equal(first, second)


# Within rollouts.


def problem(models: int = 2, batch: int = 3, horizon: int = HORIZON, nodes: int = NODES):
    """A cell, parameters (S, P), first states (S, B, 3) and controls (S, B, T, 1), float64."""
    rng = np.random.default_rng(11)
    cell = MessagePassingCell(ring(nodes), channels=2)
    parameters = torch.as_tensor(rng.normal(size=(models, cell.parameter_count)) / 2)
    states = torch.as_tensor(rng.normal(size=(models, batch, 3)))
    controls = torch.as_tensor(rng.normal(size=(models, batch, horizon, 1)))
    return cell, parameters, states, controls


def run(schedule: Schedule, cell, parameters, states, controls, seeds=(0, 1)):
    own = generators(*seeds[: len(parameters)])
    return rollout(
        cell.bind(parameters),
        states,
        controls,
        schedule,
        own,
        sweeps=SWEEPS,
        relaxation=0.5,
        targets=states.unsqueeze(2) + controls,  # any answer, of each trajectory's own
    )


@pytest.mark.parametrize("name", ["round_robin", "cluster_sequential"])
def test_full_is_one_block_with_every_node(name):
    given = problem()
    block = make_schedule(name, ring(NODES), Partition("block", (0,) * NODES))
    full = make_schedule("full", ring(NODES), contiguous(NODES, 4))
    assert torch.equal(run(full, *given).predictions, run(block, *given).predictions)


def test_round_robins_turn_carries_over_time_steps():
    schedule = make_schedule("round_robin", ring(NODES), contiguous(NODES, 4))
    activity = run(schedule, *problem(horizon=3)).activity
    # Three sweeps a time step: the second time step begins with cluster 3.
    turns = [active.nonzero().ravel().tolist() for active in activity]
    assert turns == [[0], [1], [2], [3], [0], [1], [2], [3], [0]]


@pytest.mark.parametrize("name", SCHEDULES)
def test_view_tells_time_step_sweep_and_update_and_carries_no_gradient(name):
    seen = []

    class Watching(Schedule):
        def start(self, own, batch):
            return inner.start(own, batch)

        def choose(self, view, state):
            seen.append((view.time_step, view.sweep, view.update))
            assert not view.hidden.requires_grad
            assert not view.proposal.requires_grad
            # Only who says that it needs the answer is handed it, and without gradient.
            assert (view.next_loss is not None) == (name == "oracle")
            if view.next_loss:
                assert not view.next_loss(view.hidden).requires_grad
            return inner.choose(view, state)

    inner = make_schedule(name, ring(NODES), contiguous(NODES, 4))
    watching = Watching(inner.partition)
    watching.updates_per_sweep = inner.updates_per_sweep
    watching.needs_answer = inner.needs_answer
    cell, parameters, states, controls = problem()
    predictions = run(watching, cell, parameters.requires_grad_(), states, controls).predictions
    assert predictions.requires_grad
    updates = {"sequential": 8, "cluster_sequential": 4, "histogram_ordered": 4}.get(name, 1)
    expected = [(t, k, u) for t in range(2) for k in range(3) for u in range(updates)]
    assert seen == expected


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda p: p.name)
def test_no_gradient_flows_through_a_choice(name, partition):
    cell, parameters, states, controls = problem(models=2, batch=3)
    schedule = make_schedule(name, ring(NODES), partition)
    leaf = parameters.clone().requires_grad_()
    free = run(schedule, cell, leaf, states, controls)
    free.predictions.square().sum().backward()
    frozen_gradient = torch.zeros_like(parameters)
    shape = (2, 3, schedule.partition.clusters)
    taken = torch.stack([active.expand(shape) for active in free.activity])
    for s in range(2):
        for b in range(3):
            frozen = StaticSchedule(schedule.partition, taken[:, s, b])
            frozen.updates_per_sweep = schedule.updates_per_sweep
            own = parameters[s : s + 1].clone().requires_grad_()
            trajectory = states[s : s + 1, b : b + 1], controls[s : s + 1, b : b + 1]
            predictions = run(frozen, cell, own, *trajectory).predictions
            assert_allclose(
                predictions.detach(), free.predictions.detach()[s : s + 1, b : b + 1], rtol=1e-12
            )
            predictions.square().sum().backward()
            frozen_gradient[s] += own.grad[0]
    scale = frozen_gradient.abs().max()
    assert_allclose(leaf.grad / scale, frozen_gradient / scale, rtol=0, atol=1e-13)


# The ledger.


def account(activity, partition, *, models=1, batch=1, horizon=1, updates_per_sweep=1):
    schedule = Schedule(partition)
    schedule.updates_per_sweep = updates_per_sweep
    tensors = [torch.as_tensor(active, dtype=torch.bool) for active in activity]
    return ledger(tensors, schedule, population=models, batch=batch, horizon=horizon)


def test_ledger_of_a_rollout_counted_by_hand():
    # Two time steps of two sweeps over three nodes and one node.
    partition = Partition("by hand", (0, 0, 0, 1))
    accounts = account([[1, 0], [0, 1], [1, 1], [1, 0]], partition, horizon=2)
    assert_allclose(accounts.node_updates, [(3 + 1 + 4 + 3) / 2])
    assert_allclose(accounts.cluster_updates, [5 / 2])
    assert_allclose(accounts.share, [[3 / 5, 2 / 5]])
    assert_array_equal(accounts.largest_age, [1])
    # -(0.6 ln 0.6 + 0.4 ln 0.4) / ln 2
    assert_allclose(accounts.entropy, [0.9709505944546686])


def test_ledger_averages_over_trajectories_but_takes_the_oldest_node_of_any():
    # One update a time step; trajectory 0 takes clusters 0 0 1, trajectory 1 takes 1 1 1.
    partition = Partition("by hand", (0, 1, 1))
    zero, one = [1, 0], [0, 1]
    activity = [[[zero, one]], [[zero, one]], [[one, one]]]
    accounts = account(activity, partition, batch=2, horizon=3)
    assert_allclose(accounts.node_updates, [((1 + 1 + 2) + (2 + 2 + 2)) / 2 / 3])
    assert_allclose(accounts.cluster_updates, [1.0])
    assert_allclose(accounts.share, [[2 / 6, 4 / 6]])
    assert_array_equal(accounts.largest_age, [3])  # cluster 0 of trajectory 1, from the start


def test_ledger_keeps_models_apart():
    partition = contiguous(4, 2)
    activity = [[[[1, 0]], [[0, 1]]], [[[1, 0]], [[1, 1]]]]  # (updates, S, B, C)
    accounts = account(activity, partition, models=2, horizon=2)
    assert_allclose(accounts.node_updates, [2.0, 3.0])
    assert_allclose(accounts.cluster_updates, [1.0, 1.5])
    assert_allclose(accounts.share, [[1, 0], [1 / 3, 2 / 3]])
    assert_array_equal(accounts.largest_age, [2, 1])
    assert_allclose(accounts.entropy, [0.0, 0.9182958340544896])


def test_ledger_of_random_choices_equals_a_loop_over_nodes():
    rng = np.random.default_rng(2)
    models, batch, horizon, updates_per_sweep = 2, 3, 2, 2
    partition = Partition("by hand", (0, 1, 2, 1, 1, 0))
    activity = rng.random((horizon * 3 * updates_per_sweep, models, batch, 3)) < 0.3
    for s in range(models):
        updates, oldest = 0, 0
        for b in range(batch):
            for label in partition.labels:
                sweeps = activity[:, s, b, label].reshape(-1, updates_per_sweep)
                age = 0
                for sweep in sweeps:
                    updates += sum(sweep)
                    age = 0 if any(sweep) else age + 1
                    oldest = max(oldest, age)
        accounts = account(
            activity,
            partition,
            models=models,
            batch=batch,
            horizon=horizon,
            updates_per_sweep=updates_per_sweep,
        )
        assert_allclose(accounts.node_updates[s], updates / batch / horizon)
        assert accounts.largest_age[s] == oldest


def ledger_of(name: str, partition: Partition, horizon: int = 4):
    cell, parameters, states, controls = problem(horizon=horizon)
    schedule = make_schedule(name, ring(NODES), partition)
    activity = run(schedule, cell, parameters, states, controls).activity
    return ledger(activity, schedule, population=2, batch=3, horizon=horizon)


def test_round_robin_over_four_clusters_has_age_three_and_entropy_one():
    accounts = ledger_of("round_robin", contiguous(NODES, 4))  # 12 sweeps
    assert_allclose(accounts.node_updates, [6.0, 6.0])  # 3 sweeps of 2 nodes
    assert_allclose(accounts.cluster_updates, [3.0, 3.0])
    assert_allclose(accounts.share, np.full((2, 4), 0.25))
    assert_array_equal(accounts.largest_age, [3, 3])
    assert_allclose(accounts.entropy, [1.0, 1.0])


def test_full_updates_every_node_in_every_sweep_and_has_no_entropy():
    accounts = ledger_of("full", contiguous(NODES, 4))
    assert_allclose(accounts.node_updates, [24.0, 24.0])  # 3 sweeps of 8 nodes
    assert_allclose(accounts.cluster_updates, [3.0, 3.0])
    assert_array_equal(accounts.largest_age, [0, 0])
    assert np.isnan(accounts.entropy).all()


@pytest.mark.parametrize(("name", "clusters"), [("cluster_sequential", 4), ("sequential", 8)])
def test_sequential_sweeps_do_the_node_updates_of_full_and_leave_no_node_behind(name, clusters):
    accounts = ledger_of(name, contiguous(NODES, 4))
    assert_allclose(accounts.node_updates, [24.0, 24.0])
    assert_allclose(accounts.cluster_updates, [3.0 * clusters] * 2)
    assert_array_equal(accounts.largest_age, [0, 0])
    assert_allclose(accounts.entropy, [1.0, 1.0])


@pytest.mark.parametrize("name", ["random", "histogram"])
def test_adaptive_schedules_update_one_cluster_a_sweep(name):
    accounts = ledger_of(name, contiguous(NODES, 4))
    assert_allclose(accounts.cluster_updates, [3.0, 3.0])
    assert_allclose(accounts.node_updates, [6.0, 6.0])
    assert_allclose(accounts.share.sum(axis=1), [1.0, 1.0])


def test_histogram_starves_all_clusters_but_the_first():
    # At h = 0 the tie goes to cluster 0, and then only its surroundings disagree.
    accounts = ledger_of("histogram", contiguous(NODES, 4), horizon=1)
    assert (accounts.share.argmax(axis=1) == 0).all()
    assert_array_equal(accounts.largest_age, [3, 3])  # all of the 3 sweeps


# The registry.


def test_unknown_schedules_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"schedule must be one of full, .*; got 'greedy'"):
        make_schedule("greedy", ring(8), contiguous(8, 4))


def test_graph_and_partition_must_agree():
    with pytest.raises(ValueError, match="partition covers 6 nodes and the graph has 8"):
        make_schedule("full", ring(8), contiguous(6, 3))


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_carry_the_name_that_they_are_made_by(name):
    assert make_schedule(name, ring(8), contiguous(8, 4)).name == name


# The contract.


def random_trajectories():
    """States (2, 5, 4, 3) and controls (2, 5, 3, 1) for schedules that hold them."""
    rng = np.random.default_rng(4)
    return (
        torch.as_tensor(rng.normal(size=(2, 5, 4, 3))),
        torch.as_tensor(rng.normal(size=(2, 5, 3, 1))),
    )


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("partition", [*PARTITIONS, UNEQUAL], ids=lambda p: p.name)
def test_every_schedule_of_the_study_keeps_the_contract(name, partition):
    check_schedule(make_schedule(name, ring(NODES), partition), ring(NODES))


def test_contract_check_leaves_the_trajectories_as_they_were():
    trajectories = random_trajectories()
    kept = [values.clone() for values in trajectories]
    check_schedule(make_schedule("histogram", ring(8), contiguous(8, 4)), ring(8), trajectories)
    assert all(map(torch.equal, trajectories, kept))

    class Fails(Holding):
        def choose(self, view, state):
            return self.by_sign(self.controls[:, :, -1, 0]), state

    with pytest.raises(ScheduleError):
        check_schedule(Fails(trajectories), ring(8), trajectories)
    assert all(map(torch.equal, trajectories, kept))


class Cheat(Schedule):
    """A schedule over two clusters of a ring of 8 that does something it must not."""

    name = "cheat"

    def __init__(self) -> None:
        super().__init__(contiguous(8, 2))

    def by_sign(self, values: Tensor) -> Tensor:
        """Cluster 0 or 1 by the sign of (S, B) values."""
        return self.one_hot((values.expand(2, 5) > 0).long())


class Holding(Cheat):
    """A cheat that was handed the trajectories beforehand."""

    def __init__(self, trajectories: tuple[Tensor, Tensor]) -> None:
        super().__init__()
        self.states, self.controls = trajectories


def refuse(schedule: Schedule, sentence: str, trajectories=None, error=ScheduleError) -> None:
    with pytest.raises(error, match=sentence):
        check_schedule(schedule, ring(8), trajectories)


def test_a_schedule_that_reads_a_future_control_is_caught():
    class ReadsNextControl(Holding):
        def choose(self, view, state):
            last = self.controls.shape[2] - 1
            return self.by_sign(self.controls[:, :, min(view.time_step + 1, last), 0]), state

    trajectories = random_trajectories()
    refuse(ReadsNextControl(trajectories), "'cheat' reads the future", trajectories)


def test_a_schedule_that_reads_the_target_is_caught():
    class ReadsTarget(Holding):
        def choose(self, view, state):
            return self.by_sign(self.states[:, :, view.time_step + 1, 0]), state

    trajectories = random_trajectories()
    refuse(ReadsTarget(trajectories), "'cheat' reads the future", trajectories)


def test_a_schedule_that_reads_the_present_control_is_allowed():
    class ReadsPresent(Holding):
        def choose(self, view, state):
            return self.by_sign(self.controls[:, :, view.time_step, 0]), state

    trajectories = random_trajectories()
    check_schedule(ReadsPresent(trajectories), ring(8), trajectories)


def test_a_schedule_that_averages_over_trajectories_is_caught():
    class Averages(Cheat):
        def choose(self, view, state):
            return self.by_sign(view.proposal[..., 0].sum(dim=(1, 2), keepdim=True)[..., 0]), state

    refuse(Averages(), "'cheat' reads other trajectories")


def test_a_schedule_that_reads_another_trajectory_is_caught():
    class ReadsLast(Cheat):
        def choose(self, view, state):
            return self.by_sign(view.proposal[:, -1:, 0, 0]), state

    refuse(ReadsLast(), "'cheat' reads other trajectories")


def test_a_schedule_that_reads_another_model_is_caught():
    class ReadsLastModel(Cheat):
        def choose(self, view, state):
            return self.by_sign(view.proposal[-1:, :, 0, 0]), state

    refuse(ReadsLastModel(), "'cheat' reads other models")


def test_a_schedule_that_chooses_by_the_first_trajectory_for_all_is_caught():
    class FollowsFirst(Cheat):
        def choose(self, view, state):
            return self.by_sign(view.proposal[:, :1, 0, 0]), state

    refuse(FollowsFirst(), "'cheat' reads other trajectories")


def test_a_schedule_that_chooses_by_the_first_model_for_all_is_caught():
    class FollowsFirstModel(Cheat):
        def choose(self, view, state):
            return self.by_sign(view.proposal[:1, :, 0, 0]), state

    refuse(FollowsFirstModel(), "'cheat' reads other models")


@pytest.mark.parametrize("what", ["hidden", "proposal"])
def test_a_schedule_that_changes_what_it_is_shown_is_caught(what):
    class Meddles(Cheat):
        def choose(self, view, state):
            getattr(view, what).mul_(0.5)
            return torch.tensor([True, False]), state

    refuse(Meddles(), "'cheat' changes the hidden state or the proposal it is shown")


def test_a_schedule_that_keeps_its_turn_between_rollouts_is_caught():
    class Remembers(Cheat):
        calls = 0

        def choose(self, view, state):
            self.calls += 1
            return torch.tensor([True, self.calls % 5 == 0]), state

    refuse(Remembers(), "'cheat' chooses differently when it is run again with the same seeds")


def test_a_schedule_that_draws_from_a_generator_of_its_own_is_caught():
    class DrawsOwn(Cheat):
        def start(self, own, batch):
            return np.random.default_rng()

        def choose(self, view, state):
            return self.by_sign(torch.as_tensor(state.normal(size=(2, 5)))), state

    refuse(DrawsOwn(), "'cheat' chooses differently when it is run again with the same seeds")


def test_an_empty_choice_is_caught_and_placed():
    class Rests(Cheat):
        def choose(self, view, state):
            rests = (view.time_step, view.sweep) == (1, 2)
            return torch.tensor([not rests, False]), state

    refuse(Rests(), "names no active cluster at time step 1, sweep 2, update 0")


def test_an_empty_choice_for_one_trajectory_is_caught():
    class RestsOnce(Cheat):
        def choose(self, view, state):
            active = torch.ones(2, 5, 2, dtype=torch.bool)
            active[1, 3] = False
            return active, state

    refuse(RestsOnce(), "names no active cluster at time step 0, sweep 0, update 0")


@pytest.mark.parametrize(
    ("active", "found"),
    [
        (torch.ones(3, dtype=torch.bool), r"got torch.bool of shape \(3,\)"),
        (torch.ones(8, dtype=torch.bool), r"got torch.bool of shape \(8,\)"),
        (torch.ones(5, 2, dtype=torch.bool), r"got torch.bool of shape \(5, 2\)"),
        (torch.ones(2, 5, 2), r"got torch.float32 of shape \(2, 5, 2\)"),
        (torch.ones(2, dtype=torch.int64), r"got torch.int64 of shape \(2,\)"),
    ],
)
def test_a_choice_of_the_wrong_type_or_shape_is_refused(active, found):
    class Wrong(Cheat):
        def choose(self, view, state):
            return active, state

    sentence = (
        r"must return its active clusters as bool of shape \(2,\) or \(S, B, 2\), or one cluster's "
        r"number for each trajectory as int64 of shape \(S, B\); "
    )
    refuse(Wrong(), sentence + found, error=ValueError)


@pytest.mark.parametrize("number", [-1, 2])
def test_a_cluster_that_does_not_exist_is_refused(number):
    class Wrong(Cheat):
        def choose(self, view, state):
            return torch.full(view.hidden.shape[:2], number), state

    sentence = f"must number its clusters 0 to 1; got {number} to {number}"
    refuse(Wrong(), sentence, error=ValueError)


@pytest.mark.parametrize("number", [0, 1])
def test_a_clusters_number_is_the_set_of_that_cluster_alone(number):
    schedule = RandomCluster(contiguous(NODES, 2))
    active = active_clusters(schedule, torch.full((2, 5), number))
    assert active.dtype == torch.bool and active.shape == (2, 5, 2)
    assert active[..., number].all() and not active[..., 1 - number].any()
