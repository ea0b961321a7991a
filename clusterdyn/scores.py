"""What every statistic asks of its scores: refusals in sentences that name the seeds."""

import math
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike


def refuse_seeds(offending: np.ndarray, complaint: str, remedy: str) -> None:
    """Raises ValueError that names the positions where ``offending``, bool (n,), is true."""
    if offending.any():
        positions = ", ".join(str(i) for i in np.flatnonzero(offending))
        raise ValueError(f"{complaint} for the seeds at positions {positions} (from 0): {remedy}")


def checked_scores(values: ArrayLike, name: str = "differences") -> np.ndarray:
    """Return `values` as a finite float64 vector of at least two seeds, or say why it is none."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, one value a seed; got shape {vector.shape}: "
            "compare one pair of arms at a time"
        )
    if vector.size < 2:
        raise ValueError(f"{name} must hold at least 2 seeds; got {vector.size}: run more seeds")
    refuse_seeds(
        ~np.isfinite(vector),
        f"{name} must be finite; got NaN or infinity",
        "count diverged runs apart, or score them by a finite value",
    )
    return vector


def checked_pair(baseline: ArrayLike, treatment: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Both arms' scores as vectors of one length, or a ValueError."""
    pair = checked_scores(baseline, "baseline"), checked_scores(treatment, "treatment")
    if pair[0].size != pair[1].size:
        raise ValueError(
            "baseline and treatment must hold the same seeds in the same order; got "
            f"{pair[0].size} and {pair[1].size} values: run both arms on every seed"
        )
    return pair


def check_probability(value: float, name: str) -> None:
    """Raises ValueError unless a value lies strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1; got {value!r}")


def check_count(value: int, name: str, smallest: int, largest: float = math.inf) -> None:
    """Raises ValueError unless a value is an integer in its range."""
    if not (isinstance(value, Integral) and smallest <= value <= largest):
        allowed = f"at least {smallest}" if largest == math.inf else f"{smallest} to {largest}"
        raise ValueError(f"{name} must be an integer, {allowed}; got {value!r}")


def check_generator(rng: object, n: int, largest: int) -> None:
    """Raises ValueError unless there is a generator where randomness is needed."""
    if not isinstance(rng, np.random.Generator):
        raise ValueError(
            f"rng must be a numpy.random.Generator for more than {largest} seeds; got {rng!r} "
            f"for {n}: pass rng=numpy.random.default_rng(seed)"
        )
