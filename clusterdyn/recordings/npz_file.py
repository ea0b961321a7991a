"""Trajectories from an NPZ file.

It holds ``states`` and ``controls`` and, if it likes, ``time_step``, ``state_names`` and
``control_names``: either (N, L, p) and (N, L - 1, q) for trajectories of one length, or (rows, p)
and (rows, q) with ``trajectory`` (rows,), its number, as in a CSV file.
"""

import zipfile
from typing import Any

import numpy as np

from clusterdyn.recordings.recording import Recording, check_memory

_ARRAYS = ("states", "controls", "trajectory", "time_step", "state_names", "control_names")


def read_npz(path: str) -> Recording:
    """Reads an NPZ file; objects in it are never unpickled.

    Raises:
        ValueError: in a sentence that names array and place.
    """
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is no NPZ file, or a damaged one")
    try:
        with np.load(path, allow_pickle=False) as data:
            missing = [name for name in ("states", "controls") if name not in data.files]
            if missing:
                raise ValueError(
                    f"{path} has no array {missing[0]!r}; it holds "
                    f"{', '.join(data.files) or 'none'}"
                )
            unknown = [name for name in data.files if name not in _ARRAYS]
            if unknown:
                raise ValueError(
                    f"{path} holds an array {unknown[0]!r}; the known ones are {', '.join(_ARRAYS)}"
                )
            sizes = [data.zip.getinfo(f"{name}.npy").file_size for name in data.files]
            check_memory(path, sum(sizes))
            arrays = {name: _array(path, name, data) for name in data.files}
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"{path} is a damaged NPZ file: {error}") from None
    states, controls = (_finite(path, name, arrays[name]) for name in ("states", "controls"))
    if "trajectory" in arrays:
        groups = _groups(path, arrays["trajectory"], states, controls)
    else:
        groups = _equal_lengths(path, states, controls)
    names = [
        _names(path, arrays, "state_names", states.shape[-1], "state"),
        _names(path, arrays, "control_names", controls.shape[-1], "control"),
    ]
    return Recording(path, *groups, *names, _time_step(path, arrays.get("time_step")))


def _array(path: str, name: str, data: Any) -> np.ndarray:
    try:
        return data[name]
    except ValueError as error:
        if "pickle" not in str(error).lower():
            raise ValueError(f"{path}, array {name!r}: {error}") from None
        raise ValueError(
            f"{path}, array {name!r} holds Python objects, which are never read, since reading "
            "them could run code; save numbers, with 'trajectory' for ragged lengths"
        ) from None


def _finite(path: str, name: str, values: np.ndarray) -> np.ndarray:
    if not (np.issubdtype(values.dtype, np.floating) or np.issubdtype(values.dtype, np.integer)):
        raise ValueError(f"{path}, array {name!r}: numbers are needed; got {values.dtype}")
    values = values.astype(np.float64)
    if values.ndim not in (2, 3) or not values.size:
        raise ValueError(
            f"{path}, array {name!r}: the shape must be (N, L, channels), or (rows, channels) with "
            f"an array 'trajectory'; got {values.shape}"
        )
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        where = ", ".join(map(str, bad[0]))
        raise ValueError(
            f"{path}, array {name!r} at [{where}]: {values[tuple(bad[0])]} is not finite"
        )
    return values


def _equal_lengths(
    path: str, states: np.ndarray, controls: np.ndarray
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    wanted = (states.shape[0], states.shape[1] - 1)
    if states.ndim != 3 or controls.ndim != 3 or controls.shape[:2] != wanted:
        raise ValueError(
            f"{path}: states (N, L, p) go with controls (N, L - 1, q); got {states.shape} and "
            f"{controls.shape}. For ragged lengths give rows and an array 'trajectory'"
        )
    return tuple(states), tuple(controls)


def _groups(
    path: str, trajectory: np.ndarray, states: np.ndarray, controls: np.ndarray
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    rows = len(trajectory)
    if (
        trajectory.ndim != 1
        or states.ndim != 2
        or controls.ndim != 2
        or not (rows == len(states) == len(controls))
    ):
        raise ValueError(
            f"{path}: with an array 'trajectory' (rows,) go states (rows, p) and controls "
            f"(rows, q); got {trajectory.shape}, {states.shape} and {controls.shape}"
        )
    starts = np.flatnonzero(np.r_[True, trajectory[1:] != trajectory[:-1]])
    if len(np.unique(trajectory[starts])) < len(starts):
        raise ValueError(
            f"{path}, array 'trajectory': a number comes back after another one; sort it"
        )
    parts = np.split(np.arange(rows), starts[1:])
    short = next((part[0] for part in parts if len(part) < 2), None)
    if short is not None:
        raise ValueError(
            f"{path}, array 'trajectory' at [{short}]: one row; a trajectory needs two"
        )
    return tuple(states[part] for part in parts), tuple(controls[part[:-1]] for part in parts)


def _names(
    path: str, arrays: dict[str, np.ndarray], name: str, count: int, kind: str
) -> tuple[str, ...]:
    if name not in arrays:
        return tuple(f"{kind} {number}" for number in range(1, count + 1))
    found = arrays[name]
    if found.dtype.kind != "U" or found.shape != (count,):
        raise ValueError(
            f"{path}, array {name!r}: {count} texts are needed; got {found.dtype} of shape "
            f"{found.shape}"
        )
    return tuple(map(str, found))


def _time_step(path: str, value: np.ndarray | None) -> float | None:
    if value is None:
        return None
    if value.shape != () or value.dtype.kind not in "if" or not 0 < float(value) < np.inf:
        raise ValueError(f"{path}, array 'time_step': one positive number is needed; got {value}")
    return float(value)
