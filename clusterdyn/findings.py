"""What was found, in sentences whose numbers come from the results."""

import numpy as np

from clusterdyn.arms import arm_schedule
from clusterdyn.datasets import Dataset
from clusterdyn.mechanism import RELAXATIONS
from clusterdyn.protocol import Study


def data(study: Study) -> str:
    """Closes notebook 01."""
    config = study.config
    first, second = (study.datasets[seed] for seed in config.seeds[:2])
    # In physical units: every seed has moments of its own. Rounded, since they were standardised.
    splits = [_rows(first, name) for name in ("train", "validation", "test")]
    shared = len(splits[0] & _rows(second, "train"))
    overlap = sum(len(a & b) for i, a in enumerate(splits) for b in splits[i + 1 :])
    last = first.test.states[:, -1] - first.test.states[:, 0]
    persistence = float(np.mean((first.test.states[:, 1:] - first.test.states[:, :1]) ** 2))
    return (
        f"Each seed brings {config.train_trajectories} training, "
        f"{config.validation_trajectories} validation and {config.test_trajectories} test "
        f"trajectories of {config.horizon} steps. Seeds {config.seeds[0]} and {config.seeds[1]} "
        f"share {shared} training trajectories, and the splits of one seed share {overlap}. "
        f"The states move by {np.abs(last).mean():.2g} standard deviations over the horizon on "
        f"average; predicting that nothing changes would cost an MSE of {persistence:.3g} on seed "
        f"{config.seeds[0]}'s test split. Data, weights and minibatches depend on the seed alone, "
        "so two arms on one seed are a true pair."
    )


def _rows(dataset: Dataset, split: str) -> set[bytes]:
    """The trajectories of a split, each as the bytes of its torques and its first state."""
    trajectories, moments = getattr(dataset, split), dataset.standardisation
    torques = trajectories.controls * moments.control_std + moments.control_mean
    states = trajectories.states[:, 0] * moments.state_std + moments.state_mean
    rows = np.concatenate([torques.reshape(len(torques), -1), states], axis=1)
    return {row.tobytes() for row in rows.round(9) + 0.0}


def training(study: Study) -> str:
    """Closes notebook 02."""
    config = study.config
    parts = []
    for arm in (config.baseline, config.schedule):
        grid = study.grid(arm)
        edge = (
            "which is an edge of the grid, so a better rate may lie outside"
            if grid.at_edge
            else "inside the grid"
        )
        parts.append(
            f"**{arm}** does best at learning rate {grid.learning_rate:g}, {edge}: mean test MSE "
            f"{grid.selected_scores.mean():.4g} over {len(grid.scores)} seeds."
        )
    diverged = [d for arm in (config.baseline, config.schedule)
                for d in study.population(arm).divergences]  # fmt: skip
    names = ", ".join(
        f"seed {d.seed} at learning rate {d.learning_rate:g}, step {d.step}" for d in diverged
    )
    parts.append(f"{len(diverged)} models diverged: {names}." if diverged else "No model diverged.")
    clusters = arm_schedule(config, config.schedule).partition.clusters
    book = study.population(config.schedule).test_ledger
    rows = slice(study.grid(config.schedule).selected, None, len(config.learning_rates))
    share = book.share[rows].mean(axis=0)
    baseline = study.population(config.baseline).test_ledger.node_updates.mean()
    work = book.node_updates[rows].mean() / baseline
    parts.append(
        f"At test **{config.schedule}** gives {share.max():.0%} of its updates to cluster "
        f"{share.argmax()}; an even schedule would give {1 / clusters:.0%}. A node waits for up "
        f"to {book.largest_age[rows].max()} of the {config.sweeps * config.horizon} sweeps of a "
        f"rollout. It does {work:.0%} of the baseline's node updates, so the comparison mixes the "
        "choice of cluster with the amount of work."
    )
    return " ".join(parts)


def significance(study: Study) -> str:
    """Closes notebook 03."""
    result, c = study.reference, study.reference.comparison
    rate = c.win_rate
    floor = (
        "the smallest value that this many pairs can give"
        if c.test.pvalue <= c.test.min_attainable_pvalue
        else f"where the smallest possible is {c.test.min_attainable_pvalue:.4g}"
    )
    return (
        f"**{study.config.schedule}** against **{study.config.baseline}**: Δ = "
        f"{c.mean_difference:+.4g} in test MSE ({c.t_interval.confidence_level:.0%} t interval "
        f"[{c.t_interval.low:.4g}, "
        f"{c.t_interval.high:.4g}], n = {len(c.differences)} paired seeds), {rate.wins} wins, "
        f"{rate.ties} ties and {rate.losses} losses; two-sided sign-flip p = {c.test.pvalue:.4g}, "
        f"{floor}. Verdict: {result.verdict}; in practice the idea {_practice(study)}. Learning "
        "rates were chosen on this same test score, so the figures describe this trial and carry "
        "no claim beyond it."
    )


def mechanism(study: Study) -> str:
    """Closes notebook 04."""
    checks = [study.mechanism(arm) for arm in (study.config.baseline, study.config.schedule)]
    laws = [law for check in checks for law in check.laws]
    slopes = [law.slope.mean() for law in laws]
    coefficient = max(law.coefficient_error[0].max() for law in laws)
    richardson = max(law.richardson_error[0].max() for law in laws)
    view = study.reference.signature
    return (
        f"Mean slopes lie between {min(slopes):.3f} and {max(slopes):.3f}; at η = "
        f"{RELAXATIONS[0]:g} the predicted coefficient is off by {coefficient:.2%} at most, and by "
        f"{richardson:.4%} after extrapolation. The published view (float32, η from "
        f"{view.relaxations.min():g} to {view.relaxations.max():g}) has a slope of "
        f"{view.slope[0]:.3f} on seed {study.config.seeds[0]} and "
        f"{view.slope.min():.3f} to {view.slope.max():.3f} over all seeds. The mechanism check "
        f"{'passes' if study.reference.mechanism_ok else 'does not pass'}. This law holds for any "
        "smooth update: it shows that the sweeps are implemented as written, and it says nothing "
        "about whether choosing clusters helps."
    )


def _practice(study: Study) -> str:
    return {
        "helps": "helps",
        "harms": "harms",
        "equivalent": "makes no difference that matters",
        "unclear": "is unclear: neither a difference nor equivalence is shown",
    }[study.reference.practical_verdict]


def headline(study: Study) -> str:
    """The verdict in one sentence."""
    c, config = study.reference.comparison, study.config
    rate = c.win_rate
    sense = {
        "helps": f"Choosing clusters by {config.schedule} helps",
        "harms": f"Choosing clusters by {config.schedule} harms",
        "equivalent": f"Choosing clusters by {config.schedule} makes no difference that matters",
        "unclear": f"Whether choosing clusters by {config.schedule} helps is unclear",
    }[study.reference.practical_verdict]
    return (
        f"{sense}: mean test MSE {c.treatment.mean():.4f} against {c.baseline.mean():.4f} for "
        f"{config.baseline}, better on {rate.wins} of {len(c.differences)} paired seeds, "
        f"sign-flip p = {c.test.pvalue:.4f}."
    )
