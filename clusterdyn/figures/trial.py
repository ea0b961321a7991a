"""The figure of notebook 20: a schedule against the full sweep and random choices."""

from clusterdyn.figures.protocol import draw_ratios
from clusterdyn.figures.style import Picture, label, new_figure
from clusterdyn.trial import Trial


def trial_ratios(trial: Trial) -> Picture:
    """Every comparison of a trial: each seed, the ratio and its interval, and the verdict."""
    figure, axes = new_figure(width=8.4, height=1.5 + 0.75 * len(trial.claims))
    axis, names = axes[0, 0], []
    for claim in trial.claims:
        before, after = trial.arm(claim.baseline), trial.arm(claim.treatment)
        names.append(
            f"K = {trial.sweeps(after)}, {after.node_updates:.3g} updates\n"
            f"{before.schedule}: K = {trial.sweeps(before)}, {before.node_updates:.3g}"
        )
    draw_ratios(axis, trial.claims, names)
    label(axis, x="test MSE over that of the baseline, a ratio")
    ratios = [claim.comparison.ratio.ratio for claim in trial.claims]
    return Picture(
        figure,
        "trial_ratios",
        f"Test MSE of {trial.schedule} over that of {len(ratios)} baselines, from "
        f"{min(ratios):.2f} to {max(ratios):.2f} times theirs; verdicts: "
        f"{', '.join(claim.verdict for claim in trial.claims)}.",
        f"A row a comparison: the sweeps and node updates a time step of {trial.schedule}, and "
        f"below them those of its baseline. A dot each of {len(trial.test_seeds)} test seeds, "
        "paired; the diamond is the ratio of geometric means with its 95 % t interval; p is "
        "adjusted by Holm's method over the rows. Grey: the equivalence margin.",
        f"Seeds {trial.test_seeds.min()} to {trial.test_seeds.max()}.",
    )
