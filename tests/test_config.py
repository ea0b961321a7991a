"""Settings: what the profiles are, and a sentence for everything that is not allowed."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest
import torch

from clusterdyn.config import StudyConfig, canonical_json
from clusterdyn.profiles import (
    PROFILES,
    cost_config,
    learning_config,
    limits_config,
    parse_settings,
    strict_config,
    study_config,
)
from clusterdyn.training import TrainingConfig


def refuse(sentence: str, profile: str = "reference", **settings) -> None:
    """Asserts that the settings are refused with a sentence that holds the given words."""
    with pytest.raises(ValueError, match=re.escape(sentence)):
        study_config(profile, settings)


# Profiles.


def test_reference_profile_is_the_published_trial():
    config = study_config("reference")
    assert config.learning_rates == (0.001, 0.003, 0.01)
    assert config.seeds == (0, 1, 2, 3, 4, 5, 6, 7)
    assert config.baseline_grid_seeds == 4
    assert (config.epochs, config.batch_size, config.clip_norm) == (12, 20, 1.0)
    assert (config.train_trajectories, config.test_trajectories) == (400, 100)
    assert (config.clusters, config.bins, config.partition) == (4, 4, "contiguous")
    assert (config.nodes, config.channels, config.horizon) == (16, 4, 4)
    assert (config.sweeps, config.relaxation) == (3, 0.5)
    assert (config.baseline, config.schedule) == ("full", "histogram")
    assert (config.dtype, config.device) == ("float32", "cpu")
    assert config == StudyConfig()


def test_quick_profile_is_the_same_study_but_smaller():
    quick, reference = study_config("quick"), study_config("reference")
    for name in ("clusters", "partition", "bins", "sweeps", "relaxation", "horizon", "schedule"):
        assert getattr(quick, name) == getattr(reference, name)

    def size(config: StudyConfig) -> int:
        models = len(config.seeds) * len(config.learning_rates)
        return models * config.epochs * config.train_trajectories * config.nodes * config.channels

    assert size(quick) < size(reference) / 30


def test_profiles_are_quick_reference_and_full():
    assert list(PROFILES) == ["quick", "reference", "full"]


@pytest.mark.parametrize("profile", ["strict", "", "Quick"])
def test_an_unknown_profile_is_refused_with_the_known_ones(profile):
    refuse(f"profile must be one of quick, reference, full; got {profile!r}", profile)


def test_settings_replace_fields_of_the_profile_and_nothing_else():
    config = study_config("quick", {"relaxation": 0.25, "seeds": [5, 3]})
    assert config == dataclasses.replace(study_config("quick"), relaxation=0.25, seeds=(5, 3))


def test_training_gets_its_own_fields():
    config = study_config("quick", {"epochs": 2, "clip_norm": 0.5, "dtype": "float64"})
    assert config.training() == TrainingConfig(
        epochs=2,
        batch_size=20,
        sweeps=3,
        relaxation=0.5,
        clip_norm=0.5,
        dtype="float64",
        device="cpu",
    )


def test_a_config_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        study_config("quick").epochs = 5


# Names and types.


@pytest.mark.parametrize("name", ["lr", "relaxtion", "Sweeps", "sweeps ", "seed", "", "__class__"])
def test_an_unknown_setting_is_refused_with_the_known_ones(name):
    refuse(f"unknown setting {name!r}; the settings are data, graph, nodes, channels", **{name: 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("sweeps", value) for value in (3.0, "3", True, None, [3], 2.5, math.nan)],
        ("nodes", np.int64(16)),
        ("partition_seed", False),
    ],
)
def test_a_whole_number_is_a_whole_number(name, value):
    refuse(f"{name} must be a whole number; got {value!r}", **{name: value})


@pytest.mark.parametrize("value", ["0.5", "1e-3", True, False, None, [0.5], 1 + 0j])
def test_a_number_is_a_number(value):
    refuse(f"relaxation must be a number; got {value!r}", relaxation=value)


@pytest.mark.parametrize("name", ["partition", "schedule", "dtype", "device"])
@pytest.mark.parametrize("value", [1, None, True, ["full"]])
def test_a_text_is_a_text(name, value):
    refuse(f"{name} must be a text; got {value!r}", **{name: value})


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 12e5678])
def test_a_number_is_finite(value):
    refuse(f"relaxation must be finite; got {value}", relaxation=value)
    refuse(f"clip_norm must be finite; got {value}", clip_norm=value)
    refuse(f"each of learning_rates must be finite; got {value}", learning_rates=[0.1, value])


def test_a_whole_number_will_do_for_a_number():
    config = study_config("quick", {"relaxation": 1, "clip_norm": 2, "learning_rates": [1, 0.5]})
    assert (config.relaxation, config.clip_norm) == (1.0, 2.0)
    assert config.learning_rates == (1.0, 0.5)
    for value in (config.relaxation, config.clip_norm, *config.learning_rates):
        assert type(value) is float


def test_a_whole_number_too_large_for_a_number_is_refused_in_a_sentence():
    refuse("clip_norm must be", clip_norm=10**400)


def test_lists_and_tuples_are_the_same_setting():
    as_list = study_config("quick", {"seeds": [4, 2], "learning_rates": [0.1, 0.2]})
    as_tuple = study_config("quick", {"seeds": (4, 2), "learning_rates": (0.1, 0.2)})
    assert as_list == as_tuple
    assert as_list.seeds == (4, 2)
    assert canonical_json(as_list) == canonical_json(as_tuple)


@pytest.mark.parametrize("name", ["seeds", "learning_rates"])
@pytest.mark.parametrize("value", ["0,1", "[0, 1]", "(0, 1)", 5, 0.1, None, True])
def test_a_list_is_a_list_and_no_text(name, value):
    refuse(f"{name} must be a list of numbers; got {value!r}", **{name: value})


@pytest.mark.parametrize(
    ("name", "values", "kind", "item"),
    [
        ("seeds", [0, 1.0], "a whole number", 1.0),
        ("seeds", [0, "1"], "a whole number", "1"),
        ("seeds", [True, 0], "a whole number", True),
        ("seeds", [[0, 1], 2], "a whole number", [0, 1]),
        ("learning_rates", [0.1, "1e-3"], "a number", "1e-3"),
        ("learning_rates", [0.1, True], "a number", True),
        ("learning_rates", [None], "a number", None),
    ],
)
def test_every_item_of_a_list_has_the_lists_type(name, values, kind, item):
    refuse(f"each of {name} must be {kind}; got {item!r}", **{name: values})


# Ranges.


@pytest.mark.parametrize("value", [0, 0.0, 1.5, -0.1, 1.0000001])
def test_relaxation_lies_in_0_to_1(value):
    refuse(f"relaxation must lie in (0, 1]; got {value:g}", relaxation=value)


@pytest.mark.parametrize("value", [1.0, 1e-9])
def test_relaxation_may_be_1_and_small(value):
    assert study_config("quick", {"relaxation": value}).relaxation == value


@pytest.mark.parametrize(
    "name",
    [
        "channels",
        "bins",
        "sweeps",
        "horizon",
        "train_trajectories",
        "validation_trajectories",
        "test_trajectories",
        "batch_size",
        "epochs",
    ],
)
@pytest.mark.parametrize("value", [0, -1])
def test_counts_are_positive(name, value):
    refuse(f"{name} must be positive; got {value}", **{name: value})


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_the_clip_norm_is_positive(value):
    refuse(f"clip_norm must be positive; got {value}", clip_norm=value)


def test_a_batch_is_not_larger_than_the_training_split():
    refuse("batch_size must not exceed train_trajectories (400); got 401", batch_size=401)
    refuse("must not exceed train_trajectories (10); got 20", train_trajectories=10)
    assert study_config("reference", {"batch_size": 400}).batch_size == 400


@pytest.mark.parametrize("seeds", [[], [3]])
def test_one_seed_makes_no_pair(seeds):
    refuse(f"seeds must hold at least 2 seeds to form pairs; got {tuple(seeds)}", seeds=seeds)


def test_seeds_do_not_repeat():
    sentence = "seeds must not repeat: [1, 4] stand more than once in [4, 1, 1, 2, 4]"
    refuse(sentence, seeds=[4, 1, 1, 2, 4])


def test_learning_rates_do_not_repeat():
    refuse("learning_rates must not repeat: [1.0]", learning_rates=[1, 0.5, 1.0])


@pytest.mark.parametrize("last", [-1, 2**63, 2**64])
def test_seeds_are_those_that_numpy_and_torch_take(last):
    refuse("seeds must lie between 0 and 2^63 - 1; got [0, ", seeds=[0, last])
    refuse(f"partition_seed must lie between 0 and 2^63 - 1; got {last}", partition_seed=last)


@pytest.mark.parametrize("rates", [[], [0.1, 0.0], [-0.1]])
def test_learning_rates_are_positive_and_at_least_one(rates):
    refuse("learning_rates must be positive and at least one", learning_rates=rates)


@pytest.mark.parametrize("count", [0, -1])
def test_the_baselines_grid_averages_at_least_one_seed(count):
    refuse(f"baseline_grid_seeds must be positive; got {count}", baseline_grid_seeds=count)


def test_fewer_seeds_than_the_baselines_grid_averages_will_do():
    assert study_config("reference", {"seeds": [0, 1]}).baseline_grid_seeds == 4


def test_precision_is_single_or_double():
    refuse("dtype must be float32 or float64; got 'float16'", dtype="float16")


def test_the_two_arms_differ():
    refuse("must differ; both are 'full'", schedule="full")
    refuse("must differ; both are 'random'", schedule="random", baseline="random")


@pytest.mark.parametrize("arm", ["baseline", "schedule"])
def test_an_unknown_schedule_is_refused_with_the_known_ones(arm):
    sentence = (
        "schedule must be one of full, sequential, cluster_sequential, round_robin, random, "
        "clockwork, histogram, histogram_fair, histogram_ordered, residual, oracle or, for your "
        "own, package.module:Class; got 'greedy'"
    )
    refuse(sentence, **{arm: "greedy"})


@pytest.mark.parametrize("arm", ["baseline", "schedule"])
@pytest.mark.parametrize("text", ["histogram(ties=oldest)", "round_robin(noise=0.25)", "residual"])
def test_an_arm_is_a_schedule_with_options(arm, text):
    assert getattr(study_config("reference", {arm: text}), arm) == text


KNOWN = (
    "schedule must be one of full, sequential, cluster_sequential, round_robin, random, clockwork, "
    "histogram, histogram_fair, histogram_ordered, residual, oracle or, for your own, "
    "package.module:Class; got "
)
WRITTEN = "a schedule is written NAME or NAME(OPTION=VALUE, ...); got "
TIES = "ties must be one of lowest, random, oldest"
NOISE = "noise must be a number from 0 to 1"
WEIGHT = "age_weight must be a number from 0 to 1000"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("greedy(ties=oldest)", KNOWN + "'greedy(ties=oldest)'"),
        ("Histogram", KNOWN + "'Histogram'"),
        ("histogram ties=oldest", KNOWN),
        ("", KNOWN + "''"),
        ("  ", KNOWN + "'  '"),
        ("(ties=oldest)", KNOWN),
        ("histogram(ties=oldest", WRITTEN + "'histogram(ties=oldest'"),
        ("histogram(", WRITTEN),
        ("histogram(ties=oldest) twice", WRITTEN),
        ("histogram(ties=oldest))", TIES),
        ("histogram(ties)", f"in 'histogram(ties)', {TIES}"),
        ("histogram(ties=)", TIES),
        ("histogram(ties=newest)", TIES),
        ("histogram(ties=Oldest)", TIES),
        ("histogram(ties=oldest share=batch)", TIES),
        ("histogram(share=always)", "share must be one of trajectory, batch"),
        ("random(share=all)", "share must be one of trajectory, batch, always"),
        ("residual(norm=l1)", "norm must be one of l2, max, mean"),
        ("histogram(tie=oldest)", "has no option 'tie'; its options are: ties, share"),
        ("histogram(oldest)", "has no option 'oldest'; its options are: ties, share"),
        ("histogram(=oldest)", "has no option ''; its options are: ties, share"),
        ("histogram(bins=2)", "has no option 'bins'; its options are: ties, share"),
        ("histogram_fair(ties=oldest)", "no option 'ties'; its options are: age_weight, share"),
        ("full(ties=oldest)", "'full(ties=oldest)' has no option 'ties'; its options are: none"),
        *[
            (f"round_robin(noise{value})", NOISE)
            for value in ("=1.01", "=-0.1", "=nan", "=inf", "=much", "=", "")
        ],
        *[
            (f"histogram_fair(age_weight={value})", WEIGHT)
            for value in ("-1", "1001", "nan", "heavy")
        ],
    ],
)
def test_a_bad_schedule_is_refused_in_a_sentence(text, sentence):
    refuse(sentence, schedule=text)


def test_an_option_of_a_schedule_given_twice_is_refused():
    refuse("'ties' is given twice", schedule="histogram(ties=oldest, ties=random)")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"clusters": 3}, "3 clusters do not fit 16 nodes"),
        ({"clusters": 1}, "clusters must be at least 2, since with one there is nothing to choose"),
        ({"clusters": 32, "partition": "strided"}, "32 clusters do not fit 16 nodes"),
        ({"nodes": 10, "partition": "random"}, "4 clusters do not fit 10 nodes"),
        ({"partition": "coloring"}, "16 nodes has 2 clusters; got clusters=4: set clusters=2"),
        (
            {"partition": "coloring", "nodes": 7, "clusters": 2},
            "7 nodes has 3 clusters; got clusters=2: set clusters=3",
        ),
        ({"partition": "metis"}, "partition must be one of contiguous, strided, random, coloring"),
        ({"nodes": 2, "clusters": 2}, "a ring needs at least 3 nodes; got nodes=2"),
    ],
)
def test_a_partition_fits_the_graph(settings, sentence):
    refuse(sentence, **settings)


def test_partitions_that_fit_are_taken():
    for settings in (
        {"partition": "coloring", "clusters": 2},
        {"partition": "coloring", "nodes": 7, "clusters": 3},
        {"partition": "random", "nodes": 12, "clusters": 6, "partition_seed": 9},
    ):
        config = study_config("reference", settings)
        assert {name: getattr(config, name) for name in settings} == settings


# Settings as text.


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("epochs=3", "epochs", 3),
        ("relaxation=0.25", "relaxation", 0.25),
        ("relaxation=1e-3", "relaxation", 0.001),
        ("relaxation=1", "relaxation", 1.0),
        ("partition=strided", "partition", "strided"),
        ('partition="strided"', "partition", "strided"),
        ("seeds=4,7", "seeds", (4, 7)),
        ("seeds= 4 , 7 ", "seeds", (4, 7)),
        ("seeds=[4, 7]", "seeds", (4, 7)),
        ("learning_rates=1e-3,0.01", "learning_rates", (0.001, 0.01)),
        ("learning_rates=0.5", "learning_rates", (0.5,)),
        (" epochs =3", "epochs", 3),
    ],
)
def test_a_setting_is_written_name_equals_value(text, name, value):
    found = getattr(study_config("quick", parse_settings([text])), name)
    assert found == value
    assert type(found) is type(value)


def test_several_settings_are_read_together():
    settings = parse_settings(["epochs=3", "seeds=1,2", "schedule=round_robin"])
    assert settings == {"epochs": 3, "seeds": [1, 2], "schedule": "round_robin"}


def test_no_settings_are_none():
    assert parse_settings([]) == {}


@pytest.mark.parametrize("text", ["epochs", "", "=3", "  =3"])
def test_a_text_without_name_and_equals_sign_is_refused(text):
    with pytest.raises(ValueError, match=re.escape(f"written NAME=VALUE; got {text!r}")):
        parse_settings([text])


def test_a_setting_given_twice_is_refused():
    with pytest.raises(ValueError, match="setting 'epochs' is given twice"):
        parse_settings(["epochs=3", "sweeps=1", "epochs=3"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("epochs=3.0", "epochs must be a whole number; got 3.0"),
        ("epochs=true", "epochs must be a whole number; got True"),
        ("epochs=three", "epochs must be a whole number; got 'three'"),
        ("epochs=", "epochs must be a whole number; got ''"),
        ('relaxation="0.5"', "relaxation must be a number; got '0.5'"),
        ("relaxation=null", "relaxation must be a number; got None"),
        ("relaxation=0.5=1", "relaxation must be a number; got '0.5=1'"),
        ("relaxation=12e5678", "relaxation must be finite; got inf"),
        ("relaxation=NaN", "relaxation must be finite; got nan"),
        ("relaxation=-Infinity", "relaxation must be finite; got -inf"),
        ("partition=4", "partition must be a text; got 4"),
        ("seeds=0-7", "seeds must be a list of numbers; got '[0-7]'"),
        ("seeds=0,,1", "seeds must be a list of numbers; got '[0,,1]'"),
        ("seeds=0,x", "seeds must be a list of numbers"),
        ("seeds=0,0.5", "each of seeds must be a whole number; got 0.5"),
        ("seeds=", "seeds must hold at least 2 seeds to form pairs; got ()"),
        ("seeds=3", "seeds must hold at least 2 seeds to form pairs; got (3,)"),
        ("learning_rates=", "learning_rates must be positive and at least one; got []"),
        ("lr=0.1", "unknown setting 'lr'"),
    ],
)
def test_bad_text_is_refused_in_the_same_sentences(text, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        study_config("reference", parse_settings([text]))


def test_what_people_type_is_read_as_they_mean_it():
    texts = ["relaxation=.5", "seeds=0, 1,", "learning_rates=.003,1e-2"]
    settings = {"relaxation": 0.5, "seeds": [0, 1], "learning_rates": [0.003, 0.01]}
    assert parse_settings(texts) == settings


def test_lists_of_texts_need_no_quotes_and_keep_the_commas_in_brackets():
    text = "other_graphs=torus, random_regular(degree=3, seed=1),complete"
    graphs = ["torus", "random_regular(degree=3, seed=1)", "complete"]
    assert parse_settings([text]) == {"other_graphs": graphs}
    assert parse_settings(["other_graphs=" + json.dumps(graphs)]) == {"other_graphs": graphs}
    assert parse_settings(["ordered_rewards="]) == {"ordered_rewards": []}


@pytest.mark.parametrize(
    ("part", "text", "value"),
    [
        (strict_config, "test_seeds=50,51,52", (50, 51, 52)),
        (learning_config, "passes=7", 7),
        (limits_config, "other_nodes=12,20", (12, 20)),
        (cost_config, "cost_repeats=3", 3),
    ],
)
def test_settings_of_every_part_are_given_in_one_place(part, text, value):
    settings = parse_settings([text, "epochs=2"])
    (name,) = set(settings) - {"epochs"}
    assert getattr(part("quick", settings), name) == value
    assert study_config("quick", settings).epochs == 2
    with pytest.raises(ValueError, match=f"{name} belong to .*, which profile 'reference' does"):
        part("reference", settings)


@pytest.mark.parametrize("device", ["tpu", "gpu", "", "meta"])
def test_a_device_is_one_that_this_study_runs_on(device):
    refuse(f"device must be cpu or cuda (or cuda:N); got {device!r}", device=device)


def test_a_cuda_device_must_be_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refuse("device is 'cuda:1', but PyTorch finds no CUDA device here; use cpu", device="cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert study_config("quick", {"device": "cuda:1"}).device == "cuda:1"


# The hashed form.


def test_canonical_json_does_not_depend_on_the_order_of_names():
    assert canonical_json({"b": 1, "a": (1.0, None)}) == '{"a":[1.0,null],"b":1}'
    assert canonical_json({"a": [1.0, None], "b": 1}) == '{"a":[1.0,null],"b":1}'


def test_canonical_json_of_a_config_holds_every_field():
    config = study_config("quick")
    written = json.loads(canonical_json(config))
    assert list(written) == sorted(field.name for field in dataclasses.fields(config))
    assert written["learning_rates"] == [0.003, 0.01]


def test_canonical_json_has_no_word_for_nan():
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        canonical_json({"a": math.nan})
