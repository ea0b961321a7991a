"""Reads the files of a report that somebody hands over, and says in a sentence what is wrong."""

import json
from pathlib import Path
from typing import Any

import jsonschema

from clusterdyn.report.results import SCHEMA_VERSION, validate
from clusterdyn.report.verify import one_line


class ReportError(ValueError):
    """A file cannot be read as what it should be; the message says where and why."""


def read_results(report: Path) -> dict[str, Any]:
    """Reads the results of a report.

    Args:
        report: a report's directory, or its ``results.json`` under any name.

    Returns:
        What the file holds, checked against ``results.schema.json``.

    Raises:
        ReportError: if it is missing, no JSON, of another schema version, or does not fit.
    """
    path = Path(report)
    if path.is_dir():
        path /= "results.json"
    results = read_json(path)
    version = results.get("schema_version") if isinstance(results, dict) else None
    if type(version) is int and version != SCHEMA_VERSION:
        raise ReportError(
            f"{path} has schema version {version}, and this clusterdyn reads version "
            f"{SCHEMA_VERSION}: use the clusterdyn that made it, or make the report anew"
        )
    check(results, "results", path)
    return results


def read_json(path: Path, advice: str = "give a report's directory or its results.json") -> Any:
    """Reads a file of JSON, which knows no NaN and no infinity.

    Args:
        path: of the file.
        advice: what to do if it is missing.

    Raises:
        ReportError: if it is missing, unreadable or no JSON.
    """

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no number of JSON")

    try:
        value = json.loads(path.read_text("utf-8"), parse_constant=refuse)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text
    except FileNotFoundError:
        raise ReportError(f"{path} does not exist: {advice}") from None
    except OSError as error:
        raise ReportError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path} is no JSON: {one_line(str(error))}") from error
    return value


def check(value: Any, schema: str, path: Path) -> None:
    """Checks what a file holds against a schema of the package.

    Args:
        value: what it holds.
        schema: name of the schema, as of :func:`clusterdyn.report.results.validate`.
        path: of the file, for the message.

    Raises:
        ReportError: if it does not fit, with the place.
    """
    try:
        validate(value, schema)
    except jsonschema.ValidationError as error:
        what = one_line(error.message)
        what = what if len(what) <= 200 else f"{what[:200]} …"
        raise ReportError(
            f"{path} does not fit the schema of {schema} at {error.json_path}: {what}. "
            "If another version of clusterdyn wrote it, make it anew with this one"
        ) from error
