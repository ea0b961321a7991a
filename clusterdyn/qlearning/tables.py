"""The study of learned schedules as it is read: summaries, and the tables of notebook 09."""

from collections.abc import Iterable

import numpy as np

from clusterdyn.protocol import Study
from clusterdyn.qlearning.arms import RETRAINED
from clusterdyn.qlearning.claims import FAMILIES
from clusterdyn.qlearning.policy import Policy
from clusterdyn.qlearning.states import histogram_states
from clusterdyn.qlearning.study import FrozenResult, RunTimeScore
from clusterdyn.strict.claims import Claim
from clusterdyn.strict.study import ArmResult
from clusterdyn.strict.tables import claims_table
from clusterdyn.tables import Table


def claims(study: Study, family: str) -> Table:
    """Every comparison of a family."""
    return claims_table(study.learned.family(family), FAMILIES[family])


def against_random(study: Study) -> list[Claim]:
    """The claims of all learned schedules against a random one at the same work."""
    return [
        claim
        for family in ("frozen", "joint")
        for claim in study.learned.family(family)
        if claim.baseline.startswith("random")
    ]


def short(claim: Claim) -> str:
    """What a claim is about, in two lines: the treatment, and how its models were trained."""
    name, _, where = claim.treatment.partition(", trained with ")
    name = name.replace("(reward=", " (").replace(RETRAINED, "\nretrained without exploration")
    if where:
        base, _, sweeps = where.partition(", run with ")
        return f"{name}\n{base} models, K = {sweeps.removesuffix(' sweeps')}"
    return name if "\n" in name else f"{name}\ntrained with its models"


def joint_arms(study: Study) -> list[ArmResult]:
    """Joint arms and those that were trained anew."""
    result = study.learned.result
    return [*(joint.arm for joint in result.joint), *result.retrained]


def by_work(
    scores: Iterable[RunTimeScore | ArmResult],
) -> dict[int, list[RunTimeScore | ArmResult]]:
    """Scores by their node updates a time step, ascending, each group from the best mean on."""
    groups: dict[int, list] = {}
    for score in sorted(scores, key=lambda score: score.test_mse.mean()):
        groups.setdefault(round(score.node_updates), []).append(score)
    return dict(sorted(groups.items()))


def mean_bin(policy: Policy) -> np.ndarray:
    """(X,): the mean bin of the nodes in each state of the largest cluster, from 0 to m - 1."""
    nodes = int(np.bincount(policy.labels).max())
    return histogram_states(nodes, policy.bins) @ np.arange(policy.bins) / nodes


def state_values(policy: Policy) -> np.ndarray:
    """(S, X): value of each state, mean over clusters weighted by visits; NaN where never met."""
    visits = policy.visits.sum(axis=1)
    total = (policy.values * policy.visits).sum(axis=1)
    return np.divide(total, visits, out=np.full(total.shape, np.nan), where=visits > 0)


def bin_correlation(policy: Policy) -> np.ndarray:
    """(S,): correlation of a state's value with the mean bin of its nodes, over visits."""
    level, values = mean_bin(policy), state_values(policy)
    found = []
    for row, visits in zip(values, policy.visits.sum(axis=1), strict=True):
        met = visits > 0
        covariance = np.cov(level[met], row[met], fweights=visits[met])
        found.append(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]))
    return np.array(found)


def policies(study: Study) -> Table:
    """Every policy that was learned on frozen models."""
    rows, result = [], study.learned.result
    for frozen in result.frozen:
        for learned, score in zip(frozen.learned, frozen.scores, strict=True):
            policy = learned.policy
            rows.append(
                (
                    f"{frozen.base}, K = {frozen.sweeps}",
                    score.label,
                    score.node_updates,
                    float((policy.visits > 0).mean()),
                    float(bin_correlation(policy).mean()),
                    float(score.test_mse.mean()),
                    float(peer_of(frozen, score, "random").test_mse.mean()),
                    float(score.largest_age.mean()),
                )
            )
    return Table(
        (
            "trained with",
            "policy",
            "node updates",
            "entries visited",
            "value with bin, r",
            "mean test MSE",
            "random at this work",
            "largest age [sweeps]",
        ),
        rows,
        "Policies learned on models whose weights stay as they are, means over "
        f"{len(result.test_seeds)} test seeds: node updates a time step, the share of a table's "
        "entries that was ever visited, the correlation of a state's value with the mean bin of "
        "its nodes, test MSE in standardised units, that of a random choice at the same work, and "
        "the most sweeps that any node waited.",
    )


def peer_of(frozen: FrozenResult, score: RunTimeScore, start: str) -> RunTimeScore:
    """The schedule at a policy's node updates whose label starts like this."""
    (found,) = (
        peer
        for peer in frozen.peers
        if peer.label.startswith(start) and np.isclose(peer.node_updates, score.node_updates)
    )
    return found


def arms(study: Study) -> Table:
    """Joint arms, those trained anew, and whom they are compared with."""
    result = study.learned.result
    rows = [
        (
            arm.label,
            f"{arm.rate:g}",
            arm.at_edge,
            arm.node_updates,
            len(arm.test_mse),
            float(arm.test_mse.mean()),
            arm.test_diverged,
        )
        for arm in (*joint_arms(study), *result.peers)
    ]
    return Table(
        (
            "arm",
            "learning rate",
            "at edge",
            "node updates",
            "seeds",
            "mean test MSE",
            "diverged",
        ),
        rows,
        "Arms that are trained: the learning rate that the validation split chose, on the same "
        "grid and seeds for all, and whether it is still an edge of the grid, node updates a time "
        "step, test seeds, mean test MSE in standardised units, and test seeds whose model "
        "diverged (scored as persistence).",
    )
