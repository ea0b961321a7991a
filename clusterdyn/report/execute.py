"""Runs one notebook from its script, and takes nothing for granted about how it went.

papermill runs the notebook, in this process. It reports a kernel that died, a cell that was cut
off and a ``sys.exit(0)`` as a success, so whether a notebook is finished is read off its outputs
(:mod:`clusterdyn.report.verify`). A notebook that failed is kept aside and never rendered.
"""

import logging
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import papermill
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from clusterdyn.report.kernel import LOG, PinnedKernelManager
from clusterdyn.report.parameters import check_parameters, notebook_title, read_source
from clusterdyn.report.verify import (
    INJECTED,
    Figure,
    NotebookFailure,
    check_finished,
    normalise,
    one_line,
    shown_figures,
    where,
)


@dataclass(frozen=True)
class ExecutedNotebook:
    """A notebook that ran to its end.

    Attributes:
        name: the source's file name without its suffix.
        title: its first heading.
        notebook: the notebook with its outputs; equal runs give equal bytes.
        figures: what it shows, in order.
    """

    name: str
    title: str
    notebook: NotebookNode
    figures: tuple[Figure, ...]


def run_notebook(
    source: Path,
    parameters: Mapping[str, object],
    *,
    workdir: Path,
    failed_dir: Path,
    progress: Callable[[str], None] = print,
    cell_timeout: int = 1200,
) -> ExecutedNotebook:
    """Runs a notebook with parameters.

    Args:
        source: its py:percent script; neither the script nor an ``.ipynb`` beside it is written.
        parameters: values that replace defaults of the script's parameters cell.
        workdir: where the temporary notebook and the kernel's own files go; the kernel's working
            directory, too.
        failed_dir: where a notebook that failed is kept, as ``NAME.ipynb``.
        progress: takes one line of text when a cell starts or prints a line.
        cell_timeout: the longest that one cell may take, in seconds.

    Returns:
        The executed notebook and its figures.

    Raises:
        SourceError: if the source cannot be used (see :func:`read_source`).
        ParameterError: for an unknown parameter or one of the wrong type.
        NotebookFailure: if the notebook did not run to its end, or did not show what it declared.
    """
    source, workdir = Path(source).resolve(), Path(workdir).resolve()
    name = source.stem
    notebook = read_source(source)
    checked = check_parameters(source, parameters)
    workdir.mkdir(parents=True, exist_ok=True)
    converted = workdir / f"{name}.converted.ipynb"
    executed = workdir / f"{name}.executed.ipynb"
    log = workdir / LOG
    for earlier in (executed, log):
        earlier.unlink(missing_ok=True)
    nbformat.write(notebook, converted)

    watch = _Watch(name, notebook, progress)
    try:
        _run_papermill(converted, executed, checked, watch, workdir, cell_timeout)
        result = nbformat.read(executed, as_version=4)
        check_finished(result, name)
    except Exception as error:
        what = _what_happened(error, watch, cell_timeout, log)
        kept = _keep(executed if executed.exists() else converted, Path(failed_dir), name)
        raise NotebookFailure(f"{name} {what}. {kept}") from error
    figures = shown_figures(result)
    watch.say(f"finished, {len(figures)} figure{'' if len(figures) == 1 else 's'}")
    return ExecutedNotebook(
        name=name,
        title=notebook_title(result),
        notebook=normalise(result, checked),
        figures=figures,
    )


@dataclass
class _Watch:
    """Follows a run: which cell it is in, for the terminal and for the message of a failure.

    It also takes the place of papermill's log of what cells print, so that the lines of a long
    cell are seen while it runs.
    """

    name: str
    notebook: NotebookNode
    progress: Callable[[str], None]
    cell: NotebookNode | None = None
    started: float = field(default_factory=time.monotonic)
    _unfinished_line: str = ""

    def cell_starts(self, cell: NotebookNode, cell_index: int) -> None:
        """nbclient's hook, called before each cell of any kind."""
        if cell.cell_type != "code" or INJECTED in cell.metadata.get("tags", []):
            return
        self.cell = cell
        self._unfinished_line = ""
        self.say(where(cell, self.notebook, brief=True))

    def say(self, what: str) -> None:
        self.progress(f"{self.name}  {what}  {time.monotonic() - self.started:.1f} s")

    def write(self, text: str) -> None:
        *lines, self._unfinished_line = (self._unfinished_line + text).split("\n")
        for line in lines:
            if line.strip():
                self.progress(f"{self.name}  | {line}")

    def flush(self) -> None:
        """papermill flushes after each piece of text; a line goes out when it is complete."""


def _run_papermill(
    converted: Path,
    executed: Path,
    parameters: dict[str, object],
    watch: _Watch,
    workdir: Path,
    cell_timeout: int,
) -> None:
    with quiet_tools():
        papermill.execute_notebook(
            _literal(converted),
            _literal(executed),
            parameters=parameters,
            progress_bar=False,
            stdout_file=watch,
            # From here on papermill hands everything to nbclient's NotebookClient.
            execution_timeout=cell_timeout,
            kernel_manager_class=PinnedKernelManager,
            config=Config({"PinnedKernelManager": {"scratch": str(workdir)}}),
            resources={"metadata": {"path": str(workdir)}},  # the kernel's working directory
            on_cell_start=watch.cell_starts,
            record_timing=False,
            store_widget_state=False,
            coalesce_streams=True,  # how printed text is cut into messages is a matter of timing
        )


def _literal(path: Path) -> str:
    # papermill fills parameters into {braces} in its paths.
    return str(path).replace("{", "{{").replace("}", "}}")


@contextmanager
def quiet_tools() -> Iterator[None]:
    """Keeps the tools' own logs and warnings off the terminal; failures are raised anyway."""
    loggers = [logging.getLogger(name) for name in ("papermill", "traitlets", "asyncio")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _what_happened(error: Exception, watch: _Watch, cell_timeout: int, log: Path) -> str:
    if isinstance(error, NotebookFailure):
        return str(error)
    if watch.cell is None:
        last_words = log.read_text(errors="replace").splitlines()[-1:] if log.exists() else []
        reason = " ".join([f"{type(error).__name__}: {error}", *last_words])
        return f"could not start its kernel: {one_line(reason)}"
    place = where(watch.cell, watch.notebook)
    if isinstance(error, PapermillExecutionError):
        return f"failed in {place}: {one_line(f'{error.ename}: {error.evalue}')}"
    if isinstance(error, CellTimeoutError):
        return f"was stopped: {place} took longer than {cell_timeout} s"
    if isinstance(error, DeadKernelError):
        return f"lost its kernel in {place}: the process died (killed, out of memory, or a crash)"
    return f"failed in {place}: {type(error).__name__}: {one_line(str(error))}"


def _keep(notebook: Path, failed_dir: Path, name: str) -> str:
    kept = failed_dir / f"{name}.ipynb"
    try:
        failed_dir.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(notebook, kept)
    except OSError as error:
        return f"The notebook as far as it ran could not be kept in {failed_dir}: {error.strerror}"
    return f"The notebook as far as it ran is kept at {kept}"
