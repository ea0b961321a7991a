"""A notebook's source and its parameters, read without running anything.

papermill only warns of a parameter that the notebook does not have, runs a notebook without a
parameters cell on its defaults, and turns what it cannot translate into strings. So what is given
is checked here, against the cell tagged ``parameters``, before a kernel starts.
"""

import ast
import math
import re
from collections.abc import Mapping
from pathlib import Path

import jupytext
from nbformat import NotebookNode

KERNELSPEC = "kernelspec: {display_name: Python 3, language: python, name: python3}"
"""What a source's header must hold; papermill cannot run a notebook without it."""


class SourceError(ValueError):
    """A notebook's source cannot be used; the message says why and what to do."""


class ParameterError(ValueError):
    """A parameter does not fit its notebook; the message says which and what is allowed."""


def read_source(source: Path) -> NotebookNode:
    """Reads a py:percent script as a notebook, with cell ids that depend on the position alone.

    Only the script is read: an ``.ipynb`` of the same name beside it is ignored, since it may be
    older or newer than the script.

    Args:
        source: the script.

    Returns:
        The notebook, not run.

    Raises:
        SourceError: if the file is missing, is no percent script, names no ``python3`` kernel or
            has no title.
    """
    source = Path(source)
    if source.suffix != ".py" or not source.is_file():
        raise SourceError(f"{source} is not a notebook's source: give a py:percent script (.py)")
    notebook = jupytext.read(source, fmt="py")
    kernel = notebook.metadata.get("kernelspec", {})
    if kernel.get("name") != "python3" or kernel.get("language") != "python":
        raise SourceError(
            f"{source.name} names no python3 kernel in its header, and cannot be run without; "
            f"add the line `{KERNELSPEC}`"
        )
    representation = notebook.metadata.get("jupytext", {}).get("text_representation", {})
    if representation.get("format_name") != "percent":
        raise SourceError(f"{source.name} is not in the percent format: mark cells with `# %%`")
    if notebook_title(notebook) is None:
        raise SourceError(f"{source.name} has no title: begin its first Markdown cell with `# `")
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{index:02d}"
    return notebook


def notebook_title(notebook: NotebookNode) -> str | None:
    """Finds a notebook's title: its first Markdown heading of level one, without markup."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            heading = re.search(r"^# +(.+?)\s*#*\s*$", cell.source, flags=re.MULTILINE)
            if heading:
                return re.sub(r"[`*$]", "", heading[1])
    return None


def notebook_parameters(source: Path) -> dict[str, object]:
    """Reads the names and defaults in the cell tagged ``parameters``. Nothing is executed.

    Raises:
        SourceError: if there is not exactly one such cell, or it holds anything but assignments
            of literals.
    """
    source = Path(source)
    tagged = [
        cell
        for cell in read_source(source).cells
        if "parameters" in cell.metadata.get("tags", []) and cell.cell_type == "code"
    ]
    if len(tagged) != 1:
        raise SourceError(
            f"{source.name} has {len(tagged) or 'no'} cells tagged `parameters`; it needs one, "
            'marked `# %% tags=["parameters"]`, with a default for each parameter'
        )
    defaults: dict[str, object] = {}
    try:
        for statement in ast.parse(tagged[0].source).body:
            name, value = _assignment(statement)
            defaults[name] = ast.literal_eval(value)
    except (SyntaxError, ValueError, TypeError) as error:
        raise SourceError(
            f"{source.name}: the parameters cell may only assign literals to names, as in "
            f'`profile = "quick"`; {error}'
        ) from error
    return defaults


def check_parameters(source: Path, given: Mapping[str, object]) -> dict[str, object]:
    """Checks parameters against the notebook's own defaults.

    A value must have its default's type; an integer will do for a float, a bool will not do for an
    integer, and numbers must be finite. Lists and dicts may hold what papermill can pass on
    unchanged: strings, finite numbers, bools, ``None``, lists, and dicts with string keys.

    Args:
        source: the notebook's py:percent script.
        given: the parameters to run it with.

    Returns:
        The checked values, integers widened to float where the default is a float.

    Raises:
        ParameterError: for an unknown name or a value of the wrong type.
        SourceError: if the notebook has no usable parameters cell.
    """
    name = Path(source).stem
    defaults = notebook_parameters(source)
    checked = {}
    for parameter, value in given.items():
        if parameter not in defaults:
            raise ParameterError(
                f"{name} has no parameter {parameter!r}; it has {', '.join(map(repr, defaults))}"
            )
        default = defaults[parameter]
        if isinstance(default, float) and type(value) is int:
            value = float(value)
        if default is not None and type(value) is not type(default):
            raise ParameterError(
                f"{name}: {parameter} must be of type {type(default).__name__} (its default is "
                f"{default!r}); got {value!r} of type {type(value).__name__}"
            )
        _check_value(value, f"{name}: {parameter}")
        checked[parameter] = value
    return checked


def _assignment(statement: ast.stmt) -> tuple[str, ast.expr]:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target = statement.target
    else:
        raise ValueError(f"line {statement.lineno} is no assignment")
    if not isinstance(target, ast.Name):
        raise ValueError(f"line {statement.lineno} assigns to something other than a name")
    return target.id, statement.value


def _check_value(value: object, where: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ParameterError(f"{where} must be a finite number; got {value!r}")
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check_value(item, f"{where}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ParameterError(f"{where} must have strings as keys; got the key {key!r}")
            _check_value(item, f"{where}[{key!r}]")
    elif value is not None and type(value) not in (str, bool, int, float):
        raise ParameterError(
            f"{where} must be a string, a number, a bool, None, a list or a dict; "
            f"got {value!r} of type {type(value).__name__}"
        )
