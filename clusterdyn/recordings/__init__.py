"""Trajectories that users bring, from ``.npz`` and ``.csv`` files."""

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from clusterdyn.recordings.csv_file import read_csv
from clusterdyn.recordings.npz_file import read_npz
from clusterdyn.recordings.recording import Recording, recorded_dataset

__all__ = [
    "PENDULUM",
    "Recording",
    "pinned_data",
    "read_recording",
    "recorded_dataset",
    "recording_of",
]


PENDULUM = "pendulum"  # the study's own simulator


def pinned_data(text: str) -> str:
    """The text of a config's data that says all that it depends on.

    Args:
        text: ``pendulum``, the path of a file, or ``recording(path=PATH, sha256=DIGITS)``.

    Returns:
        The last form for a file, with its absolute path.

    Raises:
        ValueError: if the file cannot be read.
    """
    if text == PENDULUM or _PINNED.fullmatch(text):
        return text
    return f"recording(path={Path(text).resolve()}, sha256={recording_hash(text)})"


def recording_of(text: str) -> Recording | None:
    """The recording of a pinned text, or None for the study's own simulator.

    Raises:
        ValueError: as ``read_recording``.
    """
    if text == PENDULUM:
        return None
    return read_recording(*_PINNED.fullmatch(text).groups())


_PINNED = re.compile(r"recording\(path=(.*), sha256=([0-9a-f]+)\)")


def recording_hash(path: str | Path) -> str:
    """SHA-256 of a file, 12 hexadecimal digits.

    Raises:
        ValueError: if it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise ValueError(f"cannot read the trajectories in {str(path)!r}: {error}") from None
    return digest.hexdigest()[:12]


def read_recording(path: str, sha256: str = "") -> Recording:
    """Reads a file of trajectories; kept, since every arm of a process needs the same.

    Args:
        path: of an ``.npz`` or ``.csv`` file.
        sha256: the first digits that the hash of the file must have, if any.

    Raises:
        ValueError: in a sentence that names file, row and column, for whatever is wrong with it.
    """
    found = recording_hash(path)
    if not found.startswith(sha256):
        raise ValueError(
            f"the trajectories in {path!r} are no longer those that this study began with (sha256 "
            f"{sha256}, now {found}); start it anew"
        )
    return _read(path, found)


@lru_cache(maxsize=4)
def _read(path: str, sha256: str) -> Recording:
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        return read_npz(path)
    if suffix == ".csv":
        return read_csv(path)
    raise ValueError(
        f"trajectories are read from .npz and .csv files; got {path!r}. The README has a recipe "
        "for other formats"
    )
