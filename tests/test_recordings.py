"""Trajectories that users bring: what is read, how it is split, a sentence for what is wrong."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from recording_files import oscillator, rows, write_csv

from clusterdyn.__main__ import main
from clusterdyn.arms import TrainingRun, gru_cell, message_passing_cell, study_dataset
from clusterdyn.profiles import study_config
from clusterdyn.protocol import open_study
from clusterdyn.recordings import pinned_data, read_recording, recorded_dataset, recording_of
from clusterdyn.recordings import recording as recording_module

COUNT, LENGTH = 30, 21


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory):
    return write_csv(tmp_path_factory.mktemp("data") / "runs.csv", rows(*oscillator(COUNT, LENGTH)))


@pytest.fixture(scope="module")
def npz_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "runs.npz"
    states, controls = oscillator(COUNT, LENGTH)
    np.savez(path, states=states, controls=controls, time_step=0.1)
    return path


# What is read.


def test_both_forms_hold_the_same_numbers_and_names_with_units(csv_file, npz_file):
    from_csv, from_npz = read_recording(str(csv_file)), read_recording(str(npz_file))
    states, controls = oscillator(COUNT, LENGTH)
    for found in (from_csv, from_npz):
        assert_array_equal(np.stack(found.states), states)
        assert_array_equal(np.stack(found.controls), controls)
        assert_allclose(found.time_step, 0.1)
    assert from_csv.state_names == ("position [m]", "velocity [m/s]")
    assert from_csv.control_names == ("force [N]",)
    assert from_npz.state_names == ("state 1", "state 2")


def test_ragged_trajectories_are_cut_into_windows_that_share_only_their_ends(tmp_path):
    lengths = (5, 9, 10)
    states = np.arange(2.0 * sum(lengths)).reshape(-1, 2)
    path = tmp_path / "ragged.npz"
    trajectory = np.repeat([7, 3, 5], lengths)
    names = {"state_names": np.array(["a [m]", "b"]), "control_names": np.array(["u"])}
    np.savez(path, states=states, controls=states[:, :1], trajectory=trajectory, **names)
    found = read_recording(str(path))
    assert [len(path) for path in found.states] == list(lengths)
    assert [len(held) for held in found.controls] == [4, 8, 9]
    windows, source = found.windows(4)
    assert source.tolist() == [0, 1, 1, 2, 2]
    assert_array_equal(windows.states[1], states[5:10])
    assert_array_equal(windows.states[2], states[9:14])
    assert_array_equal(windows.controls[2], states[9:13, :1])
    assert (found.state_names, found.control_names) == (("a [m]", "b"), ("u",))


# How it is split.


def test_no_trajectory_gives_windows_to_two_splits_and_seeds_deal_anew(csv_file):
    recording = read_recording(str(csv_file))
    pool, source = recording.windows(4)
    places = {row.tobytes(): number for row, number in zip(pool.states, source, strict=True)}
    dealt = []
    for seed in (0, 1):
        data = recorded_dataset(recording, seed, train=60, validation=15, test=15, horizon=4)
        moments, groups = data.standardisation, []
        for split in (data.train, data.validation, data.test):
            raw = split.states * moments.state_std + moments.state_mean
            close = [np.abs(pool.states - window).max(axis=(1, 2)).argmin() for window in raw]
            assert_allclose(pool.states[close], raw, atol=1e-12)
            assert len(set(close)) == len(close)
            groups.append({int(source[number]) for number in close})
        assert not (groups[0] & groups[1] or groups[0] & groups[2] or groups[1] & groups[2])
        dealt.append(groups[2])
        assert_allclose(data.train.states.mean(axis=(0, 1)), 0, atol=1e-12)
        assert_allclose(data.train.controls.std(axis=(0, 1)), 1)
    assert dealt[0] != dealt[1] and len(places) == len(source)


def test_the_same_seed_gives_the_same_bits(csv_file):
    config = study_config("quick", settings(csv_file))
    first, second = study_dataset(config, 3), study_dataset(replace(config, epochs=2), 3)
    for split in ("train", "validation", "test"):
        assert_array_equal(getattr(first, split).states, getattr(second, split).states)


# A study on it.


def settings(path, **changes) -> dict:
    """A small study's on a file."""
    sizes = {"train_trajectories": 60, "validation_trajectories": 15, "test_trajectories": 15}
    return {"data": str(path), **sizes, "epochs": 2, "batch_size": 20, **changes}


def test_cells_take_the_channels_of_the_file_and_training_gets_better(csv_file):
    config = study_config("quick", settings(csv_file, epochs=12, learning_rates=[0.01]))
    for cell in (message_passing_cell(config), gru_cell(config)):
        assert (cell.state_size, cell.control_size) == (2, 1)
    population = TrainingRun(config, "round_robin").train()
    assert (population.validation_loss[-1] < 0.5 * population.validation_loss[0]).all()


def test_a_study_is_keyed_by_the_files_content_and_not_by_its_name(csv_file, tmp_path):
    config = study_config("quick", settings(csv_file))
    assert config.data == pinned_data(config.data) == pinned_data(str(csv_file))
    copy = tmp_path / "runs.csv"
    copy.write_bytes(csv_file.read_bytes())
    before = pinned_data(str(copy))
    copy.write_bytes(csv_file.read_bytes() + b"\n")
    assert pinned_data(str(copy)) != before
    with pytest.raises(ValueError, match="no longer those that this study began with"):
        recording_of(before)


def test_a_relative_path_means_the_same_in_every_directory(csv_file, tmp_path, monkeypatch):
    monkeypatch.chdir(csv_file.parent)
    config = study_config("quick", settings("runs.csv"))
    monkeypatch.chdir(tmp_path)
    assert study_dataset(config, 0).train.states.shape == (60, 5, 2)


def test_a_horizon_of_the_strict_protocol_that_the_file_cannot_give_is_refused_at_once(
    csv_file, tmp_path
):
    few = settings(csv_file, horizons=[4, 20])
    with pytest.raises(ValueError, match=r"30 windows of 20 time steps, and seed 0 would need 60"):
        open_study("quick", few, tmp_path)
    with pytest.raises(ValueError, match=r"has 21 instants, and a horizon of 21 needs 22"):
        open_study("quick", settings(csv_file, horizon=21), tmp_path)


# What is wrong with it.


def changed_cell(row: int, column: int, text: str):
    def change(table):
        table[row][column] = text
        return table

    return change


def swapped(table):
    table[2], table[3] = table[3], table[2]
    return table


BAD_CSV = {
    "no number": (changed_cell(3, 2, "nan"), "row 4, column 'state:position [m]': a finite number"),
    "a text": (changed_cell(5, 3, "fast"), "row 6, column 'state:velocity [m/s]': a finite"),
    "an empty state": (changed_cell(5, 3, ""), "needed; got ''"),
    "an empty control": (changed_cell(5, 4, ""), "row 6, column 'control:force [N]': it is empty"),
    "no trajectory": (changed_cell(2, 0, " "), "row 3, column 'trajectory': it is empty"),
    "time that falls": (swapped, "row 4, column 'time': it does not rise from the row before"),
    "uneven time": (changed_cell(LENGTH, 1, "9"), f"row {LENGTH + 1}, column 'time': a step of"),
    "a trajectory that comes back": (
        lambda t: [*t, ["run 0", "0", "1", "1", "1"], ["run 0", "0.1", "1", "1", "1"]],
        f"row {COUNT * LENGTH + 2}: trajectory 'run 0' begins anew after another one",
    ),
    "a trajectory of one row": (lambda t: [*t, ["new", "0", "1", "1", "1"]], "has one row"),
    "a short row": (lambda t: [*t[:2], t[2][:-1], *t[3:]], "row 3: 4 cells, and the header has 5"),
    "one trajectory": (lambda t: t[: LENGTH + 1], "holds 1 trajectories; at least 3 are needed"),
    "a constant channel": (
        lambda t: [t[0], *([*row[:3], "2.5", row[4]] for row in t[1:])],
        "channel 'velocity [m/s]' is constant (2.5)",
    ),
    "no header": (lambda t: t[1:], "row 1: there must be one column 'trajectory'"),
    "an unknown column": (changed_cell(0, 2, "position"), "column 'position' is neither"),
    "a column twice": (changed_cell(0, 3, "state:position [m]"), "stands more than once"),
    "no states": (
        lambda t: [["trajectory", "time", "control:a", "control:b", "control:c"], *t[1:]],
        "no column begins with 'state:'",
    ),
    "no time": (changed_cell(0, 1, "state:when"), "there must be one column 'time'"),
    "no rows": (lambda t: t[:1], "has a header and no rows"),
}


@pytest.mark.parametrize("name", BAD_CSV)
def test_a_bad_csv_file_is_refused_with_its_row_and_column(name, tmp_path):
    change, sentence = BAD_CSV[name]
    path = write_csv(tmp_path / "bad.csv", change(rows(*oscillator(COUNT, LENGTH))))
    with pytest.raises(ValueError, match=re.escape(sentence)) as refusal:
        read_recording(str(path))
    assert str(path) in str(refusal.value) and "\n" not in str(refusal.value)


STATES, CONTROLS = oscillator(COUNT, LENGTH)
BAD_NPZ = {
    "no controls": ({"states": STATES}, "has no array 'controls'; it holds states"),
    "an unknown array": (
        {"states": STATES, "controls": CONTROLS, "rewards": CONTROLS},
        "holds an array 'rewards'; the known ones are states",
    ),
    "objects": (
        {"states": np.array([STATES[0], STATES[1][:5]], dtype=object), "controls": CONTROLS},
        "array 'states' holds Python objects, which are never read",
    ),
    "texts": ({"states": STATES.astype(str), "controls": CONTROLS}, "numbers are needed; got <U"),
    "truths": ({"states": STATES > 0, "controls": CONTROLS}, "numbers are needed; got bool"),
    "infinity": (
        {"states": np.where(STATES[1, 2, 0] == STATES, np.inf, STATES), "controls": CONTROLS},
        "array 'states' at [1, 2, 0]: inf is not finite",
    ),
    "one control too many": (
        {"states": STATES, "controls": STATES[..., :1]},
        "states (N, L, p) go with controls (N, L - 1, q)",
    ),
    "a flat array": ({"states": STATES.ravel(), "controls": CONTROLS}, "the shape must be"),
    "names that do not fit": (
        {"states": STATES, "controls": CONTROLS, "state_names": np.array(["x"])},
        "array 'state_names': 2 texts are needed",
    ),
    "a negative time step": (
        {"states": STATES, "controls": CONTROLS, "time_step": -0.1},
        "array 'time_step': one positive number is needed",
    ),
    "numbers of trajectories that come back": (
        {
            "states": STATES[0],
            "controls": STATES[0, :, :1],
            "trajectory": np.arange(LENGTH) // 2 % 3,
        },
        "array 'trajectory': a number comes back",
    ),
}


@pytest.mark.parametrize("name", BAD_NPZ)
def test_a_bad_npz_file_is_refused_with_its_array_and_place(name, tmp_path):
    arrays, sentence = BAD_NPZ[name]
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=re.escape(sentence)) as refusal:
        read_recording(str(path))
    assert str(path) in str(refusal.value) and "\n" not in str(refusal.value)


class _Opens:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_nothing_is_ever_unpickled(tmp_path):
    path, trap = tmp_path / "trap.npz", tmp_path / "sprung"
    objects = np.empty(1, dtype=object)
    objects[0] = _Opens(trap)
    np.savez(path, states=objects, controls=CONTROLS)
    with pytest.raises(ValueError, match="Python objects, which are never read"):
        read_recording(str(path))
    bare = tmp_path / "bare.npz"
    bare.write_bytes(pickle.dumps(_Opens(trap)))
    with pytest.raises(ValueError, match="no NPZ file, or a damaged one"):
        read_recording(str(bare))
    assert not trap.exists()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("cut.npz", b"PK\x03\x04 and no more", "no NPZ file, or a damaged one"),
        ("empty.csv", b"", "is empty"),
        ("latin.csv", "trajectory,time,state:x [\xb0]\n".encode("latin-1"), "not text in UTF-8"),
        ("runs.mat", b"MATLAB", "trajectories are read from .npz and .csv files"),
    ],
)
def test_a_file_of_another_kind_is_refused(name, content, sentence, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read_recording(str(path))


def test_a_file_too_large_for_the_memory_is_refused_with_its_size(csv_file, npz_file, monkeypatch):
    monkeypatch.setattr(recording_module, "SHARE_OF_MEMORY", 1e-9)
    recording_module_cache_clear()
    for path in (csv_file, npz_file):
        with pytest.raises(ValueError, match=r"takes about \d+\.\d GiB, more than 0% of this"):
            read_recording(str(path))


def recording_module_cache_clear() -> None:
    """Forgets the files that were read, so that they are read again."""
    from clusterdyn import recordings

    recordings._read.cache_clear()


def test_the_command_refuses_a_bad_file_and_leaves_the_report_alone(csv_file, tmp_path, capsys):
    out = tmp_path / "reports"
    out.mkdir()
    missing = ["--set", f"data={tmp_path / 'none.csv'}"]
    for given, words in (
        (missing, "cannot read the trajectories in"),
        (["--set", f"data={csv_file}"], "ask for fewer, such as"),
    ):
        code = main(["report", "--profile", "quick", *given, "--output", str(out)])
        assert code == 2 and words in capsys.readouterr().err
        assert not list(out.iterdir())
