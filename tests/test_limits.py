"""Other graphs, partitions, sizes, sweeps and relaxation factors: plan, claims, law, settling."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from clusterdyn.arms import (
    TrainingRun,
    arm_schedule,
    gru_units,
    message_passing_cell,
    study_dataset,
)
from clusterdyn.comparison import compare
from clusterdyn.config import StudyConfig
from clusterdyn.figures import gru as gru_figures
from clusterdyn.figures import limits as figures
from clusterdyn.figures.style import Picture
from clusterdyn.gru import GRUCell
from clusterdyn.limits import findings, tables
from clusterdyn.limits.claims import FAMILIES, limits_claims
from clusterdyn.limits.config import LimitsConfig
from clusterdyn.limits.experiments import EXPERIMENTS, GRU_EXPERIMENTS, plan
from clusterdyn.limits.gru_agreement import difference_from_torch
from clusterdyn.limits.results import LimitsStudy
from clusterdyn.limits.settling import TRAJECTORIES, settle
from clusterdyn.limits.study import run_limits
from clusterdyn.protocol import Study, open_study
from clusterdyn.report.strict_results import limits_results
from clusterdyn.stats import holm
from clusterdyn.sweeps import rollout

SETTINGS = {
    "nodes": 8,
    "channels": 2,
    "epochs": 1,
    "horizon": 2,
    "train_trajectories": 40,
    "validation_trajectories": 10,
    "test_trajectories": 10,
    "batch_size": 20,
    "test_seeds": (100, 101, 102),
    "side_test_seeds": 3,
}
FIGURES = [
    function
    for name, function in vars(figures).items()
    if name.startswith("limits_") and function.__module__ == figures.__name__
]
FIELDS = ("states", "controls")
NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    """A tiny study beyond its setting, carried out here, without a pool of processes."""
    folder = tmp_path_factory.mktemp("limits")
    study = open_study("quick", SETTINGS, folder, progress=lambda line: None)
    limits = study.limits
    result = run_limits(study.config, limits.strict, limits.limits, study.store)
    mine = LimitsStudy(limits.config, limits.strict, limits.limits, limits.store)
    mine.__dict__["result"] = result
    study.__dict__["limits"] = mine
    return study


@pytest.fixture(scope="module")
def pictures(study) -> dict[str, Picture]:
    """Every figure by its function's name."""
    return {function.__name__: function(study) for function in FIGURES}


def test_the_full_plan_goes_where_the_published_trial_did_not():
    places, left_out = plan(StudyConfig(), LimitsConfig())
    assert {place.experiment for place in places} == set(EXPERIMENTS)
    names = {place.name for place in places}
    assert {
        "torus",
        "complete",
        "random, C = 4",
        "contiguous, C = 2",
        "contiguous, C = 8",
        "n = 1024",
    } <= names
    assert {f"K = {sweeps}" for sweeps in (1, 2, 6, 12, 24)} <= names
    # On an even ring the greedy coloring is odd against even, but with two clusters, not four.
    assert "coloring, C = 2" in names and not left_out


@pytest.mark.parametrize("config", [StudyConfig(), StudyConfig(nodes=24, clusters=3, sweeps=2)])
def test_arms_of_a_place_have_the_full_sweeps_work(config):
    for place in plan(config, LimitsConfig())[0]:
        for arm in place.arms:
            changed = replace(config, **dict(arm.changes))
            per_sweep = changed.nodes
            if arm.schedule != "full":
                per_sweep = arm_schedule(changed, arm.schedule).partition.sizes.mean()
            work = changed.sweeps * per_sweep
            full = replace(config, **dict(place.arms[0].changes))
            if place.experiment == "gru_sweeps":
                assert changed.sweeps == full.sweeps == 1
            else:
                assert work == full.nodes * full.sweeps, (place.name, arm.label)


def test_the_units_of_a_gru_are_the_nodes_and_clusters_divide_them():
    places = [p for p in plan(StudyConfig(), LimitsConfig())[0] if p.experiment in GRU_EXPERIMENTS]
    assert len(places) == 2
    for place in places:
        for arm in place.arms:
            cell, schedule = arm.run(StudyConfig(), (0, 1), (0.01,)).build()
            assert cell.units == schedule.partition.nodes == 12
            assert schedule.partition.clusters == (1 if arm.schedule == "full" else 4)
            # An unequal number of units would fit the message-passing cell's parameters better.
            count = message_passing_cell(StudyConfig()).parameter_count
            assert abs(GRUCell(8).parameter_count - count) > abs(cell.parameter_count - count)


@pytest.mark.parametrize("name", ["round_robin", "random", "histogram", "residual"])
def test_units_that_a_schedule_leaves_out_hold_their_state(name):
    config = replace(StudyConfig(), **gru_units(StudyConfig()))
    cell, schedule = TrainingRun(config, name, "gru_units").build()
    rng = np.random.default_rng(0)
    parameters = torch.as_tensor(rng.normal(size=(2, cell.parameter_count)))
    first, controls = (torch.as_tensor(rng.normal(size=(2, 5, *s))) for s in ((3,), (4, 1)))
    generators = [np.random.default_rng(seed) for seed in (0, 1)]
    run = rollout(
        cell.bind(parameters), first, controls, schedule, generators, sweeps=1, relaxation=1.0
    )
    # The same choices on PyTorch's own cell, with the units put back that were not chosen.
    labels = list(schedule.partition.labels)
    for model in range(2):
        gru, readout = cell.torch_modules(parameters[model])
        hidden, state = torch.zeros(5, cell.units, dtype=torch.float64), first[model]
        for step, active in enumerate(run.activity):
            moved = gru(torch.cat([state, controls[model, :, step]], dim=-1), hidden)
            chosen = active[..., labels] if active.ndim == 1 else active[model][:, labels]
            hidden = torch.where(chosen, moved, hidden)
            state = readout(hidden)
            assert_allclose(run.predictions[model, :, step], state.detach(), atol=1e-12)


def test_a_place_departs_from_the_study_in_one_respect_beside_the_sweeps_of_equal_work():
    respects = {
        "nodes": {"nodes", "train_trajectories", "batch_size", "epochs"},
        "partitions": {"partition", "clusters"},
        **{name: set(gru_units(StudyConfig())) for name in GRU_EXPERIMENTS},
    }
    for place in plan(StudyConfig(), LimitsConfig())[0]:
        full, *others = place.arms
        own = {name.removesuffix("s") for name in (place.experiment,)}
        assert set(dict(full.changes)) <= respects.get(place.experiment, own | {"sweeps"})
        for arm in others:
            assert {**dict(full.changes), "sweeps": None} == {**dict(arm.changes), "sweeps": None}


def test_what_repeats_another_place_or_cannot_be_is_left_out_with_the_reason():
    limits = LimitsConfig(
        other_graphs=("torus", "ring"), other_clusters=(4, 2), other_sweeps=(3, 1)
    )
    places, left_out = plan(StudyConfig(nodes=8), limits)
    reasons = {out.name: out.reason for out in left_out}
    for name in ("ring", "contiguous, C = 4", "K = 3"):
        assert reasons[name] == "it is the same as the study's own setting"
    assert "3 by 3" in reasons["torus"]
    assert not {place.name for place in places} & set(reasons)


def test_a_schedule_that_would_take_too_many_updates_is_named(study):
    places, _ = plan(StudyConfig(), LimitsConfig())
    (last,) = (place for place in places if place.name == "K = 24")
    assert [arm.schedule for arm in last.arms] == ["full"]
    assert last.left_out == ("round_robin", "random", "histogram")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"other_sweeps": (0, 1)}, "other_sweeps must be positive"),
        ({"other_relaxations": (0.5, 1.5)}, "other_relaxations must lie in (0, 1]; got [0.5, 1.5]"),
        ({"other_graphs": ("torus", "torus")}, "other_graphs must not repeat"),
        ({"law_seeds": 1}, "law_seeds must be at least 2; got 1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(change, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        LimitsConfig(**change)


def test_every_claim_is_the_paired_comparison_of_two_arms_of_its_place(study):
    result, claims = study.limits.result, study.limits.claims
    arms = {arm.label: arm for place in result.places for arm in place.arms}
    for claim in claims:
        pair = [arms[label].test_mse for label in (claim.baseline, claim.treatment)]
        assert claim.comparison.test.pvalue == compare(result.test_seeds, *pair).test.pvalue
        changes = [dict(arms[label].changes) for label in (claim.baseline, claim.treatment)]
        for change in changes:
            change.pop("sweeps", None)
        assert changes[0] == changes[1]
        assert arms[claim.baseline].schedule == claim.family.rpartition("_")[2]
        assert arms[claim.baseline].cell == arms[claim.treatment].cell
    for family in FAMILIES:
        mine = [claim for claim in claims if claim.family == family]
        raw = [claim.comparison.test.pvalue for claim in mine]
        assert mine
        assert_allclose([claim.adjusted_p for claim in mine], holm(raw))


def test_a_made_up_improvement_over_random_is_claimed_against_random_only(study):
    result = study.limits.result
    seeds = np.arange(100, 116)
    noise = np.random.default_rng(0).uniform(0.98, 1.02, len(seeds))

    def planted(arm):
        level = {"random": 1.0, "full": 0.4}.get(arm.schedule, 0.4)
        return replace(arm, test_mse=level * noise[:: 1 if arm.schedule == "full" else -1])

    places = tuple(
        replace(place, arms=tuple(planted(arm) for arm in place.arms)) for place in result.places
    )
    claims = limits_claims(replace(result, test_seeds=seeds, places=places)).claims
    for claim in claims:
        arm = claim.treatment.partition(",")[0]
        if claim.family.endswith("_random"):
            assert claim.verdict == "helps", claim.step
        elif arm != "random":
            assert claim.verdict == "equivalent", claim.step


def test_the_eta_squared_law_holds_on_other_graphs_and_partitions(study):
    laws = {place.name: place.law for place in study.limits.result.places if place.law}
    assert "complete" in laws and len(laws) >= 3
    for name, found in laws.items():
        assert 1.9 < found.law.slope_low < found.law.slope_high < 2.1, name
        assert found.law.coefficient_error[0].max() < 0.05, name
        assert_array_equal(found.independent_sets, 0)


def test_a_contraction_settles_at_its_fixed_point_and_the_error_there_is_the_readouts():
    config = StudyConfig(
        nodes=6, channels=2, clusters=2, horizon=2, sweeps=3, seeds=(0, 1),
        learning_rates=(0.01,), train_trajectories=20, test_trajectories=TRAJECTORIES,
    )  # fmt: skip
    run = TrainingRun(config, "full")
    cell = message_passing_cell(config)
    population = run.train()
    # Without weights on h the update is f = tanh(z): after k sweeps h = (1 - (1 - eta)^k) tanh(z).
    weights = torch.tensor(population.parameters)
    cell.unflatten(weights)["messages"].zero_()
    found = settle(run, replace(population, parameters=weights.numpy()))
    shrinking = 0.5 ** np.arange(30)[:, None]
    assert_allclose(found.residual[:30], found.residual[0] * shrinking, rtol=1e-6)
    assert_allclose(found.at_end, 0.125, rtol=1e-9)
    assert found.left.max() < 1e-15
    bound = cell.bind(weights.double())
    tests = [study_dataset(config, seed).test for seed in config.seeds]
    x, u = (torch.tensor(np.stack([getattr(t, name) for t in tests])) for name in FIELDS)
    target = torch.tanh(bound.drive(x[:, :, 0], u[:, :, 0])).reshape(*x.shape[:2], 6, 2)
    for level, mse in ((0.875, found.trained_mse), (1.0, found.settled_mse)):
        error = bound.readout(level * target) - x[:, :, 1]
        assert_allclose(mse, error.square().mean(dim=(1, 2)), rtol=1e-9)


def test_results_json_holds_every_arm_claim_and_reason(study):
    told = limits_results(study)
    result = study.limits.result
    assert [place["name"] for place in told["places"]] == [place.name for place in result.places]
    assert len(told["claims"]) == len(study.limits.claims)
    assert {out.name for out in told["left_out"]} == {out.name for out in result.left_out}
    (first,) = (place for place in told["places"] if place["name"] == "K = 1")
    assert first["settling"]["sweeps"] == 1 and first["law"] is None


def test_every_figure_is_on_the_notebook_and_tells_every_place(study, pictures):
    text = (NOTEBOOKS / "10_limits.py").read_text("utf-8")
    assert f"figures={len(FIGURES)}" in text
    for name, picture in pictures.items():
        assert f"figures.{name}(study).show()" in text and picture.name == name
    told = pictures["limits_structure"].alt + pictures["limits_dynamics"].alt
    for place in study.limits.result.places:
        if place.experiment not in GRU_EXPERIMENTS:
            assert all(f"{place.name}, {arm.schedule}" in told for arm in place.arms[1:])


def test_tables_have_a_row_for_each_arm_claim_and_law(study):
    for experiment in EXPERIMENTS:
        arms = [arm for place in tables.places(study, experiment) for arm in place.arms]
        assert len(tables.arms(study, experiment).rows) == len(arms)
    for family in FAMILIES:
        assert len(tables.claims(study, family).rows) == len(study.limits.family(family))
    assert len(tables.laws(study).rows) == sum(
        p.law is not None for p in study.limits.result.places
    )
    assert {row[1] for row in tables.left_out(study).rows} >= {"torus"}


def test_an_arm_that_does_not_beat_random_is_said_to(study):
    text = findings.limits(study) + findings.gru(study)
    for claim in study.limits.claims:
        if claim.family.endswith("_random") and claim.verdict != "helps":
            assert claim.step.removesuffix(" instead of random") in text


def test_the_full_sweep_of_units_is_torchs_gru_and_another_schedule_is_not(study):
    (place,) = (p for p in study.limits.result.places if p.experiment == "gru")
    assert place.torch_difference.shape == (3,) and place.torch_difference.max() < 1e-12
    assert all(p.torch_difference is None for p in study.limits.result.places if p != place)
    changes = {**gru_units(study.config), "seeds": (0, 1), "learning_rates": (0.01,)}
    run = TrainingRun(replace(study.config, **changes), "round_robin", "gru_units")
    assert difference_from_torch(run, run.train()).min() > 1e-3


def test_the_figure_and_the_notebook_of_the_gru_tell_every_arm(study):
    picture = gru_figures.gru_schedules(study)
    text = (NOTEBOOKS / "11_gru.py").read_text("utf-8")
    assert "figures.gru_schedules(study).show()" in text and "figures=1" in text
    for experiment in GRU_EXPERIMENTS:
        (place,) = tables.places(study, experiment)
        assert all(arm.schedule in picture.alt for arm in place.arms)
        assert f'tables.arms(study, "{experiment}")' in text
        for against in ("full", "random"):
            assert f'tables.claims(study, "{experiment}_{against}")' in text
    told = findings.gru(study)
    assert "at equal work" in told and "at equal sweeps" in told and "GRUCell" in told


def test_clusters_that_no_colouring_of_the_units_has_are_told(study):
    config = replace(study.config, partition="coloring", clusters=2)
    _, left_out = plan(config, study.limits.limits)
    reasons = {out.experiment: out.reason for out in left_out}
    assert all("coloring" in reasons[name] for name in GRU_EXPERIMENTS)
