"""The parts of ``results.json`` that the strict protocol makes, and what the index says of it."""

import dataclasses
from typing import Any

from clusterdyn.limits.study import PlaceResult
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


def limits_results(study: Study) -> dict[str, Any] | None:
    """What was measured and claimed beyond the published setting; None if nothing was."""
    if study.limits_config is None:
        return None
    result = study.limits.result
    return {
        "config": dataclasses.asdict(study.limits_config),
        "test_seeds": result.test_seeds,
        "places": [_place(place) for place in result.places],
        "left_out": result.left_out,
        "claims": [vars(claim) for claim in study.limits.claims],
    }


def _place(place: PlaceResult) -> dict[str, Any]:
    law = settling = None
    if place.law is not None:
        found = place.law.law
        law = {name: getattr(found, name) for name in ("slope", "slope_low", "slope_high")}
        law["coefficient_error"] = found.coefficient_error[0]
        law["richardson_error"] = found.richardson_error[0]
        law["independent_sets"] = place.law.independent_sets
    if place.settling is not None:
        names = ("sweeps", "at_end", "left", "trained_mse", "settled_mse")
        settling = {name: getattr(place.settling, name) for name in names}
    return {
        "experiment": place.experiment,
        "name": place.name,
        "arms": [{**vars(arm), "rate": arm.rate} for arm in place.arms],
        "left_out": place.left_out,
        "law": law,
        "settling": settling,
        "torch_difference": place.torch_difference,
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
