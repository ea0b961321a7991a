"""Settings as frozen dataclasses whose fields keep their types."""

import dataclasses
import math
import typing
from collections import Counter
from collections.abc import Iterable
from typing import Any


def check_types(settings: Any) -> None:
    """Puts each field of a settings dataclass in its own type; called from ``__post_init__``.

    Whole numbers will do for numbers, and lists for tuples.

    Raises:
        ValueError: in a sentence, if a value is of another type or not finite.
    """
    hints = typing.get_type_hints(type(settings))
    for field in dataclasses.fields(settings):
        value = _typed(field.name, hints[field.name], getattr(settings, field.name))
        object.__setattr__(settings, field.name, value)


def check_positive(settings: Any, names: Iterable[str]) -> None:
    """Raises ValueError for a field that is not positive, or a list with an item that is not."""
    for name in names:
        value = getattr(settings, name)
        if isinstance(value, tuple) and not (value and min(value) > 0):
            raise ValueError(f"{name} must be positive and at least one; got {list(value)}")
        if not isinstance(value, tuple) and not value > 0:
            raise ValueError(f"{name} must be positive; got {value}")


def check_seeds(name: str, seeds: tuple[int, ...]) -> None:
    """Raises ValueError for seeds that are no seeds, or too few to form pairs."""
    if len(seeds) < 2:
        raise ValueError(f"{name} must hold at least 2 seeds to form pairs; got {seeds}")
    check_distinct(name, seeds)
    if not all(0 <= seed < 2**63 for seed in seeds):
        raise ValueError(f"{name} must lie between 0 and 2^63 - 1; got {list(seeds)}")


def check_distinct(name: str, values: tuple) -> None:
    """Raises ValueError that names the values that stand more than once."""
    repeats = sorted(value for value, times in Counter(values).items() if times > 1)
    if repeats:
        raise ValueError(
            f"{name} must not repeat: {repeats} stand more than once in {list(values)}"
        )


def _typed(name: str, kind: Any, value: Any) -> Any:
    """The value in its field's type, or a ValueError in a sentence."""
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
        words = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
        raise ValueError(f"{name} must be {words[kind]}; got {value!r}")
    if kind is float and not math.isfinite(value):
        raise ValueError(f"{name} must be finite; got {value}")
    return value
