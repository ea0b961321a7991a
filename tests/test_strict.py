"""The strict protocol: what its selection may see, what every arm gets, and what it claims."""

import dataclasses
import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from clusterdyn import arms as study_arms
from clusterdyn.arms import TrainingRun, arm_schedule, message_passing_cell
from clusterdyn.artifacts import ArtifactStore
from clusterdyn.config import StudyConfig
from clusterdyn.datasets import Trajectories
from clusterdyn.execution import process_pool, train_all
from clusterdyn.profiles import strict_config, study_config
from clusterdyn.stats import holm
from clusterdyn.strict.arms import (
    COMPARED,
    Arm,
    at_work,
    claim_budget,
    nodes_per_sweep,
    work_arms,
)
from clusterdyn.strict.claims import FAMILIES, all_claims, decomposition
from clusterdyn.strict.config import StrictConfig
from clusterdyn.strict.power import simulate_power
from clusterdyn.strict.selection import Selection, select_rates
from clusterdyn.strict.study import GRU, all_arms, run_strict
from clusterdyn.strict.sweep_choices import (
    WATCHED,
    sweep_choices,
    updated_at_test,
    updated_clusters,
)
from clusterdyn.training import Divergence

SMALL = {
    "nodes": 8,
    "channels": 2,
    "train_trajectories": 20,
    "validation_trajectories": 6,
    "test_trajectories": 6,
    "batch_size": 10,
    "epochs": 1,
    "sweeps": 3,
}
RATE = 0.01


def small_config(**changes) -> StudyConfig:
    return study_config("quick", {**SMALL, **changes})


def small_strict(**changes) -> StrictConfig:
    return strict_config("quick", {"side_rates": [0.00316, 0.01, 0.0316], **changes})


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> ArtifactStore:
    return ArtifactStore(tmp_path_factory.mktemp("strict"), lambda line: None)


@pytest.fixture(scope="module")
def result(store):
    return run_strict(small_config(), small_strict(), RATE, store)


# What the selection may see.


def in_process(runs):
    return {run: run.train() for run in runs}


def test_no_number_of_the_test_split_reaches_the_selection(monkeypatch):
    arms = [Arm("full"), Arm("histogram"), Arm("random")]
    strict = small_strict(grid_extensions=1)
    before = select_rates(arms, small_config(), strict, in_process)

    def poisoned(config, seed):
        dataset = clean(config, seed)
        test = Trajectories(dataset.test.states * np.nan, dataset.test.controls * 1e6)
        return dataclasses.replace(dataset, test=test)

    clean = study_arms.study_dataset
    monkeypatch.setattr(study_arms, "study_dataset", poisoned)
    after = select_rates(arms, small_config(), strict, in_process)
    for arm in arms:
        assert_array_equal(after[arm].validation, before[arm].validation)
        assert after[arm].rate == before[arm].rate
    run = arms[0].run(small_config(), strict.test_seeds, (RATE,))
    assert not np.isfinite(run.train().test_mse).any()  # the poison was in the cup


def test_the_selection_follows_the_validation_split(monkeypatch):
    strict = small_strict(grid_extensions=0)
    before = select_rates([Arm("full")], small_config(), strict, in_process)[Arm("full")]

    def other_validation(config, seed):
        dataset = clean(config, seed)
        validation = Trajectories(-dataset.validation.states, dataset.validation.controls)
        return dataclasses.replace(dataset, validation=validation)

    clean = study_arms.study_dataset
    monkeypatch.setattr(study_arms, "study_dataset", other_validation)
    after = select_rates([Arm("full")], small_config(), strict, in_process)[Arm("full")]
    assert not (after.validation == before.validation).any()


# The grid. A trainer that makes up validation scores needs no training.


def made_up(score, divergences=lambda run: ()):
    """A trainer whose final validation MSE is ``score(seed, rate)``."""

    def train(runs):
        populations = {}
        for run in runs:
            seeds = np.repeat(run.config.seeds, len(run.config.learning_rates))
            rates = np.tile(run.config.learning_rates, len(run.config.seeds))
            scores = np.array([score(s, r) for s, r in zip(seeds, rates, strict=True)])
            populations[run] = SimpleNamespace(
                seeds=seeds,
                learning_rates=rates,
                validation_loss=np.stack([np.full_like(scores, 1e-9), scores]),
                divergences=divergences(run),
            )
        return populations

    return train


def select(score, divergences=lambda run: (), **changes) -> Selection:
    strict = small_strict(selection_rates=(0.001, 0.01, 0.1), **changes)
    arm = Arm("full")
    return select_rates([arm], small_config(), strict, made_up(score, divergences))[arm]


def test_the_smallest_mean_of_the_last_epochs_validation_mse_is_chosen():
    grid = select(lambda seed, rate: abs(math.log10(rate) + 2) + 1 + seed)
    assert (grid.rate, grid.at_edge, grid.extensions) == (0.01, False, 0)
    assert_allclose(grid.means, [2.5, 1.5, 2.5])


@pytest.mark.parametrize(("best", "rates"), [(2.0, [0.001, 0.01, 0.1, 1, 10, 100])])
def test_a_grid_grows_by_its_own_ratio_while_its_best_is_an_edge(best, rates):
    grid = select(lambda seed, rate: 10 - math.log10(rate), grid_extensions=3)
    assert_allclose(grid.rates, rates)
    assert (grid.at_edge, grid.extensions) == (True, 3)
    inside = select(lambda seed, rate: (math.log10(rate) - 1) ** 2 + 1, grid_extensions=5)
    assert (inside.rate, inside.at_edge, inside.extensions) == (10, False, 3)
    down = select(lambda seed, rate: (math.log10(rate) + 4) ** 2 + 1, grid_extensions=5)
    assert_allclose(down.rates, [1e-5, 1e-4, 0.001, 0.01, 0.1])
    assert (down.rate, down.at_edge, down.extensions) == (1e-4, False, 2)


def test_an_edge_that_may_not_grow_is_flagged():
    grid = select(lambda seed, rate: rate, grid_extensions=0)
    assert (grid.rate, grid.at_edge, len(grid.rates)) == (0.001, True, 3)


def test_a_rate_at_which_a_model_diverged_is_counted_and_not_chosen():
    def one_diverged(run):
        return tuple(Divergence(1, r, 3) for r in run.config.learning_rates if r == 0.01)

    grid = select(lambda seed, rate: abs(math.log10(rate) + 2) + 1, one_diverged)
    assert grid.diverged == 1
    assert np.isposinf(grid.validation[1, 1])
    assert np.isfinite(grid.validation[0, 1])
    assert grid.rate != 0.01
    broken = select(lambda seed, rate: math.nan if rate < 0.1 else 1.0)
    assert (broken.rate, broken.diverged) == (0.1, 4)


def test_an_arm_that_diverges_everywhere_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="arm 'full' has a diverged model at every learning rate"):
        select(lambda seed, rate: math.inf)


# What every arm gets.


def test_every_arm_gets_the_same_grid_seeds_and_budget(result):
    strict = small_strict()
    fixed = [arm for arm in result.arms if arm.label == f"histogram, rate={RATE:g}"]
    assert len(fixed) == 1
    for side, tests, selections, rates in (
        (False, 3, len(strict.selection_seeds), strict.selection_rates),
        (True, strict.side_test_seeds, strict.side_selection_seeds, strict.side_rates),
    ):
        labels = {a.label for a in all_arms(small_config(), strict, RATE) if a.side == side}
        of_kind = [arm for arm in result.arms if arm.label in labels and arm not in fixed]
        assert len(of_kind) > 10
        for arm in of_kind:
            assert arm.test_mse.shape == (tests,)
            assert arm.validation.shape == (selections, len(rates))
            assert_allclose(arm.rates, rates)


def test_the_runs_of_all_arms_differ_in_what_an_arm_changes_and_in_nothing_else():
    config, strict = small_config(), small_strict()
    for arm in all_arms(config, strict, RATE):
        run = arm.run(config, strict.test_seeds, (RATE,))
        changed = {
            name: value
            for name, value in vars(run.config).items()
            if value != getattr(config, name)
            and name not in ("seeds", "learning_rates", "validation_curve")
        }
        assert changed == dict(arm.changes)
        assert (run.config.seeds, run.config.learning_rates) == (strict.test_seeds, (RATE,))


def test_test_seeds_are_fresh():
    with pytest.raises(ValueError, match=r"test_seeds must be fresh; got \[1\]"):
        small_strict(selection_seeds=(0, 1), test_seeds=(1, 2))


def test_every_arm_stands_once_and_has_a_label_of_its_own():
    for config, strict in (
        (small_config(), small_strict()),
        (study_config("full"), strict_config("full")),
    ):
        labels = [arm.label for arm in all_arms(config, strict, RATE)]
        assert len(labels) == len(set(labels))
        assert {"oracle", "histogram(ties=oldest)", GRU.label} <= set(labels)


# Equal work.


@pytest.mark.parametrize("schedule", COMPARED)
def test_node_updates_of_a_sweep_are_what_the_ledger_counts(result, schedule):
    arm = result.of(Arm(schedule))
    found = arm.node_updates / small_config().sweeps
    expected = nodes_per_sweep(small_config(), schedule)
    # A clockwork's rollout of 12 sweeps is no whole number of its periods.
    assert found == pytest.approx(expected, rel=0.1 if schedule == "clockwork" else 1e-12)


def test_arms_at_a_budget_do_the_work_of_the_full_sweep():
    config, strict = study_config("full"), strict_config("full")
    assert claim_budget(strict) == config.nodes * config.sweeps
    for schedule in COMPARED:
        arm = at_work(config, schedule, claim_budget(strict))
        sweeps = dict(arm.changes).get("sweeps", config.sweeps)
        assert sweeps * nodes_per_sweep(config, schedule) == pytest.approx(48, rel=0.07)


def test_an_arm_that_cannot_keep_a_budget_is_left_out():
    config = study_config("full")
    assert at_work(config, "full", 8) is None  # 16 nodes in its one sweep
    assert at_work(config, "round_robin", 12) == Arm("round_robin")
    assert at_work(config, "sequential", 192) is None  # 192 updates of one node


def test_work_arms_hold_the_sweeps_of_the_study_and_ascend():
    config, strict = study_config("full"), strict_config("full")
    arms = work_arms(config, strict)
    assert list(arms) == list(COMPARED)
    for schedule, group in arms.items():
        sweeps = [dict(arm.changes).get("sweeps", config.sweeps) for arm in group]
        assert sweeps == sorted(set(sweeps))
        assert config.sweeps in sweeps
        assert all(arm.schedule == schedule for arm in group)


def test_all_but_one_schedule_are_measured_at_the_largest_budget():
    config, strict = study_config("full"), strict_config("full")
    arms = work_arms(config, strict)
    assert max(strict.work_budgets) == 192
    sweeps = {name: dict(group[-1].changes).get("sweeps", 3) for name, group in arms.items()}
    assert sweeps == {
        **dict.fromkeys(COMPARED, 48),  # of 4 nodes
        **dict.fromkeys(["full", "cluster_sequential", "histogram_ordered"], 12),  # of 16 nodes
        "clockwork": 26,  # of 7.5 nodes on average
        "sequential": 3,  # 12 sweeps of 16 updates are more than an arm may take
    }


# Which clusters each sweep updates.


def updated(schedule: str, *, weights: float = 0.0, **changes) -> np.ndarray:
    """(n, B, T K, C) of two models, all of whose parameters are zero or normal noise."""
    config = small_config(seeds=(100, 101), learning_rates=(RATE,), test_trajectories=40, **changes)
    count = message_passing_cell(config).parameter_count
    parameters = weights * np.random.default_rng(0).normal(size=(2, count))
    return updated_at_test(TrainingRun(config, schedule), parameters)


def in_turn(sweeps: int, clusters: int) -> np.ndarray:
    """(T K, C): the cluster k mod C in sweep k."""
    return np.arange(sweeps)[:, None] % clusters == np.arange(clusters)


@pytest.mark.parametrize("clusters", [2, 4])
def test_round_robin_updates_cluster_k_mod_c_in_every_trajectory(clusters):
    found = updated("round_robin", weights=1.0, clusters=clusters)
    assert_array_equal(found, np.broadcast_to(in_turn(12, clusters), (2, 40, 12, clusters)))


@pytest.mark.parametrize("schedule", ["histogram", "residual"])
def test_where_nothing_differs_the_lowest_cluster_gets_every_update(schedule):
    # With zero weights h stays 0: no disagreement, no residual, every cluster ties.
    found = updated(schedule)
    assert found[..., 0].all() and not found[..., 1:].any()


@pytest.mark.parametrize("schedule", ["histogram(ties=oldest)", "histogram_fair"])
def test_where_nothing_differs_waiting_decides_and_makes_round_robin(schedule):
    assert_array_equal(updated(schedule), np.broadcast_to(in_turn(12, 4), (2, 40, 12, 4)))


@pytest.mark.parametrize("schedule", ["histogram(ties=random)", "random"])
def test_where_lots_decide_every_cluster_gets_its_share_and_repeats_by_chance(schedule):
    found = updated(schedule)
    draws = found.shape[0] * found.shape[1] * found.shape[2]  # 960
    assert (found.sum(axis=-1) == 1).all()
    error = math.sqrt(0.25 * 0.75 / draws)
    assert_allclose(found.mean(axis=(0, 1, 2)), 0.25, atol=4 * error)
    again = (found[:, :, 1:] & found[:, :, :-1]).any(axis=-1)
    assert abs(again.mean() - 0.25) < 4 * error


def test_a_sweep_of_several_updates_counts_every_cluster_that_it_updates():
    assert updated("cluster_sequential", weights=1.0).all()
    schedule = arm_schedule(small_config(clusters=2), "cluster_sequential")
    nobody, first = torch.tensor([False, False]), torch.tensor([True, False])
    own = torch.tensor([[[False, True], [True, False]]])  # (S, B, C)
    activity = [first, own, nobody, own, nobody, first]  # two updates a sweep
    assert updated_clusters(activity, schedule, population=1, batch=2).tolist() == [
        [
            [[True, True], [False, True], [True, False]],
            [[True, False], [True, False], [True, False]],
        ]
    ]


def test_shares_by_sweep_add_up_to_the_ledger_that_training_left(result):
    choices = result.sweep_choices
    assert choices.schedules == WATCHED
    assert choices.share.shape == (len(WATCHED), 3, 12, 4)
    assert_allclose(choices.share.sum(axis=-1), 1)
    for schedule, share in zip(choices.schedules, choices.share, strict=True):
        assert_allclose(share.mean(axis=1), result.of(Arm(schedule)).share, atol=1e-12)


def test_repeats_count_the_trajectories_in_which_a_sweep_does_as_the_one_before():
    config = small_config(seeds=(100, 101), learning_rates=(RATE,))
    runs = {name: TrainingRun(config, name) for name in WATCHED}
    count = message_passing_cell(config).parameter_count
    nothing = SimpleNamespace(parameters=np.zeros((2, count)))
    choices = sweep_choices(runs, dict.fromkeys(runs.values(), nothing))
    repeats = dict(zip(choices.schedules, choices.repeats, strict=True))
    assert choices.repeats.shape == (len(WATCHED), 2, 11)
    for name in ("histogram", "residual"):  # cluster 0 in every sweep
        assert (repeats[name] == 1).all()
    for name in ("round_robin", "histogram(ties=oldest)", "histogram_fair"):  # in turn
        assert (repeats[name] == 0).all()
    assert 0 < repeats["random"].mean() < 1


# Claims.


def test_p_values_are_adjusted_by_holm_within_each_family(result):
    claims = all_claims(result, small_config(), small_strict(), RATE)
    assert {claim.family for claim in claims} <= set(FAMILIES)
    for family in FAMILIES:
        of_family = [claim for claim in claims if claim.family == family]
        raw = [claim.comparison.test.pvalue for claim in of_family]
        if raw:
            assert_allclose([claim.adjusted_p for claim in of_family], holm(raw))


def test_the_steps_of_the_decomposition_add_up_to_the_whole_way(result):
    config, strict = small_config(), small_strict()
    steps = [
        claim
        for claim in all_claims(result, config, strict, RATE)
        if claim.family == "decomposition"
    ]
    way = decomposition(config, strict, RATE)
    assert [step for _, _, step in way] == [claim.step for claim in steps]
    for (_, after, _), (before, _, _) in pairwise(way):
        assert after == before
    whole = result.of(way[-1][1]).test_mse - result.of(way[0][0]).test_mse
    assert_allclose(sum(claim.comparison.differences for claim in steps), whole, atol=1e-12)


def test_claims_compare_the_arms_that_they_name_on_the_same_seeds(result):
    scores = {arm.label: arm.test_mse for arm in result.arms}
    scores |= {"persistence": result.persistence, "linear least squares": result.linear}
    scores["gru"] = result.of(GRU).test_mse
    for claim in all_claims(result, small_config(), small_strict(), RATE):
        n = len(claim.comparison.seeds)
        assert_array_equal(claim.comparison.seeds, result.test_seeds[:n])
        assert_array_equal(claim.comparison.baseline, scores[claim.baseline][:n])
        assert_array_equal(claim.comparison.treatment, scores[claim.treatment][:n])
        assert n == min(len(scores[claim.baseline]), len(scores[claim.treatment]))


def test_a_model_run_under_its_own_schedule_scores_as_it_was_tested(result):
    for number, schedule in enumerate(result.matrix_schedules):
        expected = result.of(Arm(schedule)).test_mse
        assert_allclose(result.matrix[number, number], expected, rtol=1e-6)
    eta = list(result.relaxations).index(small_config().relaxation)
    for number, schedule in enumerate(result.relaxation_schedules):
        expected = result.of(Arm(schedule)).test_mse
        assert_allclose(result.relaxation_mse[number, eta], expected, rtol=1e-6)


# Nothing, and something.


def twins(count: int, improvement: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Scores of an arm and of its twin: normal noise of 20 % of the mean, correlated by half."""
    rng = np.random.default_rng(1)
    common = rng.normal(size=count)
    noise = rng.normal(size=(2, count))
    first, second = 1 + 0.2 * (common + noise) / math.sqrt(2)
    return first, second * (1 - improvement)


def test_a_null_experiment_is_no_difference_in_about_95_of_100_studies():
    rng = np.random.default_rng(2)
    power = simulate_power(*twins(400), seeds=32, studies=1000, rng=rng)
    # Three binomial standard errors about 5 %.
    assert abs(power.found[0] - 0.05) < 3 * math.sqrt(0.05 * 0.95 / 1000)


def test_a_planted_improvement_is_found_with_the_promised_power():
    rng = np.random.default_rng(3)
    power = simulate_power(*twins(400), seeds=8, studies=1000, rng=rng)
    errors = np.sqrt(power.promised * (1 - power.promised) / power.studies)
    # The sign-flip test of 8 pairs stands at 5/128 and not at 1/20, so it finds a little less.
    assert (power.found[1:] < power.promised[1:] + 3 * errors[1:] + 1e-3).all()
    assert (power.found[1:] > power.promised[1:] - 3 * errors[1:] - 0.08).all()
    many = simulate_power(*twins(400), seeds=32, studies=400, rng=rng)
    assert many.found[list(many.improvements).index(0.3)] > 0.99


def test_the_detectable_effect_is_found_with_80_percent_power():
    first, second = twins(4000)
    rng = np.random.default_rng(4)
    effect = simulate_power(first, second, seeds=24, studies=1, rng=rng).detectable
    found = 0
    for _ in range(400):
        rows = rng.integers(len(first), size=24)
        planted = second[rows] - effect * (first.mean() + second.mean()) / 2
        differences = planted - first[rows]
        t = differences.mean() / (differences.std(ddof=1) / math.sqrt(24))
        found += abs(t) > 2.0687  # the 97.5 % point of t with 23 degrees of freedom
    assert abs(found / 400 - 0.8) < 3 * math.sqrt(0.8 * 0.2 / 400) + 0.01


# Side by side.


def test_runs_in_two_processes_give_the_bits_of_runs_in_one(tmp_path):
    config = small_config()
    runs = [
        TrainingRun(dataclasses.replace(config, seeds=(4, 5)), name)
        for name in ("full", "random", "histogram")
    ]
    alone = train_all(runs, ArtifactStore(tmp_path / "one", lambda line: None))
    lines: list[str] = []
    with process_pool(2) as pool:
        together = train_all(runs, ArtifactStore(tmp_path / "two", lines.append), executor=pool)
    for run in runs:
        assert_array_equal(together[run].parameters, alone[run].parameters)
        assert_array_equal(together[run].test_mse, alone[run].test_mse)
    assert lines[0] == "runs: training 3 populations, 12 models"
    assert lines[-1].startswith("runs: 3 of 3 populations, ")
    lines.clear()
    train_all([*runs, runs[0]], ArtifactStore(tmp_path / "two", lines.append))
    assert lines == ["runs: 3 of 3 populations reused"]


def test_the_strict_study_reuses_its_populations(result, store):
    lines: list[str] = []
    again = run_strict(
        small_config(), small_strict(), RATE, ArtifactStore(store.root, lines.append)
    )
    assert all("reused" in line for line in lines)
    for first, second in zip(result.arms, again.arms, strict=True):
        assert_array_equal(first.test_mse, second.test_mse)
