"""The strict protocol's part of ``results.json``, and what the index says of it."""

import dataclasses
from typing import Any

from clusterdyn.protocol import Study


def strict_results(study: Study) -> dict[str, Any] | None:
    """All that the strict protocol measured and claims; None if the study does not run it."""
    if study.strict_config is None:
        return None
    result, inference = study.strict, study.inference
    return {
        "config": dataclasses.asdict(study.strict_config),
        "test_seeds": result.test_seeds,
        "arms": [{**vars(arm), "rate": arm.rate} for arm in result.arms],
        "yardsticks": {
            "persistence": result.persistence,
            "linear least squares": result.linear,
        },
        "claims": [vars(claim) for claim in inference.claims],
        "power": inference.power,
        "matrix": {"schedules": result.matrix_schedules, "test_mse": result.matrix},
        "relaxation": {
            "schedules": result.relaxation_schedules,
            "relaxations": result.relaxations,
            "test_mse": result.relaxation_mse,
        },
        "sweep_choices": result.sweep_choices,
    }


def strict_summary(study: Study) -> dict[str, Any] | None:
    """The strict verdict for the index's tiles: how many schedules help, harm, and so on."""
    if study.strict_config is None:
        return None
    claims = study.inference.family("equal_work")
    counts = {
        verdict: sum(claim.verdict == verdict for claim in claims)
        for verdict in ("helps", "harms", "equivalent", "unclear")
    }
    return {"claims": len(claims), "seeds": len(study.strict.test_seeds), **counts}
