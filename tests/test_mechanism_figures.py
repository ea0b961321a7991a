"""Figures of the eta^2 law: every seed is drawn, and what is drawn are the check's numbers."""

import numpy as np
from inspection import bars, lines
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats as scipy_stats

from clusterdyn.figures import mechanism
from clusterdyn.figures.style import BASELINE, IDEA
from clusterdyn.mechanism import EtaSquareLaw
from clusterdyn.protocol import Study
from clusterdyn.reference.published import published_report

SEEDS, ARMS, COLOURS = 3, ("full", "histogram"), (BASELINE, IDEA)


def law(study: Study, arm: str, unit: str, state: str = "trajectory") -> EtaSquareLaw:
    return next(w for w in study.mechanism(arm).laws if (w.unit, w.state) == (unit, state))


def test_discrepancy_lies_beside_the_predicted_size_times_eta_squared(study):
    for axis, unit in zip(
        mechanism.discrepancy(study).figure.axes, ("nodes", "clusters"), strict=True
    ):
        points, predicted = lines(axis, marker="."), lines(axis, style="-")
        assert (len(points), len(predicted)) == (2 * SEEDS, 2)
        eta = 0.01 * 2.0 ** np.arange(6)
        for number, arm in enumerate(ARMS):
            found = law(study, arm, unit)
            for seed in range(SEEDS):
                line = points[number * SEEDS + seed]
                assert_allclose(line.get_xdata(), eta)
                assert_array_equal(line.get_ydata(), found.size[:, seed])
            assert_allclose(predicted[number].get_ydata(), found.predicted_size[0] * eta**2)
            assert {line.get_color() for line in points[number * SEEDS :][:SEEDS]} == {
                COLOURS[number]
            }


def test_local_slopes_and_errors_are_those_of_every_seed(study):
    slopes, errors = mechanism.local_slopes(study).figure.axes
    drawn = {
        "slope": [line for line in lines(slopes, style="-") if len(line.get_xdata()) == 5],
        "coefficient": lines(errors, style="-"),
        "richardson": lines(errors, style="--"),
    }
    laws = [law(study, arm, "nodes") for arm in ARMS]
    expected = {
        "slope": [np.diff(np.log(w.size), axis=0) / np.log(2) for w in laws],
        "coefficient": [w.coefficient_error for w in laws],
        "richardson": [w.richardson_error for w in laws],
    }
    for what, found in drawn.items():
        columns = np.concatenate(expected[what], axis=1)
        assert len(found) == 2 * SEEDS == columns.shape[1]
        for line, column in zip(found, columns.T, strict=True):
            assert_allclose(line.get_ydata(), column, rtol=1e-12)


def test_seed_slopes_show_every_seed_and_the_90_percent_interval(study):
    (axis,) = mechanism.seed_slopes(study).figure.axes
    points, ticks = lines(axis, marker="o"), axis.get_xticklabels()
    intervals = bars(axis)
    assert len(points) == len(intervals) == len(ticks) == 8
    for line, (low, high), tick in zip(points, intervals, ticks, strict=True):
        found = law(study, *tick.get_text().split("\n"))
        assert_array_equal(line.get_ydata(), found.slope)
        mean = found.slope.mean()
        half = scipy_stats.t.ppf(0.95, SEEDS - 1) * found.slope.std(ddof=1) / np.sqrt(SEEDS)
        assert_allclose([low[1], high[1]], [mean - half, mean + half], rtol=1e-9)


def test_every_node_and_channel_lies_at_its_predicted_and_measured_coefficient(study):
    for axis, unit in zip(
        mechanism.coefficient(study).figure.axes, ("nodes", "clusters"), strict=True
    ):
        found = law(study, "histogram", unit)
        points = np.concatenate([line.get_xydata() for line in lines(axis, marker="o")])
        expected = np.stack([found.predicted.ravel(), found.measured.ravel()], axis=1)
        assert sorted(map(tuple, points)) == sorted(map(tuple, expected))
        assert len(points) == 6 * 2
        (diagonal,) = lines(axis)
        assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())


def test_order_control_draws_every_seed_and_tells_the_slopes_interval(study):
    (axis,) = mechanism.order_control(study).figure.axes
    check = study.mechanism("histogram").order
    expected = np.concatenate([check.fixed_sweeps, check.fixed_span], axis=1).T
    for line, values in zip(lines(axis, marker="."), expected, strict=True):
        assert_array_equal(line.get_ydata(), values)
    caption = mechanism.order_control(study).caption
    for slopes in (check.fixed_sweeps_slope, check.fixed_span_slope):
        low, high = scipy_stats.t.interval(0.9, SEEDS - 1, slopes.mean(), scipy_stats.sem(slopes))
        assert f"{slopes.mean():.3f} [{low:.3f}, {high:.3f}]" in caption
    coarsest = np.mean(np.log2(check.fixed_sweeps[3] / check.fixed_sweeps[2]))
    assert f"on its way from {coarsest:.3f} between the two largest to the limit 2" in caption


def test_published_ratios_lie_beside_those_of_every_seed(study):
    (axis,) = mechanism.reference_view(study).figure.axes
    view = study.reference.signature
    ratios = (view.size.T / np.array([0.2, 0.4, 0.6, 0.8]) ** 2).tolist()
    assert_allclose([line.get_ydata() for line in lines(axis)], ratios)
    (reported,) = lines(axis, marker="o")
    assert_allclose(reported.get_ydata(), ratios[0])
    (published,) = lines(axis, marker="s")
    assert_allclose(published.get_xdata(), [0.2, 0.4, 0.6, 0.8])
    signature = published_report()["mechanism_signature"]["signature"]
    ends = [published.get_ydata().max(), published.get_ydata().min()]
    assert_allclose(ends, signature["eta2_ratio_range"][::-1])
