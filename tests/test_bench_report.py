"""The report in the published trial's fields: their names, their numbers, and their schema."""

import copy
import math

import jsonschema
import numpy as np
import pytest
from inspection import at, places, put

from clusterdyn.comparison import compare
from clusterdyn.grids import arm_grid
from clusterdyn.mechanism import ReferenceView
from clusterdyn.profiles import study_config
from clusterdyn.protocol import ReferenceResult
from clusterdyn.reference.bench_report import bench_report, without_idea
from clusterdyn.reference.published import published_report
from clusterdyn.report.results import jsonable, validate

RATES = np.array([0.001, 0.01])
BASELINE = np.array([2.0, 4.0] * 4)
DIFFERENCE = np.array([1.0, 3.0] * 4)
SENTENCES = {
    ("mechanism_signature", "track_structure"),
    ("mechanism_signature", "scheduler"),
    ("mechanism_signature", "signature", "prediction"),
}
CONFIG = study_config("reference", {"learning_rates": [0.001, 0.01], "horizon": 5, "epochs": 7})


def result(count: int = 8) -> ReferenceResult:
    """A result in round numbers; the baseline's first rate has a diverged model."""
    baseline = np.stack([np.full(8, math.inf), BASELINE], axis=1)[:count]
    idea = np.stack([BASELINE + DIFFERENCE, np.full(8, 9.0)], axis=1)[:count]
    grids = (
        arm_grid("full", RATES, baseline, 3),
        arm_grid("histogram", RATES, idea, count),
    )
    view = ReferenceView(
        unit="clusters",
        state="trajectory",
        relaxations=np.array([0.5, 1.0]),
        size=np.array([[0.75, 90.0], [2.0, 0.001]]),  # of the second seed nothing is reported
        slope=np.array([2.0, 5.0]),
    )
    return ReferenceResult(
        baseline=grids[0],
        idea=grids[1],
        comparison=compare(np.arange(count), grids[0].selected_scores, grids[1].selected_scores),
        signature=view,
        criteria=(),
        verdict="idea worse (significant)",
        practical_verdict="harms",
        system_verdict="failed",
        mechanism_ok=True,
        confirmed=True,
    )


@pytest.fixture(scope="module")
def report() -> dict:
    return jsonable(bench_report(CONFIG, result()))


def shape(value):
    """Fields of objects, and of the items of lists."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return None


def without_sentences(report: dict) -> dict:
    report = copy.deepcopy(report)
    for path in SENTENCES:
        assert isinstance(at(report, path[:-1]).pop(path[-1]), str)
    return report


def test_the_fields_are_those_of_the_published_report_and_no_others(report):
    # The published report's own sentences are not among its data.
    assert shape(without_sentences(report)) == shape(published_report())
    assert list(report) == list(published_report())
    for path in places(report):
        if path and isinstance(at(report, path[:-1]), list):  # all items of a list are alike
            assert shape(at(report, path)) == shape(at(report, (*path[:-1], 0)))


def test_the_numbers_are_those_computed_by_hand(report):
    assert report["n_seeds"] == 8
    assert report["baseline"] == {
        "best_cfg": {"lr": 0.01, "epochs": 7},
        # A mean over a diverged model is null; the other averages 2, 4 and 2.
        "sweep": [
            {"cfg": {"lr": 0.001, "epochs": 7}, "mean": None},
            {"cfg": {"lr": 0.01, "epochs": 7}, "mean": pytest.approx(8 / 3, rel=1e-15)},
        ],
        # A population standard deviation: over 8 seeds and not over 7.
        "full": {"mean": 3.0, "std": 1.0, "per_seed": [2.0, 4.0] * 4, "n": 8},
    }
    assert report["idea"] == {"mean": 5.0, "std": 2.0, "per_seed": [3.0, 7.0] * 4, "n": 8}
    assert report["protocol_notes"] == {
        "paired_seeds": list(range(8)),
        "dataset_sizes": [400, 100],
        "idea_grid": [
            {"cfg": {"lr": 0.001, "epochs": 7}, "mean": 5.0},
            {"cfg": {"lr": 0.01, "epochs": 7}, "mean": 9.0},
        ],
        "selected_idea_cfg": {"lr": 0.001, "epochs": 7},
        "baseline_grid_union": [{"lr": 0.001, "epochs": 7}, {"lr": 0.01, "epochs": 7}],
    }
    comparison = dict(report["comparison"])
    # The sample standard deviation is sqrt(8 / 7), so t sd / sqrt(8) = t / sqrt(7); t is 2.3646.
    half_width = 2.364624251592785 / math.sqrt(7)
    assert comparison.pop("mde") == pytest.approx(half_width, rel=2e-4)
    assert comparison.pop("mde_rel_pct") == pytest.approx(100 * half_width / 3, rel=2e-4)
    assert comparison == {
        "delta_mean": 2.0,
        "idea_wins": 0,
        "n_pairs": 8,
        "per_seed_diffs": [1.0, 3.0] * 4,
        "p_value": 2 / 256,
        "verdict": "idea worse (significant)",
        "system_worked": False,
    }
    assert report["mechanism_signature"]["clusters"] == 4
    signature = report["mechanism_signature"]["signature"]
    assert signature["rows"] == [
        {"eta": 0.5, "observed_linf": 0.75, "eta2": 0.25},
        {"eta": 1.0, "observed_linf": 2.0, "eta2": 1.0},
    ]
    # 0.75 / 0.25 = 3 and 2 / 1 = 2, ascending.
    assert signature["eta2_ratio_range"] == [2.0, 3.0]
    assert (report["mechanism_ok"], signature["confirmed"]) == (1, True)


def test_words_follow_the_settings(report):
    assert "5-step rollouts" in report["mechanism_signature"]["track_structure"]
    assert "histogram" in report["mechanism_signature"]["scheduler"]
    other = bench_report(study_config("reference", {"schedule": "round_robin"}), result())
    assert other["mechanism_signature"]["scheduler"] == "round_robin"


def test_mde_is_half_the_t_interval_with_any_number_of_pairs():
    found = result(count=4)
    measured = bench_report(CONFIG, found)["comparison"]["mde"]
    interval = found.comparison.t_interval
    assert measured == pytest.approx((interval.high - interval.low) / 2, rel=2e-4)


def test_without_the_idea_its_arm_is_the_baseline_and_all_verdicts_follow():
    report = jsonable(bench_report(CONFIG, result()))
    copied = jsonable(bench_report(CONFIG, without_idea(result())))
    assert copied["idea"] == copied["baseline"]["full"] == report["baseline"]["full"]
    notes = copied["protocol_notes"]
    assert notes["selected_idea_cfg"] == {"lr": 0.01, "epochs": 7}  # the baseline's choice
    assert [entry["mean"] for entry in notes["idea_grid"]] == [None, 3.0]  # over all 8 seeds
    assert copied["comparison"] == {
        "delta_mean": 0.0,
        "idea_wins": 0,
        "n_pairs": 8,
        "per_seed_diffs": [0.0] * 8,
        "p_value": 1.0,
        "mde": 0.0,
        "mde_rel_pct": 0.0,
        "verdict": "no significant difference",
        "system_worked": False,
    }
    assert (copied["practical_verdict"], copied["system_verdict"]) == ("equivalent", "failed")
    # Nothing of the baseline or of the mechanism is touched.
    for field in ("baseline", "mechanism_signature", "mechanism_ok", "n_seeds"):
        assert copied[field] == report[field]


# The schema.


def refused(report) -> bool:
    try:
        validate(report, "bench_report")
    except jsonschema.ValidationError:
        return True
    return False


def test_the_schema_accepts_a_report_and_a_published_one_with_its_sentences(report):
    validate(report, "bench_report")
    published = published_report()
    for path in SENTENCES:
        published = put(published, path, "a sentence")
    validate(published, "bench_report")


def test_the_schema_refuses_a_report_that_lacks_any_field(report):
    fields = [path for path in places(report) if path and isinstance(path[-1], str)]
    assert len(fields) > 60
    for path in fields:
        lacking = copy.deepcopy(report)
        del at(lacking, path[:-1])[path[-1]]
        assert refused(lacking), path


def test_the_schema_refuses_an_extra_field_anywhere(report):
    objects = [path for path in places(report) if isinstance(at(report, path), dict)]
    assert len(objects) > 15
    for path in objects:
        assert refused(put(report, (*path, "extra"), 1)), path


def test_the_schema_refuses_a_value_of_the_wrong_type_anywhere(report):
    nullable = {("baseline", "sweep"), ("protocol_notes", "idea_grid")}
    for path in places(report)[1:]:
        value = at(report, path)
        wrong = [{"a": 1}, [["x"]], "1" if not isinstance(value, str) else 1]
        may_be_null = path[:2] in nullable and path[-1] == "mean"
        for other in wrong + ([] if may_be_null else [None]):
            assert refused(put(report, path, other)), (path, other)
        if isinstance(value, int) and not isinstance(value, bool):
            assert refused(put(report, path, value + 0.5)), path
