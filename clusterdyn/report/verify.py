"""Whether an executed notebook is finished and whole, read off its outputs alone.

Its metadata say "completed" for cells of a kernel that was killed, so they are not looked at: each
code cell must have run, without an error and without a word on standard error, and the last one
must hold the line of :func:`clusterdyn.display.finish` with the right number of figures.
"""

import copy
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

INJECTED = "injected-parameters"
"""papermill's tag on the cell that it adds."""

_WIDGET = "application/vnd.jupyter.widget-view+json"
_LANGUAGE = {
    "name": "python",
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "pygments_lexer": "ipython3",
}


class NotebookFailure(RuntimeError):
    """A notebook did not run to its end; the message says where, why, and where it is kept."""


@dataclass(frozen=True)
class Figure:
    """A figure as a notebook showed it (see :func:`clusterdyn.display.show_figure`)."""

    name: str
    alt: str
    caption: str
    provenance: str
    svg: str


def about(output: Mapping) -> Mapping:
    """Finds what :mod:`clusterdyn.display` wrote about an output; empty for any other output."""
    return output.get("metadata", {}).get("clusterdyn", {})


def shown_figures(notebook: NotebookNode) -> tuple[Figure, ...]:
    """Collects the figures of an executed notebook, in order."""
    return tuple(
        Figure(
            name=about(output)["figure"],
            alt=about(output)["alt"],
            caption=about(output)["caption"],
            provenance=about(output)["provenance"],
            svg=output["data"]["image/svg+xml"],
        )
        for cell in _code_cells(notebook)
        for output in cell.outputs
        if "figure" in about(output)
    )


def check_finished(notebook: NotebookNode, name: str) -> None:
    """Checks that a notebook ran to its end and shows what it says.

    Args:
        notebook: the executed notebook.
        name: its source's file name without the suffix.

    Raises:
        NotebookFailure: with what is wrong, as the end of a sentence that starts with the name.
    """
    cells = _code_cells(notebook)
    for cell in cells:
        for output in cell.outputs:
            _check_output(output, where(cell, notebook))
    for cell in cells:
        if cell.execution_count is None:
            raise NotebookFailure(f"is unfinished: {where(cell, notebook)} never ran")

    sentinels = [
        about(out) for out in (cells[-1].outputs if cells else []) if "finished" in about(out)
    ]
    if len(sentinels) != 1:
        raise NotebookFailure(
            "does not say that it is finished: its last code cell must call "
            f'clusterdyn.display.finish("{name}", figures=N), once'
        )
    (sentinel,) = sentinels
    if sentinel["finished"] != name:
        raise NotebookFailure(
            f"says that it is {sentinel['finished']!r}: its last cell must name {name!r}"
        )
    if sentinel["prefix"] != sys.prefix:
        raise NotebookFailure(
            f"ran in another Python environment ({sentinel['prefix']}) than the "
            f"report ({sys.prefix})"
        )
    figures = shown_figures(notebook)
    if sentinel["figures"] != len(figures):
        raise NotebookFailure(
            f"declares {sentinel['figures']} figures in its last cell, but shows {len(figures)}"
        )
    repeated = [figure for figure, n in Counter(f.name for f in figures).items() if n > 1]
    if repeated:
        raise NotebookFailure(
            f"shows two figures named {repeated[0]!r}; each needs a name of its own"
        )


def normalise(notebook: NotebookNode, parameters: Mapping[str, object]) -> NotebookNode:
    """Removes from an executed notebook what differs from run to run or from machine to machine.

    Timing and the tools' metadata go, cells are numbered, and directories in the injected
    parameters keep only their last name.

    Returns:
        A new notebook.
    """
    notebook = copy.deepcopy(notebook)
    notebook.metadata = NotebookNode(
        kernelspec=notebook.metadata.get("kernelspec", {}), language_info=dict(_LANGUAGE)
    )
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{index:02d}"
        tags = cell.metadata.get("tags", [])
        cell.metadata = NotebookNode(tags=list(tags)) if tags else NotebookNode()
        if INJECTED in tags:
            cell.source = "\n".join(
                f"{name} = {_without_directory(value)!r}" for name, value in parameters.items()
            )
        for output in cell.get("outputs", []):
            if "finished" in about(output):
                del output["metadata"]["clusterdyn"]["prefix"]
    return notebook


def where(cell: NotebookNode, notebook: NotebookNode, *, brief: bool = False) -> str:
    """Names a code cell as its author would count it: papermill's own cell is left out."""
    cells = _code_cells(notebook)
    number = next((i for i, other in enumerate(cells, 1) if other.id == cell.id), 0)
    if brief:
        return f"cell {number}/{len(cells)}"
    lines = [line for line in cell.source.splitlines() if line.strip()]
    return f"code cell {number} of {len(cells)} (`{one_line(lines[0], 60)}`)"


def one_line(text: str, longest: int = 300) -> str:
    """Puts a text on one line, shortened if need be."""
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code"
        and cell.source.strip()
        and INJECTED not in cell.metadata.get("tags", [])
    ]


def _without_directory(value: object) -> object:
    if isinstance(value, str) and Path(value).is_absolute():
        return f"…/{Path(value).name}"
    return value


def _check_output(output: NotebookNode, place: str) -> None:
    if output.output_type == "error":
        if output.ename == "SystemExit":
            raise NotebookFailure(f"ended early: {place} called sys.exit({output.evalue})")
        raise NotebookFailure(f"failed in {place}: {one_line(f'{output.ename}: {output.evalue}')}")
    if output.output_type == "stream":
        if output.name == "stderr":
            raise NotebookFailure(
                f"is not clean: {place} wrote to standard error: {one_line(output.text)}"
            )
        return
    if _WIDGET in output.data:
        raise NotebookFailure(
            f"shows a widget in {place}, which needs the network to be drawn; "
            "print one line per block of work instead"
        )
    pictures = [kind for kind in output.data if kind.startswith("image/")]
    if pictures and "figure" not in about(output):
        raise NotebookFailure(
            f"shows a picture without a description in {place}; "
            "show it with clusterdyn.display.show_figure"
        )
