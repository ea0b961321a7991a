"""What the strict study found of clusters that starve, in sentences made from its results."""

import numpy as np

from clusterdyn.display import listed
from clusterdyn.protocol import Study
from clusterdyn.strict.tables import arms_by_cluster

KEPT = 0.99  # of the sweeps: from here on a trajectory is said to keep its cluster


def starvation_by_cluster(study: Study) -> str:
    """Which schedules leave a cluster without an update on the whole test split."""
    largest = {arm.label: arm.share.max(axis=1).mean() for arm in arms_by_cluster(study)}
    idle = {arm.label: (arm.share == 0).any(axis=1).sum() for arm in arms_by_cluster(study)}
    starved = [f"`{name}` on {count} seeds" for name, count in idle.items() if count]
    most = max(largest, key=largest.get)
    return (
        f"**Starvation** at K = {study.config.sweeps}. `{most}` gives {largest[most]:.0%} of its "
        f"updates to one cluster on average, the most of all; an even schedule gives "
        f"{1 / study.config.clusters:.0%}. "
        + (
            f"Some cluster gets no update on the whole test split in {listed(starved)}."
            if starved
            else "No schedule leaves a cluster without an update."
        )
    )


def starvation_by_sweep(study: Study) -> str:
    """How alike the trajectories are treated in a sweep, and how often a sweep is repeated."""
    choices = study.strict.sweep_choices
    _, seeds, sweeps, clusters = choices.share.shape
    largest = choices.share.max(axis=-1).mean(axis=(1, 2))  # (A,)
    repeats = choices.repeats.mean(axis=(1, 2))  # (A,)
    told = "; ".join(
        f"`{name}` {share:.0%} and {again:.0%}"
        for name, share, again in zip(choices.schedules, largest, repeats, strict=True)
    )
    return (
        f"**Sweep by sweep**, over the {sweeps} sweeps of a rollout on {seeds} test seeds. The "
        "share of trajectories that the most updated cluster of a sweep gets "
        f"({1 / clusters:.0%} if all clusters get the same), and how often a trajectory's sweep "
        f"updates the cluster of the sweep before ({1 / clusters:.0%} by lot): {told}. "
        f"{_kept(study)}"
    )


def _kept(study: Study) -> str:
    """The schedules under which trajectories keep their cluster, and how even these look."""
    choices = study.strict.sweep_choices
    kept = choices.repeats.mean(axis=(1, 2)) >= KEPT  # (A,)
    if not kept.any():
        return f"Under no schedule is a cluster kept in {KEPT:.0%} of the sweeps."
    names = np.array(choices.schedules)[kept]
    shares = choices.share.mean(axis=(1, 2)).max(axis=-1)[kept]  # of the most updated cluster
    return (
        f"In at least {KEPT:.0%} of the sweeps a trajectory keeps its cluster, so that the others "
        f"starve in it, under {listed(f'`{name}`' for name in names)}; of all updates the most "
        f"updated cluster gets {listed(f'{share:.0%}' for share in shares)}."
    )
