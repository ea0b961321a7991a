"""Graphs by name, against hand counts; and the gradient on large sparse ones."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from clusterdyn.adjoint import RolloutGradient
from clusterdyn.arms import message_passing_cell
from clusterdyn.config import StudyConfig
from clusterdyn.graph import Graph, NeighbourSum, coloring, contiguous, is_ring, ring, strided
from clusterdyn.graphs import GRAPHS, edge_list, graph_of_edges, make_graph, pinned_graph
from clusterdyn.model import MessagePassingCell
from clusterdyn.schedules import make_schedule
from clusterdyn.spans import Gathered
from clusterdyn.sweeps import active_clusters, rollout


def test_a_torus_of_twelve_nodes_is_three_rows_of_four():
    graph = make_graph("torus", 12)
    # Node 5 is in row 1, column 1; node 0 wraps to row 2 and to column 3.
    assert graph.neighbours[5] == (1, 4, 6, 9)
    assert graph.neighbours[0] == (1, 3, 4, 8)


@pytest.mark.parametrize("nodes", [9, 16, 36, 1024])
def test_every_node_of_a_torus_has_four_neighbours(nodes):
    assert {len(others) for others in make_graph("torus", nodes).neighbours} == {4}


@pytest.mark.parametrize("nodes", [3, 7, 8, 10, 22])
def test_a_torus_needs_a_grid_of_three_by_three(nodes):
    with pytest.raises(ValueError, match=f"{nodes} cannot be written as such a product"):
        make_graph("torus", nodes)


def test_a_random_regular_graph_has_the_degree_and_follows_from_its_seed():
    drawn = [make_graph(f"random_regular(degree=3, seed={seed})", 20) for seed in (0, 0, 1)]
    assert all({len(others) for others in graph.neighbours} == {3} for graph in drawn)
    assert drawn[0].neighbours == drawn[1].neighbours != drawn[2].neighbours


@pytest.mark.parametrize(("nodes", "degree"), [(5, 3), (4, 4)])
def test_a_random_regular_graph_that_does_not_exist_is_refused(nodes, degree):
    with pytest.raises(ValueError, match="no connected random regular graph"):
        make_graph(f"random_regular(degree={degree})", nodes)


def test_in_a_complete_graph_a_node_hears_the_mean_of_all_others():
    (relation,) = make_graph("complete", 4).relations
    assert_allclose(relation @ [3.0, 6.0, 9.0, 0.0], [5.0, 4.0, 3.0, 6.0])


def test_a_ring_by_name_is_the_ring_and_no_other_graph_is():
    assert is_ring(make_graph("ring", 6))
    for name in ("complete", "random_regular(degree=2)"):
        assert not is_ring(make_graph(name, 6))
    left, right = ring(6).relations
    assert not is_ring(Graph("mirrored", ring(6).neighbours, (right, left)))


def test_edges_are_read_from_a_file_with_comments(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("# a path\n0 1\n\n2 1  # and back\n1 0\n")
    graph = make_graph(f"edge_list(path={path})", 3)
    assert graph.neighbours == ((1,), (0, 2), (1,))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0 1\n1 x\n", "line 2: an edge is two node numbers from 0; got '1 x'"),
        ("0 1 2\n", "line 1: an edge is two node numbers"),
        ("0 -1\n", "line 1: an edge is two node numbers"),
        ("0 1\n1 3\n", "edge 1 3 of graph 'edge list' leaves the nodes 0 to 2"),
        ("0 1\n2 2\n", "edge 2 2 of graph 'edge list' joins a node to itself"),
        ("0 1\n", "not connected: no path leads from node 0 to node 2"),
        ("", "not connected"),
    ],
)
def test_a_malformed_file_of_edges_is_refused_with_its_line(tmp_path, text, sentence):
    path = tmp_path / "edges.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        edge_list(3, str(path))


def test_a_missing_or_binary_file_of_edges_is_refused(tmp_path):
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none", binary, tmp_path):
        with pytest.raises(ValueError, match="cannot read the edges in"):
            make_graph(f"edge_list(path={path})", 3)


def test_a_study_names_the_content_of_its_edges_and_refuses_another(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("\n".join(f"{i} {(i + 1) % 16}" for i in range(16)))
    config = StudyConfig(graph=f"edge_list(path={path})")
    assert config.graph == pinned_graph(f"edge_list(path={path})") != f"edge_list(path={path})"
    assert message_passing_cell(config).graph.neighbours == ring(16).neighbours
    path.write_text("\n".join(f"0 {i}" for i in range(1, 16)))
    with pytest.raises(ValueError, match="are no longer those that this study began with"):
        StudyConfig(graph=config.graph)
    assert StudyConfig(graph=f"edge_list(path={path})").graph != config.graph


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("grid", "graph must be one of ring, torus, random_regular, complete, edge_list"),
        ("torus(rows=3)", "graph 'torus\\(rows=3\\)' has no option 'rows'; its options are: none"),
        ("random_regular(degree=2.5)", "degree must be a whole number from 2"),
        ("random_regular(degree=1)", "degree must be a whole number from 2"),
        ("edge_list", "needs a file of edges"),
        ("ring(", "a graph is written NAME or NAME"),
    ],
)
def test_an_unknown_graph_or_option_is_refused(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_graph(text, 9)


def test_every_graph_name_makes_a_study(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("\n".join(f"0 {i}" for i in range(1, 16)))
    for name in GRAPHS:
        text = f"edge_list(path={path})" if name == "edge_list" else name
        assert message_passing_cell(StudyConfig(graph=text)).graph.nodes == 16


STAR = graph_of_edges("star", 40, [(0, i) for i in range(1, 40)])
SPARSE = [make_graph("torus", 16), make_graph("complete", 40), ring(7), STAR]


@pytest.mark.parametrize("graph", SPARSE, ids=lambda graph: graph.name)
def test_a_neighbour_sum_is_the_matrix_product(graph):
    hidden = torch.as_tensor(np.random.default_rng(0).normal(size=(2, 3, graph.nodes, 4)))
    for relation in graph.relations:
        expected = np.einsum("ij,sbjd->sbid", relation.toarray(), hidden.numpy())
        assert_allclose(NeighbourSum(relation, hidden)(hidden), expected, rtol=1e-13, atol=1e-14)


LARGE = [
    make_graph("torus", 144),
    make_graph("random_regular(degree=3)", 128),
    make_graph("complete", 128),
    graph_of_edges("star", 130, [(0, i) for i in range(1, 130)]),
]


@pytest.mark.parametrize("graph", LARGE, ids=lambda graph: graph.name)
@pytest.mark.parametrize("name", ["full", "round_robin", "clockwork", "residual", "histogram"])
def test_gathered_messages_give_autograds_gradient(graph, name):
    cell = MessagePassingCell(graph, channels=4)
    rng = np.random.default_rng(0)
    parameters = torch.as_tensor(0.3 * rng.normal(size=(2, cell.parameter_count)))
    states = torch.as_tensor(rng.normal(size=(2, 3, 4, 3)))
    controls = torch.as_tensor(rng.normal(size=(2, 3, 3, 1)))
    partitions = [strided(graph.nodes, 2), contiguous(graph.nodes, 2)]
    if coloring(graph).clusters <= 8:
        partitions.append(coloring(graph))
    for partition in partitions:
        schedule = make_schedule(name, graph, partition)
        by_hand = RolloutGradient(
            cell, schedule, (2, 3, 3), sweeps=2, relaxation=0.4, like=parameters
        )
        assert {type(span) for span in by_hand.plan.spans.values()} == {Gathered}
        loss, gradient, activity = by_hand(parameters, states, controls, [])
        leaf = parameters.clone().requires_grad_()
        found = rollout(
            cell.bind(leaf), states[:, :, 0], controls, schedule, [], sweeps=2, relaxation=0.4
        )
        expected_loss = (found.predictions - states[:, :, 1:]).square().mean(dim=(1, 2, 3))
        (expected,) = torch.autograd.grad(expected_loss.sum(), leaf)
        assert_allclose(loss, expected_loss.detach(), rtol=1e-12)
        scale = expected.abs().amax(dim=1, keepdim=True)
        assert_allclose(gradient / scale, expected / scale, rtol=0, atol=1e-12)
        for taken, choice in zip(activity, found.activity, strict=True):
            assert_array_equal(active_clusters(schedule, taken).expand_as(choice), choice)


@pytest.mark.parametrize("graph", [ring(300), make_graph("torus", 288)], ids=lambda g: g.name)
def test_a_cell_too_large_for_a_matrix_proposes_what_its_equation_says(graph):
    cell = MessagePassingCell(graph, channels=4)
    rng = np.random.default_rng(0)
    parameters = torch.as_tensor(rng.normal(size=(1, cell.parameter_count)))
    hidden = rng.normal(size=(1, 2, graph.nodes, 4))
    bound = cell.bind(parameters)
    assert bound.recurrent is None
    own, *others = cell.unflatten(parameters)["messages"][0].numpy()
    expected = hidden @ own.T
    for weights, relation in zip(others, graph.relations, strict=True):
        heard = np.stack([relation @ one for one in hidden[0]])
        expected = expected + heard @ weights.T
    proposal = bound.proposal(torch.as_tensor(hidden), torch.zeros(1, 2, graph.nodes, 4))
    assert_allclose(proposal, np.tanh(expected), rtol=1e-12, atol=1e-13)
