"""A learning-rate grid, and what the reference protocol selects from it."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ArmGrid:
    """An arm's learning-rate grid as the reference protocol reads it.

    Attributes:
        schedule: the arm's name.
        learning_rates: (L,).
        scores: (seeds, L), test MSE; infinity for a diverged model.
        grid_seeds: how many seeds, from the first, the means average.
        means: (L,).
        selected: index of the smallest mean.
        at_edge: whether that is an end of the grid.
    """

    schedule: str
    learning_rates: np.ndarray
    scores: np.ndarray
    grid_seeds: int
    means: np.ndarray
    selected: int
    at_edge: bool

    @property
    def learning_rate(self) -> float:
        """The selected one."""
        return float(self.learning_rates[self.selected])

    @property
    def selected_scores(self) -> np.ndarray:
        """(seeds,): test MSE at the selected learning rate."""
        return self.scores[:, self.selected]


def arm_grid(
    schedule: str, learning_rates: np.ndarray, scores: np.ndarray, grid_seeds: int
) -> ArmGrid:
    """Selects a learning rate on the test score, as the published trial did.

    Args:
        schedule: the arm's name.
        learning_rates: (L,).
        scores: (seeds, L), test MSE.
        grid_seeds: how many seeds, from the first, enter the means.

    Raises:
        ValueError: if at every learning rate some model has diverged.
    """
    means = scores[:grid_seeds].mean(axis=0)
    usable = np.isfinite(scores).all(axis=0)
    if not usable.any():
        raise ValueError(
            f"arm {schedule!r} has a diverged model at every learning rate of "
            f"{[float(rate) for rate in learning_rates]}; add smaller learning rates"
        )
    selected = int(np.argmin(np.where(usable, means, np.inf)))
    ends = (learning_rates.argmin(), learning_rates.argmax())
    return ArmGrid(
        schedule=schedule,
        learning_rates=learning_rates,
        scores=scores,
        grid_seeds=grid_seeds,
        means=means,
        selected=selected,
        at_edge=selected in ends,
    )
