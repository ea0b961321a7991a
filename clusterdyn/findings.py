"""What was found, in sentences whose numbers come from the results."""

from collections.abc import Sequence

import numpy as np

from clusterdyn.choices import Choices, choices_at_test, lowest_wins_ties, work_ratio
from clusterdyn.comparison import SIGNIFICANCE, Comparison
from clusterdyn.config import StudyConfig
from clusterdyn.datasets import Dataset
from clusterdyn.mechanism import RELAXATIONS
from clusterdyn.origins import ORIGINS, study_settings
from clusterdyn.protocol import Study
from clusterdyn.recordings import recording_of
from clusterdyn.reference.agreement import Agreement


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


def recording(study: Study) -> str:
    """Closes the page on data from a file: what data of every seed are, and what seeds share."""
    found = recording_of(study.config.data)
    pool, _ = found.windows(study.config.horizon)
    lengths = [len(states) for states in found.states]
    return (
        f"The file holds {len(lengths)} trajectories of {min(lengths)} to {max(lengths)} instants, "
        f"which give {len(pool.states)} windows of {study.config.horizon} time steps. {data(study)}"
        f"\n\n{shared_recording(study)}"
    )


def shared_recording(study: Study) -> str:
    """What intervals over seeds mean where all seeds share a recording; empty for the pendulum."""
    if recording_of(study.config.data) is None:
        return ""
    return (
        "All seeds draw their splits from one recording, so their test windows overlap. Intervals "
        "and p values over seeds tell of splits, weights and orders of this recording; for other "
        "recordings they are too narrow."
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
    parts.append(_choices(study))
    return " ".join(parts)


def _choices(study: Study) -> str:
    """What the idea chose at test, how long a node waits, and how much work that is."""
    config, choices = study.config, choices_at_test(study)
    parts = []
    if choices.clusters > 1:
        parts.append(
            f"At test **{config.schedule}** gives {choices.share.max():.0%} of its updates to "
            f"cluster {choices.share.argmax()}; an even schedule would give "
            f"{1 / choices.clusters:.0%}."
        )
    else:
        parts.append(f"At test **{config.schedule}** updates all nodes at once.")
    if choices.starves:
        parts.append(f"{_still_nodes(choices)}, since {_starved(choices)}.{_ties(study)}")
    parts.append(
        f"A node waits for up to {choices.longest_wait} of the "
        f"{config.sweeps * config.horizon} sweeps of a rollout. {_work(study)}"
    )
    return " ".join(parts)


def _work(study: Study) -> str:
    work = work_ratio(study)
    if np.isclose(work, 1):
        return "It does as many node updates as the baseline."
    return (
        f"It does {work:.0%} of the baseline's node updates, so the comparison mixes the choice "
        "of cluster with the amount of work."
    )


def _starved(choices: Choices) -> str:
    """Which clusters are ever updated, as a part of a sentence."""
    if choices.updated == 1:
        return f"cluster {choices.share.argmax()} is the only one that is ever updated"
    return f"only {choices.updated} of {choices.clusters} clusters are ever updated"


def _still_nodes(choices: Choices) -> str:
    return f"{choices.still_nodes} of {choices.nodes} nodes never move in any test rollout"


def _ties(study: Study) -> str:
    """Whose rule for ties it is, as a sentence to add; empty if it plays no part."""
    if not lowest_wins_ties(study.config):
        return ""
    return (
        " That ties go to the lowest-numbered cluster, as when all tie at h = 0, is this "
        "project's assumption."
    )


def significance(study: Study) -> str:
    """Closes notebook 03."""
    result, c = study.reference, study.reference.comparison
    rate = c.win_rate
    floor = (
        f"the smallest value that {_patterns(c)} can give"
        if c.test.pvalue <= c.test.min_attainable_pvalue
        else f"where the smallest possible is {c.test.min_attainable_pvalue:.4g}"
    )
    return (
        f"**{study.config.schedule}** against **{study.config.baseline}**: Δ = "
        f"{c.mean_difference:+.4g} in test MSE ({c.t_interval.confidence_level:.0%} t interval "
        f"[{c.t_interval.low:.4g}, "
        f"{c.t_interval.high:.4g}], n = {len(c.differences)} paired seeds), {rate.wins} wins, "
        f"{rate.ties} ties and {rate.losses} losses; two-sided sign-flip p = {c.test.pvalue:.4g}, "
        f"{floor}. Verdict: {result.verdict}. {_practice(study)}{_within_margin(study)} Learning "
        "rates were chosen on this same test score, so the figures describe this trial and carry "
        "no claim beyond it."
    )


def p_floor(study: Study) -> str:
    """What bounds the p value from below, as a part of a sentence."""
    comparison = study.reference.comparison
    return f"{_patterns(comparison)} cannot give a p below " + (
        f"{comparison.test.min_attainable_pvalue:.4g}"
    )


def _patterns(comparison: Comparison) -> str:
    """What the sign-flip test counts over."""
    if comparison.test.method == "exact":
        return f"{len(comparison.differences)} pairs"
    return f"{comparison.test.n_permutations} random sign patterns"


def _practice(study: Study) -> str:
    return {
        "helps": "In practice the idea helps.",
        "harms": "In practice the idea harms.",
        "equivalent": "In practice the idea makes no difference that matters.",
        "unclear": "Whether it matters in practice is unclear: neither a difference nor "
        "equivalence is shown.",
    }[study.reference.practical_verdict]


def _within_margin(study: Study) -> str:
    """Why a significant difference does not matter, as a sentence to add; empty elsewhere."""
    comparison = study.reference.comparison
    if study.reference.practical_verdict != "equivalent" or comparison.test.pvalue >= SIGNIFICANCE:
        return ""
    return (
        f" The difference is real, but within ±{comparison.margin:.2g}, the margin that counts as "
        "equivalent."
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


def headline(study: Study) -> str:
    """The verdict in one sentence, and a second one if the schedule starves clusters."""
    c, config = study.reference.comparison, study.config
    rate = c.win_rate
    sense = {
        "helps": f"The schedule {config.schedule} helps",
        "harms": f"The schedule {config.schedule} harms",
        "equivalent": f"The schedule {config.schedule} makes no difference that matters",
        "unclear": f"Whether the schedule {config.schedule} helps is unclear",
    }[study.reference.practical_verdict]
    return (
        f"{sense}: mean test MSE {c.treatment.mean():.4f} against {c.baseline.mean():.4f} for "
        f"{config.baseline}, better on {rate.wins} of {len(c.differences)} paired seeds, "
        f"sign-flip p = {c.test.pvalue:.4f}.{_within_margin(study)}{_starvation(study)}"
    )


def _starvation(study: Study) -> str:
    choices = choices_at_test(study)
    if not choices.starves:
        return ""
    what = "never chooses" if choices.updated == 1 else "starves clusters"
    return (
        f" At test it {what}, though: cluster {choices.share.argmax()} gets "
        f"{choices.share.max():.0%} of its updates, and {_still_nodes(choices)}.{_ties(study)}"
    )


def origins() -> dict[str, str]:
    """The reference profile's settings with their values, by where they come from."""
    settings = study_settings(StudyConfig())
    return {
        origin: "; ".join(f"{s.name}: {s.value}" for s in settings if s.origin == origin)
        for origin in ORIGINS
    }


def agreement(rows: Sequence[Agreement]) -> str:
    """How many measured figures agree with the published ones, and what that shows."""
    measured = [row for row in rows if row.kind == "measured"]
    telling = [row for row in measured if not row.within_without_idea]
    outside = [_outside(row) for row in measured if not row.within]
    text = (
        f"{_count(measured)} of {len(measured)} measured figures are within. "
        f"{len(measured) - len(telling)} of the {len(measured)} would be within even if the "
        "idea's arm were a copy of the baseline, and say nothing about the idea. Of the other "
        f"{len(telling)}, {_count(telling)} are within."
    )
    if outside:
        text += f" Outside: {'; '.join(outside)}."
    grid = [row for row in measured if row.figure.startswith("protocol_notes.idea_grid")]
    if lost := len(grid) - _count(grid):
        text += (
            f" {lost} of the idea's {len(grid)} grid means {'is' if lost == 1 else 'are'} outside, "
            "so its arm may differ from the published one in more than its random numbers."
        )
    return text


def _count(rows: Sequence[Agreement]) -> int:
    return sum(row.within for row in rows)


def _outside(row: Agreement) -> str:
    if row.ratio is None:
        return f"`{row.figure}`, {row.measured} where {row.published} was published"
    return f"`{row.figure}`, {row.ratio:.2g} times the published figure"
