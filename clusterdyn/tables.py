"""The tables of the notebooks: each takes results and returns a ``Table``."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterdyn.comparison import Comparison
from clusterdyn.datasets import CONTROL_CHANNELS, STATE_CHANNELS
from clusterdyn.display import show_table, table_output
from clusterdyn.origins import ORIGINS, study_settings
from clusterdyn.protocol import Study
from clusterdyn.recordings import recording_of


@dataclass(frozen=True)
class Table:
    """A table with its caption.

    Attributes:
        columns: headings.
        rows: cells, a sequence a row.
        caption: what it shows.
    """

    columns: tuple[str, ...]
    rows: Sequence[Sequence[object]]
    caption: str

    def show(self) -> None:
        """Shows it in a notebook."""
        show_table(self.rows, columns=self.columns, caption=self.caption)

    def text(self) -> str:
        """The table for a terminal."""
        data, _ = table_output(self.rows, columns=self.columns, caption=self.caption)
        return data["text/plain"]


def standardisation(study: Study) -> Table:
    """Moments of every channel over the training split of the first seed."""
    seed = study.config.seeds[0]
    moments = study.datasets[seed].standardisation
    means = [*moments.state_mean, *moments.control_mean]
    deviations = [*moments.state_std, *moments.control_std]
    recording = recording_of(study.config.data)
    names = STATE_CHANNELS + CONTROL_CHANNELS
    if recording is not None:
        names = recording.state_names + recording.control_names
    return Table(
        ("channel", "mean", "standard deviation"),
        [
            (name, float(mean), float(deviation))
            for name, mean, deviation in zip(names, means, deviations, strict=True)
        ],
        f"Moments of the training split of seed {seed}. They standardise all three splits.",
    )


def settings(study: Study) -> Table:
    """The settings of the study, and where the reference profile has each from."""
    return Table(
        ("setting", "value", "in the reference profile"),
        [(s.name, s.value, s.origin) for s in study_settings(study.config)],
        "Settings of this run. "
        + " ".join(f"{name.capitalize()}: {meaning}." for name, meaning in ORIGINS.items())
        + " The published trial is known here only as a JSON report.",
    )


def ledger(study: Study) -> Table:
    """Work and choices of both arms on the test split, mean over the selected models."""
    rows = []
    for arm in (study.config.baseline, study.config.schedule):
        book = study.population(arm).test_ledger
        rates, selected = len(study.config.learning_rates), study.grid(arm).selected
        rows.append(
            (
                arm,
                float(book.node_updates[selected::rates].mean()),
                float(book.cluster_updates[selected::rates].mean()),
                float(book.share[selected::rates].mean(axis=0).max()),
                float(np.mean(book.entropy[selected::rates])),
                int(book.largest_age[selected::rates].max()),
            )
        )
    return Table(
        (
            "arm",
            "node updates",
            "cluster updates",
            "largest share",
            "entropy",
            "largest age [sweeps]",
        ),
        [[*row[:4], "—" if np.isnan(row[4]) else row[4], row[5]] for row in rows],
        "Ledger of the selected models on the test split, means over seeds. Updates count a time "
        "step; the largest share is that of one cluster. The entropy is 1 when all clusters are "
        "updated alike, and has no meaning for one cluster; the age counts sweeps since a node's "
        f"last update, of {study.config.sweeps * study.config.horizon} in a "
        "rollout.",
    )


def pairs(study: Study) -> Table:
    """Test MSE of both arms on every seed."""
    comparison = study.reference.comparison
    rows = [
        (f"seed {seed}", float(base), float(idea), float(difference), float(without))
        for seed, base, idea, difference, without in zip(
            comparison.seeds,
            comparison.baseline,
            comparison.treatment,
            comparison.differences,
            comparison.leave_one_out,
            strict=True,
        )
    ]
    mean = (
        "mean",
        float(comparison.baseline.mean()),
        float(comparison.treatment.mean()),
        comparison.mean_difference,
        None,
    )
    return Table(
        ("pair", study.config.baseline, study.config.schedule, "difference", "mean Δ without it"),
        [*rows, mean],
        "Test MSE in standardised units at each arm's selected learning rate; lower is better, a "
        "positive difference says that the idea is worse.",
    )


def inference(study: Study) -> Table:
    """Every statistic of the comparison, named for what it is."""
    c = study.reference.comparison
    baseline = float(c.baseline.mean())
    t, flip, rate = c.t_interval, c.sign_flip_interval, c.win_rate
    exact = c.test.method == "exact"
    method = "exact" if exact else "Monte Carlo"
    rows = [
        ("mean difference Δ", f"{c.mean_difference:.4g}", f"{c.mean_difference / baseline:+.1%}"),
        (f"sign-flip test, two-sided, {method}", f"p = {c.test.pvalue:.4g}",
         f"over {c.test.n_permutations} sign patterns"),
        (f"smallest p that {'these pairs' if exact else 'this many sign patterns'} can give",
         f"{c.test.min_attainable_pvalue:.4g}", "the test's floor"),
        ("sign-flip interval of Δ", f"[{flip.low:.4g}, {flip.high:.4g}]",
         f"attained level {flip.confidence_level:.1%}"),
        ("t interval of Δ", f"[{t.low:.4g}, {t.high:.4g}]", f"{t.confidence_level:.0%}"),
        ("ratio of geometric means", f"{c.ratio.ratio:.3g}",
         f"95 % interval [{c.ratio.low:.3g}, {c.ratio.high:.3g}]"),
        ("effect size d_z", f"{c.effect.d_z:.3g}", f"Hedges g_z {c.effect.hedges_g:.3g}"),
        ("wins of the idea", f"{rate.wins} of {rate.wins + rate.ties + rate.losses}",
         f"Clopper–Pearson 95 % interval of the win rate [{rate.low:.2g}, {rate.high:.2g}]"),
        ("half-width of the 95 % t interval", f"{c.half_width:.4g}",
         f"{c.half_width / baseline:.1%} of the baseline; the published report calls this “mde”"),
        ("effect detectable with 80 % power", f"{c.detectable:.4g}",
         f"{c.detectable / baseline:.1%} of the baseline; the minimum detectable effect"),
        (f"equivalence within ±{c.margin:.2g}", f"p = {c.equivalence.pvalue:.3g}",
         "two one-sided t tests; small p would mean equivalent"),
        ("mean Δ without any one seed", f"{c.leave_one_out.min():.4g} to "
         f"{c.leave_one_out.max():.4g}", "leave one out"),
        ("correlation r of the arms over seeds", *_pairing(c)),
    ]  # fmt: skip
    return Table(("statistic", "value", "note"), rows, "The paired comparison in full.")


def _pairing(comparison: Comparison) -> tuple[str, str]:
    """The correlation of the arms, and what pairing by seed makes of it."""
    if np.isnan(comparison.correlation):
        return "—", "an arm has the same score on every seed"
    effect = "narrows" if comparison.paired_spread < 1 else "widens"
    return (
        f"{comparison.correlation:.2f}",
        f"pairing {effect} the intervals: the standard deviation of Δ is "
        f"{comparison.paired_spread:.0%} of that of two uncorrelated arms",
    )


def mechanism(study: Study) -> Table:
    """The criteria of the mechanism verdict."""
    return Table(
        ("criterion, worst case over both arms", "value", "limit", "held"),
        [
            (criterion.name, f"{criterion.value:.4g}", criterion.limit, criterion.held)
            for criterion in study.reference.criteria
        ],
        "What the mechanism check asks, and what was found. Nodes and clusters in turn, at the "
        "start (h = 0) and at a state on the trajectory.",
    )


def laws(study: Study) -> Table:
    """Slopes and coefficient errors of every law."""
    rows = []
    for arm in (study.config.baseline, study.config.schedule):
        for law in study.mechanism(arm).laws:
            rows.append(
                (
                    f"{arm}, {law.unit}, {law.state}",
                    f"{law.slope.mean():.4f}",
                    f"[{law.slope_low:.4f}, {law.slope_high:.4f}]",
                    f"{law.coefficient_error[0].max():.2%}",
                    f"{law.richardson_error[0].max():.4%}",
                )
            )
    return Table(
        (
            "models, unit, state",
            "mean slope",
            "90 % interval",
            "coefficient error, smallest η",
            "after Richardson",
        ),
        rows,
        f"The η² law in float64 on {len(study.config.seeds)} models an arm; errors are the largest "
        "over models.",
    )
