"""A report of the study's own settings beside the ranges that are expected of its figures.

``reference/gate.json`` holds the ranges. Each comes from the rule by which the figure is held
against the published one (:mod:`clusterdyn.reference.agreement`), around the published value; and
around this project's own value where its run does not meet the published one. A figure's source
says which.
"""

import dataclasses
import math
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from clusterdyn.compare.reading import ReportError, check, read_json, read_results
from clusterdyn.config import StudyConfig
from clusterdyn.reference.agreement import Allowed, allowed, kind_of, leaves_of
from clusterdyn.report.results import jsonable
from clusterdyn.tables import Table

_GATED = ("measured", "fitted")


@dataclass(frozen=True)
class GatedFigure:
    """One figure of a report beside its range.

    Attributes:
        figure: its place in ``bench_report.json``.
        measured: its value there, or None where there is none.
        expected: range or value, in words.
        rule, source: where that comes from.
        within: whether the figure is in it.
    """

    figure: str
    measured: Any
    expected: str
    rule: str
    source: str
    within: bool


def expected_ranges(published: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """What ``reference/gate.json`` holds.

    Only figures that are measured or fitted are in it: settings are checked as settings, and the
    values of single seeds follow from their means and spreads.

    Args:
        published: ``published_report()``.
        own: the bench report of this project's committed run.
    """
    measured = dict(leaves_of(own))
    figures = []
    for figure, value in leaves_of(published):
        if kind_of(figure) not in _GATED:
            continue
        rule = allowed(figure, value, published["comparison"]["per_seed_diffs"])
        source = f"published: {_text(value)}"
        if not rule.holds(measured[figure]):
            rule = allowed(figure, measured[figure], own["comparison"]["per_seed_diffs"])
            source = f"this project's report, which does not meet the published {_text(value)}"
        figures.append(_entry(figure, rule, source))
    return {"gate_version": 1, "figures": figures}


def read_ranges(path: Path | None) -> dict[str, Any]:
    """Reads a file of ranges; the package's own unless told otherwise.

    Raises:
        ReportError: if it is missing, no JSON, does not fit ``gate.schema.json``, or has a range
            that is upside down or a figure twice.
    """
    if path is None:
        with resources.as_file(resources.files("clusterdyn.reference") / "gate.json") as own:
            return read_ranges(own)
    ranges = read_json(path, "give a file of ranges such as clusterdyn/reference/gate.json")
    check(ranges, "gate", path)
    names = [entry["figure"] for entry in ranges["figures"]]
    for entry in ranges["figures"]:
        if names.count(entry["figure"]) > 1:
            raise ReportError(f"{path} has the figure {entry['figure']!r} twice")
        if "low" in entry and entry["low"] > entry["high"]:
            raise ReportError(
                f"{path} lets {entry['figure']!r} be from {entry['low']:g} to {entry['high']:g}: "
                "low must not exceed high"
            )
    return ranges


def read_bench_report(report: Path) -> dict[str, Any]:
    """Reads the figures of a report that has the study's own settings.

    Args:
        report: its directory.

    Returns:
        What its ``bench_report.json`` holds.

    Raises:
        ReportError: if its files cannot be read, or its settings are others.
    """
    if not report.is_dir():
        raise ReportError(f"{report} is no directory: the gate needs a report's directory")
    config, own = read_results(report)["config"], jsonable(dataclasses.asdict(StudyConfig()))
    differing = [name for name in own if config.get(name) != own[name]]
    differing += [name for name in config if name not in own]
    if differing:
        raise ReportError(
            f"{report} is not of the study's own settings ({', '.join(differing)} differ), for "
            "which alone the ranges hold: make it with --profile reference or full, without --set"
        )
    path = report / "bench_report.json"
    figures = read_json(path)
    check(figures, "bench_report", path)
    return figures


def gate(figures: dict[str, Any], ranges: dict[str, Any]) -> tuple[GatedFigure, ...]:
    """Every gated figure beside its range.

    Args:
        figures: what :func:`read_bench_report` returned.
        ranges: what :func:`read_ranges` returned.
    """
    measured = dict(leaves_of(figures))
    return tuple(
        GatedFigure(
            figure=entry["figure"],
            measured=measured.get(entry["figure"]),
            expected=_expected(entry),
            rule=entry["rule"],
            source=entry["source"],
            within=_within(entry, measured.get(entry["figure"])),
        )
        for entry in ranges["figures"]
    )


def gate_text(gated: tuple[GatedFigure, ...]) -> str:
    """The verdict of the gate, and a table of what lies outside."""
    outside = [figure for figure in gated if not figure.within]
    if not outside:
        return f"All {len(gated)} figures lie within their expected ranges."
    table = Table(
        ("figure", "measured", "expected", "rule", "source"),
        [(f.figure, _text(f.measured), f.expected, f.rule, f.source) for f in outside],
        f"{len(outside)} of {len(gated)} figures lie outside their expected ranges.",
    )
    return table.text()


def _entry(figure: str, rule: Allowed, source: str) -> dict[str, Any]:
    bounds = {"value": rule.value} if rule.low is None else {"low": rule.low, "high": rule.high}
    return {"figure": figure, **bounds, "rule": rule.rule, "source": source}


def _within(entry: dict[str, Any], measured: Any) -> bool:
    if "value" in entry:
        return type(measured) is type(entry["value"]) and measured == entry["value"]
    number = isinstance(measured, (int, float)) and not isinstance(measured, bool)
    return number and math.isfinite(measured) and entry["low"] <= measured <= entry["high"]


def _expected(entry: dict[str, Any]) -> str:
    if "value" in entry:
        return _text(entry["value"])
    return f"[{_text(entry['low'])}, {_text(entry['high'])}]"


def _text(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
