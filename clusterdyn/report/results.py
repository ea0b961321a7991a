"""The two JSON files of a report, and the schemas that they are checked against."""

import dataclasses
import hashlib
import json
import math
import platform
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np

from clusterdyn.artifacts import PACKAGE
from clusterdyn.bench.config import CostConfig
from clusterdyn.bench.side_by_side import BenchResult
from clusterdyn.bench.wall_clock import WallClock
from clusterdyn.config import StudyConfig, canonical_json
from clusterdyn.protocol import Study
from clusterdyn.provenance import source_commit
from clusterdyn.reference.agreement import Agreement, agreement
from clusterdyn.reference.bench_report import bench_report, without_idea
from clusterdyn.reference.published import published_report
from clusterdyn.report.strict_results import limits_results, strict_results
from clusterdyn.strict.config import StrictConfig
from clusterdyn.verdicts import RULES

NOTEBOOKS = PACKAGE.parent / "notebooks"
SCHEMA_VERSION = 1
_REPORT_SOURCES = (".py", ".j2", ".css", ".json")


def report_source_hash() -> str:
    """sha256 over all that a report is made from: package, notebooks and pinned requirements."""
    files = [path for path in PACKAGE.rglob("*") if path.suffix in _REPORT_SOURCES]
    files += [*NOTEBOOKS.glob("*.py"), PACKAGE.parent / "requirements.txt"]
    digest = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.relative_to(PACKAGE.parent).as_posix()):
        digest.update(path.relative_to(PACKAGE.parent).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def config_hash(
    config: StudyConfig, strict: StrictConfig | None = None, cost: CostConfig | None = None
) -> str:
    """sha256 of the settings of the study and of what else it holds: strict protocol and cost."""
    parts = {"study": config, "strict": strict, "cost": cost}
    settings = {name: dataclasses.asdict(part) for name, part in parts.items() if part is not None}
    return hashlib.sha256(canonical_json(settings).encode()).hexdigest()


def stale_reasons(
    report: Path,
    config: StudyConfig,
    strict: StrictConfig | None = None,
    cost: CostConfig | None = None,
) -> list[str]:
    """Why a report no longer belongs to the present source and settings; empty if it does.

    Args:
        report: its directory.
        config, strict, cost: that it should have.
    """
    provenance = json.loads((report / "results.json").read_text("utf-8"))["provenance"]
    reasons = []
    if provenance["source_sha256"] != report_source_hash():
        reasons.append("package, notebooks or requirements have changed since it was made")
    if provenance["config_sha256"] != config_hash(config, strict, cost):
        reasons.append("it was made with other settings")
    return reasons


def bench_report_of(study: Study) -> dict[str, Any]:
    """What goes to ``bench_report.json``, checked against its schema."""
    report = jsonable(bench_report(study.config, study.reference))
    validate(report, "bench_report")
    return report


def agreement_of(study: Study) -> tuple[Agreement, ...]:
    """Every published figure beside this study's."""
    config, result = study.config, study.reference
    copied = bench_report(config, without_idea(result))
    return agreement(published_report(), bench_report(config, result), copied)


def results_of(study: Study) -> dict[str, Any]:
    """What goes to ``results.json``, checked against its schema.

    Settings and provenance, scores, ledgers, statistics, the mechanism check, the agreement with
    the published figures, the verdicts, and the measured cost; no learning curves and no
    trajectories. Numbers that are not finite are null.
    """
    result, config = study.reference, study.config
    arms = (config.baseline, config.schedule)
    report = {
        "schema_version": SCHEMA_VERSION,
        "label": study.label,
        "config": dataclasses.asdict(config),
        "provenance": {
            "commit": source_commit(),
            "source_sha256": report_source_hash(),
            "config_sha256": config_hash(config, study.strict_config, study.cost_config),
            "artifacts": {stage.name: stage.key for stage in study.stages()},
            "python": platform.python_version(),
            "packages": {name: metadata.version(name) for name in ("torch", "numpy", "scipy")},
            "machine": platform.machine(),
        },
        "protocols": {"reference": reference_results(study), "strict": strict_results(study)},
        "arms": {arm: _arm(study, arm) for arm in arms},
        "mechanism": {arm: study.mechanism(arm) for arm in arms},
        "agreement": agreement_of(study),
        "rules": RULES,
        "verdicts": {
            "comparison": result.verdict,
            "system_verdict": result.system_verdict,
            "practical_verdict": result.practical_verdict,
            "mechanism_ok": int(result.mechanism_ok),
        },
        "cost": cost_results(study),
        "limits": limits_results(study),
    }
    report = jsonable(report)
    validate(report, "results")
    return report


def cost_results(study: Study) -> dict[str, Any] | None:
    """What was measured of the cost, and how long every stage took; None if it is not measured."""
    if study.cost_config is None:
        return None
    cost = study.cost
    return {
        "config": dataclasses.asdict(study.cost_config),
        "machine": cost.machine,
        "bench": bench_results(cost.bench),
        "scaling": cost.scaling,
        "wall_clock": wall_clock_results(cost.wall_clock),
        "stage_seconds": study.stage_seconds(),
    }


def bench_results(bench: BenchResult) -> dict[str, Any]:
    """A bench as JSON tells it: every field, and what follows from the ratios of its targets."""
    told = ("ratio", "low", "high", "outcome")
    targets = [
        {**vars(target), **{name: getattr(target, name) for name in told}}
        for target in bench.targets
    ]
    return {**vars(bench), "targets": targets}


def wall_clock_results(found: WallClock) -> dict[str, Any]:
    """Times of a time step as JSON tells them: every field, and the ratios to ``full``."""
    points = [
        {**vars(point), "ratios": point.ratios, "ideal": point.ideal} for point in found.points
    ]
    return {**vars(found), "points": points}


def reference_results(study: Study) -> dict[str, Any]:
    """The reference protocol's part of ``results.json``."""
    result = study.reference
    return {
        "baseline": study.config.baseline,
        "idea": study.config.schedule,
        "comparison": result.comparison,
        "criteria": result.criteria,
        "signature": result.signature,
    }


def _arm(study: Study, arm: str) -> dict[str, Any]:
    population, grid = study.population(arm), study.grid(arm)
    shape = grid.scores.shape
    return {
        "learning_rates": grid.learning_rates,
        "seeds": study.config.seeds,
        "test_mse": grid.scores,
        "grid_seeds": grid.grid_seeds,
        "grid_means": grid.means,
        "selected": grid.selected,
        "selected_at_edge": grid.at_edge,
        "final_train_loss": population.train_loss[-1].reshape(shape),
        "final_validation_loss": population.validation_loss[-1].reshape(shape),
        "ledger": population.test_ledger,
        "divergences": population.divergences,
    }


def jsonable(value: Any) -> Any:
    """Plain JSON for dataclasses, arrays and numbers; what is not finite becomes None."""
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def validate(report: Any, schema: str) -> None:
    """Checks a report against ``schemas/NAME.schema.json`` of the package.

    Raises:
        jsonschema.ValidationError: if it does not conform.
    """
    place = resources.files("clusterdyn.report").joinpath(f"schemas/{schema}.schema.json")
    jsonschema.Draft202012Validator(json.loads(place.read_text("utf-8"))).validate(report)


def dump(report: Any) -> str:
    """JSON text, the same bytes for the same values; what is not finite is null."""
    return json.dumps(jsonable(report), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
