"""What of a report's results is compared, each under a name that two reports share.

Scores and slopes are kept by seed. What follows from them (means, tests, matrices of means) is not
told a second time, and neither are hashes, which follow from settings and source.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from clusterdyn.compare.reading import ReportError

BySeed = dict[int, float | None]
"""A number a seed; None where it was not finite, as of a model that diverged."""

_DERIVED = ("config_sha256", "artifacts", "source_sha256")


def scores(results: dict[str, Any]) -> dict[str, BySeed]:
    """Every list with a number a seed: test MSE of each arm, slopes of the η² law.

    Raises:
        ReportError: if a list does not fit its seeds, or two have one name.
    """
    return _named((name, _by_seed(name, seeds, values)) for name, seeds, values in _lists(results))


def figures(results: dict[str, Any]) -> dict[str, float | None]:
    """Numbers without noise: work, learning rates chosen, the untrained yardsticks' scores.

    Raises:
        ReportError: if two have one name.
    """
    return _named(_figures(results))


def verdicts(results: dict[str, Any]) -> dict[str, str]:
    """Every verdict: of the trial, of each criterion, of each claim, of each published figure.

    Raises:
        ReportError: if two have one name.
    """
    return _named(_verdicts(results))


def settings(results: dict[str, Any]) -> dict[str, str]:
    """What the results were made with: label, settings, commit, installation, machine."""
    strict, limits, cost = _parts(results)
    provenance = {k: v for k, v in results["provenance"].items() if k not in _DERIVED}
    parts = {
        "label": results["label"],
        "config": results["config"],
        "strict.config": strict["config"] if strict else None,
        "limits.config": limits["config"] if limits else None,
        "cost.config": cost["config"] if cost else None,
        "provenance": provenance,
        "source": results["provenance"]["source_sha256"][:10],
    }
    return {name: _text(value) for part in parts.items() for name, value in _leaves(*part)}


def seconds(results: dict[str, Any]) -> dict[str, float]:
    """Every measured time, in seconds; none where cost was not measured."""
    cost = results["cost"]
    if cost is None:
        return {}
    bench = {
        f"bench: {name.removesuffix('_s')}": value
        for name, value in cost["bench"].items()
        if name.endswith("_s") and value is not None
    }
    return bench | {f"stage: {name}": value for name, value in cost["stage_seconds"].items()}


def _parts(results: dict[str, Any]) -> tuple[dict[str, Any] | None, ...]:
    return results["protocols"]["strict"], results["limits"], results["cost"]


def _lists(results: dict[str, Any]) -> Iterator[tuple[str, Sequence[int], Sequence[Any]]]:
    strict, limits, _ = _parts(results)
    for name, arm in results["arms"].items():
        for index, rate in enumerate(arm["learning_rates"]):
            if any(len(row) != len(arm["learning_rates"]) for row in arm["test_mse"]):
                raise ReportError(f"arm {name!r} does not have a score for each learning rate")
            column = [row[index] for row in arm["test_mse"]]
            yield f"reference: {name} at rate {rate:g}", arm["seeds"], column
    for name, check in results["mechanism"].items():
        for law in check["laws"]:
            where = f"η² slope: {name}, {law['unit']}, {law['state']}"
            yield where, check["seeds"], law["slope"]
    if strict:
        seeds = strict["test_seeds"]
        for arm in strict["arms"]:
            yield f"strict: {arm['label']}", seeds, _or_diverged(seeds, arm)
        for kind, columns in (("matrix", "schedules"), ("relaxation", "relaxations")):
            table = strict[kind]
            names = [str(name) for name in table[columns]]
            for trained, row in _rows(kind, table["schedules"], table["test_mse"]):
                for tested, values in _rows(kind, names, row):
                    yield f"{kind}: {trained} tested with {tested}", seeds, values
    for place in limits["places"] if limits else ():
        for arm in place["arms"]:
            name = f"limits, {place['experiment']}, {place['name']}: {arm['label']}"
            yield name, limits["test_seeds"], _or_diverged(limits["test_seeds"], arm)


def _or_diverged(seeds: Sequence[int], arm: dict[str, Any]) -> list[float | None]:
    """An arm's scores without those that stand in for a diverged model's."""
    diverged = set(arm["diverged_seeds"])
    values = arm["test_mse"]
    kept = [None if seed in diverged else v for seed, v in zip(seeds, values, strict=False)]
    return kept + values[len(kept) :]


def _rows(kind: str, names: Sequence[str], rows: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(rows, list) or len(rows) != len(names):
        raise ReportError(f"the {kind} table lacks a row for one of its {len(names)} names")
    return zip(names, rows, strict=True)


def _by_seed(name: str, seeds: Sequence[int], values: Any) -> BySeed:
    numbers = isinstance(values, list) and all(
        value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
        for value in values
    )
    if not numbers:
        raise ReportError(f"{name!r} is not a list of numbers")
    # An arm may be run on the first of the seeds only.
    if len(values) > len(seeds):
        raise ReportError(f"{name!r} has {len(values)} numbers for {len(seeds)} seeds")
    by_seed = dict(zip(seeds, values, strict=False))
    if len(by_seed) != len(values):
        raise ReportError(f"{name!r} has a seed twice")
    return by_seed


def _figures(results: dict[str, Any]) -> Iterator[tuple[str, float | None]]:
    strict, limits, _ = _parts(results)
    for name, arm in results["arms"].items():
        rates, selected = arm["learning_rates"], arm["selected"]
        if not 0 <= selected < len(rates):
            raise ReportError(
                f"arm {name!r} selects learning rate number {selected} of {len(rates)}"
            )
        yield f"reference: {name}, learning rate", rates[selected]
        for index, count in enumerate(arm["ledger"]["node_updates"]):
            yield f"reference: {name}, node updates of model {index}", count
    arms = [("strict", arm) for arm in strict["arms"]] if strict else []
    for place in limits["places"] if limits else ():
        where = f"limits, {place['experiment']}, {place['name']}"
        arms += [(where, arm) for arm in place["arms"]]
    for where, arm in arms:
        yield f"{where}: {arm['label']}, learning rate", arm["rate"]
        yield f"{where}: {arm['label']}, node updates", arm["node_updates"]
    for name, values in strict["yardsticks"].items() if strict else ():
        for seed, value in _by_seed(name, strict["test_seeds"], values).items():
            yield f"yardstick: {name}, seed {seed}", value


def _verdicts(results: dict[str, Any]) -> Iterator[tuple[str, str]]:
    strict, limits, _ = _parts(results)
    for name, value in results["verdicts"].items():
        yield f"trial: {name}", str(value)
    for criterion in results["protocols"]["reference"]["criteria"]:
        yield f"mechanism: {criterion['name']}", "held" if criterion["held"] else "not held"
    for part, name in ((strict, "strict"), (limits, "limits")):
        for claim in part["claims"] if part else ():
            what = f"{claim['step']} [{claim['baseline']} → {claim['treatment']}]"
            yield f"{name}, {claim['family']}: {what}", claim["verdict"]
    for row in results["agreement"]:
        yield f"published: {row['figure']}", "within" if row["within"] else "not within"


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A value with its name; of an object each of its values, with the way to it."""
    if not isinstance(value, dict):
        yield name, value
        return
    for key, item in value.items():
        yield from _leaves(f"{name}.{key}", item)


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return str(value)


def _named(pairs: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for name, value in pairs:
        if name in named:
            raise ReportError(f"the results have {name!r} twice")
        named[name] = value
    return named
