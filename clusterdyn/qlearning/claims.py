"""Every comparison that the study of learned schedules claims anything from."""

from dataclasses import dataclass

import numpy as np

from clusterdyn.arms import arm_schedule
from clusterdyn.config import StudyConfig
from clusterdyn.qlearning.arms import RETRAINED
from clusterdyn.qlearning.study import FrozenResult, LearnedResult, RunTimeScore
from clusterdyn.strict.claims import Claim, Pair, adjusted_claims
from clusterdyn.strict.study import ArmResult

FAMILIES = {
    "frozen": "policies learned on frozen models against other schedules of the same models, at "
    "the same node updates",
    "joint": "policies learned beside their models against other trained arms, at the same node "
    "updates",
    "reward": "the fall of the loss as reward instead of the fall of the residual",
    "exploration": "models trained anew without exploration under the tables that joint training "
    "has left",
}
SAME_WORK = 1e-3  # of the node updates: they are means of counts


@dataclass(frozen=True)
class LearnedClaims:
    """Every claim of every family."""

    claims: tuple[Claim, ...]


def learned_claims(result: LearnedResult, config: StudyConfig) -> tuple[Claim, ...]:
    """Every claim of every family, adjusted by Holm's method within it.

    Schedules that need the answer are measured but not compared with: they are no methods.

    Args:
        result: what was measured.
        config: the settings that it was measured under.
    """
    families = {
        "frozen": [pair for frozen in result.frozen for pair in _on_frozen(frozen)],
        "joint": _beside_models(result, config),
        "reward": [pair for frozen in result.frozen for pair in _rewards_on_frozen(frozen)]
        + _rewards_beside_models(result),
        "exploration": _exploration(result),
    }
    return tuple(
        claim
        for family, pairs in families.items()
        for claim in adjusted_claims(family, pairs, result.test_seeds)
    )


def setting_name(frozen: FrozenResult) -> str:
    """A setting of frozen models in words."""
    return f"trained with {frozen.base}, run with {frozen.sweeps} sweeps"


def _on_frozen(frozen: FrozenResult) -> list[Pair]:
    return [
        _at_run_time(frozen, peer, learned)
        for learned in frozen.scores
        for peer in frozen.peers
        if _same_work(peer, learned) and not peer.needs_answer
    ]


def _rewards_on_frozen(frozen: FrozenResult) -> list[Pair]:
    by_kind = {
        (learned.policy.ordered, learned.policy.reward): score
        for learned, score in zip(frozen.learned, frozen.scores, strict=True)
    }
    return [
        _at_run_time(frozen, by_kind[ordered, "residual"], score)
        for (ordered, reward), score in by_kind.items()
        if reward == "loss"
    ]


def _at_run_time(frozen: FrozenResult, before: RunTimeScore, after: RunTimeScore) -> Pair:
    where = setting_name(frozen)
    return Pair(
        f"{after.label} instead of {before.label}, {where}",
        f"{before.label}, {where}",
        f"{after.label}, {where}",
        (before.test_mse, after.test_mse),
    )


def _beside_models(result: LearnedResult, config: StudyConfig) -> list[Pair]:
    return [
        _trained(peer, joint.arm)
        for joint in result.joint
        for peer in result.peers
        if _same_work(peer, joint.arm) and not arm_schedule(config, peer.schedule).needs_answer
    ]


def _rewards_beside_models(result: LearnedResult) -> list[Pair]:
    by_kind = {(joint.policy.ordered, joint.policy.reward): joint.arm for joint in result.joint}
    return [
        _trained(by_kind[ordered, "residual"], arm)
        for (ordered, reward), arm in by_kind.items()
        if reward == "loss" and (ordered, "residual") in by_kind
    ]


def _exploration(result: LearnedResult) -> list[Pair]:
    joint = {joint.arm.label: joint.arm for joint in result.joint}
    return [_trained(joint[arm.label.removesuffix(RETRAINED)], arm) for arm in result.retrained]


def _trained(before: ArmResult, after: ArmResult) -> Pair:
    return Pair(
        f"{after.label} instead of {before.label}",
        before.label,
        after.label,
        (before.test_mse, after.test_mse),
    )


def _same_work(first: RunTimeScore | ArmResult, second: RunTimeScore | ArmResult) -> bool:
    return bool(np.isclose(first.node_updates, second.node_updates, rtol=SAME_WORK))
