"""Sentences and tables: their numbers are the results', and they say what the numbers say."""

import dataclasses
import re

import numpy as np
import pytest
from inspection import changed
from scipy import stats as scipy_stats

from clusterdyn import findings, tables
from clusterdyn.comparison import Comparison, compare
from clusterdyn.config import StudyConfig
from clusterdyn.datasets import Dataset, Standardisation, Trajectories
from clusterdyn.origins import study_settings
from clusterdyn.protocol import Study
from clusterdyn.reference.agreement import Agreement
from clusterdyn.reference.published import published_report
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


def with_ledger(study: Study, arm: str = "histogram", **members) -> Study:
    """A study in which an arm's ledger at test has other members, a selected model a row."""
    population, book = study.population(arm), study.population(arm).test_ledger
    selected = np.flatnonzero(population.learning_rates == study.grid(arm).learning_rate)
    rows = {}
    for name, values in members.items():
        rows[name] = np.array(getattr(book, name))
        rows[name][:] = rows[name].max()  # what the other models did must not matter
        rows[name][selected] = values
    other = dataclasses.replace(population, test_ledger=dataclasses.replace(book, **rows))
    before = study.population
    return changed(study, population=lambda name: other if name == arm else before(name))


EVEN = [[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.3, 0.3, 0.4]]


@pytest.fixture
def even(study) -> Study:
    """A study whose histogram updates every cluster."""
    return with_ledger(study, share=EVEN)


def numbers(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]\d+)?", text))


# The verdict in sentences.


@pytest.mark.parametrize(
    ("baseline", "treatment", "sentence"),
    [
        (
            EQUAL,
            0.5 * EQUAL + SCATTER,
            "The schedule histogram helps: mean test MSE 0.5000 against 1.0000 for full, "
            "better on 8 of 8 paired seeds, sign-flip p = 0.0078.",
        ),
        (
            0.5 * EQUAL + SCATTER,
            EQUAL,
            "The schedule histogram harms: mean test MSE 1.0000 against 0.5000 for full, "
            "better on 0 of 8 paired seeds, sign-flip p = 0.0078.",
        ),
        (
            EQUAL,
            EQUAL + SCATTER,
            "The schedule histogram makes no difference that matters: mean test MSE 1.0000 "
            "against 1.0000 for full, better on 4 of 8 paired seeds, sign-flip p = 1.0000.",
        ),
        (
            EQUAL,
            0.98 * EQUAL + SCATTER / 10,
            "The schedule histogram makes no difference that matters: mean test MSE 0.9800 "
            "against 1.0000 for full, better on 8 of 8 paired seeds, sign-flip p = 0.0078. The "
            "difference is real, but within ±0.05, the margin that counts as equivalent.",
        ),
        (
            [1.0, 1.0, 1.0],
            [2.0, 3.0, 4.0],
            "Whether the schedule histogram helps is unclear: mean test MSE 3.0000 against "
            "1.0000 for full, better on 0 of 3 paired seeds, sign-flip p = 0.2500.",
        ),
    ],
)
def test_the_headline_is_the_verdict_with_its_numbers(even, baseline, treatment, sentence):
    assert findings.headline(with_scores(even, baseline, treatment)) == sentence


NEVER = (
    " At test it never chooses, though: cluster 1 gets 100% of its updates, and 4 of 6 nodes never "
    "move in any test rollout."
)
SOME = (
    " At test it starves clusters, though: cluster 2 gets 60% of its updates, and 2 of 6 nodes "
    "never move in any test rollout."
)
TIES = (
    " That ties go to the lowest-numbered cluster, as when all tie at h = 0, is this project's "
    "assumption."
)


@pytest.mark.parametrize(
    ("shares", "sentences"),
    [
        ([[0, 1, 0], [0, 1, 0], [0, 1, 0]], NEVER + TIES),
        ([[0, 0.4, 0.6], [0, 0.5, 0.5], [0, 0.3, 0.7]], SOME + TIES),
        # Each model starves two clusters, but none starves in all of them.
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], ""),
        (EVEN, ""),
    ],
)
def test_the_headline_says_so_if_clusters_starve_and_only_then(study, shares, sentences):
    plain = findings.headline(with_ledger(study, share=EVEN))
    assert findings.headline(with_ledger(study, share=shares)) == plain + sentences
    finding = findings.training(with_ledger(study, share=shares))
    assert ("never move in any test rollout" in finding) is bool(sentences)
    assert (TIES in finding) is bool(sentences)


@pytest.mark.parametrize("schedule", ["round_robin", "histogram(ties=oldest)", "histogram_fair"])
def test_the_rule_for_ties_is_told_of_the_schedule_that_has_it_alone(study, schedule):
    idea = dataclasses.replace(study.config, schedule=schedule)
    starved = with_ledger(study, share=[[0, 1, 0]] * 3)
    population, grid = starved.population("histogram"), study.grid("histogram")
    other = changed(starved, config=idea, population=lambda arm: population, grid=lambda arm: grid)
    assert findings.headline(other).endswith(NEVER)
    assert "ties" not in findings.training(other).replace(schedule, "")


def test_the_headline_names_the_arms_that_were_run(study):
    swapped = dataclasses.replace(study.config, baseline="histogram", schedule="full")
    other = changed(with_scores(study, EQUAL, 0.5 * EQUAL + SCATTER), config=swapped)
    assert findings.headline(other).startswith("The schedule full helps: ")
    assert findings.headline(other).endswith(" paired seeds, sign-flip p = 0.0078.")
    assert " for histogram, " in findings.headline(other)
    # All nodes at once are no choice between clusters.
    text = findings.training(other)
    assert "At test **full** updates all nodes at once." in text
    assert "even schedule" not in text and "never move" not in text


@pytest.mark.parametrize(
    ("treatment", "words"),
    [
        (0.5 * EQUAL + SCATTER, ["Δ = -0.5 ", "8 wins", "0 losses", "idea better (significant)",
                                 "In practice the idea helps."]),
        (2.0 * EQUAL + SCATTER, ["Δ = +1 ", "0 wins", "8 losses", "idea worse (significant)",
                                 "In practice the idea harms."]),
        (EQUAL + SCATTER, ["4 wins", "0 ties", "4 losses", "no significant difference",
                           "In practice the idea makes no difference that matters. Learning"]),
        (0.98 * EQUAL + SCATTER / 10, ["idea better (significant). In practice the idea makes no "
                                       "difference that matters. The difference is real, but "
                                       "within ±0.05, the margin that counts as equivalent."]),
        (EQUAL + 20 * np.maximum(SCATTER, 0), ["0 wins", "4 ties", "4 losses",
                                               "no significant difference. Whether it matters in "
                                               "practice is unclear: neither a difference nor "
                                               "equivalence is shown."]),
    ],
)  # fmt: skip
def test_the_finding_on_significance_says_what_the_scores_say(study, treatment, words):
    text = findings.significance(with_scores(study, EQUAL, treatment))
    for word in words:
        assert word in text, text


def test_the_smallest_possible_p_is_called_so_and_any_other_has_it_beside(study):
    least = findings.significance(with_scores(study, EQUAL, 2 * EQUAL + SCATTER))
    assert "p = 0.007812, the smallest value that 8 pairs can give" in least
    treatment = 2 * EQUAL + SCATTER
    treatment[0] = 0.9  # now 4 of 256 flips are as extreme
    other = findings.significance(with_scores(study, EQUAL, treatment))
    assert "p = 0.01562, where the smallest possible is 0.007812" in other


def test_with_many_pairs_the_smallest_p_is_that_of_the_random_sign_patterns(study):
    scores = np.linspace(1, 2, 24)
    other = with_scores(study, scores, 2 * scores)
    assert other.reference.comparison.test.method == "monte-carlo"
    text = findings.significance(other)
    assert "p = 0.0001, the smallest value that 9999 random sign patterns can give" in text
    floor = "9999 random sign patterns cannot give a p below 0.0001"
    assert findings.p_floor(other) == floor
    rows = {row[0]: row[1] for row in tables.inference(other).rows}
    assert rows["smallest p that this many sign patterns can give"] == "0.0001"
    eight = with_scores(study, EQUAL, 2 * EQUAL + SCATTER)
    assert findings.p_floor(eight) == "8 pairs cannot give a p below 0.007812"


OTHER_BASELINE = np.array([0.31, 0.44, 0.52, 0.37, 0.61, 0.66, 0.7])
OTHER_TREATMENT = np.array([0.36, 0.41, 0.66, 0.37, 0.53, 0.78, 0.91])


def test_no_number_of_the_headline_stays_when_all_results_change(even):
    other = with_scores(even, OTHER_BASELINE, OTHER_TREATMENT)
    assert numbers(findings.headline(even)) & numbers(findings.headline(other)) == set()


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
    other = with_ledger(
        study,
        share=[[0.1, 0.6, 0.3], [0.0, 0.7, 0.3], [0.2, 0.8, 0.0]],
        largest_age=[3, 5, 4],
        node_updates=3.0,  # of 6 nodes by 2 sweeps
    )
    text = findings.training(other)
    assert "gives 70% of its updates to cluster 1; an even schedule would give 33%" in text
    assert "waits for up to 5 of the 6 sweeps" in text
    assert (
        "It does 25% of the baseline's node updates, so the comparison mixes the choice of cluster "
        "with the amount of work." in text
    )


def test_equal_work_is_not_said_to_mix_with_the_choice(study):
    text = findings.training(with_ledger(study, node_updates=12.0))
    assert "It does as many node updates as the baseline." in text
    assert "amount of work" not in text and "100%" not in text.split("A node waits")[1]


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


def agreement_row(kind: str, within: bool, without: bool, ratio: float | None) -> Agreement:
    return Agreement(
        figure=f"place.{kind}", published="2", measured="3", rule="equal", within=within,
        within_without_idea=without, kind=kind, ratio=ratio,
    )  # fmt: skip


def test_the_finding_on_agreement_counts_what_was_measured_and_what_a_copy_would_meet():
    rows = [
        *(agreement_row(kind, True, True, None) for kind in ("setting", "fitted", "seed")),
        *(agreement_row(kind, False, False, 9.0) for kind in ("setting", "fitted", "seed")),
        *[agreement_row("measured", True, True, 1.0)] * 4,
        *[agreement_row("measured", True, False, 1.0)] * 2,
        agreement_row("measured", False, False, 0.432),
        agreement_row("measured", False, True, None),
    ]
    assert findings.agreement(rows) == (
        "6 of 8 measured figures are within. 5 of the 8 would be within even if the idea's arm "
        "were a copy of the baseline, and say nothing about the idea. Of the other 3, 2 are "
        "within. Outside: `place.measured`, 0.43 times the published figure; `place.measured`, 3 "
        "where 2 was published."
    )
    assert "Outside" not in findings.agreement(rows[6:12])


def test_a_grid_of_the_idea_that_is_outside_is_no_small_print():
    grid = [
        dataclasses.replace(
            agreement_row("measured", within, False, 2.0),
            figure=f"protocol_notes.idea_grid[{i}].mean",
        )
        for i, within in enumerate((False, True, False))
    ]
    words = (
        " 2 of the idea's 3 grid means are outside, so its arm may differ from the published one "
        "in more than its random numbers."
    )
    assert findings.agreement(grid).endswith(words)
    assert "grid means" not in findings.agreement(grid[1:2])


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
    # Baseline and treatment are (1, 2, 3, 2) and (2, 4, 6, 1): r = 4 / sqrt(2 · 14.75).
    assert rows["correlation r of the arms over seeds"] == (
        "0.74",
        f"pairing narrows the intervals: the standard deviation of Δ is "
        f"{np.sqrt(8.75 / 16.75):.0%} of that of two uncorrelated arms",
    )
    assert len(rows) == 13


def test_the_table_of_statistics_says_where_pairing_widens_the_intervals_or_has_no_meaning(study):
    def pairing(baseline, treatment) -> tuple[str, str]:
        (row,) = (row for row in tables.inference(with_scores(study, baseline, treatment)).rows
                  if row[0].startswith("correlation"))  # fmt: skip
        return row[1:]

    r, note = pairing([1.0, 2.0, 3.0], [3.0, 2.0, 1.0])
    assert r == "-1.00" and note.startswith("pairing widens the intervals")
    assert pairing([1.0, 1.0, 1.0], [3.0, 2.0, 1.0])[0] == "—"


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
    assert values["ties between clusters"] == "the lowest-numbered cluster wins"
    assert values["learning rates"] == "0.003, 0.01, 0.03" and values["seeds"] == "0, 1, 5"
    assert int(values["parameters a model"]) == study.population("full").parameters.shape[1]


def test_settings_of_a_histogram_are_listed_only_where_there_is_one(study):
    other = changed(study, config=dataclasses.replace(study.config, schedule="round_robin"))
    lost = {row[0] for row in tables.settings(study).rows}
    lost -= {row[0] for row in tables.settings(other).rows}
    assert lost == {"histogram bins m", "histogram's range", "ties between clusters"}


def test_what_is_called_published_stands_in_the_published_report_or_follows_from_it():
    report = published_report()
    notes, full = report["protocol_notes"], report["baseline"]["full"]
    (epochs,) = {entry["epochs"] for entry in notes["baseline_grid_union"]}
    # The selected rate's grid mean is that of the first seeds.
    mean = report["baseline"]["sweep"][2]["mean"]
    (count,) = (n for n in range(1, 9) if np.mean(full["per_seed"][:n]) == mean)
    published = {s.name: s.value for s in study_settings(StudyConfig()) if s.origin == "published"}
    assert published == {
        "seeds": ", ".join(map(str, notes["paired_seeds"])),
        "seeds that the baseline's grid averages": str(count),
        "learning rates": ", ".join(f"{entry['lr']:g}" for entry in notes["baseline_grid_union"]),
        "epochs": str(epochs),
        "training and test trajectories": " and ".join(map(str, notes["dataset_sizes"])),
        "clusters C": str(report["mechanism_signature"]["clusters"]),
        "histogram bins m": str(report["mechanism_signature"]["histogram_bins"]),
    }


def test_every_setting_of_the_study_is_said_to_be_published_fitted_or_assumed():
    # Seeds of what is not random in the reference profile, names of the arms, the machine, what
    # does not change a result, and the data, which are told as the pendulum's constants.
    elsewhere = {"partition_seed", "minibatch_stream", "baseline", "schedule", "device"}
    elsewhere |= {"validation_curve", "data"}
    told = " ".join(findings.origins().values())
    changes = {
        "graph": "complete", "nodes": 32, "channels": 7, "clusters": 8, "partition": "strided",
        "bins": 9, "sweeps": 11,
        "relaxation": 0.77, "horizon": 13, "train_trajectories": 333, "validation_trajectories": 77,
        "test_trajectories": 99, "batch_size": 17, "epochs": 14, "learning_rates": (0.07,),
        "clip_norm": 0.33, "seeds": (3, 9), "baseline_grid_seeds": 3, "dtype": "float64",
    }  # fmt: skip
    fields = {field.name for field in dataclasses.fields(StudyConfig)}
    assert set(changes) == fields - elsewhere
    for name, value in changes.items():
        other = study_settings(StudyConfig(**{name: value}))
        assert [s.value for s in other] != [s.value for s in study_settings(StudyConfig())], name
    assert told.count("; ") == len(study_settings(StudyConfig())) - len(findings.origins())


def test_the_moments_are_those_of_the_training_split(study):
    moments = study.datasets[0].standardisation
    rows = tables.standardisation(study).rows
    assert [row[1] for row in rows] == [*moments.state_mean, *moments.control_mean]
    assert [row[2] for row in rows] == [*moments.state_std, *moments.control_std]
