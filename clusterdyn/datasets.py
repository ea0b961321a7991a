"""Training, validation and test trajectories, one independent draw per seed."""

from dataclasses import dataclass

import numpy as np

from clusterdyn.pendulum import Pendulum, observe, simulate
from clusterdyn.streams import seed_streams

STATE_CHANNELS = ("sin θ", "cos θ", "ω [rad/s]")
CONTROL_CHANNELS = ("u [N·m]",)


@dataclass(frozen=True)
class PendulumSampling:
    """How trajectories are drawn: uniform over these symmetric ranges.

    Attributes:
        time_step: in s.
        largest_torque: in N m.
        largest_angle: of the initial state, in rad.
        largest_velocity: of the initial state, in rad/s.
    """

    time_step: float = 0.05
    largest_torque: float = 2.0
    largest_angle: float = np.pi / 2
    largest_velocity: float = 1.0


@dataclass(frozen=True)
class Trajectories:
    """A batch of trajectories.

    Attributes:
        states: (N, T + 1, p), observations at the ends of the time steps.
        controls: (N, T, q), each held over one time step.
    """

    states: np.ndarray
    controls: np.ndarray

    def __post_init__(self) -> None:
        if self.states.ndim != 3 or self.controls.ndim != 3:
            raise ValueError(
                "trajectories need states (N, T + 1, p) and controls (N, T, q); "
                f"got shapes {self.states.shape} and {self.controls.shape}"
            )
        trajectories, instants, _ = self.states.shape
        if self.controls.shape[:2] != (trajectories, instants - 1):
            raise ValueError(
                "trajectories need one control a time step, controls (N, T, q) for states "
                f"(N, T + 1, p); got shapes {self.controls.shape} and {self.states.shape}"
            )


@dataclass(frozen=True)
class Standardisation:
    """Mean and standard deviation a channel, taken over the training split alone.

    Attributes:
        state_mean, state_std: (p,).
        control_mean, control_std: (q,).
    """

    state_mean: np.ndarray
    state_std: np.ndarray
    control_mean: np.ndarray
    control_std: np.ndarray

    @classmethod
    def fit(cls, train: Trajectories) -> "Standardisation":
        """Takes the moments of a training split (population standard deviation).

        Raises:
            ValueError: if a channel is constant, since it cannot be standardised.
        """
        moments = []
        for kind, values in (("state", train.states), ("control", train.controls)):
            mean, std = values.mean(axis=(0, 1)), values.std(axis=(0, 1))
            constant = np.flatnonzero(std == 0)
            if constant.size:
                raise ValueError(
                    f"{kind} channel {constant[0]} is constant over the training split, so it "
                    "cannot be standardised; remove the channel"
                )
            moments += [mean, std]
        return cls(*moments)

    def apply(self, trajectories: Trajectories) -> Trajectories:
        """The same trajectories in standardised units."""
        return Trajectories(
            states=(trajectories.states - self.state_mean) / self.state_std,
            controls=(trajectories.controls - self.control_mean) / self.control_std,
        )


@dataclass(frozen=True)
class Dataset:
    """Three splits in standardised units, with the moments that undo it."""

    train: Trajectories
    validation: Trajectories
    test: Trajectories
    standardisation: Standardisation


def sample_trajectories(
    stream: np.random.SeedSequence,
    count: int,
    horizon: int,
    *,
    pendulum: Pendulum | None = None,
    sampling: PendulumSampling | None = None,
) -> Trajectories:
    """Draws initial states and torques, and simulates them.

    Args:
        stream: root of the random numbers.
        count: N, the number of trajectories.
        horizon: T, in time steps.
        pendulum: physical parameters; the study's by default.
        sampling: ranges of the draws; the study's by default.

    Returns:
        Observations (N, T + 1, 3) and torques (N, T, 1), float64, in physical units.
    """
    pendulum = pendulum or Pendulum()
    sampling = sampling or PendulumSampling()
    rng = np.random.default_rng(stream)
    largest = np.array([sampling.largest_angle, sampling.largest_velocity])
    initial = rng.uniform(-largest, largest, size=(count, 2))
    torques = rng.uniform(-sampling.largest_torque, sampling.largest_torque, size=(count, horizon))
    states = simulate(pendulum, initial, torques, time_step=sampling.time_step)
    return Trajectories(states=observe(states), controls=torques[..., None])


def pendulum_dataset(
    seed: int,
    *,
    train: int = 400,
    validation: int = 100,
    test: int = 100,
    horizon: int = 4,
) -> Dataset:
    """The data of one seed: every split from its own stream, standardised by the training split.

    Args:
        seed: a non-negative integer.
        train, validation, test: numbers of trajectories.
        horizon: T, in time steps of 0.05 s.

    Returns:
        Splits with states (N, T + 1, 3) and controls (N, T, 1), float64.
    """
    streams = seed_streams(seed)
    raw = sample_trajectories(streams.train, train, horizon)
    standardisation = Standardisation.fit(raw)
    return Dataset(
        train=standardisation.apply(raw),
        validation=standardisation.apply(
            sample_trajectories(streams.validation, validation, horizon)
        ),
        test=standardisation.apply(sample_trajectories(streams.test, test, horizon)),
        standardisation=standardisation,
    )


def minibatch_order(
    stream: np.random.SeedSequence, trajectories: int, batch_size: int, epochs: int
) -> np.ndarray:
    """Which trajectories each optimiser step sees: a fresh permutation every epoch.

    Args:
        stream: root of the random numbers.
        trajectories: N, the size of the training split.
        batch_size: B; a last, smaller batch is not used.
        epochs: passes over the split.

    Returns:
        (epochs, steps an epoch, B), int64.

    Raises:
        ValueError: if a batch is larger than the split.
    """
    if not 1 <= batch_size <= trajectories:
        raise ValueError(
            f"batch_size must lie between 1 and the {trajectories} training trajectories; "
            f"got {batch_size}"
        )
    rng = np.random.default_rng(stream)
    steps = trajectories // batch_size
    order = np.stack([rng.permutation(trajectories) for _ in range(epochs)])
    return order[:, : steps * batch_size].reshape(epochs, steps, batch_size)
