"""Builds a whole report: results, notebooks, pages, and the swap into place."""

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from markupsafe import Markup

from clusterdyn import __version__, findings
from clusterdyn.artifacts import default_root
from clusterdyn.choices import choices_at_test, work_ratio
from clusterdyn.config import StudyConfig
from clusterdyn.display import table_output
from clusterdyn.execution import available_cores, workers_of
from clusterdyn.limitations import limitations
from clusterdyn.protocol import Study, open_study
from clusterdyn.provenance import source_commit
from clusterdyn.recordings import recording_of
from clusterdyn.reference.agreement import KINDS, Agreement
from clusterdyn.report.execute import ExecutedNotebook, quiet_tools, run_notebook
from clusterdyn.report.html import (
    figure_html,
    framed_table,
    render_notebook_page,
    template_environment,
)
from clusterdyn.report.markdown import markdown_to_html
from clusterdyn.report.parameters import SourceError, check_parameters
from clusterdyn.report.publish import (
    check_directory,
    check_output,
    publish,
    staging_directory,
)
from clusterdyn.report.results import (
    NOTEBOOKS,
    agreement_of,
    bench_report_of,
    dump,
    results_of,
)
from clusterdyn.report.strict_results import strict_summary
from clusterdyn.report.svg import figure_file
from clusterdyn.strict.findings import strict_headline
from clusterdyn.strict.tables import claims as strict_claims
from clusterdyn.tables import Table

INDEX_FIGURES = ("significance_differences", "training_choices")
STRICT_FIGURES = ("strict_work", "strict_decomposition")
INDEX_CLAIMS = ("equal_work", "decomposition")
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
        with workers_of(executor) if study.strict_config else nullcontext(executor) as workers:
            study.executor = workers
            files = {"bench_report.json": dump(bench_report_of(study))}
            if study.learning_config is not None:
                _compute_all(study)
        files["results.json"] = dump(results := results_of(study))
        with tempfile.TemporaryDirectory(prefix="clusterdyn-") as scratch:
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


def render_index(
    study: Study,
    results: dict[str, Any],
    executed: Sequence[ExecutedNotebook],
    *,
    pages: Sequence[tuple[str, str]],
    footer: str,
) -> str:
    """The index page: the verdict first, then how it is known, then published beside this run.

    Args:
        study: whose results are told.
        results: what ``results.json`` holds.
        executed: the notebooks, for their figures.
        pages: (file name, title), in reading order.
        footer: text at the foot.
    """
    shown = {figure.name: figure for notebook in executed for figure in notebook.figures}
    rows = agreement_of(study)
    measured = [row for row in rows if row.kind == "measured"]
    reference = study.reference
    headings: set[str] = set()

    def prose(markdown: str) -> Markup:
        html = markdown_to_html(markdown, headings).strip()
        return Markup(html.removeprefix("<p>").removesuffix("</p>"))

    return (
        template_environment()
        .get_template("index.html.j2")
        .render(
            title="Verdict",
            pages=pages,
            current="index.html",
            footer=footer,
            headline=findings.headline(study),
            significance=prose(findings.significance(study)),
            training=prose(findings.training(study)),
            mechanism=prose(findings.mechanism(study)),
            verdicts=results["verdicts"],
            strict=strict_summary(study),
            strict_headline=prose(strict_headline(study)) if study.strict_config else None,
            figures={
                name: figure_html(shown[name])
                for name in (*INDEX_FIGURES, *STRICT_FIGURES)
                if name in shown
            },
            comparable=study.config == StudyConfig(),
            label=study.label,
            recorded=findings.shared_recording(study),
            both_at_edge=reference.baseline.at_edge and reference.idea.at_edge,
            choices=choices_at_test(study),
            equal_work=math.isclose(work_ratio(study), 1),
            floor=findings.p_floor(study),
            within=sum(row.within for row in measured),
            measured=len(measured),
            agreement=prose(findings.agreement(rows)),
            origins=findings.origins(),
            contradiction=study.config == StudyConfig() and reference.mechanism_ok,
            kinds=KINDS,
            tables={
                kind: _agreement_table([row for row in rows if row.kind == kind], meaning)
                for kind, meaning in KINDS.items()
            },
            rules=results["rules"],
            claims=[
                _table(strict_claims(study, family))
                for family in INDEX_CLAIMS
                if study.strict_config
            ],
            limitations=_table(limitations(study)) if _leaves_nothing_out(study) else None,
        )
    )


def _agreement_table(rows: Sequence[Agreement], meaning: str) -> dict[str, Any]:
    cells = [
        (r.figure, r.published, r.measured, r.within, r.within_without_idea, r.rule) for r in rows
    ]
    data, _ = table_output(
        cells,
        columns=(
            "figure",
            "published",
            "this run",
            "within",
            "if the idea were the baseline",
            "rule",
        ),
        caption=f"Figures of the published report beside this run's: {meaning}.",
        align=("left", "right", "right", "left", "left", "left"),
    )
    return {
        "table": framed_table(data["text/html"], "places"),
        "within": sum(row.within for row in rows),
        "count": len(rows),
    }


def _leaves_nothing_out(study: Study) -> bool:
    """Whether the study has all that the table of limitations tells of."""
    configs = (study.limits_config, study.learning_config, study.cost_config)
    return all(config is not None for config in configs)


def _table(table: Table) -> Markup:
    data, _ = table_output(table.rows, columns=table.columns, caption=table.caption)
    return framed_table(data["text/html"])
