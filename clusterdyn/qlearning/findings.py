"""What the study of learned schedules found, in sentences whose numbers come from its results."""

from collections.abc import Iterable, Sequence

import numpy as np

from clusterdyn.comparison import EQUIVALENCE_MARGIN
from clusterdyn.protocol import Study
from clusterdyn.qlearning.claims import setting_name
from clusterdyn.qlearning.study import FrozenResult, RunTimeScore
from clusterdyn.qlearning.tables import against_random, bin_correlation, short
from clusterdyn.strict.claims import Claim
from clusterdyn.strict.findings import evidence
from clusterdyn.strict.study import ArmResult

_AGAINST = {
    "helps": "beat a random schedule at the same work",
    "equivalent": "are equivalent to it",
    "unclear": "show no clear difference from it",
    "harms": "are worse than it",
}


def learned(study: Study) -> str:
    """Closes notebook 09."""
    parts = [
        learned_headline(study),
        *(_frozen(frozen, study.config.horizon) for frozen in study.learned.result.frozen),
        _joint(study),
        _exploration(study),
        _reward(study),
        _states(study),
    ]
    return "\n\n".join(parts)


def learned_headline(study: Study) -> str:
    """Whether learned schedules beat random ones, with their names."""
    claims = against_random(study)
    told = [
        f"{len(group)} {words} ({_names(group)})"
        for verdict, words in _AGAINST.items()
        if (group := [claim for claim in claims if claim.verdict == verdict])
    ]
    return f"**Against a random schedule.** Of {len(claims)} learned schedules {'; '.join(told)}."


def learned_verdicts(study: Study) -> str:
    """Whether learned schedules beat random ones, counted."""
    claims = against_random(study)
    told = [
        f"{count} {words}"
        for verdict, words in _AGAINST.items()
        if (count := sum(claim.verdict == verdict for claim in claims))
    ]
    return f"Of {len(claims)} learned schedules {'; '.join(told)}."


def _names(claims: Iterable[Claim]) -> str:
    return ", ".join(short(claim).replace("\n", ", ") for claim in claims)


def _frozen(frozen: FrozenResult, horizon: int) -> str:
    """The best policy of a setting beside the best other schedule at its work."""
    sentences = []
    for updates in sorted({round(score.node_updates) for score in frozen.scores}):
        mine = _best(s for s in frozen.scores if round(s.node_updates) == updates)
        other = _best(
            p for p in frozen.peers if round(p.node_updates) == updates and not p.needs_answer
        )
        sentences.append(
            f"At {updates} node updates the best learned schedule is {_scored(mine)} and the best "
            f"other is {_scored(other)}."
        )
        if mine.largest_age.any():
            sentences.append(
                f"Some node waits up to {mine.largest_age.mean():.3g} sweeps under the first and "
                f"{other.largest_age.mean():.3g} under the second, mean over seeds, of "
                f"{horizon * frozen.sweeps} in a rollout."
            )
    falls = [
        f"{learned.policy.name} with the {learned.policy.reward} as reward from {start:.3g} to "
        f"{end:.3g}"
        for learned in frozen.learned
        for start, end in [learned.total_reward[[0, -1]].mean(axis=1)]
        if end < (1 - EQUIVALENCE_MARGIN) * start
    ]
    if falls:
        sentences.append(
            f"On validation the greedy policy earns less than a random one: {'; '.join(falls)}. "
            "A histogram does not tell all that decides the reward: the value of a state is an "
            "average over what the state hides."
        )
    return f"**Models {setting_name(frozen)}.** {' '.join(sentences)}"


def _best(scores: Iterable[RunTimeScore]) -> RunTimeScore:
    return min(scores, key=lambda score: score.test_mse.mean())


def _scored(score: RunTimeScore | ArmResult) -> str:
    return f"`{score.label}` (MSE {score.test_mse.mean():.3g})"


def _joint(study: Study) -> str:
    claims = study.learned.family("joint")
    told = []
    for joint in study.learned.result.joint:
        mine = [claim for claim in claims if claim.treatment == joint.arm.label]
        verdicts = "; ".join(
            f"{words} {_list(claim.baseline for claim in group)}"
            for verdict, words in (
                ("helps", "better than"),
                ("harms", "worse than"),
                ("equivalent", "equivalent to"),
                ("unclear", "not clearly different from"),
            )
            if (group := [claim for claim in mine if claim.verdict == verdict])
        )
        told.append(f"{_scored(joint.arm)}: {verdicts}.")
    return f"**Learned beside the weights.** {' '.join(told)}"


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _exploration(study: Study) -> str:
    told = [
        f"`{claim.baseline}`: {claim.verdict}, {evidence(claim)}"
        for claim in study.learned.family("exploration")
    ]
    return (
        "**What exploration costs.** Weights trained anew without exploration, under the tables "
        f"that joint training has left, against the jointly trained: {'; '.join(told)}."
    )


def _reward(study: Study) -> str:
    counts = _counted(study.learned.family("reward"))
    return (
        "**The answer as reward.** The fall of the loss, which needs the answer while it learns, "
        f"instead of the fall of the residual: {counts}."
    )


def _counted(claims: Sequence[Claim]) -> str:
    return ", ".join(
        f"{verdict} in {count} of {len(claims)}"
        for verdict in ("helps", "harms", "equivalent", "unclear")
        if (count := sum(claim.verdict == verdict for claim in claims))
    )


def _states(study: Study) -> str:
    told, low = [], 0
    for frozen in study.learned.result.frozen:
        for each in frozen.learned:
            found = float(np.mean(bin_correlation(each.policy)))
            low += found < 0
            told.append(
                f"{each.policy.name} ({each.policy.reward}), {frozen.base} models at K = "
                f"{frozen.sweeps}: {found:+.2f}"
            )
    return (
        f"**Which histogram is worth updating.** In {low} of {len(told)} tables a state is worth "
        "more the lower its nodes' bins are; the published idea picks the highest. Correlation of "
        f"value and mean bin over visits, mean over seeds: {'; '.join(told)}."
    )
