"""The command line: ``report``, ``bench``, ``wall-clock``, ``compare`` and ``gate``."""

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterdyn.bench.config import CostConfig


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    top = argparse.ArgumentParser(prog="python -m clusterdyn", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)

    report = commands.add_parser("report", help="run the notebooks and write the report")
    _study_options(report)
    report.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="default: reports, or reports-quick for profile quick",
    )
    report.add_argument(
        "--artifacts", type=Path, metavar="DIR", help="trained models; default: artifacts"
    )
    where = report.add_mutually_exclusive_group()
    where.add_argument(
        "--workers", metavar="N", help="train in N processes; default: as many as there are cores"
    )
    where.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="train on a running Dask cluster, such as tcp://10.0.0.5:8786",
    )

    bench = commands.add_parser(
        "bench", help="time population training against a plain loop, JAX and the bare kernels"
    )
    _study_options(bench)
    bench.add_argument("--json", type=Path, metavar="FILE", help="write the times to a file")
    bench.add_argument("--repeats", type=int, help="interleaved repeats; default: the profile's")
    bench.add_argument(
        "--threads",
        type=int,
        help="of the plain loop, and processes of the trainer; default: a core each",
    )
    bench.add_argument(
        "--plain-models",
        type=int,
        help="models that the plain loop trains; its time is scaled to all; default: all",
    )

    timing = commands.add_parser(
        "wall-clock", help="time a time step under each schedule, on a CPU or an accelerator"
    )
    _study_options(timing)
    timing.add_argument("--device", default="cpu", help="cpu, cuda or mps; default: cpu")
    timing.add_argument("--json", type=Path, metavar="FILE", help="write the times to a file")

    comparing = commands.add_parser(
        "compare",
        help="tell what moved between two reports",
        epilog="exit code: 0 nothing moved beyond its noise, 3 something did, 2 a report cannot be "
        "read or a file cannot be written",
    )
    comparing.add_argument("before", type=Path, metavar="A", help=_REPORT_HELP)
    comparing.add_argument("after", type=Path, metavar="B", help="the report to check against A")
    comparing.add_argument("--json", type=Path, metavar="FILE", help="write all of it as JSON")
    comparing.add_argument("--html", type=Path, metavar="FILE", help="write it as a page")

    gating = commands.add_parser(
        "gate",
        help="check a report of the study's own settings against expected ranges",
        epilog="exit code: 0 every figure is within, 3 one is not, 2 a file cannot be read or the "
        "report has other settings",
    )
    gating.add_argument("report", type=Path, metavar="REPORT", help="a report's directory")
    gating.add_argument(
        "--ranges", type=Path, metavar="FILE", help="default: those that come with the package"
    )
    return top


_REPORT_HELP = "a report's directory, or its results.json"


def _study_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--profile", default="reference", help="quick, reference or full; default: reference"
    )
    command.add_argument(
        "--set",
        dest="settings",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="replace settings, such as relaxation=0.4 seeds=0,1,2",
    )


def default_output(profile: str) -> Path:
    """Where a report goes unless told otherwise: a quick one beside the one to be read."""
    return Path("reports-quick" if profile == "quick" else "reports")


STOPPED = "stopped; nothing was published"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Returns:
        0 if all went well, 1 if the work failed, 2 if it was asked for wrongly, 3 if a report has
        moved or is outside its ranges, 130 if it was stopped from the keyboard.
    """
    options = parser().parse_args(arguments)
    run = _check if options.command in ("compare", "gate") else _run
    try:
        return run(options)
    except KeyboardInterrupt:
        return _refuse(STOPPED, 130)
    except (MemoryError, RuntimeError) as error:
        # PyTorch says it with a RuntimeError.
        if not isinstance(error, MemoryError) and "allocate memory" not in str(error):
            raise
        detail = f" ({' '.join(str(error).split())})" if str(error) else ""
        return _refuse(f"these settings need more memory than there is{detail}", 1)


def _run(options: argparse.Namespace) -> int:
    # Imported late: PyTorch and Jupyter take seconds, and a typing error should not.
    with _exit_on_interrupt():
        from clusterdyn.bench.side_by_side import run_bench
        from clusterdyn.bench.wall_clock import device_name, measure_wall_clock
        from clusterdyn.execution import WorkersLost, available_cores, parse_workers
        from clusterdyn.installation import DifferentInstallation
        from clusterdyn.profiles import (
            cost_config,
            learning_config,
            limits_config,
            parse_settings,
            strict_config,
            study_config,
        )
        from clusterdyn.protocol import check_splits

    measuring = options.command in ("bench", "wall-clock")
    try:
        settings = parse_settings(options.settings)
        config = study_config(options.profile, settings)
        check_splits(config, strict_config(options.profile, settings))
        learning_config(options.profile, settings), limits_config(options.profile, settings)
        cost = cost_config(options.profile, settings, needed=measuring)
        if options.command == "bench":
            cost = _asked_for(options, cost, len(config.seeds) * len(config.learning_rates))
        elif options.command == "wall-clock":
            device_name(options.device)
        elif options.workers is not None:
            options.workers = parse_workers(options.workers)
    except ValueError as error:
        return _refuse(error, 2)
    with _exit_on_interrupt():
        from jsonschema import ValidationError

        from clusterdyn.bench.tables import bench_targets, bench_times, devices, wall_clock
        from clusterdyn.cluster import SchedulerError
        from clusterdyn.report.build import build_report
        from clusterdyn.report.parameters import ParameterError, SourceError
        from clusterdyn.report.publish import OutputError, check_file
        from clusterdyn.report.results import bench_results, dump, wall_clock_results
        from clusterdyn.report.verify import NotebookFailure, one_line

    try:
        if options.command == "report":
            with _workers(options) as executor:
                build_report(
                    options.profile,
                    settings,
                    options.output or default_output(options.profile),
                    artifacts=options.artifacts,
                    executor=executor,
                    progress=_say,
                )
        else:
            if options.json:
                check_file(options.json)
            if options.command == "bench":
                cores = options.threads or available_cores()
                result = run_bench(config, cost, cores=cores, progress=_say)
                told, tables = bench_results(result), (bench_times(result), bench_targets(result))
            else:
                found = measure_wall_clock(config, cost, device=options.device, progress=_say)
                told, tables = wall_clock_results(found), (wall_clock(found), devices(found))
            for table in tables:
                _say(f"\n{table.text()}")
            if options.json:
                options.json.write_text(dump(told), encoding="utf-8")
    except (ParameterError, SourceError, OutputError, SchedulerError) as error:
        return _refuse(error, 2)
    except ValidationError as error:
        place, what = error.json_path, one_line(error.message)
        return _refuse(f"the results do not fit their schema at {place}: {what}", 1)
    except (NotebookFailure, WorkersLost, DifferentInstallation, ValueError, OSError) as error:
        return _refuse(error, 1)
    return 0


def _check(options: argparse.Namespace) -> int:
    """Compares two reports, or a report with the ranges that are expected of it."""
    with _exit_on_interrupt():
        from clusterdyn.compare.command import run_compare, run_gate
        from clusterdyn.compare.reading import ReportError
        from clusterdyn.report.publish import OutputError

    try:
        if options.command == "gate":
            return run_gate(options.report, options.ranges, say=_say)
        return run_compare(
            options.before, options.after, json=options.json, html=options.html, say=_say
        )
    except (ReportError, OutputError) as error:
        return _refuse(error, 2)
    except OSError as error:
        return _refuse(error, 1)


def _workers(options: argparse.Namespace) -> AbstractContextManager[Executor | None]:
    """What populations are trained on, or None where nothing was asked for."""
    from clusterdyn.cluster import dask_executor
    from clusterdyn.execution import process_pool

    if options.workers is not None:
        return process_pool(options.workers)
    if options.scheduler is not None:
        return dask_executor(options.scheduler, _say)
    return nullcontext()


def _asked_for(options: argparse.Namespace, cost: "CostConfig", models: int) -> "CostConfig":
    """The cost settings with the bench's own options in them.

    Raises:
        ValueError: for a number that is not positive.
    """
    given = {
        "repeats": options.repeats,
        "threads": options.threads,
        "plain-models": options.plain_models,
    }
    for name, number in given.items():
        if number is not None and number < 1:
            raise ValueError(f"--{name} must be at least 1; got {number}")
    return replace(
        cost,
        cost_repeats=options.repeats or cost.cost_repeats,
        plain_models=options.plain_models or models,
    )


@contextmanager
def _exit_on_interrupt() -> Iterator[None]:
    """Lets Ctrl-C end the process on the spot, while nothing is open that would have to be closed.

    A module written in C that is just being imported would turn the exception into another one.
    """

    def leave(*_: object) -> None:
        os._exit(_refuse(STOPPED, 130))

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if usual:
        signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        if usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _say(line: str) -> None:
    print(line, flush=True)


def _refuse(error: object, code: int) -> int:
    print(f"clusterdyn: error: {error}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
