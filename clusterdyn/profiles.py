"""Three profiles of the study, and settings that replace some of a profile's, strictly."""

import dataclasses
import json
import re
import typing
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from clusterdyn.bench.config import CostConfig
from clusterdyn.config import StudyConfig
from clusterdyn.limits.config import LimitsConfig
from clusterdyn.qlearning.config import QLearningConfig
from clusterdyn.strict.config import StrictConfig

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

_QUICK_STRICT: dict[str, Any] = {
    "selection_rates": (0.01, 0.0316, 0.1),
    "grid_extensions": 0,
    "selection_seeds": (0, 1),
    "test_seeds": (100, 101, 102),
    "side_selection_seeds": 2,
    "side_test_seeds": 2,
    "work_budgets": (6, 24),
    "horizons": (4, 6),
    "epoch_budgets": (3, 4),
    "noise_levels": (0.5, 1.0),
    "test_relaxations": (0.25, 0.5, 1.0),
}

_QUICK_LEARNING: dict[str, Any] = {
    "passes": 6,
    "scored_passes": 2,
    "epoch_passes": 1,
    "edge_trajectories": 10,
    "ordered_test_seeds": 2,
}

_QUICK_LIMITS: dict[str, Any] = {
    "graphs": ("torus", "complete"),
    "partitions": ("strided", "coloring"),
    "clusters": (2,),
    "nodes": (16,),
    "node_epochs": 1,
    "sweeps": (1, 6),
    "relaxations": (1.0,),
    "law_seeds": 2,
    "rates": (0.01, 0.0316, 0.1),
}

_QUICK_COST: dict[str, Any] = {
    "cost_repeats": 2,
    "cost_peers": "plain",
    "long_horizon": 6,
    "long_batch_size": 12,
    "sweep_cluster_nodes": 4,
    "sweep_populations": (2, 4),
    "scaling_population": 2,
    "scaling_populations": (1, 2, 4, 8),
    "scaling_nodes": (8, 16, 32, 64),
    "scaling_horizons": (1, 2, 4),
    "scaling_batch_sizes": (5, 10, 20),
    "scaling_sweeps": (1, 2, 4),
    "scaling_seconds": 0.002,
    "chunk_population": 16,
    "chunk_models": (2, 8),
    "wall_clock_nodes": (16, 64),
    "wall_clock_batch_sizes": (5, 20),
    "wall_clock_seconds": 0.002,
}

# What each profile changes of the study's settings, and of those of the strict protocol and of the
# cost measurements where it has them.
PROFILES: dict[str, tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]] = {
    "quick": (_QUICK, _QUICK_STRICT, _QUICK_COST),
    "reference": ({}, None, None),
    "full": ({}, {}, {}),
}
_CONFIGS = (StudyConfig, StrictConfig, CostConfig)


def study_config(profile: str, settings: Mapping[str, Any] | None = None) -> StudyConfig:
    """A profile's study settings with some of them replaced.

    Args:
        profile: quick, reference or full.
        settings: field names of ``StudyConfig`` (or of ``StrictConfig`` and ``CostConfig``, which
            are passed over) to values of the field's own type.

    Raises:
        ValueError: for an unknown profile or field, a wrong type or a value out of range.
    """
    study, _, _ = _split(profile, settings)
    return StudyConfig(**{**PROFILES[profile][0], **study})


def strict_config(profile: str, settings: Mapping[str, Any] | None = None) -> StrictConfig | None:
    """A profile's settings of the strict protocol, or None where it has none.

    Args:
        profile: quick, reference or full.
        settings: as in ``study_config``.

    Raises:
        ValueError: as in ``study_config``, and for a setting of the strict protocol in a profile
            that does not run it.
    """
    _, strict, _ = _split(profile, settings)
    defaults = PROFILES[profile][1]
    if defaults is not None:
        return StrictConfig(**{**defaults, **strict})
    if strict:
        raise ValueError(
            f"{', '.join(strict)} belong to the strict protocol, which profile {profile!r} does "
            "not run; use profile full"
        )
    return None


def learning_config(profile: str) -> QLearningConfig | None:
    """A profile's settings of learned schedules, or None where there is no strict protocol.

    Args:
        profile: quick, reference or full.

    Raises:
        ValueError: for an unknown profile.
    """
    if strict_config(profile) is None:
        return None
    return QLearningConfig(**(_QUICK_LEARNING if profile == "quick" else {}))


def limits_config(profile: str) -> LimitsConfig | None:
    """A profile's settings of the places beyond the published one, or None where it has none.

    Args:
        profile: quick, reference or full.

    Raises:
        ValueError: for an unknown profile.
    """
    if strict_config(profile) is None:
        return None
    return LimitsConfig(**(_QUICK_LIMITS if profile == "quick" else {}))


def cost_config(
    profile: str, settings: Mapping[str, Any] | None = None, *, needed: bool = False
) -> CostConfig | None:
    """A profile's settings of the cost measurements, or None where it has none.

    Args:
        profile: quick, reference or full.
        settings: as in ``study_config``.
        needed: takes the defaults where the profile has none.

    Raises:
        ValueError: as in ``study_config``, and for a setting of the cost measurements in a
            profile that does not make them.
    """
    _, _, given = _split(profile, settings)
    defaults = PROFILES[profile][2]
    if defaults is None and needed:
        defaults = {}
    if defaults is not None:
        return CostConfig(**{**defaults, **given})
    if given:
        raise ValueError(
            f"{', '.join(given)} belong to the cost measurements, which profile {profile!r} does "
            "not make; use profile full"
        )
    return None


def _split(profile: str, settings: Mapping[str, Any] | None) -> tuple[dict[str, Any], ...]:
    """Settings of the study, those of the strict protocol, and those of the cost measurements."""
    if profile not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}; got {profile!r}")
    settings = dict(settings or {})
    names = [[field.name for field in dataclasses.fields(kind)] for kind in _CONFIGS]
    known = [name for group in names for name in group]
    for name in settings:
        if name not in known:
            raise ValueError(f"unknown setting {name!r}; the settings are {', '.join(known)}")
    return tuple(
        {name: value for name, value in settings.items() if name in group} for group in names
    )


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
        for config in _CONFIGS
        for name, kind in typing.get_type_hints(config).items()
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
