"""The strict verdict on one schedule: against the full sweep and a random choice, in a minute."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clusterdyn.arms import arm_schedule, study_graph
from clusterdyn.artifacts import ArtifactStore, default_root
from clusterdyn.config import StudyConfig
from clusterdyn.contract import check_schedule
from clusterdyn.execution import train_all, workers_of
from clusterdyn.profiles import strict_config, study_config
from clusterdyn.schedules import Schedule
from clusterdyn.schedules.own import own_name
from clusterdyn.strict.arms import BASELINE, Arm, at_work, nodes_per_sweep, sweeps_of
from clusterdyn.strict.claims import Claim, Pair, adjusted_claims
from clusterdyn.strict.config import StrictConfig
from clusterdyn.strict.selection import select_rates
from clusterdyn.strict.study import ArmResult, arm_result
from clusterdyn.strict.tables import claims_table
from clusterdyn.tables import Table

RANDOM = "random"
FAMILY = "trial"
WORK_TOLERANCE = 0.1  # by which node updates may differ and still be called equal
_SENTENCES = {
    "helps": "is better than",
    "harms": "is worse than",
    "equivalent": "is equivalent, within the margin, to",
    "unclear": "is not shown to differ from",
}


@dataclass(frozen=True)
class Trial:
    """What the strict protocol says of a schedule.

    Attributes:
        schedule: as text.
        config: the settings.
        strict: of the protocol.
        test_seeds: (n,).
        arms: the full sweep, the schedule at the study's sweeps and, if that is another number, at
            the full sweep's node updates; then random choices at the node updates of both.
        claims: the schedule against the full sweep and against random choices, adjusted by Holm's
            method over all of them.
    """

    schedule: str
    config: StudyConfig
    strict: StrictConfig
    test_seeds: np.ndarray
    arms: tuple[ArmResult, ...]
    claims: tuple[Claim, ...]

    def arm(self, label: str) -> ArmResult:
        """An arm by its label."""
        (found,) = (arm for arm in self.arms if arm.label == label)
        return found

    def sweeps(self, arm: ArmResult) -> int:
        """K of an arm."""
        return int(dict(arm.changes).get("sweeps", self.config.sweeps))

    def verdict(self) -> str:
        """The claims in sentences, as Markdown."""
        told = [self._sentence(claim) for claim in self.claims]
        return "\n\n".join([f"**`{self.schedule}`**, {len(self.test_seeds)} test seeds.", *told])

    def _sentence(self, claim: Claim) -> str:
        before, after = self.arm(claim.baseline), self.arm(claim.treatment)
        ratio = claim.comparison.ratio
        work = after.node_updates / before.node_updates
        equal = abs(work - 1) <= WORK_TOLERANCE
        return (
            f"With K = {self.sweeps(after)} it {_SENTENCES[claim.verdict]} `{before.schedule}` "
            f"with K = {self.sweeps(before)}, at "
            f"{'the same' if equal else f'{work:.3g} times the'} node updates: test MSE "
            f"{ratio.ratio:.2f} times as large, 95 % interval {ratio.low:.2f} to {ratio.high:.2f}, "
            f"p = {claim.adjusted_p:.2g} after Holm's adjustment over {len(self.claims)} "
            "comparisons."
        )

    def comparisons(self) -> Table:
        """Every claim."""
        return claims_table(self.claims, "the schedule against the full sweep and random choices")

    def ledger(self) -> Table:
        """Every arm: what it did, what was selected and how it scored."""
        rows = [
            (
                arm.schedule,
                self.sweeps(arm),
                arm.node_updates,
                float(arm.share.mean(axis=0).min()),
                float(arm.share.mean(axis=0).max()),
                int(arm.largest_age.max()),
                f"{arm.rate:g}",
                arm.at_edge,
                float(arm.test_mse.mean()),
                arm.test_diverged,
            )
            for arm in self.arms
        ]
        return Table(
            (
                "schedule", "K", "node updates", "smallest share", "largest share", "longest wait",
                "learning rate", "at edge", "mean test MSE", "diverged",
            ),
            rows,
            "Every arm: sweeps and mean node updates a time step; mean share of the updates that "
            "went to the cluster with the fewest and the most; the most sweeps that a node has "
            f"waited; the learning rate that the validation split of "
            f"{len(self.strict.selection_seeds)} seeds chose and whether it is an edge of the "
            f"grid; mean test MSE in standardised units over {len(self.test_seeds)} test seeds; "
            "and test seeds whose model diverged (scored as persistence).",
        )  # fmt: skip


def try_schedule(
    schedule: str | type[Schedule],
    profile: str = "full",
    settings: dict[str, Any] | None = None,
    artifacts: str | Path = "",
    *,
    executor: Executor | None = None,
    progress: Callable[[str], None] = print,
) -> Trial:
    """Checks a schedule's contract, then selects, freezes and tests it beside two baselines.

    The protocol is that of the strict study, and so are the arms that it has already trained. A
    class that a notebook cell defines is trained in this process, anew each time.

    Args:
        schedule: as text, or its class.
        profile, settings, artifacts: as of ``open_study``.
        executor: trains populations side by side; a process for each core by default.
        progress: called with one line a block of work.

    Raises:
        ValueError: for a profile without the strict protocol, and as ``open_study`` and
            ``check_schedule``.
    """
    name = own_name(schedule)
    config, strict = study_config(profile, settings), strict_config(profile, settings)
    if strict is None:
        raise ValueError(f"profile {profile} has no strict protocol to try a schedule by; use full")
    check_schedule(arm_schedule(config, name), study_graph(config))
    pairs = trial_pairs(config, name)
    arms = list(dict.fromkeys(arm for pair in pairs for arm in pair))
    store = ArtifactStore(Path(artifacts) if artifacts else default_root(), progress)
    with workers_of(executor) as pool:

        def train(runs: Any) -> dict:
            return train_all(runs, store, executor=pool, what="trial")

        selections = select_rates(arms, config, strict, train)
        runs = {arm: arm.run(config, strict.test_seeds, (selections[arm].rate,)) for arm in arms}
        populations = train(list(runs.values()))
    found = {
        arm: arm_result(arm, runs[arm], selections[arm], populations[runs[arm]]) for arm in arms
    }
    seeds = np.array(strict.test_seeds)
    claims = adjusted_claims(FAMILY, [_pair(found[a], found[b]) for a, b in pairs], seeds)
    order = sorted(arms, key=lambda arm: (BASELINE, name, RANDOM).index(arm.schedule))
    return Trial(name, config, strict, seeds, tuple(found[arm] for arm in order), tuple(claims))


def trial_pairs(config: StudyConfig, schedule: str) -> list[tuple[Arm, Arm]]:
    """What a schedule is compared with: (baseline, the schedule), each pair once.

    Args:
        config: the settings.
        schedule: as text.

    Raises:
        ValueError: for the baselines themselves.
    """
    if schedule in (BASELINE, RANDOM):
        raise ValueError(f"{schedule} is what schedules are tried against; try another one")
    full, own = Arm(BASELINE), Arm(schedule)
    work = nodes_per_sweep(config, BASELINE) * config.sweeps
    at_full_work = at_work(config, schedule, round(work))
    pairs = [(full, own)]
    if at_full_work is not None:
        pairs.append((full, at_full_work))
    for arm in dict.fromkeys((own, at_full_work)):
        if arm is not None:
            done = nodes_per_sweep(config, schedule) * sweeps_of(config, arm)
            other = at_work(config, RANDOM, round(done))
            pairs += [(other, arm)] if other is not None else []
    return list(dict.fromkeys(pairs))


def _pair(before: ArmResult, after: ArmResult) -> Pair:
    return Pair(
        f"{after.label} instead of {before.label}",
        before.label,
        after.label,
        (before.test_mse, after.test_mse),
    )
