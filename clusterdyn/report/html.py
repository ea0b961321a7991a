"""Executed notebooks as pages that work offline, without a script, and on paper.

nbconvert renders the cells through ``templates/notebook``, which keeps of the built-in ``basic``
template only what needs nothing from elsewhere; the page around them is ``templates/page.html.j2``
and its style sheet, written into each page.
"""

import copy
import functools
import re
from collections.abc import Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbformat import NotebookNode

from clusterdyn.report.execute import ExecutedNotebook
from clusterdyn.report.markdown import markdown_to_html
from clusterdyn.report.svg import figure_file, inline_svg
from clusterdyn.report.verify import Figure, about

__all__ = [
    "figure_file",
    "figure_html",
    "framed_table",
    "render_notebook_page",
    "render_page",
    "template_environment",
]

_TEMPLATES = Path(__file__).parent / "templates"
_SHOWN = ("image/svg+xml", "text/html", "text/markdown", "text/plain")
_PLACEHOLDER = re.compile(r'<figure data-figure="([a-z0-9_]+)"></figure>')


def template_environment() -> jinja2.Environment:
    """Makes the environment of the report's own templates, with autoescaping on.

    A template for a further page extends ``page.html.j2``, fills its block ``main``, and is
    rendered with ``title``, ``pages``, ``current`` and ``footer`` (see :func:`render_page`).
    """
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_page(
    title: str,
    body_html: str,
    *,
    pages: Sequence[tuple[str, str]],
    current: str,
    footer: str,
) -> str:
    """Puts a page's content into the report's frame.

    Args:
        title: the page's title, as text.
        body_html: the content, as HTML, with the page's one ``<h1>``.
        pages: (file name, title) of each page of the report, in reading order.
        current: the file name of this page.
        footer: text at the foot; a :class:`markupsafe.Markup` is taken as HTML.

    Returns:
        The whole HTML document.
    """
    template = template_environment().get_template("page.html.j2")
    return template.render(
        title=title, body=Markup(body_html), pages=pages, current=current, footer=footer
    )


def render_notebook_page(
    executed: ExecutedNotebook, *, pages: Sequence[tuple[str, str]], footer: str
) -> str:
    """Renders an executed notebook as the page ``NAME.html``.

    Args:
        executed: what :func:`clusterdyn.report.execute.run_notebook` returned.
        pages: (file name, title) of each page of the report, in reading order.
        footer: see :func:`render_page`.

    Returns:
        The whole HTML document.
    """
    exporter = HTMLExporter(
        template_name="notebook",
        extra_template_basedirs=[str(_TEMPLATES)],
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    headings: set[str] = set()
    exporter.register_filter(
        "markdown2html", functools.partial(markdown_to_html, headings=headings)
    )
    body, _ = exporter.from_notebook_node(_shown(executed.notebook))
    # nbconvert parses its result once more, which would fold the case of SVG's names: the figures
    # go in afterwards.
    figures = {figure.name: figure_html(figure) for figure in executed.figures}
    body = _PLACEHOLDER.sub(lambda match: figures[match[1]], body)
    return render_page(
        executed.title, body, pages=pages, current=f"{executed.name}.html", footer=footer
    )


def figure_html(figure: Figure, *, id_prefix: str = "") -> Markup:
    """Renders a figure with its caption, for any page of the report.

    Args:
        figure: a notebook's figure.
        id_prefix: put before the figure's name to tell it from one of the same name on the page.
    """
    name = id_prefix + figure.name
    template = template_environment().get_template("figure.html.j2")
    drawing = inline_svg(figure.svg, name=name, alt=figure.alt)
    return Markup(template.render(figure=figure, name=name, drawing=Markup(drawing)))


def framed_table(table: str, *classes: str) -> Markup:
    """Puts a table of HTML into a frame in which it scrolls by itself where the page is narrow.

    Args:
        table: as :func:`clusterdyn.display.table_output` makes it, escaped.
        classes: of the frame, beside the usual ones.
    """
    frame = '<div class="{}" tabindex="0" role="group" aria-label="Table">{}</div>'
    return Markup(frame.format(" ".join(("scroll wide", *classes)), table))


def _shown(notebook: NotebookNode) -> NotebookNode:
    """Copies a notebook without what a page does not show.

    That is the line that says it is finished, HTML that :func:`clusterdyn.display.show_table` did
    not escape, and any kind of output that needs a script.
    """
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.outputs = [out for out in cell.outputs if "finished" not in about(out)]
        for output in cell.outputs:
            kinds = {"image/svg+xml": "figure", "text/html": "table"}
            if "data" in output:
                output["data"] = {
                    kind: value
                    for kind, value in output["data"].items()
                    if kind in _SHOWN and kinds.get(kind, "") in ("", *about(output))
                }
    return notebook
