"""The state of a cluster: how many of its nodes lie in each bin of disagreement.

Nodes of a cluster are not told apart, so that a cluster of k nodes over m bins has as many states
as there are multisets, C(k + m - 1, m - 1). A state has a number by itself, without a search: if
c_j nodes lie below edge j, then c_0 <= c_1 <= ..., the c_j + j are a strictly increasing
combination, and its rank is sum_j C(c_j + j, j + 1) (the combinatorial number system). The rank
does not depend on k: a smaller cluster's states come first in a larger one's.
"""

from itertools import combinations
from math import comb

import numpy as np
import torch
from torch import Tensor

LARGEST_STATES = 100_000  # a cluster; beyond, no learning run visits more than a few of them


def state_count(nodes: int, bins: int) -> int:
    """Histograms of ``nodes`` nodes over ``bins`` bins.

    Raises:
        ValueError: if there are too many to keep a table of.
    """
    count = comb(nodes + bins - 1, bins - 1)
    if count > LARGEST_STATES:
        raise ValueError(
            f"a cluster of {nodes} nodes has {count} histograms over {bins} bins, and a table of "
            f"values holds at most {LARGEST_STATES}; use fewer bins or more clusters"
        )
    return count


def histogram_states(nodes: int, bins: int) -> np.ndarray:
    """Every histogram in the order of its number.

    Args:
        nodes: k, of the cluster.
        bins: m.

    Returns:
        (C(k + m - 1, m - 1), m), int64: nodes in each bin, lowest bin first.

    Raises:
        ValueError: as in ``state_count``.
    """
    state_count(nodes, bins)
    chosen = sorted(combinations(range(nodes + bins - 1), bins - 1), key=lambda c: c[::-1])
    below = np.array(chosen, dtype=np.int64).reshape(len(chosen), bins - 1) - np.arange(bins - 1)
    return np.diff(below, axis=1, prepend=0, append=nodes)


def rank_table(nodes: int, bins: int) -> np.ndarray:
    """What each edge adds to a state's number.

    Args:
        nodes: of the largest cluster.
        bins: m.

    Returns:
        (m - 1, nodes + 1), int64; entry (j, c) is C(c + j, j + 1).
    """
    ranks = [[comb(c + j, j + 1) for c in range(nodes + 1)] for j in range(bins - 1)]
    return np.array(ranks, dtype=np.int64).reshape(bins - 1, nodes + 1)


def state_numbers(below: Tensor, ranks: Tensor) -> Tensor:
    """Numbers of states.

    Args:
        below: c_j, whole numbers of any type, (m - 1, S, B, C): nodes of each cluster that
            disagree by less than each edge.
        ranks: ``rank_table``, (m - 1, nodes + 1).

    Returns:
        (S, B, C), int64.
    """
    edges, length = ranks.shape
    offset = torch.arange(edges, device=below.device).view(-1, 1, 1, 1) * length
    return ranks.take(below.long() + offset).sum(dim=0)


def quantile_edges(disagreement: np.ndarray, bins: int) -> np.ndarray:
    """Bin edges of each model, such that its bins are equally full.

    Equal bins would leave the upper ones almost empty: disagreements are many and small, few and
    large. Zero is left out, since all nodes share it at the start of every rollout; it then falls
    into the lowest bin.

    Args:
        disagreement: (S, ...), not negative. What is not finite is left out.
        bins: m.

    Returns:
        (S, m - 1), float64, ascending; all zero for a model in which nothing disagrees.
    """
    levels = np.arange(1, bins) / bins
    edges = np.zeros((len(disagreement), bins - 1))
    for row, values in enumerate(disagreement):
        seen = values[np.isfinite(values) & (values > 0)]
        if seen.size:
            edges[row] = np.quantile(seen.astype(np.float64), levels)
    return edges
