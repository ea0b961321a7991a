"""Trajectories from a CSV file in long form, a row an instant.

Its columns are ``trajectory``, ``time``, those that begin with ``state:`` and those that begin with
``control:``; what follows the colon is the channel's name, units included. A control is held from
its row's instant to the next; that of a trajectory's last row is not used and may be empty.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clusterdyn.recordings.recording import Recording, check_memory

TIME_TOLERANCE = 1e-3  # by which an interval may differ from the time step, relative to it
BYTES_READ = 20  # of memory that reading a byte of text takes, about
_STATE, _CONTROL = "state:", "control:"


def read_csv(path: str) -> Recording:
    """Reads a CSV file.

    Raises:
        ValueError: in a sentence that names row and column.
    """
    check_memory(path, BYTES_READ * Path(path).stat().st_size)
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file)
            header = next(rows, None)
            if header is None:
                raise ValueError(f"{path} is empty")
            columns = _columns(path, [name.strip() for name in header])
            table = [_numbers(path, columns, number, row) for number, row in _numbered(rows)]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error.reason})") from None
    except csv.Error as error:
        raise ValueError(f"{path} cannot be read as CSV: {error}") from None
    if not table:
        raise ValueError(f"{path} has a header and no rows")
    return _from_rows(path, columns, [row[0] for row in table], np.array([r[1] for r in table]))


def _numbered(rows: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, by their number in the file."""
    return ((number, row) for number, row in enumerate(rows, start=2) if any(map(str.strip, row)))


@dataclass(frozen=True)
class _Columns:
    """Places of the columns of a CSV file."""

    header: tuple[str, ...]
    trajectory: int
    time: int
    states: tuple[int, ...]
    controls: tuple[int, ...]


def _columns(path: str, header: list[str]) -> _Columns:
    repeats = sorted({name for name in header if header.count(name) > 1})
    if repeats:
        raise ValueError(f"{path}, row 1: column {repeats[0]!r} stands more than once")
    bare = [name.partition("[")[0].strip() for name in header]
    for needed in ("trajectory", "time"):
        if bare.count(needed) != 1:
            raise ValueError(
                f"{path}, row 1: there must be one column {needed!r}; the columns are "
                f"{', '.join(header)}"
            )
    states = tuple(i for i, name in enumerate(header) if name.startswith(_STATE))
    controls = tuple(i for i, name in enumerate(header) if name.startswith(_CONTROL))
    for found, prefix in ((states, _STATE), (controls, _CONTROL)):
        if not found:
            raise ValueError(
                f"{path}, row 1: no column begins with {prefix!r}; name channels as in "
                "'state:angle [rad]' and 'control:torque [N m]'"
            )
    known = {bare.index("trajectory"), bare.index("time"), *states, *controls}
    for place, name in enumerate(header):
        if place not in known:
            raise ValueError(
                f"{path}, row 1: column {name!r} is neither trajectory nor time and begins with "
                f"neither {_STATE!r} nor {_CONTROL!r}; rename or remove it"
            )
    return _Columns(tuple(header), bare.index("trajectory"), bare.index("time"), states, controls)


def _numbers(
    path: str, columns: _Columns, number: int, row: list[str]
) -> tuple[tuple[int, str], list[float]]:
    """A row's place (its number, its trajectory) and its time, states and controls."""
    if len(row) != len(columns.header):
        raise ValueError(
            f"{path}, row {number}: {len(row)} cells, and the header has {len(columns.header)}"
        )
    values = []
    for place in (columns.time, *columns.states, *columns.controls):
        text = row[place].strip()
        if not text and place in columns.controls:
            values.append(np.nan)  # allowed in a trajectory's last row; see _from_rows
            continue
        try:
            value = float(text)
        except ValueError:
            value = None
        if value is None or not np.isfinite(value):
            raise ValueError(
                f"{path}, row {number}, column {columns.header[place]!r}: a finite number is "
                f"needed; got {text!r}"
            )
        values.append(value)
    trajectory = row[columns.trajectory].strip()
    if not trajectory:
        raise ValueError(f"{path}, row {number}, column 'trajectory': it is empty")
    return (number, trajectory), values


def _from_rows(
    path: str, columns: _Columns, places: Sequence[tuple[int, str]], values: np.ndarray
) -> Recording:
    """A recording of long rows: time, states and controls (rows, 1 + p + q)."""
    starts = [0] + [i for i in range(1, len(places)) if places[i][1] != places[i - 1][1]]
    names = [places[start][1] for start in starts]
    if len(set(names)) < len(names):
        again = next(i for i, name in enumerate(names) if name in names[:i])
        raise ValueError(
            f"{path}, row {places[starts[again]][0]}: trajectory {names[again]!r} begins anew "
            "after another one; sort the rows by trajectory, then by time"
        )
    p = len(columns.states)
    states, controls, steps = [], [], []
    for name, start, end in zip(names, starts, [*starts[1:], len(places)], strict=True):
        if end - start < 2:
            raise ValueError(
                f"{path}, row {places[start][0]}: trajectory {name!r} has one row; it needs two"
            )
        part = values[start:end]
        empty = np.argwhere(np.isnan(part[:-1, 1 + p :]))
        if len(empty):
            row, channel = empty[0]
            raise ValueError(
                f"{path}, row {places[start + row][0]}, column "
                f"{columns.header[columns.controls[channel]]!r}: it is empty, which is allowed in "
                "the last row of a trajectory alone"
            )
        steps.append(np.diff(part[:, 0]))
        states.append(part[:, 1 : 1 + p])
        controls.append(part[:-1, 1 + p :])
    step = float(np.median(np.concatenate(steps)))
    for start, gaps in zip(starts, steps, strict=True):
        if (gaps <= 0).any():
            row = places[start + 1 + int(np.argmax(gaps <= 0))][0]
            raise ValueError(
                f"{path}, row {row}, column 'time': it does not rise from the row before"
            )
        uneven = np.abs(gaps / step - 1) > TIME_TOLERANCE
        if uneven.any():
            place = int(np.argmax(uneven))
            raise ValueError(
                f"{path}, row {places[start + 1 + place][0]}, column 'time': a step of "
                f"{gaps[place]:g} among steps of {step:g}; resample the trajectory to equal steps"
            )
    return Recording(
        path,
        tuple(states),
        tuple(controls),
        tuple(columns.header[i].removeprefix(_STATE).strip() for i in columns.states),
        tuple(columns.header[i].removeprefix(_CONTROL).strip() for i in columns.controls),
        step,
    )
