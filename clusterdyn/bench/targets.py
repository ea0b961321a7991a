"""What the trainer is meant to reach: ratios of times that were measured in one run.

The bounds are meant for the reference study's sizes on two cores.
"""

import statistics
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Target:
    """A ratio of two times, and the bound that it should keep.

    Attributes:
        name: what is compared.
        ratios: (repeats,), of times taken in turn; empty if one side was not measured.
        bound: the target; None where there is none.
        at_least: whether the ratio should reach the bound, or else stay within it.
    """

    name: str
    ratios: np.ndarray
    bound: float | None
    at_least: bool

    @property
    def ratio(self) -> float | None:
        """The median over repeats; None if it was not measured."""
        return statistics.median(self.ratios.tolist()) if self.ratios.size else None

    @property
    def low(self) -> float | None:
        """The smallest over repeats."""
        return float(self.ratios.min()) if self.ratios.size else None

    @property
    def high(self) -> float | None:
        """The largest over repeats."""
        return float(self.ratios.max()) if self.ratios.size else None

    @property
    def kept(self) -> bool | None:
        """Whether the median keeps the bound; None if there is no median or no bound."""
        if self.ratio is None or self.bound is None:
            return None
        return self.ratio >= self.bound if self.at_least else self.ratio <= self.bound

    @property
    def wanted(self) -> str:
        """The bound in words."""
        if self.bound is None:
            return "—"
        return f"{'at least' if self.at_least else 'at most'} {self.bound:g}"

    @property
    def outcome(self) -> str:
        """Kept, missed, not measured, or no target."""
        if self.ratio is None:
            return "not measured"
        if self.kept is None:
            return "no target"
        return "kept" if self.kept else "missed"


def target(
    name: str,
    numerator: np.ndarray | None,
    denominator: np.ndarray | None,
    bound: float | None,
    *,
    at_least: bool = True,
) -> Target:
    """A target from times in s.

    Args:
        name: what is compared.
        numerator, denominator: (repeats,), or None where that side was not measured.
        bound, at_least: as of ``Target``.
    """
    ratios = np.empty(0)
    if numerator is not None and denominator is not None:
        ratios = np.asarray(numerator, dtype=float) / np.asarray(denominator, dtype=float)
    return Target(name, ratios, None if bound is None else float(bound), at_least)
