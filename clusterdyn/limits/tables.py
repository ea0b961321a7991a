"""The experiments beyond the published setting as they are read: the tables of notebook 10."""

from clusterdyn.limits.claims import FAMILIES
from clusterdyn.limits.experiments import EXPERIMENTS, in_full
from clusterdyn.limits.study import PlaceResult
from clusterdyn.protocol import Study
from clusterdyn.strict.study import ArmResult
from clusterdyn.strict.tables import claims_table
from clusterdyn.tables import Table


def places(study: Study, experiment: str) -> list[PlaceResult]:
    """The places of an experiment."""
    return [place for place in study.limits.result.places if place.experiment == experiment]


def sweeps_of(study: Study, arm: ArmResult) -> int:
    """K of an arm."""
    return int(dict(arm.changes).get("sweeps", study.config.sweeps))


def claims(study: Study, family: str) -> Table:
    """Every comparison of a family."""
    return claims_table(study.limits.family(family), FAMILIES[family])


def arms(study: Study, experiment: str) -> Table:
    """Every arm of an experiment."""
    rows = [
        (
            place.name,
            arm.schedule,
            sweeps_of(study, arm),
            arm.node_updates,
            f"{arm.rate:g}",
            arm.at_edge,
            float(arm.test_mse.mean()),
            arm.test_diverged,
        )
        for place in places(study, experiment)
        for arm in place.arms
    ]
    strict, limits = study.strict_config, study.limits_config
    shorter = (
        f", {limits.other_nodes_epochs} epochs of {limits.other_nodes_trajectories} training "
        f"trajectories in batches of {limits.other_nodes_batch}"
    )
    training = shorter if experiment == "nodes" else ""
    return Table(
        (
            "place",
            "schedule",
            "K",
            "node updates",
            "learning rate",
            "at edge",
            "mean test MSE",
            "diverged",
        ),
        rows,
        f"{in_full(experiment)}: sweeps and mean node updates a time step, the "
        f"learning rate that the validation split of {strict.side_selection_seeds} seeds chose "
        "and whether it is an edge of the grid, mean test MSE in standardised units over "
        f"{len(study.limits.result.test_seeds)} test seeds{training}, and test seeds whose model "
        "diverged (scored as persistence).",
    )


def settling(study: Study) -> Table:
    """Where the sweeps of a time step lead."""
    rows = [
        (
            place.name,
            float(found.at_end.mean()),
            float(found.left.max()),
            float(found.trained_mse.mean()),
            float(found.settled_mse.mean()),
        )
        for place in places(study, "sweeps")
        if (found := place.settling) is not None
    ]
    return Table(
        (
            "trained with",
            "residual after K",
            "largest residual at the end",
            "MSE after K",
            "MSE at the end",
        ),
        rows,
        "Models of the full sweep, in the first time step: residual after the K sweeps that they "
        "were trained with, mean over models, and after the sweeps were carried on to the end of "
        "the figure, largest of all models, both relative to that before the first sweep; error "
        "of the first prediction, standardised units, mean over models.",
    )


def laws(study: Study) -> Table:
    """The eta-squared law at every place where it is re-measured."""
    rows = [
        (
            place.name,
            float(law.slope.mean()),
            f"{law.slope_low:.4f} to {law.slope_high:.4f}",
            f"{law.coefficient_error[0].max():.2g}",
            f"{law.richardson_error[0].max():.2g}",
            f"{place.law.independent_sets.max():g}",
        )
        for place in study.limits.result.places
        if place.law is not None
        for law in [place.law.law]
    ]
    return Table(
        (
            "place",
            "slope",
            "90 % interval",
            "coefficient error",
            "after Richardson",
            "independent sets",
        ),
        rows,
        "Clusters one after another against all at once, at a state on the trajectory, float64, "
        f"{study.limits_config.law_seeds} models of the full sweep a place: log-log slope, mean "
        "and 90 % t interval; largest error of the predicted coefficient relative to it, at the "
        "smallest η, before and after Richardson extrapolation; largest difference between moving "
        "an independent set of nodes at once and one by one, which must be 0.",
    )


def left_out(study: Study) -> Table:
    """What is not measured, and why."""
    result = study.limits.result
    rows = [(EXPERIMENTS[out.experiment], out.name, out.reason) for out in result.left_out]
    rows += [
        (
            EXPERIMENTS[place.experiment],
            f"{place.name}: {', '.join(place.left_out)}",
            "too many updates a time step at the full sweep's work",
        )
        for place in result.places
        if place.left_out
    ]
    return Table(("experiment", "what", "why"), rows, "What is left out.")
