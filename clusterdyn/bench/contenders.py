"""Who trains one arm in the bench: the population trainer and the plain loop.

A contender is made where it runs, *prepares* once and then *runs* as often as it is asked. Only
the optimiser steps are timed, on every side: no drawing of data, no validation.
"""

import dataclasses
import time
from dataclasses import dataclass

import numpy as np

from clusterdyn.arms import arm_schedule, message_passing_cell
from clusterdyn.config import StudyConfig
from clusterdyn.datasets import Dataset, Trajectories
from clusterdyn.plain import train_plain
from clusterdyn.training import train_population


@dataclass(frozen=True)
class Workload:
    """Models to be trained: one for each of the datasets' seeds and the config's learning rates.

    Attributes:
        config: sizes, training and learning rates; its own seeds do not matter here.
        datasets: of each seed.
    """

    config: StudyConfig
    datasets: dict[int, Dataset]

    @property
    def pairs(self) -> list[tuple[int, float]]:
        """Seed and learning rate of each model, in the order of a population."""
        return [(seed, rate) for seed in self.datasets for rate in self.config.learning_rates]

    @property
    def steps_per_epoch(self) -> int:
        """Optimiser steps of a model in an epoch."""
        return self.config.train_trajectories // self.config.batch_size

    @property
    def steps(self) -> int:
        """Optimiser steps of a model."""
        return self.config.epochs * self.steps_per_epoch

    def share(self, parts: int) -> list["Workload"]:
        """The workload in parts of whole seeds, as even as they can be, in order."""
        shares = np.array_split(list(self.datasets), min(parts, len(self.datasets)))
        return [
            Workload(self.config, {int(seed): self.datasets[int(seed)] for seed in seeds})
            for seeds in shares
        ]

    def tiny(self) -> "Workload":
        """One seed, and two trajectories in two steps: enough to load every library."""
        seed, dataset = next(iter(self.datasets.items()))
        count = min(2, self.config.train_trajectories)
        train = Trajectories(dataset.train.states[:count], dataset.train.controls[:count])
        config = dataclasses.replace(self.config, epochs=1, batch_size=1, train_trajectories=count)
        return Workload(config, {seed: dataclasses.replace(dataset, train=train)})


@dataclass(frozen=True)
class Run:
    """One training of a workload.

    Attributes:
        seconds: of the optimiser steps.
        first_loss, last_loss: (models,), mean over the steps of the first and the last epoch.
    """

    seconds: float
    first_loss: np.ndarray
    last_loss: np.ndarray


class PopulationTraining:
    """The population trainer, all models of a workload side by side.

    Args:
        workload: what is trained.
        schedule: as text.
    """

    def __init__(self, workload: Workload, schedule: str) -> None:
        self.workload, self.schedule = workload, schedule
        self._train(workload.tiny())

    def prepare(self) -> float:
        """Trains for one epoch; returns 0, as nothing has to be compiled."""
        config = dataclasses.replace(self.workload.config, epochs=1)
        self._train(Workload(config, self.workload.datasets))
        return 0.0

    def run(self) -> Run:
        """Trains all models."""
        return self._train(self.workload)

    def _train(self, workload: Workload) -> Run:
        config = workload.config
        population = train_population(
            message_passing_cell(config),
            arm_schedule(config, self.schedule),
            workload.datasets,
            config.learning_rates,
            config.training(),
        )
        return Run(population.seconds, population.train_loss[0], population.train_loss[-1])


class PlainTraining:
    """The plain loop, over the first models of a workload.

    Args:
        workload: what is trained.
        models: how many of its models.
        schedule: as text.
    """

    def __init__(self, workload: Workload, models: int, schedule: str = "full") -> None:
        self.workload, self.models, self.schedule = workload, models, schedule
        self._train(workload.tiny(), 1)

    def prepare(self) -> float:
        """Does nothing and returns 0: nothing has to be compiled, and no buffers are kept."""
        return 0.0

    def run(self) -> Run:
        """Trains the models one after another."""
        return self._train(self.workload, self.models)

    def _train(self, workload: Workload, models: int) -> Run:
        config, per_epoch = workload.config, workload.steps_per_epoch
        cell, schedule = message_passing_cell(config), arm_schedule(config, self.schedule)
        started = time.perf_counter()
        histories = [
            train_plain(cell, schedule, workload.datasets[seed], seed, rate, config.training())[1]
            for seed, rate in workload.pairs[:models]
        ]
        seconds = time.perf_counter() - started
        losses = np.array(histories)  # (models, steps)
        return Run(seconds, losses[:, :per_epoch].mean(axis=1), losses[:, -per_epoch:].mean(axis=1))
