"""Recorded trajectories, and the splits that are made of them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterdyn.datasets import Dataset, Standardisation, Trajectories
from clusterdyn.streams import seed_streams

SHARE_OF_MEMORY = 0.25  # that reading a file may take


@dataclass(frozen=True, eq=False)
class Recording:
    """Trajectories as they were recorded.

    Attributes:
        path: of the file.
        states: an array (L, p) for each trajectory, float64, in the file's units.
        controls: an array (L - 1, q) for each, held between the instants.
        state_names, control_names: of the channels, units included.
        time_step: between instants, in the file's unit of time; None if the file does not say.
    """

    path: str
    states: tuple[np.ndarray, ...]
    controls: tuple[np.ndarray, ...]
    state_names: tuple[str, ...]
    control_names: tuple[str, ...]
    time_step: float | None

    def __post_init__(self) -> None:
        if len(self.states) < 3:
            raise ValueError(
                f"{self.path} holds {len(self.states)} trajectories; at least 3 are needed, since "
                "training, validation and test split share none"
            )
        for names, values in (
            (self.state_names, self.states),
            (self.control_names, self.controls),
        ):
            joined = np.concatenate(values)
            for channel, name in enumerate(names):
                if np.ptp(joined[:, channel]) == 0:
                    raise ValueError(
                        f"{self.path}: channel {name!r} is constant ({joined[0, channel]:g}), so "
                        "it cannot be standardised; remove it"
                    )

    def windows(self, horizon: int) -> tuple[Trajectories, np.ndarray]:
        """All stretches of T time steps, one after another without overlap but for their ends.

        Args:
            horizon: T.

        Returns:
            The stretches, states (W, T + 1, p) and controls (W, T, q), and the number of the
            trajectory (W,) that each is from.

        Raises:
            ValueError: if a trajectory is too short for one.
        """
        states, controls, source = [], [], []
        for number, (path, held) in enumerate(zip(self.states, self.controls, strict=True)):
            if len(held) < horizon:
                raise ValueError(
                    f"{self.path}: trajectory {number + 1} of {len(self.states)} has {len(path)} "
                    f"instants, and a horizon of {horizon} needs {horizon + 1}: lower the horizon "
                    "or remove the trajectory"
                )
            for start in range(0, len(held) - horizon + 1, horizon):
                states.append(path[start : start + horizon + 1])
                controls.append(held[start : start + horizon])
                source.append(number)
        return Trajectories(np.stack(states), np.stack(controls)), np.array(source)


def recorded_dataset(
    recording: Recording, seed: int, *, train: int, validation: int, test: int, horizon: int
) -> Dataset:
    """One seed's splits of a recording: no trajectory gives windows to two of them.

    The seed decides which trajectories go where, and which of their windows are taken. Seeds share
    the recording: differences between them tell of splits, weights and orders, and not of other
    recordings.

    Args:
        recording: the trajectories.
        seed: a non-negative integer.
        train, validation, test: numbers of windows.
        horizon: T, in time steps.

    Returns:
        Splits with states (N, T + 1, p) and controls (N, T, q), float64, standardised by the
        training split.

    Raises:
        ValueError: if there are too few windows.
    """
    pool, source = recording.windows(horizon)
    sizes = {"train": train, "validation": validation, "test": test}
    stream = seed_streams(seed)
    order = np.random.default_rng(stream.train).permutation(len(recording.states))
    raw = {}
    for (name, wanted), group in zip(sizes.items(), _shared_out(order, list(sizes.values())),
                                     strict=True):  # fmt: skip
        found = np.flatnonzero(np.isin(source, group))
        if len(found) < wanted:
            most = {other: int(share * len(source)) for other, share in _shares(sizes).items()}
            raise ValueError(
                f"{recording.path} has {len(source)} windows of {horizon} time steps, and seed "
                f"{seed} would need {wanted} in its {name} split, whose {len(group)} of "
                f"{len(order)} trajectories give {len(found)}: ask for fewer, such as "
                f"{', '.join(f'{n}_trajectories={max(1, int(0.8 * c))}' for n, c in most.items())}"
            )
        taken = np.random.default_rng(getattr(stream, name)).permutation(found)[:wanted]
        raw[name] = Trajectories(pool.states[taken], pool.controls[taken])
    standardisation = Standardisation.fit(raw["train"])
    return Dataset(
        **{name: standardisation.apply(split) for name, split in raw.items()},
        standardisation=standardisation,
    )


def _shares(sizes: dict[str, int]) -> dict[str, float]:
    return {name: size / sum(sizes.values()) for name, size in sizes.items()}


def _shared_out(order: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """Trajectories in groups in the ratio of the splits' sizes, none of them empty."""
    ends = np.cumsum(sizes)[:-1] / np.sum(sizes) * len(order)
    first = min(max(1, round(ends[0])), len(order) - 2)
    second = min(max(first + 1, round(ends[1])), len(order) - 1)
    return np.split(order, [first, second])


def check_memory(path: str, size: int) -> None:
    """Checks that reading a file would not fill the memory.

    Args:
        path: of the file.
        size: bytes that reading it takes.

    Raises:
        ValueError: if they are too many.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > SHARE_OF_MEMORY * memory:
        raise ValueError(
            f"reading {path} takes about {size / 2**30:.1f} GiB, more than {SHARE_OF_MEMORY:.0%} "
            f"of this machine's {memory / 2**30:.1f} GiB; cut it into fewer trajectories"
        )
