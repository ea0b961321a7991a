"""What training a population gives, and how populations are put together."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from clusterdyn.sweeps import Ledger


@dataclass(frozen=True)
class Divergence:
    """A model whose loss or gradient stopped being finite; it was frozen before that step.

    If only the last step's outcome is not finite, that is the step.
    """

    seed: int
    learning_rate: float
    step: int


@dataclass(frozen=True)
class TrainedPopulation:
    """Models after training; row s belongs to ``seeds[s]`` and ``learning_rates[s]``.

    Attributes:
        seeds: (S,), int64.
        learning_rates: (S,), float64.
        parameters: (S, P), in the training precision.
        train_loss: (epochs, S), MSE averaged over the epoch's minibatches, standardised units.
        validation_loss: (epochs, S), MSE at the end of each epoch; NaN where it was not scored.
        test_mse: (S,), MSE after the last epoch; infinity for a diverged model.
        training_choices: (epochs, C), cluster updates a model and trajectory, all models' mean.
        test_ledger: what the schedule did on the test split.
        divergences: models that were frozen.
        seconds: time that the optimiser steps took.
    """

    seeds: np.ndarray
    learning_rates: np.ndarray
    parameters: np.ndarray
    train_loss: np.ndarray
    validation_loss: np.ndarray
    test_mse: np.ndarray
    training_choices: np.ndarray
    test_ledger: Ledger
    divergences: tuple[Divergence, ...]
    seconds: float


def join_populations(populations: Sequence[TrainedPopulation]) -> TrainedPopulation:
    """One population from chunks of it.

    Args:
        populations: of the same arm, trained alike, in the order of the rows; S_i models each.

    Returns:
        Their rows one after another; the choices in training averaged over all models; the
        seconds added up.
    """

    def joined(name: str, axis: int) -> np.ndarray:
        return np.concatenate([getattr(p, name) for p in populations], axis=axis)

    def booked(name: str) -> np.ndarray:
        return np.concatenate([getattr(p.test_ledger, name) for p in populations])

    choices = np.stack([p.training_choices.astype(np.float64) for p in populations])
    mean = np.average(choices, axis=0, weights=[len(p.seeds) for p in populations])
    return TrainedPopulation(
        seeds=joined("seeds", 0),
        learning_rates=joined("learning_rates", 0),
        parameters=joined("parameters", 0),
        train_loss=joined("train_loss", 1),
        validation_loss=joined("validation_loss", 1),
        test_mse=joined("test_mse", 0),
        training_choices=mean.astype(populations[0].training_choices.dtype),
        test_ledger=Ledger(**{field.name: booked(field.name) for field in fields(Ledger)}),
        divergences=tuple(d for p in populations for d in p.divergences),
        seconds=sum(p.seconds for p in populations),
    )
