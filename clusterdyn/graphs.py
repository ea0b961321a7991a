"""Graphs by name: a ring, a torus, a random regular or complete one, or a file of edges.

On a ring each side has weights of its own. On every other graph a node hears one message, the
mean over its neighbours.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import networkx

from clusterdyn.graph import Graph, ring
from clusterdyn.options import Allowed, name_of, parse_options

DRAWS = 100  # of a random graph, until one is connected


def graph_of_edges(name: str, nodes: int, edges: Iterable[tuple[int, int]]) -> Graph:
    """An undirected graph with one relation, the mean over the neighbours.

    Args:
        name: what reports call it.
        nodes: n; nodes are numbered from 0.
        edges: pairs of nodes; order and repeats do not matter.

    Raises:
        ValueError: for a node out of range, an edge from a node to itself, or a graph that is not
            connected.
    """
    neighbours: list[set[int]] = [set() for _ in range(nodes)]
    for a, b in edges:
        if not (0 <= a < nodes and 0 <= b < nodes):
            raise ValueError(f"edge {a} {b} of graph {name!r} leaves the nodes 0 to {nodes - 1}")
        if a == b:
            raise ValueError(f"edge {a} {b} of graph {name!r} joins a node to itself; remove it")
        neighbours[a].add(b)
        neighbours[b].add(a)
    reached, waiting = {0}, [0]
    while waiting:
        new = neighbours[waiting.pop()] - reached
        reached |= new
        waiting += new
    if len(reached) < nodes:
        lost = min(set(range(nodes)) - reached)
        raise ValueError(
            f"graph {name!r} of {nodes} nodes is not connected: no path leads from node 0 to node "
            f"{lost}; add edges, or set nodes to the number of nodes that the edges join"
        )
    ordered = tuple(tuple(sorted(others)) for others in neighbours)
    bare = Graph(name, ordered, ())
    return Graph(name, ordered, (bare.neighbour_mean(),))


def torus(nodes: int) -> Graph:
    """A grid whose opposite sides meet, as square as its nodes allow.

    Raises:
        ValueError: if the nodes do not fill a grid of at least 3 by 3.
    """
    rows = next((r for r in range(math.isqrt(nodes), 2, -1) if nodes % r == 0), None)
    if rows is None:
        raise ValueError(
            f"a torus needs a grid of at least 3 by 3 nodes; {nodes} cannot be written as such a "
            "product: take 16, 64, 256, 1024 or another one that can"
        )
    columns = nodes // rows
    grid = networkx.grid_2d_graph(rows, columns, periodic=True)
    edges = ((a * columns + b, c * columns + d) for (a, b), (c, d) in grid.edges)
    return graph_of_edges("torus", nodes, edges)


def random_regular(nodes: int, degree: int = 4, seed: int = 0) -> Graph:
    """A uniformly drawn connected graph whose nodes all have the same number of neighbours.

    Raises:
        ValueError: if there is none of this degree.
    """
    if not 2 <= degree < nodes or nodes * degree % 2:
        raise ValueError(
            f"there is no connected random regular graph of {nodes} nodes and degree {degree}: "
            "the degree must be at least 2 and below nodes, and nodes times degree even"
        )
    for draw in range(DRAWS):
        drawn = networkx.random_regular_graph(degree, nodes, seed=seed * DRAWS + draw)
        if networkx.is_connected(drawn):
            return graph_of_edges("random regular graph", nodes, drawn.edges)
    raise ValueError(
        f"none of {DRAWS} random regular graphs of {nodes} nodes and degree {degree} was "
        "connected; take a larger degree"
    )


def complete(nodes: int) -> Graph:
    """Every node hears all others.

    Raises:
        ValueError: if there are fewer than 2 nodes.
    """
    if nodes < 2:
        raise ValueError(f"a complete graph needs at least 2 nodes; got nodes={nodes}")
    return graph_of_edges("complete graph", nodes, networkx.complete_graph(nodes).edges)


def edge_list(nodes: int, path: str, sha256: str = "") -> Graph:
    """A graph from a text file: two node numbers a line, from 0; "#" starts a comment.

    Args:
        nodes: n.
        path: of the file.
        sha256: the first digits that the hash of the file must have, if any.

    Raises:
        ValueError: for a line that is no edge, with its number, for a file that cannot be read or
            has changed, and as ``graph_of_edges``.
    """
    edges = []
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read the edges in {path!r}: {error}") from None
    for number, line in enumerate(lines, start=1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or not all(word.isdecimal() for word in words):
            raise ValueError(
                f"{path}, line {number}: an edge is two node numbers from 0; got {line.strip()!r}"
            )
        edges.append((int(words[0]), int(words[1])))
    if not edge_hash(path).startswith(sha256):
        raise ValueError(
            f"the edges in {path!r} are no longer those that this study began with (sha256 "
            f"{sha256}); start it anew without sha256"
        )
    return graph_of_edges("edge list", nodes, edges)


def edge_hash(path: str | Path) -> str:
    """SHA-256 of a file of edges, 12 hexadecimal digits."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]


@dataclass(frozen=True)
class _Entry:
    make: Callable[..., Graph]
    options: Mapping[str, Allowed] = field(default_factory=dict)


_REGISTRY = {
    "ring": _Entry(ring),
    "torus": _Entry(torus),
    "random_regular": _Entry(random_regular, {"degree": (2, 10**6), "seed": (0, 10**6)}),
    "complete": _Entry(complete),
    "edge_list": _Entry(edge_list, {"path": str, "sha256": str}),
}
GRAPHS = tuple(_REGISTRY)


def make_graph(text: str, nodes: int) -> Graph:
    """Builds a graph.

    Args:
        text: one of ``GRAPHS``, perhaps with options, as in ``random_regular(degree=4)``.
        nodes: n.

    Raises:
        ValueError: for an unknown name or option, or nodes that do not fit.
    """
    entry = _entry(text)
    options = parse_options(text, "graph", entry.options)
    if entry.make is edge_list and "path" not in options:
        raise ValueError(f"graph {text!r} needs a file of edges: edge_list(path=FILE)")
    return entry.make(nodes, **options)


def pinned_graph(text: str) -> str:
    """The text of a graph that says all that it depends on: a file by its content as well."""
    options = parse_options(text, "graph", _entry(text).options)
    if "path" in options and "sha256" not in options:
        path = Path(options["path"])
        return f"edge_list(path={path.resolve()}, sha256={edge_hash(path)})"
    return text


def _entry(text: str) -> _Entry:
    name = name_of(text)
    if name not in _REGISTRY:
        raise ValueError(f"graph must be one of {', '.join(GRAPHS)}; got {text!r}")
    return _REGISTRY[name]
