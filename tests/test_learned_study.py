"""The study of learned schedules: what it may see, what it trains, and what it compares."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from clusterdyn import arms as study_arms
from clusterdyn import open_study
from clusterdyn.arms import TrainingRun, message_passing_cell, study_dataset, study_partition
from clusterdyn.artifacts import ArtifactStore
from clusterdyn.datasets import Trajectories
from clusterdyn.execution import process_pool, train_all
from clusterdyn.graph import ring
from clusterdyn.graphs import make_graph
from clusterdyn.profiles import learning_config, strict_config, study_config
from clusterdyn.qlearning import runs as learning_runs
from clusterdyn.qlearning.arms import JointArm, joint_arms, peers_of
from clusterdyn.qlearning.claims import FAMILIES, learned_claims
from clusterdyn.qlearning.config import QLearningConfig
from clusterdyn.qlearning.policy import untrained_policy
from clusterdyn.qlearning.runs import FrozenRun, JointRun, RetrainedRun, policy_schedule
from clusterdyn.qlearning.schedules import learned_schedule
from clusterdyn.qlearning.study import run_learned
from clusterdyn.stats import holm
from clusterdyn.strict import study as strict_study
from clusterdyn.strict.arms import Arm
from clusterdyn.strict.selection import select_rates
from clusterdyn.strict.study import run_under
from clusterdyn.sweeps import ledger, rollout
from clusterdyn.training import schedule_generators, stack_split, train_population

SMALL = {
    "nodes": 8,
    "channels": 2,
    "train_trajectories": 20,
    "validation_trajectories": 6,
    "test_trajectories": 6,
    "batch_size": 10,
    "epochs": 2,
    "sweeps": 2,
}
CONFIG = study_config("quick", SMALL)
STRICT = strict_config("quick", {"work_budgets": [4, 16]})
LEARNING = QLearningConfig(
    passes=3,
    pass_trajectories=5,
    scored_passes=2,
    epoch_passes=1,
    edge_trajectories=5,
    ordered_test_seeds=2,
)


def quiet(line: str) -> None:
    pass


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> ArtifactStore:
    return ArtifactStore(tmp_path_factory.mktemp("learned"), quiet)


@pytest.fixture(scope="module")
def result(store):
    return run_learned(CONFIG, STRICT, LEARNING, store)


@pytest.fixture(scope="module")
def claims(result):
    return learned_claims(result, CONFIG)


def base_run(schedule: str = "full") -> TrainingRun:
    return TrainingRun(replace(CONFIG, seeds=(5, 6), learning_rates=(0.01,)), schedule)


def joint_run(*rates: float, reward: str = "residual", ordered: bool = False) -> JointRun:
    return JointRun(replace(CONFIG, seeds=(5, 6), learning_rates=rates), ordered, reward, LEARNING)


def changed_split(monkeypatch, split: str, change) -> None:
    """From here on every run sees a changed split."""

    def other(config, seed):
        dataset = study_dataset(config, seed)
        part = getattr(dataset, split)
        part = Trajectories(change(part.states), change(part.controls))
        return dataclasses.replace(dataset, **{split: part})

    for module in (study_arms, learning_runs, strict_study):
        monkeypatch.setattr(module, "study_dataset", other)


def poisoned(values: np.ndarray) -> np.ndarray:
    return values * np.nan


# What learning may see.


@pytest.mark.parametrize("reward", ["residual", "loss"])
def test_no_number_of_the_test_split_reaches_a_policy_on_frozen_models(
    reward, monkeypatch, tmp_path
):
    store = ArtifactStore(tmp_path, quiet)
    run = FrozenRun(base_run(), False, reward, 2, LEARNING, tmp_path)
    train_all([run.base], store)
    before = run.train()
    changed_split(monkeypatch, "test", poisoned)
    after = run.train()
    for name in ("edges", "values", "visits"):
        assert_array_equal(
            getattr(after.learned.policy, name), getattr(before.learned.policy, name)
        )
    assert_array_equal(after.learned.total_reward, before.learned.total_reward)
    assert_array_equal(after.learned.validation_mse, before.learned.validation_mse)
    assert np.isfinite(before.test_mse).all()
    assert not np.isfinite(after.test_mse).any()  # the poison was in the cup


def test_no_number_of_the_test_split_reaches_a_joint_arm_or_its_learning_rate(monkeypatch):
    arms = [JointArm("q_learning", reward="loss", learning=LEARNING)]

    def train(runs):
        populations.append({run: run.train() for run in runs})
        return {run: joint.population for run, joint in populations[-1].items()}

    populations: list[dict] = []
    before = select_rates(arms, CONFIG, STRICT, train)[arms[0]]
    changed_split(monkeypatch, "test", poisoned)
    after = select_rates(arms, CONFIG, STRICT, train)[arms[0]]
    assert_array_equal(after.validation, before.validation)
    assert after.rate == before.rate
    (clean,), (other,) = (found.values() for found in populations)
    assert_array_equal(other.policy.values, clean.policy.values)
    assert_array_equal(other.population.parameters, clean.population.parameters)
    assert not np.isfinite(other.population.test_mse).any()


@pytest.mark.parametrize("split", ["train", "validation"])
def test_policies_follow_the_training_split_and_rates_the_validation_split(split, monkeypatch):
    arm = JointArm("q_learning", learning=LEARNING)

    def selected():
        kept = []

        def train(runs):
            kept.extend(run.train() for run in runs)
            return {run: joint.population for run, joint in zip(runs, kept, strict=True)}

        return select_rates([arm], CONFIG, STRICT, train)[arm].validation, kept[0].policy

    validation, policy = selected()
    changed_split(monkeypatch, split, np.negative)
    other_validation, other_policy = selected()
    assert not (other_validation == validation).any()
    assert np.array_equal(other_policy.values, policy.values) == (split == "validation")


def test_a_joint_arm_is_selected_on_the_grid_and_seeds_of_every_arm():
    for arm in joint_arms(LEARNING):
        assert arm.selection_seeds(STRICT) == Arm("full").selection_seeds(STRICT)
        run = arm.run(CONFIG, (1, 2), (0.1, 0.2))
        assert (run.config.seeds, run.config.learning_rates) == ((1, 2), (0.1, 0.2))
        assert replace(run.config, seeds=CONFIG.seeds) == replace(CONFIG, learning_rates=(0.1, 0.2))


# What is trained.


def test_models_are_retrained_under_the_tables_of_their_own_seed_at_the_joint_rate(tmp_path):
    joint = joint_run(0.003, 0.03)
    store = ArtifactStore(tmp_path, quiet)
    policy = train_all([joint], store)[joint].policy
    config = replace(joint.config, learning_rates=(0.01, 0.02, 0.1))
    found = RetrainedRun(config, joint, 0.03, tmp_path).train()
    for number, seed in enumerate((5, 6)):
        own = policy.rows(np.full(3, 2 * number + 1))  # rows go by seed, then by learning rate
        expected = train_population(
            message_passing_cell(config),
            policy_schedule(config, own),
            {seed: study_dataset(config, seed)},
            config.learning_rates,
            config.training(),
        )
        rows = slice(3 * number, 3 * number + 3)
        assert_allclose(found.parameters[rows], expected.parameters, rtol=1e-4, atol=1e-6)
        assert_array_equal(found.seeds[rows], [seed] * 3)


def test_the_score_of_a_frozen_policy_is_a_rollout_of_the_base_models(store, result):
    frozen = result.frozen[-1]  # C times the sweeps
    assert (frozen.base, frozen.sweeps) == ("full", 2 * CONFIG.clusters)
    run = TrainingRun(
        replace(CONFIG, seeds=STRICT.test_seeds, learning_rates=(frozen.base_rate,)), "full"
    )
    population = train_all([run], store)[run]
    training = run.config.training()
    datasets = [study_dataset(run.config, seed) for seed in run.config.seeds]
    states, controls = stack_split(datasets, "test", training)
    for learned, score in zip(frozen.learned, frozen.scores, strict=True):
        schedule = policy_schedule(CONFIG, learned.policy)
        out = rollout(
            message_passing_cell(CONFIG).bind(training.tensor(population.parameters)),
            states[:, :, 0],
            controls,
            schedule,
            schedule_generators(STRICT.test_seeds, training=False),
            sweeps=frozen.sweeps,
            relaxation=CONFIG.relaxation,
        )
        mse = (out.predictions - states[:, :, 1:]).square().mean(dim=(1, 2, 3))
        assert_allclose(score.test_mse, mse, rtol=1e-6)
        book = ledger(out.activity, schedule, population=3, batch=6, horizon=controls.shape[2])
        assert_array_equal(score.share, book.share)
        assert score.node_updates == frozen.sweeps * 2  # of two nodes a cluster


def test_a_random_order_is_that_of_an_untrained_table(store, result):
    frozen = result.frozen[0]
    run = TrainingRun(
        replace(CONFIG, seeds=STRICT.test_seeds, learning_rates=(frozen.base_rate,)), frozen.base
    )
    population = train_all([run], store)[run]
    blank = untrained_policy(
        ring(8), study_partition(CONFIG), CONFIG.bins, np.array(STRICT.test_seeds), ordered=True
    )
    mse, book = run_under(run, population, policy_schedule(CONFIG, blank), sweeps=frozen.sweeps)
    (peer,) = (peer for peer in frozen.peers if peer.label == "random order")
    assert_array_equal(peer.test_mse, mse)
    assert (book.largest_age == 0).all()


@pytest.mark.parametrize("ordered", [False, True])
def test_a_policy_sees_the_disagreement_of_the_studys_own_graph(store, ordered):
    config = replace(CONFIG, graph="complete", seeds=(5, 6), learning_rates=(0.01,))
    base = TrainingRun(config, "full")
    run = FrozenRun(base, ordered, "residual", 2, LEARNING, store.root)
    found, population = (train_all([each], store)[each] for each in (run, base))
    schedule = learned_schedule(
        study_partition(config), make_graph("complete", 8), found.learned.policy
    )
    assert_array_equal(found.test_mse, run_under(base, population, schedule, sweeps=2)[0])
    with pytest.raises(ValueError, match="does not fit the graph 'ring'"):
        learned_schedule(study_partition(config), ring(8), found.learned.policy)


def test_every_policy_is_learned_in_every_setting_and_beside_models(result):
    kinds = [
        [(learned.policy.name, learned.policy.reward) for learned in frozen.learned]
        for frozen in result.frozen
    ]
    both = [(name, r) for name in ("q_learning", "q_ordered") for r in ("residual", "loss")]
    assert kinds == [both, both, both[:2]]
    assert [(j.policy.name, j.policy.reward) for j in result.joint] == both
    assert [f"{name}(reward={reward}), retrained" for name, reward in both[:2]] == [
        arm.label for arm in result.retrained
    ]
    for frozen in result.frozen:
        for learned in frozen.learned:
            assert_array_equal(learned.policy.seeds, STRICT.test_seeds)
            assert learned.total_reward.shape == (len(LEARNING.curve), 3)


def test_two_processes_learn_the_bits_of_one(tmp_path):
    alone, together = (ArtifactStore(tmp_path / name, quiet) for name in ("one", "two"))

    def runs(store: ArtifactStore) -> list:
        base = base_run("round_robin")
        return [
            joint_run(0.01),
            *(FrozenRun(base, ordered, "loss", 2, LEARNING, store.root) for ordered in (0, 1)),
        ]

    train_all([base_run("round_robin")], alone)
    train_all([base_run("round_robin")], together)
    first = list(train_all(runs(alone), alone).values())
    with process_pool(2) as pool:
        second = list(train_all(runs(together), together, executor=pool).values())
    assert_array_equal(first[0].policy.values, second[0].policy.values)
    assert_array_equal(first[0].population.parameters, second[0].population.parameters)
    for before, after in zip(first[1:], second[1:], strict=True):
        assert_array_equal(after.learned.policy.values, before.learned.policy.values)
        assert_array_equal(after.test_mse, before.test_mse)


def test_a_second_study_reuses_every_run(result, store):
    lines: list[str] = []
    again = run_learned(CONFIG, STRICT, LEARNING, ArtifactStore(store.root, lines.append))
    assert lines and all("reused" in line for line in lines)
    for before, after in zip(result.joint, again.joint, strict=True):
        assert_array_equal(after.policy.values, before.policy.values)
        assert_array_equal(after.arm.test_mse, before.arm.test_mse)


# What is compared.


def test_claims_compare_at_equal_work_alone(result, claims):
    work = {arm.label: arm.node_updates for arm in (*result.peers, *result.retrained)}
    work |= {joint.arm.label: joint.arm.node_updates for joint in result.joint}
    for frozen in result.frozen:
        where = f", trained with {frozen.base}, run with {frozen.sweeps} sweeps"
        work |= {score.label + where: score.node_updates for score in frozen.scores}
        work |= {peer.label + where: peer.node_updates for peer in frozen.peers}
    for claim in claims:
        assert_allclose(work[claim.treatment], work[claim.baseline], rtol=1e-6)
    assert {claim.family for claim in claims} == set(FAMILIES)
    assert not any("oracle" in claim.baseline for claim in claims)


def test_every_learned_schedule_is_compared_with_a_random_one(result, claims):
    random = {claim.treatment for claim in claims if claim.baseline.startswith("random")}
    treatments = {joint.arm.label for joint in result.joint}
    for frozen in result.frozen:
        where = f", trained with {frozen.base}, run with {frozen.sweeps} sweeps"
        treatments |= {score.label + where for score in frozen.scores}
    assert random == treatments and len(treatments) == 14


def test_p_values_are_adjusted_within_each_family(claims):
    for family in FAMILIES:
        mine = [claim for claim in claims if claim.family == family]
        expected = holm([claim.comparison.test.pvalue for claim in mine])
        assert_allclose([claim.adjusted_p for claim in mine], expected)


def test_exploration_is_judged_by_the_same_policys_models_with_and_without(result, claims):
    exploration = [claim for claim in claims if claim.family == "exploration"]
    joint = {joint.arm.label: joint.arm.test_mse for joint in result.joint}
    assert len(exploration) == 2
    for claim, arm in zip(exploration, result.retrained, strict=True):
        assert claim.treatment == f"{claim.baseline}, retrained" == arm.label
        assert_allclose(claim.comparison.differences, arm.test_mse - joint[claim.baseline])


def test_the_arms_that_take_most_of_the_time_can_be_left_out():
    few = [arm.label for arm in joint_arms(replace(LEARNING, ordered_rewards=("loss",)))]
    assert few == [
        "q_learning(reward=residual)", "q_learning(reward=loss)", "q_ordered(reward=loss)"
    ]  # fmt: skip
    assert len(joint_arms(replace(LEARNING, ordered_rewards=()))) == 2


def test_peers_of_a_joint_arm_do_its_node_updates():
    one, _, ordered, _ = joint_arms(LEARNING)
    assert {dict(peer.changes).get("sweeps", 2) for peer in peers_of(CONFIG, one)} == {2}
    sweeps = {
        peer.schedule: dict(peer.changes).get("sweeps", 2) for peer in peers_of(CONFIG, ordered)
    }
    assert sweeps == {
        "random": 8,
        "round_robin": 8,
        "residual": 8,
        "cluster_sequential": 2,
        "histogram_ordered": 2,
        "full": 2,
    }


# Settings.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step_size": 1.5}, r"step_size must lie in \(0, 1\]; got 1.5"),
        ({"discount": 1.0}, r"discount must lie in \[0, 1\); got 1"),
        ({"first_exploration": -0.1}, r"first_exploration must lie in \[0, 1\]"),
        ({"passes": 0}, "passes must be positive; got 0"),
        ({"passes": 1.5}, "passes must be a whole number; got 1.5"),
        ({"ordered_test_seeds": 1}, "ordered_test_seeds must be at least 2"),
        ({"ordered_rewards": ("praise",)}, "reward must be one of residual, loss; got 'praise'"),
        ({"ordered_rewards": ("loss", "loss")}, "ordered_rewards must not repeat"),
    ],
)
def test_settings_that_do_not_fit_are_refused_in_a_sentence(changes, message):
    with pytest.raises(ValueError, match=message):
        QLearningConfig(**changes)


def test_exploration_falls_evenly_from_first_to_last():
    config = QLearningConfig()
    assert_allclose(
        [config.exploration(number, 3) for number in range(3)], [0.6, 0.325, 0.05], rtol=1e-15
    )
    assert_allclose(config.exploration(0, 1), 0.05, rtol=1e-14)


def test_the_reference_profile_learns_nothing(tmp_path):
    assert learning_config("reference") is None
    assert learning_config("full") == QLearningConfig()
    with pytest.raises(ValueError, match="profile reference learns no schedules"):
        _ = open_study("reference", {}, tmp_path).learned
