"""What the experiments beyond the published setting found, in sentences from their results."""

from collections.abc import Sequence

from clusterdyn.limits.experiments import EQUAL_SWEEPS, EXPERIMENTS, GRU_EXPERIMENTS, in_full
from clusterdyn.limits.tables import places
from clusterdyn.protocol import Study
from clusterdyn.strict.claims import Claim

_SENSES = {
    "helps": "better",
    "harms": "worse",
    "equivalent": "equivalent",
    "unclear": "not clearly different",
}
_CONVERGED = 1e-6  # of the first residual: less than float32 resolves


def limits(study: Study) -> str:
    """Closes notebook 10."""
    parts = [
        _experiment(study, name)
        for name in EXPERIMENTS
        if name not in GRU_EXPERIMENTS and places(study, name)
    ]
    return "\n\n".join([*parts, _settling(study), _law(study)])


def gru(study: Study) -> str:
    """Closes notebook 11."""
    found = [name for name in GRU_EXPERIMENTS if places(study, name)]
    if not found:
        reasons = [out.reason for out in study.limits.result.left_out if out.experiment == "gru"]
        return f"Nothing was measured: {'; '.join(reasons)}."
    parts = [_experiment(study, name) for name in found]
    (place,) = places(study, "gru")
    parts.append(
        "**The same cell.** With all units moving at once, predictions differ from those of "
        f"`torch.nn.GRUCell` with the same weights by at most {place.torch_difference.max():.1g} "
        "in float64."
    )
    return "\n\n".join(parts)


def verdicts(study: Study, experiment: str) -> str:
    """An experiment's verdicts against the full sweep and against a random choice."""
    told = [
        f"Against {words}: {_by_verdict(found)}."
        for against, words in (("full", "the full sweep"), ("random", "a random choice"))
        if (found := study.limits.family(f"{experiment}_{against}"))
    ]
    return " ".join(told)


def _experiment(study: Study, experiment: str) -> str:
    found = [
        claim for claim in study.limits.family(f"{experiment}_random") if claim.verdict != "helps"
    ]
    beaten = ""
    if found:
        names = "; ".join(claim.step.removesuffix(" instead of random") for claim in found)
        beaten = f" Not shown to beat a random choice: {names}."
    heading = in_full(experiment)
    if experiment not in EQUAL_SWEEPS:
        heading += ", at equal work"
    return f"**{heading}.** {verdicts(study, experiment)}{beaten}"


def _by_verdict(claims: Sequence[Claim]) -> str:
    counts = {
        sense: sum(claim.verdict == verdict for claim in claims)
        for verdict, sense in _SENSES.items()
    }
    told = ", ".join(f"{count} {sense}" for sense, count in counts.items() if count)
    return f"of {len(claims)} comparisons {told}"


def _settling(study: Study) -> str:
    found = [place for place in places(study, "sweeps") if place.settling is not None]
    converged = [place.name for place in found if place.settling.left.max() < _CONVERGED]
    told = [
        f"{place.name}: {place.settling.at_end.mean():.2g} of the first residual is left after the "
        f"trained sweeps, and the first prediction's MSE goes from "
        f"{place.settling.trained_mse.mean():.2g} to {place.settling.settled_mse.mean():.2g} when "
        "the sweeps are carried on"
        for place in found
    ]
    return (
        f"**Do the sweeps converge?** All models of {len(converged)} of {len(found)} numbers of "
        f"sweeps reach a fixed point ({', '.join(converged) or 'none'}). {'; '.join(told)}. Where "
        "the error rises on the way to the fixed point, what the read-out uses is the transient."
    )


def _law(study: Study) -> str:
    laws = [place.law for place in study.limits.result.places if place.law is not None]
    if not laws:
        return "**The η² law** is not re-measured: no other graph or partition fits."
    inside = sum(found.law.slope_low >= 1.9 and found.law.slope_high <= 2.1 for found in laws)
    means = [found.law.slope.mean() for found in laws]
    error = max(found.law.coefficient_error[0].max() for found in laws)
    control = max(found.independent_sets.max() for found in laws)
    return (
        f"**The η² law.** At {inside} of {len(laws)} other graphs and partitions the slope's 90 % "
        f"interval lies in [1.9, 2.1]; mean slopes run from {min(means):.4f} to {max(means):.4f}. "
        f"The predicted coefficient is off by at most {error:.2%} at the smallest η, and the "
        f"largest difference within an independent set is {control:g}. The law holds for any "
        "smooth update, so it says nothing about whether a schedule helps."
    )
