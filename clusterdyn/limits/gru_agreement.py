"""Whether a GRU whose units are nodes is PyTorch's own when all of them move."""

import numpy as np
import torch

from clusterdyn.arms import TrainingRun, study_dataset
from clusterdyn.sweeps import rollout
from clusterdyn.threads import torch_threads
from clusterdyn.training import TrainedPopulation, schedule_generators, stack_split


def difference_from_torch(run: TrainingRun, population: TrainedPopulation) -> np.ndarray:
    """The largest difference of predictions from those of ``torch.nn.GRUCell``, a model a row.

    Both roll out the test split in float64, each on its own predictions, from the same weights.

    Args:
        run: trained the models under ``full``, with one sweep and relaxation 1.
        population: the models.

    Returns:
        (n,), absolute, standardised units.
    """
    cell, schedule = run.build()
    datasets = [study_dataset(run.config, seed) for seed in run.config.seeds]
    states, controls = (
        values.double() for values in stack_split(datasets, "test", run.config.training())
    )
    parameters = torch.as_tensor(population.parameters, dtype=torch.float64)
    with torch_threads(1), torch.no_grad():
        predicted = rollout(
            cell.bind(parameters),
            states[:, :, 0],
            controls,
            schedule,
            schedule_generators(run.config.seeds, training=False),
            sweeps=run.config.sweeps,
            relaxation=run.config.relaxation,
        ).predictions  # (n, B, T, p)
        largest = []
        for model, row in enumerate(parameters):
            gru, readout = cell.torch_modules(row)
            state, hidden, gap = states[model, :, 0], None, 0.0
            for time_step in range(controls.shape[2]):
                inputs = torch.cat([state, controls[model, :, time_step]], dim=-1)
                hidden = gru(inputs, hidden)
                state = readout(hidden)
                gap = max(gap, float((state - predicted[model, :, time_step]).abs().max()))
            largest.append(gap)
    return np.array(largest)
