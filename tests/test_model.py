"""The cell and its rollout against a loop over nodes and neighbours, and against closed forms."""

import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from test_adaptive_schedules import TEXTS

from clusterdyn.graph import Graph, Partition, coloring, contiguous, ring, singletons, strided
from clusterdyn.model import MessagePassingCell
from clusterdyn.schedules import SCHEDULES, Full, Schedule, StaticSchedule, make_schedule
from clusterdyn.sweeps import relax, rollout

CHANNELS, SWEEPS, RELAXATION = 2, 2, 0.3
UNEQUAL = Partition("unequal", (0, 1, 2, 1, 1, 2, 0))


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def problem(nodes: int = 6, models: int = 2, batch: int = 3, horizon: int = 3, scale: float = 0.6):
    """A cell, parameters (S, P), first states (S, B, 3), controls (S, B, T, 1), float64."""
    rng = np.random.default_rng(nodes)
    cell = MessagePassingCell(ring(nodes), CHANNELS)
    parameters = scale * rng.normal(size=(models, cell.parameter_count))
    states = rng.normal(size=(models, batch, 3))
    controls = rng.normal(size=(models, batch, horizon, 1))
    return cell, *map(torch.as_tensor, (parameters, states, controls))


def run(schedule, cell, parameters, states, controls, *, sweeps=SWEEPS, relaxation=RELAXATION):
    generators = [np.random.default_rng(s) for s in range(len(parameters))]
    return rollout(
        cell.bind(parameters),
        states,
        controls,
        schedule,
        generators,
        sweeps=sweeps,
        relaxation=relaxation,
        targets=answers(states, controls),
    )


def answers(states: torch.Tensor, controls: torch.Tensor) -> torch.Tensor:
    """(S, B, T, 3): any targets, of each trajectory's own."""
    return states.unsqueeze(2) + controls


def split_by_hand(cell: MessagePassingCell, flat: np.ndarray):
    """W_in, b, (W_self, W_left, W_right), W_out, b_out of one flat vector, counted off."""
    n, d = cell.graph.nodes, cell.channels
    w_in = flat[: n * d * 4].reshape(n * d, 4)
    flat = flat[n * d * 4 :]
    b = flat[: n * d]
    flat = flat[n * d :]
    messages = [flat[k * d * d : (k + 1) * d * d].reshape(d, d) for k in range(3)]
    flat = flat[3 * d * d :]
    w_out = flat[: 3 * n * d].reshape(3, n * d)
    return w_in, b, messages, w_out, flat[3 * n * d :]


def slow_rollout(
    cell, flat, state, controls, active, updates_a_time_step, relaxation
) -> np.ndarray:
    """(T, 3): one model's prediction of one trajectory, node by node.

    Args:
        flat: (P,). state: (3,). controls: (T, 1).
        active: (updates, n), bool, the nodes that each update moves.
    """
    n, d = cell.graph.nodes, cell.channels
    w_in, b, (w_self, w_left, w_right), w_out, b_out = split_by_hand(cell, flat)
    hidden = np.zeros((n, d))
    predictions = []
    updates = iter(active)
    for control in controls:
        drive = (w_in @ np.concatenate([state, control]) + b).reshape(n, d)
        for _ in range(updates_a_time_step):
            moves = next(updates)
            after = hidden.copy()
            for i in range(n):
                if moves[i]:
                    heard = w_self @ hidden[i] + w_left @ hidden[i - 1]
                    heard = heard + w_right @ hidden[(i + 1) % n]
                    proposal = np.tanh(heard + drive[i])
                    after[i] = (1 - relaxation) * hidden[i] + relaxation * proposal
            hidden = after
        state = w_out @ hidden.reshape(n * d) + b_out
        predictions.append(state)
    return np.stack(predictions)


PARTITIONS = {
    6: (contiguous(6, 3), strided(6, 2), coloring(ring(6))),
    7: (coloring(ring(7)), UNEQUAL),
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("nodes", [6, 7])
def test_rollout_is_a_loop_over_time_steps_sweeps_nodes_and_neighbours(name, nodes):
    cell, parameters, states, controls = problem(nodes)
    for partition in PARTITIONS[nodes]:
        schedule = make_schedule(name, ring(nodes), partition)
        found = run(schedule, cell, parameters, states, controls)
        assert found.predictions.shape == (2, 3, 3, 3)
        labels = list(schedule.partition.labels)
        assert len(found.activity) == 3 * SWEEPS * schedule.updates_per_sweep
        for s in range(2):
            for b in range(3):
                active = [
                    (choice if choice.ndim == 1 else choice[s, b])[labels].numpy()
                    for choice in found.activity
                ]
                expected = slow_rollout(
                    cell,
                    parameters[s].numpy(),
                    states[s, b].numpy(),
                    controls[s, b].numpy(),
                    active,
                    SWEEPS * schedule.updates_per_sweep,
                    RELAXATION,
                )
                assert_allclose(found.predictions[s, b], expected, rtol=0, atol=1e-12)


# Closed forms.


def test_one_sweep_without_damping_is_one_layer_of_tanh():
    cell, parameters, states, controls = problem(horizon=2)
    found = run(
        Full(contiguous(6, 3)), cell, parameters, states, controls, sweeps=1, relaxation=1.0
    ).predictions.numpy()
    for s in range(2):
        w_in, b, (w_self, w_left, w_right), w_out, b_out = split_by_hand(
            cell, parameters[s].numpy()
        )
        ring_of_blocks = np.zeros((12, 12))
        for i in range(6):
            for weights, j in ((w_self, i), (w_left, (i - 1) % 6), (w_right, (i + 1) % 6)):
                ring_of_blocks[2 * i : 2 * i + 2, 2 * j : 2 * j + 2] = weights
        for trajectory in range(3):
            x, u = states[s, trajectory].numpy(), controls[s, trajectory, :, 0].numpy()
            h = np.tanh(w_in @ [*x, u[0]] + b)
            x = w_out @ h + b_out
            assert_allclose(found[s, trajectory, 0], x, rtol=0, atol=1e-13)
            h = np.tanh(w_in @ [*x, u[1]] + b + ring_of_blocks @ h)
            assert_allclose(found[s, trajectory, 1], w_out @ h + b_out, rtol=0, atol=1e-13)


def without_messages(cell: MessagePassingCell, parameters: torch.Tensor) -> torch.Tensor:
    """The same models with all three message weights set to 0."""
    silent = parameters.clone()
    cell.unflatten(silent)["messages"].zero_()
    return silent


@pytest.mark.parametrize("sweeps", [1, 2, 5])
@pytest.mark.parametrize("relaxation", [0.1, 0.5, 0.7, 1.0])
def test_nodes_that_hear_nothing_relax_geometrically(sweeps, relaxation):
    # h_k = (1 - (1 - eta)^k) tanh z
    cell, parameters, states, controls = problem(horizon=1)
    silent = without_messages(cell, parameters)
    found = run(
        Full(contiguous(6, 3)), cell, silent, states, controls, sweeps=sweeps, relaxation=relaxation
    ).predictions.numpy()
    for s in range(2):
        w_in, b, _, w_out, b_out = split_by_hand(cell, silent[s].numpy())
        inputs = np.concatenate([states[s], controls[s, :, 0]], axis=1)  # (B, 4)
        hidden = (1 - (1 - relaxation) ** sweeps) * np.tanh(inputs @ w_in.T + b)
        assert_allclose(found[s, :, 0], hidden @ w_out.T + b_out, rtol=0, atol=1e-13)


def test_without_messages_every_schedule_of_all_clusters_gives_the_full_sweeps_prediction():
    cell, parameters, states, controls = problem()
    silent = without_messages(cell, parameters)
    full = run(Full(contiguous(6, 3)), cell, silent, states, controls).predictions
    for name in ("sequential", "cluster_sequential"):
        schedule = make_schedule(name, ring(6), contiguous(6, 3))
        found = run(schedule, cell, silent, states, controls).predictions
        assert_allclose(found, full, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("relation", "source"), [(0, 2), (1, 1), (2, 3)])
def test_messages_are_self_then_left_then_right(relation, source):
    # Node 2's neighbours are 1 on the left and 3 on the right; each relation alone picks one.
    cell = MessagePassingCell(ring(6), channels=1)
    parameters = torch.zeros(1, cell.parameter_count, dtype=torch.float64)
    cell.unflatten(parameters)["messages"][0, relation, 0, 0] = 2.0
    hidden = torch.arange(1.0, 7.0, dtype=torch.float64).reshape(1, 1, 6, 1) / 10
    proposal = cell.bind(parameters).proposal(hidden, torch.zeros_like(hidden))
    assert proposal[0, 0, 2, 0].item() == pytest.approx(math.tanh(2 * (source + 1) / 10), abs=1e-15)


def test_message_weights_map_from_heard_channel_to_own_channel():
    cell = MessagePassingCell(ring(4), channels=2)
    parameters = torch.zeros(1, cell.parameter_count, dtype=torch.float64)
    cell.unflatten(parameters)["messages"][0, 1, 0, 1] = 1.0  # own channel 0 hears channel 1
    hidden = torch.arange(8.0, dtype=torch.float64).reshape(1, 1, 4, 2) / 10
    proposal = cell.bind(parameters).proposal(hidden, torch.zeros_like(hidden))
    assert_allclose(proposal[0, 0, :, 0], np.tanh([0.7, 0.1, 0.3, 0.5]), atol=1e-15)
    assert_allclose(proposal[0, 0, :, 1], 0)


def test_turning_the_ring_turns_the_proposal():
    rng = np.random.default_rng(0)
    cell, parameters, _, _ = problem(nodes=7)
    hidden, drive = (torch.as_tensor(rng.normal(size=(2, 3, 7, 2))) for _ in range(2))
    bound = cell.bind(parameters)
    turned = bound.proposal(hidden.roll(2, dims=2), drive.roll(2, dims=2))
    assert_allclose(turned, bound.proposal(hidden, drive).roll(2, dims=2), rtol=0, atol=1e-14)


def test_relaxation_moves_active_nodes_by_its_factor_and_holds_the_others():
    hidden = torch.tensor([[[[1.0], [2.0], [-4.0]]]], dtype=torch.float64)
    proposal = torch.tensor([[[[2.0], [4.0], [8.0]]]], dtype=torch.float64)
    active = torch.tensor([[True], [False], [True]])
    moved = relax(hidden, proposal, active, 0.25)
    assert moved.ravel().tolist() == [1.25, 2.0, -1.0]
    assert relax(hidden, proposal, active, 1.0).ravel().tolist() == [2.0, 2.0, 8.0]


# Exact identities.


@pytest.mark.parametrize("nodes", [6, 7, 8])
def test_within_cluster_update_is_exact_on_a_coloring(nodes):
    cell, parameters, states, controls = problem(nodes)
    partition = coloring(ring(nodes))
    order = [node for c in range(partition.clusters) for node in partition.members(c)]
    in_turn = StaticSchedule(singletons(nodes), torch.eye(nodes, dtype=torch.bool)[order])
    in_turn.updates_per_sweep = nodes
    at_once = make_schedule("cluster_sequential", ring(nodes), partition)
    found = run(at_once, cell, parameters, states, controls).predictions
    assert torch.equal(found, run(in_turn, cell, parameters, states, controls).predictions)


def test_within_cluster_update_is_not_exact_on_neighbours():
    cell, parameters, states, controls = problem()
    in_turn = make_schedule("sequential", ring(6), contiguous(6, 3))
    at_once = make_schedule("cluster_sequential", ring(6), contiguous(6, 3))
    found = run(at_once, cell, parameters, states, controls).predictions
    expected = run(in_turn, cell, parameters, states, controls).predictions
    assert (found - expected).abs().max() > 1e-3


@pytest.mark.parametrize("text", TEXTS)
def test_a_model_gives_the_same_numbers_in_populations_of_any_size(text):
    cell, parameters, states, controls = problem(models=6)
    schedule = make_schedule(text, ring(6), contiguous(6, 3))
    together = run(schedule, cell, parameters, states, controls)
    for size in (1, 2, 5):
        part = run(schedule, cell, parameters[:size], states[:size], controls[:size])
        assert_allclose(part.predictions, together.predictions[:size], rtol=0, atol=1e-9)
        for found, active in zip(part.activity, together.activity, strict=True):
            assert torch.equal(found, active if active.ndim == 1 else active[:size])


@pytest.mark.parametrize("name", ["full", "sequential", "cluster_sequential", "histogram"])
def test_a_trajectory_gives_the_same_numbers_in_batches_of_any_size(name):
    cell, parameters, states, controls = problem(batch=5)
    schedule = make_schedule(name, ring(6), contiguous(6, 3))
    together = run(schedule, cell, parameters, states, controls).predictions
    alone = run(schedule, cell, parameters, states[:, 3:4], controls[:, 3:4]).predictions
    assert_allclose(alone, together[:, 3:4], rtol=0, atol=1e-9)


def test_a_prediction_is_fed_back_and_reads_no_later_control():
    cell, parameters, states, controls = problem(horizon=4)
    schedule = make_schedule("histogram", ring(6), contiguous(6, 3))
    before = run(schedule, cell, parameters, states, controls).predictions
    changed = controls.clone()
    changed[:, :, 2] += 1.0
    after = run(schedule, cell, parameters, states, changed).predictions
    assert torch.equal(after[:, :, :2], before[:, :, :2])
    assert ((after - before)[:, :, 2:].abs().amax(dim=(0, 1, 3)) > 1e-3).all()


def test_gradient_of_a_rollout_agrees_with_finite_differences():
    cell, parameters, states, controls = problem(nodes=3, models=1, batch=1, horizon=2)
    schedule = make_schedule("cluster_sequential", ring(3), contiguous(3, 3))

    def predict(flat):
        return run(schedule, cell, flat, states, controls).predictions

    assert torch.autograd.gradcheck(predict, parameters.requires_grad_(), eps=1e-6, atol=1e-7)


# The schedule that knows the answer.


class Recording(Schedule):
    """Hands everything on and keeps each view."""

    needs_answer = True

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule.partition)
        self.schedule, self.views = schedule, []

    def choose(self, view, state):
        self.views.append(view)
        return self.schedule.choose(view, state)


@pytest.mark.parametrize("relaxation", [0.3, 1.0])
@pytest.mark.parametrize("nodes", [6, 7])
def test_oracle_takes_the_update_after_which_the_read_out_errs_least(nodes, relaxation):
    cell, parameters, states, controls = problem(nodes, batch=5)
    for partition in PARTITIONS[nodes]:
        oracle = make_schedule("oracle", ring(nodes), partition, relaxation=relaxation)
        schedule = Recording(oracle)
        found = run(schedule, cell, parameters, states, controls, relaxation=relaxation)
        assert len(schedule.views) == 6
        taken = []
        for view, active in zip(schedule.views, found.activity, strict=True):
            targets = answers(states, controls)[:, :, view.time_step].numpy()
            for s, b in np.ndindex(2, 5):
                *_, w_out, b_out = split_by_hand(cell, parameters[s].numpy())
                errors = []
                for cluster in range(partition.clusters):
                    hidden = view.hidden[s, b].numpy().copy()
                    for i in range(nodes):
                        if partition.labels[i] == cluster:
                            step = view.proposal[s, b, i].numpy() - hidden[i]
                            hidden[i] = hidden[i] + relaxation * step
                    state = w_out @ hidden.ravel() + b_out
                    errors.append(np.mean((state - targets[s, b]) ** 2))
                taken.append(int(np.argmin(errors)))
                assert active[s, b].tolist() == [c == taken[-1] for c in range(len(errors))]
        assert set(taken) == set(range(partition.clusters))


def test_only_oracle_needs_the_answer_and_says_so():
    cell, parameters, states, controls = problem()
    needy = [
        name for name in SCHEDULES if make_schedule(name, ring(6), contiguous(6, 3)).needs_answer
    ]
    assert needy == ["oracle"]
    oracle = make_schedule("oracle", ring(6), contiguous(6, 3))
    with pytest.raises(ValueError, match="schedule 'oracle' needs the answer: give targets"):
        rollout(
            cell.bind(parameters), states, controls, oracle, [None] * 2, sweeps=1, relaxation=0.5
        )


def test_in_one_sweep_of_one_time_step_no_choice_of_one_cluster_beats_oracle():
    # More cannot be said: it is greedy, and a later sweep may make up for a worse one.
    cell, parameters, states, controls = problem(models=4, batch=20, horizon=1)

    def error(schedule: Schedule) -> torch.Tensor:
        found = run(schedule, cell, parameters, states, controls, sweeps=1)
        return (found.predictions - answers(states, controls)).square().mean(dim=(2, 3))

    partition = contiguous(6, 3)
    oracle, *others = (
        error(make_schedule(text, ring(6), partition, relaxation=RELAXATION))
        for text in ("oracle", "random", "histogram(ties=random)", "residual", "residual(norm=max)")
    )
    alone = [
        error(StaticSchedule(partition, torch.eye(3, dtype=torch.bool)[[c]])) for c in range(3)
    ]
    assert_allclose(oracle, torch.stack(alone).amin(dim=0), rtol=1e-12)
    for other in others:
        assert (oracle <= other * (1 + 1e-12)).all()


# Parameters.


def test_parameters_of_one_model_counted_by_hand():
    # W_in 24 x 4, b 24, three 3 x 3 message weights, W_out 3 x 24, b_out 3
    cell = MessagePassingCell(ring(8), channels=3)
    assert cell.parameter_count == 96 + 24 + 27 + 72 + 3
    assert cell.hidden_size == 24


def test_flat_parameters_are_cut_in_order():
    cell = MessagePassingCell(ring(3), channels=2)
    flat = torch.arange(2.0 * cell.parameter_count).view(2, -1)
    weights = cell.unflatten(flat)
    w_in, b, messages, w_out, b_out = split_by_hand(cell, flat[1].numpy())
    assert_array_equal(weights["drive"][1], w_in)
    assert_array_equal(weights["drive_bias"][1], b)
    assert_array_equal(weights["messages"][1], np.stack(messages))
    assert_array_equal(weights["readout"][1], w_out)
    assert_array_equal(weights["readout_bias"][1], b_out)


def test_initial_weights_are_uniform_within_the_bounds_of_torch_linear():
    cell = MessagePassingCell(ring(40), channels=5)
    flat = torch.as_tensor(cell.initial_parameters(np.random.SeedSequence(0)))[None]
    # torch.nn.Linear draws weight and bias from U(-1, 1) / sqrt(inputs).
    inputs = {"drive": 4, "drive_bias": 4, "messages": 15, "readout": 200, "readout_bias": 200}
    for name, weights in cell.unflatten(flat).items():
        bound = 1 / math.sqrt(inputs[name])
        assert weights.abs().max() <= bound
        values = weights.numpy().ravel()
        assert stats.kstest(values, stats.uniform(-bound, 2 * bound).cdf).pvalue > 0.01


@pytest.mark.parametrize("inputs", [4, 15, 200])
def test_torch_linear_itself_keeps_those_bounds(inputs):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = torch.nn.Linear(inputs, 2000)
    for values in (layer.weight, layer.bias):
        assert values.abs().max().item() == pytest.approx(1 / math.sqrt(inputs), rel=0.01)


def test_initial_weights_follow_from_the_stream():
    cell = MessagePassingCell(ring(6), channels=2)
    first, again, other = (cell.initial_parameters(np.random.SeedSequence(s)) for s in (1, 1, 2))
    assert_array_equal(first, again)
    assert not (first == other).any()


# Errors.


@pytest.mark.parametrize("shape", [(222,), (2, 221), (2, 223), (1, 2, 222)])
def test_parameters_have_one_row_a_model(shape):
    cell = MessagePassingCell(ring(8), channels=3)
    with pytest.raises(ValueError, match=r"parameters must have shape \(S, 222\); got \("):
        cell.bind(torch.zeros(shape))


def test_a_choice_of_the_wrong_shape_stops_the_rollout():
    class Wrong(Schedule):
        name = "wrong"

        def choose(self, view, state):
            return torch.ones(4, dtype=torch.bool), state

    sentence = r"schedule 'wrong' must return its active clusters as bool of shape \(3,\) or"
    with pytest.raises(ValueError, match=sentence):
        run(Wrong(contiguous(6, 3)), *problem())


def test_a_cell_takes_any_graph_with_relations():
    # A path 0 - 1 - 2 with one relation, the mean of the neighbours.
    operator = np.array([[[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]])
    path = Graph("path", ((1,), (0, 2), (1,)), operator)
    cell = MessagePassingCell(path, channels=1)
    parameters = torch.zeros(1, cell.parameter_count, dtype=torch.float64)
    weights = cell.unflatten(parameters)["messages"]
    assert weights.shape == (1, 2, 1, 1)
    weights[0, 0] = 0.5
    weights[0, 1] = 3.0
    hidden = torch.tensor([0.1, 0.2, 0.4], dtype=torch.float64).reshape(1, 1, 3, 1)
    proposal = cell.bind(parameters).proposal(hidden, torch.zeros_like(hidden))
    expected = np.tanh([0.05 + 3 * 0.2, 0.1 + 3 * 0.25, 0.2 + 3 * 0.2])
    assert_allclose(proposal.ravel(), expected, rtol=0, atol=1e-15)


# Graphs.


@pytest.mark.parametrize(
    "relations",
    [
        np.stack([np.eye(3)[[1, 2, 0]], np.eye(3)[[1, 2, 0]] / 2]),  # the same pairs twice
        np.stack([np.eye(3)[[1, 2, 0]], [[0, 0, 1], [0, 0, 0.5], [0, 0, 0]]]),  # one pair twice
        np.stack([np.eye(3)[[1, 2, 0]], -np.eye(3)[[1, 2, 0]]]),  # they would cancel out
        np.eye(3)[None],  # every node itself
        np.array([[[0.0, 1.0, 0.0], [1.0, 1e-9, 0.0], [0.0, 1.0, 0.0]]]),  # one node, a little
        np.stack([np.eye(3)[[1, 2, 0]], [[0, 0, 0], [0, 0, 0], [0, 0, -1]]]),
    ],
)
def test_a_graph_refuses_relations_that_overlap_or_make_a_node_hear_itself(relations):
    # The cell's dense matrix has one place for each pair of nodes, and it is W_self's for i = j.
    sentence = "in graph 'by hand' a node hears itself, or another node along two relations"
    with pytest.raises(ValueError, match=sentence):
        Graph("by hand", ((1, 2), (0, 2), (0, 1)), relations)


def test_a_graph_takes_relations_of_any_strength_that_share_no_pair():
    relations = np.stack([2 * np.eye(3)[[1, 2, 0]], -np.eye(3)[[2, 0, 1]], np.zeros((3, 3))])
    graph = Graph("by hand", ((1, 2), (0, 2), (0, 1)), relations)
    cell = MessagePassingCell(graph, channels=1)
    parameters = torch.zeros(1, cell.parameter_count, dtype=torch.float64)
    weights = torch.tensor([1.0, 0.5, 0.25, 7.0], dtype=torch.float64)
    cell.unflatten(parameters)["messages"][0, :, 0, 0] = weights
    hidden = torch.tensor([0.1, 0.2, 0.4], dtype=torch.float64).reshape(1, 1, 3, 1)
    proposal = cell.bind(parameters).proposal(hidden, torch.zeros_like(hidden))
    # Own state, and the next node's, less a quarter of the last node's.
    expected = np.tanh([0.1 + 0.2 - 0.1, 0.2 + 0.4 - 0.025, 0.4 + 0.1 - 0.05])
    assert_allclose(proposal.ravel(), expected, rtol=0, atol=1e-15)


def test_relations_of_every_ring_share_no_pair():
    for nodes in range(3, 9):
        assert sum((r != 0).astype(int) for r in ring(nodes).relations).max() == 1
