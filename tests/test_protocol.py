"""Selection, comparison, verdicts and artifacts of the reference protocol."""

import dataclasses
import inspect
import itertools
import math

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats as scipy_stats

from clusterdyn import arms, protocol
from clusterdyn.artifacts import imported_sources
from clusterdyn.comparison import Comparison, compare
from clusterdyn.datasets import pendulum_dataset
from clusterdyn.grids import ArmGrid, arm_grid
from clusterdyn.mechanism import (
    EtaSquareLaw,
    MechanismCheck,
    OrderControl,
    ReferenceView,
    check_mechanism,
)
from clusterdyn.protocol import Study, open_study
from clusterdyn.reference.published import published_report
from clusterdyn.verdicts import (
    comparison_verdict,
    confirmed,
    mechanism_criteria,
    practical_verdict,
    system_verdict,
)

TINY = {
    "nodes": 6,
    "channels": 2,
    "clusters": 3,
    "horizon": 3,
    "sweeps": 2,
    "train_trajectories": 20,
    "validation_trajectories": 6,
    "test_trajectories": 8,
    "batch_size": 5,
    "epochs": 2,
    "learning_rates": (0.003, 0.03),
    "seeds": (0, 1, 5),
    "baseline_grid_seeds": 2,
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# The comparison.


def scores_of(baseline, treatment) -> Comparison:
    return compare(np.arange(len(baseline)), np.array(baseline), np.array(treatment))


def published_scores() -> tuple[list[float], list[float]]:
    report = published_report()
    return report["baseline"]["full"]["per_seed"], report["idea"]["per_seed"]


def test_published_figures_come_out_of_the_published_scores_bit_for_bit():
    baseline, treatment = published_scores()
    comparison = scores_of(baseline, treatment)
    published = published_report()["comparison"]
    assert comparison.mean_difference == 0.002292642544489354 == published["delta_mean"]
    assert comparison.differences.tolist() == published["per_seed_diffs"]
    assert (comparison.win_rate.wins, len(comparison.differences)) == (0, 8)
    assert comparison.half_width == 0.0014061178480241382 == published["mde"]
    relative = 100 * comparison.half_width / float(np.mean(comparison.baseline))
    assert relative == 36.65985967916089 == published["mde_rel_pct"]
    assert comparison_verdict(comparison) == published["verdict"] == "idea worse (significant)"


def test_published_p_value_is_a_monte_carlo_reading_of_one_in_128():
    comparison = scores_of(*published_scores())
    # All 8 differences have one sign: 2 of the 256 flips are as extreme.
    assert comparison.test.pvalue == 2 / 256 == comparison.test.min_attainable_pvalue
    standard_error = math.sqrt(2 / 256 * (1 - 2 / 256) / 9999)
    assert abs(published_report()["comparison"]["p_value"] - 2 / 256) < 3 * standard_error


def test_published_verdicts_follow_from_the_published_scores_by_the_rules():
    comparison = scores_of(*published_scores())
    assert practical_verdict(comparison) == "harms" == published_report()["practical_verdict"]
    assert system_verdict("harms", False) == "failed" == published_report()["system_verdict"]


def test_comparison_agrees_with_scipy_and_with_loops():
    rng = np.random.default_rng(0)
    baseline, treatment = rng.uniform(1, 2, size=(2, 9))
    comparison = scores_of(baseline, treatment)
    difference = treatment - baseline
    assert comparison.mean_difference == pytest.approx(sum(difference) / 9, rel=1e-14)
    paired = scipy_stats.ttest_rel(treatment, baseline).confidence_interval(0.95)
    interval = comparison.t_interval
    assert (interval.low, interval.high) == pytest.approx((paired.low, paired.high), rel=1e-12)
    flips = np.array(list(itertools.product([-1, 1], repeat=9))) @ difference
    assert comparison.test.pvalue == np.mean(np.abs(flips) >= abs(difference.sum()) - 1e-12)
    for i in range(9):
        others = np.delete(difference, i)
        assert comparison.leave_one_out[i] == pytest.approx(others.mean(), rel=1e-12)
    assert comparison.margin == pytest.approx(0.05 * baseline.mean(), rel=1e-14)
    assert comparison.win_rate.wins == np.sum(treatment < baseline)
    ratio = scipy_stats.gmean(treatment) / scipy_stats.gmean(baseline)
    assert comparison.ratio.ratio == pytest.approx(ratio, rel=1e-12)
    low = scipy_stats.ttest_1samp(difference, -comparison.margin, alternative="greater").pvalue
    high = scipy_stats.ttest_1samp(difference, comparison.margin, alternative="less").pvalue
    assert comparison.equivalence.pvalue == pytest.approx(max(low, high), rel=1e-10)


def test_the_correlation_of_the_arms_says_what_pairing_gains():
    rng = np.random.default_rng(2)
    baseline, noise = rng.uniform(1, 2, size=(2, 9))
    for treatment in (baseline + 0.3 * noise, noise, 3 - baseline + 0.1 * noise):
        comparison = scores_of(baseline, treatment)
        r = scipy_stats.pearsonr(baseline, treatment).statistic
        assert comparison.correlation == pytest.approx(r, rel=1e-12)
        # The variance of a difference: pairing narrows it exactly where r is positive.
        sd = np.std(baseline), np.std(treatment)
        variance = sd[0] ** 2 + sd[1] ** 2 - 2 * r * sd[0] * sd[1]
        expected = math.sqrt(variance / (sd[0] ** 2 + sd[1] ** 2))
        assert comparison.paired_spread == pytest.approx(expected, rel=1e-12)
        assert (comparison.paired_spread < 1) == (r > 0)
    constant = scores_of([1.0, 1.0, 1.0], [2.0, 3.0, 5.0])
    assert math.isnan(constant.correlation) and constant.paired_spread == 1.0
    assert math.isnan(scores_of([1.0, 1.0], [2.0, 2.0]).paired_spread)


def test_comparison_of_many_seeds_is_reproducible():
    rng = np.random.default_rng(1)
    baseline, treatment = rng.uniform(1, 2, size=(2, 32))
    first, second = (scores_of(baseline, treatment) for _ in range(2))
    assert first.test == second.test
    assert first.sign_flip_interval == second.sign_flip_interval


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_score_that_is_not_finite_is_named_and_not_compared(bad):
    with pytest.raises(ValueError, match=r"treatment must be finite; .* at positions 1, 3"):
        scores_of([1.0, 2.0, 3.0, 4.0], [1.0, bad, 3.0, bad])


# Verdicts.

BASELINE = np.array([1.00, 1.10, 0.90, 1.05, 0.95, 1.02, 0.98, 1.00])
SCATTER = np.array([0.010, -0.008, 0.005, 0.002, -0.004, 0.007, -0.009, 0.001])


@pytest.mark.parametrize(
    ("difference", "wording", "verdict"),
    [
        (-0.30 + SCATTER, "idea better (significant)", "helps"),
        (+0.30 + SCATTER, "idea worse (significant)", "harms"),
        (SCATTER, "no significant difference", "equivalent"),
        # Equivalence comes first: 2 % worse on every seed is significant, and does not matter.
        (+0.02 + SCATTER, "idea worse (significant)", "equivalent"),
        (-0.02 + SCATTER, "idea better (significant)", "equivalent"),
        (20 * SCATTER, "no significant difference", "unclear"),
        (0 * SCATTER, "no significant difference", "equivalent"),
    ],
)
def test_verdict_of_a_difference(difference, wording, verdict):
    comparison = scores_of(BASELINE, BASELINE + difference)
    assert comparison_verdict(comparison) == wording
    assert practical_verdict(comparison) == verdict


def test_five_seeds_can_never_be_significant():
    # 2 of 32 flips are as extreme: p is 0.0625 at best.
    comparison = scores_of(BASELINE[:5], BASELINE[:5] / 10)
    assert comparison.test.pvalue == 2 / 32
    assert practical_verdict(comparison) == "unclear"
    assert practical_verdict(scores_of(BASELINE[:6], BASELINE[:6] / 10)) == "helps"


def test_a_p_of_exactly_5_percent_is_not_below_it():
    comparison = scores_of(BASELINE, BASELINE + 0.3 + SCATTER)
    limit = dataclasses.replace(comparison, test=dataclasses.replace(comparison.test, pvalue=0.05))
    assert practical_verdict(limit) == "unclear"
    assert comparison_verdict(limit) == "no significant difference"
    below = dataclasses.replace(
        comparison, test=dataclasses.replace(comparison.test, pvalue=0.0499)
    )
    assert practical_verdict(below) == "harms"


@pytest.mark.parametrize(
    ("practical", "with_mechanism", "without"),
    [
        ("helps", "works", "inconclusive"),
        ("harms", "failed", "failed"),
        ("equivalent", "failed", "failed"),
        ("unclear", "inconclusive", "inconclusive"),
    ],
)
def test_system_verdict_of_every_combination(practical, with_mechanism, without):
    assert system_verdict(practical, True) == with_mechanism
    assert system_verdict(practical, False) == without


def good_check() -> MechanismCheck:
    """A check of three models in which everything holds, just: each value is at its limit."""

    def law(unit: str, state: str) -> EtaSquareLaw:
        return EtaSquareLaw(
            unit=unit,
            state=state,
            relaxations=np.array([0.01, 0.02, 0.04]),
            size=np.ones((3, 3)),
            predicted_size=np.ones(3),
            coefficient_error=np.array([[0.01, 0.002, 0.001], [9, 9, 9], [9, 9, 9]]),
            richardson_error=np.array([[0.001, 0.0002, 0.0001], [9, 9, 9]]),
            slope=np.array([1.95, 2.0, 2.05]),
            slope_low=1.9,
            slope_high=2.1,
            first_block=np.zeros(3),
            measured=np.ones((2, 1)),
            predicted=np.ones((2, 1)),
            block_of_node=np.array([0, 1]),
        )

    places = list(itertools.product(("nodes", "clusters"), ("start", "trajectory")))
    control = np.ones((2, 3))
    return MechanismCheck(
        seeds=np.arange(3),
        laws=tuple(law(*place) for place in places),
        reference_views=tuple(
            ReferenceView(*place, np.array([0.2, 0.4]), np.ones((2, 3)), np.full(3, 2.0))
            for place in places
        ),
        order=OrderControl(np.array([0.01, 0.02]), control, control, np.ones(3), np.ones(3)),
        independent_sets=np.zeros(3),
    )


def held(checks: list[MechanismCheck]) -> list[bool]:
    return [criterion.held for criterion in mechanism_criteria(checks)]


def test_a_mechanism_at_its_limits_passes():
    assert held([good_check(), good_check()]) == [True] * 6


def test_criteria_show_the_worst_figure_of_all_arms():
    values = [criterion.value for criterion in mechanism_criteria([good_check(), good_check()])]
    assert values == [1.9, 2.1, 0.01, 0.001, 0.0, 0.0]


VIOLATIONS = {
    "slope_low": (0, 1.8999),
    "slope_high": (1, 2.1001),
    "coefficient_error": (2, np.array([[0.001, 0.001, 0.0101], [0, 0, 0], [0, 0, 0]])),
    "richardson_error": (3, np.array([[0.0001, 0.00101, 0.0001], [0, 0, 0]])),
    "first_block": (4, np.array([0, 0, 5e-324])),
}


@pytest.mark.parametrize("field", VIOLATIONS)
@pytest.mark.parametrize("arm", [0, 1])
@pytest.mark.parametrize("place", range(4))
def test_one_law_of_one_arm_that_fails_fails_its_criterion_alone(field, arm, place):
    number, value = VIOLATIONS[field]
    checks = [good_check(), good_check()]
    laws = list(checks[arm].laws)
    laws[place] = dataclasses.replace(laws[place], **{field: value})
    checks[arm] = dataclasses.replace(checks[arm], laws=tuple(laws))
    assert held(checks) == [k != number for k in range(6)]


@pytest.mark.parametrize("arm", [0, 1])
def test_a_zero_control_that_is_not_zero_fails_its_criterion_alone(arm):
    checks = [good_check(), good_check()]
    checks[arm] = dataclasses.replace(checks[arm], independent_sets=np.array([0.0, 1e-18, 0.0]))
    assert held(checks) == [True, True, True, True, True, False]


@pytest.mark.parametrize(
    "field", ["slope_low", "slope_high", "coefficient_error", "richardson_error", "first_block"]
)
def test_a_figure_that_is_not_a_number_is_not_inside_a_limit(field):
    number, value = VIOLATIONS[field]
    check = good_check()
    broken = dataclasses.replace(check.laws[3], **{field: value * math.nan})
    check = dataclasses.replace(check, laws=(*check.laws[:3], broken))
    assert held([check])[number] is False


def test_only_the_first_seeds_slope_confirms_the_published_view():
    view = good_check().reference_views[0]
    for slope, expected in ((1.85, True), (2.15, True), (1.849, False), (2.151, False)):
        assert confirmed(dataclasses.replace(view, slope=np.array([slope, 2.0, 2.0]))) is expected
        assert confirmed(dataclasses.replace(view, slope=np.array([2.0, slope, slope])))
    assert not confirmed(dataclasses.replace(view, slope=np.array([math.nan, 2.0])))


# Grids.

RATES = np.array([0.001, 0.003, 0.01])


def grid_of(scores, seeds: int | None = None, rates: np.ndarray = RATES) -> ArmGrid:
    scores = np.array(scores, dtype=float)
    return arm_grid("full", rates, scores, len(scores) if seeds is None else seeds)


def test_means_average_the_first_seeds_only():
    scores = [[4.0, 1.0, 3.0], [6.0, 3.0, 3.0], [0.0, 100.0, 0.0], [0.0, 100.0, 0.0]]
    first = grid_of(scores, seeds=2)
    assert first.means.tolist() == [5.0, 2.0, 3.0]
    assert (first.selected, first.learning_rate, first.at_edge) == (1, 0.003, False)
    # The scores that are compared are those of all seeds.
    assert first.selected_scores.tolist() == [1.0, 3.0, 100.0, 100.0]
    every = grid_of(scores)
    assert every.means.tolist() == [2.5, 51.0, 1.5]
    assert every.learning_rate == 0.01


@pytest.mark.parametrize(
    ("scores", "rate", "at_edge"),
    [([1, 2, 3], 0.001, True), ([2, 1, 3], 0.003, False), ([3, 2, 1], 0.01, True)],
)
def test_a_best_rate_at_an_end_of_the_grid_is_flagged(scores, rate, at_edge):
    grid = grid_of([scores, scores])
    assert (grid.learning_rate, grid.at_edge) == (rate, at_edge)


def test_the_edge_is_the_smallest_or_largest_rate_in_whatever_order_they_stand():
    rates = np.array([0.003, 0.01, 0.001])
    assert not grid_of([[1, 2, 3]], rates=rates).at_edge
    assert grid_of([[2, 1, 3]], rates=rates).at_edge
    assert grid_of([[3, 2, 1]], rates=rates).at_edge


def test_equal_means_go_to_the_first_rate():
    assert grid_of([[2.0, 1.0, 1.0]]).learning_rate == 0.003


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_rate_with_a_diverged_model_is_never_selected(bad):
    grid = grid_of([[5.0, 0.1, 7.0], [5.0, bad, 7.0]])
    assert grid.learning_rate == 0.001
    # Not even if the model belongs to a seed that the means leave out.
    grid = grid_of([[5.0, 0.1, 7.0], [5.0, bad, 7.0]], seeds=1)
    assert grid.means.tolist() == [5.0, 0.1, 7.0]
    assert grid.learning_rate == 0.001


def test_an_arm_that_diverges_at_every_rate_says_so():
    sentence = (
        r"arm 'full' has a diverged model at every learning rate of \[0.001, 0.003, 0.01\]; "
        "add smaller learning rates"
    )
    scores = np.where(np.eye(3), math.inf, 0.1)  # each seed at another rate
    with pytest.raises(ValueError, match=sentence):
        grid_of(scores)


# A tiny study.


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    return tmp_path_factory.mktemp("artifacts")


def tiny_study(root, lines: list[str] | None = None, **changes) -> Study:
    progress = (lambda line: None) if lines is None else lines.append
    return open_study("quick", {**TINY, **changes}, root, progress=progress)


@pytest.fixture(scope="module")
def study(artifacts) -> Study:
    torch.set_num_threads(1)
    study = tiny_study(artifacts)
    assert study.reference.comparison.differences.shape == (3,)
    return study


def test_each_arm_is_scored_by_seed_and_learning_rate(study):
    for name in ("full", "histogram"):
        population, grid = study.population(name), study.grid(name)
        assert grid.scores.shape == (3, 2)
        for i, seed in enumerate((0, 1, 5)):
            for j, rate in enumerate((0.003, 0.03)):
                (row,) = np.flatnonzero(
                    (population.seeds == seed) & (population.learning_rates == rate)
                )
                assert grid.scores[i, j] == population.test_mse[row]


def test_the_baselines_grid_averages_its_first_seeds_and_the_ideas_all(study):
    baseline, idea = study.reference.baseline, study.reference.idea
    assert (baseline.schedule, idea.schedule) == ("full", "histogram")
    assert_allclose(baseline.means, baseline.scores[:2].mean(axis=0), rtol=1e-14)
    assert_allclose(idea.means, idea.scores.mean(axis=0), rtol=1e-14)


def test_scores_at_the_selected_rates_are_compared_on_all_seeds(study):
    reference = study.reference
    expected = {}
    for grid in (reference.baseline, reference.idea):
        best = min(range(2), key=lambda j: grid.means[j])
        expected[grid.schedule] = grid.scores[:, best]
    assert_array_equal(reference.comparison.seeds, [0, 1, 5])
    assert_array_equal(reference.comparison.baseline, expected["full"])
    assert_array_equal(reference.comparison.treatment, expected["histogram"])


def test_verdicts_of_the_study_follow_from_its_numbers(study):
    reference = study.reference
    assert reference.verdict == comparison_verdict(reference.comparison)
    assert reference.practical_verdict == practical_verdict(reference.comparison)
    checks = [study.mechanism("full"), study.mechanism("histogram")]
    assert reference.criteria == mechanism_criteria(checks)
    assert reference.mechanism_ok == all(held(checks))
    expected = system_verdict(reference.practical_verdict, reference.mechanism_ok)
    assert reference.system_verdict == expected
    assert reference.confirmed == confirmed(reference.signature)


def test_the_signature_is_the_ideas_by_clusters_on_the_trajectory(study):
    signature = study.reference.signature
    assert (signature.unit, signature.state) == ("clusters", "trajectory")
    others = [study.mechanism("histogram").reference_views, study.mechanism("full").reference_views]
    assert [any(view is signature for view in views) for views in others] == [True, False]


@pytest.mark.parametrize("name", ["full", "histogram"])
def test_the_mechanism_is_checked_on_the_models_at_the_selected_rate(study, name):
    population, grid = study.population(name), study.grid(name)
    rows = [
        int(np.flatnonzero((population.seeds == s) & (population.learning_rates == rate))[0])
        for s, rate in itertools.product((0, 1, 5), [grid.learning_rate])
    ]
    tests = [pendulum_dataset(s, train=20, test=8, horizon=3).test for s in (0, 1, 5)]
    expected = check_mechanism(
        arms.message_passing_cell(study.config),
        population.parameters[rows],
        np.array([0, 1, 5]),
        [[0, 1], [2, 3], [4, 5]],
        np.stack([test.states for test in tests]),
        np.stack([test.controls for test in tests]),
        sweeps=2,
        relaxation=0.5,
    )
    for found, law in zip(study.mechanism(name).laws, expected.laws, strict=True):
        assert_array_equal(found.size, law.size)
        assert_array_equal(found.predicted, law.predicted)


def test_two_arms_are_trained_on_the_same_data_cell_and_settings(tmp_path, monkeypatch):
    calls = []
    train = arms.train_population

    def recorded(cell, schedule, datasets, rates, config, **rest):
        calls.append((schedule.name, cell.parameter_shapes, rates, config, datasets))
        return train(cell, schedule, datasets, rates, config, **rest)

    monkeypatch.setattr(arms, "train_population", recorded)
    # Two studies, so that nothing is shared but the config.
    for name in ("full", "histogram"):
        tiny_study(tmp_path / name).population(name)
    (first_name, *first, first_data), (second_name, *second, second_data) = calls
    assert (first_name, second_name) == ("full", "histogram")
    assert first == second
    assert list(first_data) == list(second_data) == [0, 1, 5]
    for seed in (0, 1, 5):
        expected = pendulum_dataset(seed, train=20, validation=6, test=8, horizon=3)
        for data in (first_data, second_data):
            for split in ("train", "validation", "test"):
                found = getattr(data[seed], split)
                assert_array_equal(found.states, getattr(expected, split).states)
                assert_array_equal(found.controls, getattr(expected, split).controls)


def flatten(value, path="") -> dict:
    """Every number, text and array of a nested dataclass by its place."""
    if dataclasses.is_dataclass(value):
        parts = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    elif isinstance(value, tuple):
        parts = list(enumerate(value))
    else:
        return {path: value}
    leaves = {}
    for key, item in parts:
        leaves.update(flatten(item, f"{path}.{key}"))
    return leaves


def assert_bit_equal(first, second) -> None:
    before, after = flatten(first), flatten(second)
    assert before.keys() == after.keys()
    assert len(before) > 5
    for place in before:
        assert_array_equal(before[place], after[place], err_msg=place)


def test_a_reopened_study_reuses_every_artifact_and_is_bit_equal(study, artifacts):
    lines = []
    again = tiny_study(artifacts, lines)
    assert_bit_equal(again.reference, study.reference)
    for name in ("full", "histogram"):
        assert_bit_equal(again.population(name), study.population(name))
        assert_bit_equal(again.mechanism(name), study.mechanism(name))
    stages = ["train-full", "train-histogram", "mechanism-full", "mechanism-histogram"]
    assert len(lines) == 4
    for stage, line in zip(stages, lines, strict=True):
        assert line.startswith(f"{stage}: reused artifact ")


def test_a_study_computed_afresh_is_bit_equal_but_for_the_time_it_took(study, tmp_path):
    fresh = tiny_study(tmp_path)
    assert_bit_equal(fresh.reference, study.reference)
    for name in ("full", "histogram"):
        again, before = (
            dataclasses.replace(s.population(name), seconds=0.0) for s in (fresh, study)
        )
        assert_bit_equal(again, before)


def test_another_baseline_count_selects_anew_and_trains_nothing(study, artifacts):
    lines = []
    other = tiny_study(artifacts, lines, baseline_grid_seeds=3)
    assert_allclose(other.grid("full").means, study.grid("full").scores.mean(axis=0))
    assert all("reused" in line for line in lines)


CHANGES = {
    "graph": "complete",
    "nodes": 12,
    "channels": 3,
    "clusters": 2,
    "partition": "strided",
    "partition_seed": 1,
    "bins": 3,
    "sweeps": 1,
    "relaxation": 0.4,
    "horizon": 2,
    "train_trajectories": 25,
    "validation_trajectories": 7,
    "test_trajectories": 9,
    "batch_size": 4,
    "epochs": 3,
    "validation_curve": False,
    "learning_rates": (0.003, 0.02),
    "clip_norm": 0.9,
    "minibatch_stream": 1,
    "seeds": (0, 1, 6),
    "dtype": "float64",
    "device": "cuda",
}
NOT_IN_TRAINING = {"baseline": "sequential", "schedule": "random", "baseline_grid_seeds": 1}


def test_the_changes_below_cover_every_field_of_the_config(study):
    fields = {field.name for field in dataclasses.fields(study.config)}
    of_files = {"data"}  # in tests/test_recordings.py
    assert fields == set(CHANGES) | set(NOT_IN_TRAINING) | of_files


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_field_changes_the_training_key(study, artifacts, name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # or "cuda" would be refused
    changed = tiny_study(artifacts, **{name: CHANGES[name]})
    assert changed.training_stage("full").key != study.training_stage("full").key


@pytest.mark.parametrize("name", NOT_IN_TRAINING)
def test_a_field_that_only_says_what_is_compared_leaves_the_training_key(study, artifacts, name):
    changed = tiny_study(artifacts, **{name: NOT_IN_TRAINING[name]})
    assert changed.training_stage("full").key == study.training_stage("full").key


def test_arms_have_artifacts_of_their_own(study):
    stages = [study.training_stage(name) for name in ("full", "histogram", "random")]
    assert len({stage.key for stage in stages}) == 3
    assert [stage.name for stage in stages] == ["train-full", "train-histogram", "train-random"]
    checks = [study.mechanism_stage(name) for name in ("full", "histogram")]
    assert [check.upstream for check in checks] == [(stage.key,) for stage in stages[:2]]


@pytest.mark.parametrize(
    "glue",
    [arms.study_dataset, arms.arm_schedule, arms.message_passing_cell],
    ids=lambda function: function.__name__,
)
def test_the_source_that_makes_a_stages_inputs_is_in_its_key(study, glue):
    sources = [str(path) for path in imported_sources(study.training_stage("full").module)]
    assert inspect.getsourcefile(glue) in sources


def test_the_number_of_trajectories_of_the_mechanism_check_is_in_its_key(study, monkeypatch):
    before = study.mechanism_stage("full").key
    monkeypatch.setattr(protocol, "MECHANISM_TRAJECTORIES", 2)
    assert study.mechanism_stage("full").key != before


def test_a_diverged_rate_is_shown_and_left_out_of_the_selection(tmp_path):
    study = tiny_study(tmp_path, learning_rates=(0.03, 1e30))
    for name in ("full", "histogram"):
        assert [d.learning_rate for d in study.population(name).divergences] == [1e30] * 3
        grid = study.grid(name)
        assert grid.learning_rate == 0.03
        assert np.isposinf(grid.means[1])
    # Divergences come back from the artifact.
    again = tiny_study(tmp_path, learning_rates=(0.03, 1e30))
    assert again.population("full").divergences == study.population("full").divergences


def test_a_study_in_which_everything_diverges_says_so(tmp_path):
    study = tiny_study(tmp_path, learning_rates=(1e30, 1e31))
    with pytest.raises(ValueError, match=r"arm 'full' has a diverged model at every learning rate"):
        _ = study.reference


@pytest.mark.parametrize(
    ("name", "value"), [("horizon", 1), ("clusters", 1), ("device", "tpu"), ("seeds", (2**64, 1))]
)
def test_a_setting_is_refused_by_its_name_or_the_study_runs(tmp_path, name, value):
    try:
        study = tiny_study(tmp_path, **{name: value})
    except ValueError as error:
        assert name in str(error)
    else:
        assert study.reference.system_verdict in ("works", "failed", "inconclusive")


def test_threads_are_as_they_were_after_training(tmp_path):
    torch.set_num_threads(2)
    tiny_study(tmp_path, epochs=1).population("full")
    assert torch.get_num_threads() == 2


def test_a_study_says_in_words_what_it_is(artifacts):
    assert open_study("quick", {}, artifacts).label == "profile quick"
    study = open_study("quick", {"sweeps": 1, "epochs": 2}, artifacts)
    assert study.label == "profile quick, epochs = 2, sweeps = 1"
    assert study.store.root == artifacts
