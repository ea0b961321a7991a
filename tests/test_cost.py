"""The cost: fitted exponents, targets, what is measured at each size, and how it is told."""

import dataclasses
import json

import numpy as np
import pytest
import statsmodels.api as sm
from inspection import changed, lines
from made_up_cost import EXPONENTS, axis, contest, made_up_cost, sweeps
from numpy.testing import assert_allclose, assert_array_equal

from clusterdyn.artifacts import ArtifactStore, source_hash
from clusterdyn.bench import findings, scaling, tables
from clusterdyn.bench.config import CostConfig
from clusterdyn.bench.cost import Cost
from clusterdyn.bench.machine import this_machine
from clusterdyn.bench.power_law import fit_power_law
from clusterdyn.bench.scaling import Sizes, measure_scaling
from clusterdyn.bench.side_by_side import bench_targets
from clusterdyn.bench.targets import target
from clusterdyn.figures import cost as figures
from clusterdyn.profiles import cost_config, study_config
from clusterdyn.report.results import bench_results, dump

# Power laws.


@pytest.mark.parametrize("exponent", [-0.5, 0.0, 1.0, 1.7])
def test_the_exponent_of_a_made_up_power_law_is_exact(exponent):
    x = np.array([1.0, 2.0, 3.0, 8.0, 20.0, 50.0, 51.0])
    law = fit_power_law(x, 3 * x**exponent)
    assert_allclose((law.exponent, law.coefficient), (exponent, 3), atol=1e-12)
    assert_allclose((law.low, law.high), exponent, atol=1e-6)
    assert_allclose(law.at(x), 3 * x**exponent)


@pytest.mark.parametrize(("points", "fitted"), [(7, 4), (6, 3), (5, 3), (4, 2), (3, 2)])
def test_only_the_upper_half_is_fitted_the_middle_one_included(points, fitted):
    x = 2.0 ** np.arange(points)
    y = x**1.5
    y[: points - fitted] = 100.0  # a constant cost that hides the law where x is small
    law = fit_power_law(x, y)
    assert law.points == fitted
    assert_allclose(law.exponent, 1.5)


def test_the_interval_is_that_of_ordinary_least_squares():
    rng = np.random.default_rng(0)
    x = 2.0 ** np.arange(9)
    y = x**0.8 * np.exp(0.1 * rng.normal(size=9))
    law = fit_power_law(x, y, confidence_level=0.9)
    peer = sm.OLS(np.log(y[4:]), sm.add_constant(np.log(x[4:]))).fit()
    assert_allclose((law.low, law.high), peer.conf_int(alpha=0.1)[1], rtol=1e-10)
    assert law.confidence_level == 0.9


def test_two_points_give_an_exponent_without_interval_and_fewer_none():
    law = fit_power_law(np.array([1.0, 2.0, 4.0]), np.array([9.0, 2.0, 8.0]))
    assert_allclose(law.exponent, 2)
    assert np.isnan([law.low, law.high]).all()
    assert fit_power_law(np.array([1.0, 2.0]), np.array([1.0, 2.0])) is None


# Targets.


def test_a_target_is_the_median_ratio_of_times_taken_in_turn():
    found = target("a / b", np.array([2.0, 9.0, 8.0]), np.array([1.0, 3.0, 2.0]), 2.5)
    assert_allclose(found.ratios, [2, 3, 4])
    assert (found.ratio, found.low, found.high) == (3, 2, 4)
    assert (found.kept, found.outcome, found.wanted) == (True, "kept", "at least 2.5")


@pytest.mark.parametrize(
    ("times", "bound", "at_least", "outcome"),
    [
        ([3.0], 3, True, "kept"),
        ([3.0], 3, False, "kept"),
        ([3.0], 3.1, True, "missed"),
        ([3.0], 2.9, False, "missed"),
        ([1.0, 9.0, 1.0], 2, True, "missed"),  # one good repeat does not keep it
        ([3.0], None, True, "no target"),
        (None, 3, True, "not measured"),
    ],
)
def test_a_target_is_kept_missed_or_neither(times, bound, at_least, outcome):
    numerator = None if times is None else np.array(times)
    found = target("a / b", numerator, np.ones(len(times or [0])), bound, at_least=at_least)
    assert found.outcome == outcome
    assert found.kept is {"kept": True, "missed": False}.get(outcome)


def test_every_target_is_the_ratio_that_its_name_says():
    found = bench_targets(contest(), contest(long=True), sweeps())
    assert [(t.name, t.bound, t.at_least, t.outcome) for t in found] == [
        ("plain loop / full", 60, True, "kept"),
        ("plain loop on one thread / full", None, True, "no target"),
        ("JAX / full", 2.5, True, "kept"),
        ("full / bare kernels", 1.25, False, "missed"),
        ("plain loop / round_robin", 85, True, "kept"),
        ("round_robin / full", 0.65, False, "missed"),
        ("plain loop / histogram", 40, True, "missed"),
        ("plain loop / full, T = 20, B = 32", 50, True, "kept"),
        ("JAX / full, T = 20, B = 32", 3.5, True, "missed"),
        ("a cluster's sweep / full sweep, n = 256, S = 8", 0.4, False, "kept"),
        ("a cluster's sweep / full sweep, n = 256, S = 16", 0.3, False, "missed"),
        ("sweep by rolls / full sweep, n = 256, S = 8", 2.5, True, "kept"),
    ]
    ratios = [60, 30, 3, 2, 60 / 0.7, 0.7, 30, 60, 3, 0.35, 0.35, 5]
    assert_allclose([t.ratio for t in found], ratios)
    robin = found[5]
    assert_allclose((robin.low, robin.high), (0.6, 0.8))


def test_without_jax_its_targets_are_not_measured_and_the_others_stand():
    found = {t.name: t for t in made_up_cost(jax=False).bench.targets}
    for name in ("JAX / full", "JAX / full, T = 20, B = 32"):
        assert found[name].outcome == "not measured" and found[name].ratio is None
    assert found["plain loop / full"].ratio == 60


def test_times_of_the_bench_are_medians_over_the_repeats():
    bench = made_up_cost().bench
    assert (bench.product_s, bench.plain_s, bench.jax_s, bench.kernel_s) == (2, 120, 6, 1)
    assert_allclose((bench.product_round_robin_s, bench.product_histogram_s), (1.4, 4))
    assert (bench.long_product_s, bench.long_plain_s, bench.long_jax_s) == (2, 120, 6)
    assert (bench.models, bench.steps, bench.repeats, bench.plain_models) == (24, 240, 3, 2)
    assert bench.loss_gap == 2e-6  # the largest of all sides


def test_json_tells_the_outcome_of_every_target_beside_its_ratios():
    told = json.loads(dump(bench_results(made_up_cost(jax=False).bench)))
    first = told["targets"][0]
    assert first == {
        "name": "plain loop / full",
        "ratios": [60, 60, 60],
        "bound": 60,
        "at_least": True,
        "ratio": 60,
        "low": 60,
        "high": 60,
        "outcome": "kept",
    }
    assert told["targets"][2]["ratio"] is None and told["targets"][2]["ratios"] == []
    for name in ("jax_s", "jax_compile_s", "jax_bytes", "long_jax_s", "long_jax_compile_s"):
        assert told[name] is None


# Growth.

GRIDS = {
    "scaling_population": 2,
    "scaling_populations": (1, 3),
    "scaling_nodes": (3, 5, 8),
    "scaling_horizons": (1, 2),
    "scaling_batch_sizes": (1, 4),
    "scaling_sweeps": (1, 2),
    "chunk_population": 5,
    "chunk_models": (1, 2, 9),
}


def test_every_size_is_varied_by_itself_around_the_study(monkeypatch):
    measured: list[Sizes] = []

    class Recorded:
        def __init__(self, name, make) -> None:
            self.make = make

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def call(self, method, sizes, *rest):
            if self.make.func is scaling.ChunkedTraining:
                return (9, np.array([1.0, 2.0])), 7
            measured.append(sizes)
            # A step of S models takes S n^2 seconds, and as many bytes.
            return np.full(2, sizes.models * sizes.nodes**2.0), sizes.models * sizes.nodes**2

    monkeypatch.setattr(scaling, "MeasuringProcess", Recorded)
    config = study_config("quick", {"nodes": 8, "horizon": 4, "batch_size": 10, "sweeps": 3})
    result = measure_scaling(config, cost_config("quick", GRIDS), progress=lambda line: None)
    center = Sizes(models=2, nodes=8, horizon=4, batch_size=10, sweeps=3)
    assert result.sizes == center
    grids = {
        "models": (1, 3), "nodes": (3, 5, 8), "horizon": (1, 2), "batch_size": (1, 4),
        "sweeps": (1, 2),
    }  # fmt: skip
    assert measured == [
        dataclasses.replace(center, **{size: value})
        for size, values in grids.items()
        for value in values
    ]
    for size, values in grids.items():
        assert tuple(result.axis(size).values) == values
    assert_array_equal(result.axis("models").models, [1, 3])
    assert_allclose(result.axis("models").per_model, 64)  # the same for every S
    assert_allclose(result.axis("nodes").law.exponent, 2)
    # Nine would be more than the five models that there are.
    assert [chunk.models for chunk in result.chunks] == [1, 2, 5]


def test_steps_and_chunks_are_really_run_and_more_models_take_more_memory():
    config = study_config("quick", {"channels": 2, "batch_size": 20})
    grids = {**GRIDS, "scaling_populations": (1, 256), "scaling_nodes": (16,)}
    result = measure_scaling(config, cost_config("quick", grids), progress=lambda line: None)
    for axis_ in result.axes:
        assert axis_.seconds.shape == (len(axis_.values), 2)
        assert np.all(axis_.seconds > 0)
    few, many = result.axis("models").memory
    # Each of 255 models more keeps at least u and c_q of 3 sweeps in 4 steps.
    assert many - few > 255 * 2 * 12 * 20 * 8 * 2 * 4
    for chunk in result.chunks:
        assert chunk.seconds.shape == (2,) and np.all(chunk.seconds > 0)
        assert chunk.max_bytes == chunk.models * result.chunks[0].max_bytes > 0


def test_the_bound_on_memory_reaches_the_trainer(monkeypatch):
    asked = []

    def train(cell, schedule, datasets, rates, config, *, max_bytes):
        asked.append((len(rates), len(set(rates)), max_bytes))
        return dataclasses.make_dataclass("Trained", [("seconds", float)])(16.0)

    monkeypatch.setattr(scaling, "train_population", train)
    monkeypatch.setattr(scaling, "bytes_per_model", lambda *arguments: 4096)
    training = scaling.ChunkedTraining(study_config("quick"), dataset=None)
    bound, seconds = training.time(7, 3, 2)
    # Seven models of one seed, once a repeat, in the memory of three.
    assert asked[1:] == [(7, 7, 3 * 4096)] * 2 and bound == 3 * 4096
    assert_allclose(seconds, 2.0)  # of eight steps


# Settings.


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cost_repeats": 0}, "cost_repeats must be positive; got 0"),
        ({"cost_peers": "torch"}, r"cost_peers must be plain or plain\+jax; got 'torch'"),
        ({"scaling_nodes": [4, 2, 8]}, r"scaling_nodes must ascend; got \[4, 2, 8\]"),
        ({"scaling_sweeps": [1, 1]}, r"scaling_sweeps must ascend; got \[1, 1\]"),
        ({"scaling_nodes": [2, 4]}, "scaling_nodes must be at least 3, as a ring needs"),
        ({"chunk_models": []}, "chunk_models must be positive and at least one"),
        ({"long_horizon": 1}, "long_horizon must be at least 2; got 1"),
        ({"scaling_seconds": "fast"}, "scaling_seconds must be a number; got 'fast'"),
    ],
)
def test_cost_settings_that_do_not_fit_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        cost_config("full", changes)


def test_only_a_profile_that_measures_the_cost_has_settings_of_it():
    assert cost_config("full") == CostConfig()
    assert cost_config("reference") is None
    assert cost_config("reference", {"cost_repeats": 7}, needed=True).cost_repeats == 7
    with pytest.raises(ValueError, match="cost_repeats belong to the cost measurements, which"):
        cost_config("reference", {"cost_repeats": 7})


@pytest.mark.parametrize(
    "changes", [{"clusters": 3, "nodes": 9}, {"partition": "coloring", "clusters": 2}]
)
def test_the_ring_of_single_sweeps_fits_every_study(changes):
    config = study_config("quick", changes)
    ring = CostConfig().single_sweeps(config)
    assert (ring.nodes, ring.clusters) == (64 * config.clusters, config.clusters)


@pytest.mark.parametrize(
    ("changes", "nodes"),
    [
        ({}, 8),
        ({"graph": "torus", "nodes": 12, "clusters": 3}, 12),
        ({"graph": "complete", "nodes": 5, "partition": "coloring", "clusters": 5}, 5),
        ({"nodes": 7, "partition": "coloring", "clusters": 3}, 9),  # 3 does not divide 7
    ],
)
def test_the_cost_is_that_of_a_ring_as_large_as_the_graph(changes, nodes):
    config = study_config("quick", changes)
    ring = CostConfig().on_a_ring(config)
    assert (ring.graph, ring.nodes, ring.partition) == ("ring", nodes, "contiguous")
    same = dataclasses.replace(
        ring, graph=config.graph, nodes=config.nodes, partition=config.partition
    )
    assert same == config


def test_the_longer_setting_has_trajectories_for_its_batches():
    config = study_config("quick", {"train_trajectories": 10, "batch_size": 10})
    longer = CostConfig().longer(config)
    assert (longer.horizon, longer.batch_size, longer.train_trajectories) == (20, 32, 32)


# The stage.


def test_the_cost_belongs_to_its_machine_and_settings(study, monkeypatch):
    key = study.cost_stage().key
    assert study.cost_stage().config["machine"] == dataclasses.asdict(this_machine())
    other = dataclasses.replace(study.cost_config, cost_repeats=7)
    assert changed(study, cost_config=other).cost_stage().key != key
    faster = dataclasses.replace(this_machine(), cpu="another")
    monkeypatch.setattr("clusterdyn.protocol.this_machine", lambda: faster)
    assert study.cost_stage().key != key


def test_measuring_is_no_part_of_what_decides_a_training():
    from clusterdyn.artifacts import imported_sources

    for module in ("clusterdyn.arms", "clusterdyn.mechanism", "clusterdyn.strict.study"):
        assert not [p for p in imported_sources(module) if p.parent.name == "bench"], module
    assert source_hash("clusterdyn.bench.cost") != source_hash("clusterdyn.arms")


@pytest.mark.parametrize("jax", [True, False])
def test_a_cost_comes_back_from_its_artifact_as_it_was(study, tmp_path, jax):
    store, stage = ArtifactStore(tmp_path, lambda line: None), study.cost_stage()
    stored = store.load_or_compute(stage, Cost, lambda: made_up_cost(jax=jax))
    assert stored.machine == made_up_cost().machine
    read = store.load_or_compute(stage, Cost, lambda: pytest.fail("computed again"))
    assert dump(read) == dump(stored)
    assert store.seconds(stage) >= 0


def test_a_stage_without_an_artifact_has_no_seconds(study, tmp_path):
    store = ArtifactStore(tmp_path, lambda line: None)
    assert store.seconds(study.cost_stage()) is None


def test_a_profile_without_cost_says_so(study):
    with pytest.raises(ValueError, match="does not measure the cost; use profile full"):
        _ = changed(study, cost_config=None).cost


# How it is told.


@pytest.fixture
def told(study):
    """A study whose cost is made up, and whose stages took known times."""
    seconds = {"train-full": 1.0, "strict": 6.0, "claims": None, "cost": 3.0}
    other = changed(study, stage_seconds=lambda: dict(seconds))
    other.__dict__["cost"] = made_up_cost()
    return other


def test_the_table_of_targets_tells_each_ratio_with_its_interval(told):
    table = tables.bench_targets(told.cost.bench)
    by_name = {row[0]: row[1:] for row in table.rows}
    assert by_name["round_robin / full"] == ("0.7", "0.6", "0.8", "at most 0.65", "missed")
    assert by_name["plain loop on one thread / full"][3:] == ("—", "no target")
    assert "median, smallest and largest of 3 repeats" in table.caption


def test_the_table_of_times_says_how_many_plain_models_were_trained(told):
    table = tables.bench_times(told.cost.bench)
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["population trainer, full"] == ("2", "2", "10")
    assert rows["plain loop, 1 thread"] == ("60", "—", "1")
    assert "trained 2 of the 24 models and its times are scaled to all" in table.caption
    every = dataclasses.replace(told.cost.bench, plain_models=24)
    assert "scaled" not in tables.bench_times(every).caption
    assert table.caption in table.text() and "population trainer, full" in table.text()


def test_without_jax_the_note_says_so_wherever_times_are_told(told):
    told.__dict__["cost"] = made_up_cost(jax=False)
    assert "There is no JAX." in tables.bench_times(told.cost.bench).caption
    assert "There is no JAX." in findings.cost(told)


def test_the_table_of_growth_tells_the_fitted_exponents(told):
    rows = {row[0].split(",")[0]: row for row in tables.scaling(told).rows}
    for size, exponent in EXPONENTS.items():
        row = rows[tables.SIZES[size][0]]
        assert row[-1] == f"{exponent:.2f} [{exponent:.2f}, {exponent:.2f}]"
        assert row[1] == "4 to 128" and row[3] == "4 to 128"


def test_an_exponent_of_two_points_has_no_interval():
    law = dataclasses.replace(axis("nodes").law, low=np.nan, high=np.nan)
    assert tables.exponent(dataclasses.replace(axis("nodes"), law=law)) == "1.20"
    assert tables.exponent(dataclasses.replace(axis("nodes"), law=None)) == "—"


def test_the_table_of_stages_tells_seconds_and_shares(told):
    rows = tables.stage_seconds(told).rows
    assert rows == [
        ("train-full", "1", "10%"),
        ("strict", "6", "60%"),
        ("claims", "—", "—"),
        ("cost", "3", "30%"),
        ("all", "10", "100%"),
    ]


def test_findings_tell_what_the_measurements_say(told):
    text = findings.cost(told)
    assert "24 models of 240 optimiser steps, takes 2 s" in text
    # 3907 chunks on two cores are 1954 rounds of 256 models, each 2 s x 2 cores / 24 models long.
    assert "83.3 ms a model; at that rate a million models take 23.2 hours" in text
    assert "6 of 11 measured targets are kept" in text
    assert "full / bare kernels, 2 [2, 2] where at most 1.25 is wanted" in text
    assert "$n$: 1.20 [1.20, 1.20]" in text
    # 4 to the -.1 against 128 to the -.1.
    assert f"costs {32**0.1:.2g} times what it costs among 128" in text
    assert "100 models at once took 70 MiB, and 5 MiB in chunks of 5 (max_bytes at 4 MiB)" in text
    assert "in 2.00 times the time. Chunks of 20 were the fastest, with 0.50 times" in text
    assert (
        "results took 7 s, of which `strict` took 86%, and the measurements on this page 3 s"
        in text
    )
    assert "2 cores of Abacus 9" in findings.machine(told)


def test_every_repeat_median_and_target_is_drawn(told):
    panel = figures.cost_ratios(told).figure.axes[0]
    targets = [t for t in told.cost.bench.targets if t.ratio is not None]
    repeats = lines(panel, marker="o")
    assert [tuple(line.get_xdata()) for line in repeats] == [tuple(t.ratios) for t in targets]
    medians = [line.get_xdata()[0] for line in lines(panel, marker="D")]
    assert_allclose(medians, [t.ratio for t in targets])
    bounds = [line.get_xdata()[0] for line in lines(panel, marker="|")]
    assert bounds == [t.bound for t in targets if t.bound is not None]
    names = [text.get_text() for text in panel.get_yticklabels()]
    assert names == [t.name for t in targets]


def test_a_ratio_that_was_not_measured_is_not_drawn(told):
    told.__dict__["cost"] = made_up_cost(jax=False)
    panel = figures.cost_ratios(told).figure.axes[0]
    assert not [text for text in panel.get_yticklabels() if "JAX" in text.get_text()]


def test_growth_is_drawn_a_panel_a_size_with_the_law_over_the_fitted_values(told):
    picture = figures.cost_scaling(told)
    for panel, grown in zip(picture.figure.axes, told.cost.scaling.axes, strict=False):
        dots = lines(panel, marker="o")
        assert len(dots) == 2  # a column a repeat
        for dot in dots:
            assert_array_equal(dot.get_xdata(), grown.values)
            assert_allclose(dot.get_ydata(), grown.values ** EXPONENTS[grown.size])
        (law,) = lines(panel, style="--")
        assert_array_equal(law.get_xdata(), grown.values[-3:])
        assert_allclose(law.get_ydata(), grown.values[-3:] ** EXPONENTS[grown.size])
        assert f"exponent {EXPONENTS[grown.size]:.2f}" in panel.get_title(loc="left")
    assert "n with exponent 1.20" in picture.alt


def test_chunks_are_drawn_with_their_bound_memory_and_every_time(told):
    memory, seconds = figures.cost_chunks(told).figure.axes
    (bounds,), (peaks,) = lines(memory, marker="_"), lines(memory, marker="o")
    assert_allclose(bounds.get_xydata(), [[5, 4], [20, 16], [100, 80]])
    assert_allclose(peaks.get_xydata(), [[5, 5], [20, 15], [100, 70]])
    times = [line.get_ydata() for line in lines(seconds, marker="o")]
    assert_allclose(times, [[6.0] * 3, [1.5] * 3, [3.0] * 3])  # ms of one of 100 models


def test_figures_name_the_artifact_and_the_machine(told):
    for draw in (figures.cost_ratios, figures.cost_scaling, figures.cost_chunks):
        picture = draw(told)
        assert f"artifact cost {told.cost_stage().key[:10]}" in picture.provenance
        assert "2 cores, Abacus 9" in picture.provenance
