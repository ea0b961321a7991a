"""The index page of a report: the verdict first, then how it is known."""

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from clusterdyn import findings
from clusterdyn.choices import choices_at_test, work_ratio
from clusterdyn.config import StudyConfig
from clusterdyn.display import table_output
from clusterdyn.limitations import limitations
from clusterdyn.protocol import Study
from clusterdyn.reference.agreement import KINDS, Agreement
from clusterdyn.report.execute import ExecutedNotebook
from clusterdyn.report.html import figure_html, framed_table, template_environment
from clusterdyn.report.markdown import markdown_to_html
from clusterdyn.report.results import agreement_of
from clusterdyn.report.strict_results import strict_summary
from clusterdyn.strict.findings import strict_headline
from clusterdyn.strict.tables import claims as strict_claims
from clusterdyn.tables import Table

INDEX_FIGURES = ("significance_differences", "training_choices")
STRICT_FIGURES = ("strict_work", "strict_decomposition")
INDEX_CLAIMS = ("equal_work", "decomposition")


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
