"""Tables of values: one step of Q-learning, and the choice that a table makes.

A table holds Q(c, x) for each model, cluster c and state x of that cluster. S models, B
trajectories, C clusters, X states.
"""

import torch
from torch import Tensor


def values_at(values: Tensor, states: Tensor) -> Tensor:
    """Q of every cluster at its own state, (S, B, C).

    Args:
        values: (S, C, X).
        states: (S, B, C), int64.
    """
    return values.mT.gather(1, states)


def best_value(values: Tensor, states: Tensor, allowed: Tensor | None = None) -> Tensor:
    """max over clusters of Q, each at its own state: what an update bootstraps on, (S, B).

    Args:
        values: (S, C, X).
        states: (S, B, C), int64.
        allowed: bool, (S, B, C): clusters that may be chosen; all by default.
    """
    found = values_at(values, states)
    if allowed is not None:
        found = found.masked_fill(~allowed, -torch.inf)
    return found.amax(dim=-1)


def learn(
    values: Tensor, action: Tensor, states: Tensor, target: Tensor, *, step_size: float
) -> Tensor:
    """One step of Q-learning for all trajectories at once, in place.

    Q(c, x) <- (1 - alpha) Q(c, x) + alpha y for the chosen cluster c, its state x and the target
    y = r + gamma max Q'. Of k trajectories that meet in one entry, all targets come from the table
    as it was, and the entry moves as in k such steps one after another, each towards their mean:

    Q <- (1 - alpha)^k Q + (1 - (1 - alpha)^k) mean(y).

    One trajectory is the textbook's step; k equal targets are k of its steps; and the order of the
    trajectories does not matter.

    Args:
        values: (S, C, X), float64, changed in place.
        action: c, (S, B), int64.
        states: of all clusters, (S, B, C), int64.
        target: y, (S, B). One that is not finite counts as no visit.
        step_size: alpha in [0, 1].

    Returns:
        k, visits of each entry, (S, C, X), float64.
    """
    population, clusters, count = values.shape
    own = states.gather(-1, action.unsqueeze(-1)).squeeze(-1)  # (S, B)
    entry = action * count + own
    valid = target.isfinite()
    target = torch.where(valid, target, 0.0).to(values)
    visits, total = torch.zeros(2, population, clusters * count, dtype=values.dtype).to(values)
    visits.scatter_add_(1, entry, valid.to(values))
    total.scatter_add_(1, entry, target)
    visits, total = visits.view_as(values), total.view_as(values)
    mean = total / visits.clamp(min=1)
    step = 1 - (1 - step_size) ** visits
    values.copy_(torch.where(visits > 0, torch.lerp(values, mean, step), values))
    return visits


def choose(
    values: Tensor, draws: Tensor, *, exploration: float, allowed: Tensor | None = None
) -> Tensor:
    """Epsilon-greedy choice of a cluster; ties are broken at random.

    Args:
        values: Q of every cluster at its own state, (S, B, C).
        draws: uniform over [0, 1), (S, B, C + 1): one a cluster to rank equals, and a last one.
        exploration: epsilon, the probability of a uniformly random choice.
        allowed: bool, (S, B, C): clusters that may be chosen; all by default.

    Returns:
        Clusters, (S, B), int64.
    """
    explores = draws[..., -1:] < exploration
    scores = torch.where(explores, 0.0, values)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    best = scores == scores.amax(dim=-1, keepdim=True)
    return (best * (1 + draws[..., :-1])).argmax(dim=-1)
