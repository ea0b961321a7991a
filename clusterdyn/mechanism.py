"""The mechanism check: how far a sequential sweep ends from a synchronous one.

With F(h) = f(h, z) - h and the update h <- h + eta F(h), one sequential minus one synchronous
sweep is, at node i,

    D_i = eta^2 sum_{j before i} J_ij F_j + O(eta^3),        J the Jacobian of F,

where "before" is the order of the updates: eta^2 times L(J) F, L the strictly lower block
triangle. (A sequential sweep is a Lie-Trotter splitting of the synchronous one; Hairer, Lubich,
Wanner, Geometric Numerical Integration, II.5.) The law holds for *any* smooth F. It validates
this implementation, and says nothing about whether an update schedule helps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from clusterdyn.graph import Graph, coloring
from clusterdyn.model import BoundCell, MessagePassingCell
from clusterdyn.stats import paired_t_interval
from clusterdyn.sweeps import relax

Blocks = Sequence[Sequence[int]]

# Ratio 2 down to 0.01, from the smallest: the local slopes then approach the limit.
RELAXATIONS = tuple(0.01 * 2**k for k in range(6))
REFERENCE_RELAXATIONS = (0.2, 0.4, 0.6, 0.8)
SWEEP_COUNTS = 4
TIME_SPAN = 1.28  # K eta of the fixed-horizon control


def sequential_sweep(
    cell: BoundCell, hidden: Tensor, drive: Tensor, blocks: Blocks, relaxation: float
) -> Tensor:
    """One sweep over blocks of nodes, one block after another.

    Args:
        cell: with the weights of S models.
        hidden: h, (S, B, n, d).
        drive: z, (S, B, n, d).
        blocks: node indices in update order; nodes of one block move at once.
        relaxation: eta.

    Returns:
        h after the sweep, (S, B, n, d).
    """
    for block in blocks:
        active = torch.zeros(hidden.shape[2], 1, dtype=torch.bool, device=hidden.device)
        active[list(block)] = True
        hidden = relax(hidden, cell.proposal(hidden, drive), active, relaxation)
    return hidden


def discrepancy(
    cell: BoundCell,
    hidden: Tensor,
    drive: Tensor,
    blocks: Blocks,
    relaxation: float,
    *,
    sweeps: int = 1,
) -> Tensor:
    """D, (S, B, n, d): sequential minus synchronous state after some sweeps from the same h.

    Args:
        cell, hidden, drive, blocks, relaxation: as in ``sequential_sweep``.
        sweeps: of each kind.
    """
    everything = [range(hidden.shape[2])]
    sequential = synchronous = hidden
    for _ in range(sweeps):
        sequential = sequential_sweep(cell, sequential, drive, blocks, relaxation)
        synchronous = sequential_sweep(cell, synchronous, drive, everything, relaxation)
    return sequential - synchronous


def predicted_coefficient(cell: BoundCell, hidden: Tensor, drive: Tensor, blocks: Blocks) -> Tensor:
    """L(J) F, (S, B, n, d): the limit of D / eta^2 as eta goes to 0.

    One Jacobian-vector product a block: the tangent is F on the nodes updated earlier, and the
    result is read on the block's own nodes.

    Args:
        cell, hidden, drive, blocks: as in ``sequential_sweep``.
    """

    def increment(state: Tensor) -> Tensor:
        return cell.proposal(state, drive) - state

    force = increment(hidden)
    coefficient = torch.zeros_like(hidden)
    earlier = torch.zeros_like(hidden)
    for block in blocks:
        nodes = list(block)
        _, change = torch.func.jvp(increment, (hidden,), (earlier,))
        coefficient[:, :, nodes] = change[:, :, nodes]
        earlier[:, :, nodes] = force[:, :, nodes]
    return coefficient


def independent_set_control(
    cell: BoundCell, hidden: Tensor, drive: Tensor, graph: Graph, relaxation: float
) -> Tensor:
    """(S,): largest difference that must be exactly 0.

    On a coloring, nodes of one cluster do not hear each other, so it makes no difference whether
    they move at once or one after another.
    """
    partition = coloring(graph)
    clusters = [partition.members(c) for c in range(partition.clusters)]
    nodes = [[node] for cluster in clusters for node in cluster]
    at_once = sequential_sweep(cell, hidden, drive, clusters, relaxation)
    in_turn = sequential_sweep(cell, hidden, drive, nodes, relaxation)
    return largest(at_once - in_turn)


def largest(values: Tensor) -> Tensor:
    """(S,): the L-infinity norm of each model's values (S, ...)."""
    return values.abs().flatten(1).amax(dim=1)


def log_log_slope(relaxations: Sequence[float], sizes: np.ndarray) -> np.ndarray:
    """Least-squares slope of log size against log eta.

    Args:
        relaxations: E values of eta.
        sizes: (E, ...), positive.

    Returns:
        (...), the order of convergence.
    """
    x = np.log(relaxations)
    x = x - x.mean()
    return np.tensordot(x, np.log(sizes), axes=1) / (x @ x)


def _checked_sizes(sizes: Iterable[Tensor], place: str) -> np.ndarray:
    """Sizes (E, S), each with a logarithm, or a ValueError that says where one has none."""
    sizes = torch.stack(list(sizes)).cpu().numpy()
    flawed = np.flatnonzero(~(np.isfinite(sizes) & (sizes > 0)).all(axis=0))
    if flawed.size:
        raise ValueError(
            f"the mechanism check finds no slope for {place}: sequential and synchronous sweeps "
            f"differ by 0 or by infinity in the models at positions {', '.join(map(str, flawed))} "
            "(from 0), as with weights so large that every node saturates; use smaller learning "
            "rates"
        )
    return sizes


@dataclass(frozen=True)
class EtaSquareLaw:
    """The law on S models, at one state and for one kind of block, in float64.

    Attributes:
        unit: "nodes" or "clusters": what moves one after another.
        state: "start" (h = 0) or "trajectory" (h after the first time step).
        relaxations: (E,), ascending, ratio 2.
        size: (E, S), the largest |D| over trajectories, nodes and channels.
        predicted_size: (S,), the largest |L(J) F|.
        coefficient_error: (E, S), largest |D / eta^2 - L(J) F| relative to ``predicted_size``.
        richardson_error: (E - 1, S), the same for 2 R(eta / 2) - R(eta), R = D / eta^2, at the
            smaller eta of each pair.
        slope: (S,), log-log slope over all relaxations.
        slope_low, slope_high: 90 % t interval of the mean slope over models.
        first_block: (S,), the largest |D| in the block that moves first; 0 by construction.
        measured, predicted: (n, d), D / eta^2 at the smallest eta and L(J) F, of the first model
            and trajectory.
        block_of_node: (n,), int64.
    """

    unit: str
    state: str
    relaxations: np.ndarray
    size: np.ndarray
    predicted_size: np.ndarray
    coefficient_error: np.ndarray
    richardson_error: np.ndarray
    slope: np.ndarray
    slope_low: float
    slope_high: float
    first_block: np.ndarray
    measured: np.ndarray
    predicted: np.ndarray
    block_of_node: np.ndarray


@dataclass(frozen=True)
class ReferenceView:
    """What the published trial looked at: float32, large eta, the largest |D|.

    Attributes:
        unit, state: as in ``EtaSquareLaw``.
        relaxations: (E,).
        size: (E, S), largest |D|.
        slope: (S,), log-log slope.
    """

    unit: str
    state: str
    relaxations: np.ndarray
    size: np.ndarray
    slope: np.ndarray


@dataclass(frozen=True)
class OrderControl:
    """Order of D in eta after several sweeps, node by node, from h = 0.

    Attributes:
        relaxations: (E,).
        fixed_sweeps: (E, S), largest |D| after the same number of sweeps: order 2 as eta falls.
        fixed_span: (E, S), largest |D| after K = span / eta sweeps: order 1 as eta falls.
        fixed_sweeps_slope, fixed_span_slope: (S,), between the two smallest eta.
    """

    relaxations: np.ndarray
    fixed_sweeps: np.ndarray
    fixed_span: np.ndarray
    fixed_sweeps_slope: np.ndarray
    fixed_span_slope: np.ndarray


@dataclass(frozen=True)
class MechanismCheck:
    """All of the check for the trained models of one arm.

    Attributes:
        seeds: (S,), of the models.
        laws: nodes and clusters, each at both states.
        reference_views: the same four in the reference's way.
        order: the control over several sweeps.
        independent_sets: (S,), the coloring control; must be exactly 0.
    """

    seeds: np.ndarray
    laws: tuple[EtaSquareLaw, ...]
    reference_views: tuple[ReferenceView, ...]
    order: OrderControl
    independent_sets: np.ndarray


def check_law(
    cell: BoundCell, hidden: Tensor, drive: Tensor, blocks: Blocks, *, unit: str, state: str
) -> EtaSquareLaw:
    """Measures the eta^2 law at one state; arguments as in ``sequential_sweep``, float64.

    Raises:
        ValueError: if a discrepancy is 0 or not finite, so that there is no slope.
    """
    predicted = predicted_coefficient(cell, hidden, drive, blocks)
    scale = largest(predicted)
    block_of_node = np.empty(hidden.shape[2], dtype=np.int64)
    for number, block in enumerate(blocks):
        block_of_node[list(block)] = number
    first = torch.zeros(hidden.shape[0], dtype=hidden.dtype, device=hidden.device)
    ratios, sizes = [], []
    for relaxation in RELAXATIONS:
        difference = discrepancy(cell, hidden, drive, blocks, relaxation)
        sizes.append(largest(difference))
        first = torch.maximum(first, largest(difference[:, :, list(blocks[0])]))
        ratios.append(difference / relaxation**2)
    errors = [largest(ratio - predicted) / scale for ratio in ratios]
    extrapolated = [
        largest(2 * fine - coarse - predicted) / scale for fine, coarse in pairwise(ratios)
    ]
    size = _checked_sizes(sizes, f"{unit} in turn, {state}")
    slope = log_log_slope(RELAXATIONS, size)
    interval = paired_t_interval(slope, confidence_level=0.9)
    return EtaSquareLaw(
        unit=unit,
        state=state,
        relaxations=np.array(RELAXATIONS),
        size=size,
        predicted_size=scale.cpu().numpy(),
        coefficient_error=torch.stack(errors).cpu().numpy(),
        richardson_error=torch.stack(extrapolated).cpu().numpy(),
        slope=slope,
        slope_low=interval.low,
        slope_high=interval.high,
        first_block=first.cpu().numpy(),
        measured=ratios[0][0, 0].cpu().numpy(),
        predicted=predicted[0, 0].cpu().numpy(),
        block_of_node=block_of_node,
    )


def check_order(cell: BoundCell, hidden: Tensor, drive: Tensor, blocks: Blocks) -> OrderControl:
    """Measures the order over several sweeps; arguments and errors as in ``check_law``."""
    relaxations = RELAXATIONS[:4]

    def sizes(sweeps: Sequence[int]) -> np.ndarray:
        differences = (
            discrepancy(cell, hidden, drive, blocks, r, sweeps=count)
            for r, count in zip(relaxations, sweeps, strict=True)
        )
        return _checked_sizes(map(largest, differences), "several sweeps")

    fixed_sweeps = sizes([SWEEP_COUNTS] * len(relaxations))
    fixed_span = sizes([round(TIME_SPAN / r) for r in relaxations])
    return OrderControl(
        relaxations=np.array(relaxations),
        fixed_sweeps=fixed_sweeps,
        fixed_span=fixed_span,
        fixed_sweeps_slope=np.log2(fixed_sweeps[1] / fixed_sweeps[0]),
        fixed_span_slope=np.log2(fixed_span[1] / fixed_span[0]),
    )


def _reference_view(
    cell: BoundCell, hidden: Tensor, drive: Tensor, blocks: Blocks, unit: str, state: str
) -> ReferenceView:
    differences = (discrepancy(cell, hidden, drive, blocks, r) for r in REFERENCE_RELAXATIONS)
    size = _checked_sizes(map(largest, differences), f"{unit} in turn, {state}, float32")
    slope = log_log_slope(REFERENCE_RELAXATIONS, size)
    return ReferenceView(unit, state, np.array(REFERENCE_RELAXATIONS), size, slope)


def check_mechanism(
    cell: MessagePassingCell,
    parameters: np.ndarray,
    seeds: np.ndarray,
    clusters: Blocks,
    states: np.ndarray,
    controls: np.ndarray,
    *,
    sweeps: int,
    relaxation: float,
) -> MechanismCheck:
    """Runs the whole check on trained models.

    Args:
        cell: the cell.
        parameters: (S, P), of trained models.
        seeds: (S,).
        clusters: node indices a cluster, in update order.
        states: (S, B, 2 or more, p), standardised; the first two instants are used.
        controls: (S, B, 2 or more, q), standardised.
        sweeps, relaxation: of the full sweeps that lead to the trajectory state.

    Raises:
        ValueError: if a discrepancy is 0 or not finite, so that there is no slope.
    """
    nodes = [[node] for node in range(cell.graph.nodes)]
    units = (("nodes", nodes), ("clusters", clusters))
    laws, views = [], []
    for dtype in (torch.float64, torch.float32):
        bound = cell.bind(torch.as_tensor(parameters, dtype=dtype))
        x, u = torch.as_tensor(states, dtype=dtype), torch.as_tensor(controls, dtype=dtype)
        start = bound.start(x.shape[1])
        first_drive = bound.drive(x[:, :, 0], u[:, :, 0])
        later = start
        for _ in range(sweeps):
            later = sequential_sweep(
                bound, later, first_drive, [range(cell.graph.nodes)], relaxation
            )
        next_drive = bound.drive(bound.readout(later), u[:, :, 1])
        points = (("start", start, first_drive), ("trajectory", later, next_drive))
        for unit, blocks in units:
            for state, hidden, drive in points:
                if dtype == torch.float64:
                    laws.append(check_law(bound, hidden, drive, blocks, unit=unit, state=state))
                else:
                    views.append(_reference_view(bound, hidden, drive, blocks, unit, state))
        if dtype == torch.float64:
            order = check_order(bound, start, first_drive, nodes)
            independent = independent_set_control(bound, later, next_drive, cell.graph, relaxation)
    return MechanismCheck(
        seeds=np.asarray(seeds),
        laws=tuple(laws),
        reference_views=tuple(views),
        order=order,
        independent_sets=independent.numpy(),
    )
