"""The eta^2 law against linear cells worked out by hand and against explicit Jacobians."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from torch import Tensor

from clusterdyn.graph import Graph, contiguous, ring
from clusterdyn.mechanism import (
    REFERENCE_RELAXATIONS,
    RELAXATIONS,
    check_law,
    check_mechanism,
    check_order,
    discrepancy,
    independent_set_control,
    largest,
    log_log_slope,
    predicted_coefficient,
    sequential_sweep,
)
from clusterdyn.model import BoundCell, MessagePassingCell

NODES, CHANNELS = 6, 2
NODE_BY_NODE = [[i] for i in range(NODES)]
CLUSTERS = [[0, 1], [2, 3], [4, 5]]
SHUFFLED = [[4, 0], [3], [1, 5, 2]]
BLOCKS = {"nodes": NODE_BY_NODE, "clusters": CLUSTERS, "shuffled": SHUFFLED}
every_block = pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class LinearCell:
    """F(h) = A h + b on n nodes of one channel."""

    def __init__(self, matrix: list[list[float]], shift: list[float]) -> None:
        self.matrix = torch.tensor(matrix, dtype=torch.float64)
        self.shift = torch.tensor(shift, dtype=torch.float64)

    def force(self, hidden: Tensor) -> Tensor:
        return (hidden[..., 0] @ self.matrix.mT + self.shift).unsqueeze(-1)

    def proposal(self, hidden: Tensor, drive: Tensor) -> Tensor:
        return hidden + self.force(hidden)


def random_model(nodes: int = NODES, models: int = 3, batch: int = 2):
    """A bound cell with random weights, and h and z (S, B, n, d), float64."""
    rng = np.random.default_rng(nodes)
    cell = MessagePassingCell(ring(nodes), CHANNELS)
    bound = cell.bind(torch.as_tensor(rng.normal(size=(models, cell.parameter_count))))
    hidden, drive = rng.normal(size=(2, models, batch, nodes, CHANNELS))
    return bound, torch.as_tensor(0.5 * hidden), torch.as_tensor(drive)


def coefficient_by_jacobian(
    cell: BoundCell, hidden: Tensor, drive: Tensor, blocks: list[list[int]]
) -> np.ndarray:
    """L(J) F by loops over an explicit Jacobian, (S, B, n, d)."""

    def force(state: Tensor) -> Tensor:
        return cell.proposal(state, drive) - state

    jacobian = torch.autograd.functional.jacobian(force, hidden).numpy()
    forces = force(hidden).numpy()
    when = {node: number for number, block in enumerate(blocks) for node in block}
    coefficient = np.zeros(hidden.shape)
    models, batch, nodes, channels = hidden.shape
    for s in range(models):
        for b in range(batch):
            for i in range(nodes):
                for j in range(nodes):
                    if when[j] < when[i]:
                        for a in range(channels):
                            row = jacobian[s, b, i, a, s, b, j]
                            coefficient[s, b, i, a] += row @ forces[s, b, j]
    return coefficient


# Known answers.


def test_discrepancy_of_two_linear_nodes_is_eta_squared_times_the_coupling():
    # F = (2 h1 + 3 h2 + 1, 5 h1 + 7 h2 - 1); at h = (1, 2) it is (9, 18), so D = (0, eta^2 5 9).
    cell = LinearCell([[2.0, 3.0], [5.0, 7.0]], [1.0, -1.0])
    hidden = torch.tensor([1.0, 2.0], dtype=torch.float64).reshape(1, 1, 2, 1)
    for relaxation in (0.01, 0.5, 1.0):
        found = discrepancy(cell, hidden, hidden, [[0], [1]], relaxation).ravel()
        assert_allclose(found, [0, 45 * relaxation**2], rtol=1e-11, atol=0)
        # In the other order node 1 waits: D = (eta^2 3 18, 0).
        found = discrepancy(cell, hidden, hidden, [[1], [0]], relaxation).ravel()
        assert_allclose(found, [54 * relaxation**2, 0], rtol=1e-11, atol=0)
    assert predicted_coefficient(cell, hidden, hidden, [[0], [1]]).ravel().tolist() == [0, 45]
    assert predicted_coefficient(cell, hidden, hidden, [[1], [0]]).ravel().tolist() == [54, 0]


def test_discrepancy_of_three_linear_nodes_has_a_cubic_term():
    # F = (h1, 2 h1, 3 h1 + 4 h2) at h = (1, 1, 1): D3 = eta^2 (3 F1 + 4 F2) + eta^3 4 2 F1.
    cell = LinearCell([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [3.0, 4.0, 0.0]], [0.0, 0.0, 0.0])
    hidden = torch.ones(1, 1, 3, 1, dtype=torch.float64)
    blocks = [[0], [1], [2]]
    coefficient = predicted_coefficient(cell, hidden, hidden, blocks).ravel()
    assert coefficient.tolist() == [0, 2, 3 + 4 * 2]
    for eta in (0.1, 0.7):
        found = discrepancy(cell, hidden, hidden, blocks, eta).ravel()
        assert_allclose(found, [0, 2 * eta**2, 11 * eta**2 + 8 * eta**3], rtol=1e-12, atol=1e-15)
    # Nodes 1 and 2 together: node 2 no longer sees node 1's move.
    found = discrepancy(cell, hidden, hidden, [[0], [1, 2]], 0.5).ravel()
    assert_allclose(found, [0, 2 * 0.25, 3 * 0.25], rtol=1e-14)


def test_sequential_sweep_of_a_linear_cell_is_a_product_of_matrices():
    rng = np.random.default_rng(0)
    matrix, shift, start = rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=4)
    expected = start
    for block in ([2], [0, 3], [1]):
        moves = np.zeros((4, 4))
        moves[block, block] = 1.0
        expected = expected + 0.3 * moves @ (matrix @ expected + shift)
    hidden = torch.as_tensor(start).reshape(1, 1, 4, 1)
    cell = LinearCell(matrix.tolist(), shift.tolist())
    found = sequential_sweep(cell, hidden, hidden, [[2], [0, 3], [1]], 0.3)
    assert_allclose(found.ravel(), expected, rtol=0, atol=1e-14)


def test_one_block_with_every_node_has_no_discrepancy():
    cell, hidden, drive = random_model()
    everything = [range(NODES)]
    assert (discrepancy(cell, hidden, drive, everything, 0.7) == 0).all()
    assert (predicted_coefficient(cell, hidden, drive, everything) == 0).all()


@every_block
def test_predicted_coefficient_is_the_lower_block_triangle_of_the_jacobian_times_the_force(blocks):
    cell, hidden, drive = random_model()
    expected = coefficient_by_jacobian(cell, hidden, drive, blocks)
    assert np.abs(expected).max() > 0.1
    found = predicted_coefficient(cell, hidden, drive, blocks)
    assert_allclose(found, expected, rtol=0, atol=1e-12)


# The law.


def relative_errors(blocks, coefficient: Tensor | np.ndarray) -> np.ndarray:
    """(E, S): largest |D / eta^2 - coefficient| over the largest |coefficient|, a model."""
    cell, hidden, drive = random_model()
    coefficient = torch.as_tensor(coefficient)
    return np.stack(
        [
            largest(discrepancy(cell, hidden, drive, blocks, eta) / eta**2 - coefficient)
            / largest(coefficient)
            for eta in RELAXATIONS
        ]
    )


def test_relaxations_have_ratio_two_down_to_a_hundredth():
    assert len(RELAXATIONS) >= 6
    assert min(RELAXATIONS) == pytest.approx(0.01)
    assert_allclose(np.divide(RELAXATIONS[1:], RELAXATIONS[:-1]), 2)


@every_block
def test_coefficient_error_halves_with_eta_and_richardsons_quarters(blocks):
    law = check_law(*random_model(), blocks, unit="nodes", state="start")
    expected = coefficient_by_jacobian(*random_model(), blocks)
    assert_allclose(law.coefficient_error, relative_errors(blocks, expected), rtol=1e-8)
    halving = law.coefficient_error[1] / law.coefficient_error[0]
    assert_allclose(halving, 2, rtol=0.1)
    quartering = law.richardson_error[1] / law.richardson_error[0]
    assert_allclose(quartering, 4, rtol=0.2)
    assert (law.richardson_error[0] < law.coefficient_error[0] / 5).all()


def test_richardson_extrapolation_cancels_the_cubic_term_of_a_linear_cell():
    # D3 / eta^2 = 11 + 8 eta exactly: its error is linear and the extrapolation has none.
    cell = LinearCell([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [3.0, 4.0, 0.0]], [0.0, 0.0, 0.0])
    hidden = torch.ones(2, 1, 3, 1, dtype=torch.float64)
    law = check_law(cell, hidden, hidden, [[0], [1], [2]], unit="nodes", state="start")
    assert_allclose(law.predicted_size, [11, 11])
    for e, eta in enumerate(RELAXATIONS):
        assert_allclose(law.coefficient_error[e], 8 * eta / 11, rtol=1e-8)
        assert_allclose(law.size[e], 11 * eta**2 + 8 * eta**3, rtol=1e-11)
    assert law.richardson_error.shape == (5, 2)
    assert law.richardson_error.max() < 1e-10


def backwards(cell, hidden, drive, blocks):
    return predicted_coefficient(cell, hidden, drive, blocks[::-1])


def wrong_sign(cell, hidden, drive, blocks):
    return -predicted_coefficient(cell, hidden, drive, blocks)


def two_percent_off(cell, hidden, drive, blocks):
    return 1.02 * predicted_coefficient(cell, hidden, drive, blocks)


def without_force(cell, hidden, drive, blocks):
    return predicted_coefficient(cell, hidden, drive, blocks) * 0 + 1


@every_block
@pytest.mark.parametrize(
    ("wrong", "least"),
    [(backwards, 0.3), (wrong_sign, 1.99), (two_percent_off, 0.018), (without_force, 0.3)],
)
def test_a_wrong_coefficient_leaves_an_error_that_does_not_vanish(
    blocks, wrong, least, monkeypatch
):
    right = check_law(*random_model(), blocks, unit="nodes", state="start")
    assert right.richardson_error[0].max() < 0.001
    monkeypatch.setattr("clusterdyn.mechanism.predicted_coefficient", wrong)
    law = check_law(*random_model(), blocks, unit="nodes", state="start")
    assert law.richardson_error[0].min() > least
    assert_allclose(law.richardson_error[0], law.richardson_error[1], rtol=0.1)  # nor does it fall


@every_block
def test_the_first_block_is_exactly_equal(blocks):
    law = check_law(*random_model(), blocks, unit="nodes", state="start")
    assert_array_equal(law.first_block, 0)
    cell, hidden, drive = random_model()
    later = discrepancy(cell, hidden, drive, blocks, 0.5)[:, :, blocks[-1]]
    assert (largest(later) > 1e-3).all()


@every_block
def test_law_reports_what_was_measured(blocks):
    cell, hidden, drive = random_model()
    law = check_law(cell, hidden, drive, blocks, unit="clusters", state="trajectory")
    assert (law.unit, law.state) == ("clusters", "trajectory")
    assert_array_equal(law.relaxations, RELAXATIONS)
    for e, eta in enumerate(RELAXATIONS):
        by_hand = sequential_sweep(cell, hidden, drive, blocks, eta)
        by_hand = by_hand - (hidden + eta * (cell.proposal(hidden, drive) - hidden))
        assert_allclose(law.size[e], by_hand.abs().amax(dim=(1, 2, 3)).numpy(), rtol=1e-9)
        if e == 0:
            assert_allclose(law.measured, by_hand[0, 0] / eta**2, rtol=0, atol=1e-10)
    expected = coefficient_by_jacobian(cell, hidden, drive, blocks)
    assert_allclose(law.predicted, expected[0, 0], rtol=0, atol=1e-12)
    assert_allclose(law.predicted_size, np.abs(expected).max(axis=(1, 2, 3)), rtol=1e-12)
    for number, block in enumerate(blocks):
        assert law.block_of_node[list(block)].tolist() == [number] * len(block)


def test_slope_and_its_interval_are_those_of_regression_and_student():
    law = check_law(*random_model(), CLUSTERS, unit="clusters", state="start")
    slopes = [stats.linregress(np.log(RELAXATIONS), np.log(law.size[:, s])).slope for s in range(3)]
    assert_allclose(law.slope, slopes, rtol=1e-10)
    low, high = stats.t.interval(0.9, 2, np.mean(slopes), stats.sem(slopes))
    assert (law.slope_low, law.slope_high) == pytest.approx((low, high), rel=1e-10)


def saturated() -> tuple:
    """Three models of which the second has weights so large that tanh is exactly 1 or -1."""
    cell, hidden, drive = random_model()
    drive = drive.clone()
    drive[1] = 1e6
    return cell, hidden, drive


@every_block
def test_a_model_that_shows_no_discrepancy_has_no_slope_and_is_named(blocks):
    cell, hidden, drive = saturated()
    with pytest.raises(ValueError, match=r"no slope for clusters in turn, start: .* positions 1 "):
        check_law(cell, hidden, drive, blocks, unit="clusters", state="start")
    with pytest.raises(ValueError, match=r"no slope for several sweeps: .* positions 1 \(from 0\)"):
        check_order(cell, hidden, drive, blocks)


def test_a_discrepancy_without_bounds_is_told_as_one():
    cell, hidden, drive = random_model()
    hidden = hidden.clone()
    hidden[2, 0, 0] = torch.inf
    with pytest.raises(ValueError, match=r"by 0 or by infinity in the models at positions 2 "):
        check_law(cell, hidden, drive, NODE_BY_NODE, unit="nodes", state="start")


# Zero controls.


@pytest.mark.parametrize("nodes", [5, 6, 7, 8])
@pytest.mark.parametrize("relaxation", [0.1, 0.5, 1.0])
def test_independent_sets_move_at_once_or_in_turn_with_no_difference_at_all(nodes, relaxation):
    cell, hidden, drive = random_model(nodes)
    found = independent_set_control(cell, hidden, drive, ring(nodes), relaxation)
    assert found.shape == (3,)
    assert_array_equal(found, 0)


@pytest.mark.parametrize("nodes", [6, 8])
def test_on_a_contiguous_partition_at_once_and_in_turn_differ(nodes):
    cell, hidden, drive = random_model(nodes)
    partition = contiguous(nodes, 2)
    clusters = [partition.members(c) for c in range(2)]
    at_once = sequential_sweep(cell, hidden, drive, clusters, 0.5)
    in_turn = sequential_sweep(cell, hidden, drive, [[i] for i in range(nodes)], 0.5)
    assert (largest(at_once - in_turn) > 1e-3).all()


def test_the_zero_control_shows_a_graph_that_is_not_the_cells():
    # Coloured as if it had no edges, the ring's neighbours move at once.
    cell, hidden, drive = random_model()
    no_edges = Graph("no edges", ((),) * NODES, np.zeros((0, NODES, NODES)))
    assert (independent_set_control(cell, hidden, drive, no_edges, 0.5) > 1e-3).all()


# Orders.


def test_order_is_two_at_fixed_sweeps_and_one_at_a_fixed_span():
    cell, _, drive = random_model()
    order = check_order(cell, cell.start(2), drive, NODE_BY_NODE)
    assert_allclose(order.fixed_sweeps_slope, 2, atol=0.1)
    assert_allclose(order.fixed_span_slope, 1, atol=0.1)


def test_order_control_measures_four_sweeps_and_a_span_of_1_28():
    cell, _, drive = random_model()
    start = cell.start(2)
    order = check_order(cell, start, drive, CLUSTERS)
    assert_allclose(order.relaxations, [0.01, 0.02, 0.04, 0.08])
    for e, sweeps in enumerate((128, 64, 32, 16)):  # 1.28 / eta
        eta = order.relaxations[e]
        for count, found in ((4, order.fixed_sweeps), (sweeps, order.fixed_span)):
            in_turn = at_once = start
            for _ in range(count):
                in_turn = sequential_sweep(cell, in_turn, drive, CLUSTERS, eta)
                at_once = at_once + eta * (cell.proposal(at_once, drive) - at_once)
            assert_allclose(found[e], largest(in_turn - at_once).numpy(), rtol=1e-9)
    for sizes, slope in (
        (order.fixed_sweeps, order.fixed_sweeps_slope),
        (order.fixed_span, order.fixed_span_slope),
    ):
        assert_allclose(slope, np.log(sizes[1] / sizes[0]) / np.log(2), rtol=1e-12)


@pytest.mark.parametrize("power", [1, 2, 3.5])
def test_log_log_slope_of_a_power_is_the_power(power):
    x = np.array([0.01, 0.05, 0.2, 0.7])
    sizes = np.stack([4 * x**power, 0.001 * x ** (power + 1)], axis=1)
    assert_allclose(log_log_slope(x, sizes), [power, power + 1], rtol=1e-13)


def test_log_log_slope_of_scattered_sizes_is_scipys_regression():
    x, sizes = np.random.default_rng(1).uniform(0.1, 2.0, size=(2, 9))
    expected = stats.linregress(np.log(x), np.log(sizes)).slope
    assert log_log_slope(x, sizes) == pytest.approx(expected, rel=1e-12)


def test_largest_is_the_largest_magnitude_of_each_model():
    values = torch.tensor([[[[1.0, -3.0]]], [[[0.5, 0.25]]]])
    assert largest(values).tolist() == [3.0, 0.5]


# The whole check.


@pytest.fixture(scope="module")
def checked():
    """The check of three random models, and what went in."""
    rng = np.random.default_rng(5)
    cell = MessagePassingCell(ring(NODES), CHANNELS)
    given = SimpleNamespace(
        cell=cell,
        parameters=0.6 * rng.normal(size=(3, cell.parameter_count)),
        states=rng.normal(size=(3, 2, 4, 3)),
        controls=rng.normal(size=(3, 2, 3, 1)),
    )
    result = check_mechanism(
        cell,
        given.parameters,
        np.array([4, 5, 6]),
        CLUSTERS,
        given.states,
        given.controls,
        sweeps=3,
        relaxation=0.4,
    )
    return given, result


def points_by_hand(given):
    """(h, z) at the start and after the first time step, float64."""
    bound = given.cell.bind(torch.as_tensor(given.parameters))
    states, controls = torch.as_tensor(given.states), torch.as_tensor(given.controls)
    start = torch.zeros(3, 2, NODES, CHANNELS, dtype=torch.float64)
    drive = bound.drive(states[:, :, 0], controls[:, :, 0])
    hidden = start
    for _ in range(3):
        hidden = 0.6 * hidden + 0.4 * bound.proposal(hidden, drive)
    predicted = bound.readout(hidden)  # fed back, not observed
    return bound, {
        "start": (start, drive),
        "trajectory": (hidden, bound.drive(predicted, controls[:, :, 1])),
    }


def test_check_covers_nodes_and_clusters_at_both_states(checked):
    _, result = checked
    expected = [(u, s) for u in ("nodes", "clusters") for s in ("start", "trajectory")]
    assert [(law.unit, law.state) for law in result.laws] == expected
    assert [(view.unit, view.state) for view in result.reference_views] == expected
    assert result.seeds.tolist() == [4, 5, 6]


@pytest.mark.parametrize("number", range(4))
def test_laws_are_measured_at_h_0_and_after_the_first_full_time_step(checked, number):
    given, result = checked
    law = result.laws[number]
    bound, points = points_by_hand(given)
    blocks = {"nodes": NODE_BY_NODE, "clusters": CLUSTERS}[law.unit]
    expected = coefficient_by_jacobian(bound, *points[law.state], blocks)
    assert_allclose(law.predicted, expected[0, 0], rtol=0, atol=1e-12)
    assert_allclose(law.predicted_size, np.abs(expected).max(axis=(1, 2, 3)), rtol=1e-11)
    assert law.coefficient_error[0].max() < 0.05
    assert law.richardson_error[0].max() < 0.005


@pytest.mark.parametrize("number", range(4))
def test_reference_views_are_the_published_etas_in_single_precision(checked, number):
    given, result = checked
    view = result.reference_views[number]
    assert view.relaxations.tolist() == [0.2, 0.4, 0.6, 0.8] == list(REFERENCE_RELAXATIONS)
    assert view.size.dtype == np.float32
    bound, points = points_by_hand(given)
    blocks = {"nodes": NODE_BY_NODE, "clusters": CLUSTERS}[view.unit]
    hidden, drive = points[view.state]
    for e, eta in enumerate(view.relaxations):
        expected = largest(discrepancy(bound, hidden, drive, blocks, float(eta)))
        assert_allclose(view.size[e], expected, rtol=1e-4)
        assert (view.size[e] != expected.numpy()).any()  # rounded, so not the same digits
    for s in range(3):
        slope = stats.linregress(np.log(view.relaxations), np.log(view.size[:, s])).slope
        assert view.slope[s] == pytest.approx(slope, rel=1e-5)


def test_zero_controls_of_the_whole_check_are_exactly_zero(checked):
    _, result = checked
    assert_array_equal(result.independent_sets, np.zeros(3))
    for law in result.laws:
        assert_array_equal(law.first_block, np.zeros(3))


def test_order_control_of_the_whole_check_is_node_by_node_from_the_start(checked):
    given, result = checked
    bound, points = points_by_hand(given)
    expected = check_order(bound, *points["start"], NODE_BY_NODE)
    assert_allclose(result.order.fixed_sweeps, expected.fixed_sweeps, rtol=1e-9)
    assert_allclose(result.order.fixed_span, expected.fixed_span, rtol=1e-9)
