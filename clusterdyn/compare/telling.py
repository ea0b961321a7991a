"""A comparison of two reports as text, JSON and a page of HTML."""

from collections.abc import Sequence
from typing import Any

from clusterdyn import __version__
from clusterdyn.compare.changes import (
    ROUNDING,
    RULE,
    Change,
    ReportComparison,
    beyond_rounding,
)
from clusterdyn.display import table_output
from clusterdyn.report.html import framed_table, template_environment
from clusterdyn.report.results import jsonable
from clusterdyn.tables import Table


def headline(comparison: ReportComparison) -> str:
    """Whether something moved, and how much of what was compared changed at all."""
    counts = comparison.compared
    of = (
        f"{counts['lists']} lists of numbers by seed, {counts['figures']} numbers without noise "
        f"and {counts['verdicts']} verdicts"
    )
    changes = (*comparison.scores, *comparison.figures, *comparison.verdicts)
    changed = len(changes)
    moved = len(comparison.moved) - len(comparison.missing)
    if not changes and not comparison.missing:
        return f"No number moved: {of} are the same in both reports."
    lacking = f" B lacks {len(comparison.missing)} that A has." if comparison.missing else ""
    if moved:
        return f"{moved} moved beyond noise, of {changed} that changed among {of}.{lacking}"
    return f"No number moved beyond its noise; {changed} changed among {of}.{lacking}"


def tables(comparison: ReportComparison) -> list[Table]:
    """What differs, a table each; none where nothing differs."""
    found = [
        _changes(comparison.verdicts, "Verdicts that differ. Each counts as moved."),
        _scores(comparison),
        _changes(comparison.figures, "Numbers without noise that differ.", moved=True),
        Table(
            ("part", "names", "first of them", "in"),
            [
                *_grouped(comparison.missing, "A only"),
                *_grouped(comparison.added, "B only"),
            ],
            "What only one report has. What B lacks counts as moved.",
        ),
        _changes(comparison.settings, "Settings and installation that differ."),
        Table(
            ("time", "A [s]", "B [s]", "B / A"),
            [(t.name, t.before, t.after, t.ratio) for t in comparison.times if t.ratio != 1],
            "Measured times. They belong to the machine and the hour, and never count.",
        ),
    ]
    return [table for table in found if table.rows]


def text(comparison: ReportComparison) -> str:
    """The comparison for a terminal."""
    head = f"A: {comparison.a}\nB: {comparison.b}\n{headline(comparison)}"
    return "\n\n".join([head, *(table.text() for table in tables(comparison))])


def record(comparison: ReportComparison) -> dict[str, Any]:
    """The comparison as JSON: every field, what moved, and the rule."""
    return {
        "headline": headline(comparison),
        "moved": list(comparison.moved),
        "rule": RULE,
        **jsonable(comparison),
    }


def page(comparison: ReportComparison) -> str:
    """The comparison as a page of HTML that needs no other file."""
    framed = []
    for table in tables(comparison):
        data, _ = table_output(table.rows, columns=table.columns, caption=table.caption)
        framed.append(framed_table(data["text/html"], "places"))
    template = template_environment().get_template("comparison.html.j2")
    return template.render(
        title="What moved between two reports",
        headline=headline(comparison),
        reports=(("A", comparison.a), ("B", comparison.b)),
        tables=framed,
        rule=RULE,
        pages=(),
        current="",
        footer=f"clusterdyn {__version__}.",
    )


def _changes(changes: Sequence[Change], caption: str, *, moved: bool = False) -> Table:
    columns = ("name", "A", "B", *(("moved",) if moved else ()))
    rows = [(c.name, c.before, c.after, *((c.moved,) if moved else ())) for c in changes]
    return Table(columns, rows, caption)


def _scores(comparison: ReportComparison) -> Table:
    told = [c for c in comparison.scores if c.moved or beyond_rounding(c.before, c.after)]
    rows = [
        (
            change.name,
            f"{change.changed} of {change.seeds}",
            change.before,
            change.after,
            change.difference,
            None if change.low is None else f"[{change.low:.3g}, {change.high:.3g}]",
            change.adjusted_p,
            change.diverged or None,
            change.moved,
        )
        for change in sorted(told, key=lambda change: not change.moved)
    ]
    return Table(
        ("scores", "seeds changed", "A", "B", "B − A", "95 % interval", "p", "diverged", "moved"),
        rows,
        "Numbers by seed that differ: test MSE in standardised units, and slopes of the η² law. "
        "Means over the seeds of both; the interval is the paired t one of B − A, and p is its "
        "test's after Holm's adjustment. Diverged: seeds on which only one report is finite. "
        f"Not listed: {len(comparison.scores) - len(told)} whose mean changed by no more than "
        f"{ROUNDING:g} of itself.",
    )


def _grouped(names: Sequence[str], where: str) -> list[tuple[str, int, str, str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.split(":")[0].split(",")[0], []).append(name)
    return [(group, len(found), found[0], where) for group, found in groups.items()]
