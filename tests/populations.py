"""Small training runs, what makes two of them equal, and a store that can be watched."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from numpy.testing import assert_array_equal

from clusterdyn.arms import TrainingRun
from clusterdyn.artifacts import ArtifactStore
from clusterdyn.config import StudyConfig
from clusterdyn.profiles import study_config
from clusterdyn.training import TrainedPopulation

SMALL = {
    "nodes": 8,
    "channels": 2,
    "train_trajectories": 40,
    "validation_trajectories": 6,
    "test_trajectories": 6,
    "batch_size": 10,
    "epochs": 2,
    "learning_rates": (0.003, 0.01),
    "seeds": (0, 1, 2),
}
SCHEDULES = ("full", "round_robin", "random", "histogram")


def small_config(**changes) -> StudyConfig:
    return study_config("quick", {**SMALL, **changes})


def small_runs(**changes) -> list[TrainingRun]:
    """Eight runs."""
    return [
        TrainingRun(small_config(seeds=(seed, seed + 1), **changes), schedule)
        for seed in (0, 2)
        for schedule in SCHEDULES
    ]


def assert_same_bits(one: TrainedPopulation, other: TrainedPopulation) -> None:
    """Asserts that two populations are equal, but for the time they took."""
    for name in ("seeds", "learning_rates", "parameters", "train_loss", "validation_loss"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    for name in ("test_mse", "training_choices"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    for field in fields(one.test_ledger):
        assert_array_equal(
            getattr(one.test_ledger, field.name), getattr(other.test_ledger, field.name)
        )
    assert one.divergences == other.divergences


class Log(ArtifactStore):
    """A store that keeps its lines, and does something when the first population arrives."""

    def __init__(self, root: Path, at_first: Callable[[], None] = lambda: None) -> None:
        lines: list[str] = []
        super().__init__(root, lines.append)
        object.__setattr__(self, "lines", lines)
        object.__setattr__(self, "at_first", at_first)

    def keep(self, stage, result, seconds) -> None:
        first = not self.kept
        super().keep(stage, result, seconds)
        if first:
            self.at_first()

    @property
    def kept(self) -> int:
        return len(list(self.root.glob("train-*")))
