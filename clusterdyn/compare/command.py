"""What ``python -m clusterdyn compare`` and ``python -m clusterdyn gate`` do."""

from collections.abc import Callable
from pathlib import Path

from clusterdyn.compare import telling
from clusterdyn.compare.changes import compare_results
from clusterdyn.compare.gate import gate, gate_text, read_bench_report, read_ranges
from clusterdyn.compare.reading import read_results
from clusterdyn.report.publish import check_file
from clusterdyn.report.results import dump

MOVED = 3
"""The exit code if a number moved beyond its noise or lies outside its range."""


def run_compare(
    before: Path,
    after: Path,
    *,
    json: Path | None,
    html: Path | None,
    say: Callable[[str], None],
) -> int:
    """Compares two reports and tells what moved.

    Args:
        before, after: report directories or their ``results.json``.
        json, html: files to write the comparison to as well.
        say: takes the text.

    Returns:
        0 if nothing moved beyond its noise, else ``MOVED``.

    Raises:
        ReportError: if a report cannot be read.
        OutputError: if a file cannot be written.
    """
    for file in (json, html):
        if file is not None:
            check_file(file)
    comparison = compare_results(
        read_results(before), read_results(after), a=str(before), b=str(after)
    )
    say(telling.text(comparison))
    if json is not None:
        json.write_text(dump(telling.record(comparison)), encoding="utf-8")
    if html is not None:
        html.write_text(telling.page(comparison), encoding="utf-8")
    return MOVED if comparison.moved else 0


def run_gate(report: Path, ranges: Path | None, *, say: Callable[[str], None]) -> int:
    """Holds a report against the ranges that are expected of it and tells what lies outside.

    Args:
        report: its directory.
        ranges: a file of ranges; the package's own by default.
        say: takes the text.

    Returns:
        0 if every figure is within, else ``MOVED``.

    Raises:
        ReportError: if a file cannot be read, or the report has other settings than the study's.
    """
    gated = gate(read_bench_report(report), read_ranges(ranges))
    say(gate_text(gated))
    return 0 if all(figure.within for figure in gated) else MOVED
