"""Settings of the cost measurements, beside those of the study."""

import math
from dataclasses import dataclass, replace

from clusterdyn.config import StudyConfig
from clusterdyn.settings import check_positive, check_types

PEERS = ("plain", "plain+jax")

_GRIDS = (
    "sweep_populations",
    "scaling_populations",
    "scaling_nodes",
    "scaling_horizons",
    "scaling_batch_sizes",
    "scaling_sweeps",
    "chunk_models",
    "wall_clock_nodes",
    "wall_clock_batch_sizes",
)
_COUNTS = (
    "cost_repeats",
    "plain_models",
    "long_horizon",
    "long_batch_size",
    "long_epochs",
    "sweep_cluster_nodes",
    "scaling_population",
    "scaling_seconds",
    "chunk_population",
    "wall_clock_seconds",
)


@dataclass(frozen=True)
class CostConfig:
    """What is timed, how often, and at which sizes; the defaults are ``full``.

    Attributes:
        cost_repeats: how often everything is timed, in turn.
        cost_peers: what the trainer is timed against: ``plain``, the plain loop alone, or
            ``plain+jax``, JAX as well where it is installed.
        plain_models: models that the plain loop trains a repeat; its time for all of them scales
            with their number.
        long_horizon, long_batch_size, long_epochs: T, B and epochs of the longer setting.
        sweep_cluster_nodes: nodes of a cluster in the ring whose single sweeps are timed, which
            has the study's number of clusters.
        sweep_populations: S at which they are.
        scaling_population: S of the setting that the grids below go through, one at a time; its
            other sizes are the study's.
        scaling_populations, scaling_nodes, scaling_horizons, scaling_batch_sizes, scaling_sweeps:
            the grids of S, n, T, B and K, ascending.
        scaling_seconds: the least time, in s, of a block of optimiser steps that is timed.
        chunk_population: S of the population that is trained in chunks.
        chunk_models: how many of its models fit into the memory that it is given, ascending; all
            of them come on top.
        wall_clock_nodes, wall_clock_batch_sizes: n and B at which a time step of every schedule is
            timed, ascending.
        wall_clock_seconds: the least time, in s, of a block of them.
    """

    cost_repeats: int = 3
    cost_peers: str = "plain+jax"
    plain_models: int = 1
    long_horizon: int = 20
    long_batch_size: int = 32
    long_epochs: int = 1
    sweep_cluster_nodes: int = 64
    sweep_populations: tuple[int, ...] = (8, 16, 64)
    scaling_population: int = 4
    scaling_populations: tuple[int, ...] = tuple(2**power for power in range(11))
    scaling_nodes: tuple[int, ...] = tuple(2**power for power in range(4, 15))
    scaling_horizons: tuple[int, ...] = tuple(2**power for power in range(7))
    scaling_batch_sizes: tuple[int, ...] = tuple(5 * 2**power for power in range(8))
    scaling_sweeps: tuple[int, ...] = tuple(2**power for power in range(7))
    scaling_seconds: float = 0.05
    chunk_population: int = 64
    chunk_models: tuple[int, ...] = (1, 4, 16)
    wall_clock_nodes: tuple[int, ...] = (16, 256, 4096)
    wall_clock_batch_sizes: tuple[int, ...] = (20, 400)
    wall_clock_seconds: float = 0.02

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(self, _COUNTS + _GRIDS)
        if self.cost_peers not in PEERS:
            raise ValueError(f"cost_peers must be {' or '.join(PEERS)}; got {self.cost_peers!r}")
        for name in _GRIDS:
            grid = getattr(self, name)
            if list(grid) != sorted(set(grid)):
                raise ValueError(f"{name} must ascend; got {list(grid)}")
        if min(self.scaling_nodes) < 3:
            raise ValueError(
                f"scaling_nodes must be at least 3, as a ring needs; got {list(self.scaling_nodes)}"
            )
        for name in ("long_horizon", "sweep_cluster_nodes"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} must be at least 2; got {getattr(self, name)}")

    @property
    def with_jax(self) -> bool:
        """Whether JAX is asked for."""
        return self.cost_peers == "plain+jax"

    def longer(self, config: StudyConfig) -> StudyConfig:
        """The study at the longer setting."""
        return replace(
            config,
            horizon=self.long_horizon,
            batch_size=self.long_batch_size,
            epochs=self.long_epochs,
            train_trajectories=max(config.train_trajectories, self.long_batch_size),
        )

    def on_a_ring(self, config: StudyConfig) -> StudyConfig:
        """The study on a ring in contiguous clusters, which is what is timed of any graph.

        A number of nodes that the clusters do not divide is rounded up.
        """
        nodes = config.clusters * math.ceil(max(config.nodes, 3) / config.clusters)
        return replace(config, graph="ring", partition="contiguous", nodes=nodes)

    def single_sweeps(self, config: StudyConfig) -> StudyConfig:
        """The study on the ring whose single sweeps are timed."""
        nodes = config.clusters * self.sweep_cluster_nodes
        return replace(self.on_a_ring(config), nodes=nodes)
