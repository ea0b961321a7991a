"""A notebook's SVG made fit for a page: themed, small, and with ids that belong to it alone."""

import re
from xml.etree import ElementTree

from clusterdyn.display import GRID, INK, MUTED, PAPER

_SVG = "http://www.w3.org/2000/svg"
_DATA_IMAGE = "data:image/png;base64,"
# matplotlib's default black and white are as good as ink and paper.
_THEME = {
    INK: "var(--ink)",
    "#000000": "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
}
# Below this a figure scrolls instead: 10 point text is then 9.6 pixels high. A drawing of up to
# 5.1 inches fits a phone.
_SMALLEST_SCALE = 0.72
_DROPPED = ("metadata", "script", "style", "foreignObject", "a")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_GEOMETRY = ("d", "x", "y", "transform", "points", "x1", "x2", "y1", "y2", "width", "height")


def inline_svg(svg: str, *, name: str, alt: str) -> str:
    """Turns a standalone SVG into an element for an HTML page.

    The agreed colours become CSS variables, so that the figure follows the page's theme; ids get
    the name as a prefix and those that nothing refers to go, so that two figures on a page never
    share one; the size becomes a maximum; coordinates are rounded to 1/100 point. Scripts, event
    handlers and anything loaded from elsewhere are left out.

    Args:
        svg: the document, as :func:`clusterdyn.display.show_figure` emits it.
        name: unlike that of any other figure on the page.
        alt: what the picture shows.

    Returns:
        The ``<svg>`` element.

    Raises:
        ValueError: if the text is not an SVG document.
    """
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise ValueError(f"figure {name!r} is not an SVG document: {error}") from error
    _strip(root)
    used = _references(root)
    for element in root.iter():
        element.attrib = {
            key: _attribute(element.tag, key, value, name, used)
            for key, value in element.attrib.items()
            if key != "id" or value in used
        }
        if element.tag not in ("text", "tspan"):
            element.text = None
        element.tail = None
    root.attrib = _root_attributes(root, alt)
    return ElementTree.tostring(root, encoding="unicode")


def figure_file(svg: str) -> str:
    """Turns a notebook's SVG into a file of its own: on white, and without a document type.

    Args:
        svg: the document, as :func:`clusterdyn.display.show_figure` emits it.

    Returns:
        The text of the ``.svg`` file.
    """
    body = svg[svg.index("<svg") :]
    end_of_tag = body.index(">") + 1
    background = f'\n <rect width="100%" height="100%" fill="{PAPER}"/>'
    declaration = '<?xml version="1.0" encoding="utf-8"?>\n'
    return declaration + body[:end_of_tag] + background + body[end_of_tag:]


def _strip(element: ElementTree.Element) -> None:
    """Removes namespaces from names, and whatever could run or load something."""
    element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
    attributes = {}
    for key, value in element.attrib.items():
        key = key.rpartition("}")[2]
        foreign = key == "href" and not value.startswith(("#", _DATA_IMAGE))
        if not foreign and not key.startswith("on"):
            attributes[key] = value
    element.attrib = attributes
    for child in list(element):
        _strip(child)
        if child.tag in _DROPPED:
            element.remove(child)


def _references(root: ElementTree.Element) -> set[str]:
    used = set()
    for element in root.iter():
        for key, value in element.attrib.items():
            used.update(_REFERENCE.findall(value))
            if key == "href" and value.startswith("#"):
                used.add(value[1:])
    return used


def _attribute(tag: str, key: str, value: str, name: str, used: set[str]) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key == "href":
        return f"#{name}-{value[1:]}" if value.startswith("#") else value
    if key in _GEOMETRY:
        return _LONG_NUMBER.sub(lambda match: f"{float(match[0]):.2f}", " ".join(value.split()))
    value = _REFERENCE.sub(lambda match: f"url(#{name}-{match[1]})", value)
    for colour, variable in _THEME.items():
        value = value.replace(colour, variable)
    if tag == "text":  # glyphs placed one by one (tspan) keep the font that they were placed for
        value = re.sub(r"font-family: [^;]*", "font-family: var(--sans)", value)
    return value


def _root_attributes(root: ElementTree.Element, alt: str) -> dict[str, str]:
    width, height = (_points(root.get(key, "")) for key in ("width", "height"))
    view_box = root.get("viewBox", f"0 0 {width:g} {height:g}")
    width = width or float(view_box.split()[2])
    pixels = width * 96 / 72
    return {
        "class": "drawing",
        "role": "img",
        "aria-label": alt,
        "viewBox": view_box,
        "style": f"min-width: {_SMALLEST_SCALE * pixels:.0f}px; max-width: {pixels:.0f}px",
    }


def _points(length: str) -> float:
    return float(length.removesuffix("pt") or 0)
