"""A real Dask scheduler and workers: the same bits, and a sentence for each fault."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from populations import Log, assert_same_bits, small_runs

from clusterdyn import cluster
from clusterdyn.cluster import SchedulerError, dask_executor
from clusterdyn.execution import WorkersLost, train_all
from clusterdyn.installation import DifferentInstallation

distributed = pytest.importorskip(
    "distributed", reason="needs the extra 'distributed' (pip install -e '.[distributed]')"
)

REPO = Path(__file__).resolve().parents[1]


def _address(file: Path) -> str | None:
    """The address in a scheduler's file; None as long as it is not there or not yet written."""
    try:
        return json.loads(file.read_text())["address"]
    except (FileNotFoundError, json.JSONDecodeError):
        return None


class LocalCluster:
    """A scheduler and workers as they are started by hand, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen] = []
        file = folder / "scheduler.json"
        self.scheduler = self._start("dask_scheduler", "--port", "0", "--scheduler-file", str(file))
        self.address = wait_for(lambda: _address(file))

    def _start(self, command: str, *arguments: str, source: Path = REPO) -> subprocess.Popen:
        # Other ports than the usual ones, which somebody may be using.
        places = ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{command}", *arguments, *places],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(source)},
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def start_workers(self, number: int, source: Path = REPO) -> list[subprocess.Popen]:
        """Workers of one thread, of the package that lies in a directory."""
        # Without a nanny a worker that is killed stays dead.
        options = ["--nthreads", "1", "--no-nanny", "--local-directory", str(self.folder)]
        return [
            self._start("dask_worker", self.address, *options, source=source) for _ in range(number)
        ]

    def stop(self) -> None:
        """Ends what was started, workers first."""
        for process in reversed(self.processes):
            process.kill()
            process.wait()


def wait_for(ready: Callable[[], object], seconds: float = 60) -> object:
    """What is waited for, or an error."""
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)
    return found


@pytest.fixture
def local_cluster(tmp_path) -> Iterator[LocalCluster]:
    """A scheduler without workers."""
    (tmp_path / "dask").mkdir()
    local = LocalCluster(tmp_path / "dask")
    yield local
    local.stop()


def one_line(error: pytest.ExceptionInfo) -> str:
    """A refusal's message, which is a sentence."""
    message = str(error.value)
    assert "\n" not in message
    return message


def test_a_worker_killed_in_the_middle_changes_no_bit(local_cluster, tmp_path):
    runs = small_runs(epochs=12)
    workers = local_cluster.start_workers(2)
    said: list[str] = []

    def kill_one() -> None:
        workers[0].send_signal(signal.SIGKILL)

    store = Log(tmp_path / "cluster", at_first=kill_one)
    with dask_executor(local_cluster.address, said.append) as executor:
        # Both are there before the work begins, so that both get some.
        wait_for(lambda: sum("2 workers" in line for line in said))
        populations = train_all(runs, store, executor=executor)
    assert workers[0].wait(30) == -signal.SIGKILL and workers[1].poll() is None
    alone = train_all(runs, Log(tmp_path / "alone"))
    for run in runs:
        assert_same_bits(populations[run], alone[run])
    (lost,) = (line for line in said if "is gone" in line)
    assert "will be done by others; 1 worker" in lost
    assert store.lines[0] == "runs: training 8 populations, 32 models"
    assert store.lines[-1].startswith("runs: 8 of 8 populations, ")
    assert store.kept == len(runs)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda package: append(package / "model.py", "# changed\n"), "runs another source of"),
        (lambda package: (package / "execution.py").write_text(""), "cannot read its task (Can't"),
    ],
    ids=["another source", "a source without the task"],
)
def test_a_worker_of_another_source_refuses_in_a_sentence(local_cluster, tmp_path, change, words):
    package = tmp_path / "source" / "clusterdyn"
    shutil.copytree(REPO / "clusterdyn", package, ignore=shutil.ignore_patterns("__pycache__"))
    change(package)
    local_cluster.start_workers(1, source=package.parent)
    store = Log(tmp_path / "store")
    with (
        pytest.raises(DifferentInstallation) as refusal,
        dask_executor(local_cluster.address, lambda line: None) as executor,
    ):
        train_all(small_runs(), store, executor=executor)
    assert words in one_line(refusal) and "same checkout" in one_line(refusal)
    assert store.kept == 0


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_scheduler_that_is_killed_is_told_in_a_sentence_and_what_arrived_is_kept(
    local_cluster, tmp_path
):
    local_cluster.start_workers(1)
    store = Log(tmp_path / "store", at_first=local_cluster.scheduler.kill)
    with (
        pytest.raises(WorkersLost) as lost,
        dask_executor(local_cluster.address, lambda line: None) as executor,
    ):
        train_all(small_runs(epochs=12), store, executor=executor)
    assert f"the scheduler at {local_cluster.address} is gone" in one_line(lost)
    assert 1 <= store.kept < 8


def test_a_task_that_dask_gives_up_is_told_in_a_sentence(local_cluster):
    said: list[str] = []
    with (
        pytest.raises(WorkersLost) as lost,
        dask_executor(local_cluster.address, said.append),
    ):
        raise distributed.KilledWorker("train", None, 3)
    assert one_line(lost).startswith(f"4 workers of {local_cluster.address} died over the same")
    assert said == [f"cluster: 0 workers at {local_cluster.address}; waiting for some"]


def test_errors_of_other_making_pass_through(local_cluster):
    for error in (ValueError("mine"), ImportError("mine", name="mine")):
        with (
            pytest.raises(type(error), match=r"^mine$"),
            dask_executor(local_cluster.address, lambda line: None),
        ):
            raise error


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a program that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("tcp://127.0.0.1:1", "no Dask scheduler answers at 'tcp://127.0.0.1:1'; give the address"),
        ("silent", "no Dask scheduler answers at '127.0.0.1:"),
        ("nonsense", "answers at 'nonsense' (missing port number in address 'nonsense'); give"),
        ("", "no Dask scheduler answers at ''"),
        ("http://127.0.0.1:8786", "(unknown address scheme 'http'"),
    ],
)
def test_an_address_without_a_scheduler_is_refused_in_a_sentence(
    address, words, silent, monkeypatch
):
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    with (
        pytest.raises(SchedulerError) as refusal,
        dask_executor(silent if address == "silent" else address),
    ):
        pytest.fail("there is no scheduler")
    assert words in one_line(refusal)


def test_a_task_travels_without_a_reference_to_this_package():
    opener = distributed.protocol.pickle.dumps(cluster._opener())
    script = "import pickle, sys; f = pickle.loads(sys.stdin.buffer.read()); f(b'junk')"
    bare = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.modules['clusterdyn'] = None; {script}"],
        input=opener,
        capture_output=True,
        timeout=60,
    )
    error = bare.stderr.decode().splitlines()[-1]
    assert error.startswith("ImportError: the worker on ") and "cannot read its task" in error
