"""Time steps of every schedule against full: what is counted, what is timed, what is refused."""

import json
import time
from dataclasses import replace
from types import SimpleNamespace

import made_up_cost as made_up
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from clusterdyn.__main__ import main
from clusterdyn.artifacts import ArtifactStore, Stage
from clusterdyn.bench import findings, tables, wall_clock
from clusterdyn.bench.wall_clock import WallClock, WallClockPoint, measure_wall_clock
from clusterdyn.figures.cost import cost_wall_clock
from clusterdyn.figures.protocol import LOOKS
from clusterdyn.profiles import cost_config, study_config
from clusterdyn.report.results import dump

SMALL = {
    "wall_clock_nodes": (8, 16),
    "wall_clock_batch_sizes": (3, 6),
    "wall_clock_seconds": 0.0005,
}


@pytest.fixture(scope="module")
def measured():
    """Four clusters, three sweeps, two repeats."""
    return measure_wall_clock(
        study_config("quick"), cost_config("quick", SMALL), progress=lambda line: None
    )


def test_every_schedule_is_measured_at_every_size(measured):
    sizes = [(point.nodes, point.batch_size) for point in measured.points]
    assert sizes == [(8, 3), (8, 6), (16, 3), (16, 6)]
    assert (measured.device, measured.schedules[0], measured.sweeps) == ("cpu", "full", 3)
    for point in measured.points:
        assert point.seconds.shape == (len(measured.schedules), 2)
        assert np.all(point.seconds > 0) and np.all(point.memory > 0)


def test_node_updates_are_those_of_three_sweeps_of_four_clusters(measured):
    for point in measured.points:
        updates = dict(zip(measured.schedules, point.node_updates / point.nodes, strict=True))
        assert updates.pop("full") == updates.pop("cluster_sequential") == 3
        # One cluster of four, three times.
        assert_allclose(list(updates.values()), 0.75, rtol=1e-12)


def test_more_trajectories_take_more_memory(measured):
    few, many = (measured.points[place].memory for place in (2, 3))
    # Each of three trajectories more keeps at least u of 16 nodes with 3 channels.
    assert np.all(many - few >= 3 * 16 * 3 * 4)


def test_ratios_are_taken_within_a_repeat_and_full_comes_first():
    seconds = np.array([[1.0, 2.0], [2.0, 1.0]])
    point = WallClockPoint(16, 20, seconds, np.array([48.0, 12.0]), np.array([2, 1]))
    assert_array_equal(point.ratios, [[1, 1], [2, 0.5]])
    assert_allclose(point.ideal, [1, 0.25])


def test_the_clock_is_not_read_before_the_device_is_done(monkeypatch):
    waited = []
    monkeypatch.setattr(wall_clock, "synchronise", waited.append)
    timed = wall_clock.TimeStepPass(study_config("quick"), "residual", 3, "cpu")
    assert waited == []
    timed()
    timed()
    assert waited == ["cpu", "cpu"]


def test_a_measurement_comes_back_from_its_artifact_as_it_was(measured, tmp_path):
    store = ArtifactStore(tmp_path, lambda line: None)
    stage = Stage("wall-clock", "clusterdyn.bench.wall_clock", {})
    store.load_or_compute(stage, WallClock, lambda: measured)
    read = store.load_or_compute(stage, WallClock, lambda: pytest.fail("computed again"))
    assert dump(read) == dump(measured)


@pytest.mark.parametrize("device", ["cuda", "abacus"])
def test_a_device_that_is_not_there_is_refused(monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=rf"this machine has \(cpu.*\); got '{device}'"):
        measure_wall_clock(study_config("quick"), cost_config("quick", SMALL), device=device)


def test_the_threads_are_as_before(measured):
    before = torch.get_num_threads()
    measure_wall_clock(
        study_config("quick"), cost_config("quick", SMALL), progress=lambda line: None
    )
    assert torch.get_num_threads() == before


def test_utilisation_is_sampled_where_it_is_told_and_only_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "utilization", lambda: 42)
    monkeypatch.setattr(wall_clock, "SAMPLE_SECONDS", 0.001)
    for device, library, told in (("cuda", object(), {42.0}), ("cuda", None, set())):
        monkeypatch.setattr(wall_clock, "find_spec", lambda name, found=library: found)
        with wall_clock.sampled_utilisation(device) as samples:
            time.sleep(0.05)
        count = len(samples)
        time.sleep(0.01)
        assert set(samples) == told and len(samples) == count


def test_the_table_tells_time_ratio_repeats_and_ideal():
    rows = {row[:2]: row[2:] for row in tables.wall_clock(made_up.wall_clock()).rows}
    assert rows["16, 20", "full"] == ("32", "1", "1 to 1", "1", "4")
    assert rows["16, 20", "round_robin"] == ("16", "0.5", "0.4 to 0.6", "0.25", "2")
    assert rows["256, 20", "histogram"] == ("1.02e+03", "2", "2 to 2", "0.25", "5")


def test_a_device_that_was_not_timed_is_said_to_be():
    found = made_up.wall_clock()
    assert [row[1] for row in tables.devices(found).rows] == ["measured", "not measured"]
    on_gpu = replace(found, device="Abacus X1", utilisation=61.8)
    cpu, accelerator = tables.devices(on_gpu).rows
    assert cpu[1] == "not measured" and accelerator[1:] == ("Abacus X1", "62 %")


def test_the_sentence_counts_what_is_slower_and_names_the_fastest():
    told = findings.saved_time(made_up.wall_clock())
    assert "longer than the full sweep in 2 of 4 cases" in told
    for nodes in (16, 256):
        assert f"at n = {nodes}, B = 20 `round_robin` with 0.5 of the full sweep's time" in told


def test_the_figure_draws_every_repeat_beside_the_ratio_of_node_updates():
    study = SimpleNamespace(
        cost=made_up.made_up_cost(),
        label="",
        cost_stage=lambda: Stage("cost", "clusterdyn.bench.cost", {}),
    )
    picture = cost_wall_clock(study)
    (axis,) = picture.figure.axes
    drawn = {line.get_marker(): [] for line in axis.lines}
    for line in axis.lines:
        drawn[line.get_marker()] += list(line.get_xdata())
    assert_allclose(drawn[LOOKS["round_robin"].marker], [0.4, 0.5, 0.6] * 2)
    assert_allclose(drawn[LOOKS["histogram"].marker], [2, 2, 2] * 2)
    assert_allclose(drawn["|"], [0.25] * 4)
    assert "n = 256, B = 20, histogram 2" in picture.alt


def test_the_command_writes_and_tells_what_it_measured(tmp_path, capsys):
    file = tmp_path / "times.json"
    small = [f"{name}={value}".replace(" ", "") for name, value in SMALL.items()]
    small = [text.replace("(", "").replace(")", "") for text in small]
    command = ["wall-clock", "--profile", "quick", "--json", str(file), "--set", *small]
    assert main(command) == 0
    told = json.loads(file.read_text("utf-8"))
    assert [(p["nodes"], p["batch_size"]) for p in told["points"]] == [
        (8, 3), (8, 6), (16, 3), (16, 6)
    ]  # fmt: skip
    for point in told["points"]:
        seconds = np.array(point["seconds"])
        assert_allclose(point["ratios"], seconds / seconds[0])
    said = capsys.readouterr().out
    assert "histogram" in said and "not measured" in said


def test_the_command_refuses_a_device_that_is_not_there(capsys, tmp_path):
    file = tmp_path / "times.json"
    assert main(["wall-clock", "--device", "abacus", "--json", str(file)]) == 2
    assert "device must be one that this machine has" in capsys.readouterr().err
    assert not file.exists()
