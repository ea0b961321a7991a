"""What a config means: the cell, the partition, the data, and the training of an arm."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from clusterdyn.artifacts import Stage
from clusterdyn.config import StudyConfig, schedule_sources
from clusterdyn.datasets import CONTROL_CHANNELS, STATE_CHANNELS, Dataset, pendulum_dataset
from clusterdyn.graph import Graph, Partition, make_partition, one_block
from clusterdyn.graphs import make_graph
from clusterdyn.gru import GRUCell
from clusterdyn.model import MessagePassingCell
from clusterdyn.populations import TrainedPopulation, join_populations
from clusterdyn.recordings import recorded_dataset, recording_of
from clusterdyn.schedules import Full, Schedule, make_schedule
from clusterdyn.schedules.own import only_here
from clusterdyn.threads import torch_threads
from clusterdyn.training import Cell, train_population

CELLS = ("message_passing", "gru", "gru_units")

# Models that are trained as one population at most. More are no faster a model, and their data
# would no longer be kept between arms (see ``study_dataset``).
MODELS_PER_CHUNK = 256


def study_graph(config: StudyConfig) -> Graph:
    """The graph over the nodes; kept, since every arm of a process needs the same."""
    return _graph(config.graph, config.nodes)


@lru_cache(maxsize=64)
def _graph(text: str, nodes: int) -> Graph:
    return make_graph(text, nodes)


def data_sizes(config: StudyConfig) -> dict[str, int]:
    """Channels of the states and of the controls, as cells take them."""
    recording = recording_of(config.data)
    names = (STATE_CHANNELS, CONTROL_CHANNELS)
    if recording is not None:
        names = (recording.state_names, recording.control_names)
    return {"state_size": len(names[0]), "control_size": len(names[1])}


def message_passing_cell(config: StudyConfig) -> MessagePassingCell:
    """The cell of all arms."""
    return MessagePassingCell(study_graph(config), config.channels, **data_sizes(config))


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
    count = message_passing_cell(config).parameter_count
    return GRUCell.with_parameters(count, **data_sizes(config))


def gru_units(config: StudyConfig) -> dict[str, object]:
    """What a GRU driven unit by unit changes of the settings: each unit a node that hears all.

    With the full sweep it is ``torch.nn.GRU``. Of the numbers of units that the clusters divide
    it has the one whose number of parameters is closest to the message-passing cell's.
    """
    count = message_passing_cell(config).parameter_count
    cell = GRUCell.with_parameters(count, multiple=config.clusters, **data_sizes(config))
    units = cell.units
    return {"nodes": units, "graph": "complete", "sweeps": 1, "relaxation": 1.0}


def study_dataset(config: StudyConfig, seed: int) -> Dataset:
    """The data of one seed; kept, since every arm of a process needs the same."""
    sizes = (config.train_trajectories, config.validation_trajectories, config.test_trajectories)
    return _dataset(config.data, seed, *sizes, config.horizon)


@lru_cache(maxsize=256)
def _dataset(data: str, seed: int, train: int, validation: int, test: int, horizon: int) -> Dataset:
    sizes = {"train": train, "validation": validation, "test": test, "horizon": horizon}
    recording = recording_of(data)
    if recording is None:
        return pendulum_dataset(seed, **sizes)
    return recorded_dataset(recording, seed, **sizes)


@dataclass(frozen=True)
class TrainingRun:
    """One population: an arm's models, every seed of the config at every learning rate.

    Attributes:
        config: the settings.
        schedule: the arm's, as text.
        cell: one of ``CELLS``. "gru" is the yardstick, a GRU with about as many parameters as the
            message-passing cell, which only ``full`` can drive. "gru_units" is a GRU whose units
            are the config's nodes, driven by any schedule.
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
    def only_here(self) -> bool:
        """Whether this process alone knows the schedule, which a notebook cell defines."""
        return only_here(self.schedule)

    @property
    def updates(self) -> int:
        """Updates that each model trains through, of any number of nodes."""
        config = self.config
        per_sweep = self.build()[1].updates_per_sweep
        steps = config.epochs * (config.train_trajectories // config.batch_size)
        return steps * config.horizon * config.sweeps * per_sweep

    def build(self) -> tuple[Cell, Schedule]:
        """The cell, and the schedule that drives it."""
        if self.cell == "gru":
            cell = gru_cell(self.config)
            return cell, Full(one_block(cell.units))
        schedule = arm_schedule(self.config, self.schedule)
        if self.cell == "gru_units":
            return GRUCell(self.config.nodes, **data_sizes(self.config)), schedule
        return message_passing_cell(self.config), schedule

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
            config={
                "schedule": self.schedule,
                "cell": self.cell,
                **settings,
                **schedule_sources(self.schedule),
            },
        )

    def train(self, progress: Callable[[str], None] | None = None) -> TrainedPopulation:
        """Trains it in one thread; ``progress`` is called with one line now and then."""
        if len(self.chunks) > 1:
            return join_populations([chunk.train(progress) for chunk in self.chunks])
        config = self.config
        cell, schedule = self.build()
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
