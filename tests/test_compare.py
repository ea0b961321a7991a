"""Two reports beside each other, and a report beside its expected ranges."""

import copy
import json
import re
import shutil
from pathlib import Path

import pytest
from inspection import contents, put

from clusterdyn.__main__ import main
from clusterdyn.compare.changes import compare_results
from clusterdyn.compare.gate import expected_ranges, read_ranges
from clusterdyn.reference.published import published_report

REPO = Path(__file__).resolve().parents[1]
ARM = ("arms", "full", "test_mse")
STRICT = ("protocols", "strict")


@pytest.fixture(scope="module")
def results() -> dict:
    """The committed report's results."""
    return json.loads((REPO / "reports" / "results.json").read_text("utf-8"))


@pytest.fixture
def write(tmp_path):
    """Writes results to a file and returns its path as text."""

    def write(value, name: str = "a.json") -> str:
        path = tmp_path / name
        path.write_text(json.dumps(value) if not isinstance(value, str) else value, "utf-8")
        return str(path)

    return write


def scaled(results: dict, factors: list[float], rate: int = 2) -> dict:
    """The results with the full arm's score at one rate changed, seed by seed."""
    changed = copy.deepcopy(results)
    for row, factor in zip(changed["arms"]["full"]["test_mse"], factors, strict=True):
        row[rate] *= factor
    return changed


def moved(before: dict, after: dict) -> tuple[str, ...]:
    return compare_results(before, after).moved


# What counts.


def test_identical_reports_are_the_same_in_every_number(results, write, capsys):
    before = write(results)
    assert main(["compare", before, before]) == 0
    said = capsys.readouterr().out
    assert "No number moved: " in said and said.count("\n") == 3
    counts = compare_results(results, results).compared
    # 2 arms × 3 rates, 2 arms × 4 laws, 71 arms, 13² and 5² tests of models with other schedules.
    assert counts["lists"] >= 6 + 8 + 71 + 13**2 + 5**2


def test_a_score_that_rises_on_every_seed_has_moved(results, write, capsys):
    after = scaled(results, [1.5] * 8)
    (change,) = compare_results(results, after).scores
    assert change.name == "reference: full at rate 0.01"
    assert (change.seeds, change.changed, change.diverged, change.moved) == (8, 8, 0, True)
    # The mean over seeds as the bench report tells it, and half of it more.
    mean = results["protocols"]["reference"]["comparison"]["baseline"]
    assert change.before == pytest.approx(sum(mean) / 8)
    assert change.difference == pytest.approx(change.before / 2)
    assert 0 < change.low < change.difference < change.high
    assert main(["compare", write(results), write(after, "b.json")]) == 3
    said = capsys.readouterr().out
    assert "1 moved beyond noise, of 1 that changed among" in said
    assert "reference: full at rate 0.01" in said and "8 of 8" in said


def test_a_score_that_rises_and_falls_has_not_moved(results, write, capsys):
    after = scaled(results, [1.02, 0.98] * 4)
    (change,) = compare_results(results, after).scores
    assert change.changed == 8 and not change.moved and change.low < 0 < change.high
    assert main(["compare", write(results), write(after, "b.json")]) == 0
    assert "No number moved beyond its noise; 1 changed among" in capsys.readouterr().out


def test_a_shift_of_all_seeds_within_rounding_has_not_moved(results):
    (change,) = compare_results(results, scaled(results, [1 + 9e-5] * 8)).scores
    assert change.adjusted_p < 0.05 and not change.moved
    (change,) = compare_results(results, scaled(results, [1 + 1.1e-4] * 8)).scores
    assert change.moved


def test_p_values_are_adjusted_over_all_lists_that_changed(results):
    # By itself a shift in this direction on most seeds is just significant.
    factors = [1.05, 1.04, 1.06, 1.03, 1.05, 0.99, 1.0, 1.02]
    (alone,) = compare_results(results, scaled(results, factors)).scores
    both = scaled(scaled(results, factors), [1.02, 0.98] * 4, rate=1)
    found = {change.name: change for change in compare_results(results, both).scores}
    among = found["reference: full at rate 0.01"]
    assert among.adjusted_p == pytest.approx(2 * alone.adjusted_p)
    assert alone.adjusted_p < 0.05


def test_a_seed_that_diverges_in_one_report_only_has_moved(results):
    after = put(results, (*ARM, 3, 2), None)
    for one, other in ((results, after), (after, results)):
        (change,) = compare_results(one, other).scores
        assert change.diverged == 1 and change.changed == 1 and change.moved
    assert moved(after, after) == ()


def test_scores_are_compared_on_the_seeds_of_both_whatever_their_order(results):
    after = copy.deepcopy(results)
    strict = after["protocols"]["strict"]
    order = [1, 0, *range(2, 32)]
    strict["test_seeds"] = [strict["test_seeds"][i] for i in order]
    arms = [arm for arm in strict["arms"] if len(arm["test_mse"]) == 32]
    assert len(arms) > 20
    for arm in arms:
        arm["test_mse"] = [arm["test_mse"][i] for i in order]
    changed = {change.name for change in compare_results(results, after).scores}
    assert not changed & {f"strict: {arm['label']}" for arm in arms}


def test_an_arm_with_one_seed_in_common_cannot_be_compared_and_counts(results):
    after = copy.deepcopy(results)
    after["arms"]["full"]["seeds"] = [0, *range(50, 57)]
    assert "reference: full at rate 0.01 (fewer than two seeds in common)" in moved(results, after)


def test_a_verdict_that_flips_has_moved(results, write, capsys):
    claim = results["protocols"]["strict"]["claims"][0]
    other = "helps" if claim["verdict"] != "helps" else "harms"
    after = put(results, (*STRICT, "claims", 0, "verdict"), other)
    (change,) = compare_results(results, after).verdicts
    assert (change.before, change.after) == (claim["verdict"], other)
    assert claim["family"] in change.name and claim["step"] in change.name
    assert main(["compare", write(results), write(after, "b.json")]) == 3
    assert "Verdicts that differ" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        (("verdicts", "system_verdict"), "works", "trial: system_verdict"),
        (("protocols", "reference", "criteria", 0, "held"), False, "mechanism: lowest end"),
        (("agreement", 10, "within"), False, "published: "),
        ((*STRICT, "arms", 0, "node_updates"), 17.0, "node updates"),
        ((*STRICT, "arms", 0, "rate"), 0.5, "learning rate"),
        ((*STRICT, "yardsticks", "persistence", 0), 9.0, "yardstick: persistence, seed 100"),
    ],
)
def test_what_has_no_noise_has_moved_once_it_differs(results, path, value, name):
    (found,) = moved(results, put(results, path, value))
    assert name in found


def test_other_settings_are_told_and_do_not_count(results, write, capsys):
    after = put(put(results, ("config", "epochs"), 13), ("provenance", "commit"), "abcdef0")
    found = compare_results(results, after)
    assert [(c.name, c.before, c.after) for c in found.settings] == [
        ("config.epochs", str(results["config"]["epochs"]), "13"),
        ("provenance.commit", results["provenance"]["commit"], "abcdef0"),
    ]
    assert main(["compare", write(results), write(after, "b.json")]) == 0
    said = capsys.readouterr().out
    assert "No number moved: " in said and re.search(r"config\.epochs +12 +13", said)


def test_times_are_told_as_ratios_and_do_not_count(results, write, capsys):
    seconds = results["cost"]["bench"]["plain_s"]
    after = put(results, ("cost", "bench", "plain_s"), 2 * seconds)
    assert main(["compare", write(results), write(after, "b.json")]) == 0
    assert re.search(r"bench: plain .+ 2$", capsys.readouterr().out, flags=re.MULTILINE)


def test_a_part_that_b_lacks_counts_and_one_that_a_lacks_does_not(results, write, capsys):
    short = put(results, STRICT, None)
    assert main(["compare", write(results), write(short, "b.json")]) == 3
    said = capsys.readouterr().out
    assert "that A has" in said and re.search(r"strict +\d+ .+ A only", said)
    assert main(["compare", str(write(short)), write(results, "b.json")]) == 0
    assert "B only" in capsys.readouterr().out


def test_scores_beyond_the_published_setting_are_compared(results):
    strict = results["protocols"]["strict"]
    arm = next(arm for arm in strict["arms"] if len(arm["test_mse"]) == 12)
    place = {"experiment": "graphs", "name": "torus", "arms": [arm]}
    place |= {"left_out": [], "law": None, "settling": None}
    parts = {"config": {}, "test_seeds": strict["test_seeds"], "left_out": [], "claims": []}
    before = put(results, ("limits",), {**parts, "places": [place]})
    after = copy.deepcopy(before)
    (found,) = after["limits"]["places"][0]["arms"]
    found["test_mse"] = [2 * score for score in arm["test_mse"]]
    assert moved(before, after) == (f"limits, graphs, torus: {arm['label']}",)


# What is written.


def test_json_holds_what_the_text_says(results, write, tmp_path, capsys):
    after = scaled(results, [1.5] * 8)
    target = tmp_path / "comparison.json"
    arguments = ["compare", write(results), write(after, "b.json"), "--json", str(target)]
    assert main(arguments) == 3
    record = json.loads(target.read_text("utf-8"))
    assert record["moved"] == ["reference: full at rate 0.01"]
    assert record["headline"] in capsys.readouterr().out
    assert record["scores"][0]["changed"] == 8 and record["settings"] == []


def test_the_page_escapes_what_reports_say_and_needs_nothing_else(results, write, tmp_path):
    after = put(scaled(results, [1.5] * 8), ("label",), "<script>alert(1)</script>")
    target = tmp_path / "comparison.html"
    after["config"]["<img src=x>"] = "a"
    arguments = [write(results), write(after, "<b>.json"), "--html", str(target)]
    assert main(["compare", *arguments]) == 3
    page = target.read_text("utf-8")
    assert "<script" not in page and "<img" not in page and "<b>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "reference: full at rate 0.01" in page
    assert "index.html" not in page and not re.search(r'(src|href)="(?!data:|#)', page)
    frames = re.findall(r'<div class="scroll wide places" tabindex="0"[^>]*><table>', page)
    assert len(frames) == page.count("<table>") == 2


# What is refused.

BROKEN = {
    "no JSON": ("{", "is no JSON: "),
    "an empty file": ("", "is no JSON: "),
    "NaN": ('{"schema_version": NaN}', "is no JSON: NaN is no number of JSON"),
    "half a character": ('{"label": "\\ud800"}', "is no JSON: "),
    "brackets without end": ("[" * 100_000, "is no JSON: "),
    "a list": ("[]", "does not fit the schema of results at $: "),
    "another version": (
        '{"schema_version": 2}',
        "has schema version 2, and this clusterdyn reads version 1",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_is_no_report_is_refused_in_a_sentence(results, write, capsys, case):
    text, words = BROKEN[case]
    assert main(["compare", write(results), write(text, "b.json")]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert "b.json" in said.err and words in said.err


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ((*ARM, 0, 0), "low", "at $.arms.full.test_mse[0][0]: 'low'"),
        ((*STRICT, "test_seeds"), [1, 2], "numbers for 2 seeds"),
        (("arms", "full", "seeds"), [0] * 8, "has a seed twice"),
        ((*STRICT, "matrix", "test_mse"), [[]], "the matrix table lacks a row"),
        ((*STRICT, "matrix", "test_mse", 0, 0), ["x"], "is not a list of numbers"),
        ((*ARM, 0), [0.1], "does not have a score for each learning rate"),
        (("arms", "full", "selected"), 7, "selects learning rate number 7 of 3"),
    ],
)
def test_results_that_do_not_fit_are_refused_with_the_place(
    results, write, capsys, path, value, words
):
    assert main(["compare", write(results), write(put(results, path, value), "b.json")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "b.json" in said and words in said


def test_what_is_missing_or_cannot_be_written_is_refused_before_anything_is(
    results, write, tmp_path, capsys
):
    path = write(results)
    (tmp_path / "empty").mkdir()
    before = contents(tmp_path)
    for arguments, words in (
        ([path, str(tmp_path / "none")], "none does not exist: give a report's directory or its"),
        ([path, str(tmp_path / "empty")], "empty/results.json does not exist"),
        ([path, path, "--json", str(tmp_path / "no" / "x")], "does not exist, so that x cannot"),
        ([path, path, "--html", str(tmp_path)], "is a directory: give the name of a file"),
    ):
        assert main(["compare", *arguments]) == 2
        said = capsys.readouterr()
        assert said.out == "" and words in said.err
    assert contents(tmp_path) == before


# The gate.


@pytest.fixture
def report(results, tmp_path) -> Path:
    """A report's directory with the committed figures."""
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps(results), "utf-8")
    shutil.copy(REPO / "reports" / "bench_report.json", folder)
    return folder


def set_figure(report: Path, path: tuple, value) -> None:
    """Changes one figure of a report's directory."""
    file = report / "bench_report.json"
    file.write_text(json.dumps(put(json.loads(file.read_text("utf-8")), path, value)), "utf-8")


def test_the_committed_report_is_within_its_ranges(report, capsys):
    assert main(["gate", str(report)]) == 0
    assert "All 29 figures lie within their expected ranges." in capsys.readouterr().out


def test_ranges_follow_from_the_rules_of_agreement():
    own = json.loads((REPO / "reports" / "bench_report.json").read_text("utf-8"))
    committed, derived = read_ranges(None), expected_ranges(published_report(), own)
    for found, expected in zip(committed["figures"], derived["figures"], strict=True):
        assert found["figure"] == expected["figure"] and found["source"] == expected["source"]
        for bound in found.keys() & {"low", "high"}:
            assert found[bound] == pytest.approx(expected[bound], rel=1e-3)
        assert found.get("value") == expected.get("value")
    ranges = {entry["figure"]: entry for entry in committed["figures"]}
    mean = published_report()["idea"]["mean"]
    assert ranges["idea.mean"]["low"] == pytest.approx(mean / 1.5)
    assert ranges["idea.mean"]["high"] == pytest.approx(mean * 1.5)
    assert ranges["mechanism_ok"]["value"] == 1  # published is 0, which this project does not meet
    assert "this project's report" in ranges["mechanism_ok"]["source"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("idea", "mean"), 0.02),
        (("comparison", "p_value"), 0.05),
        (("practical_verdict",), "unclear"),
        (("mechanism_ok",), 0),
        (("baseline", "sweep", 0, "mean"), None),
    ],
)
def test_a_figure_outside_its_range_is_told_with_its_source(report, capsys, path, value):
    set_figure(report, path, value)
    assert main(["gate", str(report)]) == 3
    said = capsys.readouterr().out
    name = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)[1:]
    assert "1 of 29 figures lie outside their expected ranges." in said
    (row,) = [line for line in said.splitlines() if line.startswith(f"{name} ")]
    assert "published" in row


def test_the_gate_refuses_a_report_of_other_settings(report, results, capsys):
    changed = put(put(results, ("config", "epochs"), 13), ("config", "sweeps"), 4)
    (report / "results.json").write_text(json.dumps(changed), "utf-8")
    assert main(["gate", str(report)]) == 2
    said = capsys.readouterr().err
    assert "is not of the study's own settings (sweeps, epochs differ)" in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"low": 2.0, "high": 1.0}, "lets 'idea.mean' be from 2 to 1: low must not exceed high"),
        ({"low": 2.0}, "does not fit the schema of gate at $.figures[0]: "),
        ({"low": 1.0, "high": 2.0, "source": None}, "at $.figures[0].source: None"),
    ],
)
def test_a_file_of_ranges_that_makes_no_sense_is_refused(report, write, capsys, change, words):
    entry = {"figure": "idea.mean", "rule": "a rule", "source": "a source", **change}
    path = write({"gate_version": 1, "figures": [entry]})
    assert main(["gate", str(report), "--ranges", path]) == 2
    assert words in capsys.readouterr().err


def test_ranges_of_your_own_are_held_against_the_report(report, write, capsys):
    entry = {"figure": "idea.n", "value": 9, "rule": "equal", "source": "a second trial"}
    other = dict(entry, figure="idea.none", value=1)
    path = write({"gate_version": 1, "figures": [entry, other]})
    assert main(["gate", str(report), "--ranges", path]) == 3
    said = capsys.readouterr().out
    assert re.search(r"idea\.n +8 +9 +equal +a second trial", said)
    assert re.search(r"idea\.none +nothing +1 ", said)
    assert main(["gate", str(report), "--ranges", path + "x"]) == 2
    assert "does not exist: give a file of ranges" in capsys.readouterr().err


def test_the_gate_wants_a_directory_with_the_figures(report, capsys):
    assert main(["gate", str(report / "results.json")]) == 2
    assert "is no directory: the gate needs a report's directory" in capsys.readouterr().err
    (report / "bench_report.json").unlink()
    assert main(["gate", str(report)]) == 2
    assert "bench_report.json does not exist" in capsys.readouterr().err
