"""Schedules that users bring, written ``package.module:Class``.

The module is imported from Python's path or from the working directory, and nothing but it. A class
from a notebook cell, ``__main__:Class``, is known to its own process alone.
"""

import hashlib
import importlib
import inspect
import re
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from clusterdyn.schedules.base import Schedule

CELL = "__main__"  # the module of what a notebook cell or a script defines
_SOURCES: dict[type, str] = {}  # as each class was when it was first asked for


def is_own(text: str) -> bool:
    """Whether a text names a class and not one of the package's schedules."""
    return ":" in text.partition("(")[0]


def own_name(schedule: str | type[Schedule]) -> str:
    """A schedule as text: a class by its module and name."""
    if isinstance(schedule, str):
        return schedule
    return f"{schedule.__module__}:{schedule.__qualname__}"


def only_here(text: str) -> bool:
    """Whether no other process can import a schedule, since a notebook cell defines it."""
    return text.startswith(f"{CELL}:")


def own_class(text: str) -> type[Schedule]:
    """The class that a text names.

    Args:
        text: ``package.module:Class``.

    Raises:
        ValueError: if the text has another form, the module cannot be imported, or there is no
            such class in it, or it is no ``Schedule``.
    """
    match = re.fullmatch(r"\s*([\w.]+):([\w.]+)\s*", text)
    if match is None:
        raise ValueError(
            "a schedule of your own is written package.module:Class, without options (give its "
            f"constructor defaults instead); got {text!r}"
        )
    found: object = _module(match[1], text)
    for name in match[2].split("."):
        found = getattr(found, name, None)
    if found is None:
        raise ValueError(f"schedule {text!r}: module {match[1]} has no {match[2]}")
    if not isinstance(found, type) or not issubclass(found, Schedule):
        raise ValueError(
            f"schedule {text!r}: {match[2]} is not a subclass of clusterdyn.schedules.Schedule"
        )
    return found


def _module(name: str, text: str) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # worker processes get it from here
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise ValueError(
                f"schedule {text!r}: there is no module {error.name} on Python's path or in {here}"
            ) from error
        raise ValueError(f"schedule {text!r}: importing {name} failed: {error}") from error
    except Exception as error:
        raise ValueError(
            f"schedule {text!r}: importing {name} failed: {type(error).__name__}: {error}"
        ) from error


def own_schedule(text: str, setting: Mapping[str, object]) -> Schedule:
    """Builds a schedule of a user's.

    Args:
        text: as of ``own_class``.
        setting: what the study has to offer, by name: its constructor gets what it asks for.

    Raises:
        ValueError: as ``own_class``, or if the class cannot be built of the setting.
    """
    return build(own_class(text), text.strip(), setting)


def build(kind: type[Schedule], name: str, setting: Mapping[str, object]) -> Schedule:
    """Builds a schedule from its class.

    Args:
        kind: the class.
        name: what reports call it.
        setting: as of ``own_schedule``.

    Raises:
        ValueError: if the constructor asks for something else, fails, or leaves out the base
            class's.
    """
    asked = inspect.signature(kind).parameters.values()
    given = {p.name: setting[p.name] for p in asked if p.name in setting}
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for parameter in asked:
        without = parameter.default is inspect.Parameter.empty and parameter.kind not in fixed
        if without and parameter.name not in setting:
            raise ValueError(
                f"schedule {name!r}: its constructor asks for {parameter.name!r}, which has no "
                f"default and is none of {', '.join(setting)}"
            )
    if "partition" not in given and any(p.kind in fixed for p in asked):
        given["partition"] = setting["partition"]
    try:
        schedule = kind(**given)
    except Exception as error:
        raise ValueError(
            f"schedule {name!r} cannot be built: {type(error).__name__}: {error}"
        ) from error
    if not hasattr(schedule, "partition"):
        raise ValueError(
            f"schedule {name!r} has no partition: its constructor must call "
            "super().__init__(partition)"
        )
    schedule.name = name
    return schedule


def own_source(text: str) -> str:
    """What decides the behaviour of a schedule of a user's beside its text, for keys of artifacts.

    Returns:
        The sha256 of its module's file. Where there is none, as for a notebook cell, whose class
        may depend on other cells, a text that no other process and no other class has.
    """
    kind = own_class(text)
    if kind not in _SOURCES:
        path = getattr(sys.modules[kind.__module__], "__file__", None)
        if path is None or only_here(text):
            _SOURCES[kind] = f"unsaved {uuid.uuid4().hex}"
        else:
            _SOURCES[kind] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return _SOURCES[kind]
