"""Rings, partitions and colourings, against pictures drawn by hand and brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from clusterdyn.graph import (
    PARTITIONS,
    Graph,
    Partition,
    coloring,
    contiguous,
    is_independent,
    make_partition,
    one_block,
    random_partition,
    ring,
    singletons,
    strided,
)


def graph_of_edges(nodes: int, edges: set[tuple[int, int]]) -> Graph:
    """A graph with one relation, the mean of the neighbours."""
    neighbours = tuple(
        tuple(sorted({a for a, b in edges if b == i} | {b for a, b in edges if a == i}))
        for i in range(nodes)
    )
    return Graph("by hand", neighbours, np.zeros((1, nodes, nodes)))


# The ring.


def test_neighbours_on_a_ring_of_five():
    assert ring(5).neighbours == ((1, 4), (0, 2), (1, 3), (2, 4), (0, 3))


def test_smallest_ring_is_a_triangle():
    assert ring(3).neighbours == ((1, 2), (0, 2), (0, 1))


@pytest.mark.parametrize("nodes", [3, 4, 7])
def test_relation_0_hears_the_left_neighbour_and_relation_1_the_right_one(nodes):
    hidden = np.random.default_rng(0).normal(size=nodes)
    left, right = (relation @ hidden for relation in ring(nodes).relations)
    for i in range(nodes):
        assert left[i] == hidden[i - 1]
        assert right[i] == hidden[i + 1 if i + 1 < nodes else 0]


def test_neighbour_mean_is_the_mean_of_both_sides():
    hidden = np.random.default_rng(1).normal(size=(6, 2))
    means = ring(6).neighbour_mean() @ hidden
    for i in range(6):
        assert_allclose(means[i], (hidden[i - 1] + hidden[(i + 1) % 6]) / 2, rtol=1e-14)


def test_neighbour_mean_counts_the_neighbours_of_each_node():
    star = graph_of_edges(4, {(0, 1), (0, 2), (0, 3)})
    assert_allclose(star.neighbour_mean() @ [8.0, 1.0, 2.0, 6.0], [3.0, 8.0, 8.0, 8.0])


@pytest.mark.parametrize("nodes", [-1, 0, 1, 2])
def test_a_ring_needs_three_nodes(nodes):
    with pytest.raises(ValueError, match=f"a ring needs at least 3 nodes; got nodes={nodes}"):
        ring(nodes)


# Partitions.


def test_partitions_of_eight_nodes_written_down():
    assert contiguous(8, 4).labels == (0, 0, 1, 1, 2, 2, 3, 3)
    assert contiguous(8, 2).labels == (0, 0, 0, 0, 1, 1, 1, 1)
    assert strided(8, 4).labels == (0, 1, 2, 3, 0, 1, 2, 3)
    assert strided(8, 2).labels == (0, 1, 0, 1, 0, 1, 0, 1)
    assert singletons(4).labels == (0, 1, 2, 3)
    assert one_block(4).labels == (0, 0, 0, 0)


def test_members_sizes_and_counts_of_a_partition():
    partition = Partition("by hand", (2, 0, 2, 1, 2))
    assert (partition.nodes, partition.clusters) == (5, 3)
    assert_array_equal(partition.sizes, [1, 1, 3])
    assert [partition.members(c) for c in range(3)] == [[1], [3], [0, 2, 4]]


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32))
def test_contiguous_strided_and_random_clusters_are_equal_in_size(size, clusters, seed):
    nodes = size * clusters
    for partition in (
        contiguous(nodes, clusters),
        strided(nodes, clusters),
        random_partition(nodes, clusters, seed),
    ):
        assert partition.nodes == nodes
        assert_array_equal(partition.sizes, [size] * clusters)
        members = [node for c in range(clusters) for node in partition.members(c)]
        assert sorted(members) == list(range(nodes))


def test_a_random_partition_follows_from_its_seed():
    partitions = {random_partition(12, 3, seed).labels for seed in range(20)}
    assert len(partitions) == 20
    assert random_partition(12, 3, 4) == random_partition(12, 3, 4)


def test_random_partitions_are_uniform():
    # Four nodes in two labelled pairs: 6 partitions.
    drawn = [random_partition(4, 2, seed).labels for seed in range(1200)]
    counts = [drawn.count(labels) for labels in set(itertools.permutations((0, 0, 1, 1)))]
    assert sum(counts) == 1200
    assert stats.chisquare(counts).pvalue > 0.01


# Colourings.


@pytest.mark.parametrize("nodes", range(3, 18))
def test_a_coloring_of_a_ring_is_proper_with_two_colours_if_even_and_three_if_odd(nodes):
    partition = coloring(ring(nodes))
    assert partition.clusters == (3 if nodes % 2 else 2)
    for i in range(nodes):
        assert partition.labels[i] != partition.labels[i - 1]


def test_an_even_ring_is_coloured_alternately():
    assert coloring(ring(6)).labels == (0, 1, 0, 1, 0, 1)
    assert coloring(ring(5)).labels == (0, 1, 0, 1, 2)


def test_a_complete_graph_needs_a_colour_a_node_and_a_star_two():
    complete = graph_of_edges(4, set(itertools.combinations(range(4), 2)))
    assert sorted(coloring(complete).labels) == [0, 1, 2, 3]
    star = graph_of_edges(5, {(4, 0), (4, 1), (4, 2), (4, 3)})
    assert coloring(star).labels == (0, 0, 0, 0, 1)


@settings(max_examples=50)
@given(st.integers(2, 9), st.randoms(use_true_random=False), st.floats(0, 1))
def test_a_coloring_of_any_graph_is_proper_and_needs_no_more_than_the_largest_degree_plus_one(
    nodes, random, density
):
    edges = {e for e in itertools.combinations(range(nodes), 2) if random.random() < density}
    graph = graph_of_edges(nodes, edges)
    partition = coloring(graph)
    for a, b in edges:
        assert partition.labels[a] != partition.labels[b]
    assert partition.clusters <= 1 + max(len(others) for others in graph.neighbours)
    assert all(is_independent(graph, partition.members(c)) for c in range(partition.clusters))


def test_independent_sets_of_a_ring_by_brute_force():
    graph = ring(6)
    for size in range(7):
        for nodes in itertools.combinations(range(6), size):
            touching = any((a - b) % 6 in (1, 5) for a, b in itertools.combinations(nodes, 2))
            assert is_independent(graph, nodes) == (not touching)


def test_a_partition_is_made_by_its_name():
    graph = ring(6)
    assert make_partition("contiguous", graph, 3) == contiguous(6, 3)
    assert make_partition("strided", graph, 3) == strided(6, 3)
    assert make_partition("random", graph, 3, seed=8) == random_partition(6, 3, 8)
    assert make_partition("coloring", graph, 2) == coloring(graph)
    assert {make_partition(kind, graph, 2).name for kind in PARTITIONS} == set(PARTITIONS)


# Errors.


@pytest.mark.parametrize("kind", ["contiguous", "strided", "random"])
@pytest.mark.parametrize("clusters", [3, 0, -2, 16])
def test_clusters_must_divide_the_nodes(kind, clusters):
    sentence = f"{clusters} clusters do not fit 8 nodes: clusters must divide nodes"
    with pytest.raises(ValueError, match=sentence):
        make_partition(kind, ring(8), clusters)


@pytest.mark.parametrize(("nodes", "clusters", "needed"), [(8, 4, 2), (7, 2, 3), (3, 1, 3)])
def test_a_coloring_says_how_many_clusters_the_graph_needs(nodes, clusters, needed):
    sentence = (
        f"a coloring of this ring of {nodes} nodes has {needed} clusters; "
        f"got clusters={clusters}: set clusters={needed}"
    )
    with pytest.raises(ValueError, match=sentence):
        make_partition("coloring", ring(nodes), clusters)


def test_an_unknown_partition_is_refused_with_the_known_ones():
    sentence = "partition must be one of contiguous, strided, random, coloring; got 'metis'"
    with pytest.raises(ValueError, match=sentence):
        make_partition("metis", ring(8), 4)


@pytest.mark.parametrize("labels", [(0, 2, 2), (1, 1, 2), (0, -1, 1)])
def test_labels_leave_no_cluster_empty(labels):
    with pytest.raises(ValueError, match="labels its clusters 0 to C - 1 and leaves none empty"):
        Partition("by hand", labels)
