"""Running a notebook: parameters are checked first, and only a finished notebook counts."""

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

from clusterdyn.report.execute import run_notebook
from clusterdyn.report.kernel import PinnedKernelManager
from clusterdyn.report.parameters import (
    ParameterError,
    SourceError,
    check_parameters,
    notebook_parameters,
)
from clusterdyn.report.publish import publish, staging_directory
from clusterdyn.report.verify import NotebookFailure, check_finished

MIXED = 'name = "a"\ncount = 3\nrate = 0.5\nflag: bool = True\nseeds = [0, 1]\nsettings = {}'


def run(source: Path, *, cell_timeout: int = 60, **parameters: object):
    lines: list[str] = []
    executed = run_notebook(
        source,
        parameters,
        workdir=source.parent / "work",
        failed_dir=source.parent / "failed",
        progress=lines.append,
        cell_timeout=cell_timeout,
    )
    return executed, lines


# Parameters and sources, checked before anything runs


def test_defaults_are_read_from_the_tagged_cell(write_notebook):
    assert notebook_parameters(write_notebook(parameters=MIXED)) == {
        "name": "a",
        "count": 3,
        "rate": 0.5,
        "flag": True,
        "seeds": [0, 1],
        "settings": {},
    }


def test_the_parameters_cell_is_never_executed(write_notebook, tmp_path):
    trap = tmp_path / "trap"
    source = write_notebook(parameters=f"x = open({str(trap)!r}, 'w')")
    with pytest.raises(SourceError, match="may only assign literals to names"):
        notebook_parameters(source)
    assert not trap.exists()


def test_values_of_the_defaults_type_pass_and_an_integer_will_do_for_a_float(write_notebook):
    given = {"name": "b", "count": 0, "rate": 2, "flag": False, "seeds": [], "settings": {"a": [1]}}
    checked = check_parameters(write_notebook(parameters=MIXED), given)
    assert checked == given
    assert isinstance(checked["rate"], float)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"nme": "b"}, "case has no parameter 'nme'; it has 'name', 'count', 'rate', 'flag'"),
        ({"name": 1}, "case: name must be of type str (its default is 'a'); got 1 of type int"),
        ({"count": 1.0}, "case: count must be of type int (its default is 3); got 1.0"),
        ({"count": True}, "case: count must be of type int (its default is 3); got True"),
        ({"rate": False}, "case: rate must be of type float"),
        ({"flag": 1}, "case: flag must be of type bool"),
        # What papermill itself makes of `-y 'rate: 1e-3'` and `-p rate 12e5678`.
        ({"rate": yaml.safe_load("1e-3")}, "case: rate must be of type float (its default is 0.5)"),
        ({"rate": float("12e5678")}, "case: rate must be a finite number; got inf"),
        ({"rate": float("nan")}, "case: rate must be a finite number; got nan"),
        # papermill would pass tuples on as strings, and keys that are numbers, too.
        ({"seeds": (0, 1)}, "case: seeds must be of type list (its default is [0, 1]); got (0, 1)"),
        ({"settings": {"seeds": (0, 1)}}, "case: settings['seeds'] must be a string, a number"),
        ({"settings": {"eta": [0.5, float("inf")]}}, "case: settings['eta'][1] must be a finite"),
        ({"settings": {1: 2}}, "case: settings must have strings as keys; got the key 1"),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused_before_anything_runs(
    write_notebook, tmp_path, given, sentence
):
    source = write_notebook(parameters=MIXED)
    with pytest.raises(ParameterError, match=re.escape(sentence)):
        run(source, **{str(k): v for k, v in given.items()})
    assert not (tmp_path / "work").exists() and not (tmp_path / "failed").exists()


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"parameters": None}, "case.py has no cells tagged `parameters`; it needs one"),
        ({"header": ""}, "case.py names no python3 kernel in its header"),
        ({"title": "Prose without a heading"}, "case.py has no title"),
    ],
)
def test_a_source_that_cannot_be_run_is_refused_before_anything_runs(
    write_notebook, tmp_path, parts, sentence
):
    with pytest.raises(SourceError, match=re.escape(sentence)):
        run(write_notebook(**parts))
    assert not (tmp_path / "work").exists()


def test_only_a_script_is_a_source(tmp_path):
    with pytest.raises(SourceError, match=r"give a py:percent script"):
        run(tmp_path / "missing.py")
    (tmp_path / "pair.ipynb").write_text("{}")
    with pytest.raises(SourceError, match=r"give a py:percent script"):
        run(tmp_path / "pair.ipynb")


# A notebook that runs to its end


def test_a_stale_pair_beside_the_source_is_ignored_and_left_alone(sample):
    assert sample.source.with_suffix(".ipynb").read_text() == "a stale pair"
    assert sample.executed.title == "Does it pay?"
    assert [path.name for path in sample.source.parent.glob("*.ipynb")] == ["02_sample.ipynb"]


def test_figures_come_out_with_their_text_in_order(sample):
    first, second = sample.executed.figures
    assert (first.name, second.name) == ("pairs", "pairs_again")
    assert first.alt == "A line rises from left to right."
    assert first.caption == "One pair <of> eight."
    assert first.provenance == "profile reference, seeds 0–7"
    assert "the same drawing, η²</text>" in second.svg


def test_each_cell_shows_one_output_and_no_cell_shows_a_value(sample):
    outputs = [c.outputs for c in sample.executed.notebook.cells if c.cell_type == "code"]
    assert [[out.output_type for out in cell] for cell in outputs] == [
        [],  # defaults
        [],  # the parameters of this run
        ["stream"],
        *[["display_data"]] * 5,
    ]


def test_parameters_reach_the_kernel_and_directories_do_not_reach_the_page(sample):
    (injected,) = (
        cell
        for cell in sample.executed.notebook.cells
        if "injected-parameters" in cell.metadata.get("tags", [])
    )
    assert injected.source.splitlines() == [
        "profile = 'quick'",
        "settings = {'seeds': [0, 1]}",
        "artifacts = '…/artifacts'",
    ]
    everything = json.dumps(sample.executed.notebook, ensure_ascii=False)
    assert str(sample.source.parent) not in everything and sys.prefix not in everything


def test_a_rerun_elsewhere_gives_the_same_bytes(sample, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    again = run_notebook(
        sample.source,
        {
            "profile": "quick",
            "settings": {"seeds": [0, 1]},
            "artifacts": str(tmp_path / "artifacts"),
        },
        workdir=tmp_path / "work",
        failed_dir=tmp_path / "failed",
        progress=lambda line: None,
    )
    assert nbformat.writes(again.notebook) == nbformat.writes(sample.executed.notebook)
    assert again == sample.executed


HOSTILE = """
import sys
from pathlib import Path
from clusterdyn.report.execute import run_notebook
from clusterdyn.report.html import render_notebook_page
folder = Path(sys.argv[1])
executed = run_notebook(
    folder / "case.py", {}, workdir=folder / "work", failed_dir=folder / "failed"
)
page = render_notebook_page(executed, pages=[], footer="")
(folder / "page.html").write_text(page)
"""


def test_neither_home_nor_kernelspec_nor_backend_nor_cwd_of_the_user_matter(
    write_notebook, tmp_path
):
    write_notebook(
        """
import logging
from pathlib import Path

Path("here.txt").write_text("the kernel's working directory")
logging.getLogger("matplotlib.font_manager").warning("building the font cache")
""",
        """
from matplotlib import pyplot as plt

from clusterdyn.display import show_figure

assert "inline" in plt.get_backend()
figure, axes = plt.subplots()
show_figure(figure, name="empty", alt="Empty axes.", caption="Nothing.")
""",
        "print('one line per block')",
        figures=1,
    )
    kernels = tmp_path / "share" / "kernels" / "python3"
    kernels.mkdir(parents=True)
    spec = {
        "argv": ["/nonexistent/python", "{connection_file}"],
        "display_name": "",
        "language": "",
    }
    (kernels / "kernel.json").write_text(json.dumps(spec))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ} | {
        "HOME": "/dev/null/nobody",
        "JUPYTER_PATH": str(tmp_path / "share"),
        "MPLBACKEND": "Agg",
    }
    run = subprocess.run(
        [sys.executable, "-c", HOSTILE, str(tmp_path)],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        text=True,
    )
    # Neither ipykernel, the debugger, papermill nor matplotlib has anything to say.
    assert (run.stderr, run.returncode) == ("", 0)
    assert (tmp_path / "work" / "kernel.log").read_text() == ""
    lines = [re.sub(r"\d+\.\d s", "T s", line) for line in run.stdout.splitlines()]
    assert lines == [
        "case  cell 1/5  T s",
        "case  cell 2/5  T s",
        "case  cell 3/5  T s",
        "case  cell 4/5  T s",
        "case  | one line per block",
        "case  cell 5/5  T s",
        "case  finished, 1 figure  T s",
    ]
    assert "Empty axes." in (tmp_path / "page.html").read_text()
    assert (tmp_path / "work" / "here.txt").exists()
    assert list(elsewhere.iterdir()) == []


# Notebooks that do not


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (
            "rate = 1 / 0",
            "case failed in code cell 2 of 4 (`rate = 1 / 0`): ZeroDivisionError: division by zero",
        ),
        (
            "import sys\n\nsys.exit(0)",
            "case ended early: code cell 2 of 4 (`import sys`) called sys.exit(0)",
        ),
        (
            "import os, signal\n\nos.kill(os.getpid(), signal.SIGKILL)",
            "case lost its kernel in code cell 2 of 4 (`import os, signal`): the process died",
        ),
        (
            "import time\n\ntime.sleep(60)",
            "case was stopped: code cell 2 of 4 (`import time`) took longer than 1 s",
        ),
        (
            # Without widgets tqdm says so, and then draws its bar, on standard error.
            "from tqdm.auto import tqdm\n\nlist(tqdm(range(3)))",
            "case is not clean: code cell 2 of 4 (`from tqdm.auto import tqdm`) wrote to standard",
        ),
    ],
    ids=["error", "exit", "killed", "timeout", "stderr"],
)
def test_a_notebook_that_breaks_is_kept_aside_and_the_earlier_report_stays(
    write_notebook, tmp_path, capfd, caplog, cell, sentence
):
    source = write_notebook(cell, "print('after')")
    report = tmp_path / "reports"
    report.mkdir()
    for name in ("index.html", "results.json"):
        (report / name).write_text("earlier")

    def make_report() -> None:
        with staging_directory(report) as staging:
            run(source, cell_timeout=1 if "sleep" in cell else 60)
            publish(staging, report)

    with pytest.raises(NotebookFailure, match=re.escape(sentence)) as failure:
        make_report()
    kept = tmp_path / "failed" / "case.ipynb"
    assert str(failure.value).endswith(f"kept at {kept}")
    assert "\n" not in str(failure.value)
    assert cell in [kept_cell.source for kept_cell in nbformat.read(kept, as_version=4).cells]
    assert {p.name: p.read_text() for p in report.iterdir()} == {
        "index.html": "earlier",
        "results.json": "earlier",
    }
    assert {path.name for path in tmp_path.iterdir()} == {"case.py", "work", "failed", "reports"}
    # The tools' own logs and the kernel's last words stay off the terminal.
    assert (caplog.text, *capfd.readouterr()) == ("", "", "")


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (
            {"figures": None},
            "case does not say that it is finished: its last code cell must call "
            'clusterdyn.display.finish("case", figures=N)',
        ),
        ({"figures": 2}, "case declares 2 figures in its last cell, but shows 0"),
    ],
    ids=["no sentinel", "wrong count"],
)
def test_a_notebook_that_does_not_show_what_it_declares_has_failed(
    write_notebook, tmp_path, parts, sentence
):
    with pytest.raises(NotebookFailure, match=re.escape(sentence)):
        run(write_notebook("print('ran')", **parts))
    assert (tmp_path / "failed" / "case.ipynb").exists()


def test_the_kernel_is_this_python_told_to_be_quiet_with_its_files_in_one_place(tmp_path):
    manager = PinnedKernelManager(scratch=str(tmp_path), kernel_name="somebody-elses")
    spec = manager.kernel_spec
    assert spec.argv[:4] == [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher"]
    assert "--log-level=40" in spec.argv
    assert spec.env.pop("PYDEVD_DISABLE_FILE_VALIDATION") == "1"
    assert spec.env.pop("MPLBACKEND").endswith("inline")
    assert {"MPLCONFIGDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR"} <= set(spec.env)
    places = [*spec.env.values(), manager.connection_file]
    assert all(Path(place).is_relative_to(tmp_path) for place in places)


def test_a_kernel_that_does_not_start_is_a_failure(write_notebook, monkeypatch):
    source = write_notebook()
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(NotebookFailure, match="case could not start its kernel: FileNotFoundError"):
        run(source)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(NotebookFailure, match="case could not start its kernel: RuntimeError"):
        run(source)


def finished_notebook() -> nbformat.NotebookNode:
    """A notebook as the kernel leaves it: one figure, then the line that says so."""
    about = {"figure": "pairs", "alt": "a", "caption": "c", "provenance": ""}
    figure = nbformat.v4.new_output(
        "display_data", {"image/svg+xml": "<svg/>"}, metadata={"clusterdyn": about}
    )
    end = nbformat.v4.new_output(
        "display_data",
        {"text/plain": "case: finished"},
        metadata={"clusterdyn": {"finished": "case", "figures": 1, "prefix": sys.prefix}},
    )
    cells = [
        nbformat.v4.new_code_cell("show()", execution_count=1, outputs=[figure]),
        nbformat.v4.new_code_cell("finish()", execution_count=2, outputs=[end]),
    ]
    for cell in cells:  # what papermill writes whatever has happened
        cell.metadata["papermill"] = {"status": "completed", "exception": None}
    return nbformat.v4.new_notebook(cells=cells)


def test_a_finished_notebook_passes():
    check_finished(finished_notebook(), "case")


def never_ran(notebook):
    notebook.cells[0].execution_count = None


def other_name(notebook):
    notebook.cells[1].outputs[0].metadata["clusterdyn"]["finished"] = "01_data"


def other_environment(notebook):
    notebook.cells[1].outputs[0].metadata["clusterdyn"]["prefix"] = "/usr"


def twice_the_same_name(notebook):
    notebook.cells[0].outputs.append(copy.deepcopy(notebook.cells[0].outputs[0]))
    notebook.cells[1].outputs[0].metadata["clusterdyn"]["figures"] = 2


def goes_on_after_the_end(notebook):
    notebook.cells.append(nbformat.v4.new_code_cell("more()", execution_count=3))


def allowed_error(notebook):
    notebook.cells[0].metadata["tags"] = ["raises-exception"]
    error = nbformat.v4.new_output("error", ename="KeyError", evalue="'a'", traceback=[])
    notebook.cells[0].outputs = [error]


def widget(notebook):
    data = {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "0%"}
    notebook.cells[0].outputs = [nbformat.v4.new_output("display_data", data)]


def bare_picture(notebook):
    data = {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"}
    notebook.cells[0].outputs = [nbformat.v4.new_output("display_data", data)]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (never_ran, "is unfinished: code cell 1 of 2 (`show()`) never ran"),
        (other_name, "says that it is '01_data': its last cell must name 'case'"),
        (other_environment, "ran in another Python environment (/usr) than the report"),
        (twice_the_same_name, "shows two figures named 'pairs'; each needs a name of its own"),
        (goes_on_after_the_end, "does not say that it is finished: its last code cell must call"),
        (allowed_error, "failed in code cell 1 of 2 (`show()`): KeyError: 'a'"),
        (widget, "shows a widget in code cell 1 of 2 (`show()`), which needs the network"),
        (bare_picture, "shows a picture without a description in code cell 1 of 2"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_whether_it_is_finished_is_read_off_the_outputs_not_the_metadata(damage, sentence):
    notebook = finished_notebook()
    damage(notebook)
    with pytest.raises(NotebookFailure, match=re.escape(sentence)):
        check_finished(notebook, "case")
