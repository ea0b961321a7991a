"""The command line: what it refuses, in one sentence and before any work, and what it leaves."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import jsonschema
import nbformat
import pytest
from inspection import contents

from clusterdyn.__main__ import main, parser
from clusterdyn.bench import side_by_side
from clusterdyn.execution import LocalProcesses, WorkersLost, available_cores
from clusterdyn.installation import DifferentInstallation
from clusterdyn.report import build as building

REPO = Path(__file__).resolve().parents[1]
SMALL = {
    "nodes": 4,
    "clusters": 2,
    "horizon": 2,
    "channels": 2,
    "train_trajectories": 20,
    "validation_trajectories": 5,
    "test_trajectories": 5,
    "batch_size": 10,
    "epochs": 1,
    "learning_rates": [0.01],
    "seeds": [0, 1],
}


def small(**changes) -> list[str]:
    """The small settings as the command line takes them."""
    settings = {**SMALL, **changes}
    return [f"{n}={json.dumps(v).strip('[]')}".replace(" ", "") for n, v in settings.items()]


def command(*arguments: str, cwd: Path = REPO) -> subprocess.CompletedProcess:
    """Runs ``python -m clusterdyn`` as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "clusterdyn", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )


def assert_one_sentence(error: str, words: str = "") -> None:
    """Asserts that standard error holds one line with the given words, and no traceback."""
    assert error.startswith("clusterdyn: error: ")
    assert error.count("\n") == 1 and error.endswith("\n")
    assert words in error


@pytest.fixture
def earlier(tmp_path) -> Path:
    """An earlier report."""
    report = tmp_path / "reports"
    (report / "figures").mkdir(parents=True)
    for name in ("index.html", "results.json", "figures/pairs.svg"):
        (report / name).write_text(f"earlier {name}")
    return report


# Refusals, before any work.

REFUSALS = {
    "an unknown profile": (
        ["--profile", "fast"],
        "profile must be one of quick, reference, full; got 'fast'",
    ),
    "an unknown setting": (
        ["--set", "relaxtion=0.4"],
        "unknown setting 'relaxtion'; the settings are data, graph, nodes, channels, clusters",
    ),
    "too many nodes": (["--set", "nodes=65537"], "nodes must be at most 65536; got 65537"),
    "a wrong type": (["--set", "epochs=many"], "epochs must be a whole number; got 'many'"),
    "a fraction of a sweep": (["--set", "sweeps=2.5"], "sweeps must be a whole number; got 2.5"),
    "a relaxation above 1": (
        ["--set", "relaxation=1.5"],
        "relaxation must lie in (0, 1]; got 1.5",
    ),
    "a partition that does not fit": (
        ["--set", "clusters=5"],
        "5 clusters do not fit 16 nodes: clusters must divide nodes",
    ),
    "a colouring of another size": (
        ["--set", "partition=coloring"],
        "has 2 clusters; got clusters=4: set clusters=2",
    ),
    "repeated seeds": (
        ["--set", "seeds=0,1,0"],
        "seeds must not repeat: [0] stand more than once in [0, 1, 0]",
    ),
    "no equals sign": (["--set", "epochs"], "a setting is written NAME=VALUE; got 'epochs'"),
    "no name": (["--set", "=3"], "a setting is written NAME=VALUE; got '=3'"),
    "a setting given twice": (
        ["--set", "epochs=1", "--set", "epochs=2"],
        "setting 'epochs' is given twice",
    ),
    "one arm against itself": (
        ["--set", "schedule=full"],
        "baseline and schedule are the two arms and must differ; both are 'full'",
    ),
    "a setting of a protocol that the profile lacks": (
        ["--set", "test_seeds=1,2"],
        "test_seeds belong to the strict protocol, which profile 'reference' does not run",
    ),
    "a newline in a name": (["--set", "epo\nchs=1"], r"unknown setting 'epo\nchs'"),
}


@pytest.mark.parametrize("case", REFUSALS)
@pytest.mark.parametrize("name", ["report", "bench"])
def test_what_cannot_be_run_is_refused_with_what_is_allowed(
    earlier, tmp_path, capsys, name, case, monkeypatch
):
    arguments, words = REFUSALS[case]
    before = contents(tmp_path)
    monkeypatch.chdir(tmp_path)  # the default places of output and artifacts are not the checkout
    places = ["--output", str(earlier)] if name == "report" else ["--json", str(tmp_path / "b")]
    assert main([name, *arguments, *places]) == 2
    said = capsys.readouterr()
    assert_one_sentence(said.err, words)
    assert said.out == ""
    assert contents(tmp_path) == before


def test_a_refusal_is_the_same_from_the_terminal(earlier):
    before = contents(earlier)
    run = command("report", "--profile", "fast", "--output", str(earlier))
    assert run.returncode == 2 and run.stdout == ""
    assert_one_sentence(run.stderr, "profile must be one of quick, reference, full; got 'fast'")
    assert contents(earlier) == before


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("file", "is a file: give a directory for the report"),
        ("file/report", "is a file, so that"),
        ("file/deeper/report", "is a file, so that"),
        ("foreign", "is not empty and holds no report (index.html and results.json): give a"),
        ("reports", "holds notes.txt, which is not a part of a report and would be lost"),
    ],
)
def test_an_output_that_would_lose_something_or_cannot_be_written_is_refused(
    earlier, tmp_path, capsys, place, words
):
    (tmp_path / "file").write_text("a file")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").write_text("years of work")
    (earlier / "notes.txt").write_text("notes")
    before = contents(tmp_path)
    output, artifacts = tmp_path / place, tmp_path / "artifacts"
    arguments = ["--profile", "quick", "--output", str(output), "--artifacts", str(artifacts)]
    assert main(["report", *arguments]) == 2
    assert_one_sentence(capsys.readouterr().err, words)
    assert contents(tmp_path) == before and not artifacts.exists()  # no work was done


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("file", "is a file: give a directory for the artifacts"),
        ("file/artifacts", "is a file, so that"),
        ("/proc/artifacts", "cannot write in /proc"),
    ],
)
def test_artifacts_that_cannot_be_written_are_refused_before_any_work(
    earlier, tmp_path, capsys, place, words
):
    (tmp_path / "file").write_text("a file")
    before = contents(tmp_path)
    places = ["--output", str(earlier), "--artifacts", str(tmp_path / place)]
    assert main(["report", "--profile", "quick", *places]) == 2
    said = capsys.readouterr()
    assert_one_sentence(said.err, words)
    assert said.out == "" and contents(tmp_path) == before


@pytest.mark.parametrize("arguments", [[], ["publish"], ["report", "--set"], ["bench", "--fast"]])
def test_a_command_line_that_is_not_understood_exits_with_2_and_the_usage(capsys, arguments):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("usage: python -m clusterdyn")
    assert "error: " in error


def test_no_command_at_all_exits_with_2_from_the_terminal():
    run = command()
    assert run.returncode == 2
    assert (
        "usage: python -m clusterdyn" in run.stderr
        and "{report,bench,wall-clock,compare,gate}" in run.stderr
    )


def test_settings_add_up_over_several_options():
    options = parser().parse_args(["report", "--set", "a=1", "b=2", "--set", "c=3"])
    assert options.settings == ["a=1", "b=2", "c=3"]
    assert parser().parse_args(["report"]).settings == []


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ([], "reports"),
        (["--profile", "full"], "reports"),
        (["--profile", "quick"], "reports-quick"),
        (["--profile", "quick", "--output", "reports"], "reports"),
        (["--output", "elsewhere"], "elsewhere"),
    ],
)
def test_a_quick_report_goes_beside_the_one_to_be_read_unless_told_otherwise(
    monkeypatch, arguments, place
):
    asked = {}

    def build(profile, settings, output, *, artifacts, executor, progress):
        asked.update(profile=profile, output=output, artifacts=artifacts, executor=executor)

    monkeypatch.setattr(building, "build_report", build)
    assert main(["report", *arguments]) == 0
    assert (asked["output"], asked["artifacts"]) == (Path(place), None)
    assert asked["executor"] is None  # every stage chooses for itself
    assert asked["profile"] == (arguments[1] if "--profile" in arguments else "reference")


# Where models are trained.


def test_workers_are_as_many_processes_as_were_asked_for(monkeypatch):
    def build(*arguments, executor, **options):
        assert isinstance(executor, LocalProcesses) and executor.workers == 3

    monkeypatch.setattr(building, "build_report", build)
    assert main(["report", "--workers", "3"]) == 0


@pytest.mark.parametrize("workers", ["0", "-1", "many", "1.5", "", "٣x"])
def test_a_number_of_workers_that_is_none_is_refused_in_a_sentence(earlier, capsys, workers):
    before = contents(earlier)
    assert main(["report", f"--workers={workers}", "--output", str(earlier)]) == 2
    words = f"workers must be a whole number of at least 1; got {workers!r}"
    assert_one_sentence(capsys.readouterr().err, words)
    assert contents(earlier) == before


def test_workers_and_a_scheduler_exclude_each_other(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["report", "--workers", "2", "--scheduler", "tcp://127.0.0.1:8786"])
    assert exit_.value.code == 2
    assert "--scheduler: not allowed with argument --workers" in capsys.readouterr().err


def test_a_scheduler_that_is_none_is_refused_in_a_sentence(earlier, capsys):
    pytest.importorskip("distributed", reason="needs the extra 'distributed'")
    before = contents(earlier)
    assert main(["report", "--scheduler", "nonsense", "--output", str(earlier)]) == 2
    assert_one_sentence(capsys.readouterr().err, "no Dask scheduler answers at 'nonsense' (missing")
    assert contents(earlier) == before


def test_without_dask_a_scheduler_is_refused_with_what_to_install(earlier, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    before = contents(earlier)
    assert main(["report", "--scheduler", "tcp://127.0.0.1:1", "--output", str(earlier)]) == 2
    words = "which is not installed: pip install -e '.[distributed]'"
    assert_one_sentence(capsys.readouterr().err, words)
    assert contents(earlier) == before


@pytest.mark.parametrize(
    "error", [WorkersLost("3 workers died"), DifferentInstallation("a worker has PyTorch 1.0")]
)
def test_workers_that_fail_are_told_in_a_sentence(earlier, capsys, monkeypatch, error):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr(building, "build_report", fail)
    assert main(["report", "--output", str(earlier)]) == 1
    assert_one_sentence(capsys.readouterr().err, f"error: {error}\n")


@pytest.mark.parametrize(
    ("variables", "arguments"),
    [
        ([], ["--profile", "full"]),
        (["PROFILE=reference"], ["--profile", "reference"]),
        (["PROFILE=quick"], ["--profile", "quick"]),
        (["PROFILE=quick", "OUTPUT=reports"], ["--profile", "quick", "--output", "reports"]),
    ],
)
def test_make_passes_profile_and_output_on_as_they_were_given(variables, arguments):
    command = ["make", "--dry-run", "--no-print-directory", "-o", ".venv/installed"]
    command += ["report", *variables]
    # Without what an outer make, such as `make test`, hands down.
    outer = ("PROFILE", "OUTPUT", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES")
    environment = {k: v for k, v in os.environ.items() if k not in outer}
    run = subprocess.run(
        command, cwd=REPO, env=environment, capture_output=True, text=True, timeout=60
    )
    (line,) = run.stdout.splitlines()
    assert shlex.split(line)[1:] == ["-m", "clusterdyn", "report", *arguments]


def test_a_quick_report_and_artifacts_are_not_committed():
    ignored = (REPO / ".gitignore").read_text("utf-8").splitlines()
    assert {"artifacts/", "reports-*/"} <= set(ignored) and "reports/" not in ignored


# Failures while the work is done.


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory) -> Path:
    """Artifacts of the small study, shared by the runs below."""
    return tmp_path_factory.mktemp("artifacts")


KILLED = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("1 / 0", "01_broken failed in code cell 2 of 3 (`1 / 0`): ZeroDivisionError"),
        (KILLED, "01_broken lost its kernel in code cell 2 of 3 (`import os, signal`)"),
    ],
)
def test_a_notebook_that_breaks_is_told_in_a_sentence_and_the_earlier_report_stays(
    earlier, artifacts, tmp_path, capsys, monkeypatch, write_notebook, cell, words
):
    source = write_notebook(cell, name="01_broken")
    monkeypatch.setattr(building, "notebook_sources", lambda **options: [source])
    before = contents(earlier)
    places = ["--output", str(earlier), "--artifacts", str(artifacts)]
    assert main(["report", "--profile", "quick", *places, "--set", *small()]) == 1
    said = capsys.readouterr()
    assert_one_sentence(said.err, words)
    assert contents(earlier) == before
    # Nothing is left beside the report, and the broken notebook is where the sentence says.
    assert [path.name for path in tmp_path.iterdir() if path != source] == ["reports"]
    kept = re.search(r"is kept at (.+\.ipynb)", said.err)[1]
    assert nbformat.read(kept, as_version=4).cells


def test_an_interrupted_report_says_that_nothing_was_published(earlier, capsys, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "build_report", interrupt)
    assert main(["report", "--output", str(earlier)]) == 130
    assert_one_sentence(capsys.readouterr().err, "nothing was published")


@pytest.mark.parametrize("library", ["_multiarray_umath", "libtorch_cpu"])
def test_ctrl_c_while_the_program_still_starts_is_one_sentence_and_130(earlier, library):
    before = contents(earlier)
    process = subprocess.Popen(
        [sys.executable, "-m", "clusterdyn", "report", "--output", str(earlier)],
        cwd=REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A job in the background is started with the signal ignored, and hands that down.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    maps, deadline = Path(f"/proc/{process.pid}/maps"), time.monotonic() + 60
    while library not in maps.read_text() and time.monotonic() < deadline:
        time.sleep(0.002)  # until numpy, or PyTorch, is just being imported
    process.send_signal(signal.SIGINT)
    said, error = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    assert error == "clusterdyn: error: stopped; nothing was published\n"
    assert contents(earlier) == before


def test_settings_that_do_not_fit_in_memory_are_told_in_a_sentence(earlier, capsys):
    before = contents(earlier)
    # A matrix of that many rows and columns exceeds what can be addressed at all.
    assert main(["report", "--output", str(earlier), "--set", "channels=10000000"]) == 1
    assert_one_sentence(capsys.readouterr().err, "more memory than there is (Unable to allocate")
    assert contents(earlier) == before


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "these settings need more memory than there is\n"),
        # As PyTorch says it, over two lines.
        (RuntimeError("CPUAllocator:\ncan't allocate memory"), "(CPUAllocator: can't allocate mem"),
    ],
)
def test_memory_that_runs_out_at_work_is_told_in_a_sentence(capsys, monkeypatch, error, words):
    def run_out(*arguments, **options):
        raise error

    monkeypatch.setattr(building, "build_report", run_out)
    assert main(["report"]) == 1
    assert_one_sentence(capsys.readouterr().err, words)


def test_results_that_do_not_fit_their_schema_are_told_in_one_line(capsys, monkeypatch):
    def build(*arguments, **options):
        schema = {"properties": {"scores": {"type": "object"}}}
        jsonschema.validate({"scores": list(range(10000))}, schema)

    monkeypatch.setattr(building, "build_report", build)
    assert main(["report"]) == 1
    error = capsys.readouterr().err
    assert_one_sentence(error, "the results do not fit their schema at $.scores: [0, 1, 2, 3, ")
    assert len(error) < 400


def test_a_fault_of_the_program_itself_is_no_sentence(monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("a fault")

    monkeypatch.setattr(building, "build_report", fail)
    with pytest.raises(RuntimeError, match="a fault"):
        main(["report"])


def test_models_that_saturate_are_told_in_a_sentence(earlier, tmp_path, capsys):
    before = contents(earlier)
    places = ["--output", str(earlier), "--artifacts", str(tmp_path / "artifacts")]
    settings = small(learning_rates=[1e6])
    assert main(["report", "--profile", "quick", *places, "--set", *settings]) == 1
    words = "the mechanism check finds no slope for nodes in turn, start: sequential and"
    assert_one_sentence(capsys.readouterr().err, words)
    assert contents(earlier) == before


def test_an_arm_that_diverges_at_every_rate_is_told_in_a_sentence(earlier, tmp_path, capsys):
    before = contents(earlier)
    places = ["--output", str(earlier), "--artifacts", str(tmp_path / "artifacts")]
    settings = small(learning_rates=[1e30])
    assert main(["report", "--profile", "quick", *places, "--set", *settings]) == 1
    assert_one_sentence(capsys.readouterr().err, "add smaller learning rates")
    assert contents(earlier) == before


# papermill, as the README has it.


def test_papermill_runs_a_notebook_with_settings_to_its_end(tmp_path):
    pair, executed = tmp_path / "X.ipynb", tmp_path / "out.ipynb"
    before = sorted((REPO / "notebooks").iterdir())
    settings = json.dumps({"settings": SMALL})  # JSON is YAML
    for module, *arguments in (
        ("jupytext", "--to", "ipynb", "notebooks/01_data.py", "-o", str(pair)),
        ("papermill", str(pair), str(executed), "-p", "profile", "quick", "-y", settings),
    ):
        run = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=REPO,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert run.returncode == 0, run.stderr
    notebook = nbformat.read(executed, as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    finished = outputs[-1]
    assert finished["data"]["text/plain"] == "01_data: finished, 3 figures"
    assert finished["metadata"]["clusterdyn"]["finished"] == "01_data"
    assert not [output for output in outputs if output.get("name") == "stderr"]
    # The settings have arrived.
    texts = [output["data"].get("text/markdown", "") for output in outputs if "data" in output]
    assert any("Each seed brings 20 training, 5 validation and 5 test" in text for text in texts)
    assert sorted((REPO / "notebooks").iterdir()) == before


# The benchmark.

BENCH_FIELDS = {
    "models", "steps", "cores", "repeats", "plain_models", "plain_s", "plain_one_thread_s",
    "jax_s", "jax_compile_s", "kernel_s", "product_s", "product_round_robin_s",
    "product_histogram_s", "long_plain_s", "long_jax_s", "long_jax_compile_s", "long_product_s",
    "product_bytes", "plain_bytes", "jax_bytes", "loss_gap", "jax_note", "arm", "longer", "sweeps",
    "targets",
}  # fmt: skip
SMALL_BENCH = {"sweep_populations": [1], "sweep_cluster_nodes": 2, "scaling_seconds": 0.001}


def bench(tmp_path: Path, *options: str, **changes) -> dict:
    """What a small bench in one thread writes."""
    file = tmp_path / "bench.json"
    arguments = ["--profile", "quick", "--json", str(file), "--threads", "1", *options]
    assert main(["bench", *arguments, "--set", *small(**SMALL_BENCH, **changes)]) == 0

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    return json.loads(file.read_text("utf-8"), parse_constant=refuse)


def test_bench_writes_its_documented_fields_and_ratios_of_its_own_times(tmp_path, capsys):
    times = bench(tmp_path, "--repeats", "1", dtype="float64")
    assert set(times) == BENCH_FIELDS
    # Two seeds, one rate, one epoch of 20 trajectories in batches of 10.
    assert (times["models"], times["steps"], times["plain_models"]) == (2, 2, 2)
    assert (times["cores"], times["repeats"]) == (1, 1)
    targets = {target["name"]: target for target in times["targets"]}
    for name, above, below in (
        ("plain loop / full", "plain_s", "product_s"),
        ("full / bare kernels", "product_s", "kernel_s"),
        ("round_robin / full", "product_round_robin_s", "product_s"),
        ("plain loop / histogram", "plain_s", "product_histogram_s"),
    ):
        found = targets[name]
        assert found["ratio"] == found["low"] == found["high"] == times[above] / times[below]
    assert times["loss_gap"] < 1e-9  # the sides train the same models, in double precision
    said = capsys.readouterr().out
    for name, target in targets.items():
        (line,) = (line for line in said.splitlines() if line.startswith(f"{name}  "))
        assert line.endswith(target["outcome"])


def test_bench_tells_a_line_a_repeat_and_medians_over_them(tmp_path, capsys):
    times = bench(tmp_path, "--repeats", "2")
    said = capsys.readouterr().out.splitlines()
    for setting in ("T = 2, B = 10", "T = 6, B = 12"):
        lines = [line for line in said if line.startswith(f"bench: {setting}, repeat ")]
        assert [line.split(": ")[1].split(", ")[2] for line in lines] == [
            "repeat 1 of 2",
            "repeat 2 of 2",
        ]
    assert times["plain_s"] == pytest.approx(sum(times["arm"]["plain"]) / 2)


def test_bench_scales_the_time_of_fewer_plain_models_and_says_so(tmp_path, capsys):
    times = bench(tmp_path, "--repeats", "1", "--plain-models", "1")
    assert (times["plain_models"], times["models"]) == (1, 2)
    said = capsys.readouterr().out
    assert "trained 1 of the 2 models and its times are scaled to all" in said
    (line,) = (line for line in said.splitlines() if "T = 2, B = 10, repeat" in line)
    trained = float(re.search(r"plain ([\d.]+) s", line)[1])
    assert times["plain_s"] == pytest.approx(2 * trained, abs=0.0101)


@pytest.mark.parametrize("installed", [False, True])
def test_bench_without_jax_leaves_its_fields_empty_and_says_why(
    tmp_path, capsys, monkeypatch, installed
):
    monkeypatch.setattr(side_by_side, "jax_version", lambda: "0.1" if installed else None)
    peers = "plain" if installed else "plain+jax"
    times = bench(tmp_path, "--repeats", "1", cost_peers=peers)
    for name in ("jax_s", "jax_compile_s", "jax_bytes", "long_jax_s", "long_jax_compile_s"):
        assert times[name] is None
    outcomes = {t["name"]: t["outcome"] for t in times["targets"]}
    assert outcomes["JAX / full"] == outcomes["JAX / full, T = 6, B = 12"] == "not measured"
    why = "as the setting cost_peers=plain asks for" if installed else 'pip install -e ".[bench]"'
    assert why in times["jax_note"] and why in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--repeats", "--threads", "--plain-models"])
def test_bench_refuses_none_of_something_in_a_sentence(capsys, option):
    assert main(["bench", "--profile", "quick", option, "0"]) == 2
    said = capsys.readouterr()
    assert_one_sentence(said.err, f"{option} must be at least 1; got 0")
    assert said.out == ""


def test_bench_takes_settings_of_the_cost_with_every_profile(tmp_path, capsys, monkeypatch):
    asked = []

    def run(config, cost, *, cores, progress):
        asked.append((config, cost, cores))
        raise ValueError("enough")

    monkeypatch.setattr(side_by_side, "run_bench", run)
    assert main(["bench", "--set", "long_horizon=9", "--repeats", "5"]) == 1
    ((config, cost, cores),) = asked
    assert (cost.long_horizon, cost.cost_repeats, cost.plain_models) == (9, 5, 24)
    assert config.epochs == 12 and cores == available_cores()


def test_a_measurement_that_is_killed_is_told_in_a_sentence(tmp_path, capsys, monkeypatch):
    def run(*arguments, **options):
        raise ChildProcessError("the process that measures jax has ended early")

    monkeypatch.setattr(side_by_side, "run_bench", run)
    file = tmp_path / "bench.json"
    assert main(["bench", "--json", str(file)]) == 1
    assert_one_sentence(capsys.readouterr().err, "the process that measures jax has ended early")
    assert not file.exists()


def test_bench_writes_json_even_if_models_diverge(tmp_path):
    assert bench(tmp_path, "--repeats", "1", learning_rates=[1e30])["loss_gap"] is None


def test_bench_refuses_a_file_that_it_cannot_write_before_it_times_anything(tmp_path, capsys):
    (tmp_path / "file").write_text("a file")
    options = ["--profile", "quick", "--json", str(tmp_path / "file" / "bench.json")]
    assert main(["bench", *options, "--repeats", "1", "--set", *small()]) == 2
    said = capsys.readouterr()
    assert_one_sentence(said.err, "is a file")
    assert said.out == ""
