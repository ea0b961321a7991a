"""The pages: whole without the network, readable in both themes, on a phone, and never a script."""

import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import nbformat
import numpy as np
import pytest
from markupsafe import Markup

from clusterdyn.comparison import compare
from clusterdyn.display import GRID, INK, MUTED, PAPER, table_output
from clusterdyn.profiles import strict_config, study_config
from clusterdyn.report.execute import ExecutedNotebook
from clusterdyn.report.html import (
    figure_file,
    figure_html,
    render_notebook_page,
    render_page,
    template_environment,
)
from clusterdyn.report.markdown import markdown_to_html
from clusterdyn.report.mathml import latex_to_mathml
from clusterdyn.report.svg import inline_svg
from clusterdyn.report.verify import Figure
from clusterdyn.strict import tables
from clusterdyn.strict.arms import COMPARED, at_work, claim_budget
from clusterdyn.strict.claims import Claim, decomposition

CHROMIUM = "/usr/bin/chromium"
PAGES = [
    ("index.html", "Report"),
    ("01_data.html", "Data"),
    ("02_sample.html", "Does it pay?"),
    ("03_significance.html", "More than <chance>"),
]
LOADING = ("src", "href", "srcset", "data", "poster", "action", "xlink:href", "background")


class PageReader(HTMLParser):
    """Reads a page back: its elements with their attributes, and the text inside each."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.text: dict[str, list[str]] = {}
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "br", "img", "hr"):
            self.open.append(tag)
            self.text.setdefault(tag, []).append("")

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        for tag in set(self.open):
            self.text[tag][-1] += text

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def page(sample) -> str:
    return render_notebook_page(sample.executed, pages=PAGES, footer="profile quick · commit abc")


def page_of(*outputs: nbformat.NotebookNode, markdown: str = "# Title") -> str:
    """A page of one Markdown cell and one code cell with the outputs given."""
    cells = [
        nbformat.v4.new_markdown_cell(markdown),
        nbformat.v4.new_code_cell("show()", execution_count=1, outputs=list(outputs)),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    return render_notebook_page(
        ExecutedNotebook("case", "Title", notebook, ()), pages=[], footer=""
    )


def shown(data: dict, metadata: dict | None = None) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("display_data", data, metadata=metadata or {})


def assert_runs_and_loads_nothing(html: str) -> None:
    read = PageReader(html)
    for tag, attributes in read.elements:
        assert tag not in ("script", "iframe", "object", "embed", "base"), tag
        for key, value in attributes.items():
            assert not key.startswith("on"), (tag, key)
            if key in LOADING and tag != "a":
                assert not re.match(r"(?i)\s*(\w+:)?//|javascript:", value), (tag, key, value)
            if tag == "a" and key == "href":
                assert re.match(r"https?://|mailto:|#|[\w.-]+$", value), value
            if key == "style":
                assert "url(" not in value.replace("url(#", "")
    for css in read.text.get("style", []):
        assert "@import" not in css and "url(" not in css


# What is in a page


def test_page_runs_and_loads_nothing(page):
    assert_runs_and_loads_nothing(page)
    # What nbconvert's own page templates load, and what they say for a picture without a text.
    for word in ("require.js", "mathjax", "mermaid", "cdnjs", "unpkg", "jsdelivr"):
        assert word not in page.lower()
    assert "No description has been provided" not in page


def test_page_forbids_the_browser_to_run_or_load_anything(page):
    (policy,) = (
        meta["content"]
        for meta in PageReader(page).all("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none';") and "script-src" not in policy


def test_page_frame_is_complete(page):
    read = PageReader(page)
    assert read.open == []
    assert read.all("html") == [{"lang": "en"}]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in read.all(
        "meta"
    )
    assert read.text["title"] == ["Does it pay? · clusterdyn"]
    assert read.all("main") == [{"id": "content", "tabindex": "-1"}]
    assert {"class": "skip", "href": "#content"} in read.all("a")
    assert read.text["footer"] == ["profile quick · commit abc"]
    current = [link for link in read.all("a") if "aria-current" in link]
    assert current == [{"href": "02_sample.html", "aria-current": "page"}]
    links = {link["rel"]: link["href"] for link in read.all("a") if "rel" in link}
    assert links == {"prev": "01_data.html", "next": "03_significance.html"}
    assert "More than &lt;chance&gt;" in page


def test_headings_go_down_one_level_at_a_time_from_one_title(page):
    levels = [int(tag[1]) for tag, _ in PageReader(page).elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(lower - upper <= 1 for upper, lower in pairwise(levels))


def test_each_figure_has_its_alt_text_caption_and_provenance(page):
    read = PageReader(page)
    drawings = [svg for svg in read.all("svg") if svg.get("role") == "img"]
    assert [svg["aria-label"] for svg in drawings] == [
        "A line rises from left to right.",
        "Again a line.",
    ]
    assert len(read.all("svg")) == len(read.all("figure")) == 2
    assert [" ".join(text.split()) for text in read.text["figcaption"]] == [
        "One pair <of> eight. profile reference, seeds 0–7",
        "Two figures share shapes.",
    ]
    # The case of SVG's names survives, and a size that would hold against a phone's width does not.
    assert page.count("viewBox=") == 2 and page.count("<clipPath ") == 2
    assert not {"width", "height"} & set(drawings[0])


def test_ids_are_unique_and_every_reference_has_its_target(page):
    read = PageReader(page)
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert [name for name, n in Counter(ids).items() if n > 1] == []
    references = re.findall(r"url\(#([^)]+)\)", page)
    references += [use["href"].removeprefix("#") for use in read.all("use")]
    assert len(references) > 10 and set(references) <= set(ids)


def test_figures_of_one_name_can_share_a_page(sample):
    figure = sample.executed.figures[0]
    both = figure_html(figure, id_prefix="a-") + figure_html(figure, id_prefix="b-")
    ids = [attributes["id"] for _, attributes in PageReader(both).elements if "id" in attributes]
    assert len(ids) == len(set(ids)) > 4


def test_code_is_folded_and_highlighted_and_this_runs_parameters_are_open(page):
    read = PageReader(page)
    assert read.all("details") == [
        {"class": "code"},
        {"class": "code", "open": ""},
        *[{"class": "code"}] * 6,
    ]
    assert read.text["summary"][:3] == [
        "Parameters and their defaults",
        "Parameters of this run",
        "Code",
    ]
    assert '<span class="kn">import</span>' in page
    assert "artifacts" in read.text["details"][1]


def test_the_line_that_says_it_is_finished_is_not_shown(page):
    assert "finished, 2 figures" not in page
    assert "trained 48 models" in page


def test_math_is_mathml_and_code_spans_keep_their_dollars(page):
    read = PageReader(page)
    assert [math["display"] for math in read.all("math")] == ["inline", "block", "inline", "inline"]
    assert "cost = $5 and $6" in read.text["code"]
    assert "$" not in "".join(read.text["p"]).replace("cost = $5 and $6", "")
    assert "http://www.w3.org/1998" not in page


def test_wide_content_scrolls_in_a_box_that_the_keyboard_reaches(page):
    boxes = [a for _, a in PageReader(page).elements if "scroll" in a.get("class", "").split()]
    # Two tables, two figures, a formula, fenced code, eight code cells.
    assert len(boxes) == 14
    assert all(box["tabindex"] == "0" for box in boxes)


def test_page_is_small(page):
    assert len(page.encode()) < 200_000


# What comes from data or prose cannot become markup


def test_table_cells_and_captions_are_text(page):
    assert "&lt;b&gt;1&lt;/b&gt; &amp; more" in page
    assert "Test MSE of each seed &amp; &lt;script&gt;" in page


@pytest.mark.parametrize(
    "markdown",
    [
        "<script>alert(1)</script>",
        "text <img src=x onerror=alert(1)> text",
        "[link](javascript:alert(1))",
        "![picture](https://example.org/tracker.png)",
        r"$\text{<script>alert(1)</script>}$",
        r"$\href{javascript:alert(1)}{x}$",
        r"$$\style{background: url(//example.org)}{x}$$",
        "```mermaid\ngraph TD\n```",
    ],
)
def test_markdown_cannot_bring_in_scripts_or_pictures(markdown):
    for html in (
        page_of(markdown=f"# Title\n\n{markdown}"),
        page_of(shown({"text/markdown": markdown, "text/plain": ""})),
    ):
        assert_runs_and_loads_nothing(html)
        assert 'class="mermaid"' not in html


@pytest.mark.parametrize(
    "data",
    [
        {"text/html": "<script>alert(1)</script>", "text/plain": "a value"},
        {"application/javascript": "alert(1)", "text/plain": "a value"},
        {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "a value"},
        {"image/png": "iVBORw0KGgo=", "text/plain": "a value"},
        {"image/svg+xml": "<svg onload='alert(1)'/>", "text/plain": "a value"},
    ],
    ids=lambda data: next(iter(data)),
)
def test_other_kinds_of_output_are_shown_as_plain_text(data):
    html = page_of(shown(data))
    assert_runs_and_loads_nothing(html)
    assert PageReader(html).text["pre"][-1] == "a value"


def test_printed_markup_is_text():
    stream = nbformat.v4.new_output("stream", name="stdout", text="\x1b[31m<script>\x1b[0m & co")
    html = page_of(stream)
    assert_runs_and_loads_nothing(html)
    assert PageReader(html).text["pre"][-1] == "<script> & co"


def test_frame_escapes_text_and_takes_markup_as_markup():
    html = render_page(
        "<i>T</i>", "<h1>T</h1>", pages=[("a.html", "<b>")], current="a.html", footer="<u>"
    )
    assert "<title>&lt;i&gt;T&lt;/i&gt; · clusterdyn</title>" in html
    assert "&lt;b&gt;" in html and "&lt;u&gt;" in html and "<h1>T</h1>" in html
    html = render_page("T", "", pages=[], current="", footer=Markup("<u>f</u>"))
    assert "<u>f</u>" in html


def test_further_template_fills_the_frame_and_is_escaped():
    template = template_environment().from_string(
        '{% extends "page.html.j2" %}{% block main %}<h1>{{ text }}</h1>{% endblock %}'
    )
    html = template.render(text="<&>", title="T", pages=PAGES, current="index.html", footer="f")
    read = PageReader(html)
    assert "<h1>&lt;&amp;&gt;</h1>" in html
    assert read.all("a")[2] == {"href": "index.html", "aria-current": "page"}
    assert [link["href"] for link in read.all("a") if "rel" in link] == ["01_data.html"]


# Markdown and math


def test_dollars_are_math_only_where_they_hug_it():
    assert "<math" not in markdown_to_html("It costs $5 or $6.", set())
    assert markdown_to_html("From $a$ to $b$.", set()).count("<math") == 2
    assert "<math" not in markdown_to_html(r"A \$x\$ is escaped.", set())
    assert "<math" not in markdown_to_html("```\n$x$\n```", set())


def test_headings_of_the_same_text_get_ids_of_their_own():
    headings = set()
    html = markdown_to_html("## The `η²` law", headings) + markdown_to_html("## The law", headings)
    html += markdown_to_html("## The law", headings)
    assert re.findall(r'id="([^"]+)"', html) == ["the-law", "the-law-2", "the-law-3"]


def test_formula_has_italic_variables_and_upright_functions():
    html = latex_to_mathml(r"\tanh x", display="inline")
    assert '<mi mathvariant="normal">tanh</mi><mi>x</mi>' in html
    assert html.startswith('<math display="inline">')
    aligned = latex_to_mathml(r"\begin{aligned} a &= b \\ c &= d \end{aligned}", display="block")
    assert aligned.count("<mtr>") == 2


@pytest.mark.parametrize("latex", [r"\nosuchcommand x", r"\text{a & b}", r"\text{<b>}", r"\frac"])
def test_formula_that_cannot_be_typeset_shows_its_source(latex):
    with pytest.raises(ValueError, match="cannot typeset the formula"):
        latex_to_mathml(latex, display="inline")
    html = markdown_to_html(f"so ${latex}$ there", set())
    assert latex in PageReader(html).text["code"]


# Figures


SMALL_SVG = f"""<?xml version="1.0"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
     width="72pt" height="36pt" viewBox="0 0 72 36">
 <defs><style>*{{stroke-linecap: butt}}</style></defs>
 <script>alert(1)</script>
 <g id="unused" onclick="alert(1)">
  <path id="mark" d="M 1.23456789 2 L 3 4.5" style="stroke: {INK}; fill: {PAPER}"/>
  <use xlink:href="#mark" style="stroke: {GRID}"/><use xlink:href="https://example.org/a.svg#b"/>
  <image xlink:href="https://example.org/a.png"/>
  <text style="fill: {MUTED}; font-family: 'DejaVu Sans', sans-serif">a &lt; b</text>
 </g>
</svg>"""


def test_figure_on_a_page_follows_the_theme_and_leaves_the_rest_of_the_page_alone():
    html = inline_svg(SMALL_SVG, name="fig", alt='a "quoted" text')
    for colour, variable in {INK: "ink", PAPER: "paper", GRID: "grid", MUTED: "muted"}.items():
        assert colour not in html and f"var(--{variable})" in html
    assert_runs_and_loads_nothing(html)
    assert "example.org" not in html and "alert" not in html and "<style" not in html
    assert 'id="fig-mark"' in html and 'href="#fig-mark"' in html and "unused" not in html
    assert 'd="M 1.23 2 L 3 4.5"' in html
    assert 'aria-label="a &quot;quoted&quot; text"' in html
    assert "max-width: 96px" in html
    assert ">a &lt; b</text>" in html


def test_figure_that_is_no_svg_is_refused():
    with pytest.raises(ValueError, match="figure 'fig' is not an SVG document"):
        inline_svg("<svg", name="fig", alt="a")


def test_figure_file_stands_alone_on_white(sample):
    figure = sample.executed.figures[1]
    text = figure_file(figure.svg)
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root[0].attrib == {"width": "100%", "height": "100%", "fill": PAPER}
    assert root.get("width") == "288pt"
    assert "the same drawing, η²</text>" in text
    assert "<!DOCTYPE" not in text


# In a browser


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if not Path(CHROMIUM).exists():
        pytest.skip(f"needs {CHROMIUM}")
    options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, page, tmp_path):
    """Opens the page with the network cut; complains of any request and any message."""
    contexts, complaints = [], []

    def visit(width: int = 1280, scheme: str = "light", html: str = page):
        file = tmp_path / "02_sample.html"
        file.write_text(html)
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        tab = context.new_page()
        tab.on("request", lambda request: complaints.append(request.url))
        tab.on("console", lambda message: complaints.append(message.text))
        tab.goto(file.as_uri(), wait_until="load")
        assert complaints.pop(0) == file.as_uri()
        return tab

    yield visit
    for context in contexts:
        context.close()
    assert [url for url in complaints if not url.startswith("data:")] == []


OVERFLOWING = """() => {
  const width = document.documentElement.clientWidth;
  const inside = (element) => element.closest(".scroll, .printed");
  return [document.documentElement.scrollWidth - width].concat(
    [...document.body.querySelectorAll("*:not(.skip)")]
      .filter((element) => !inside(element.parentElement) && !element.closest("math, svg"))
      .filter((element) => element.getBoundingClientRect().right > width + 0.5)
      .map((element) => element.outerHTML.slice(0, 80)));
}"""

CONTRASTS = """() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (colour) => {
    const [r, g, b] = parse(colour).slice(0, 3).map((v) => v / 255).map(
      (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (parse(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const ink = element.closest("svg") ? style.fill : style.color;
    const [a, b] = [luminance(ink), luminance(background(element))].sort((x, y) => y - x);
    found.push({
      text: walker.currentNode.data.trim().slice(0, 30),
      svg: !!element.closest("svg"),
      contrast: (a + 0.05) / (b + 0.05),
      paper: luminance(background(document.body)),
    });
  }
  return found;
}"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_page_needs_no_network_and_never_scrolls_sideways(visit, width):
    tab = visit(width)
    tab.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
    assert tab.evaluate(OVERFLOWING) == [0]


@pytest.fixture(scope="module")
def page_of_claims() -> str:
    """The claims of profile full at equal work and of the decomposition, with made-up scores."""
    config, strict = study_config("full"), strict_config("full")
    rng, seeds = np.random.default_rng(0), np.arange(100, 132)
    verdicts = ("helps", "harms", "equivalent", "unclear")

    def claim(step: str, baseline: str, treatment: str, number: int) -> Claim:
        scores = 0.00371 * np.exp(0.1 * rng.normal(size=(2, len(seeds))))
        comparison = compare(seeds, *scores)
        return Claim("equal_work", step, baseline, treatment, comparison, 0.00123,
                     verdicts[number % 4])  # fmt: skip

    arms = [at_work(config, name, claim_budget(strict)) for name in COMPARED]
    families = {
        "equal_work": [claim("", "full", arm.label, i) for i, arm in enumerate(arms)],
        "decomposition": [
            claim(step, before.label, after.label, i)
            for i, (before, after, step) in enumerate(decomposition(config, strict, 0.01))
        ],
    }
    study = SimpleNamespace(inference=SimpleNamespace(family=families.get))
    outputs = []
    for family in families:
        table = tables.claims(study, family)
        outputs.append(
            shown(*table_output(table.rows, columns=table.columns, caption=table.caption))
        )
    return page_of(*outputs)


@pytest.mark.browser
@pytest.mark.parametrize("width", [1024, 1280])
def test_tables_of_claims_fit_a_wide_page(visit, page_of_claims, width):
    tab = visit(width, html=page_of_claims)
    boxes = tab.evaluate(
        """() => [...document.querySelectorAll(".scroll:has(> table)")].map((box) => [
          box.clientWidth, box.scrollWidth])"""
    )
    assert len(boxes) == 2
    assert all(room >= needed for room, needed in boxes)
    assert tab.evaluate(OVERFLOWING) == [0]


@pytest.mark.browser
def test_tables_of_claims_scroll_in_themselves_on_a_phone(visit, page_of_claims):
    tab = visit(390, html=page_of_claims)
    boxes = tab.evaluate(
        """() => [...document.querySelectorAll(".scroll:has(> table)")].map((box) => [
          box.clientWidth, box.scrollWidth,
          box.querySelector("tbody td").getBoundingClientRect().right])"""
    )
    assert all(needed > 2 * room for room, needed, _ in boxes)
    assert all(verdict < 390 for _, _, verdict in boxes)  # seen before anything is moved
    assert tab.evaluate(OVERFLOWING) == [0]


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_an_estimate_and_its_interval_stand_on_one_line(visit, page_of_claims, width):
    heights = visit(width, html=page_of_claims).evaluate(
        """() => [...document.querySelectorAll("td")].filter((cell) => cell.innerText.includes("["))
          .map((cell) => {
            const range = document.createRange();
            range.selectNodeContents(cell);
            return range.getClientRects().length;
          })"""
    )
    assert len(heights) > 30 and set(heights) == {1}


@pytest.mark.browser
def test_the_check_for_sideways_scrolling_sees_it(visit, page):
    wide = page.replace("</main>", "<div style='width: 500px'>wide</div></main>")
    assert visit(390, html=wide).evaluate(OVERFLOWING)[0] > 0


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_contrasts_with_its_background_in_both_themes(visit, scheme):
    tab = visit(scheme=scheme)
    tab.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
    found = tab.evaluate(CONTRASTS)
    assert {text["svg"] for text in found} == {True, False} and len(found) > 150
    assert all((text["paper"] < 0.05) == (scheme == "dark") for text in found)
    assert [text for text in found if text["contrast"] < 4.5] == []


@pytest.mark.browser
def test_figure_text_stays_legible_on_a_phone(visit):
    sizes = visit(390).evaluate(
        """() => [...document.querySelectorAll("svg text:not(:has(tspan))")].map((text) =>
          parseFloat(getComputedStyle(text).fontSize)
          * text.closest("svg").getBoundingClientRect().width
          / text.closest("svg").viewBox.baseVal.width)"""
    )
    assert len(sizes) > 10 and min(sizes) >= 9


@pytest.mark.browser
def test_drawings_are_drawn_where_they_belong(visit):
    boxes = visit().evaluate(
        """() => [...document.querySelectorAll("svg.drawing")].map((svg) => {
          const frame = svg.getBoundingClientRect();
          const marks = [...svg.querySelectorAll("use")].map((u) => u.getBoundingClientRect());
          return [frame.width, frame.height, marks.length, marks.every((m) =>
            m.left >= frame.left && m.right <= frame.right && m.top >= frame.top
            && m.bottom <= frame.bottom)];
        })"""
    )
    assert [(round(width), round(height)) for width, height, _, _ in boxes] == [
        (672, 384),
        (384, 288),
    ]
    assert all(marks > 5 and inside for _, _, marks, inside in boxes)


@pytest.mark.browser
def test_keyboard_reaches_the_skip_link_first_and_sees_where_it_is(visit):
    tab = visit()
    tab.keyboard.press("Tab")
    focused = "() => [document.activeElement.className, document.activeElement.id]"
    assert tab.evaluate(focused) == ["skip", ""]
    assert tab.evaluate("document.activeElement.getBoundingClientRect().left") > 0
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.keyboard.press("Enter")
    assert tab.evaluate(focused) == ["", "content"]


@pytest.mark.browser
def test_paper_shows_figures_and_tables_but_neither_navigation_nor_folded_code(visit):
    tab = visit(scheme="dark")
    tab.emulate_media(media="print", color_scheme="dark")
    hidden = tab.evaluate(
        """() => ["header nav", ".pager", "details:not([open])", "figure", "table"].map(
          (selector) => getComputedStyle(document.querySelector(selector)).display === "none")"""
    )
    assert hidden == [True, True, True, False, False]
    colours = "(() => { const s = getComputedStyle(document.body);"
    assert tab.evaluate(colours + "return [s.color, s.backgroundColor] })()") == [
        "rgb(0, 0, 0)",
        "rgb(255, 255, 255)",
    ]


def test_figure_of_another_notebook_can_be_rendered_alone():
    html = figure_html(Figure("fig", 'alt "text"', "caption <b>", "", SMALL_SVG))
    assert "caption &lt;b&gt;" in html and "provenance" not in html
