"""Puts a finished report in place of an earlier one, in one step.

A report is made in a hidden directory beside its place and swapped in when it is complete: the
earlier report is whole until then and the new one from then on, whatever happens in between. A
lock file beside the output lets several runs publish to one place, one after the other.
"""

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MARKERS = ("index.html", "results.json")
"""The files by which a directory is known to be a report."""

_REPORT_SUFFIXES = (".html", ".json", ".svg")  # all that a report is made of
_NOT_CONTENT = (".gitkeep", ".DS_Store")
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


class OutputError(RuntimeError):
    """A report cannot be put where it should go; the message says why and what to do."""


def check_output(output: Path) -> None:
    """Checks that a report can be put into a directory, and would replace nothing else there.

    The directory may be missing, empty, or hold an earlier report. It is not changed.

    Args:
        output: the report's directory.

    Raises:
        OutputError: if it is a file or a mount point, holds something that is no report, or
            cannot be written beside.
    """
    output = Path(output).resolve()
    if output.exists() and not output.is_dir():
        raise OutputError(f"{output} is a file: give a directory for the report")
    if os.path.ismount(output):
        raise OutputError(
            f"{output} is a mount point, which cannot be replaced in one step: "
            "give a directory inside it"
        )
    if output.is_dir():
        _check_replaceable(output)
    _check_writable(output.parent)


@contextmanager
def staging_directory(output: Path) -> Iterator[Path]:
    """Makes an empty directory beside the output, to build a report in.

    It is removed at the end unless :func:`publish` has moved it. Directories that killed runs have
    left are removed first; those of runs that are still alive are let be.

    Args:
        output: the report's directory; missing parents are made.

    Yields:
        The directory, on the output's file system and with its ordinary permissions.

    Raises:
        OutputError: see :func:`check_output`.
    """
    output = Path(output).resolve()
    check_output(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    with _lock(output):
        _recover(output)
        staging = _sibling(output, f"staging-{secrets.token_hex(4)}")
        staging.mkdir()
        # The lock says that the run is alive; the kernel lets go of it when the process ends.
        alive = _hold(staging)
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        os.close(alive)


def publish(staging: Path, output: Path, *, progress: Callable[[str], None] = print) -> None:
    """Swaps a complete report into place; the earlier one is removed afterwards.

    Args:
        staging: the directory that :func:`staging_directory` made for this output.
        output: the report's directory.
        progress: takes a line of text if another run is publishing to the same place.

    Raises:
        OutputError: if the staged report is incomplete, or the output has become something that
            is no report (see :func:`check_output`).
    """
    staging, output = Path(staging), Path(output).resolve()
    missing = [name for name in MARKERS if not (staging / name).is_file()]
    if missing:
        raise OutputError(f"the report to publish in {output} lacks {' and '.join(missing)}")
    with _lock(output, progress):
        _finish_swap(output)
        check_output(output)
        try:
            _swap(staging, output)
        except OSError as error:
            raise OutputError(f"cannot put the report in {output}: {error.strerror}") from error


def _swap(staging: Path, output: Path) -> None:
    if not output.exists():
        staging.rename(output)
    elif _exchange(staging, output):
        shutil.rmtree(staging, ignore_errors=True)
    else:
        output.rename(_sibling(output, "earlier"))
        try:
            staging.rename(output)
        finally:
            _finish_swap(output)


def _check_replaceable(output: Path) -> None:
    if all(path.name in _NOT_CONTENT for path in output.iterdir()):
        return
    if not all((output / name).is_file() for name in MARKERS):
        raise OutputError(
            f"{output} is not empty and holds no report ({' and '.join(MARKERS)}): "
            "give a directory that is new or empty"
        )
    for path in sorted(output.rglob("*")):
        known = path.suffix in _REPORT_SUFFIXES or path.name in _NOT_CONTENT
        if not known and not path.is_dir():
            raise OutputError(
                f"{output} holds {path.relative_to(output)}, which is not a part of a report and "
                "would be lost: move it elsewhere, or give another directory"
            )


def check_directory(directory: Path, purpose: str) -> None:
    """Checks that files could be written in a directory, or that it could be made.

    Args:
        directory: it need not exist, and is not changed.
        purpose: what it is for, as an error should say.

    Raises:
        OutputError: if it is a file, lies below one, or cannot be written.
    """
    directory = Path(directory).resolve()
    if directory.exists() and not directory.is_dir():
        raise OutputError(f"{directory} is a file: give a directory for {purpose}")
    _check_writable(directory)


def check_file(path: Path) -> None:
    """Checks that a file could be written, before the work whose result goes there.

    Raises:
        OutputError: if it is a directory, or its directory does not exist or cannot be written.
    """
    path = Path(path).resolve()
    if path.is_dir():
        raise OutputError(f"{path} is a directory: give the name of a file")
    if not path.parent.exists():
        raise OutputError(f"{path.parent} does not exist, so that {path.name} cannot be written")
    _check_writable(path.parent)


def _check_writable(directory: Path) -> None:
    existing = directory
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        raise OutputError(f"{existing} is a file, so that {directory} cannot be made")
    probe = existing / f".clusterdyn-{secrets.token_hex(4)}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise OutputError(f"cannot write in {existing}: {error.strerror}") from error


def _sibling(output: Path, kind: str) -> Path:
    return output.with_name(f".{output.name}.{kind}")


@contextmanager
def _lock(output: Path, progress: Callable[[str], None] | None = None) -> Iterator[None]:
    path = _sibling(output, "lock")
    told = progress is None
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                progress(f"waiting for another run that is publishing to {output}")
                told = True
            fcntl.flock(handle, fcntl.LOCK_EX)
        # Whoever held the lock has removed the file: make, or wait for, the next one.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                break
        os.close(handle)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _hold(directory: Path) -> int | None:
    """Locks a directory; ``None`` if another process holds it."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _recover(output: Path) -> None:
    """Cleans up after runs that were killed; called under the lock."""
    _finish_swap(output)
    prefix = _sibling(output, "staging-").name
    for leftover in output.parent.iterdir():
        if leftover.name.startswith(prefix):
            with suppress(FileNotFoundError):  # its run is just removing it
                handle = _hold(leftover)
                if handle is not None:
                    shutil.rmtree(leftover, ignore_errors=True)
                    os.close(handle)


def _finish_swap(output: Path) -> None:
    """Ends a swap by two renames: removes the earlier report, or puts it back without a new one."""
    earlier = _sibling(output, "earlier")
    if not earlier.exists():
        return
    if output.exists():
        shutil.rmtree(earlier, ignore_errors=True)
    else:
        earlier.rename(output)


def _exchange(first: Path, second: Path) -> bool:
    """Swaps two directories atomically; ``False`` where system or file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    result = renameat2(
        _AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE
    )
    if result == 0:
        return True
    code = ctypes.get_errno()
    if code in _NO_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), str(second))
