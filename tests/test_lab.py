"""``make lab``: what is saved in JupyterLab reaches the notebooks' sources, and nothing is lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import nbformat
import pytest

REPO = Path(__file__).resolve().parents[1]
OUTPUT = nbformat.v4.new_output("stream", name="stdout", text="kept from an earlier session")


class Lab:
    """A running JupyterLab and the checkout that it serves."""

    def __init__(self, checkout: Path, server: dict) -> None:
        self.checkout, self.server = checkout, server

    def contents(self, path: str, model: dict | None = None) -> dict:
        """What the server holds at a path; with a model, after saving it as the browser does."""
        request = urllib.request.Request(
            f"{self.server['url']}api/contents/{path}",
            method="PUT" if model else "GET",
            data=json.dumps(model).encode() if model else None,
            headers={"Authorization": f"token {self.server['token']}"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


def lab_arguments(folder: Path) -> tuple[list[str], dict[str, str]]:
    """``make lab`` with this environment's JupyterLab, and without this user's settings."""
    command = [
        "make", "lab", f"VENV={sys.prefix}", "-o", f"{sys.prefix}/installed",
        "LAB_ARGS=--no-browser --allow-root --ServerApp.port=0",
    ]  # fmt: skip
    places = {f"JUPYTER_{kind}_DIR": str(folder / kind) for kind in ("RUNTIME", "CONFIG", "DATA")}
    return command, {**os.environ, **places}


def wait_for_server(process: subprocess.Popen, runtime: Path, log: Path) -> dict:
    """What the server says of itself, once it answers: its file is there before its port is."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        for file in runtime.glob("jpserver-*.json"):
            # Half a file is no JSON; a port that is not open yet refuses.
            with suppress(json.JSONDecodeError, OSError):
                server = json.loads(file.read_text())
                urllib.request.urlopen(f"{server['url']}api", timeout=5).close()
                return server
        time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    checkout, log = folder / "checkout", folder / "log"
    shutil.copytree(
        REPO / "notebooks",
        checkout / "notebooks",
        ignore=shutil.ignore_patterns("*.ipynb", ".ipynb_checkpoints"),
    )
    for name in ("Makefile", "jupytext.toml", "requirements.txt", "pyproject.toml"):
        shutil.copy(REPO / name, checkout)
    jupytext = [sys.executable, "-m", "jupytext", "--quiet", "--to", "ipynb"]
    subprocess.run([*jupytext, "notebooks/01_data.py"], cwd=checkout, check=True, timeout=60)
    pair = checkout / "notebooks" / "01_data.ipynb"
    notebook = nbformat.read(pair, as_version=4)
    notebook.cells[-1].outputs = [OUTPUT]
    nbformat.write(notebook, pair)
    command, environment = lab_arguments(folder)
    with log.open("w") as words:
        process = subprocess.Popen(
            command,
            cwd=checkout,
            env=environment,
            stdout=words,
            stderr=words,
            start_new_session=True,
        )
    try:
        yield Lab(checkout, wait_for_server(process, folder / "RUNTIME", log))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_the_notebooks_are_opened_and_every_source_has_its_pair(lab):
    found = {entry["name"] for entry in lab.contents("notebooks")["content"]}
    names = sources(lab)
    assert {f"{name}{suffix}" for name in names for suffix in (".py", ".ipynb")} <= found


def test_outputs_of_an_earlier_session_are_kept(lab):
    last = lab.contents("notebooks/01_data.ipynb")["content"]["cells"][-1]
    assert [output["text"] for output in last["outputs"]] == [OUTPUT["text"]]


def sources(lab: Lab) -> dict[str, str]:
    """The text of every notebook's source in the checkout."""
    return {path.stem: path.read_text("utf-8") for path in lab.checkout.glob("notebooks/*.py")}


@pytest.mark.parametrize("name", ["02_training", "04_eta2"])
def test_a_saved_edit_changes_its_line_of_the_source_and_nothing_else(lab, name):
    path, before = f"notebooks/{name}.ipynb", sources(lab)
    content = lab.contents(path)["content"]
    for cell in content["cells"]:
        cell["source"] = cell["source"].replace("settings = {}", 'settings = {"sweeps": 6}')
        if cell["cell_type"] == "code":  # as after a run
            cell["outputs"], cell["execution_count"] = [OUTPUT], 1
    content["metadata"]["language_info"] = {"name": "python", "version": "3.11.7"}
    lab.contents(path, {"type": "notebook", "format": "json", "content": content})
    edited = before[name].replace("settings = {}", 'settings = {"sweeps": 6}')
    assert edited != before[name]
    assert sources(lab) == {**before, name: edited}
