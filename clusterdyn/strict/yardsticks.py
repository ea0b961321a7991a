"""Predictors without a hidden state: what any model should beat."""

import numpy as np

from clusterdyn.datasets import Dataset, Trajectories


def _mse(predictions: np.ndarray, split: Trajectories) -> float:
    """Mean squared error over trajectories, time steps and channels; predictions (N, T, p)."""
    return float(np.mean((predictions - split.states[:, 1:]) ** 2))


def persistence(split: Trajectories) -> float:
    """Test MSE of predicting that the first state stays, in standardised units."""
    return _mse(np.broadcast_to(split.states[:, :1], split.states[:, 1:].shape), split)


def linear_map(train: Trajectories) -> np.ndarray:
    """The least-squares map from [x_t ; u_t ; 1] to x_{t+1}, (p + q + 1, p), in closed form."""
    ones = np.ones((*train.controls.shape[:2], 1))
    inputs = np.concatenate([train.states[:, :-1], train.controls, ones], axis=-1)
    inputs, targets = inputs.reshape(-1, inputs.shape[-1]), train.states[:, 1:]
    solution, *_ = np.linalg.lstsq(inputs, targets.reshape(-1, targets.shape[-1]), rcond=None)
    return solution


def linear_rollout(dataset: Dataset) -> float:
    """Test MSE of the least-squares map, rolled out from the first state on its own predictions."""
    solution, split = linear_map(dataset.train), dataset.test
    state, predictions = split.states[:, 0], []
    for t in range(split.controls.shape[1]):
        ones = np.ones((len(state), 1))
        state = np.concatenate([state, split.controls[:, t], ones], axis=-1) @ solution
        predictions.append(state)
    return _mse(np.stack(predictions, axis=1), split)
