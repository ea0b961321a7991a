"""Training a whole population of models side by side, in plain PyTorch.

Every (seed, learning rate) pair is one row of a flat parameter matrix (S, P). Rows never mix: a
row's loss, gradient, clipping and Adam step are those of a model trained alone.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clusterdyn.adjoint import RolloutGradient
from clusterdyn.datasets import Dataset, Trajectories, minibatch_order
from clusterdyn.gru import GRUCell
from clusterdyn.model import MessagePassingCell
from clusterdyn.optimiser import Adam
from clusterdyn.populations import Divergence, TrainedPopulation, join_populations
from clusterdyn.schedules import Schedule
from clusterdyn.streams import seed_streams
from clusterdyn.sweeps import Ledger, ledger, rollout

Cell = MessagePassingCell | GRUCell

PROGRESS_SECONDS = 2.0  # between lines of progress


@dataclass(frozen=True)
class TrainingConfig:
    """How each model is trained.

    Attributes:
        epochs: passes over the training split.
        validation_curve: whether the validation split is scored after every epoch, or after the
            last alone.
        batch_size: B.
        sweeps: K, a time step.
        relaxation: eta in (0, 1].
        clip_norm: largest gradient norm of a model.
        minibatch_stream: which of a seed's minibatch orders is used; 0 in every arm but one that
            asks how much the order alone does.
        dtype: "float32" or "float64".
        device: as PyTorch names it.
    """

    epochs: int = 12
    validation_curve: bool = True
    batch_size: int = 20
    sweeps: int = 3
    relaxation: float = 0.5
    clip_norm: float = 1.0
    minibatch_stream: int = 0
    dtype: str = "float32"
    device: str = "cpu"

    def tensor(self, values: np.ndarray) -> Tensor:
        """Values on the device, in the training precision."""
        return torch.as_tensor(values, dtype=getattr(torch, self.dtype), device=self.device)


def mean_squared_error(predictions: Tensor, states: Tensor) -> Tensor:
    """(S,), over trajectories, time steps and channels.

    Args:
        predictions: (S, B, T, p).
        states: (S, B, T + 1, p), the first state included.
    """
    return (predictions - states[:, :, 1:]).square().mean(dim=(1, 2, 3))


def schedule_generators(seeds: Sequence[int], *, training: bool) -> list[np.random.Generator]:
    """One generator a model for the draws of its schedule, from the model's seed alone."""
    streams = [seed_streams(int(seed)) for seed in seeds]
    return [
        np.random.default_rng(s.schedule_training if training else s.schedule_evaluation)
        for s in streams
    ]


def stack_split(
    datasets: Sequence[Dataset], split: str, config: TrainingConfig
) -> tuple[Tensor, Tensor]:
    """One split of all seeds: states (seeds, N, T + 1, p) and controls (seeds, N, T, q)."""
    splits: list[Trajectories] = [getattr(dataset, split) for dataset in datasets]
    return (
        config.tensor(np.stack([s.states for s in splits])),
        config.tensor(np.stack([s.controls for s in splits])),
    )


class AutogradGradient:
    """What ``RolloutGradient`` computes, by automatic differentiation: for any cell.

    Args:
        cell: the cell.
        schedule: chooses the active clusters.
        sweeps: K, a time step.
        relaxation: eta in (0, 1].
    """

    def __init__(self, cell: Cell, schedule: Schedule, *, sweeps: int, relaxation: float) -> None:
        self.cell, self.schedule = cell, schedule
        self.sweeps, self.relaxation = sweeps, relaxation

    def __call__(
        self,
        parameters: Tensor,
        states: Tensor,
        controls: Tensor,
        generators: Sequence[np.random.Generator],
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Arguments and results as of ``RolloutGradient``; choices are bool."""
        leaf = parameters.detach().requires_grad_()
        run = rollout(
            self.cell.bind(leaf),
            states[:, :, 0],
            controls,
            self.schedule,
            generators,
            sweeps=self.sweeps,
            relaxation=self.relaxation,
            targets=states[:, :, 1:],
        )
        loss = mean_squared_error(run.predictions, states)
        (gradient,) = torch.autograd.grad(loss.sum(), leaf)
        return loss.detach(), gradient, list(run.activity)


def evaluate(
    cell: Cell,
    parameters: Tensor,
    schedule: Schedule,
    states: Tensor,
    controls: Tensor,
    seeds: Sequence[int],
    config: TrainingConfig,
) -> tuple[Tensor, Ledger]:
    """MSE (S,) of a population on a split, and what the schedule did there.

    Args:
        cell: the cell.
        parameters: (S, P).
        schedule: the schedule at test time.
        states: (S, N, T + 1, p).
        controls: (S, N, T, q).
        seeds: (S,), of the models.
        config: gives sweeps and relaxation.
    """
    with torch.no_grad():
        run = rollout(
            cell.bind(parameters),
            states[:, :, 0],
            controls,
            schedule,
            schedule_generators(seeds, training=False),
            sweeps=config.sweeps,
            relaxation=config.relaxation,
            targets=states[:, :, 1:],
        )
        population, batch, horizon = controls.shape[:3]
        choices = ledger(
            run.activity, schedule, population=population, batch=batch, horizon=horizon
        )
        return mean_squared_error(run.predictions, states), choices


def bytes_per_model(
    cell: Cell, schedule: Schedule, dataset: Dataset, config: TrainingConfig
) -> int:
    """Memory that training takes for each model, about: buffers, data, optimiser, evaluation.

    Args:
        cell, schedule, config: as of ``train_population``.
        dataset: of one seed.
    """
    like = config.tensor(np.zeros((1, 1)))
    horizon = dataset.train.controls.shape[1]
    hidden = getattr(cell, "hidden_size", None) or cell.units
    updates = horizon * config.sweeps * schedule.updates_per_sweep
    # Autograd keeps about as much an update as the gradient by hand: u, c_q, r, and some more.
    rollout_bytes = 4 * updates * config.batch_size * hidden * like.element_size()
    if isinstance(cell, MessagePassingCell):
        shape = (1, config.batch_size, horizon)
        sweeping = {"sweeps": config.sweeps, "relaxation": config.relaxation}
        rollout_bytes = RolloutGradient(cell, schedule, shape, like=like, **sweeping).nbytes
    splits = [getattr(dataset, name) for name in ("train", "validation", "test")]
    values = sum(split.states.size + split.controls.size for split in splits)
    evaluated = max(len(split.states) for split in splits[1:])
    values += 8 * evaluated * hidden + 6 * cell.parameter_count
    return rollout_bytes + values * like.element_size()


def _chunks(
    datasets: dict[int, Dataset], learning_rates: Sequence[float], models: int
) -> list[tuple[dict[int, Dataset], Sequence[float]]]:
    """Seeds and rates of populations of at most so many models, in the order of the rows."""
    seeds, rates = list(datasets), list(learning_rates)
    if models >= len(rates):
        step = models // len(rates)
        groups = [seeds[first : first + step] for first in range(0, len(seeds), step)]
        return [({seed: datasets[seed] for seed in group}, rates) for group in groups]
    return [
        ({seed: datasets[seed]}, rates[first : first + models])
        for seed in seeds
        for first in range(0, len(rates), models)
    ]


def train_population(
    cell: Cell,
    schedule: Schedule,
    datasets: dict[int, Dataset],
    learning_rates: Sequence[float],
    config: TrainingConfig,
    *,
    max_bytes: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> TrainedPopulation:
    """Trains one model for each seed and learning rate, all at once or chunk after chunk.

    Args:
        cell: the cell; each model starts from its seed's weights.
        schedule: at training and, by its ``at_test``, at test time; it is shown the training
            split after each epoch.
        datasets: a dataset for each seed.
        learning_rates: of Adam; every seed is trained at every one.
        config: the rest.
        max_bytes: memory that training may take, by ``bytes_per_model``: a population that would
            take more is trained in chunks. Without it all are trained at once.
        progress: called with one line now and then.

    Returns:
        Rows ordered by seed, then by learning rate. The test split is read once, at the end.

    Raises:
        ValueError: if ``max_bytes`` is too little for one model.
    """
    if max_bytes is not None:
        needed = bytes_per_model(cell, schedule, next(iter(datasets.values())), config)
        if max_bytes < needed:
            raise ValueError(
                f"max_bytes must be at least {needed}, which one model takes; got {max_bytes}"
            )
        chunks = _chunks(datasets, learning_rates, max_bytes // needed)
        if len(chunks) > 1:
            return join_populations(
                [
                    train_population(cell, schedule, part, rates, config, progress=progress)
                    for part, rates in chunks
                ]
            )
    roots = {seed: seed_streams(seed) for seed in datasets}
    seeds = np.repeat(list(datasets), len(learning_rates))  # (S,)
    rates = np.tile(np.asarray(learning_rates, dtype=np.float64), len(datasets))  # (S,)
    row = torch.arange(len(datasets), device=config.device).repeat_interleave(len(learning_rates))

    initial = np.stack([cell.initial_parameters(roots[seed].weights) for seed in datasets])
    parameters = config.tensor(initial)[row]  # (S, P)
    splits = list(datasets.values())
    states, controls = stack_split(splits, "train", config)
    order = np.stack(
        [
            minibatch_order(
                roots[seed].minibatch_stream(config.minibatch_stream),
                states.shape[1],
                config.batch_size,
                config.epochs,
            )
            for seed in datasets
        ]
    )  # (seeds, epochs, steps, B)
    validation = [split[row] for split in stack_split(splits, "validation", config)]

    sweeping = {"sweeps": config.sweeps, "relaxation": config.relaxation}
    if isinstance(cell, MessagePassingCell):
        shape = (len(seeds), config.batch_size, controls.shape[2])
        gradient_of = RolloutGradient(cell, schedule, shape, like=parameters, **sweeping)
    else:
        gradient_of = AutogradGradient(cell, schedule, **sweeping)
    optimiser = Adam(parameters, config.tensor(rates), config.clip_norm)
    generators = schedule_generators(seeds, training=True)
    alive = torch.ones(len(seeds), dtype=torch.bool, device=config.device)
    stopped_at = torch.full((len(seeds),), -1, device=config.device)
    train_loss, validation_loss, choices = [], [], []
    seconds, next_line = 0.0, PROGRESS_SECONDS
    for epoch in range(config.epochs):
        started = time.perf_counter()
        batches = torch.as_tensor(order[:, epoch], device=config.device)[row]  # (S, steps, B)
        epoch_states = states[row[:, None, None], batches]  # (S, steps, B, T + 1, p)
        epoch_controls = controls[row[:, None, None], batches]
        epoch_loss = torch.zeros_like(parameters[:, 0])
        activity = []
        for step in range(batches.shape[1]):
            loss, gradient, active = gradient_of(
                parameters, epoch_states[:, step], epoch_controls[:, step], generators
            )
            moved = optimiser.step(parameters, gradient, alive & loss.isfinite())
            step_number = epoch * batches.shape[1] + step
            if not torch.equal(moved, alive):
                stopped_at = torch.where(alive & ~moved, step_number, stopped_at)
                alive = moved
            epoch_loss += loss
            activity.append(_choice_counts(active, schedule.partition.clusters))
        seconds += time.perf_counter() - started
        train_loss.append(torch.where(alive, epoch_loss / batches.shape[1], torch.nan))
        schedule.after_epoch(epoch, cell, parameters, states[row], controls[row])
        if config.validation_curve or epoch == config.epochs - 1:
            held_out, _ = evaluate(cell, parameters, schedule.at_test(), *validation, seeds, config)
        else:
            held_out = torch.full_like(parameters[:, 0], torch.nan)
        validation_loss.append(held_out)
        choices.append(torch.stack(activity).mean(dim=0))
        if progress and seconds > next_line:
            next_line = seconds + PROGRESS_SECONDS
            progress(
                f"train-{schedule.name}: epoch {epoch + 1} of {config.epochs}, "
                f"{len(seeds)} models, {seconds:.1f} s"
            )

    # A model that its very last step has broken shows only when it is next run.
    broken = alive & ~validation_loss[-1].isfinite()
    stopped_at = torch.where(broken, step_number, stopped_at)
    alive = alive & ~broken
    test = [split[row] for split in stack_split(splits, "test", config)]
    test_mse, test_ledger = evaluate(cell, parameters, schedule.at_test(), *test, seeds, config)
    divergences = tuple(
        Divergence(int(seeds[s]), float(rates[s]), int(step))
        for s, step in enumerate(stopped_at)
        if step >= 0
    )
    return TrainedPopulation(
        seeds=seeds,
        learning_rates=rates,
        parameters=parameters.cpu().numpy(),
        train_loss=torch.stack(train_loss).cpu().numpy(),
        validation_loss=torch.stack(validation_loss).cpu().numpy(),
        test_mse=torch.where(alive, test_mse, torch.inf).cpu().numpy(),
        training_choices=torch.stack(choices).cpu().numpy(),
        test_ledger=test_ledger,
        divergences=divergences,
        seconds=seconds,
    )


def _choice_counts(choices: Sequence[Tensor], clusters: int) -> Tensor:
    """(C,): cluster updates of a rollout, averaged over models and trajectories."""
    if len({choice.shape for choice in choices}) > 1:
        return sum(_choice_counts([choice], clusters) for choice in choices)
    stacked = torch.stack(list(choices))  # (updates, C), (updates, S, B, C) or (updates, S, B)
    if stacked.dtype == torch.int64:
        counts = stacked.flatten().bincount(minlength=clusters)
        return counts.float() / stacked[0].numel()
    stacked = stacked.float()
    return stacked.flatten(1, -2).mean(dim=1).sum(dim=0) if stacked.ndim > 2 else stacked.sum(0)
