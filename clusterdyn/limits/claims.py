"""Every comparison away from the study's own setting, family by family."""

from dataclasses import dataclass

from clusterdyn.limits.experiments import EQUAL_SWEEPS, EXPERIMENTS
from clusterdyn.limits.study import LimitsResult, PlaceResult
from clusterdyn.strict.arms import BASELINE
from clusterdyn.strict.claims import Claim, Pair, adjusted_claims

RANDOM = "random"
AGAINST = {"full": BASELINE, "random": RANDOM}
FAMILIES = {
    f"{experiment}_{against}": f"{words}: every schedule against {name}"
    + ("" if experiment in EQUAL_SWEEPS else ", at the same node updates")
    for experiment, words in EXPERIMENTS.items()
    for against, name in (("full", "the full sweep"), ("random", "a random one"))
}


@dataclass(frozen=True)
class LimitsClaims:
    """Every claim of every family."""

    claims: tuple[Claim, ...]


def limits_claims(result: LimitsResult) -> LimitsClaims:
    """Every claim of every family, adjusted by Holm's method within it.

    Args:
        result: what was measured.
    """
    found = []
    for experiment in EXPERIMENTS:
        places = [place for place in result.places if place.experiment == experiment]
        for against, baseline in AGAINST.items():
            pairs = [pair for place in places for pair in _pairs(place, baseline)]
            found += adjusted_claims(f"{experiment}_{against}", pairs, result.test_seeds)
    return LimitsClaims(tuple(found))


def _pairs(place: PlaceResult, baseline: str) -> list[Pair]:
    """The arms of a place against one of them; the full sweep is not told against a random one,
    since that is the same comparison turned round."""
    before = next((arm for arm in place.arms if arm.schedule == baseline), None)
    if before is None:
        return []
    return [
        Pair(
            f"{place.name}: {after.schedule} instead of {baseline}",
            before.label,
            after.label,
            (before.test_mse, after.test_mse),
        )
        for after in place.arms
        if after.schedule not in (baseline, BASELINE)
    ]
