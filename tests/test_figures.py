"""Figures: every seed is drawn, what is drawn are the results, and every axis says what it is."""

import dataclasses
import re

import numpy as np
import pytest
from inspection import bars, changed, lines
from numpy.testing import assert_allclose, assert_array_equal

from clusterdyn.figures import data, mechanism, significance, training
from clusterdyn.figures.style import BASELINE, IDEA, Picture
from clusterdyn.pendulum import SUBSTEPS
from clusterdyn.protocol import Study

SEEDS, ARMS = 3, ("full", "histogram")
FIGURES = {
    data: (data.trajectories, data.initial_states, data.integrator),
    training: (training.learning_curves, training.learning_rates, training.cluster_choices),
    significance: (significance.slope_graph, significance.difference_plot),
    mechanism: (
        mechanism.discrepancy,
        mechanism.local_slopes,
        mechanism.seed_slopes,
        mechanism.coefficient,
        mechanism.order_control,
        mechanism.reference_view,
    ),
}
# Labels of numbers without a unit: counts, ratios, Adam's step, hidden units over hidden units.
PURE_NUMBERS = {
    "epoch",
    "seed",
    "learning rate",
    "share of updates",
    "relative change of energy",
    "relaxation factor η",
    "slope",
    "slope of log |D| over log η",
    "largest relative error",
    "largest |D| / η²",
    "predicted (L(J)F)ᵢ",
    "measured Dᵢ/η² at η = 0.01",
}


@pytest.fixture(scope="module")
def pictures(study) -> dict[str, Picture]:
    """Every figure by its function's name."""
    drawn = {}
    simulate = data.simulate
    with pytest.MonkeyPatch.context() as patch:
        # Three free pendulums over 1200 time steps take seconds; 60 time steps show as much.
        patch.setattr(
            data, "simulate", lambda p, s, torques, **k: simulate(p, s, torques[:60], **k)
        )
        for functions in FIGURES.values():
            drawn.update({function.__name__: function(study) for function in functions})
    return drawn


def selected_rows(study: Study, arm: str) -> np.ndarray:
    """Rows of an arm's population at its selected learning rate, a seed each."""
    population, rate = study.population(arm), study.grid(arm).learning_rate
    rows = np.flatnonzero(population.learning_rates == rate)
    assert population.seeds[rows].tolist() == [0, 1, 5]
    return rows


# All figures.


def test_no_figure_function_is_left_out_here():
    for module, functions in FIGURES.items():
        public = {
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", "") == module.__name__ and not name.startswith("_")
        }
        assert public == {function.__name__ for function in functions}


def test_figures_have_names_of_their_own_and_words_without_holes(pictures):
    names = [picture.name for picture in pictures.values()]
    assert len(names) == len(set(names)) == 14
    for picture in pictures.values():
        for text in (picture.alt, picture.caption, picture.provenance):
            assert len(text.split()) > 5
            assert not re.search(r"\bnan\b|\binf\b|None|[{}]", text), text
            assert text.endswith(".")


@pytest.mark.parametrize("name", [f.__name__ for fs in FIGURES.values() for f in fs])
def test_every_axis_says_what_it_shows_and_in_which_unit(pictures, name):
    first, *others = pictures[name].figure.axes
    for axis in (first, *others):
        labels = {"x": axis.get_xlabel(), "y": axis.get_ylabel()}
        if axis in others and axis.get_shared_y_axes().joined(first, axis):
            labels.pop("y")
        for direction, label in labels.items():
            ticks = getattr(axis, f"get_{direction}ticklabels")()
            words = all(re.search("[a-z]", tick.get_text()) for tick in ticks)  # categories
            in_a_unit = re.search(r"\[.+\]$", label) or label in PURE_NUMBERS
            assert in_a_unit or (not label and words), (direction, label)


def scaled(value):
    """Results of which every number but the settings is another one."""
    if dataclasses.is_dataclass(value):
        names = {field.name for field in dataclasses.fields(value)}
        names -= {"relaxations", "seeds", "learning_rates", "block_of_node", "unit", "state"}
        return dataclasses.replace(value, **{n: scaled(getattr(value, n)) for n in names})
    if isinstance(value, tuple):
        return tuple(map(scaled, value))
    if isinstance(value, (float, np.ndarray)):
        return 0.7 * value + 1e-3
    return value


def test_texts_tell_what_was_found_and_not_what_was_hoped(pictures, study):
    arms = {arm: scaled(study.population(arm)) for arm in ARMS}
    checks = {arm: scaled(study.mechanism(arm)) for arm in ARMS}
    other = changed(study, population=arms.get, mechanism=checks.get)
    del other.reference  # follows from the changed parts
    for functions in (FIGURES[training], FIGURES[significance], FIGURES[mechanism]):
        for function in functions:
            # The learning rates tell where the choice lies, which is where it was.
            same = function(other).alt == pictures[function.__name__].alt
            assert same is (function in (training.learning_rates, significance.slope_graph))


def test_figures_name_the_artifacts_that_they_show(pictures, study):
    stages = {"training": study.training_stage, "significance": study.training_stage}
    stages["eta2"] = study.mechanism_stage
    keys = {kind: [(s := stage(arm)).name + " " + s.key[:10] for arm in ARMS]
            for kind, stage in stages.items()}  # fmt: skip
    for picture in pictures.values():
        named = re.findall(r"[a-z]+-(?:full|histogram) [0-9a-f]{10}", picture.provenance)
        assert named == keys.get(picture.name.split("_")[0], [])
        assert f"Settings: {study.label}" in picture.provenance


# Data.


def test_trajectories_are_those_of_the_training_split_in_physical_units(pictures, study):
    angle, velocity, torque = pictures["trajectories"].figure.axes
    assert [len(axis.lines) for axis in (angle, velocity, torque)] == [data.SHOWN] * 3
    moments = study.datasets[0].standardisation
    split = study.datasets[0].train
    states = split.states * moments.state_std + moments.state_mean
    torques = split.controls * moments.control_std + moments.control_mean
    for i in range(data.SHOWN):
        assert_allclose(np.sin(angle.lines[i].get_ydata()), states[i, :, 0], atol=1e-12)
        assert_allclose(np.cos(angle.lines[i].get_ydata()), states[i, :, 1], atol=1e-12)
        assert_allclose(velocity.lines[i].get_ydata(), states[i, :, 2], atol=1e-12)
        assert_allclose(torque.lines[i].get_ydata()[:-1], torques[i, :, 0], atol=1e-12)
        assert_allclose(velocity.lines[i].get_xdata(), [0, 0.05, 0.1, 0.15])


def test_initial_states_of_every_trajectory_of_every_split_are_drawn(pictures, study):
    moments = study.datasets[0].standardisation
    for axis, split in zip(
        pictures["initial_states"].figure.axes, ("train", "validation", "test"), strict=True
    ):
        (points,) = lines(axis, marker=".")
        states = getattr(study.datasets[0], split).states[:, 0]
        states = states * moments.state_std + moments.state_mean
        assert_allclose(np.sin(points.get_xdata()), states[:, 0], atol=1e-12)
        assert_allclose(points.get_ydata(), states[:, 2], atol=1e-12)
        assert axis.get_title(loc="left") == f"{split}, {len(states)}"


def test_the_integrators_error_is_drawn_beside_a_line_of_order_4(pictures):
    error, _ = pictures["integrator"].figure.axes
    measured, order, used = error.lines
    assert_allclose(np.diff(np.log2(order.get_ydata())), -4, atol=1e-9)
    assert_allclose(np.diff(np.log2(measured.get_ydata())), -4, atol=0.3)
    assert used.get_xdata()[0] == 0.05 / SUBSTEPS


# Training.


def test_learning_curves_are_the_losses_of_every_seed_at_the_selected_rate(pictures, study):
    for axis, arm in zip(pictures["learning_curves"].figure.axes, ARMS, strict=True):
        population, rows = study.population(arm), selected_rows(study, arm)
        for style, losses in (
            ("-", population.train_loss),
            ("--", population.validation_loss),
        ):
            drawn = lines(axis, style=style)
            assert len(drawn) == SEEDS
            for line, row in zip(drawn, rows, strict=True):
                assert_array_equal(line.get_xdata(), [1, 2])
                assert_array_equal(line.get_ydata(), losses[:, row])


def test_learning_rates_show_every_model_the_means_the_choice_and_the_edges(pictures, study):
    for axis, arm in zip(pictures["learning_rates"].figure.axes, ARMS, strict=True):
        grid = study.grid(arm)
        points = lines(axis, marker=".")
        assert len(points) == SEEDS
        for line, scores in zip(points, grid.scores, strict=True):
            assert_allclose(line.get_xdata(), [0.003, 0.01, 0.03], rtol=0.07)  # moved aside
            assert_array_equal(line.get_ydata(), scores)
        (means,) = lines(axis, marker="o")
        assert_array_equal(means.get_ydata(), grid.means)
        count = {"full": 2, "histogram": 3}[arm]
        assert means.get_label() == f"mean of the first {count} seeds"
        (chosen,) = lines(axis, marker="s")
        assert chosen.get_xydata().tolist() == [[grid.learning_rate, grid.means.min()]]
        edges = [line.get_xdata()[0] for line in lines(axis, style="--")]
        assert edges == [0.003, 0.03]
        assert axis.get_xscale() == axis.get_yscale() == "log"


def test_a_diverged_model_is_no_point_and_hides_no_other(study):
    population = study.population("full")
    scores = population.test_mse.copy()
    scores[2] = np.inf  # the first seed's last rate
    broken = dataclasses.replace(population, test_mse=scores)
    other = changed(study, population=lambda arm: {"full": broken}.get(arm, population))
    axis = training.learning_rates(other).figure.axes[0]
    assert [len(line.get_xdata()) for line in lines(axis, marker=".")] == [2, 3, 3]


def test_bars_are_the_shares_of_the_clusters_for_every_epoch_and_seed(pictures, study):
    left, right = pictures["cluster_choices"].figure.axes
    population = study.population("histogram")
    choices = population.training_choices
    share = population.test_ledger.share[selected_rows(study, "histogram")]
    for axis, expected in ((left, choices / choices.sum(axis=1, keepdims=True)), (right, share)):
        heights = np.array([[bar.get_height() for bar in stack] for stack in axis.containers])
        bottoms = np.array([[bar.get_y() for bar in stack] for stack in axis.containers])
        assert_allclose(heights.T, expected, atol=1e-12)
        assert_allclose(bottoms[1:], np.cumsum(heights, axis=0)[:-1], atol=1e-12)
        assert_allclose(heights.sum(axis=0), 1)
    assert [tick.get_text() for tick in right.get_xticklabels()] == ["0", "1", "5"]


# Significance.


def test_slope_graph_joins_the_scores_of_every_seed(pictures, study):
    (axis,) = pictures["slope_graph"].figure.axes
    c = study.reference.comparison
    drawn = lines(axis, marker="o")
    assert len(drawn) == SEEDS
    for line, low, high in zip(drawn, c.baseline, c.treatment, strict=True):
        assert line.get_xydata().tolist() == [[0, low], [1, high]]
        assert line.get_color() == (IDEA if high > low else BASELINE)
    assert [(text.get_text(), text.xy[1]) for text in axis.texts] == [
        (f"seed {seed}", high) for seed, high in zip((0, 1, 5), c.treatment, strict=True)
    ]
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["full", "histogram"]
    assert axis.get_ylim()[0] == 0


def test_difference_plot_holds_every_difference_the_mean_and_its_intervals(pictures, study):
    (axis,) = pictures["difference_plot"].figure.axes
    c = study.reference.comparison
    drawn = [line.get_xydata()[0].tolist() for line in lines(axis, marker="o")]
    order = sorted(range(SEEDS), key=lambda i: c.differences[i])
    assert drawn == [[c.differences[i], height] for height, i in enumerate(order)]
    ticks = [tick.get_text() for tick in axis.get_yticklabels()]
    assert ticks == [f"seed {c.seeds[i]}" for i in order]
    flip, t = ([low[0], high[0]] for low, high in bars(axis))
    assert_allclose(flip, [c.sign_flip_interval.low, c.sign_flip_interval.high], rtol=1e-12)
    assert_allclose(t, [c.t_interval.low, c.t_interval.high], rtol=1e-12)
    means = [container.lines[0].get_xdata()[0] for container in axis.containers]
    assert means == [c.mean_difference] * 2
    labels = [container.get_label() for container in axis.containers]
    assert labels == ["mean with sign-flip interval, 75.0%", "mean with t interval, 95%"]
    (margin,) = axis.patches
    assert [margin.get_x(), margin.get_x() + margin.get_width()] == [-c.margin, c.margin]
