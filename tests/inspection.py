"""Looking into reports, studies and figures: what several test modules share."""

import copy
from pathlib import Path


def places(value, path=()) -> list[tuple]:
    """The path of every leaf and of every object and list in a report of JSON."""
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return [path]
    return [path, *(place for key, item in items for place in places(item, (*path, key)))]


def at(report, path: tuple):
    """The value at a place of a report."""
    for key in path:
        report = report[key]
    return report


def put(report: dict, path: tuple, value) -> dict:
    """A copy of the report with another value at one place."""
    report = copy.deepcopy(report)
    at(report, path[:-1])[path[-1]] = value
    return report


def changed(study, **members):
    """A copy of a study in which some members are replaced."""
    other = copy.copy(study)
    for name, value in members.items():
        setattr(other, name, value)
    return other


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def lines(axis, *, marker: str = "None", style: str | None = None) -> list:
    """The lines of an axis of one marker and line style that have points, in the order drawn."""
    return [
        line
        for line in axis.lines
        if line.get_marker() == marker
        and style in (None, line.get_linestyle())
        and len(line.get_xdata()) > 0
    ]


def bars(axis) -> list:
    """The two ends, (x, y), of every error bar of an axis."""
    return [tuple(container.lines[2][0].get_segments()[0]) for container in axis.containers]
