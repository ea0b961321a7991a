"""What a config means: the cell, the partition, the data, and the training of an arm."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from clusterdyn.artifacts import Stage
from clusterdyn.config import StudyConfig
from clusterdyn.datasets import Dataset, pendulum_dataset
from clusterdyn.graph import Graph, Partition, make_partition, one_block
from clusterdyn.graphs import make_graph
from clusterdyn.gru import GRUCell
from clusterdyn.model import MessagePassingCell
from clusterdyn.populations import TrainedPopulation, join_populations
from clusterdyn.schedules import Full, Schedule, make_schedule
from clusterdyn.threads import torch_threads
from clusterdyn.training import train_population

# Models that are trained as one population at most. More are no faster a model, and their data
# would no longer be kept between arms (see ``study_dataset``).
MODELS_PER_CHUNK = 256


def study_graph(config: StudyConfig) -> Graph:
    """The graph over the nodes; kept, since every arm of a process needs the same."""
    return _graph(config.graph, config.nodes)


@lru_cache(maxsize=64)
def _graph(text: str, nodes: int) -> Graph:
    return make_graph(text, nodes)


def message_passing_cell(config: StudyConfig) -> MessagePassingCell:
    """The cell of all arms."""
    return MessagePassingCell(study_graph(config), config.channels)


def study_partition(config: StudyConfig) -> Partition:
    """The partition of the nodes into clusters."""
    graph = study_graph(config)
    return make_partition(config.partition, graph, config.clusters, seed=config.partition_seed)


def arm_schedule(config: StudyConfig, name: str) -> Schedule:
    """The schedule of an arm."""
    return make_schedule(
        name,
        study_graph(config),
        study_partition(config),
        bins=config.bins,
        relaxation=config.relaxation,
    )


def gru_cell(config: StudyConfig) -> GRUCell:
    """The GRU whose number of parameters is closest to the message-passing cell's."""
    return GRUCell.with_parameters(message_passing_cell(config).parameter_count)


def study_dataset(config: StudyConfig, seed: int) -> Dataset:
    """The data of one seed; kept, since every arm of a process needs the same."""
    sizes = (config.train_trajectories, config.validation_trajectories, config.test_trajectories)
    return _dataset(seed, *sizes, config.horizon)


@lru_cache(maxsize=256)
def _dataset(seed: int, train: int, validation: int, test: int, horizon: int) -> Dataset:
    return pendulum_dataset(seed, train=train, validation=validation, test=test, horizon=horizon)


@dataclass(frozen=True)
class TrainingRun:
    """One population: an arm's models, every seed of the config at every learning rate.

    Attributes:
        config: the settings.
        schedule: the arm's, as text.
        cell: "message_passing", or "gru", which only ``full`` can drive.
    """

    config: StudyConfig
    schedule: str
    cell: str = "message_passing"

    result_type: ClassVar[type] = TrainedPopulation

    @property
    def models(self) -> int:
        """S, how many models are trained."""
        return len(self.config.seeds) * len(self.config.learning_rates)

    @property
    def updates(self) -> int:
        """Updates that each model trains through, of any number of nodes."""
        config = self.config
        per_sweep = 1
        if self.cell == "message_passing":
            per_sweep = arm_schedule(config, self.schedule).updates_per_sweep
        steps = config.epochs * (config.train_trajectories // config.batch_size)
        return steps * config.horizon * config.sweeps * per_sweep

    @property
    def chunks(self) -> tuple["TrainingRun", ...]:
        """The run in pieces that can be trained apart: consecutive seeds, at every rate.

        How a run is cut depends on the run alone, never on who trains it. Rows of a population
        do not mix, but a product of matrices may round otherwise when there are more of them; so
        equal chunks are what makes results equal to the bit, wherever they are computed. A run of
        up to ``MODELS_PER_CHUNK`` models is its own and only chunk.
        """
        seeds = self.config.seeds
        length = max(2, MODELS_PER_CHUNK // len(self.config.learning_rates))
        starts = list(range(0, len(seeds), length))
        if len(seeds) - starts[-1] < 2:  # a config needs two seeds; the last one goes along
            starts.pop()
        if len(starts) < 2:
            return (self,)
        return tuple(
            replace(self, config=replace(self.config, seeds=seeds[start:end]))
            for start, end in zip(starts, [*starts[1:], None], strict=True)
        )

    @property
    def stage(self) -> Stage:
        """What the result depends on."""
        settings = {k: v for k, v in vars(self.config).items() if k not in _NOT_IN_TRAINING}
        return Stage(
            name=f"train-{self.schedule}",
            module="clusterdyn.arms",
            config={"schedule": self.schedule, "cell": self.cell, **settings},
        )

    def train(self, progress: Callable[[str], None] | None = None) -> TrainedPopulation:
        """Trains it in one thread; ``progress`` is called with one line now and then."""
        if len(self.chunks) > 1:
            return join_populations([chunk.train(progress) for chunk in self.chunks])
        config = self.config
        if self.cell == "gru":
            cell = gru_cell(config)
            schedule = Full(one_block(cell.units))
        else:
            cell, schedule = message_passing_cell(config), arm_schedule(config, self.schedule)
        datasets = {seed: study_dataset(config, seed) for seed in config.seeds}
        with torch_threads(1):
            return train_population(
                cell,
                schedule,
                datasets,
                config.learning_rates,
                config.training(),
                progress=progress,
            )


_NOT_IN_TRAINING = ("baseline", "schedule", "baseline_grid_seeds")
