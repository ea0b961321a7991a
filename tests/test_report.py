"""A whole report from real notebooks: complete, consistent, reproducible, and never stale."""

import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from inspection import contents
from numpy.testing import assert_allclose
from scipy import stats
from statsmodels.stats.multitest import multipletests

from clusterdyn import findings
from clusterdyn.config import StudyConfig
from clusterdyn.display import figure_output
from clusterdyn.figures import mechanism, training
from clusterdyn.profiles import cost_config, strict_config, study_config
from clusterdyn.protocol import Study, open_study
from clusterdyn.report import build as building
from clusterdyn.report import results as results_module
from clusterdyn.report.build import build_report
from clusterdyn.report.index import INDEX_CLAIMS, INDEX_FIGURES, STRICT_FIGURES
from clusterdyn.report.results import cost_results, report_source_hash, stale_reasons
from clusterdyn.report.strict_results import strict_results, strict_summary
from clusterdyn.report.svg import figure_file
from clusterdyn.report.verify import NotebookFailure
from clusterdyn.stats import sign_flip_test

REPO = Path(__file__).resolve().parents[1]
SETTINGS = {
    "nodes": 4,
    "clusters": 2,
    "train_trajectories": 40,
    "validation_trajectories": 10,
    "test_trajectories": 10,
    "batch_size": 20,
    "epochs": 1,
    "seeds": [0, 1],
    "work_budgets": [4, 12],
    "horizons": [4, 5],
    "epoch_budgets": [1, 2],
    "noise_levels": [1],
    "sweep_populations": [1],
    "scaling_populations": [1, 2],
    "scaling_nodes": [4, 8],
    "scaling_horizons": [1, 2],
    "scaling_batch_sizes": [1, 2],
    "scaling_sweeps": [1, 2],
    "chunk_models": [2],
}
STAGES = (
    "train-full",
    "train-histogram",
    "mechanism-full",
    "mechanism-histogram",
    "claims",
    "strict",
    "learned",
    "learned-claims",
    "limits",
    "limits-claims",
    "cost",
)
NOTEBOOK_NAMES = (
    "01_data",
    "02_training",
    "03_significance",
    "04_eta2",
    "05_schedules",
    "06_protocol",
    "07_why",
    "08_cost",
    "09_learned",
    "10_limits",
    "11_gru",
    "20_own_schedule",
)


@dataclass
class Build:
    """A report that was built once, and what the building said."""

    output: Path
    artifacts: Path
    lines: list[str] = field(default_factory=list)
    executed: dict = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    def again(self, **changes) -> list[str]:
        """Builds into the same place once more; returns what was said."""
        lines: list[str] = []
        settings = {**SETTINGS, **changes}
        build_report(
            "quick", settings, self.output, artifacts=self.artifacts, progress=lines.append
        )
        return lines

    def study(self) -> Study:
        """The study of the report, read from its artifacts."""
        return open_study("quick", SETTINGS, self.artifacts, progress=lambda line: None)


@contextmanager
def run_notebook_replaced(replacement: Callable) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "run_notebook", replacement)
        yield


@pytest.fixture(scope="module")
def fresh(tmp_path_factory) -> Build:
    folder = tmp_path_factory.mktemp("fresh")
    build = Build(folder / "report", folder / "artifacts")
    run = building.run_notebook

    def recorded(source, *arguments, **options):
        build.executed[source.stem] = run(source, *arguments, **options)
        return build.executed[source.stem]

    with run_notebook_replaced(recorded):
        build.lines = build.again()
    build.files = contents(build.output)
    return build


@pytest.fixture(scope="module")
def committed(tmp_path_factory) -> Path:
    """The report as it was committed: whoever follows the README writes another in its place."""
    folder = tmp_path_factory.mktemp("committed")
    # Whoever owns the checkout: containers often run as somebody else.
    command = ["git", "-C", str(REPO), "-c", f"safe.directory={REPO}", "archive", "HEAD", "reports"]
    with tarfile.open(fileobj=io.BytesIO(subprocess.check_output(command))) as archive:
        archive.extractall(folder)
    return folder / "reports"


@pytest.fixture(params=["fresh", "committed"])
def report(request) -> Path:
    """The report built here, and the one in the repository."""
    found = request.getfixturevalue(request.param)
    return found.output if request.param == "fresh" else found


class Tables(HTMLParser):
    """The cells of every table of a page, row by row, and the text outside them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.cell = self.style = False
        self.text: list[str] = []
        self.before = 0  # pieces of text before the first table
        self.feed(html)

    def words(self, *, before_tables: bool = False) -> str:
        """The text outside tables, a space wherever a tag stands."""
        return " ".join(" ".join(self.text[: self.before if before_tables else None]).split())

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        self.cell = tag in ("td", "th") or (self.cell and tag not in ("tr", "table"))
        self.style = tag == "style"

    def handle_endtag(self, tag):
        self.cell = self.cell and tag not in ("td", "th")
        self.style = self.style and tag != "style"

    def handle_data(self, text):
        if self.cell:
            self.tables[-1][-1][-1] += text
        elif not self.style:
            self.text.append(text)
            self.before += not self.tables


def load(report: Path, name: str) -> dict:
    return json.loads((report / name).read_text("utf-8"))


def figures_on(page: Path) -> list[str]:
    return re.findall(r'<figure\b[^>]*\bid="figure-([a-z0-9_]+)"', page.read_text("utf-8"))


def settings_of(profile: str, settings: dict | None = None) -> tuple:
    """The study's settings, the strict protocol's, and those of the cost measurements."""
    return tuple(config(profile, settings) for config in (study_config, strict_config, cost_config))


# What is in a report.


def test_a_report_is_an_index_a_page_a_notebook_two_json_files_and_the_figures(report):
    pages = {"index.html", *(f"{name}.html" for name in NOTEBOOK_NAMES)}
    sources = {path.stem for path in (REPO / "notebooks").glob("*.py")}
    assert sources == {*NOTEBOOK_NAMES, "01_recording"}  # which is for data from a file
    names = set(contents(report))
    assert {name for name in names if "/" not in name} == {
        *pages,
        "results.json",
        "bench_report.json",
    }
    drawn = {name for name in names if "/" in name}
    assert len(drawn) == 46 and all(re.fullmatch(r"figures/\w+\.svg", name) for name in drawn)


def test_each_figure_file_is_shown_on_one_notebooks_page_and_some_lead_the_index(report):
    shown = [name for stem in NOTEBOOK_NAMES for name in figures_on(report / f"{stem}.html")]
    files = [path.stem for path in (report / "figures").iterdir()]
    assert sorted(shown) == sorted(files)
    assert figures_on(report / "index.html") == [*STRICT_FIGURES, *INDEX_FIGURES]


def test_every_link_inside_a_report_has_its_target(report):
    for page in report.glob("*.html"):
        for href in re.findall(r'<a\b[^>]*\bhref="([^"#:]+)"', page.read_text("utf-8")):
            assert (report / href).is_file(), (page.name, href)


@pytest.mark.parametrize("name", ["results", "bench_report"])
def test_json_files_fit_the_packaged_schemas(report, name):
    schema = resources.files("clusterdyn.report") / "schemas" / f"{name}.schema.json"
    jsonschema.validate(load(report, f"{name}.json"), json.loads(schema.read_text("utf-8")))


def test_two_json_files_tell_the_same_results(report):
    results, bench = load(report, "results.json"), load(report, "bench_report.json")
    comparison = results["protocols"]["reference"]["comparison"]
    assert bench["comparison"]["per_seed_diffs"] == comparison["differences"]
    assert bench["comparison"]["delta_mean"] == comparison["mean_difference"]
    assert bench["baseline"]["full"]["per_seed"] == comparison["baseline"]
    assert bench["idea"]["per_seed"] == comparison["treatment"]
    assert bench["comparison"]["p_value"] == comparison["test"]["pvalue"]
    for name in ("system_verdict", "practical_verdict", "mechanism_ok"):
        assert bench[name] == results["verdicts"][name]
    # And the same as the models' scores at the selected rates.
    for arm, scores in (("full", "baseline"), ("histogram", "treatment")):
        selected = results["arms"][arm]["selected"]
        assert [row[selected] for row in results["arms"][arm]["test_mse"]] == comparison[scores]


def test_every_claim_follows_from_the_scores_in_results_json(report):
    strict = load(report, "results.json")["protocols"]["strict"]
    scores = {arm["label"]: arm["test_mse"] for arm in strict["arms"]} | strict["yardsticks"]
    (gru,) = (arm for arm in strict["arms"] if arm["cell"] == "gru")
    scores["gru"] = gru["test_mse"]
    families: dict[str, list[dict]] = {}
    for claim in strict["claims"]:
        families.setdefault(claim["family"], []).append(claim)
        told, n = claim["comparison"], len(claim["comparison"]["seeds"])
        assert told["seeds"] == strict["test_seeds"][:n]
        assert told["baseline"] == scores[claim["baseline"]][:n]
        assert told["treatment"] == scores[claim["treatment"]][:n]
        differences = np.subtract(told["treatment"], told["baseline"])
        assert_allclose(told["mean_difference"], differences.mean(), rtol=1e-12)
        interval = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
        assert_allclose(
            [told["t_interval"]["low"], told["t_interval"]["high"]], interval, rtol=1e-9, atol=1e-15
        )
        exact = sign_flip_test(differences, rng=np.random.default_rng(0)).pvalue
        assert told["test"]["pvalue"] == exact
        assert told["win_rate"]["wins"] == int((differences < 0).sum())
    for family in families.values():
        raw = [claim["comparison"]["test"]["pvalue"] for claim in family]
        adjusted = multipletests(raw, method="holm")[1]
        assert_allclose([claim["adjusted_p"] for claim in family], adjusted, rtol=1e-12)
        for claim in family:
            told = claim["comparison"]
            if told["equivalence"]["pvalue"] < 0.05:
                expected = "equivalent"
            elif claim["adjusted_p"] >= 0.05:
                expected = "unclear"
            else:
                expected = "harms" if told["mean_difference"] > 0 else "helps"
            assert claim["verdict"] == expected


def test_the_index_tells_the_strict_verdicts_of_results_json(report):
    strict = load(report, "results.json")["protocols"]["strict"]
    claims = [claim for claim in strict["claims"] if claim["family"] == "equal_work"]
    words = Tables((report / "index.html").read_text("utf-8")).words()
    for verdict, title in (
        ("helps", "Better"),
        ("equivalent", "Equivalent"),
        ("unclear", "Unclear"),
        ("harms", "Worse"),
    ):
        count = sum(claim["verdict"] == verdict for claim in claims)
        assert re.search(rf"\b{title} {count}\b", words), title
    best = min(
        (claim for claim in claims if "oracle" not in claim["treatment"]),
        key=lambda claim: np.mean(claim["comparison"]["treatment"]),
    )
    ratio = best["comparison"]["ratio"]
    assert f"ratio {ratio['ratio']:.3g}, 95 % interval {ratio['low']:.3g}" in words
    assert f"n = {len(best['comparison']['seeds'])}" in words
    assert f"adjusted p = {best['adjusted_p']:.2g}" in words


def thousandths(value: float, sign: str = "") -> str:
    return f"{1000 * value:{sign}.0f}" if abs(value) >= 0.01 else f"{1000 * value:{sign}.2g}"


def test_the_index_names_n_interval_and_both_p_values_of_each_strict_claim_on_it(report):
    strict = load(report, "results.json")["protocols"]["strict"]
    tables = Tables((report / "index.html").read_text("utf-8")).tables
    for table, family in zip(tables, INDEX_CLAIMS, strict=False):
        claims = [claim for claim in strict["claims"] if claim["family"] == family]
        assert len(table) == 1 + len(claims)
        for cells, claim in zip(table[1:], claims, strict=True):
            told, ratio = claim["comparison"], claim["comparison"]["ratio"]
            interval = told["t_interval"]
            assert cells[0] in (claim["treatment"], claim["step"])
            assert cells[1:] == [
                claim["verdict"],
                str(len(told["seeds"])),
                f"{ratio['ratio']:.3g} [{ratio['low']:.3g}, {ratio['high']:.3g}]",
                f"{told['test']['pvalue']:.2g}",
                f"{claim['adjusted_p']:.2g}",
                str(told["win_rate"]["wins"]),
                f"{thousandths(told['mean_difference'], '+')} "
                f"[{thousandths(interval['low'])}, {thousandths(interval['high'])}]",
            ]


def test_a_profile_without_strict_protocol_and_cost_leaves_their_places_empty(fresh):
    study = open_study("reference", {}, fresh.artifacts, progress=lambda line: None)
    assert strict_results(study) is None
    assert strict_summary(study) is None
    assert cost_results(study) is None
    names = {source.stem for source in building.notebook_sources(strict=False, cost=False)}
    assert names == set(NOTEBOOK_NAMES[:4])
    names = {source.stem for source in building.notebook_sources(cost=False)}
    assert names == set(NOTEBOOK_NAMES) - {"08_cost"}
    names = {source.stem for source in building.notebook_sources(recorded=True)}
    assert names == set(NOTEBOOK_NAMES) - {"01_data"} | {"01_recording"}
    with pytest.raises(ValueError, match="does not run the strict protocol; use profile full"):
        _ = study.strict


# The cost.


def test_page_08_tells_the_ratios_and_the_seconds_of_results_json(report):
    cost = load(report, "results.json")["cost"]
    page = Tables((report / "08_cost.html").read_text("utf-8"))
    by_heading = {table[0][0]: table[1:] for table in page.tables}
    rows = by_heading["ratio of times"]
    for cells, target in zip(rows, cost["bench"]["targets"], strict=True):
        ratios = target["ratios"]
        told = [np.median(ratios), min(ratios), max(ratios)] if ratios else []
        assert cells[0] == target["name"] and cells[-1] == target["outcome"]
        assert cells[1:4] == ([f"{value:.3g}" for value in told] or ["—"] * 3)
    stages = {cells[0]: cells[1] for cells in by_heading["stage"]}
    assert set(stages) == {*STAGES, "all"}
    for name, seconds in cost["stage_seconds"].items():
        assert stages[name] == f"{seconds:.3g}"


def test_ratios_and_times_of_results_json_follow_from_the_times_of_the_repeats(report):
    bench = load(report, "results.json")["cost"]["bench"]
    arm, targets = bench["arm"], {target["name"]: target for target in bench["targets"]}
    full = np.array(arm["product"]["full"])
    assert bench["product_s"] == np.median(full) and len(full) == bench["repeats"]
    assert bench["plain_s"] == np.median(arm["plain"])
    assert_allclose(targets["plain loop / full"]["ratios"], arm["plain"] / full)
    assert_allclose(targets["full / bare kernels"]["ratios"], full / arm["kernels"])
    for name, kept in (
        ("plain loop / full", np.median(arm["plain"] / full) >= 60),
        ("round_robin / full", np.median(arm["product"]["round_robin"] / full) <= 0.65),
    ):
        assert targets[name]["outcome"] == ("kept" if kept else "missed")
    assert bench["loss_gap"] < 1e-3  # everybody trained the same models


# The index.


def test_verdicts_stand_before_the_first_table(report):
    verdicts = load(report, "results.json")["verdicts"]
    page = Tables((report / "index.html").read_text("utf-8"))
    assert page.tables
    words = page.words(before_tables=True)
    assert f"In practice {verdicts['practical_verdict']}" in words
    assert f"The system {verdicts['system_verdict']}" in words
    assert f"Mechanism check {'passes' if verdicts['mechanism_ok'] else 'fails'}" in words
    means = load(report, "bench_report.json")
    headline = f"mean test MSE {means['idea']['mean']:.4f} against "
    assert headline + f"{means['baseline']['full']['mean']:.4f}" in words


def test_published_figures_stand_beside_those_of_results_json_in_a_table_a_kind(report):
    rows = load(report, "results.json")["agreement"]
    page = Tables((report / "index.html").read_text("utf-8"))
    kinds = ("measured", "fitted", "seed", "setting")
    tables = page.tables[len(INDEX_CLAIMS) + 1 :]  # after the strict claims and the limitations
    for table, kind in zip(tables, kinds, strict=True):
        assert [cell.split()[0] for cell in table[0]] == [
            "figure", "published", "this", "within", "if", "rule",
        ]  # fmt: skip
        assert table[1:] == [
            [
                r["figure"],
                r["published"],
                r["measured"],
                "yes" if r["within"] else "no",
                "yes" if r["within_without_idea"] else "no",
                r["rule"],
            ]
            for r in rows
            if r["kind"] == kind
        ]
    assert sum(len(table) - 1 for table in tables) == len(rows)


def test_only_measured_figures_are_counted_and_a_copy_of_the_baseline_is_counted_beside(report):
    measured = [r for r in load(report, "results.json")["agreement"] if r["kind"] == "measured"]
    within = sum(row["within"] for row in measured)
    copied = sum(row["within_without_idea"] for row in measured)
    words = Tables((report / "index.html").read_text("utf-8")).words()
    assert f"Measured figures met {within} of {len(measured)}" in words
    assert f"{within} of {len(measured)} measured figures are within." in words
    assert f"{copied} of the {len(measured)} would be within even if the idea's arm" in words
    for row in measured:
        if not row["within"] and row["ratio"] is not None:
            assert f"{row['figure']} , {row['ratio']:.2g} times the published figure" in words


def test_a_tile_tells_of_clusters_that_are_never_updated_if_there_are_any(report):
    results = load(report, "results.json")
    arm = results["arms"]["histogram"]
    shares = arm["ledger"]["share"][arm["selected"] :: len(arm["learning_rates"])]
    ever = [any(column) for column in zip(*shares, strict=True)]
    words = Tables((report / "index.html").read_text("utf-8")).words()
    tile = f"Clusters ever updated at test {sum(ever)} of {len(ever)}"
    assert (tile in words) is not all(ever)
    assert ("Clusters ever updated" in words) is not all(ever)


def test_what_is_published_fitted_and_assumed_is_listed_and_the_search_is_no_part_of_this(report):
    words = Tables((report / "index.html").read_text("utf-8")).words()
    for origin, heading in (
        ("published", "Published"), ("fitted", "Fitted"), ("assumed", "Assumed by this project"),
    ):  # fmt: skip
        assert f"{heading} {findings.origins()[origin]}." in words
    assert "known here only as a JSON report" in words
    assert "made before this code and is not a part of it" in words
    assert "is as published" not in words


def test_only_a_report_with_other_settings_says_that_it_is_no_test_of_the_published_ones(report):
    said = "These are not the published settings" in (report / "index.html").read_text("utf-8")
    assert said is (load(report, "results.json")["config"] != json.loads(
        json.dumps(asdict(StudyConfig()))
    ))  # fmt: skip


# Provenance.


def test_provenance_is_the_source_the_settings_and_the_artifacts(fresh):
    results = load(fresh.output, "results.json")
    provenance = results["provenance"]
    config, strict, cost = map(asdict, settings_of("quick", SETTINGS))
    assert results["config"] == json.loads(json.dumps(config))
    assert results["protocols"]["strict"]["config"] == json.loads(json.dumps(strict))
    assert results["cost"]["config"] == json.loads(json.dumps(cost))
    every = {"study": config, "strict": strict, "cost": cost}
    canonical = json.dumps(every, sort_keys=True, separators=(",", ":"))
    assert provenance["config_sha256"] == hashlib.sha256(canonical.encode()).hexdigest()
    assert provenance["source_sha256"] == report_source_hash()
    assert set(provenance["artifacts"]) == set(STAGES)
    for stage, key in provenance["artifacts"].items():
        manifest = fresh.artifacts / f"{stage}-{key[:16]}" / "manifest.json"
        content = json.loads(manifest.read_text("utf-8"))
        assert (content["stage"], content["key"]) == (stage, key)


def test_no_page_names_a_path_of_this_machine(report):
    places = {str(REPO), sys.prefix, str(Path.home()) + "/", tempfile.gettempdir() + "/"}
    for name, content in contents(report).items():
        for place in places - {"//"}:
            assert place.encode() not in content, (name, place)


# Building again.


def test_the_first_build_computes_every_stage_once(fresh):
    stages = [line.split("] ")[1] for line in fresh.lines if line.endswith(": computing")]
    # Claims of one part are computed while the next one is trained: before or after its line.
    assert sorted(stages) == sorted(f"{stage}: computing" for stage in STAGES)


def test_a_second_build_reuses_every_artifact_and_gives_the_same_bytes(fresh):
    run = building.run_notebook

    def one_for_all(source, *arguments, **options):
        # Running one notebook anew takes seconds, running all of them half a minute. This one
        # reads all four stages; the next test draws the figures of two others anew.
        if source.stem == "03_significance":
            return run(source, *arguments, **options)
        return fresh.executed[source.stem]

    with run_notebook_replaced(one_for_all):
        lines = fresh.again()
    for stage in STAGES:
        assert any(re.search(rf"\] {stage}: reused artifact [0-9a-f]{{16}}$", li) for li in lines)
    assert not any("computing" in line for line in lines)
    assert contents(fresh.output) == fresh.files


def test_figures_drawn_by_another_process_are_the_same_bytes(fresh):
    study = fresh.study()
    for draw in (
        training.learning_curves,
        training.learning_rates,
        training.cluster_choices,
        mechanism.discrepancy,
        mechanism.local_slopes,
        mechanism.seed_slopes,
        mechanism.coefficient,
        mechanism.order_control,
        mechanism.reference_view,
    ):
        picture = draw(study)
        output, _ = figure_output(
            picture.figure, name=picture.name, alt=picture.alt, caption=picture.caption
        )
        drawn = figure_file(output["image/svg+xml"])
        assert drawn.encode() == fresh.files[f"figures/{picture.name}.svg"], picture.name


def test_a_changed_setting_computes_again_and_a_stopped_build_leaves_the_report_alone(fresh):
    lines, before = [], contents(fresh.output)

    def stop(*arguments, **options):
        raise NotebookFailure("stopped here: all results are there by now")

    with run_notebook_replaced(stop), pytest.raises(NotebookFailure):
        build_report(
            "quick",
            {**SETTINGS, "relaxation": 0.4},
            fresh.output,
            artifacts=fresh.artifacts,
            progress=lines.append,
        )
    said = [line.split("] ")[1] for line in lines[1:]]
    computed = sorted(line for line in said if line.endswith(": computing"))
    assert computed == sorted(f"{stage}: computing" for stage in STAGES)
    assert contents(fresh.output) == before
    assert list(fresh.output.parent.glob(".*")) == []


# Staleness.


def test_a_fresh_report_is_not_stale_and_one_of_another_config_is(fresh):
    assert stale_reasons(fresh.output, *settings_of("quick", SETTINGS)) == []
    for other in (
        {**SETTINGS, "relaxation": 0.4},
        {**SETTINGS, "seeds": [1, 0]},
        {**SETTINGS, "side_test_seeds": 3},
        {**SETTINGS, "cost_repeats": 7},
    ):
        reasons = stale_reasons(fresh.output, *settings_of("quick", other))
        assert reasons == ["it was made with other settings"]


@pytest.mark.parametrize(
    "changed",
    [
        "clusterdyn/training.py",
        "clusterdyn/figures/style.py",
        "clusterdyn/reference/published.json",
        "clusterdyn/report/templates/index.html.j2",
        "clusterdyn/report/templates/style.css",
        "notebooks/04_eta2.py",
        "requirements.txt",
    ],
)
def test_a_report_is_stale_once_anything_that_it_is_made_from_has_changed(
    fresh, tmp_path, monkeypatch, changed
):
    for folder in ("clusterdyn", "notebooks"):
        shutil.copytree(REPO / folder, tmp_path / folder)
    shutil.copy(REPO / "requirements.txt", tmp_path)
    monkeypatch.setattr(results_module, "PACKAGE", tmp_path / "clusterdyn")
    monkeypatch.setattr(results_module, "NOTEBOOKS", tmp_path / "notebooks")
    config = settings_of("quick", SETTINGS)
    assert stale_reasons(fresh.output, *config) == []
    with (tmp_path / changed).open("a") as file:
        file.write("\n")
    reasons = stale_reasons(fresh.output, *config)
    assert reasons == ["package, notebooks or requirements have changed since it was made"]


def test_the_committed_report_was_made_by_the_committed_code(committed):
    assert stale_reasons(committed, *settings_of("full")) == []


def test_the_index_answers_every_published_limitation_from_results_json(report):
    tables = Tables((report / "index.html").read_text("utf-8")).tables
    (table,) = (t for t in tables if t[0][0] == "limitation of the published trial")
    answers = {row[0]: row[2] for row in table[1:]}
    assert len(answers) == 7
    claims = load(report, "results.json")["limits"]["claims"]
    senses = {
        "better": "helps", "worse": "harms", "equivalent": "equivalent",
        "not clearly different": "unclear",
    }  # fmt: skip
    for limitation, experiment in (
        ("no larger graphs", "nodes"),
        ("no other partitions", "partitions"),
        ("no more than three sweeps", "sweeps"),
        ("no GRU internals", "gru"),
    ):
        against = re.findall(r"of (\d+) comparisons ([^.]+)\.", answers[limitation])
        for (count, told), family in zip(against, ("full", "random"), strict=False):
            mine = [c["verdict"] for c in claims if c["family"] == f"{experiment}_{family}"]
            assert int(count) == len(mine) > 0
            for number, sense in re.findall(r"(\d+) ([a-z ]+)", told):
                assert int(number) == mine.count(senses[sense])
    assert "Not measured" in answers["no accelerator use"]
