"""Graphs over the nodes of the hidden state, and partitions of the nodes into clusters."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

DENSE_CHANNELS = 1024  # hidden states up to this long are mapped by one dense matrix
DENSE_DEGREE = 32  # neighbours a node from which a dense product is faster


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph, and the relations along which its nodes exchange messages.

    Attributes:
        name: what reports call it.
        neighbours: for each of the n nodes its neighbours, ascending, without repeats.
        relations: R sparse matrices (n, n), float64; given in any form that SciPy reads. A node's
            message along a relation is the sum of the hidden states that its row weights, and
            each relation has weights of its own. A ring has two, "left" and "right". No node
            hears itself or another node in two relations.
    """

    name: str
    neighbours: tuple[tuple[int, ...], ...]
    relations: tuple[csr_array, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "relations", tuple(csr_array(r) for r in self.relations))
        heard = sum((r != 0).astype(int) for r in self.relations)
        if self.relations and (heard.max() > 1 or heard.diagonal().any()):
            raise ValueError(
                f"in graph {self.name!r} a node hears itself, or another node along two "
                "relations; each pair of nodes may share one relation"
            )

    @property
    def nodes(self) -> int:
        """n, the number of nodes."""
        return len(self.neighbours)

    def neighbour_mean(self) -> csr_array:
        """(n, n), float64: the operator that maps hidden states to the mean of the neighbours'."""
        degrees = [len(others) for others in self.neighbours]
        weights = np.repeat([1.0 / degree if degree else 0.0 for degree in degrees], degrees)
        columns = np.array([other for others in self.neighbours for other in others], dtype=int)
        ends = np.concatenate([[0], np.cumsum(degrees)])
        return csr_array((weights, columns, ends), shape=(self.nodes, self.nodes))

    def closed_neighbourhood(self, nodes: np.ndarray) -> np.ndarray:
        """Some nodes and all that they hear along any relation, ascending."""
        heard = [relation[nodes].indices for relation in self.relations]
        return np.unique(np.concatenate([nodes, *heard]))


def ring(nodes: int) -> Graph:
    """A cycle in which node i hears node i - 1 (relation 0) and node i + 1 (relation 1).

    Raises:
        ValueError: if there are fewer than 3 nodes, since left and right would coincide.
    """
    if nodes < 3:
        raise ValueError(f"a ring needs at least 3 nodes; got nodes={nodes}")
    here, one = np.arange(nodes), np.ones(nodes)
    return Graph(
        name="ring",
        neighbours=tuple(
            tuple(sorted({(node - 1) % nodes, (node + 1) % nodes})) for node in range(nodes)
        ),
        relations=tuple(
            csr_array((one, (here, (here + step) % nodes)), shape=(nodes, nodes))
            for step in (-1, 1)
        ),
    )


def is_ring(graph: Graph) -> bool:
    """Whether a graph's relations are a ring's, left and right, with its nodes in order."""
    if graph.nodes < 3 or len(graph.relations) != 2:
        return False
    pairs = zip(graph.relations, ring(graph.nodes).relations, strict=True)
    return all((own != rings).nnz == 0 for own, rings in pairs)


class NeighbourSum:
    """A sparse operator over the nodes, ready to be applied to hidden states.

    Args:
        operator: (n, n), sparse.
        like: a tensor of the precision and device to work in.
    """

    def __init__(self, operator: csr_array, like: Tensor) -> None:
        nodes, edges = operator.shape[0], operator.nnz
        degrees = np.diff(operator.indptr)
        self._dense = None
        if edges > DENSE_DEGREE * nodes:
            self._dense = torch.as_tensor(operator.toarray()).to(like)
        self._sources = torch.as_tensor(operator.indices, dtype=torch.int64, device=like.device)
        self._weights = torch.as_tensor(operator.data).to(like).unsqueeze(-1)  # (edges, 1)
        self._weight = float(operator.data[0]) if len(set(operator.data)) == 1 else None
        self._degree = int(degrees[0]) if len(set(degrees)) == 1 else None
        targets = np.repeat(np.arange(nodes), degrees)
        self._targets = torch.as_tensor(targets, device=like.device)

    def __call__(self, hidden: Tensor) -> Tensor:
        """(S, B, n, d): sum of the hidden states that each row of the operator weights."""
        if self._dense is not None:
            return torch.matmul(self._dense, hidden)
        heard = hidden.index_select(2, self._sources)  # (S, B, edges, d)
        if self._weight is None:
            heard = heard * self._weights
        if self._degree == 1:
            total = heard
        elif self._degree is not None:
            total = heard.unflatten(2, (-1, self._degree)).sum(dim=3)
        else:
            total = torch.zeros_like(hidden).index_add(2, self._targets, heard)
        return total if self._weight in (None, 1.0) else total * self._weight


@dataclass(frozen=True)
class Partition:
    """Every node in exactly one cluster.

    Attributes:
        name: what reports call it.
        labels: for each node its cluster, 0 to C - 1; no cluster is empty.
    """

    name: str
    labels: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(set(self.labels)) != list(range(self.clusters)):
            raise ValueError(
                f"a partition labels its clusters 0 to C - 1 and leaves none empty; "
                f"got labels {sorted(set(self.labels))}"
            )

    @property
    def nodes(self) -> int:
        """n, the number of nodes."""
        return len(self.labels)

    @property
    def clusters(self) -> int:
        """C, the number of clusters."""
        return max(self.labels) + 1

    @property
    def sizes(self) -> np.ndarray:
        """(C,), int64: nodes a cluster."""
        return np.bincount(self.labels)

    @property
    def by_cluster(self) -> np.ndarray:
        """(n,), int64: the nodes, cluster by cluster, ascending within a cluster."""
        return np.argsort(self.labels, kind="stable")

    def members(self, cluster: int) -> list[int]:
        """The nodes of one cluster, ascending."""
        return [node for node, label in enumerate(self.labels) if label == cluster]


def _nodes_per_cluster(nodes: int, clusters: int) -> int:
    if clusters < 1 or nodes % clusters:
        raise ValueError(
            f"{clusters} clusters do not fit {nodes} nodes: clusters must divide nodes, "
            "so that every cluster is the same amount of work"
        )
    return nodes // clusters


def contiguous(nodes: int, clusters: int) -> Partition:
    """Blocks of n / C nodes that follow each other.

    Raises:
        ValueError: if ``clusters`` does not divide ``nodes``.
    """
    size = _nodes_per_cluster(nodes, clusters)
    return Partition("contiguous", tuple(node // size for node in range(nodes)))


def strided(nodes: int, clusters: int) -> Partition:
    """Node i in cluster i mod C.

    Raises:
        ValueError: if ``clusters`` does not divide ``nodes``.
    """
    _nodes_per_cluster(nodes, clusters)
    return Partition("strided", tuple(node % clusters for node in range(nodes)))


def random_partition(nodes: int, clusters: int, seed: int) -> Partition:
    """A uniformly random partition into clusters of equal size.

    Raises:
        ValueError: if ``clusters`` does not divide ``nodes``.
    """
    labels = np.array(strided(nodes, clusters).labels)
    shuffled = np.random.default_rng(seed).permutation(labels)
    return Partition("random", tuple(int(label) for label in shuffled))


def coloring(graph: Graph) -> Partition:
    """Greedy colouring: no two neighbours share a cluster, so a cluster is an independent set.

    The number of clusters follows from the graph: 2 on a ring of even length, 3 on an odd one.

    Source: Welsh and Powell 1967, in the nodes' own order.
    """
    labels: list[int] = []
    for node in range(graph.nodes):
        taken = {labels[other] for other in graph.neighbours[node] if other < node}
        labels.append(next(color for color in range(graph.nodes) if color not in taken))
    return Partition("coloring", tuple(labels))


def singletons(nodes: int) -> Partition:
    """Every node a cluster of its own."""
    return Partition("singletons", tuple(range(nodes)))


def one_block(nodes: int) -> Partition:
    """All nodes in one cluster."""
    return Partition("one block", (0,) * nodes)


PARTITIONS = ("contiguous", "strided", "random", "coloring")


def make_partition(kind: str, graph: Graph, clusters: int, *, seed: int = 0) -> Partition:
    """Builds a partition by name.

    Args:
        kind: one of ``PARTITIONS``.
        graph: whose nodes are divided.
        clusters: C. A coloring has as many as the graph needs, and ``clusters`` must say so.
        seed: of the ``random`` partition.

    Raises:
        ValueError: for an unknown kind, or clusters that do not fit.
    """
    if kind == "contiguous":
        return contiguous(graph.nodes, clusters)
    if kind == "strided":
        return strided(graph.nodes, clusters)
    if kind == "random":
        return random_partition(graph.nodes, clusters, seed)
    if kind == "coloring":
        partition = coloring(graph)
        if partition.clusters != clusters:
            raise ValueError(
                f"a coloring of this {graph.name} of {graph.nodes} nodes has "
                f"{partition.clusters} clusters; got clusters={clusters}: "
                f"set clusters={partition.clusters}"
            )
        return partition
    raise ValueError(f"partition must be one of {', '.join(PARTITIONS)}; got {kind!r}")


def is_independent(graph: Graph, nodes: Sequence[int]) -> bool:
    """Whether no two of the nodes are neighbours."""
    chosen = set(nodes)
    return all(chosen.isdisjoint(graph.neighbours[node]) for node in chosen)
