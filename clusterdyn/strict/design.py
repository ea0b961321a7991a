"""What the strict protocol does, in sentences whose numbers come from its settings and results."""

from collections.abc import Sequence

from clusterdyn.display import listed
from clusterdyn.grids import ArmGrid
from clusterdyn.protocol import Study
from clusterdyn.strict.arms import claim_budget


def reference_and_strict(study: Study) -> str:
    """Opens notebook 06: what the reference protocol did, and what the strict one does instead."""
    result, strict = study.reference, study.strict_config
    grids, rates = (result.baseline, result.idea), sorted(strict.selection_rates)
    work = [study.population(grid.schedule).test_ledger.node_updates.mean() for grid in grids]
    return (
        "The reference protocol chooses each arm's learning rate on the test score that it then "
        f"reports: {listed(map(_chosen, grids))}. Its {len(result.comparison.seeds)} pairs can "
        f"give no p below {result.comparison.test.min_attainable_pvalue:.3g}, and its arms do "
        f"{work[0]:.0f} and {work[1]:.0f} node updates a time step.\n\n"
        f"The strict protocol gives every arm the same {len(rates)} rates from {rates[0]:g} to "
        f"{rates[-1]:g} and takes the lowest mean *validation* MSE over "
        f"{len(strict.selection_seeds)} seeds. While the best rate is an edge, the grid grows "
        f"there, by at most {strict.grid_extensions} rates. The rate is then frozen, and "
        f"{len(strict.test_seeds)} fresh seeds are trained and tested once. Node updates are "
        "counted and made equal, and p values are adjusted by Holm's method within each family of "
        f"claims.\n\n{_side_experiments(study)}"
    )


def _side_experiments(study: Study) -> str:
    """Which arms get fewer seeds than the rest, how many, and why."""
    strict, config = study.strict_config, study.config
    others = [
        words.format(" or ".join(values))
        for values, words in (
            (_other(strict.work_budgets, claim_budget(strict)), "with {} node updates a time step"),
            (_other(strict.horizons, config.horizon), "over {} time steps"),
            (_other(strict.epoch_budgets, config.epochs), "for {} epochs"),
        )
        if values
    ]
    if not others:
        return "There are no side experiments."
    rates = sorted(strict.side_rates)
    fewer = [f"start from {len(rates)} rates from {rates[0]:g} to {rates[-1]:g}"]
    used = [
        f"the first {count} of {len(seeds)} {which} seeds"
        for seeds, count, which in (
            (strict.selection_seeds, strict.side_selection_seeds, "selection"),
            (strict.test_seeds, strict.side_test_seeds, "test"),
        )
        if count < len(seeds)
    ]
    if used:
        fewer.append(
            f"use {listed(used)} alone. This was chosen for time, and makes their intervals wider"
        )
    else:
        fewer.append("use as many seeds as the rest")
    return f"**Side experiments** (arms trained {'; '.join(others)}) {' and '.join(fewer)}."


def _other(values: Sequence[int], own: int) -> list[str]:
    return [str(value) for value in sorted(values) if value != own]


def _chosen(grid: ArmGrid) -> str:
    return (
        f"{grid.schedule} at {grid.learning_rate:g}, {'an edge of' if grid.at_edge else 'inside'} "
        f"its grid of {len(grid.learning_rates)}, by the mean of {grid.grid_seeds} of "
        f"{len(grid.scores)} seeds"
    )
