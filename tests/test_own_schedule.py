"""Schedules that users bring: found by name, checked, trained and judged like any other."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from clusterdyn import check_schedule, open_study, try_schedule
from clusterdyn.__main__ import main
from clusterdyn.arms import TrainingRun, arm_schedule
from clusterdyn.comparison import compare
from clusterdyn.contract import ScheduleError, example_setting
from clusterdyn.execution import LocalProcesses, train_all
from clusterdyn.figures.protocol import groups_of, look_of
from clusterdyn.limits.config import LimitsConfig
from clusterdyn.limits.experiments import plan
from clusterdyn.profiles import study_config
from clusterdyn.schedules import Histogram, Residual, RoundRobin, Schedule, StaticSchedule
from clusterdyn.schedules import own as own_module
from clusterdyn.schedules.own import build, own_class, own_name, own_source
from clusterdyn.stats import holm
from clusterdyn.strict.arms import COMPARED, compared, nodes_per_sweep
from clusterdyn.trial import trial_pairs

SMALL = {"nodes": 8, "channels": 2, "epochs": 1, "train_trajectories": 20, "batch_size": 10}

IN_TURN = '''
import torch
from clusterdyn.schedules import Schedule

class InTurn(Schedule):
    """Round robin, written anew."""

    def start(self, generators, batch):
        return 0

    def choose(self, view, state):
        active = torch.zeros(self.partition.clusters, dtype=torch.bool)
        active[state % self.partition.clusters] = True
        return active, state + 1

class Nothing:
    pass

class Hungry(Schedule):
    def __init__(self, partition, graph, appetite):
        super().__init__(partition)

class Failing(Schedule):
    def __init__(self, partition):
        raise RuntimeError("no luck")

class Forgetful(Schedule):
    def __init__(self, partition):
        pass
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module in the working directory; its name, new for each test."""
    name = f"brought_{abs(hash(tmp_path)) % 10**12}"
    (tmp_path / f"{name}.py").write_text(IN_TURN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    sys.modules.pop(name, None)


def config_of(text: str, **changes):
    return study_config("quick", {**SMALL, "schedule": text, **changes})


# Found by name.


def test_a_schedule_of_the_working_directory_trains_as_its_twin(module):
    text = f"{module}:InTurn"
    run = TrainingRun(config_of(text, dtype="float64"), text)
    twin = TrainingRun(config_of("round_robin", dtype="float64"), "round_robin")
    # Not to the bit: what a schedule writes down beforehand is computed in another order.
    assert_allclose(run.train().parameters, twin.train().parameters, rtol=0, atol=1e-12)


def test_it_trains_in_other_processes_to_the_same_bits(module, tmp_path):
    from populations import Log

    run = TrainingRun(config_of(f"{module}:InTurn"), f"{module}:InTurn")
    pool = LocalProcesses(1)
    try:
        found = train_all([run], Log(tmp_path / "artifacts"), executor=pool)[run]
    finally:
        pool.terminate()
    assert_array_equal(found.parameters, run.train().parameters)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("no_such_module_here:X", "there is no module no_such_module_here on Python's path or in"),
        ("{m}.part:X", "there is no module {m}.part on Python's path or in"),
        ("{m}:Missing", "module {m} has no Missing"),
        ("{m}:Nothing", "Nothing is not a subclass of clusterdyn.schedules.Schedule"),
        ("{m}:torch", "torch is not a subclass"),
        ("{m}:InTurn(bins=2)", "without options"),
        ("{m}:", "a schedule of your own is written package.module:Class"),
        ("a b:X", "a schedule of your own is written package.module:Class"),
        ("{m}:Hungry", "its constructor asks for 'appetite', which has no default and is none of"),
        ("{m}:Failing", "cannot be built: RuntimeError: no luck"),
        ("{m}:Forgetful", "must call super().__init__(partition)"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(text, sentence, module):
    with pytest.raises(ValueError, match=re.escape(sentence.format(m=module))) as refusal:
        config_of(text.format(m=module))
    assert "\n" not in str(refusal.value)


def test_a_module_that_fails_when_it_is_imported_is_named(module, tmp_path):
    (tmp_path / f"{module}_broken.py").write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"importing \w+_broken failed: ZeroDivisionError"):
        config_of(f"{module}_broken:X")
    (tmp_path / f"{module}_lacks.py").write_text("import not_there\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"importing \w+_lacks failed: No module named 'not_th"):
        config_of(f"{module}_lacks:X")


def test_the_command_line_refuses_it_before_anything_runs(module, tmp_path, capsys):
    out = tmp_path / "out"
    given = ["--set", f"schedule={module}:Nothing", "--output", str(out)]
    assert main(["report", "--profile", "quick", *given]) == 2
    assert "Nothing is not a subclass" in capsys.readouterr().err
    assert not out.exists()


def test_a_constructor_gets_what_it_asks_for_of_the_studys_setting():
    class Asks(Schedule):
        def __init__(self, partition, relaxation, *, bins=9, depth=3):
            super().__init__(partition)
            self.got = (relaxation, bins, depth)

    setting = example_setting()
    assert build(Asks, "asks", setting).got == (setting["relaxation"], setting["bins"], 3)


# Kept by its source.


def test_results_are_kept_by_the_source_of_the_module(module, tmp_path):
    text = f"{module}:InTurn"
    config = config_of(text)
    before = (TrainingRun(config, text).stage.key, config.dependencies())
    baseline = TrainingRun(config, "full").stage.key
    path = tmp_path / f"{module}.py"
    path.write_text(IN_TURN + "\n# another version\n", encoding="utf-8")
    assert TrainingRun(config, text).stage.key == before[0]  # what was imported is what runs
    sys.modules.pop(module)
    assert TrainingRun(config, text).stage.key != before[0]
    assert config.dependencies() != before[1]
    assert TrainingRun(config, "full").stage.key == baseline


def test_a_class_without_a_file_is_kept_for_its_own_process_alone():
    text = own_name(Jumpy)
    assert own_class(text) is Jumpy and not own_source(text).startswith("unsaved")
    cell = type("Jumpy", (Jumpy,), {"__module__": "__main__"})
    again = type("Jumpy", (Jumpy,), {"__module__": "__main__"})
    sources = []
    for kind in (cell, again):
        sys.modules["__main__"].Jumpy = kind
        try:
            sources.append(own_source("__main__:Jumpy"))
            assert own_source("__main__:Jumpy") == sources[-1]
            assert TrainingRun(config_of("__main__:Jumpy"), "__main__:Jumpy").only_here
        finally:
            del sys.modules["__main__"].Jumpy
    assert sources[0] != sources[1] and all(s.startswith("unsaved ") for s in sources)


class Jumpy(Schedule):
    """One cluster a trajectory, where the proposal is farthest from the state."""

    def choose(self, view, state):
        distance = (view.proposal - view.hidden).abs().sum(dim=-1)
        return (distance @ self.membership(distance)).argmax(dim=-1), None


# Checked.


class Writes(Jumpy):
    def choose(self, view, state):
        view.hidden.mul_(1.01)
        return super().choose(view, state)


class Idle(Jumpy):
    def choose(self, view, state):
        return torch.zeros(self.partition.clusters, dtype=torch.bool), None


class Wide(Jumpy):
    def choose(self, view, state):
        return torch.ones(self.partition.clusters + 1, dtype=torch.bool), None


class Numbers(Jumpy):
    def choose(self, view, state):
        return super().choose(view, state)[0] + 99, None


class Alone(Jumpy):
    def choose(self, view, state):
        return super().choose(view, state)[0]


class Breaks(Jumpy):
    def choose(self, view, state):
        return state["cluster"]


class NeverStarts(Jumpy):
    def start(self, generators, batch):
        raise KeyError("seed")


class Dice(Jumpy):
    def choose(self, view, state):
        return torch.randint(self.partition.clusters, view.hidden.shape[:2]), None


class Crowd(Jumpy):
    def choose(self, view, state):
        chosen, _ = super().choose(view, state)
        return chosen[:, :1].expand_as(chosen).contiguous(), None


class Population(Jumpy):
    def choose(self, view, state):
        chosen, _ = super().choose(view, state)
        return chosen[:1].expand_as(chosen).contiguous(), None


class Half(Jumpy):
    updates_per_sweep = 0.5


class Silent(Schedule):
    pass


class Peeks(Jumpy):
    """Holds the trajectories that it is checked on, and looks one time step ahead."""

    def __init__(self, partition, states):
        super().__init__(partition)
        self.states = states

    def choose(self, view, state):
        ahead = self.states[:, :, view.time_step + 1, 0]
        return (ahead.abs() * 1e6).long() % self.partition.clusters, None


BAD = {
    Writes: "changes the hidden state or the proposal it is shown",
    Idle: "names no active cluster at time step 0, sweep 0, update 0",
    Wide: "must return its active clusters as bool of shape (4,) or (S, B, 4)",
    Numbers: "must number its clusters 0 to 3",
    Alone: "must return two things from choose",
    Breaks: "fails in choose: TypeError",
    NeverStarts: "fails in start: KeyError: 'seed'",
    Dice: "chooses differently when it is run again with the same seeds",
    Crowd: "reads other trajectories",
    Population: "reads other models",
    Half: "must have a positive whole number of updates_per_sweep; got 0.5",
    Silent: "has no method choose",
}


@pytest.mark.parametrize("kind", BAD, ids=lambda kind: kind.__name__)
def test_a_broken_rule_is_named_in_a_sentence(kind):
    with pytest.raises(ValueError, match=re.escape(BAD[kind])) as refusal:
        check_schedule(kind)
    message = str(refusal.value)
    assert f"{__name__}:{kind.__name__}" in message and "\n" not in message


def test_reading_the_future_is_named():
    setting = example_setting()
    rng = np.random.default_rng(5)
    states = torch.as_tensor(rng.normal(size=(2, 3, 4, 3)))
    controls = torch.as_tensor(rng.normal(size=(2, 3, 3, 1)))
    schedule = Peeks(setting["partition"], states)
    with pytest.raises(ScheduleError, match="reads the future: its choices before time step 1"):
        check_schedule(schedule, setting["graph"], (states, controls))


def test_a_class_that_keeps_the_rules_passes():
    for kind in (Jumpy, Histogram, Residual, RoundRobin):
        check_schedule(kind)


def test_a_built_schedule_needs_its_graph():
    with pytest.raises(ValueError, match="is checked on its own graph; give it"):
        check_schedule(Jumpy(example_setting()["partition"]))


# Its work.


class Growing(StaticSchedule):
    """One cluster, then two, then three."""

    def __init__(self, partition):
        table = torch.ones(3, partition.clusters, dtype=torch.bool).tril()
        super().__init__(partition, table)


def test_the_work_of_a_schedule_that_is_not_known_beforehand_is_counted():
    text = own_name(Growing)
    config = config_of(text, clusters=4)
    assert nodes_per_sweep(config, text) == 4.0  # of 2 nodes a cluster: 2, 4, 6
    assert nodes_per_sweep(config_of(own_name(Jumpy), clusters=4), own_name(Jumpy)) == 2.0


def test_a_trial_compares_at_equal_sweeps_and_at_equal_work():
    config = config_of(own_name(Jumpy), clusters=4)
    pairs = [(a.schedule, dict(a.changes), b.schedule, dict(b.changes))
             for a, b in trial_pairs(config, own_name(Jumpy))]  # fmt: skip
    own = own_name(Jumpy)
    assert pairs == [
        ("full", {}, own, {}),
        ("full", {}, own, {"sweeps": 12}),
        ("random", {}, own, {}),
        ("random", {"sweeps": 12}, own, {"sweeps": 12}),
    ]
    for name in ("full", "random"):
        with pytest.raises(ValueError, match=f"{name} is what schedules are tried against"):
            trial_pairs(config, name)


# Judged.


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    return try_schedule(
        Jumpy, "quick", SMALL, tmp_path_factory.mktemp("trial"), progress=lambda line: None
    )


def test_a_verdict_is_the_strict_protocols(trial):
    assert [arm.schedule for arm in trial.arms] == ["full", *[own_name(Jumpy)] * 2, *["random"] * 2]
    raw = []
    for claim in trial.claims:
        scores = [trial.arm(label).test_mse for label in (claim.baseline, claim.treatment)]
        assert_allclose(scores[0], claim.comparison.baseline)
        raw.append(compare(trial.test_seeds, *scores).test.pvalue)
        assert claim.comparison.test.pvalue == raw[-1]
    assert_allclose([claim.adjusted_p for claim in trial.claims], holm(raw))
    for arm in trial.arms:
        assert arm.validation.shape == (2, 3) and arm.test_mse.shape == (3,)


def test_the_verdict_in_words_tells_work_ratio_and_verdict_of_every_comparison(trial):
    heading, *told = trial.verdict().split("\n\n")
    assert f"`{own_name(Jumpy)}`" in heading and "3 test seeds" in heading
    for sentence, claim in zip(told, trial.claims, strict=True):
        ratio = claim.comparison.ratio
        assert f"{ratio.ratio:.2f} times as large, 95 % interval {ratio.low:.2f} to" in sentence
    assert "at 0.5 times the node updates" in told[0] or "at 0.25 times" in told[0]
    assert "at the same node updates" in told[1]
    words = {"helps": "is better than", "harms": "is worse than"}
    for verdict, phrase in words.items():
        claims = tuple(replace(claim, verdict=verdict) for claim in trial.claims)
        assert replace(trial, claims=claims).verdict().count(phrase) == len(claims)


def test_a_profile_without_the_strict_protocol_judges_nothing(tmp_path):
    with pytest.raises(ValueError, match="profile reference has no strict protocol to try"):
        try_schedule(Jumpy, "reference", {}, tmp_path)


def test_a_schedule_that_breaks_a_rule_is_not_trained(tmp_path):
    with pytest.raises(ScheduleError, match="names no active cluster"):
        try_schedule(Idle, "quick", SMALL, tmp_path)
    assert not list(tmp_path.iterdir())


# In the whole study.


def test_the_studys_own_idea_is_compared_and_drawn_with_the_rest(module, tmp_path):
    text = f"{module}:InTurn"
    study = open_study("quick", {**SMALL, "schedule": text}, tmp_path)
    assert compared(study.config) == (*COMPARED, text)
    assert text in [name for group in groups_of(study).values() for name in group]
    assert look_of(text) not in [look_of(name) for name in COMPARED]
    places, _ = plan(study.config, LimitsConfig(other_graphs=("complete",), other_nodes=(12,)))
    assert all(text in {arm.schedule for arm in p.arms} | set(p.left_out) for p in places)
    assert arm_schedule(study.config, text).name == text
    usual = open_study("quick", SMALL, tmp_path)
    assert compared(usual.config) == COMPARED


def test_only_the_named_module_is_imported(module, monkeypatch):
    asked = []
    monkeypatch.setattr(
        own_module.importlib, "import_module", lambda name: asked.append(name) or sys.modules[name]
    )
    with pytest.raises(ValueError, match=r"importing .* failed: KeyError"):
        own_module._module(module, module)
    assert asked == [module]
