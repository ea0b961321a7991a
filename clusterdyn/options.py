"""Texts such as ``histogram(ties=oldest)``: a name, perhaps with options."""

import re
from collections.abc import Mapping

# What an option may be: some words, or the ends of a range of numbers (whole ones if both ends
# are), or any text.
Allowed = tuple[str, ...] | tuple[float, float] | tuple[int, int] | type[str]


def name_of(text: str) -> str:
    """The name in a text, without options."""
    return text.split("(")[0].strip()


def written_options(text: str, what: str) -> dict[str, str]:
    """Options as they stand in ``name(option=value, option=value)``.

    Args:
        text: as the user wrote it.
        what: names the kind of thing in errors, such as "schedule".

    Raises:
        ValueError: if it is not of this form, or an option stands twice.
    """
    match = re.fullmatch(r"\s*\w+\s*(?:\((.*)\))?\s*", text)
    if match is None:
        raise ValueError(f"a {what} is written NAME or NAME(OPTION=VALUE, ...); got {text!r}")
    options: dict[str, str] = {}
    for part in filter(None, map(str.strip, (match[1] or "").split(","))):
        name, _, value = map(str.strip, part.partition("="))
        if name in options:
            raise ValueError(f"in {text!r}, option {name!r} is given twice")
        options[name] = value
    return options


def parse_options(
    text: str, what: str, allowed: Mapping[str, Allowed]
) -> dict[str, str | float | int]:
    """The options of a text, checked.

    Args:
        text, what: as in ``written_options``.
        allowed: of each option.

    Raises:
        ValueError: as ``written_options``, for an unknown option, and for a value out of range.
    """
    options: dict[str, str | float | int] = {}
    for name, value in written_options(text, what).items():
        if name not in allowed:
            known = ", ".join(allowed) or "none"
            raise ValueError(f"{what} {text!r} has no option {name!r}; its options are: {known}")
        options[name] = _value(text, name, value, allowed[name])
    return options


def _value(text: str, name: str, value: str, allowed: Allowed) -> str | float | int:
    if allowed is str:
        return value
    if isinstance(allowed[0], str):
        if value not in allowed:
            raise ValueError(f"in {text!r}, {name} must be one of {', '.join(allowed)}")
        return value
    low, high = allowed
    kind, noun = (int, "whole number") if isinstance(low, int) else (float, "number")
    try:
        number = kind(value)
    except ValueError:
        number = float("nan")
    if not low <= number <= high:
        raise ValueError(f"in {text!r}, {name} must be a {noun} from {low:g} to {high:g}")
    return number
