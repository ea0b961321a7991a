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
    "side_rates": (0.01, 0.0316, 0.1),
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
    "other_graphs": ("torus", "complete"),
    "other_partitions": ("strided", "coloring"),
    "other_clusters": (2,),
    "other_nodes": (16,),
    "other_nodes_trajectories": 40,
    "other_nodes_batch": 20,
    "other_nodes_epochs": 1,
    "other_sweeps": (1, 6),
    "other_relaxations": (1.0,),
    "law_seeds": 2,
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

_PARTS = {
    "study": (StudyConfig, "the study"),
    "strict": (StrictConfig, "the strict protocol"),
    "learning": (QLearningConfig, "learned schedules"),
    "limits": (LimitsConfig, "the experiments beyond the published setting"),
    "cost": (CostConfig, "the cost measurements"),
}
# What each profile changes of the defaults; a part that it does not name is not run.
PROFILES: dict[str, dict[str, dict[str, Any]]] = {
    "quick": {
        "study": _QUICK,
        "strict": _QUICK_STRICT,
        "learning": _QUICK_LEARNING,
        "limits": _QUICK_LIMITS,
        "cost": _QUICK_COST,
    },
    "reference": {"study": {}},
    "full": {part: {} for part in _PARTS},
}


def study_config(profile: str, settings: Mapping[str, Any] | None = None) -> StudyConfig:
    """A profile's study settings with some of them replaced.

    Args:
        profile: quick, reference or full.
        settings: names of fields, of this config or of those of other parts, which are passed
            over, to values of the field's own type.

    Raises:
        ValueError: for an unknown profile or field, a wrong type or a value out of range.
    """
    return _config("study", profile, settings)


def strict_config(profile: str, settings: Mapping[str, Any] | None = None) -> StrictConfig | None:
    """A profile's settings of the strict protocol, or None where it has none.

    Args:
        profile, settings: as in ``study_config``.

    Raises:
        ValueError: as in ``study_config``, and for a setting of this part in a profile that does
            not run it.
    """
    return _config("strict", profile, settings)


def learning_config(
    profile: str, settings: Mapping[str, Any] | None = None
) -> QLearningConfig | None:
    """A profile's settings of learned schedules, as ``strict_config``."""
    return _config("learning", profile, settings)


def limits_config(profile: str, settings: Mapping[str, Any] | None = None) -> LimitsConfig | None:
    """A profile's settings of the places beyond the published one, as ``strict_config``."""
    return _config("limits", profile, settings)


def cost_config(
    profile: str, settings: Mapping[str, Any] | None = None, *, needed: bool = False
) -> CostConfig | None:
    """A profile's settings of the cost measurements, as ``strict_config``.

    Args:
        profile, settings: as in ``study_config``.
        needed: takes the defaults where the profile has none.
    """
    return _config("cost", profile, settings, needed=needed)


def _config(
    part: str, profile: str, settings: Mapping[str, Any] | None, *, needed: bool = False
) -> Any:
    """A part's config under a profile, or None where the profile does not run it."""
    if profile not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}; got {profile!r}")
    given = _of_part(part, settings or {})
    defaults = PROFILES[profile].get(part, {} if needed else None)
    kind, words = _PARTS[part]
    if defaults is not None:
        return kind(**{**defaults, **given})
    if given:
        raise ValueError(
            f"{', '.join(given)} belong to {words}, which profile {profile!r} does not run; use "
            "profile full"
        )
    return None


def _of_part(part: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that belong to a part."""
    names = {
        other: [field.name for field in dataclasses.fields(kind)]
        for other, (kind, _) in _PARTS.items()
    }
    known = [name for group in names.values() for name in group]
    for name in settings:
        if name not in known:
            raise ValueError(f"unknown setting {name!r}; the settings are {', '.join(known)}")
    return {name: value for name, value in settings.items() if name in names[part]}


_OUTER_COMMA = re.compile(r",(?![^()]*\))")  # none within round brackets


def parse_settings(assignments: Iterable[str]) -> dict[str, Any]:
    """Reads NAME=VALUE texts, as the command line takes them.

    Lists are written with commas (``seeds=0,1,2``); a comma in round brackets belongs to the text
    around it. Values are read as JSON where they are JSON and as text elsewhere; ``study_config``
    then checks names and types.

    Raises:
        ValueError: if a text has no "=", or a name stands twice.
    """
    settings: dict[str, Any] = {}
    lists = {
        name: typing.get_args(kind)[0]
        for config, _ in _PARTS.values()
        for name, kind in typing.get_type_hints(config).items()
        if typing.get_origin(kind) is tuple
    }
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
            if lists[name] is str and '"' not in items:
                text = json.dumps([item.strip() for item in _OUTER_COMMA.split(items) if items])
        settings[name] = text
        # JSON wants a digit before the point; people leave out the 0.
        for candidate in (text, re.sub(r"(?<!\d)\.(?=\d)", "0.", text)):
            with suppress(ValueError):
                settings[name] = json.loads(candidate)
                break
    return settings
