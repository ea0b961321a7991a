"""What notebooks show: outputs that a page can use, the same on every run."""

import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from clusterdyn import display
from clusterdyn.display import figure_output, table_output


def drawing() -> Figure:
    figure = Figure(figsize=(4, 3))
    axes = figure.subplots()
    axes.plot([1, 2, 3], [1, 4, 9], "o-", label="D against η")
    axes.set_xlabel("relaxation factor η")
    axes.legend()
    return figure


def output_of(**changes: str) -> tuple[dict, dict]:
    arguments = {"name": "slope", "alt": "A rising line.", "caption": "D rises."} | changes
    return figure_output(drawing(), **arguments)


def test_figure_is_svg_with_alt_as_text_and_carries_what_a_reader_needs():
    data, metadata = output_of(provenance="seeds 0–7")
    assert set(data) == {"image/svg+xml", "text/plain"}
    assert data["text/plain"] == "A rising line."
    assert metadata["clusterdyn"] == {
        "figure": "slope",
        "alt": "A rising line.",
        "caption": "D rises.",
        "provenance": "seeds 0–7",
    }
    ElementTree.fromstring(data["image/svg+xml"])


def test_figure_text_can_be_searched():
    svg = output_of()[0]["image/svg+xml"]
    assert "relaxation factor η</text>" in svg


def test_figure_has_the_same_bytes_on_every_run_and_no_date():
    first, second = (output_of()[0]["image/svg+xml"] for _ in range(2))
    assert first == second
    assert "<metadata" not in first and not re.search(r"20\d\d-\d\d", first)


def test_two_figures_never_share_a_clip_path_id():
    first, second = (
        set(re.findall(r'clipPath id="([^"]+)"', output_of(name=name)[0]["image/svg+xml"]))
        for name in ("one", "two")
    )
    assert first and second and not first & second


def test_figure_background_is_transparent():
    root = ElementTree.fromstring(output_of()[0]["image/svg+xml"])
    (patch,) = root.findall('.//*[@id="patch_1"]/*')
    assert patch.get("style") == "fill: none"


def test_figure_does_not_depend_on_the_backend():
    outputs = []
    for backend in ("agg", "pdf", "svg"):
        pyplot.switch_backend(backend)
        figure, axes = pyplot.subplots(figsize=(4, 3))
        axes.plot([1, 2, 3])
        outputs.append(figure_output(figure, name="a", alt="b", caption="c"))
        pyplot.close(figure)
    assert outputs[0] == outputs[1] == outputs[2]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "Slope 1"}, "a figure's name must be lower-case letters, digits and underscores"),
        ({"name": ""}, "a figure's name must be"),
        ({"alt": " "}, "figure 'slope' needs alt text"),
        ({"caption": ""}, "figure 'slope' needs caption"),
    ],
)
def test_figure_without_name_alt_or_caption_is_refused(changes, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        output_of(**changes)


def test_showing_returns_none_emits_one_output_and_closes_the_figure(monkeypatch):
    shown = []
    monkeypatch.setattr(display, "display", lambda data, **options: shown.append((data, options)))
    figure, _ = pyplot.subplots()
    # Cells end in these calls, and a value would be shown as one more output: the formatter
    # strips the trailing semicolon that would prevent it.
    assert display.show_figure(figure, name="a", alt="b", caption="c") is None
    assert display.show_table([[1]], columns=["n"], caption="c") is None
    assert display.show_text("some *text*") is None
    assert display.finish("02_training", figures=1) is None
    assert len(shown) == 4
    assert not pyplot.fignum_exists(figure.number)
    assert all(options["raw"] for _, options in shown)


def test_finish_names_the_notebook_its_figures_and_its_environment(monkeypatch):
    shown = []
    monkeypatch.setattr(display, "display", lambda data, **options: shown.append((data, options)))
    display.finish("02_training", figures=1)
    ((data, options),) = shown
    assert data == {"text/plain": "02_training: finished, 1 figure"}
    assert options["metadata"]["clusterdyn"] == {
        "finished": "02_training",
        "figures": 1,
        "prefix": sys.prefix,
    }
    with pytest.raises(ValueError, match="figures must be the number of figures shown; got True"):
        display.finish("02_training", figures=True)


class TableReader(HTMLParser):
    """Reads a table back: its caption, and (tag, scope, text) of each cell."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[list] = []
        self.caption = ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag in ("th", "td"):
            self.cells.append([tag, dict(attributes).get("scope"), "", dict(attributes)["style"]])

    def handle_endtag(self, tag):
        self.tags.remove(tag)

    def handle_data(self, text):
        if "caption" in self.tags:
            self.caption += text
        elif text.strip():
            self.cells[-1][2] += text


def test_table_reads_back_with_scopes_caption_and_escaped_cells():
    data, metadata = table_output(
        [["<i>full</i>", 0.00371234, None], ["a & b", np.float64(2.5e-7), True]],
        columns=["arm", "MSE", "wins"],
        caption="Both <arms>.",
    )
    table = TableReader(data["text/html"])
    assert table.tags == []
    assert table.caption.strip() == "Both <arms>."
    assert [cell[:3] for cell in table.cells] == [
        ["th", "col", "arm"],
        ["th", "col", "MSE"],
        ["th", "col", "wins"],
        ["th", "row", "<i>full</i>"],
        ["td", None, "0.003712"],
        ["td", None, "–"],
        ["th", "row", "a & b"],
        ["td", None, "2.5e-07"],
        ["td", None, "yes"],
    ]
    assert metadata == {"clusterdyn": {"table": "Both <arms>."}}


def test_columns_of_numbers_are_aligned_right_and_a_dash_does_not_change_that():
    data, _ = table_output(
        [["a", 1, "12 %", "x"], ["b", -2.5, "–", "3"], ["c", None, "≈ 1.5e-3", "y"]],
        columns=["arm", "n", "share", "note"],
        caption="c",
    )
    sides = [cell[3].removeprefix("text-align: ") for cell in TableReader(data["text/html"]).cells]
    assert sides == ["left", "right", "right", "left"] * 4


def test_an_estimate_stays_on_the_line_of_its_interval_and_prose_may_break():
    estimates = ["0.969 [0.947, 0.992]", "+12 [-1.1e-05, 13]", "[0.0006, 0.004]"]
    others = ["over 256 sign patterns", "95 % interval [1.21, 2.24]", "a [b] c"]
    data, _ = table_output([estimates, others], columns=["a", "b", "c"], caption="c")
    styles = {cell[2]: cell[3] for cell in TableReader(data["text/html"]).cells}
    assert [text for text, style in styles.items() if "white-space: nowrap" in style] == estimates


def test_words_are_listed_as_in_a_sentence():
    assert display.listed(["a"]) == "a"
    assert display.listed(name for name in "ab") == "a and b"
    assert display.listed(["a", "b", "c"]) == "a, b and c"


def test_plain_table_lines_up():
    data, _ = table_output([["full", 8], ["idea", 12]], columns=["arm", "n"], caption="Runs.")
    assert data["text/plain"].splitlines() == [
        "Runs.",
        "",
        "arm    n",
        "----  --",
        "full   8",
        "idea  12",
    ]


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        ({"rows": [["a"]]}, ValueError, "row 0 of the table has 1 cells; its 2 columns are a, b"),
        ({"caption": ""}, ValueError, "a table needs a caption"),
        ({"align": ["left"]}, ValueError, "align must give one of left, right, center for each"),
        ({"align": ["left", "middle"]}, ValueError, "align must give one of"),
        ({"rows": [[1, [2]]]}, TypeError, "a table's cell must be a string, a number"),
    ],
)
def test_table_that_does_not_fit_is_refused(changes, error, sentence):
    arguments = {"rows": [[1, 2]], "columns": ["a", "b"], "caption": "c"} | changes
    with pytest.raises(error, match=re.escape(sentence)):
        table_output(arguments.pop("rows"), **arguments)


def test_empty_text_is_refused():
    with pytest.raises(ValueError, match="empty text"):
        display.show_text(" \n")
