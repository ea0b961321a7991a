"""What a config means: the cell, the partition, the data, and the training of an arm."""

from collections.abc import Callable, Mapping

from clusterdyn.config import StudyConfig
from clusterdyn.datasets import Dataset, pendulum_dataset
from clusterdyn.graph import Partition, make_partition, ring
from clusterdyn.model import MessagePassingCell
from clusterdyn.schedules import Schedule, make_schedule
from clusterdyn.threads import torch_threads
from clusterdyn.training import TrainedPopulation, train_population


def message_passing_cell(config: StudyConfig) -> MessagePassingCell:
    """The cell of all arms."""
    return MessagePassingCell(ring(config.nodes), config.channels)


def study_partition(config: StudyConfig) -> Partition:
    """The partition of the nodes into clusters."""
    graph = ring(config.nodes)
    return make_partition(config.partition, graph, config.clusters, seed=config.partition_seed)


def arm_schedule(config: StudyConfig, name: str) -> Schedule:
    """The schedule of an arm."""
    return make_schedule(
        name,
        ring(config.nodes),
        study_partition(config),
        bins=config.bins,
        relaxation=config.relaxation,
    )


def study_dataset(config: StudyConfig, seed: int) -> Dataset:
    """The data of one seed."""
    return pendulum_dataset(
        seed,
        train=config.train_trajectories,
        validation=config.validation_trajectories,
        test=config.test_trajectories,
        horizon=config.horizon,
    )


def train_arm(
    config: StudyConfig,
    name: str,
    datasets: Mapping[int, Dataset],
    *,
    progress: Callable[[str], None] | None = None,
) -> TrainedPopulation:
    """Trains an arm: every seed of the data at every learning rate of the config.

    Args:
        config: the settings.
        name: of the arm's schedule.
        datasets: a dataset for each seed.
        progress: called with one line now and then.
    """
    with torch_threads(1):
        return train_population(
            message_passing_cell(config),
            arm_schedule(config, name),
            datasets,
            config.learning_rates,
            config.training(),
            progress=progress,
        )
