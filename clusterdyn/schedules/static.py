"""Schedules that are fixed beforehand: who moves when does not depend on the hidden state."""

import torch

from clusterdyn.graph import Partition, one_block, singletons
from clusterdyn.schedules.base import StaticSchedule

LARGEST_CLOCK = 16  # clusters


class Full(StaticSchedule):
    """All nodes at once (Jacobi): the baseline."""

    name = "full"

    def __init__(self, partition: Partition) -> None:
        super().__init__(one_block(partition.nodes), torch.ones(1, 1, dtype=torch.bool))


class RoundRobin(StaticSchedule):
    """One cluster a sweep, in turn; the turn carries over time steps."""

    name = "round_robin"

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition, torch.eye(partition.clusters, dtype=torch.bool))


class ClusterSequential(RoundRobin):
    """All clusters in each sweep, one after another (block Gauss-Seidel)."""

    name = "cluster_sequential"

    def __init__(self, partition: Partition) -> None:
        super().__init__(partition)
        self.updates_per_sweep = partition.clusters


class Sequential(ClusterSequential):
    """All nodes in each sweep, one after another (Gauss-Seidel)."""

    name = "sequential"

    def __init__(self, partition: Partition) -> None:
        super().__init__(singletons(partition.nodes))


class Clockwork(StaticSchedule):
    """Cluster c moves in every 2^c-th sweep, counted over the whole rollout.

    Raises:
        ValueError: for more than 16 clusters, the last of which would hardly ever move.

    Source: Koutnik, Greff, Gomez, Schmidhuber, A clockwork RNN, ICML 2014, with their periods.
    """

    name = "clockwork"

    def __init__(self, partition: Partition) -> None:
        if partition.clusters > LARGEST_CLOCK:
            raise ValueError(
                f"clockwork takes at most {LARGEST_CLOCK} clusters; got {partition.clusters}, the "
                f"last of which would move once in 2^{partition.clusters - 1} sweeps"
            )
        periods = 2 ** torch.arange(partition.clusters)
        sweeps = torch.arange(int(periods[-1])).unsqueeze(1)
        super().__init__(partition, sweeps % periods == 0)
