"""Sentences and tables: their numbers are the results', and they say what the numbers say."""

import dataclasses
import re

import numpy as np
import pytest
from inspection import changed
from scipy import stats as scipy_stats

from clusterdyn import findings, tables
from clusterdyn.comparison import Comparison, compare
from clusterdyn.datasets import Dataset, Standardisation, Trajectories
from clusterdyn.protocol import Study
from clusterdyn.training import Divergence
from clusterdyn.verdicts import comparison_verdict, practical_verdict

SEEDS = (0, 1, 5)
SCATTER = np.array([0.010, -0.008, 0.005, 0.002, -0.004, 0.007, -0.009, -0.003])
EQUAL = np.ones(8)


def with_scores(study: Study, baseline, treatment) -> Study:
    """A study with other scores and the verdicts that follow from them."""
    comparison = compare(np.arange(len(baseline)) + 10, np.array(baseline), np.array(treatment))
    return with_comparison(study, comparison)


def with_comparison(study: Study, comparison: Comparison) -> Study:
    return changed(
        study,
        reference=dataclasses.replace(
            study.reference,
            comparison=comparison,
            verdict=comparison_verdict(comparison),
            practical_verdict=practical_verdict(comparison),
        ),
    )


def numbers(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]\d+)?", text))


# The verdict in sentences.


@pytest.mark.parametrize(
    ("baseline", "treatment", "sentence"),
    [
        (
            EQUAL,
            0.5 * EQUAL + SCATTER,
            "Choosing clusters by histogram helps: mean test MSE 0.5000 against 1.0000 for full, "
            "better on 8 of 8 paired seeds, sign-flip p = 0.0078.",
        ),
        (
            0.5 * EQUAL + SCATTER,
            EQUAL,
            "Choosing clusters by histogram harms: mean test MSE 1.0000 against 0.5000 for full, "
            "better on 0 of 8 paired seeds, sign-flip p = 0.0078.",
        ),
        (
            EQUAL,
            EQUAL + SCATTER,
            "Choosing clusters by histogram makes no difference that matters: mean test MSE 1.0000 "
            "against 1.0000 for full, better on 4 of 8 paired seeds, sign-flip p = 1.0000.",
        ),
        (
            [1.0, 1.0, 1.0],
            [2.0, 3.0, 4.0],
            "Whether choosing clusters by histogram helps is unclear: mean test MSE 3.0000 against "
            "1.0000 for full, better on 0 of 3 paired seeds, sign-flip p = 0.2500.",
        ),
    ],
)
def test_the_headline_is_the_verdict_with_its_numbers(study, baseline, treatment, sentence):
    assert findings.headline(with_scores(study, baseline, treatment)) == sentence


def test_the_headline_names_the_arms_that_were_run(study):
    swapped = dataclasses.replace(study.config, baseline="histogram", schedule="full")
    other = changed(with_scores(study, EQUAL, 0.5 * EQUAL + SCATTER), config=swapped)
    assert findings.headline(other).startswith("Choosing clusters by full helps: ")
    assert " for histogram, " in findings.headline(other)


@pytest.mark.parametrize(
    ("treatment", "words"),
    [
        (0.5 * EQUAL + SCATTER, ["Δ = -0.5 ", "8 wins", "0 losses", "idea better (significant)",
                                 "the idea helps."]),
        (2.0 * EQUAL + SCATTER, ["Δ = +1 ", "0 wins", "8 losses", "idea worse (significant)",
                                 "the idea harms."]),
        (EQUAL + SCATTER, ["4 wins", "0 ties", "4 losses", "no significant difference",
                           "makes no difference that matters."]),
        (EQUAL + 20 * np.maximum(SCATTER, 0), ["0 wins", "4 ties", "4 losses",
                                               "neither a difference nor equivalence is shown"]),
    ],
)  # fmt: skip
def test_the_finding_on_significance_says_what_the_scores_say(study, treatment, words):
    text = findings.significance(with_scores(study, EQUAL, treatment))
    for word in words:
        assert word in text, text


def test_the_smallest_possible_p_is_called_so_and_any_other_has_it_beside(study):
    least = findings.significance(with_scores(study, EQUAL, 2 * EQUAL + SCATTER))
    assert "p = 0.007812, the smallest value that this many pairs can give" in least
    treatment = 2 * EQUAL + SCATTER
    treatment[0] = 0.9  # now 4 of 256 flips are as extreme
    other = findings.significance(with_scores(study, EQUAL, treatment))
    assert "p = 0.01562, where the smallest possible is 0.007812" in other


OTHER_BASELINE = np.array([0.31, 0.44, 0.52, 0.37, 0.61, 0.66, 0.7])
OTHER_TREATMENT = np.array([0.36, 0.41, 0.66, 0.37, 0.53, 0.78, 0.91])


def test_no_number_of_the_headline_stays_when_all_results_change(study):
    other = with_scores(study, OTHER_BASELINE, OTHER_TREATMENT)
    assert numbers(findings.headline(study)) & numbers(findings.headline(other)) == set()


def test_no_number_of_the_finding_on_significance_stays_when_all_results_change(study):
    other = compare(np.arange(7), OTHER_BASELINE, OTHER_TREATMENT)
    interval = dataclasses.replace(other.t_interval, confidence_level=0.9)
    other = with_comparison(study, dataclasses.replace(other, t_interval=interval))
    assert numbers(findings.significance(study)) & numbers(findings.significance(other)) == set()


# The other findings.


def test_the_finding_on_training_tells_each_arms_rate_score_and_edge(study):
    text = findings.training(study)
    for arm in ("full", "histogram"):
        grid = study.grid(arm)
        place = "which is an edge" if grid.learning_rate in (0.003, 0.03) else "inside the grid"
        assert f"**{arm}** does best at learning rate {grid.learning_rate:g}, {place}" in text
        mean = np.mean([scores[list(grid.means).index(min(grid.means))] for scores in grid.scores])
        assert f"mean test MSE {mean:.4g} over 3 seeds" in text
    grid = study.grid("full")
    inside = dataclasses.replace(grid, selected=1, at_edge=False)
    assert "at learning rate 0.01, inside the grid" in findings.training(
        changed(study, grid=lambda arm: inside)
    )


def test_the_finding_on_training_counts_and_names_diverged_models(study):
    assert "No model diverged." in findings.training(study)
    populations = {
        "full": dataclasses.replace(
            study.population("full"), divergences=(Divergence(5, 0.003, 7), Divergence(1, 30.0, 2))
        ),
        "histogram": study.population("histogram"),
    }
    text = findings.training(changed(study, population=populations.get))
    assert (
        "2 models diverged: seed 5 at learning rate 0.003, step 7, seed 1 at learning rate 30, "
        "step 2." in text
    )


def test_the_finding_on_training_tells_the_work_and_the_choices_of_the_selected_models(study):
    population = study.population("histogram")
    book = population.test_ledger
    share = np.tile([0.0, 0.0, 1.0], (9, 1))  # a model a row, a cluster a column
    updates, age = np.full(9, 4.0), np.zeros(9, dtype=int)
    selected = np.flatnonzero(
        population.learning_rates == study.grid("histogram").learning_rate
    )  # fmt: skip
    share[selected] = [[0.1, 0.6, 0.3], [0.0, 0.7, 0.3], [0.2, 0.8, 0.0]]
    age[selected] = [3, 5, 4]
    updates[selected] = 3.0  # of 6 nodes by 2 sweeps
    book = dataclasses.replace(book, share=share, largest_age=age, node_updates=updates)
    populations = {
        "full": study.population("full"),
        "histogram": dataclasses.replace(population, test_ledger=book),
    }
    text = findings.training(changed(study, population=populations.get))
    assert "gives 70% of its updates to cluster 1; an even schedule would give 33%" in text
    assert "waits for up to 5 of the 6 sweeps" in text
    assert "does 25% of the baseline's node updates" in text


def test_the_finding_on_the_mechanism_tells_the_extremes_over_arms_and_models(study):
    check = study.mechanism("full")
    laws = [
        dataclasses.replace(
            law,
            slope=np.array([1.5, 2.0, 2.5]) + shift,  # means are 2 + shift
            coefficient_error=np.full((6, 3), 0.001) + shift / 10,
            richardson_error=np.full((5, 3), 0.0001) + shift / 1000,
        )
        for law, shift in zip(check.laws, (0.011, 0.022, 0.033, 0.044), strict=True)
    ]
    view = dataclasses.replace(
        study.reference.signature, slope=np.array([1.777, 1.555, 1.888]),
        relaxations=np.array([0.25, 0.35, 0.45, 0.75]),
    )  # fmt: skip
    reference = dataclasses.replace(study.reference, signature=view, mechanism_ok=False)
    other = changed(
        study,
        mechanism=lambda arm: dataclasses.replace(check, laws=tuple(laws)),
        reference=reference,
    )
    text = findings.mechanism(other)
    assert "Mean slopes lie between 2.011 and 2.044" in text
    assert "η = 0.01 the predicted coefficient is off by 0.54% at most" in text
    assert "by 0.0144% after extrapolation" in text
    assert "η from 0.25 to 0.75" in text
    assert "1.777 on seed 0 and 1.555 to 1.888 over all seeds" in text
    assert "The mechanism check does not pass." in text
    passing = changed(other, reference=dataclasses.replace(reference, mechanism_ok=True))
    assert "The mechanism check passes." in findings.mechanism(passing)


def dataset(train: np.ndarray, test: np.ndarray) -> Dataset:
    """Data of a seed from states in physical units (N, 2, 3), each trajectory its own torque."""
    splits = [
        Trajectories(states, states[:, :1, :1] + states[:, 1:, :1]) for states in (train, test)
    ]
    moments = Standardisation.fit(splits[0])
    first, second = (moments.apply(split) for split in splits)
    return Dataset(first, second, second, moments)


def test_the_finding_on_data_counts_trajectories_that_two_splits_share(study):
    states = np.random.default_rng(0).normal(size=(9, 2, 3))
    data = dataset(states[:6], states[4:])  # 2 in both; validation is the test split here
    text = findings.data(changed(study, datasets=dict.fromkeys(SEEDS, data)))
    assert "the splits of one seed share 9." in text  # 2 and 2, and 5 of validation and test
    assert "Seeds 0 and 1 share 6 training trajectories" in text
    assert "share 0 training trajectories, and the splits of one seed share 0." in findings.data(
        study
    )


def test_the_finding_on_data_counts_trajectories_that_two_seeds_share(study):
    states = np.random.default_rng(0).normal(size=(10, 2, 3))
    first, second = dataset(states[:6], states[:6]), dataset(states[4:], states[4:])
    text = findings.data(changed(study, datasets={0: first, 1: second, 5: second}))
    assert "Seeds 0 and 1 share 2 training trajectories" in text


# Tables.


def test_the_table_of_pairs_holds_both_scores_and_the_difference_of_every_seed(study):
    table, c = tables.pairs(study), study.reference.comparison
    assert table.columns[1:4] == ("full", "histogram", "difference")
    assert [row[0] for row in table.rows] == ["seed 0", "seed 1", "seed 5", "mean"]
    for i, row in enumerate(table.rows[:3]):
        others = [c.treatment[j] - c.baseline[j] for j in range(3) if j != i]
        assert row[1:4] == (c.baseline[i], c.treatment[i], c.treatment[i] - c.baseline[i])
        assert row[4] == pytest.approx(np.mean(others), rel=1e-12)
    assert table.rows[3][1:] == (
        pytest.approx(np.mean(c.baseline), rel=1e-14),
        pytest.approx(np.mean(c.treatment), rel=1e-14),
        pytest.approx(np.mean(c.treatment - c.baseline), rel=1e-14),
        None,
    )


def test_the_table_of_statistics_holds_those_of_the_comparison(study):
    other = with_scores(study, [1.0, 2.0, 3.0, 2.0], [2.0, 4.0, 6.0, 1.0])
    c = other.reference.comparison
    rows = {name: (value, note) for name, value, note in tables.inference(other).rows}
    # Differences 1, 2, 3 and -1: mean 1.25 beside a baseline of 2.
    assert rows["mean difference Δ"] == ("1.25", "+62.5%")
    sums = [abs(a + 2 * b + 3 * d - e) for a in (-1, 1) for b in (-1, 1) for d in (-1, 1)
            for e in (-1, 1)]  # fmt: skip
    p = sum(total >= 5 for total in sums) / 16
    assert rows["sign-flip test, two-sided, exact"] == (f"p = {p:.4g}", "over 16 sign patterns")
    assert rows["smallest p that these pairs can give"][0] == "0.125"
    paired = scipy_stats.ttest_rel(c.treatment, c.baseline).confidence_interval(0.95)
    assert rows["t interval of Δ"] == (f"[{paired.low:.4g}, {paired.high:.4g}]", "95%")
    half = (paired.high - paired.low) / 2
    assert rows["half-width of the 95 % t interval"][0] == f"{half:.4g}"
    assert rows["half-width of the 95 % t interval"][1].startswith(f"{half / 2:.1%} of the base")
    flip = c.sign_flip_interval
    assert rows["sign-flip interval of Δ"] == (
        f"[{flip.low:.4g}, {flip.high:.4g}]",
        f"attained level {flip.confidence_level:.1%}",
    )
    assert rows["ratio of geometric means"][0] == "1.41"  # (2 · 2 · 2 / 2) ** (1 / 4)
    assert rows["effect size d_z"][0] == f"{1.25 / np.std([1, 2, 3, -1], ddof=1):.3g}"
    assert rows["wins of the idea"][0] == "1 of 4"
    assert rows["effect detectable with 80 % power"][0] == f"{c.detectable:.4g}"
    margin = scipy_stats.ttest_1samp([1, 2, 3, -1], 0.1, alternative="less").pvalue
    assert rows["equivalence within ±0.1"][0] == f"p = {margin:.3g}"
    assert rows["mean Δ without any one seed"][0] == "0.6667 to 2"
    assert len(rows) == 12


def test_the_tables_of_the_mechanism_hold_its_criteria_and_laws(study):
    rows = tables.mechanism(study).rows
    expected = study.reference.criteria
    assert [(row[0], row[2], row[3]) for row in rows] == [(c.name, c.limit, c.held)
                                                          for c in expected]  # fmt: skip
    assert [float(row[1]) for row in rows] == pytest.approx([c.value for c in expected], rel=1e-3)
    laws = [law for arm in ("full", "histogram") for law in study.mechanism(arm).laws]
    assert [(row[1], row[2]) for row in tables.laws(study).rows] == [
        (f"{np.mean(law.slope):.4f}", f"[{law.slope_low:.4f}, {law.slope_high:.4f}]")
        for law in laws
    ]


def test_the_table_of_settings_holds_every_size_of_this_run(study):
    values = {row[0]: row[1] for row in tables.settings(study).rows}
    assert values["nodes n"] == "6" and values["sweeps a time step K"] == "2"
    assert values["training and test trajectories"] == "50 and 8"
    assert values["learning rates"] == "0.003, 0.01, 0.03" and values["seeds"] == "0, 1, 5"
    assert int(values["parameters a model"]) == study.population("full").parameters.shape[1]


def test_the_moments_are_those_of_the_training_split(study):
    moments = study.datasets[0].standardisation
    rows = tables.standardisation(study).rows
    assert [row[1] for row in rows] == [*moments.state_mean, *moments.control_mean]
    assert [row[2] for row in rows] == [*moments.state_std, *moments.control_std]
