"""The command line: ``python -m clusterdyn report`` and ``python -m clusterdyn bench``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    top = argparse.ArgumentParser(prog="python -m clusterdyn", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)

    report = commands.add_parser("report", help="run the notebooks and write the report")
    _study_options(report)
    report.add_argument(
        "--output", type=Path, default=Path("reports"), metavar="DIR", help="default: reports"
    )
    report.add_argument(
        "--artifacts", type=Path, metavar="DIR", help="trained models; default: artifacts"
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Returns:
        0 if all went well, 1 if the work failed, 2 if it was asked for wrongly.
    """
    options = parser().parse_args(arguments)
    # Imported late: PyTorch takes seconds, and a typing error in an option should not.
    from jsonschema import ValidationError

    from clusterdyn.profiles import parse_settings, study_config
    from clusterdyn.report.parameters import ParameterError, SourceError
    from clusterdyn.report.publish import OutputError, check_file
    from clusterdyn.report.results import dump
    from clusterdyn.report.verify import NotebookFailure

    try:
        settings = parse_settings(options.settings)
        config = study_config(options.profile, settings)
    except ValueError as error:
        return _refuse(error, 2)
    try:
        if options.command == "report":
            from clusterdyn.report.build import build_report

            build_report(
                options.profile,
                settings,
                options.output,
                artifacts=options.artifacts,
                progress=_say,
            )
        else:
            from clusterdyn.bench import run_bench

            if options.json:
                check_file(options.json)
            result = run_bench(
                config, repeats=options.repeats, threads=options.threads, progress=_say
            )
            text = dump(result)
            _say(text)
            if options.json:
                options.json.write_text(text, encoding="utf-8")
    except (ParameterError, SourceError, OutputError) as error:
        return _refuse(error, 2)
    except ValidationError as error:
        return _refuse(f"the results do not fit their schema: {error.message}", 1)
    except (NotebookFailure, ValueError, OSError) as error:
        return _refuse(error, 1)
    except KeyboardInterrupt:
        return _refuse("stopped; nothing was published", 130)
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


def _refuse(error: object, code: int) -> int:
    print(f"clusterdyn: error: {error}", file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
