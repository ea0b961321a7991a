"""Figures, tables and sentences of learned schedules: they show the results and follow them."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from inspection import lines
from numpy.testing import assert_allclose, assert_array_equal

from clusterdyn.figures import learned as figures
from clusterdyn.figures.style import Picture
from clusterdyn.graph import contiguous, ring
from clusterdyn.protocol import Study, open_study
from clusterdyn.qlearning import findings, tables
from clusterdyn.qlearning.claims import FAMILIES, learned_claims
from clusterdyn.qlearning.policy import untrained_policy
from clusterdyn.qlearning.results import LearnedStudy
from clusterdyn.qlearning.study import run_learned

SETTINGS = {
    "nodes": 8,
    "channels": 2,
    "epochs": 1,
    "horizon": 3,
    "sweeps": 2,
    "train_trajectories": 40,
    "validation_trajectories": 10,
    "test_trajectories": 10,
    "batch_size": 20,
    "work_budgets": (4, 16),
    "test_seeds": (100, 101, 102),
}
FIGURES = [
    function
    for name, function in vars(figures).items()
    if name.startswith("learned_") and function.__module__ == figures.__name__
]
NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "09_learned.py"


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    """A tiny study of learned schedules, carried out here, without a pool of processes."""
    folder = tmp_path_factory.mktemp("learned")
    study = open_study("quick", SETTINGS, folder, progress=lambda line: None)
    learned = study.learned
    result = run_learned(study.config, learned.strict, learned.learning, study.store)
    return with_result(study, result)


@pytest.fixture(scope="module")
def pictures(study) -> dict[str, Picture]:
    """Every figure by its function's name."""
    return {function.__name__: function(study) for function in FIGURES}


def with_result(study: Study, result) -> Study:
    """A study with another result of learning, and the claims that follow from it."""
    other = Study(study.config, study.store, study.label, study.strict_config)
    known = study.learned
    learned = LearnedStudy(known.config, known.strict, known.learning, known.store)
    vars(learned)["result"] = result
    vars(learned)["claims"] = learned_claims(result, study.config)
    vars(other)["learned"] = learned
    return other


def with_scores(study: Study, factors: dict[str, float], seeds: int = 12) -> Study:
    """A study in which every schedule scores 1 on average, or as the factor of its label says."""
    rng = np.random.default_rng(0)
    shared = 1 + 0.1 * rng.random(seeds)

    def score(each):
        own = factors.get(each.label, 1.0) * shared * (1 + 0.001 * rng.random(seeds))
        return dataclasses.replace(each, test_mse=own)

    result = study.learned.result
    return with_result(
        study,
        dataclasses.replace(
            result,
            test_seeds=np.arange(seeds),
            frozen=tuple(
                dataclasses.replace(
                    frozen,
                    scores=tuple(map(score, frozen.scores)),
                    peers=tuple(map(score, frozen.peers)),
                )
                for frozen in result.frozen
            ),
            joint=tuple(dataclasses.replace(joint, arm=score(joint.arm)) for joint in result.joint),
            retrained=tuple(map(score, result.retrained)),
            peers=tuple(map(score, result.peers)),
        ),
    )


# The figures.


def test_the_notebook_shows_every_figure_once_and_counts_them():
    source = NOTEBOOK.read_text()
    shown = re.findall(r"figures\.(\w+)\(study\)\.show\(\)", source)
    assert sorted(shown) == sorted(function.__name__ for function in FIGURES)
    assert f'finish("09_learned", figures={len(FIGURES)})' in source
    families = re.findall(r'tables\.claims\(study, "(\w+)"\)', source)
    assert sorted(families) == sorted(FAMILIES)


def test_figures_are_called_as_their_functions_and_their_words_have_no_holes(pictures, study):
    stage = study.learned.stage
    for name, picture in pictures.items():
        assert picture.name == name
        assert f"{stage.name} {stage.key[:10]}" in picture.provenance
        for text in (picture.alt, picture.caption, picture.provenance):
            assert len(text.split()) > 5 and text.endswith(".")
            assert not re.search(r"\bnan\b|\binf\b|None|[{}]|np\.|\n", text), text


def test_curves_show_every_seed_and_the_level_of_the_random_policy(pictures, study):
    axes = np.array(pictures["learned_curves"].figure.axes).reshape(3, 3)
    for column, frozen in enumerate(study.learned.result.frozen):
        for learned in frozen.learned:
            if learned.policy.ordered:
                continue
            axis = axes[int(learned.policy.reward == "loss"), column]
            seeds = [line.get_ydata() for line in lines(axis, style="-")]
            assert_array_equal(np.transpose(seeds), learned.total_reward)
            (level,) = (line for line in axis.lines if len(line.get_ydata()) == 2)
            assert_allclose(level.get_ydata(), learned.total_reward[0].mean())
        drawn = [line.get_ydata() for line in axes[2, column].lines]
        for learned in frozen.learned:
            for seed in range(3):
                assert any(np.array_equal(d, learned.validation_mse[:, seed]) for d in drawn)


def test_the_table_shows_every_seeds_value_of_every_state(pictures, study):
    policy = study.learned.result.frozen[0].learned[0].policy
    order = np.argsort(tables.mean_bin(policy), kind="stable")
    figure = pictures["learned_table"].figure
    dots = lines(figure.axes[2], marker=".")
    for line, row in zip(dots, tables.state_values(policy)[:, order], strict=True):
        assert_array_equal(line.get_ydata(), row)
    strip = np.asarray(figure.axes[0].images[0].get_array())
    assert_array_equal(strip.sum(axis=0), [2] * len(order))  # two nodes a cluster
    levels = np.arange(policy.bins) @ strip / 2
    assert (np.diff(levels) >= 0).all()


@pytest.mark.parametrize("name", ["learned_frozen", "learned_joint"])
def test_score_panels_hold_every_seed_of_every_schedule(pictures, study, name):
    result = study.learned.result
    if name == "learned_frozen":
        panels = [(*frozen.scores, *frozen.peers) for frozen in result.frozen]
    else:
        panels = tables.by_work((*tables.joint_arms(study), *result.peers)).values()
    for axis, scores in zip(pictures[name].figure.axes, panels, strict=True):
        dots = [line.get_xdata() for line in lines(axis, marker=".")]
        assert len(dots) == len(scores)
        for score in scores:
            assert any(np.array_equal(drawn, score.test_mse) for drawn in dots)
        names = [text.get_text() for text in axis.get_yticklabels()]
        assert sorted(names) == sorted(f"{s.label} ({s.node_updates:.0f})" for s in scores)


def test_rows_of_the_ratios_are_the_claims_against_a_random_schedule(pictures, study):
    (axis,) = pictures["learned_against_random"].figure.axes
    claims = tables.against_random(study)
    assert len(claims) == 14
    for line, claim in zip(lines(axis, marker="."), claims, strict=True):
        comparison = claim.comparison
        assert_allclose(line.get_xdata(), comparison.treatment / comparison.baseline)


def test_alternative_texts_follow_the_scores(pictures, study):
    other = with_scores(study, {"q_learning(reward=loss)": 0.5, "random": 3.0}, seeds=3)
    for function in FIGURES:
        moved = function(other).alt != pictures[function.__name__].alt
        assert moved is (function.__name__ not in ("learned_curves", "learned_table"))


# The tables.


def test_a_states_value_is_weighted_by_visits_over_clusters():
    values = tables.state_values(policy_of_two_clusters())
    assert_allclose(values, [[(3 * 1 + 1 * 5) / 4, 2.0, np.nan]])


def policy_of_two_clusters():
    """Clusters of two nodes over two bins: three states, of which the last was never met."""
    blank = untrained_policy(ring(4), contiguous(4, 2), 2, np.array([7]), ordered=False)
    return dataclasses.replace(
        blank,
        values=np.array([[[1.0, 2.0, 9.0], [5.0, 8.0, 9.0]]]),
        visits=np.array([[[3, 2, 0], [1, 0, 0]]]),
    )


def test_the_mean_bin_of_a_state_by_hand():
    # Two nodes over two bins: both high, one of each, both low.
    assert_array_equal(tables.mean_bin(policy_of_two_clusters()), [1, 0.5, 0])


def test_the_correlation_of_value_and_bin_is_that_of_every_visit():
    policy = policy_of_two_clusters()
    visits = np.array([[[3, 2, 4], [1, 0, 1]]])
    policy = dataclasses.replace(policy, visits=visits)
    seen = np.repeat(tables.mean_bin(policy), visits.sum(axis=(0, 1)))
    values = np.repeat(tables.state_values(policy)[0], visits.sum(axis=(0, 1)))
    assert_allclose(tables.bin_correlation(policy), np.corrcoef(seen, values)[0, 1])


def test_tables_hold_every_policy_and_every_arm(study):
    result = study.learned.result
    rows = tables.policies(study).rows
    scores = [score for frozen in result.frozen for score in frozen.scores]
    assert [row[1] for row in rows] == [score.label for score in scores]
    assert_allclose([row[5] for row in rows], [score.test_mse.mean() for score in scores])
    labels = [row[0] for row in tables.arms(study).rows]
    assert labels[:4] == [joint.arm.label for joint in result.joint]
    assert len(labels) == len(set(labels)) == 6 + len(result.peers)
    assert len(tables.claims(study, "exploration").rows) == 2


# The sentences.


def test_sentences_have_no_holes(study):
    text = findings.learned(study)
    assert not re.search(r"\bnan\b|\binf\b|None|[{}]|np\.|\(\)|: \.|; \.", text), text
    assert text.count("**") == 2 * 8


def test_the_headline_counts_who_beats_a_random_schedule(study):
    labels = {"q_learning(reward=loss)": 0.5, "q_ordered(reward=residual)": 2.0}
    text = findings.learned_headline(with_scores(study, labels))
    assert "Of 14 learned schedules 4 beat a random schedule at the same work" in text
    assert "3 are worse than it (q_ordered (residual), round_robin models" in text
    assert "7 are equivalent to it" in text


def test_a_policy_that_earns_less_than_a_random_one_is_told(study):
    frozen = study.learned.result.frozen[2]
    learned = frozen.learned[0]

    def told(end: float) -> str:
        rewards = np.ones_like(learned.total_reward)
        rewards[-1] = end
        other = dataclasses.replace(learned, total_reward=rewards)
        changed = dataclasses.replace(frozen, learned=(other,))
        return findings._frozen(changed, 3)

    assert "earns less than a random one: q_learning with the residual as reward" in told(0.9)
    assert "earns less" not in told(0.96) and "earns less" not in told(1.5)


def test_the_published_choice_is_set_beside_what_the_tables_say(study):
    text = findings.learned(study).split("**Which histogram is worth updating.**")[1]
    tables_shown = re.findall(r"([+-]\d\.\d\d)", text)
    negative = sum(value.startswith("-") for value in tables_shown)
    assert len(tables_shown) == 10
    assert f"In {negative} of 10 tables a state is worth more the lower" in text
