"""Whether the sweeps of a time step converge, and to what."""

from dataclasses import dataclass

import numpy as np
import torch

from clusterdyn.arms import TrainingRun, message_passing_cell, study_dataset
from clusterdyn.mechanism import sequential_sweep
from clusterdyn.threads import torch_threads
from clusterdyn.training import TrainedPopulation

LONG = 400  # full sweeps after which a state that converges has done so
TRAJECTORIES = 20  # of the test split, for each seed


@dataclass(frozen=True)
class Settling:
    """Full sweeps of the first time step, carried on past the trained number, in float64.

    Attributes:
        sweeps: K that the models were trained with.
        residual: (LONG + 1, n), root mean square of f(h, z) - h before each sweep and after the
            last, over trajectories, nodes and channels; a column a model.
        trained_mse: (n,), error of the first prediction after K sweeps, standardised units.
        settled_mse: (n,), the same after ``LONG`` sweeps.
    """

    sweeps: int
    residual: np.ndarray
    trained_mse: np.ndarray
    settled_mse: np.ndarray

    @property
    def at_end(self) -> np.ndarray:
        """(n,): the residual after K sweeps relative to that before the first."""
        return self.residual[self.sweeps] / self.residual[0]

    @property
    def left(self) -> np.ndarray:
        """(n,): the same after ``LONG`` sweeps; about 0 where the state has converged."""
        return self.residual[-1] / self.residual[0]


def settle(run: TrainingRun, population: TrainedPopulation) -> Settling:
    """Carries the full sweep on.

    Args:
        run: trained the models, at one learning rate.
        population: the models.
    """
    config = run.config
    tests = [study_dataset(config, seed).test for seed in config.seeds]
    states, controls = (
        torch.as_tensor(
            np.stack([getattr(test, name)[:TRAJECTORIES] for test in tests]), dtype=torch.float64
        )
        for name in ("states", "controls")
    )
    with torch_threads(1), torch.no_grad():
        parameters = torch.as_tensor(population.parameters, dtype=torch.float64)
        cell = message_passing_cell(config).bind(parameters)
        hidden = cell.start(states.shape[1])  # (S, B, n, d)
        drive = cell.drive(states[:, :, 0], controls[:, :, 0])
        residual, mse = [], {}
        for sweep in range(LONG + 1):
            gap = cell.proposal(hidden, drive) - hidden
            residual.append(gap.square().mean(dim=(1, 2, 3)).sqrt())
            if sweep in (config.sweeps, LONG):
                error = cell.readout(hidden) - states[:, :, 1]
                mse[sweep] = error.square().mean(dim=(1, 2)).numpy()
            hidden = sequential_sweep(cell, hidden, drive, [range(config.nodes)], config.relaxation)
    return Settling(config.sweeps, torch.stack(residual).numpy(), mse[config.sweeps], mse[LONG])
