"""Publishing: a reader sees the whole earlier report or the whole new one, never a mixture."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from clusterdyn.report import publish as publishing
from clusterdyn.report.publish import (
    OutputError,
    check_directory,
    check_output,
    publish,
    staging_directory,
)

NAMES = ("index.html", "results.json", *(f"figures/f{i}.svg" for i in range(20)))


def fill(directory: Path, mark: str) -> None:
    (directory / "figures").mkdir()
    for name in NAMES:
        (directory / name).write_text(mark)


def publish_report(output: Path, mark: str, **options: object) -> None:
    with staging_directory(output) as staging:
        fill(staging, mark)
        publish(staging, output, **options)


def marks(report: Path) -> list[str]:
    return [path.read_text() for path in sorted(report.rglob("*")) if path.is_file()]


def whole(mark: str) -> list[str]:
    return [mark] * len(NAMES)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "reports"


@pytest.fixture(params=["exchange", "two renames"])
def either_way(request, monkeypatch) -> None:
    """With the atomic exchange, and as on systems that do not have it."""
    if request.param == "two renames":
        monkeypatch.setattr(publishing, "_exchange", lambda first, second: False)


# One run


@pytest.mark.usefixtures("either_way")
def test_report_is_published_into_a_new_place_an_empty_one_and_over_an_earlier_one(output):
    publish_report(output, "first")
    assert marks(output) == whole("first")
    publish_report(output, "second")
    assert marks(output) == whole("second")
    shutil.rmtree(output)
    output.mkdir()
    (output / ".gitkeep").touch()
    publish_report(output, "third")
    assert marks(output) == whole("third")
    assert list(output.parent.iterdir()) == [output]


def test_missing_parents_are_made(output):
    publish_report(output / "a" / "b", "first")
    assert marks(output / "a" / "b") == whole("first")


def test_names_that_mean_something_to_a_shell_are_plain_names(tmp_path):
    output = tmp_path / "re[p]orts *"
    publish_report(output, "first")
    publish_report(output, "second")
    assert marks(output) == whole("second") and list(tmp_path.iterdir()) == [output]


def test_a_link_is_followed_and_stays_a_link(output, tmp_path):
    (tmp_path / "disk").mkdir()
    output.symlink_to(tmp_path / "disk")
    publish_report(output, "first")
    assert output.is_symlink() and marks(tmp_path / "disk") == whole("first")


def test_report_has_ordinary_permissions(output):
    umask = os.umask(0o027)
    try:
        publish_report(output, "first")
    finally:
        os.umask(umask)
    assert output.stat().st_mode & 0o777 == 0o750
    assert (output / "index.html").stat().st_mode & 0o777 == 0o640


def test_exchange_really_is_one_step_here(output, monkeypatch):
    """Else the tests of the exchange would quietly test the two renames."""
    first, second = output.with_name("a"), output.with_name("b")
    first.mkdir()
    second.mkdir()
    (first / "x").touch()
    if not publishing._exchange(first, second):
        pytest.skip("this file system cannot exchange two directories")
    assert (second / "x").exists() and not (first / "x").exists()


def test_failure_while_staging_leaves_the_earlier_report_and_nothing_else(output):
    publish_report(output, "earlier")

    def fail() -> None:
        with staging_directory(output) as staging:
            fill(staging, "new")
            raise RuntimeError("a cell failed")

    with pytest.raises(RuntimeError, match="a cell failed"):
        fail()
    assert marks(output) == whole("earlier")
    assert list(output.parent.iterdir()) == [output]


def test_incomplete_report_is_not_published(output):
    publish_report(output, "earlier")
    with staging_directory(output) as staging:
        (staging / "index.html").write_text("new")
        with pytest.raises(OutputError, match=r"lacks results\.json"):
            publish(staging, output)
    assert marks(output) == whole("earlier")


def test_failure_between_the_two_renames_puts_the_earlier_report_back(output, monkeypatch):
    publish_report(output, "earlier")

    def lose_the_new_report(first: Path, second: Path) -> bool:
        shutil.rmtree(first)
        return False

    monkeypatch.setattr(publishing, "_exchange", lose_the_new_report)
    with pytest.raises(OutputError, match=r"cannot put the report in .*No such file"):
        publish_report(output, "new")
    assert marks(output) == whole("earlier")
    assert list(output.parent.iterdir()) == [output]


# Places that a report must not go to


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("file", "file is a file: give a directory for the report"),
        ("file/reports", "file is a file, so that"),
        ("file/a/reports", "file is a file, so that"),
        ("foreign", "foreign is not empty and holds no report (index.html and results.json)"),
        (
            "notes",
            "notes holds figures/notes.md, which is not a part of a report and would be lost",
        ),
        ("/proc/reports", "cannot write in /proc: "),
        ("/proc", "/proc is a mount point"),
    ],
)
def test_place_that_cannot_take_a_report_is_refused_and_left_alone(tmp_path, place, sentence):
    (tmp_path / "file").write_text("a file")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "index.html").write_text("somebody's page")
    (tmp_path / "notes").mkdir()
    fill(tmp_path / "notes", "earlier")
    (tmp_path / "notes" / "figures" / "notes.md").write_text("somebody's notes")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OutputError, match=re.escape(sentence)):
        check_output(tmp_path / place)
    with pytest.raises(OutputError, match=re.escape(sentence)):
        publish_report(tmp_path / place, "new")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["scores.csv", "figures/mine.png", "04_eta2.ipynb", "notes"])
def test_a_report_beside_which_somebody_keeps_a_file_is_refused(output, name):
    publish_report(output, "earlier")
    (output / name).write_text("somebody's work")
    with pytest.raises(OutputError, match=f"holds {name}, which is not a part of a report"):
        publish_report(output, "new")
    assert (output / name).read_text() == "somebody's work"
    assert (output / "index.html").read_text() == "earlier"


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("file", "file is a file: give a directory for the artifacts"),
        ("file/artifacts", "file is a file, so that"),
        ("/proc/artifacts", "cannot write in /proc: "),
    ],
)
def test_a_directory_that_cannot_be_written_is_refused(tmp_path, place, sentence):
    (tmp_path / "file").write_text("a file")
    with pytest.raises(OutputError, match=re.escape(sentence)):
        check_directory(tmp_path / place, "the artifacts")


@pytest.mark.parametrize("place", [".", "artifacts", "a/b/artifacts"])
def test_a_directory_that_exists_or_can_be_made_is_let_be(tmp_path, place):
    check_directory(tmp_path / place, "the artifacts")
    assert list(tmp_path.iterdir()) == []


def test_what_appears_in_the_place_meanwhile_is_not_overwritten(output):
    with staging_directory(output) as staging:
        fill(staging, "new")
        output.mkdir()
        (output / "thesis.tex").write_text("somebody's thesis")
        with pytest.raises(OutputError, match="is not empty and holds no report"):
            publish(staging, output)
    assert marks(output) == ["somebody's thesis"]


# Several runs, and killed ones

STAGE_AND_WAIT = """
import sys, time
from pathlib import Path
from clusterdyn.report.publish import staging_directory
with staging_directory(Path(sys.argv[1])) as staging:
    (staging / "index.html").write_text("half")
    print(staging, flush=True)
    time.sleep(60)
"""

PUBLISH = """
import sys
from pathlib import Path
from clusterdyn.report.publish import publish, staging_directory
output, mark, *names = sys.argv[1:]
for _ in range(6):
    with staging_directory(Path(output)) as staging:
        (staging / "figures").mkdir()
        for name in names:
            (staging / name).write_text(mark)
        publish(staging, Path(output), progress=lambda line: None)
"""


def start_staging(output: Path) -> tuple[subprocess.Popen, Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", STAGE_AND_WAIT, str(output)], stdout=subprocess.PIPE, text=True
    )
    return process, Path(process.stdout.readline().strip())


def test_leftovers_of_a_killed_run_go_with_the_next_and_those_of_a_live_one_stay(output):
    publish_report(output, "earlier")
    killed, leftover = start_staging(output)
    live, in_use = start_staging(output)
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert leftover.exists() and in_use.exists() and marks(output) == whole("earlier")
        publish_report(output, "new")
        assert not leftover.exists() and in_use.exists()
        assert marks(output) == whole("new")
    finally:
        live.kill()
        live.wait()
    publish_report(output, "newer")
    assert list(output.parent.iterdir()) == [output]


def test_swap_cut_off_between_two_renames_is_repaired_by_the_next_run(output):
    publish_report(output, "earlier")
    output.rename(output.with_name(".reports.earlier"))
    with staging_directory(output):
        assert marks(output) == whole("earlier")
    assert list(output.parent.iterdir()) == [output]


def test_swap_cut_off_after_two_renames_is_repaired_by_the_next_run(output):
    publish_report(output, "earlier")
    output.rename(output.with_name(".reports.earlier"))
    shutil.copytree(output.with_name(".reports.earlier"), output)
    with staging_directory(output):
        assert not output.with_name(".reports.earlier").exists()
    assert marks(output) == whole("earlier")


def take_lock(output: Path) -> int:
    handle = os.open(output.with_name(f".{output.name}.lock"), os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def test_publisher_waits_for_the_one_before_and_for_one_that_slips_in_and_says_so_once(output):
    publish_report(output, "earlier")
    lines: list[str] = []
    with staging_directory(output) as staging:
        fill(staging, "new")
        first = take_lock(output)
        waiting = threading.Thread(
            target=publish, args=(staging, output), kwargs={"progress": lines.append}
        )
        waiting.start()
        deadline = time.monotonic() + 10
        while not lines and time.monotonic() < deadline:
            time.sleep(0.01)
        # The first one removes its lock file, and another run makes and locks a new one before the
        # waiting run wakes up.
        output.with_name(".reports.lock").unlink()
        second = take_lock(output)
        os.close(first)
        waiting.join(0.5)
        assert waiting.is_alive() and marks(output) == whole("earlier")
        output.with_name(".reports.lock").unlink()
        os.close(second)
        waiting.join(10)
    assert lines == [f"waiting for another run that is publishing to {output}"]
    assert marks(output) == whole("new")
    assert list(output.parent.iterdir()) == [output]


@pytest.mark.parametrize("publishers", [2, 8])
def test_concurrent_publishers_leave_one_whole_report_and_readers_never_miss_it(output, publishers):
    publish_report(output, "run-0")
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", PUBLISH, str(output), f"run-{number}", *NAMES],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(1, publishers + 1)
    ]
    seen = set()
    while any(run.poll() is None for run in runs):
        # Never missing, never empty, never half.
        seen.add((output / "index.html").read_text())
    assert [(run.wait(), run.stderr.read()) for run in runs] == [(0, "")] * publishers
    assert all(re.fullmatch(r"run-\d", mark) for mark in seen) and len(seen) > 1
    (final,) = set(marks(output))
    assert marks(output) == whole(final) and final != "run-0"
    assert list(output.parent.iterdir()) == [output]
