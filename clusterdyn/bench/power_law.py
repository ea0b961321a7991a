"""How a cost grows: the exponent of a power law, fitted on logarithms."""

from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class PowerLaw:
    """y = c x^exponent, by least squares on log x and log y.

    Attributes:
        exponent: the slope.
        low, high: its t interval; NaN where there are fewer than three points.
        coefficient: c.
        points: that were fitted: the upper half of those given.
        confidence_level: of the interval.
    """

    exponent: float
    low: float
    high: float
    coefficient: float
    points: int
    confidence_level: float

    def at(self, x: np.ndarray) -> np.ndarray:
        """The law's y."""
        return self.coefficient * np.asarray(x, dtype=float) ** self.exponent


def fit_power_law(
    x: np.ndarray, y: np.ndarray, *, confidence_level: float = 0.95
) -> PowerLaw | None:
    """Fits the upper half of the points, the middle one included, where constant costs matter less.

    Args:
        x: (points,), positive, ascending.
        y: (points,), positive.
        confidence_level: of the interval of the exponent.

    Returns:
        The law, or None if fewer than two points would be fitted.
    """
    half = len(x) // 2
    points = len(x) - half
    if points < 2:
        return None
    log_x, log_y = np.log(np.asarray(x, dtype=float)[half:]), np.log(np.asarray(y)[half:])
    slope, intercept = np.polyfit(log_x, log_y, 1)
    width = np.nan
    if points > 2:
        residual = log_y - slope * log_x - intercept
        error = np.sqrt(residual @ residual / (points - 2)) / np.linalg.norm(log_x - log_x.mean())
        width = stats.t.ppf((1 + confidence_level) / 2, points - 2) * error
    return PowerLaw(
        exponent=float(slope),
        low=float(slope - width),
        high=float(slope + width),
        coefficient=float(np.exp(intercept)),
        points=points,
        confidence_level=confidence_level,
    )
