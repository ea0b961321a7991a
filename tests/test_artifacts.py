"""Artifacts: what changes a key, what is reused, and what is never trusted."""

import dataclasses
import hashlib
import json
import math
import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from clusterdyn import artifacts
from clusterdyn.artifacts import ArtifactStore, Stage, imported_sources, source_hash

SOURCES = {
    "__init__.py": "",
    "model.py": "from toy.graph import ring\nimport numpy\n",
    "graph.py": "ring = 1\n",
    "training.py": "from toy import model\nfrom toy.streams import seed\n",
    "streams.py": "def seed():\n    import toy.deep.noise\n",
    "deep/__init__.py": "",
    "deep/noise.py": "noise = 0\n",
    "figures.py": "from toy.training import train\n",
    "unrelated.py": "from toy.graph import ring\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch) -> Iterator[Path]:
    """A small package in the place of this one; the folder that holds its modules."""
    folder = tmp_path / "source" / "toy"
    for name, text in SOURCES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(artifacts, "PACKAGE", folder)
    source_hash.cache_clear()
    yield folder
    source_hash.cache_clear()


@dataclass(frozen=True)
class Inner:
    count: int
    values: np.ndarray


@dataclass(frozen=True)
class Result:
    """One of everything that an artifact can hold."""

    name: str
    score: float
    good: bool
    values: np.ndarray
    flags: np.ndarray
    inner: Inner
    rows: tuple[Inner, ...]
    pair: tuple[int, float]
    maybe: float | None
    nothing: Inner | None
    table: dict[str, np.ndarray]


def result(score: float = 0.1, values: np.ndarray | None = None) -> Result:
    return Result(
        name="Σ of η²",
        score=score,
        good=True,
        values=np.array([[0.1, math.nan], [-math.inf, 1e-300]]) if values is None else values,
        flags=np.array([True, False]),
        inner=Inner(3, np.arange(4, dtype=np.int32)),
        rows=(Inner(1, np.zeros((0, 2))), Inner(2, np.float32([0.1]))),
        pair=(7, -0.0),
        maybe=math.inf,
        nothing=None,
        table={"first": np.array(2.5), "second": np.array(["a", "bc"])},
    )


def assert_same(first: Any, second: Any) -> None:
    """Equal in value, type and, for arrays, dtype and shape; NaN equals NaN."""
    assert type(first) is type(second)
    if dataclasses.is_dataclass(first):
        for field in dataclasses.fields(first):
            assert_same(getattr(first, field.name), getattr(second, field.name))
    elif isinstance(first, np.ndarray):
        assert (first.dtype, first.shape) == (second.dtype, second.shape)
        assert_array_equal(first, second)
    elif isinstance(first, tuple):
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    elif isinstance(first, dict):
        assert list(first) == list(second)
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, float):
        assert np.float64(first).tobytes() == np.float64(second).tobytes()
    else:
        assert first == second


class Bench:
    """A store that counts what is computed and keeps its lines."""

    def __init__(self, root: Path) -> None:
        self.lines: list[str] = []
        self.computed = 0
        self.root = root
        self.store = ArtifactStore(root, self.lines.append)

    def get(self, stage: Stage | None = None, value: Any = None) -> Any:
        value = result() if value is None else value

        def compute():
            self.computed += 1
            return value

        return self.store.load_or_compute(stage or STAGE, type(value), compute)

    @property
    def directory(self) -> Path:
        (directory,) = self.root.iterdir()
        return directory


STAGE = Stage("train-full", "clusterdyn.streams", {"epochs": 3, "rates": (0.1, 0.2)}, ("a", "b"))


@pytest.fixture
def bench(tmp_path) -> Bench:
    return Bench(tmp_path / "artifacts")


# Round trips.


def test_a_result_comes_back_as_it_was_stored(bench):
    computed, reused = bench.get(), bench.get()
    assert bench.computed == 1
    assert_same(computed, result())
    assert_same(reused, result())


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, -0.0, 0.1 + 0.2, 5e-324, 1e308])
def test_every_float_comes_back_to_the_bit(bench, score):
    bench.get(value=result(score))
    assert_same(bench.get(value=result(score)), result(score))
    assert bench.computed == 1


def test_numpy_scalars_come_back_as_plain_numbers(bench):
    scalars = {"score": np.float32(0.5), "good": np.bool_(False)}
    stored = dataclasses.replace(result(), **scalars, pair=(np.int64(2), np.float64(3)))
    bench.get(value=stored)
    expected = dataclasses.replace(result(), score=0.5, good=False, pair=(2, 3.0))
    assert_same(bench.get(value=stored), expected)


def test_an_artifact_is_three_plain_files(bench):
    bench.get()
    names = sorted(path.name for path in bench.directory.iterdir())
    assert names == ["data.npz", "manifest.json", "metrics.json"]
    manifest = json.loads((bench.directory / "manifest.json").read_text())
    assert manifest["key"] == STAGE.key
    assert bench.directory.name == f"train-full-{STAGE.key[:16]}"
    assert manifest["config"] == {"epochs": 3, "rates": [0.1, 0.2]}
    assert manifest["upstream"] == ["a", "b"]
    for name in ("data.npz", "metrics.json"):
        data = (bench.directory / name).read_bytes()
        assert manifest["sha256"][name] == hashlib.sha256(data).hexdigest()
    # Strict JSON: NaN and infinity are texts in it.
    json.loads((bench.directory / "metrics.json").read_text(), parse_constant=pytest.fail)


@pytest.mark.parametrize("value", [[1, 2], {1, 2}, object(), 1j])
def test_what_an_artifact_cannot_hold_is_refused_by_its_place(bench, value):
    sentence = f"an artifact cannot hold {type(value).__name__} at .inner.count"
    with pytest.raises(TypeError, match=sentence):
        bench.get(value=dataclasses.replace(result(), inner=Inner(value, np.zeros(1))))
    assert not bench.root.exists() or not list(bench.root.iterdir())


# Keys.


def key(**changes: Any) -> str:
    source_hash.cache_clear()  # a process reads its sources once; here they change
    stage = Stage("train", "toy.training", {"epochs": 3, "rates": (0.1, 0.2)}, ("up", "stream"))
    return dataclasses.replace(stage, **changes).key


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "train-full"},
        {"module": "toy.model"},
        {"config": {"epochs": 4, "rates": (0.1, 0.2)}},
        {"config": {"epochs": 3, "rates": (0.1, 0.20000000000000004)}},
        {"config": {"epochs": 3, "rates": (0.2, 0.1)}},
        {"config": {"epochs": 3, "rates": (0.1, 0.2), "more": None}},
        {"config": {"epoch": 3, "rates": (0.1, 0.2)}},
        {"config": {"epochs": "3", "rates": (0.1, 0.2)}},
        {"upstream": ("up",)},
        {"upstream": ("stream", "up")},
        {"upstream": ("up", "streams")},
    ],
    ids=repr,
)
def test_whatever_an_artifact_is_made_from_changes_its_key(package, changes):
    assert key(**changes) != key()


def test_a_new_schema_changes_the_key(package, monkeypatch):
    before = key()
    monkeypatch.setattr(artifacts, "SCHEMA_VERSION", artifacts.SCHEMA_VERSION + 1)
    assert key() != before


def test_the_key_does_not_depend_on_the_order_of_names_or_the_kind_of_list(package):
    assert key(config={"rates": [0.1, 0.2], "epochs": 3}) == key()

    @dataclass(frozen=True)
    class Config:
        rates: tuple[float, ...] = (0.1, 0.2)
        epochs: int = 3

    assert key(config=Config()) == key()
    assert len(key()) == 64


@pytest.mark.parametrize(
    "name", ["training.py", "model.py", "graph.py", "streams.py", "deep/noise.py"]
)
@pytest.mark.parametrize("change", ["\n# a comment", "\nring = 2\n"])
def test_a_changed_source_of_the_module_or_its_imports_changes_the_key(package, name, change):
    before = key()
    with (package / name).open("a") as source:
        source.write(change)
    assert key() != before


@pytest.mark.parametrize("name", ["unrelated.py", "figures.py", "new.py"])
def test_a_module_that_is_not_imported_leaves_the_key_alone(package, name):
    before = key()
    with (package / name).open("a") as source:
        source.write("\nchanged = True\n")
    assert key() == before


def test_a_renamed_import_changes_the_key(package):
    before = key()
    (package / "graph.py").rename(package / "graphs.py")
    (package / "model.py").write_text(SOURCES["model.py"].replace("toy.graph", "toy.graphs"))
    assert key() != before


def test_imports_are_followed_however_they_are_written(package):
    def names(module: str) -> list[str]:
        return [path.relative_to(package).as_posix() for path in imported_sources(module)]

    assert names("toy.graph") == ["graph.py"]
    assert names("toy.unrelated") == ["graph.py", "unrelated.py"]
    found = {"training.py", "model.py", "graph.py", "streams.py", "deep/noise.py"}
    assert found <= set(names("toy.training")) <= found | {"deep/__init__.py"}


def test_imports_in_a_circle_end(package):
    (package / "graph.py").write_text("from toy.model import cell\n")
    assert len(imported_sources("toy.model")) == 2


def test_the_source_hash_of_training_covers_what_trains_and_not_what_draws():
    names = [path.stem for path in imported_sources("clusterdyn.training")]
    for module in ("training", "adjoint", "sweeps", "adaptive", "model", "graph", "datasets"):
        assert module in names
    for module in ("pendulum", "streams"):
        assert module in names
    assert not {"figures", "findings", "artifacts", "protocol"} & set(names)
    assert len(source_hash("clusterdyn.training")) == 64


# Reuse.


def test_a_whole_artifact_is_reused_and_says_so(bench):
    bench.get()
    assert bench.lines == ["train-full: computing"]
    bench.get()
    assert bench.lines[1:] == [f"train-full: reused artifact {STAGE.key[:16]}"]
    assert bench.computed == 1


def test_another_config_is_computed_beside_the_first(bench):
    bench.get()
    bench.get(dataclasses.replace(STAGE, config={"epochs": 4}))
    bench.get()
    assert bench.computed == 2
    assert len(list(bench.root.iterdir())) == 2


def test_changed_source_is_computed_again(package, bench):
    stage = Stage("train", "toy.training", {})
    bench.get(stage)
    (package / "unrelated.py").write_text("changed = True\n")
    source_hash.cache_clear()
    bench.get(stage)
    assert bench.computed == 1
    (package / "graph.py").write_text("ring = 2\n")
    source_hash.cache_clear()
    bench.get(stage)
    assert bench.computed == 2


def test_a_failing_computation_leaves_nothing_behind(bench):
    def fail():
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        bench.store.load_or_compute(STAGE, Result, fail)
    assert not bench.root.exists() or not list(bench.root.iterdir())
    bench.get()
    assert bench.computed == 1


# Damage.


def truncate(directory: Path, name: str) -> None:
    data = (directory / name).read_bytes()
    (directory / name).write_bytes(data[: len(data) // 2])


def empty(directory: Path, name: str) -> None:
    (directory / name).write_bytes(b"")


def flip_a_bit(directory: Path, name: str) -> None:
    data = bytearray((directory / name).read_bytes())
    data[len(data) // 2] ^= 1
    (directory / name).write_bytes(bytes(data))


def remove(directory: Path, name: str) -> None:
    (directory / name).unlink()


def replace_by_a_folder(directory: Path, name: str) -> None:
    (directory / name).unlink()
    (directory / name).mkdir()


def assert_computed_again(bench: Bench, reason: str = "") -> None:
    """Asserts a recomputation with one warning, and a whole artifact after it."""
    before = bench.computed
    bench.lines.clear()
    assert_same(bench.get(), result())
    assert bench.computed == before + 1
    warning, computing = bench.lines
    assert warning.startswith(f"warning: artifact train-full-{STAGE.key[:16]} is damaged (")
    assert warning.endswith("); computing it again")
    assert reason in warning
    assert computing == "train-full: computing"
    bench.get()
    assert bench.computed == before + 1
    assert [path.name for path in bench.root.iterdir()] == [f"train-full-{STAGE.key[:16]}"]


@pytest.mark.parametrize("damage", [truncate, empty, remove, replace_by_a_folder])
@pytest.mark.parametrize("name", ["data.npz", "metrics.json", "manifest.json"])
def test_a_damaged_file_is_computed_again_with_a_warning(bench, damage, name):
    bench.get()
    damage(bench.directory, name)
    assert_computed_again(bench)


@pytest.mark.parametrize("name", ["data.npz", "metrics.json"])
def test_a_flipped_bit_is_noticed(bench, name):
    bench.get()
    flip_a_bit(bench.directory, name)
    assert_computed_again(bench, f"{name} does not match its hash")


def edit_manifest(directory: Path, **changes: Any) -> None:
    manifest = json.loads((directory / "manifest.json").read_text())
    (directory / "manifest.json").write_text(json.dumps({**manifest, **changes}))


def test_an_artifact_of_another_key_in_this_ones_place_is_computed_again(bench):
    other = dataclasses.replace(STAGE, config={"epochs": 4})
    bench.get(other, result(0.7))
    bench.directory.rename(bench.root / f"train-full-{STAGE.key[:16]}")
    assert_computed_again(bench, "its manifest names another key")


@pytest.mark.parametrize("text", ["[]", "3", "null", "{}", '{"key": 5}', "\udcff", "{" * 50])
def test_a_manifest_that_is_none_is_computed_again(bench, text):
    bench.get()
    path = bench.directory / "manifest.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert_computed_again(bench)


def test_an_artifact_of_another_kind_of_result_is_computed_again(bench):
    bench.get()
    metrics = json.loads((bench.directory / "metrics.json").read_text())
    del metrics["inner"]["count"]
    data = json.dumps(metrics).encode()
    (bench.directory / "metrics.json").write_bytes(data)
    manifest = json.loads((bench.directory / "manifest.json").read_text())
    manifest["sha256"]["metrics.json"] = hashlib.sha256(data).hexdigest()
    edit_manifest(bench.directory, sha256=manifest["sha256"])
    assert_computed_again(bench)


class Trap:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_no_pickle_is_read_even_if_its_hash_fits(bench, tmp_path):
    bench.get()
    sprung = tmp_path / "sprung"
    path = bench.directory / "data.npz"
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    arrays[".values"] = np.array([Trap(sprung)], dtype=object)
    np.savez(path, allow_pickle=True, **arrays)
    hashes = {
        name: hashlib.sha256((bench.directory / name).read_bytes()).hexdigest()
        for name in ("data.npz", "metrics.json")
    }
    edit_manifest(bench.directory, sha256=hashes)
    assert_computed_again(bench, "Object arrays cannot be loaded when allow_pickle=False")
    assert not sprung.exists()
    np.load(_trap_file(tmp_path, sprung), allow_pickle=True)["trap"]
    assert sprung.exists()  # the trap does work


def _trap_file(folder: Path, sprung: Path) -> Path:
    path = folder / "trap.npz"
    np.savez(path, allow_pickle=True, trap=np.array([Trap(sprung)], dtype=object))
    return path


def test_no_pickle_is_written(bench):
    with pytest.raises(ValueError, match="Object arrays cannot be saved when allow_pickle=False"):
        bench.get(value=result(values=np.array([{}], dtype=object)))
    assert not bench.root.exists() or not list(bench.root.iterdir())


# Writing.


def test_a_write_that_fails_raises_and_leaves_no_temporary_directory(bench, monkeypatch):
    bench.root.mkdir()
    write = Path.write_bytes

    def full_disk(path: Path, data: bytes) -> int:
        if path.name == "manifest.json":
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(OSError, match="No space left on device"):
        bench.get()
    assert list(bench.root.iterdir()) == []


ROUNDS = 25


def write_together(root: Path, barrier: Any) -> None:
    """One of several writers that all find nothing and then write one artifact at once."""
    for number in range(ROUNDS):
        stage = dataclasses.replace(STAGE, config={"number": number})

        def compute() -> Result:
            barrier.wait(timeout=60)
            return result()

        store = ArtifactStore(root / str(number), lambda line: None)
        barrier.wait(timeout=60)
        assert_same(store.load_or_compute(stage, Result, compute), result())


def assert_one_whole_artifact_each(root: Path) -> None:
    for number in range(ROUNDS):
        bench = Bench(root / str(number))
        assert_same(bench.get(dataclasses.replace(STAGE, config={"number": number})), result())
        assert bench.computed == 0
        assert bench.directory.name.startswith("train-full-")  # and nothing beside it


def test_eight_threads_that_write_one_artifact_leave_one_whole_artifact(tmp_path):
    barrier = threading.Barrier(8)

    def write(_: int) -> None:
        try:
            write_together(tmp_path, barrier)
        except BaseException:
            barrier.abort()  # nobody waits for a writer that has failed
            raise

    with ThreadPoolExecutor(8) as pool:
        writers = [pool.submit(write, number) for number in range(8)]
    failures = [failure for writer in writers if (failure := writer.exception())]
    for failure in sorted(failures, key=lambda f: isinstance(f, threading.BrokenBarrierError)):
        raise failure
    assert_one_whole_artifact_each(tmp_path)


def test_eight_processes_that_write_one_artifact_leave_one_whole_artifact(tmp_path):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(8)

    def write() -> None:
        try:
            write_together(tmp_path, barrier)
        except BaseException:
            barrier.abort()
            raise

    processes = [context.Process(target=write) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=60)
    assert [process.exitcode for process in processes] == [0] * 8
    assert_one_whole_artifact_each(tmp_path)
