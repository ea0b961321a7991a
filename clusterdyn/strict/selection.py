"""Choosing each arm's learning rate on the validation split, and nothing else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from clusterdyn.arms import TrainingRun
from clusterdyn.config import StudyConfig
from clusterdyn.strict.arms import Arm
from clusterdyn.strict.config import StrictConfig
from clusterdyn.training import TrainedPopulation

Train = Callable[[Sequence[TrainingRun]], Mapping[TrainingRun, TrainedPopulation]]


@dataclass(frozen=True)
class Selection:
    """An arm's grid and what was chosen on it.

    Attributes:
        rates: (L,), ascending.
        validation: (seeds, L), MSE on the validation split after the last epoch; infinity for a
            model that diverged.
        extensions: by how many rates the grid has grown.
    """

    rates: np.ndarray
    validation: np.ndarray
    extensions: int

    @property
    def means(self) -> np.ndarray:
        """(L,): mean over seeds; infinity where a model has diverged."""
        return self.validation.mean(axis=0)

    @property
    def selected(self) -> int:
        """Index of the smallest mean."""
        return int(np.argmin(self.means))

    @property
    def rate(self) -> float:
        """The selected learning rate."""
        return float(self.rates[self.selected])

    @property
    def at_edge(self) -> bool:
        """Whether the best is still an end of the grid."""
        return self.selected in (0, len(self.rates) - 1)

    @property
    def diverged(self) -> int:
        """Models that diverged."""
        return int(np.count_nonzero(~np.isfinite(self.validation)))


def validation_scores(population: TrainedPopulation, rates: int) -> np.ndarray:
    """(seeds, L): final validation MSE; infinity for a diverged model.

    Args:
        population: rows by seed, then by learning rate.
        rates: L.
    """
    scores = population.validation_loss[-1].astype(np.float64)
    for divergence in population.divergences:
        row = (population.seeds == divergence.seed) & (
            population.learning_rates == divergence.learning_rate
        )
        scores[row] = np.inf
    scores[~np.isfinite(scores)] = np.inf
    return scores.reshape(-1, rates)


def select_rates(
    arms: Sequence[Arm], config: StudyConfig, strict: StrictConfig, train: Train
) -> dict[Arm, Selection]:
    """Chooses a learning rate for each arm: the same grid, seeds and budget for all of a kind.

    While an arm's best rate is an end of its grid, the grid grows there by one rate, in the
    grid's own ratio, at most ``grid_extensions`` times.

    Args:
        arms: those with a fixed rate are passed over.
        config, strict: the settings.
        train: carries out training runs.

    Raises:
        ValueError: if at every rate of an arm some model diverges.
    """
    grids: dict[Arm, Selection] = {}
    first = {arm: np.array(sorted(arm.first_rates(strict))) for arm in arms}
    pending = {arm: rates for arm, rates in first.items() if arm.fixed_rate is None}
    while pending:
        runs = {
            arm: arm.run(config, arm.selection_seeds(strict), tuple(map(float, rates)))
            for arm, rates in pending.items()
        }
        populations = train(list(runs.values()))
        for arm, rates in pending.items():
            scores = validation_scores(populations[runs[arm]], len(rates))
            grids[arm] = _merge(grids.get(arm), rates, scores)
        pending = {
            arm: np.array([_beyond(grids[arm], first[arm][1] / first[arm][0])])
            for arm in pending
            if grids[arm].at_edge and grids[arm].extensions < strict.grid_extensions
        }
    for arm, grid in grids.items():
        if not np.isfinite(grid.means).any():
            raise ValueError(
                f"arm {arm.label!r} has a diverged model at every learning rate of "
                f"{[float(f'{rate:.3g}') for rate in grid.rates]}; lower "
                f"{'side_rates' if arm.side else 'selection_rates'}"
            )
    return grids


def _merge(grid: Selection | None, rates: np.ndarray, scores: np.ndarray) -> Selection:
    if grid is None:
        return Selection(rates, scores, extensions=0)
    rates = np.concatenate([grid.rates, rates])
    order = np.argsort(rates)
    scores = np.concatenate([grid.validation, scores], axis=1)
    return Selection(rates[order], scores[:, order], grid.extensions + 1)


def _beyond(grid: Selection, ratio: float) -> float:
    """The next rate past the end at which the best is."""
    beyond = grid.rates[0] / ratio if grid.selected == 0 else grid.rates[-1] * ratio
    return float(f"{beyond:.3g}")
