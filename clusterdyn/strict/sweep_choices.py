"""Which clusters are updated in each sweep of a rollout, as shares of the test trajectories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clusterdyn.arms import TrainingRun, arm_schedule, message_passing_cell, study_dataset
from clusterdyn.schedules import Schedule
from clusterdyn.strict.arms import TIE_RULES
from clusterdyn.sweeps import rollout
from clusterdyn.threads import torch_threads
from clusterdyn.training import TrainedPopulation, schedule_generators, stack_split

# Schedules of one cluster a sweep: those that choose it, and one that does not.
WATCHED = (*TIE_RULES, "histogram_fair", "residual", "random", "oracle", "round_robin")


@dataclass(frozen=True)
class SweepChoices:
    """What the watched schedules update on the test split, at the study's own sweeps.

    Attributes:
        schedules: (A,), as text.
        share: (A, n, T K, C): the share of a test seed's trajectories in which a sweep of the
            rollout updates a cluster.
        repeats: (A, n, T K - 1): the share of a test seed's trajectories in which a sweep, from the
            second on, updates what the sweep before it did.
    """

    schedules: tuple[str, ...]
    share: np.ndarray
    repeats: np.ndarray


def updated_clusters(
    activity: Sequence[Tensor], schedule: Schedule, *, population: int, batch: int
) -> np.ndarray:
    """Bool, (S, B, T K, C): whether a sweep updates a cluster.

    Args:
        activity: one entry an update, bool, (C,) or (S, B, C), as in ``Rollout``.
        schedule: that made the choices.
        population: S.
        batch: B.
    """
    shape = (population, batch, schedule.partition.clusters)
    taken = np.stack([np.broadcast_to(active.cpu().numpy(), shape) for active in activity])
    by_sweep = taken.reshape(-1, schedule.updates_per_sweep, *shape).any(axis=1)
    return np.moveaxis(by_sweep, 0, 2)


def updated_at_test(run: TrainingRun, parameters: np.ndarray) -> np.ndarray:
    """Bool, (n, B, T K, C): ``updated_clusters`` of an arm's models on the test split.

    Args:
        run: the arm, at one learning rate.
        parameters: (n, P), of its models.
    """
    config, training = run.config, run.config.training()
    schedule = arm_schedule(config, run.schedule)
    datasets = [study_dataset(config, seed) for seed in config.seeds]
    states, controls = stack_split(datasets, "test", training)
    with torch_threads(1), torch.no_grad():
        done = rollout(
            message_passing_cell(config).bind(training.tensor(parameters)),
            states[:, :, 0],
            controls,
            schedule,
            schedule_generators(config.seeds, training=False),
            sweeps=config.sweeps,
            relaxation=config.relaxation,
            targets=states[:, :, 1:],
        )
    return updated_clusters(done.activity, schedule, population=len(states), batch=states.shape[1])


def sweep_choices(
    runs: Mapping[str, TrainingRun], populations: Mapping[TrainingRun, TrainedPopulation]
) -> SweepChoices:
    """The choices of every watched schedule.

    Args:
        runs: of the test seeds at the selected rate, by schedule.
        populations: their trained models.
    """
    updated = np.stack(
        [updated_at_test(runs[name], populations[runs[name]].parameters) for name in WATCHED]
    )  # (A, n, B, T K, C)
    again = (updated[..., 1:, :] == updated[..., :-1, :]).all(axis=-1)
    return SweepChoices(WATCHED, share=updated.mean(axis=2), repeats=again.mean(axis=2))
