"""Published figures beside a run's: every rule holds up to its limit and not beyond."""

import copy
import math

import pytest
from inspection import at, places, put

from clusterdyn.reference.agreement import KINDS, Agreement, agreement
from clusterdyn.reference.published import published_report


def name(path: tuple) -> str:
    """A place as the rows of an agreement call it."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")


def rows_of(published: dict, measured: dict, without_idea: dict | None = None) -> tuple:
    """The rows; a run without the idea is like the run itself unless told otherwise."""
    return agreement(published, measured, without_idea or measured)


def row(published: dict, measured: dict, figure: str) -> Agreement:
    (found,) = (row for row in rows_of(published, measured) if row.figure == figure)
    return found


def test_the_published_report_agrees_with_itself_in_every_figure():
    rows = rows_of(published_report(), published_report())
    leaves = {
        name(path)
        for path in places(published_report())
        if not isinstance(at(published_report(), path), (dict, list))
    }
    assert len(rows) == len(leaves) and {row.figure for row in rows} == leaves
    assert all(row.within for row in rows)
    assert all(row.published == row.measured for row in rows)


UP, DOWN = 1 + 1e-12, 1 - 1e-12  # just beyond a limit
FACTORS = {
    ("baseline", "full", "mean"): 1.5,
    ("idea", "mean"): 1.5,
    ("baseline", "sweep", 1, "mean"): 1.5,
    ("protocol_notes", "idea_grid", 0, "mean"): 1.5,
    ("mechanism_signature", "signature", "rows", 2, "observed_linf"): 1.5,
    ("mechanism_signature", "signature", "eta2_ratio_range", 0): 1.5,
    ("baseline", "full", "std"): 2.0,
    ("idea", "std"): 2.0,
    ("comparison", "mde"): 2.0,
    ("comparison", "mde_rel_pct"): 2.0,
}


def compared(path: tuple, published, measured) -> Agreement:
    """The row of one figure, set on both sides."""
    report = published_report()
    return row(put(report, path, published), put(report, path, measured), name(path))


@pytest.mark.parametrize("path", FACTORS, ids=name)
def test_a_factor_holds_up_to_its_limit_and_not_beyond(path):
    factor = FACTORS[path]
    for ratio, within in (
        (factor, True),
        (factor * UP, False),
        (1 / factor, True),
        (1 / factor * DOWN, False),
    ):
        found = compared(path, 1.0, ratio)
        assert (found.rule, found.within) == (f"factor {factor:g}", within), ratio
    # A quotient says nothing about what is not positive or not a number.
    for measured in (0.0, -1.0, math.nan, math.inf):
        assert not compared(path, 1.0, measured).within


@pytest.mark.parametrize("arm", [("baseline", "full"), ("idea",)], ids=name)
def test_the_scores_of_seeds_are_within_a_factor_of_2_in_ascending_order(arm):
    path = (*arm, "per_seed")
    report = published_report()
    published = put(report, path, [3.0, 1.0, 2.0])
    # Whatever seed a score belongs to: 1 beside 2, 2 beside 1, 3 beside 6.5.
    rows = [
        found
        for found in rows_of(published, put(report, path, [6.5, 2.0, 1.0]))
        if found.figure.startswith(name(path))
    ]
    assert [(r.published, r.measured, r.within) for r in rows] == [
        ("1", "1", True),
        ("2", "2", True),
        ("3", "6.5", False),
    ]
    assert {r.rule for r in rows} == {"factor 2"}


def test_a_difference_is_within_two_standard_deviations_of_the_published_one_of_its_rank():
    path = ("comparison", "per_seed_diffs")
    # The sample standard deviation of these is exactly 1.
    published = put(published_report(), path, [1.0, -1.0, 0.0])
    for measured, within in (  # both in ascending order
        ([-3.0, 2.0, 3.0], [True, True, True]),
        ([-3 * UP, 2.0, 3.0], [False, True, True]),
        ([-3.0, 2 * UP, 3.0], [True, False, True]),
        ([-3.0, 2.0, 3 * UP], [True, True, False]),
    ):
        rows = [
            found
            for found in rows_of(published, put(published_report(), path, measured[::-1]))
            if found.figure.startswith("comparison.per_seed_diffs")
        ]
        assert [found.within for found in rows] == within, measured
        assert {found.rule for found in rows} == {"± 2 (2 sd)"}


def test_the_mean_difference_lies_in_the_published_t_interval():
    published = put(published_report(), ("comparison", "per_seed_diffs"), [0.0, 1.0, 2.0])
    published["comparison"]["delta_mean"] = 1.0
    half = 4.302652729749464 / math.sqrt(3)  # t of 2 degrees of freedom at 97.5 %, by table
    for measured, within in (
        (1 + half - 1e-9, True),
        (1 + half + 1e-9, False),
        (1 - half + 1e-9, True),
        (1 - half - 1e-9, False),
    ):
        report = put(published_report(), ("comparison", "delta_mean"), measured)
        found = row(published, report, "comparison.delta_mean")
        assert found.within is within
        assert found.rule == "in the published 95 % interval [-1.5, 3.5]"


def test_p_values_agree_if_they_lie_on_the_same_side_of_5_percent():
    path = ("comparison", "p_value")
    for published, measured, within in (
        (0.0081, 0.0499, True),
        (0.0081, 0.05, False),  # 0.05 is not below 0.05
        (0.05, 0.9, True),
        (0.05, 0.0499, False),
    ):
        found = compared(path, published, measured)
        assert (found.rule, found.within) == ("same side of 0.05", within)


@pytest.mark.parametrize(
    ("path", "other"),
    [
        (("comparison", "idea_wins"), 1),
        (("comparison", "verdict"), "idea better (significant)"),
        (("comparison", "system_worked"), True),
        (("mechanism_signature", "signature", "confirmed"), False),
        (("baseline", "best_cfg", "lr"), 0.003),
        (("protocol_notes", "selected_idea_cfg", "lr"), 0.01 * (1 + 1e-8)),
        (("system_verdict",), "works"),
        (("practical_verdict",), "unclear"),
        (("mechanism_ok",), 1),
    ],
    ids=lambda value: name(value) if isinstance(value, tuple) else None,
)
def test_a_verdict_a_count_or_a_selected_rate_must_be_equal(path, other):
    report = published_report()
    assert row(report, report, name(path)).rule == "equal"
    found = row(report, put(report, path, other), name(path))
    assert not found.within and found.kind != "setting"
    changed = [r.figure for r in rows_of(report, put(report, path, other)) if not r.within]
    assert changed == [name(path)]


def test_a_figure_that_is_missing_is_not_within():
    report = published_report()
    for path in places(report)[1:]:
        if isinstance(path[-1], int):
            continue  # an item of a list goes with its list
        missing = copy.deepcopy(report)
        del at(missing, path[:-1])[path[-1]]
        lost = [found for found in rows_of(report, missing) if not found.within]
        assert lost and all(found.measured == "—" for found in lost), path
        assert all(found.figure.startswith(name(path)) for found in lost)


def test_a_seed_that_is_missing_is_not_within():
    path = ("baseline", "full", "per_seed")
    lacking = put(published_report(), path, sorted(at(published_report(), path))[:7])
    lost = [found for found in rows_of(published_report(), lacking) if not found.within]
    assert [found.figure for found in lost] == ["baseline.full.per_seed[7]"]


def test_a_figure_that_is_null_is_not_within():
    found = compared(("protocol_notes", "idea_grid", 0, "mean"), 0.28, None)
    assert (found.measured, found.within) == ("—", False)


SETTINGS = {
    "bench_version", "track", "model", "metric_direction", "n_seeds", "baseline.best_cfg.epochs",
    "baseline.full.n", "idea.n", "comparison.n_pairs", "mechanism_signature.clusters",
    "mechanism_signature.histogram_bins", "protocol_notes.selected_idea_cfg.epochs",
    *(f"baseline.sweep[{i}].cfg.{k}" for i in range(3) for k in ("lr", "epochs")),
    *(f"protocol_notes.idea_grid[{i}].cfg.{k}" for i in range(3) for k in ("lr", "epochs")),
    *(f"protocol_notes.baseline_grid_union[{i}].{k}" for i in range(3) for k in ("lr", "epochs")),
    *(f"mechanism_signature.signature.rows[{i}].{k}" for i in range(4) for k in ("eta", "eta2")),
    *(f"protocol_notes.paired_seeds[{i}]" for i in range(8)),
    *(f"protocol_notes.dataset_sizes[{i}]" for i in range(2)),
}  # fmt: skip


FITTED = {
    "baseline.best_cfg.lr", "baseline.full.mean",
    *(f"baseline.sweep[{i}].mean" for i in range(3)),
}  # fmt: skip
SEEDS = {
    f"{place}[{i}]"
    for place in ("baseline.full.per_seed", "idea.per_seed", "comparison.per_seed_diffs")
    for i in range(8)
}
MEASURED = {
    "baseline.full.std", "idea.mean", "idea.std", "comparison.delta_mean", "comparison.idea_wins",
    "comparison.p_value", "comparison.mde", "comparison.mde_rel_pct", "comparison.verdict",
    "comparison.system_worked", "mechanism_signature.signature.confirmed", "system_verdict",
    "practical_verdict", "mechanism_ok", "protocol_notes.selected_idea_cfg.lr",
    *(f"mechanism_signature.signature.rows[{i}].observed_linf" for i in range(4)),
    *(f"mechanism_signature.signature.eta2_ratio_range[{i}]" for i in range(2)),
    *(f"protocol_notes.idea_grid[{i}].mean" for i in range(3)),
}  # fmt: skip


def test_what_was_set_fitted_or_of_single_seeds_is_told_from_what_was_measured():
    rows = rows_of(published_report(), published_report())
    for kind, figures in (
        ("setting", SETTINGS),
        ("fitted", FITTED),
        ("seed", SEEDS),
        ("measured", MEASURED),
    ):
        assert {found.figure for found in rows if found.kind == kind} == figures
    assert {found.kind for found in rows} == set(KINDS)


def test_a_figure_that_a_run_without_the_idea_would_miss_says_so():
    report = published_report()
    without = put(report, ("idea", "mean"), at(report, ("baseline", "full", "mean")))
    found = row(report, report, "idea.mean")
    assert found.within and found.within_without_idea
    (found,) = (r for r in rows_of(report, report, without) if r.figure == "idea.mean")
    assert found.within and not found.within_without_idea  # 1.6 times apart, and 1.5 is allowed
    lost = [r.figure for r in rows_of(report, report, without) if not r.within_without_idea]
    assert lost == ["idea.mean"]


def test_the_ratio_of_two_quantities_is_measured_over_published():
    assert compared(("idea", "mean"), 0.5, 2.0).ratio == 4.0
    for path, published, measured in (
        (("mechanism_ok",), 0, 1),
        (("comparison", "system_worked"), False, True),
        (("comparison", "verdict"), "a", "b"),
        (("idea", "mean"), 0.5, None),
        (("idea", "mean"), 0.0, 1.0),
    ):
        assert compared(path, published, measured).ratio is None
