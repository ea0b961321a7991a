"""Figures, tables and sentences of the strict study: they show its results and follow them."""

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from inspection import bars, changed, lines
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats as scipy_stats

from clusterdyn.figures import protocol, schedules, why
from clusterdyn.figures.style import BASELINE, CLUSTERS, IDEA, Picture
from clusterdyn.protocol import Study, open_study
from clusterdyn.strict import design, findings, starvation, tables
from clusterdyn.strict.arms import COMPARED, CORE, TIE_RULES, Arm, noisy_round_robin
from clusterdyn.strict.claims import all_claims, arm_at_budget
from clusterdyn.strict.study import GRU, NULL, ArmResult, run_strict
from clusterdyn.strict.sweep_choices import WATCHED, SweepChoices

SETTINGS = {
    "nodes": 4,
    "clusters": 2,
    "channels": 2,
    "epochs": 1,
    "horizon": 3,
    "train_trajectories": 40,
    "validation_trajectories": 10,
    "test_trajectories": 10,
    "batch_size": 20,
    "work_budgets": (2, 8),
    "test_seeds": (100, 101, 102),
    "horizons": (2, 3),
    "epoch_budgets": (1, 2),
    "grid_extensions": 1,
}
N, RATE = 3, 0.01
SHARED = 2  # test seeds of the side experiments, and so of every arm
NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
MODULES = {"05_schedules": schedules, "06_protocol": protocol, "07_why": why}
FIGURES = {
    name: [function for key, function in vars(module).items()
           if key.startswith("strict_") and function.__module__ == module.__name__]
    for name, module in MODULES.items()
}  # fmt: skip


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    """A tiny study with a strict result; trained here, without a pool of processes."""
    folder = tmp_path_factory.mktemp("strict")
    study = open_study("quick", SETTINGS, folder, progress=lambda line: None)
    assert study.grid("histogram").learning_rate == RATE
    study.strict = run_strict(study.config, study.strict_config, RATE, study.store)
    assert len(study.inference.claims) > 40
    return study


@pytest.fixture(scope="module")
def pictures(study) -> dict[str, Picture]:
    """Every figure by its function's name."""
    return {f.__name__: f(study) for functions in FIGURES.values() for f in functions}


def with_result(study: Study, **changes) -> Study:
    """A study with another strict result, and the claims that follow from it."""
    result = dataclasses.replace(study.strict, **changes)
    claims = all_claims(result, study.config, study.strict_config, RATE)
    inference = dataclasses.replace(study.inference, claims=claims)
    return changed(study, strict=result, inference=inference)


def with_scores(study: Study, scores: dict[str, np.ndarray]) -> Study:
    """A study of more seeds: the scores by label, the full sweep's for every other arm."""
    seeds = np.arange(len(scores["full"]))
    arms = tuple(
        dataclasses.replace(arm, test_mse=scores.get(arm.label, scores["full"]))
        for arm in study.strict.arms
    )
    yardsticks = {"persistence": 9 * scores["full"], "linear": 8 * scores["full"]}
    return with_result(study, arms=arms, test_seeds=seeds, **yardsticks)


def full_scores(count: int = 12) -> np.ndarray:
    return 1 + 0.1 * np.random.default_rng(0).random(count)


def interval(values: np.ndarray) -> list[float]:
    """95 % t interval of a mean."""
    middle = scipy_stats.ttest_1samp(values, 0).confidence_interval(0.95)
    return [middle.low, middle.high]


def thousandths(value: float, sign: str = "") -> str:
    """A value in thousandths, as tables of claims write it."""
    return f"{1000 * value:{sign}.0f}" if abs(value) >= 0.01 else f"{1000 * value:{sign}.2g}"


def titles(picture: Picture) -> list[str]:
    return [axis.get_title(loc="left") for axis in picture.figure.axes]


# All figures.


def test_each_notebook_shows_every_figure_of_its_module_once_and_counts_them():
    for name, functions in FIGURES.items():
        text = (NOTEBOOKS / f"{name}.py").read_text()
        shown = re.findall(r"figures\.(strict_\w+)\(study\)\.show\(\)", text)
        assert sorted(shown) == sorted(function.__name__ for function in functions)
        assert f'finish("{name}", figures={len(shown)})' in text


def test_figures_are_called_as_their_functions_and_their_words_have_no_holes(pictures, study):
    stage = study.strict_study.stage
    for name, picture in pictures.items():
        assert picture.name == name
        assert f"{stage.name} {stage.key[:10]}" in picture.provenance
        for text in (picture.alt, picture.caption, picture.provenance):
            assert len(text.split()) > 5 and text.endswith(".")
            assert not re.search(r"\bnan\b|\binf\b|None|[{}]|np\.", text), text


def test_every_schedule_looks_like_no_other_even_without_colour():
    assert set(protocol.LOOKS) == set(COMPARED)
    markers = [look.marker for look in protocol.LOOKS.values()]
    assert len(set(markers)) == len(COMPARED)
    for group in protocol.GROUPS.values():
        assert len({look.colour for look in group.values()}) == len(group)


def test_alternative_texts_follow_the_scores(pictures, study):
    rng = np.random.default_rng(1)
    arms = tuple(
        dataclasses.replace(
            arm,
            test_mse=rng.random(len(arm.test_mse)) + 1,
            share=np.abs(arm.share + rng.random(arm.share.shape) / 9),
        )
        for arm in study.strict.arms
    )
    matrix = 1 + rng.random(study.strict.matrix.shape)
    relaxed = 1 + rng.random(study.strict.relaxation_mse.shape)
    choices = study.strict.sweep_choices
    choices = dataclasses.replace(choices, share=rng.random(choices.share.shape))
    other = with_result(
        study, arms=arms, matrix=matrix, relaxation_mse=relaxed, sweep_choices=choices
    )
    power = dataclasses.replace(study.inference.power, detectable=0.123, found=np.full(7, 0.5))
    other = changed(other, inference=dataclasses.replace(other.inference, power=power))
    for name, picture in pictures.items():
        function = next(f for fs in FIGURES.values() for f in fs if f.__name__ == name)
        assert (function(other).alt == picture.alt) is (name == "strict_selection"), name


# 05 Schedules.


def test_work_lines_join_the_arms_and_dots_are_the_seeds(pictures, study):
    (axis,) = pictures["strict_work"].figure.axes
    drawn = {line.get_label().removesuffix(", needs the answer"): line for line in axis.lines}
    for name, arms in tables.compared_arms(study).items():
        assert [arm.schedule for arm in arms] == [name] * len(arms)
        assert_allclose(drawn[name].get_xdata(), [arm.node_updates for arm in arms])
        assert_allclose(drawn[name].get_ydata(), [np.mean(arm.test_mse[:SHARED]) for arm in arms])
        assert drawn[name].get_marker() == protocol.LOOKS[name].marker
        for arm in arms:
            assert any(
                np.array_equal(dots.get_ydata(), arm.test_mse[:SHARED])
                for dots in lines(axis, marker=".")
            )
    assert {len(dots.get_ydata()) for dots in lines(axis, marker=".")} == {SHARED}
    assert axis.get_xscale() == axis.get_yscale() == "log"
    widths = {name: drawn[name].get_linewidth() for name in COMPARED}
    assert max(widths, key=widths.get) == "full"
    assert [name for name in COMPARED if f"{name}, needs the answer" in
            [line.get_label() for line in axis.lines]] == ["oracle"]  # fmt: skip


def test_the_pareto_front_is_what_brute_force_finds(pictures, study):
    (axis,) = pictures["strict_work"].figure.axes
    (marks,) = (line for line in axis.lines if line.get_label() == "Pareto front")
    points = {(arm.node_updates, arm.test_mse[:SHARED].mean())
              for name, arms in tables.compared_arms(study).items() if name != "oracle"
              for arm in arms}  # fmt: skip
    front = [
        (work, mse)
        for work, mse in points
        if all(w > work or m > mse or (w, m) == (work, mse) for w, m in points)
    ]
    assert {tuple(point) for point in marks.get_xydata()} == set(front)


def made_up_arm(work: float, *scores: float) -> SimpleNamespace:
    return SimpleNamespace(node_updates=work, test_mse=np.array(scores))


def test_a_front_takes_equals_and_leaves_out_what_is_beaten():
    points = [(3.0, 1.0), (1.0, 5.0), (2.0, 2.0), (2.0, 3.0), (3.0, 1.0), (4.0, 1.0)]
    front = tables.pareto_front([made_up_arm(*point) for point in points], 1)
    assert [(a.node_updates, a.test_mse[0]) for a in front] == [(1, 5), (2, 2), (3, 1), (3, 1)]


def test_a_front_compares_means_over_the_seeds_that_all_arms_share():
    side = made_up_arm(1, 3.0, 3.0)
    easy = made_up_arm(2, 4.0, 4.0, 0.0, 0.0)  # better only on seeds that the first did not have
    hard = made_up_arm(3, 2.0, 2.0, 9.0, 9.0)  # worse only on these
    assert tables.pareto_front([side, easy, hard], 2) == [side, hard]
    assert tables.pareto_front([easy, hard], 4) == [easy]


def test_the_figure_of_work_says_which_seeds_its_front_is_made_of(pictures, study):
    arms = [arm for group in tables.compared_arms(study).values() for arm in group]
    more = sum(len(arm.test_mse) == N for arm in arms)
    assert 0 < more < len(arms)
    assert (
        f"means over the first 2 test seeds, which all {len(arms)} arms share, although {more} "
        "were tested on 3;"
    ) in pictures["strict_work"].caption
    assert "over the 2 test seeds that all arms share" in findings.schedules(study)
    assert "all of an arm's test seeds (2 or 3 of them)" in pictures["strict_work_seeds"].caption
    even = with_scores(study, {"full": full_scores(5)})
    assert "means over the 5 test seeds;" in schedules.strict_work(even).caption


def test_the_front_that_is_drawn_does_not_follow_seeds_that_only_some_arms_have(study):
    full = study.strict.of(Arm("full"))
    tempting = dataclasses.replace(full, test_mse=np.array([*full.test_mse[:SHARED], 1e-9]))
    arms = tuple(tempting if arm is full else arm for arm in study.strict.arms)
    marks = []
    for result in (study, with_result(study, arms=arms)):
        (axis,) = schedules.strict_work(result).figure.axes
        marks += [line for line in axis.lines if line.get_label() == "Pareto front"]
    assert_array_equal(marks[0].get_xydata(), marks[1].get_xydata())


def test_panels_of_the_work_figure_hold_means_with_t_intervals(pictures, study):
    arms = tables.compared_arms(study)
    for axis, group in zip(
        pictures["strict_work_seeds"].figure.axes, protocol.GROUPS.values(), strict=True
    ):
        shown = [arm for name in dict.fromkeys(["full", *group]) for arm in arms[name]]
        for (low, high), arm in zip(bars(axis), shown, strict=True):
            assert_allclose([low[1], high[1]], interval(arm.test_mse), rtol=1e-9)
        dots = [line.get_ydata() for line in lines(axis, marker=".")]
        assert all(map(np.array_equal, dots, [arm.test_mse for arm in shown]))


@pytest.mark.parametrize("panel", [0, 1])
def test_ratio_rows_are_the_claims_from_the_lowest_ratio_on(pictures, study, panel):
    axis = pictures["strict_equal_work"].figure.axes[panel]
    claims = study.inference.family(("equal_work", "equal_sweeps")[panel])
    claims = sorted(claims, key=lambda claim: claim.comparison.ratio.ratio)
    ratios = [claim.comparison.ratio for claim in claims]
    diamonds = [container.lines[0].get_xydata()[0].tolist() for container in axis.containers]
    assert diamonds == [[ratio.ratio, row] for row, ratio in enumerate(ratios)]
    ends = [[low[0], high[0]] for low, high in bars(axis)]
    assert_allclose(ends, [[ratio.low, ratio.high] for ratio in ratios], rtol=1e-12)
    for dots, claim in zip(lines(axis, marker="."), claims, strict=True):
        expected = claim.comparison.treatment / claim.comparison.baseline
        assert_array_equal(dots.get_xdata(), expected)
        assert len(expected) == N
    names = [tick.get_text() for tick in axis.get_yticklabels()]
    assert names == [claim.treatment.split(", sweeps")[0] for claim in claims]
    words = [text.get_text() for text in axis.texts]
    for row, claim in enumerate(claims):
        cells = words[3 * row : 3 * row + 3]
        r = claim.comparison.ratio
        interval_text = "{} [{}, {}]".format(
            *(f"{x:.2f}" if 0.1 <= x < 10 else f"{x:.2g}" for x in (r.ratio, r.low, r.high))
        )
        assert cells == [interval_text, f"{claim.adjusted_p:.2g}", claim.verdict]
    (margin,) = axis.patches
    assert_allclose([margin.get_x(), margin.get_x() + margin.get_width()], [0.95, 1.05])


def test_an_empty_family_leaves_an_empty_panel(study):
    claims = tuple(c for c in study.inference.claims if c.family != "equal_work")
    other = changed(study, inference=dataclasses.replace(study.inference, claims=claims))
    assert titles(schedules.strict_equal_work(other))[0] == "At equal work: no arm"
    assert "No schedule can keep the full sweep's work" in findings.strict_headline(other)
    assert tables.claims(other, "equal_work").rows == []


def test_the_heat_map_of_shares_holds_every_cluster_and_seed(pictures, study):
    shares, entropy, age, _ = pictures["strict_starvation"].figure.axes
    arms = tables.arms_by_cluster(study)
    labels = [arm.label for arm in arms]
    assert "full" not in labels and "sequential" not in labels  # no clusters of the partition
    assert set(TIE_RULES) < set(labels) and len(labels) == len(set(labels)) == 13
    assert [tick.get_text() for tick in shares.get_yticklabels()] == labels
    (image,) = shares.images
    cells = np.asarray(image.get_array()).reshape(len(arms), 2, N)
    for row, arm in enumerate(arms):
        assert_allclose(cells[row], arm.share.T)
        assert_array_equal(entropy.lines[row].get_xdata(), arm.entropy)
        assert_array_equal(age.lines[row].get_xdata(), arm.largest_age)


def test_matrix_cells_are_the_logarithms_of_the_mean_mse(pictures, study):
    axis = pictures["strict_matrix"].figure.axes[0]
    expected = np.log10(study.strict.matrix.mean(axis=2))
    assert_allclose(np.asarray(axis.images[0].get_array()), expected, rtol=1e-6)
    cells = {tuple(text.get_position()): text.get_text() for text in axis.texts}
    for (trained, tested), value in np.ndenumerate(expected):
        assert cells[(tested, trained)] == f"{value:.2f}"
    assert [tick.get_text() for tick in axis.get_yticklabels()] == list(COMPARED)


def test_a_cell_that_diverges_says_so(study):
    matrix = study.strict.matrix.copy()
    matrix[1, 2, 0] = np.inf
    other = changed(study, strict=dataclasses.replace(study.strict, matrix=matrix))
    picture = schedules.strict_matrix(other)
    cells = {tuple(t.get_position()): t.get_text() for t in picture.figure.axes[0].texts}
    assert [place for place, text in cells.items() if text == "div."] == [(2, 1)]
    assert "1 cells diverge" in picture.alt
    assert "Some models diverge under another schedule" in findings.schedules(other)


def check_core_panels(picture: Picture, values, scores: dict[str, np.ndarray]) -> None:
    first, *panels = picture.figure.axes
    for line, axis, (name, columns) in zip(
        lines_with_label(first), panels, scores.items(), strict=True
    ):
        columns = np.array(columns)
        assert line.get_label() == axis.get_title(loc="left") == name
        assert_array_equal(line.get_xdata(), values)
        assert_allclose(line.get_ydata(), columns.mean(axis=1))
        seeds = lines(axis, style="-")[: columns.shape[1]]
        assert_array_equal([seed.get_ydata() for seed in seeds], columns.T)
        ends = [[low[1], high[1]] for low, high in bars(axis)]
        assert_allclose(ends, [interval(column) for column in columns], rtol=1e-9)


def lines_with_label(axis) -> list:
    return [line for line in axis.lines if not line.get_label().startswith("_")]


def test_panels_of_eta_hold_every_seed_and_mark_the_trained_one(pictures, study):
    result, picture = study.strict, pictures["strict_relaxation"]
    scores = dict(zip(CORE, result.relaxation_mse, strict=True))
    check_core_panels(picture, [0.25, 0.5, 1.0], scores)
    for axis in picture.figure.axes:
        assert axis.lines[-1].get_xdata()[0] == study.config.relaxation


def test_scores_that_are_not_finite_are_counted_and_not_drawn(study):
    relaxed = study.strict.relaxation_mse.copy()
    relaxed[1, 2, 0] = np.inf
    other = changed(study, strict=dataclasses.replace(study.strict, relaxation_mse=relaxed))
    picture = schedules.strict_relaxation(other)
    assert picture.caption.endswith("not drawn: 1.")
    assert len(picture.figure.axes[2].containers) == 2  # of three means


# 06 Protocol.


def test_selection_panels_hold_every_seed_the_mean_and_the_choice(pictures, study):
    axes = pictures["strict_selection"].figure.axes
    assert titles(pictures["strict_selection"])[:14] == [*COMPARED, "gru, K = 1"]
    for name, axis in zip((*COMPARED, "gru"), axes, strict=False):
        arm = study.strict.of(GRU if name == "gru" else Arm(name))
        dots = lines(axis, marker="o")
        assert_array_equal([d.get_ydata() for d in dots][: len(arm.validation)], arm.validation)
        assert_array_equal(dots[0].get_xdata(), arm.rates)
        chosen = lines(axis, marker="s")[0]
        assert chosen.get_xydata().tolist() == [[arm.rate, arm.validation.mean(axis=0).min()]]
        edges = [line.get_xdata()[0] for line in lines(axis, style=":")]
        assert edges == [0.01, 0.1]
        at_budget = arm_at_budget(study.strict, study.config, name, 8) if name != "gru" else None
        shown = {
            arm.label: arm,
            **({at_budget.label: study.strict.of(at_budget)} if at_budget else {}),
        }
        assert len(axis.patches) == sum(arm.extensions for arm in shown.values())
    assert any(arm.extensions for arm in study.strict.arms)  # or this has tested less


def test_the_null_figure_holds_every_difference_and_both_intervals(pictures, study):
    (axis,) = pictures["strict_null"].figure.axes
    differences = study.strict.of(NULL).test_mse - study.strict.of(Arm("full")).test_mse
    dots = [line.get_xdata()[0] for line in lines(axis, marker="o")]
    assert_allclose(dots, np.sort(differences))
    (claim,) = study.inference.family("null")
    flip, t = ([low[0], high[0]] for low, high in bars(axis))
    assert_allclose(t, interval(differences), rtol=1e-9)
    sign_flip = claim.comparison.sign_flip_interval
    assert_allclose(flip, [sign_flip.low, sign_flip.high], rtol=1e-9)
    half = 0.05 * study.strict.of(Arm("full")).test_mse.mean()
    (margin,) = axis.patches
    assert_allclose([margin.get_x(), margin.get_x() + margin.get_width()], [-half, half])


def test_the_power_figure_holds_found_promised_and_exact_intervals(study):
    found = np.array([0.04, 0.1, 0.2, 0.4, 0.6, 0.9, 1.0])
    power = dataclasses.replace(study.inference.power, found=found, studies=50, detectable=0.25)
    other = changed(study, inference=dataclasses.replace(study.inference, power=power))
    (axis,) = protocol.strict_power(other).figure.axes
    points = axis.containers[0].lines[0]
    assert_allclose(points.get_xdata(), [0, 5, 10, 15, 20, 30, 40])
    assert_array_equal(points.get_ydata(), found)
    segments = axis.containers[0].lines[2][0].get_segments()
    for segment, count in zip(segments, (2, 5, 10, 20, 30, 45, 50), strict=True):
        low = scipy_stats.beta.ppf(0.025, count, 51 - count)
        high = scipy_stats.beta.ppf(0.975, count + 1, 50 - count) if count < 50 else 1
        assert_allclose(segment[:, 1], [low, high], atol=1e-9)
    (promised,) = lines(axis, marker="s")
    assert_array_equal(promised.get_ydata(), power.promised)
    assert [line.get_ydata()[0] for line in axis.lines[:2]] == [0.05, 0.8]
    assert axis.lines[2].get_xdata()[0] == 25
    text = findings.protocol(other)
    assert "4.0% raise a false alarm" in text and "covers the level of 5%" in text
    assert "smallest simulated improvement found in 80 % of studies is 30%" in text
    assert "a mean difference of 25.0%" in text


# 07 Why.


def test_the_waterfall_leads_from_the_published_idea_to_the_full_sweep(pictures, study):
    means, steps = pictures["strict_decomposition"].figure.axes
    ends, *floating = means.containers
    published, full = (arm.test_mse.mean() for arm in the_way(study))
    assert_allclose([bar.get_width() for bar in ends], [published, full])
    widths = [bar.get_width() for container in floating for bar in container]
    assert published + sum(widths) == pytest.approx(full, rel=1e-9)
    claims = study.inference.family("decomposition")
    assert_allclose(widths, [claim.comparison.mean_difference for claim in claims])
    starts = [bar.get_x() for container in floating for bar in container]
    assert_allclose(starts, published + np.cumsum([0, *widths[:-1]]))
    for container, width in zip(floating, widths, strict=True):
        (bar,) = container
        assert bar.get_facecolor()[:3] == pytest.approx(
            [int((IDEA if width > 0 else BASELINE)[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        )
    for dots, claim in zip(lines(steps, marker="."), claims, strict=True):
        assert_array_equal(dots.get_xdata(), claim.comparison.differences)
    for (low, high), claim in zip(bars(steps), claims, strict=True):
        assert_allclose([low[0], high[0]], interval(claim.comparison.differences), rtol=1e-9)
    words = [text.get_text() for text in steps.texts]
    means = [claim.comparison.mean_difference for claim in claims]
    assert words == [f"{mean:+.2g}\np = {claim.adjusted_p:.2g}"
                     for mean, claim in zip(means, claims, strict=True)]  # fmt: skip


def the_way(study: Study) -> tuple[ArmResult, ArmResult]:
    """The published idea and the full sweep at the budget of the claims."""
    return study.strict.arms[-1], study.strict.of(Arm("full", (("sweeps", 2),)))


def test_the_parts_add_up_to_the_gap_and_each_step_is_in_one(study):
    parts = tables.decomposition_parts(study)
    assert [part.name for part in parts] == list(tables.PARTS)
    published, full = the_way(study)
    gap = published.test_mse - full.test_mse
    assert_allclose(sum(part.closed for part in parts), gap, rtol=1e-9)
    steps = [claim for part in parts for claim in part.steps]
    assert sorted(map(id, steps)) == sorted(map(id, study.inference.family("decomposition")))
    by_name = {part.name: [claim.treatment for claim in part.steps] for part in parts}
    assert by_name == {
        "learning rate": ["histogram"],
        "starvation": ["histogram(ties=oldest)", "histogram_fair"],
        "work": ["histogram_fair, sweeps=4"],
        "order": ["histogram_ordered, sweeps=2", "cluster_sequential, sweeps=2", "full, sweeps=2"],
    }


def test_noise_and_sharing_are_drawn_as_measured(pictures, study):
    noise, shared = pictures["strict_predictability"].figure.axes
    names = noisy_round_robin(study.strict_config)
    for dots, name in zip(lines(noise, marker="."), names, strict=True):
        assert_array_equal(dots.get_ydata(), study.strict.of(Arm(name)).test_mse)
    assert [tick.get_text() for tick in noise.get_xticklabels()] == ["0", "0.5", "1"]
    claims = [c for c in study.inference.family("predictability") if "noise" not in c.treatment]
    diamonds = [container.lines[0].get_xdata()[0] for container in shared.containers]
    assert diamonds == [claim.comparison.ratio.ratio for claim in claims]
    assert len(claims) == 4


def test_tie_rules_are_drawn_seed_by_seed_beside_the_largest_share(pictures, study):
    by_rule, by_share = pictures["strict_ties"].figure.axes
    for marker, name in zip("*o^", TIE_RULES, strict=True):
        arm = study.strict.of(Arm(name))
        (scores,), (points,) = (lines(axis, marker=marker) for axis in (by_rule, by_share))
        assert_array_equal(scores.get_ydata(), arm.test_mse)
        assert_array_equal(points.get_ydata(), arm.test_mse)
        assert_array_equal(points.get_xdata(), arm.share.max(axis=1))


def test_panels_of_sweeps_hold_every_seed_and_cluster_and_the_means(pictures, study):
    picture, choices = pictures["strict_sweep_choices"], study.strict.sweep_choices
    assert titles(picture) == list(WATCHED)
    k, horizon = study.config.sweeps, study.config.horizon
    for axis, share, repeats in zip(
        picture.figure.axes, choices.share, choices.repeats, strict=True
    ):
        assert share.shape == (N, k * horizon, 2)
        borders = lines(axis)[: horizon - 1]
        assert [line.get_xdata()[0] for line in borders] == [k + 0.5, 2 * k + 0.5]
        for cluster, (marker, thin) in enumerate(
            zip("os", lines(axis)[horizon - 1 :], strict=True)
        ):
            seeds = thin.get_ydata().reshape(N, -1)
            assert_array_equal(seeds[:, :-1], share[:, :, cluster])
            assert np.isnan(seeds[:, -1]).all()  # the line breaks from seed to seed
            (mean,) = lines(axis, marker=marker)
            assert_allclose(mean.get_ydata(), share[:, :, cluster].mean(axis=0))
            assert_allclose(mean.get_xdata(), np.arange(1, k * horizon + 1), atol=0.25)
            assert mean.get_label() == f"cluster {cluster}"
            assert mean.get_color() == thin.get_color() == CLUSTERS[cluster]
        assert axis.texts[0].get_text() == f"same again: {repeats.mean():.0%}"
    assert len(CLUSTERS) == len(set(CLUSTERS)) and len(CLUSTERS) >= 4


@pytest.mark.parametrize(
    ("figure", "field", "values", "default"),
    [("strict_horizons", "horizon", (2, 3), 3), ("strict_epochs", "epochs", (1, 2), 1)],
)
def test_other_horizons_and_epochs_are_compared_on_the_same_seeds(
    pictures, study, figure, field, values, default
):
    scores = {
        name: [
            study.strict.of(Arm(name, () if value == default else ((field, value),))).test_mse[
                :2
            ]  # of the side experiments
            for value in values
        ]
        for name in CORE
    }
    check_core_panels(pictures[figure], values, scores)
    ranked, tau = tables.core_orders(study, field)
    for v, order in enumerate(ranked):
        assert list(order) == sorted(CORE, key=lambda name: scores[name][v].mean())
    places = np.array([[order.index(name) for name in CORE] for order in ranked])
    pairs = [(i, j) for i in range(5) for j in range(i)]
    same = [np.prod([np.sign(p[i] - p[j]) for p in places]) for i, j in pairs]
    assert tau == pytest.approx(np.mean(same))


def test_yardsticks_are_drawn_seed_by_seed(pictures, study):
    (axis,) = pictures["strict_yardsticks"].figure.axes
    result, best = study.strict, tables.best_claim(study, "equal_work")
    expected = [result.persistence, result.linear, result.of(GRU).test_mse,
                result.of(Arm("full")).test_mse, best.comparison.treatment]  # fmt: skip
    assert_array_equal([line.get_xdata() for line in lines(axis, marker=".")], expected)
    assert_allclose([[low[0], high[0]] for low, high in bars(axis)], list(map(interval, expected)))
    assert best.treatment != "oracle"


# Tables.


def test_the_table_of_arms_holds_every_arm(study):
    rows = {row[0]: row for row in tables.arms(study).rows}
    assert len(rows) == len(study.strict.arms)
    for arm in study.strict.arms:
        name, rate, edge, work, seeds, mse, lost = rows[arm.label]
        assert (float(rate), work, seeds) == (arm.rate, arm.node_updates, len(arm.test_mse))
        assert mse == pytest.approx(np.mean(arm.test_mse)) and lost == arm.test_diverged
        assert edge == ("given" if name.endswith("rate=0.01") else arm.at_edge)


def test_the_tables_of_claims_hold_every_statistic(study):
    for family in ("equal_work", "equal_sweeps", "decomposition"):
        claims = study.inference.family(family)
        for row, claim in zip(tables.claims(study, family).rows, claims, strict=True):
            c = claim.comparison
            name = claim.step if family == "decomposition" else claim.treatment
            low, high = interval(c.differences)
            assert row == (
                name,
                claim.verdict,
                N,
                f"{c.ratio.ratio:.3g} [{c.ratio.low:.3g}, {c.ratio.high:.3g}]",
                f"{c.test.pvalue:.2g}",
                f"{claim.adjusted_p:.2g}",
                int(np.sum(c.differences < 0)),
                f"{thousandths(np.mean(c.differences), '+')} "
                f"[{thousandths(low)}, {thousandths(high)}]",
            )


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (0.0, "+0"),
        (-0.000123456, "-0.12"),
        (0.00996, "+10"),
        (0.012345, "+12"),
        (0.0996, "+100"),
        (-0.3256, "-326"),
    ],
)
def test_a_table_of_claims_tells_differences_in_thousandths_without_an_exponent(
    study, difference, text
):
    base = np.full(12, 0.5)
    other = with_scores(study, {"full": base, "random": base + difference})
    rows = {row[0]: row for row in tables.claims(other, "equal_sweeps").rows}
    assert rows["random"][-1] == f"{text} [{text.lstrip('+')}, {text.lstrip('+')}]"


def test_the_table_of_budgets_counts_the_models_of_every_arm(study):
    rows = tables.budgets(study).rows
    counted = sum(int(row[0].split()[0]) if " arms" in row[0] else 1 for row in rows)
    assert counted == len(study.strict.arms)
    assert sum(row[4] for row in rows) == sum(arm.extensions > 0 for arm in study.strict.arms)
    assert sum(row[5] for row in rows) == sum(arm.at_edge for arm in study.strict.arms)
    # The same for every kind: 2 selection seeds at 3 rates, but none where the rate is given.
    assert {row[1] for row in rows} == {"2 × 3 = 6", "none, rate given"}
    assert {row[3] for row in rows} == {2, N}
    listed = {row[0] for row in tables.extensions(study).rows}
    assert listed == {arm.label for arm in study.strict.arms if arm.extensions or arm.at_edge}


# Sentences.


@pytest.mark.parametrize(
    "function",
    [findings.schedules, design.reference_and_strict, findings.protocol, findings.why,
     findings.strict_headline],
)  # fmt: skip
def test_sentences_have_no_holes(study, function):
    text = function(study)
    assert not re.search(r"\bnan\b|\binf\b|None|[{}]|np\.|array", text), text
    assert text.endswith(".")


def test_the_headline_names_who_helps_and_harms_at_equal_work(study):
    base, rng = full_scores(), np.random.default_rng(2)
    scores = {
        "full": base,
        "full, sweeps=2": base,
        "random, sweeps=4": 2 * base + 0.1 * rng.random(12),
        "round_robin, sweeps=4": 0.5 * base + 0.1 * rng.random(12),
        "oracle, sweeps=4": 0.1 * base + 0.01 * rng.random(12),
        "residual, sweeps=4": base * (0.4 + 1.4 * rng.random(12)),
    }
    other = with_scores(study, scores)
    text = findings.strict_headline(other)
    assert "better: round_robin and oracle (given the answer);" in text
    assert "worse: random;" in text
    assert "unclear (neither a difference nor equivalence is shown): residual;" in text
    ratio = np.exp(np.mean(np.log(scores["round_robin, sweeps=4"] / base)))
    assert f"round_robin has the lowest test MSE (ratio {ratio:.3g}," in text
    assert "n = 12" in text
    assert findings.strict_headline(study) != text


def test_schedules_with_the_same_scores_share_the_first_place(study):
    best = 0.5 * full_scores()
    scores = {
        "full": full_scores(),
        "round_robin, sweeps=4": best,
        "cluster_sequential, sweeps=2": best,
    }
    text = findings.strict_headline(with_scores(study, scores))
    assert "cluster_sequential = round_robin has the lowest test MSE" in text


def test_the_gap_is_shared_out_only_where_there_is_one(study):
    base, rng = full_scores(), np.random.default_rng(3)
    published = study.strict.arms[-1].label
    assert published == f"histogram, rate={RATE:g}"
    none = with_scores(study, {"full": base, published: base + 0.01 * (rng.random(12) - 0.5)})
    assert "no clear gap to share out" in findings.strict_headline(none)
    scores = {
        "full": base,
        published: base + 1.0,
        "histogram": base + 0.6,
        "histogram(ties=oldest)": base + 0.5,
        "histogram_fair": base + 0.3,
        "histogram_fair, sweeps=4": base + 0.4,
    }
    text = findings.strict_headline(with_scores(study, scores))
    assert "of the published idea lies 1 above the full sweep's" in text
    assert (
        "the selection of the learning rate accounts for 40%, the starvation of clusters for 30%, "
        "the amount of work for -10% and the order of the updates for 40%." in text
    )
    detail = findings.why(with_scores(study, scores))
    assert "selecting the learning rate on validation lowers it (+0.4, 0.4 to 0.4)" in detail
    assert "raising the work to the full sweep's raises it (-0.1, -0.1 to -0.1)" in detail


@pytest.mark.parametrize(
    ("noisy", "fixed", "sentence"),
    [
        (2.0, 0.5, "Noise harms at 2 of 2 levels, and the unchanging random order, against a new "
         "one in every rollout, is judged: helps. So both are shown."),
        (2.0, 1.0, "Noise harms at 2 of 2 levels, and the unchanging random order, against a new "
         "one in every rollout, is judged: equivalent. So one of the two is shown."),
        (1.0, 1.5, "Noise harms at 0 of 2 levels, and the unchanging random order, against a new "
         "one in every rollout, is judged: harms. So neither is shown."),
    ],
)  # fmt: skip
def test_predictability_is_concluded_from_the_verdicts(study, noisy, fixed, sentence):
    base = full_scores()
    scores = dict.fromkeys(noisy_round_robin(study.strict_config)[1:], noisy * base)
    scores |= {"full": base, "random(share=always)": fixed * base}
    text = findings.why(with_scores(study, scores))
    assert sentence in text


def test_diverged_models_are_counted_and_shown(study):
    assert findings.diverged(study) == (
        "No model diverged, neither in selection nor on the test seeds."
    )
    first, second, *others = study.strict.arms
    arms = (
        dataclasses.replace(first, selection_diverged=3),
        dataclasses.replace(second, test_diverged=2),
        *others,
    )
    other = changed(study, strict=dataclasses.replace(study.strict, arms=arms))
    text = f"Diverged models: 3 in selection; on the test seeds 2 of `{second.label}`, scored as"
    for function in (findings.schedules, findings.protocol, findings.why):
        assert text in function(other)
    assert {first.label, second.label} <= {row[0] for row in tables.extensions(other).rows}


def test_the_opening_of_the_protocol_tells_this_runs_numbers(study):
    text = design.reference_and_strict(study)
    assert "the same 3 rates from 0.01 to 0.1" in text
    assert "over 2 seeds." in text and "3 fresh seeds are trained" in text
    assert "full at " in text and "by the mean of 2 of 4 seeds" in text
    assert "do 12 and 6 node updates a time step" in text


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {},
            "**Side experiments** (arms trained with 2 node updates a time step; over 2 time "
            "steps; for 2 epochs) start from 3 rates from 0.01 to 0.1 and use the first 2 of 3 "
            "test seeds alone. This was chosen for time, and makes their intervals wider.",
        ),
        (
            {"selection_seeds": (1, 2, 3, 4), "work_budgets": (2, 8, 9), "epoch_budgets": (1,)},
            "(arms trained with 2 or 9 node updates a time step; over 2 time steps) start from "
            "3 rates from 0.01 to 0.1 and use the first 2 of 4 selection seeds and the first "
            "2 of 3 test seeds alone.",
        ),
        ({"side_test_seeds": 9}, "from 0.01 to 0.1 and use as many seeds as the rest."),
        (
            {"work_budgets": (8,), "horizons": (3,), "epoch_budgets": (1,)},
            "There are no side experiments.",
        ),
    ],
)
def test_side_experiments_and_their_seeds_are_told_from_the_settings(study, changes, sentence):
    strict = dataclasses.replace(study.strict_config, **changes)
    text = design.reference_and_strict(changed(study, strict_config=strict))
    assert sentence in text


def test_the_sentence_on_sweeps_tells_who_keeps_a_cluster_and_how_even_that_looks(study):
    # Two clusters, four sweeps: all trajectories stay with cluster 0; half stay with each; in turn.
    stay, halves = np.tile([1.0, 0.0], (3, 4, 1)), np.full((3, 4, 2), 0.5)
    turns = np.tile([[1.0, 0.0], [0.0, 1.0]], (3, 2, 1))
    choices = SweepChoices(
        ("first", "each", "turn"),
        share=np.stack([stay, halves, turns]),
        repeats=np.stack([np.ones((3, 3)), np.full((3, 3), 0.995), np.zeros((3, 3))]),
    )
    text = starvation.starvation_by_sweep(with_result(study, sweep_choices=choices))
    assert "over the 4 sweeps of a rollout on 3 test seeds" in text
    assert "(50% if all clusters get the same)" in text and "(50% by lot)" in text
    assert "`first` 100% and 100%; `each` 50% and 100%; `turn` 100% and 0%." in text
    assert text.endswith(
        "In at least 99% of the sweeps a trajectory keeps its cluster, so that the others starve "
        "in it, under `first` and `each`; of all updates the most updated cluster gets 100% and "
        "50%."
    )
    fickle = dataclasses.replace(choices, repeats=0.9 * choices.repeats)
    text = starvation.starvation_by_sweep(with_result(study, sweep_choices=fickle))
    assert text.endswith("Under no schedule is a cluster kept in 99% of the sweeps.")
    assert starvation.starvation_by_sweep(study) in findings.why(study)
