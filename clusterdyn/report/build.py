"""Builds a whole report: results, notebooks, pages, and the swap into place."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clusterdyn import __version__
from clusterdyn.artifacts import default_root
from clusterdyn.config import StudyConfig
from clusterdyn.execution import available_cores, workers_of
from clusterdyn.protocol import Study, open_study
from clusterdyn.provenance import source_commit
from clusterdyn.recordings import recording_of
from clusterdyn.report.execute import ExecutedNotebook, quiet_tools, run_notebook
from clusterdyn.report.html import (
    render_notebook_page,
)
from clusterdyn.report.index import render_index
from clusterdyn.report.parameters import SourceError, check_parameters
from clusterdyn.report.publish import (
    check_directory,
    check_output,
    publish,
    staging_directory,
)
from clusterdyn.report.results import (
    NOTEBOOKS,
    bench_report_of,
    dump,
    results_of,
)
from clusterdyn.report.svg import figure_file
from clusterdyn.schedules.own import is_own

STRICT_NOTEBOOKS = (
    "05_schedules",
    "06_protocol",
    "07_why",
    "09_learned",
    "10_limits",
    "11_gru",
    "20_own_schedule",
)
COST_NOTEBOOKS = ("08_cost",)
SIMULATOR_NOTEBOOK, RECORDING_NOTEBOOK = "01_data", "01_recording"
PINNED = ("data", "graph")  # settings that may name a file


def build_report(
    profile: str,
    settings: Mapping[str, Any],
    output: Path,
    *,
    artifacts: Path | None = None,
    executor: Executor | None = None,
    progress: Callable[[str], None] = print,
) -> Path:
    """Makes a report and puts it in place of an earlier one, whole or not at all.

    Args:
        profile: quick, reference or full.
        settings: fields of the config to replace.
        output: the report's directory.
        artifacts: where trained models are kept; ``artifacts`` beside the package by default.
        executor: trains populations side by side; on this machine's cores by default.
        progress: called with one line a piece of work.

    Returns:
        The path of ``index.html``.

    Raises:
        ValueError: for bad settings.
        OutputError: if output or artifacts cannot be written, or the output is something else
            than a report.
        NotebookFailure: if a notebook did not run to its end; the earlier report is untouched.
        WorkersLost, DifferentInstallation: if the executor's workers did not do their work.
    """
    started = time.monotonic()

    def say(line: str) -> None:
        progress(f"[{time.monotonic() - started:6.1f} s] {line}")

    output = Path(output).resolve()
    root = Path(artifacts).resolve() if artifacts else default_root()
    study = open_study(profile, dict(settings), root, executor=executor, progress=say)
    check_output(output)
    check_directory(root, "the artifacts")
    # Kernels have working directories of their own: paths of files are given as they were found.
    pinned = {name: getattr(study.config, name) for name in PINNED if name in settings}
    parameters = {
        "profile": profile,
        "settings": {**settings, **pinned},
        "artifacts": str(root),
    }
    sources = notebook_sources(
        strict=study.strict_config is not None,
        cost=study.cost_config is not None,
        recorded=recording_of(study.config.data) is not None,
    )
    for source in sources:
        check_parameters(source, parameters)
    with staging_directory(output) as staging:
        say(f"report: {study.label}; {len(sources)} notebooks; to {output}")
        # Computed here, so that the terminal shows the work and no notebook waits for another's.
        files = {"bench_report.json": dump(bench_report_of(study))}
        if study.learning_config is not None:
            with workers_of(executor) as study.executor:  # started once for all that is trained
                _compute_all(study)
        files["results.json"] = dump(results := results_of(study))
        with (
            tempfile.TemporaryDirectory(prefix="clusterdyn-") as scratch,
            _own_modules_in_sight(study.config),
        ):
            executed = run_notebooks(
                sources, parameters, workdir=Path(scratch), failed_dir=root / "failed", progress=say
            )
        pages = [("index.html", "Verdict"), *((f"{e.name}.html", e.title) for e in executed)]
        footer = (
            f"clusterdyn {__version__}. Settings: {study.label}. Commit: {source_commit()}. "
            "Made by the notebooks, from the artifacts that results.json names."
        )
        for notebook in executed:
            files[f"{notebook.name}.html"] = render_notebook_page(
                notebook, pages=pages, footer=footer
            )
            for figure in notebook.figures:
                files[f"figures/{figure.name}.svg"] = figure_file(figure.svg)
        files["index.html"] = render_index(study, results, executed, pages=pages, footer=footer)
        for name, text in files.items():
            path = staging / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        publish(staging, output, progress=say)
    say(f"report: done, {len(files)} files; open {output / 'index.html'}")
    return output / "index.html"


@contextmanager
def _own_modules_in_sight(config: StudyConfig) -> Iterator[None]:
    """Lets kernels, which run in directories of their own, import a user's schedule from here."""
    if not (is_own(config.schedule) or is_own(config.baseline)):
        yield
        return
    name, before = "PYTHONPATH", os.environ.get("PYTHONPATH")
    os.environ[name] = os.pathsep.join(filter(None, [str(Path.cwd()), before]))
    try:
        yield
    finally:
        del os.environ[name]
        os.environ |= {name: before} if before is not None else {}


def _compute_all(study: Study) -> None:
    """Everything that is trained and told of it; claims of one part while the next is trained."""
    with ThreadPoolExecutor(1) as beside:
        parts = (study.strict_study, study.learned, study.limits)
        claims = []
        for part in parts:
            _ = part.result
            claims.append(beside.submit(lambda part=part: part.claims))
        for found in claims:
            found.result()


def run_notebooks(
    sources: Sequence[Path],
    parameters: Mapping[str, Any],
    *,
    workdir: Path,
    failed_dir: Path,
    progress: Callable[[str], None] = print,
) -> list[ExecutedNotebook]:
    """Runs notebooks side by side, as many at a time as there are cores.

    Args:
        sources, parameters, failed_dir, progress: as of :func:`run_notebook`.
        workdir: holds a directory for each.

    Returns:
        The executed notebooks in the order of their sources.

    Raises:
        NotebookFailure: of the first that failed; those that had not begun are not run.
    """
    with quiet_tools(), ThreadPoolExecutor(available_cores()) as pool:
        runs = [
            pool.submit(
                run_notebook,
                source,
                parameters,
                workdir=Path(workdir) / source.stem,
                failed_dir=failed_dir,
                progress=progress,
            )
            for source in reversed(sources)  # the last ones take the longest
        ]
        try:
            return [run.result() for run in reversed(runs)]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def notebook_sources(
    *, strict: bool = True, cost: bool = True, recorded: bool = False
) -> list[Path]:
    """The notebooks' scripts, in reading order.

    Args:
        strict: whether those are among them that the strict protocol's results are needed for.
        cost: whether those are that the measured cost is needed for.
        recorded: whether the data are from a file, which has a page of its own.

    Raises:
        SourceError: if there are none, as when only the package was installed.
    """
    sources = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.py"))
    if not sources:
        raise SourceError(
            f"there are no notebooks in {NOTEBOOKS}: a report is made from a checkout, with the "
            "package installed editable (make report does it)"
        )
    left_out = [SIMULATOR_NOTEBOOK if recorded else RECORDING_NOTEBOOK]
    left_out += [] if strict else STRICT_NOTEBOOKS
    left_out += [] if cost else COST_NOTEBOOKS
    return [source for source in sources if source.stem not in left_out]
