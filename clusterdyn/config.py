"""The study's settings: one frozen dataclass, three profiles, strict overrides."""

import dataclasses
import json
import math
import re
import typing
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from clusterdyn.graph import make_partition, ring
from clusterdyn.schedules import SCHEDULES, make_schedule
from clusterdyn.training import TrainingConfig


@dataclass(frozen=True)
class StudyConfig:
    """All that a result depends on. The defaults are the ``reference`` profile.

    Attributes:
        nodes: n, on a ring.
        channels: d, a node.
        clusters: C.
        partition: contiguous, strided, random or coloring.
        partition_seed: of the random partition.
        bins: m, of the disagreement histogram.
        sweeps: K, a time step.
        relaxation: eta in (0, 1].
        horizon: T, in time steps of 0.05 s.
        train_trajectories, validation_trajectories, test_trajectories: sizes of the splits.
        batch_size: B, trajectories an optimiser step.
        epochs: passes over the training split.
        learning_rates: of Adam; the grid of both arms.
        clip_norm: largest gradient norm of a model.
        seeds: one model a seed and learning rate.
        baseline_grid_seeds: the baseline's grid averages that many seeds from the first, or all
            if there are fewer (the published trial used 4 of 8; the idea's grid averages all).
        baseline, schedule: the two arms.
        dtype: of training, float32 or float64.
        device: as PyTorch names it.
    """

    nodes: int = 16
    channels: int = 4
    clusters: int = 4
    partition: str = "contiguous"
    partition_seed: int = 0
    bins: int = 4
    sweeps: int = 3
    relaxation: float = 0.5
    horizon: int = 4
    train_trajectories: int = 400
    validation_trajectories: int = 100
    test_trajectories: int = 100
    batch_size: int = 20
    epochs: int = 12
    learning_rates: tuple[float, ...] = (0.001, 0.003, 0.01)
    clip_norm: float = 1.0
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7)
    baseline_grid_seeds: int = 4
    baseline: str = "full"
    schedule: str = "histogram"
    dtype: str = "float32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _typed(field.name, getattr(self, field.name)))
        self._check_ranges()
        graph = ring(self.nodes)
        partition = make_partition(self.partition, graph, self.clusters, seed=self.partition_seed)
        for arm in (self.baseline, self.schedule):
            make_schedule(arm, graph, partition, bins=self.bins)

    def _check_ranges(self) -> None:
        if not 0 < self.relaxation <= 1:
            raise ValueError(f"relaxation must lie in (0, 1]; got {self.relaxation:g}")
        for name in (
            "channels", "bins", "sweeps", "horizon", "train_trajectories",
            "validation_trajectories", "test_trajectories", "batch_size", "epochs", "clip_norm",
            "baseline_grid_seeds",
        ):  # fmt: skip
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive; got {getattr(self, name)}")
        for name, why in (
            ("horizon", "the mechanism check also looks at a state after a time step"),
            ("clusters", "with one there is nothing to choose"),
        ):
            if getattr(self, name) < 2:
                raise ValueError(
                    f"{name} must be at least 2, since {why}; got {getattr(self, name)}"
                )
        if self.batch_size > self.train_trajectories:
            raise ValueError(
                f"batch_size must not exceed train_trajectories ({self.train_trajectories}); "
                f"got {self.batch_size}"
            )
        if len(self.seeds) < 2:
            raise ValueError(f"seeds must hold at least 2 seeds to form pairs; got {self.seeds}")
        for name in ("seeds", "learning_rates"):
            values = getattr(self, name)
            repeats = sorted({value for value in values if values.count(value) > 1})
            if repeats:
                raise ValueError(
                    f"{name} must not repeat: {repeats} stand more than once in {list(values)}"
                )
        if not all(0 <= seed < 2**63 for seed in (*self.seeds, self.partition_seed)):
            raise ValueError(
                f"seeds must lie between 0 and 2^63 - 1; got seeds={list(self.seeds)} "
                f"partition_seed={self.partition_seed}"
            )
        if not self.learning_rates or min(self.learning_rates) <= 0:
            raise ValueError(
                f"learning_rates must be positive and at least one; got {list(self.learning_rates)}"
            )
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64; got {self.dtype!r}")
        _check_device(self.device)
        if self.baseline == self.schedule:
            raise ValueError(
                f"baseline and schedule are the two arms and must differ; both are "
                f"{self.schedule!r} (schedules: {', '.join(SCHEDULES)})"
            )

    def training(self) -> TrainingConfig:
        """The part that training needs."""
        names = [field.name for field in dataclasses.fields(TrainingConfig)]
        return TrainingConfig(**{name: getattr(self, name) for name in names})


def _check_device(device: str) -> None:
    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = "unknown"
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"device must be cpu or cuda (or cuda:N); got {device!r}")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {device!r}, but PyTorch finds no CUDA device here; use cpu")


def _typed(name: str, value: Any) -> Any:
    """The value in its field's type, or a ValueError in a sentence."""
    kind = typing.get_type_hints(StudyConfig)[name]
    if typing.get_origin(kind) is tuple:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ValueError(f"{name} must be a list of numbers; got {value!r}")
        element = typing.get_args(kind)[0]
        return tuple(_scalar(f"each of {name}", element, item) for item in value)
    return _scalar(name, kind, value)


def _scalar(name: str, kind: type, value: Any) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            raise ValueError(f"{name} must be finite; got a number of that size") from None
    if type(value) is not kind:
        words = {int: "a whole number", float: "a number", str: "a text"}
        raise ValueError(f"{name} must be {words[kind]}; got {value!r}")
    if kind is float and not math.isfinite(value):
        raise ValueError(f"{name} must be finite; got {value}")
    return value


# Same study, same code, fewer and smaller models: a check that everything runs, no evidence.
_QUICK: dict[str, Any] = {
    "nodes": 8,
    "channels": 3,
    "train_trajectories": 120,
    "validation_trajectories": 30,
    "test_trajectories": 30,
    "epochs": 3,
    "learning_rates": (0.003, 0.01),
    "seeds": (0, 1, 2, 3),
    "baseline_grid_seeds": 2,
}

PROFILES: dict[str, dict[str, Any]] = {"quick": _QUICK, "reference": {}, "full": {}}


def study_config(profile: str, settings: Mapping[str, Any] | None = None) -> StudyConfig:
    """A profile with some of its fields replaced.

    Args:
        profile: quick, reference or full.
        settings: field names to values of the field's own type.

    Raises:
        ValueError: for an unknown profile or field, a wrong type or a value out of range.
    """
    if profile not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}; got {profile!r}")
    settings = dict(settings or {})
    known = [field.name for field in dataclasses.fields(StudyConfig)]
    for name in settings:
        if name not in known:
            raise ValueError(f"unknown setting {name!r}; the settings are {', '.join(known)}")
    return StudyConfig(**{**PROFILES[profile], **settings})


def parse_settings(assignments: Iterable[str]) -> dict[str, Any]:
    """Reads NAME=VALUE texts, as the command line takes them.

    Lists are written with commas (``seeds=0,1,2``). Values are read as JSON where they are
    JSON and as text elsewhere; ``study_config`` then checks names and types.

    Raises:
        ValueError: if a text has no "=", or a name stands twice.
    """
    settings: dict[str, Any] = {}
    lists = [
        name
        for name, kind in typing.get_type_hints(StudyConfig).items()
        if typing.get_origin(kind) is tuple
    ]
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        name = name.strip()
        if not separator or not name:
            raise ValueError(f"a setting is written NAME=VALUE; got {assignment!r}")
        if name in settings:
            raise ValueError(f"setting {name!r} is given twice")
        if name in lists:
            items = text.strip().removeprefix("[").removesuffix("]").strip().removesuffix(",")
            text = f"[{items}]"
        settings[name] = text
        # JSON wants a digit before the point; people leave out the 0.
        for candidate in (text, re.sub(r"(?<!\d)\.(?=\d)", "0.", text)):
            with suppress(ValueError):
                settings[name] = json.loads(candidate)
                break
    return settings


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: the form that configs are hashed in."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
