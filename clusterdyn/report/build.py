"""Builds a whole report: results, notebooks, pages, and the swap into place."""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from clusterdyn import __version__, findings
from clusterdyn.artifacts import default_root
from clusterdyn.config import StudyConfig
from clusterdyn.display import table_output
from clusterdyn.protocol import Study, open_study
from clusterdyn.provenance import source_commit
from clusterdyn.report.execute import ExecutedNotebook, run_notebook
from clusterdyn.report.html import figure_html, render_notebook_page, template_environment
from clusterdyn.report.markdown import markdown_to_html
from clusterdyn.report.parameters import SourceError, check_parameters
from clusterdyn.report.publish import check_output, publish, staging_directory
from clusterdyn.report.results import NOTEBOOKS, bench_report_of, dump, results_of
from clusterdyn.report.svg import figure_file

INDEX_FIGURES = ("significance_differences", "training_choices")


def build_report(
    profile: str,
    settings: Mapping[str, Any],
    output: Path,
    *,
    artifacts: Path | None = None,
    progress: Callable[[str], None] = print,
) -> Path:
    """Makes a report and puts it in place of an earlier one, whole or not at all.

    Args:
        profile: quick, reference or full.
        settings: fields of the config to replace.
        output: the report's directory.
        artifacts: where trained models are kept; ``artifacts`` beside the package by default.
        progress: called with one line a piece of work.

    Returns:
        The path of ``index.html``.

    Raises:
        ValueError: for bad settings.
        OutputError: if the output cannot be written or is something else than a report.
        NotebookFailure: if a notebook did not run to its end; the earlier report is untouched.
    """
    started = time.monotonic()

    def say(line: str) -> None:
        progress(f"[{time.monotonic() - started:6.1f} s] {line}")

    output = Path(output).resolve()
    root = Path(artifacts).resolve() if artifacts else default_root()
    study = open_study(profile, dict(settings), root, progress=say)
    check_output(output)
    parameters = {"profile": profile, "settings": dict(settings), "artifacts": str(root)}
    sources = notebook_sources()
    for source in sources:
        check_parameters(source, parameters)
    with staging_directory(output) as staging:
        say(f"report: {study.label}; {len(sources)} notebooks; to {output}")
        # Computed here, so that the terminal shows the work and no notebook waits for another's.
        files = {
            "bench_report.json": dump(bench_report_of(study)),
            "results.json": dump(results := results_of(study)),
        }
        with tempfile.TemporaryDirectory(prefix="clusterdyn-") as scratch:
            executed = [
                run_notebook(
                    source,
                    parameters,
                    workdir=Path(scratch) / source.stem,
                    failed_dir=root / "failed",
                    progress=say,
                )
                for source in sources
            ]
        pages = [("index.html", "Verdict"), *((f"{e.name}.html", e.title) for e in executed)]
        footer = (
            f"clusterdyn {__version__}. Settings: {study.label}. Commit: {source_commit()}. "
            "Made by the notebooks, from the results in results.json."
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


def notebook_sources() -> list[Path]:
    """The notebooks' scripts, in reading order.

    Raises:
        SourceError: if there are none, as when only the package was installed.
    """
    sources = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.py"))
    if not sources:
        raise SourceError(
            f"there are no notebooks in {NOTEBOOKS}: a report is made from a checkout, with the "
            "package installed editable (make report does it)"
        )
    return sources


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
    rows = results["agreement"]
    measured = [row for row in rows if not row["setting"]]
    set_rows = [row for row in rows if row["setting"]]
    reference = study.reference
    comparison = reference.comparison
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
            figures={name: figure_html(shown[name]) for name in INDEX_FIGURES},
            comparable=study.config == StudyConfig(),
            label=study.label,
            both_at_edge=reference.baseline.at_edge and reference.idea.at_edge,
            pairs=len(comparison.differences),
            floor=f"{comparison.test.min_attainable_pvalue:.4g}",
            within=sum(row["within"] for row in measured),
            measured=len(measured),
            outside=[row["figure"] for row in measured if not row["within"]],
            contradiction=study.config == StudyConfig() and reference.mechanism_ok,
            measured_table=_table(
                measured, "Every measured figure of the published report, beside this run's."
            ),
            settings_table=_table(set_rows, "Figures that were set, not measured."),
            settings_within=sum(row["within"] for row in set_rows),
            settings_count=len(set_rows),
            rules=results["rules"],
            clusters=study.config.clusters,
        )
    )


def _table(rows: list[dict[str, Any]], caption: str) -> Markup:
    cells = [
        (row["figure"], row["published"], row["measured"], row["within"], row["rule"])
        for row in rows
    ]
    data, _ = table_output(
        cells,
        columns=("figure", "reference", "this run", "within", "rule"),
        caption=caption,
        align=("left", "right", "right", "left", "left"),
    )
    frame = '<div class="scroll wide places" tabindex="0" role="group" aria-label="Table">{}</div>'
    return Markup(frame.format(data["text/html"]))
