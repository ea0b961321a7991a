"""The command line: ``python -m clusterdyn report`` and ``python -m clusterdyn bench``."""

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path


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

    bench = commands.add_parser("bench", help="time population training against a plain loop")
    _study_options(bench)
    bench.add_argument("--json", type=Path, metavar="FILE", help="write the times to a file")
    bench.add_argument("--repeats", type=int, default=3, help="interleaved repeats; default: 3")
    bench.add_argument("--threads", type=int, default=1, help="for both sides; default: 1")
    return top


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
        0 if all went well, 1 if the work failed, 2 if it was asked for wrongly, 130 if it was
        stopped from the keyboard.
    """
    options = parser().parse_args(arguments)
    try:
        return _run(options)
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
        from clusterdyn import bench
        from clusterdyn.execution import WorkersLost, parse_workers
        from clusterdyn.installation import DifferentInstallation
        from clusterdyn.profiles import parse_settings, strict_config, study_config

    try:
        settings = parse_settings(options.settings)
        config = study_config(options.profile, settings)
        strict_config(options.profile, settings)
        if options.command == "bench":
            bench.check_counts(options.repeats, options.threads)
        elif options.workers is not None:
            options.workers = parse_workers(options.workers)
    except ValueError as error:
        return _refuse(error, 2)
    with _exit_on_interrupt():
        from jsonschema import ValidationError

        from clusterdyn.cluster import SchedulerError
        from clusterdyn.report.build import build_report
        from clusterdyn.report.parameters import ParameterError, SourceError
        from clusterdyn.report.publish import OutputError, check_file
        from clusterdyn.report.results import dump
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
            text = dump(
                bench.run_bench(
                    config, repeats=options.repeats, threads=options.threads, progress=_say
                )
            )
            _say(text)
            if options.json:
                options.json.write_text(text, encoding="utf-8")
    except (ParameterError, SourceError, OutputError, SchedulerError) as error:
        return _refuse(error, 2)
    except ValidationError as error:
        place, what = error.json_path, one_line(error.message)
        return _refuse(f"the results do not fit their schema at {place}: {what}", 1)
    except (NotebookFailure, WorkersLost, DifferentInstallation, ValueError, OSError) as error:
        return _refuse(error, 1)
    return 0


def _workers(options: argparse.Namespace) -> AbstractContextManager[Executor | None]:
    """What populations are trained on, or None where nothing was asked for."""
    from clusterdyn.cluster import dask_executor
    from clusterdyn.execution import process_pool

    if options.workers is not None:
        return process_pool(options.workers)
    if options.scheduler is not None:
        return dask_executor(options.scheduler, _say)
    return nullcontext()


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
