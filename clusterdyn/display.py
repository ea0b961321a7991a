"""What a notebook shows: figures, tables, text, and the line that says it ran to its end.

Each function emits exactly one output and returns ``None``, so that a cell may end in the call: a
trailing ``;`` would not survive the formatter. What a reader of the report needs beside the
picture (alternative text, caption, where it came from) travels in the output's metadata under
``"clusterdyn"``.

A figure is drawn to SVG here and not by the notebook's backend, so that it comes out the same
whatever ``MPLBACKEND`` says. Axes and text are drawn in :data:`INK`, :data:`MUTED` and
:data:`GRID`; the report's pages swap exactly these colours for the reader's light or dark theme.
"""

import html
import io
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from IPython.display import display

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1b1e23"
"""Axes, ticks and text of a figure."""
MUTED = "#5a626e"
"""Secondary text, reference lines."""
GRID = "#d9dde3"
"""Grid lines."""
PAPER = "#ffffff"
"""The inside of a hollow marker, a legend's box: whatever should look like the page itself."""

_NAME = re.compile(r"[a-z0-9_]+")
_NUMERIC = re.compile(r"[<>≈~]?\s*[+\-−±]?\s*(\d[\d,]*\.?\d*|\.\d+)([eE][+\-−]?\d+)?\s*[%×]?")
_INTERVAL = re.compile(r"\S* ?\[\S+, \S+\]")  # perhaps after an estimate
_EMPTY = ("", "–", "—")
_ALIGNMENTS = ("left", "right", "center")


def show_figure(
    figure: "Figure", *, name: str, alt: str, caption: str, provenance: str = ""
) -> None:
    """Shows a figure as SVG with its caption, and closes it.

    Args:
        figure: the drawing; it is closed afterwards.
        name: names the figure's file; lower-case letters, digits and underscores.
        alt: what the picture shows, for readers who cannot see it.
        caption: what the reader should see in it, and what intervals mean.
        provenance: which parameters, commit and artifact it came from.

    Raises:
        ValueError: if the name has other characters, or alt or caption are empty.
    """
    data, metadata = figure_output(
        figure, name=name, alt=alt, caption=caption, provenance=provenance
    )
    _close(figure)
    display(data, metadata=metadata, raw=True)


def figure_output(
    figure: "Figure", *, name: str, alt: str, caption: str, provenance: str = ""
) -> tuple[dict[str, str], dict]:
    """Computes what :func:`show_figure` emits.

    The SVG holds its text as text (so that it can be searched) and neither date nor random ids:
    the same figure gives the same bytes.

    Returns:
        The output's data (``image/svg+xml`` and ``text/plain``) and its metadata.

    Raises:
        ValueError: see :func:`show_figure`.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            "a figure's name must be lower-case letters, digits and underscores "
            f"(it names the figure's file); got {name!r}"
        )
    for field, text in (("alt text", alt), ("caption", caption)):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(
                f"figure {name!r} needs {field}: say in a sentence what it shows; got {text!r}"
            )
    import matplotlib  # only where something is drawn: the report needs the colours alone

    buffer = io.StringIO()
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=no_metadata)
    data = {"image/svg+xml": buffer.getvalue(), "text/plain": alt}
    about = {"figure": name, "alt": alt, "caption": caption, "provenance": provenance}
    return data, {"clusterdyn": about}


def show_table(
    rows: Sequence[Sequence[object]],
    *,
    columns: Sequence[str],
    caption: str,
    align: Sequence[str] | None = None,
) -> None:
    """Shows a table; the first column names the rows.

    Args:
        rows: the cells, one sequence a row: strings (kept as they are), numbers (floats with four
            significant digits), bools (yes, no) or ``None`` (a dash).
        columns: the column headings.
        caption: what the table shows.
        align: ``"left"``, ``"right"`` or ``"center"`` for each column; by default a column of
            numbers is aligned right and any other left.

    Raises:
        ValueError: if a row's or ``align``'s length differs from the number of columns, an
            alignment is unknown, or the caption is empty.
        TypeError: if a cell is none of the above.
    """
    data, metadata = table_output(rows, columns=columns, caption=caption, align=align)
    display(data, metadata=metadata, raw=True)


def table_output(
    rows: Sequence[Sequence[object]],
    *,
    columns: Sequence[str],
    caption: str,
    align: Sequence[str] | None = None,
) -> tuple[dict[str, str], dict]:
    """Computes what :func:`show_table` emits: ``text/html``, every cell escaped, and plain text.

    Raises:
        ValueError, TypeError: see :func:`show_table`.
    """
    if not caption.strip():
        raise ValueError("a table needs a caption: say in a sentence what it shows")
    cells = [[_cell_text(value) for value in row] for row in rows]
    for number, row in enumerate(cells):
        if len(row) != len(columns):
            raise ValueError(
                f"row {number} of the table has {len(row)} cells; its {len(columns)} columns are "
                f"{', '.join(columns)}"
            )
    if align is None:
        align = [_column_alignment(column) for column in zip(*cells, strict=True)] or [
            "left" for _ in columns
        ]
    if len(align) != len(columns) or not set(align) <= set(_ALIGNMENTS):
        raise ValueError(
            f"align must give one of {', '.join(_ALIGNMENTS)} for each of the {len(columns)} "
            f"columns; got {list(align)}"
        )
    data = {
        "text/html": _html_table(cells, columns, caption, align),
        "text/plain": _plain_table(cells, columns, caption, align),
    }
    return data, {"clusterdyn": {"table": caption}}


def show_text(markdown: str) -> None:
    """Shows computed prose, as Markdown. Math goes between dollar signs; raw HTML is not rendered.

    Raises:
        ValueError: if there is nothing to show.
    """
    if not markdown.strip():
        raise ValueError("show_text got an empty text; give it a sentence to show")
    display({"text/markdown": markdown, "text/plain": markdown}, raw=True)


def listed(words: Iterable[str]) -> str:
    """Words as a sentence lists them: "a, b and c". There must be at least one."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def finish(notebook_name: str, *, figures: int) -> None:
    """Says that the notebook ran to its end; belongs in the last cell of every notebook.

    A kernel that dies or leaves early is not reported by the tools that run notebooks. The report
    therefore takes a notebook for finished only if this line is there and its count is right.

    Args:
        notebook_name: the notebook's file name without its suffix.
        figures: how many figures the notebook has shown.

    Raises:
        ValueError: if ``figures`` is not a non-negative integer.
    """
    if isinstance(figures, bool) or not isinstance(figures, int) or figures < 0:
        raise ValueError(f"figures must be the number of figures shown; got {figures!r}")
    noun = "figure" if figures == 1 else "figures"
    about = {"finished": notebook_name, "figures": figures, "prefix": sys.prefix}
    display(
        {"text/plain": f"{notebook_name}: finished, {figures} {noun}"},
        metadata={"clusterdyn": about},
        raw=True,
    )


def _close(figure: "Figure") -> None:
    # Without this the inline backend shows each open figure a second time, as a bitmap.
    from matplotlib import pyplot

    pyplot.close(figure)


def _cell_text(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if hasattr(value, "item"):  # a numpy scalar
        value = value.item()
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else str(value)
    raise TypeError(f"a table's cell must be a string, a number, a bool or None; got {value!r}")


def _column_alignment(column: Sequence[str]) -> str:
    filled = [text for text in column if text not in _EMPTY]
    numeric = filled and all(_NUMERIC.fullmatch(text) for text in filled)
    return "right" if numeric else "left"


def _html_table(
    cells: Sequence[Sequence[str]], columns: Sequence[str], caption: str, align: Sequence[str]
) -> str:
    def element(tag: str, text: str, side: str, attributes: Mapping[str, str]) -> str:
        scope = "".join(f' {key}="{value}"' for key, value in attributes.items())
        # A narrow table breaks prose, but an estimate stays on the line of its interval.
        whole = "; white-space: nowrap" if _INTERVAL.fullmatch(text) else ""
        return f'<{tag}{scope} style="text-align: {side}{whole}">{html.escape(text)}</{tag}>'

    head = "".join(
        element("th", text, side, {"scope": "col"})
        for text, side in zip(columns, align, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(
            element("td", text, side, {}) if index else element("th", text, side, {"scope": "row"})
            for index, (text, side) in enumerate(zip(row, align, strict=True))
        )
        + "</tr>"
        for row in cells
    )
    return (
        f"<table>\n<caption><span>{html.escape(caption)}</span></caption>\n"
        f"<thead>\n<tr>{head}</tr>\n</thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    )


def _plain_table(
    cells: Sequence[Sequence[str]], columns: Sequence[str], caption: str, align: Sequence[str]
) -> str:
    lines = [list(columns), *cells]
    widths = [max(len(text) for text in column) for column in zip(*lines, strict=True)]
    justify = {"left": str.ljust, "right": str.rjust, "center": str.center}
    padded = [
        "  ".join(
            justify[side](text, width) for text, side, width in zip(row, align, widths, strict=True)
        )
        for row in lines
    ]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([caption, "", padded[0].rstrip(), rule, *(row.rstrip() for row in padded[1:])])
