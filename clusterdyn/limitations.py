"""What the published report says that it left untested, and what this study answers."""

from clusterdyn.bench.findings import saved_time
from clusterdyn.limits.findings import verdicts
from clusterdyn.limits.tables import places
from clusterdyn.protocol import Study
from clusterdyn.qlearning.findings import learned_verdicts
from clusterdyn.tables import Table

COLUMNS = ("limitation of the published trial", "what was measured", "answer")


def limitations(study: Study) -> Table:
    """The published report's limitations, each with what was measured and what came out.

    Args:
        study: one that leaves the published setting, learns schedules and measures their cost.
    """
    rows = [
        (
            "a greedy policy instead of the learned Q-learning controller",
            "tabular Q-learning over histograms, on frozen models and beside the weights, with "
            "and without the answer as reward (09 Learned)",
            learned_verdicts(study),
        ),
        (
            "no wall-clock speed-up",
            f"time and memory of a time step of {len(study.cost.wall_clock.schedules)} schedules "
            "at equal sweeps (08 Cost)",
            saved_time(study.cost.wall_clock).replace("`", ""),
        ),
        (
            "no accelerator use",
            "the same, by python -m clusterdyn wall-clock --device cuda",
            _accelerator(study),
        ),
        (
            "no larger graphs",
            f"{_names(study, 'nodes')}; and {_names(study, 'graphs')} (10 Limits)",
            f"{_answer(study, 'nodes')} Other graphs. {_answer(study, 'graphs')}",
        ),
        (
            "no other partitions",
            f"{_names(study, 'partitions')} (10 Limits)",
            _answer(study, "partitions"),
        ),
        (
            "no more than three sweeps",
            f"{_names(study, 'sweeps')}, and the residual left at their end (10 Limits)",
            f"{_answer(study, 'sweeps')} {_settled(study)}",
        ),
        (
            "no GRU internals",
            f"{_names(study, 'gru')}, clusters of units driven by the same schedules (11 GRU)",
            f"{_answer(study, 'gru')} At equal sweeps. {_answer(study, 'gru_sweeps')}",
        ),
    ]
    return Table(
        COLUMNS,
        rows,
        "What the published report lists as untested. Verdicts are counted over all schedules and "
        f"places that were compared, on {len(study.limits.result.test_seeds)} test seeds and at "
        "the same node updates where nothing else is said; better and worse by Holm's adjusted p, "
        "equivalent within the margin.",
    )


def _names(study: Study, experiment: str) -> str:
    return ", ".join(place.name for place in places(study, experiment)) or "nothing"


def _answer(study: Study, experiment: str) -> str:
    """Its verdicts, or why there are none."""
    told = verdicts(study, experiment)
    reasons = [out for out in study.limits.result.left_out if out.experiment == experiment]
    return told or f"Not measured: {'; '.join(out.reason for out in reasons)}."


def _settled(study: Study) -> str:
    found = [place.settling for place in places(study, "sweeps") if place.settling is not None]
    if not found:
        return ""
    left = [settling.at_end.mean() for settling in found]
    return (
        f"{min(left):.1g} to {max(left):.1g} of the first residual is left after the trained "
        "sweeps, mean over models."
    )


def _accelerator(study: Study) -> str:
    device = study.cost.wall_clock.device
    return "Not measured: this run had a CPU alone." if device == "cpu" else f"Run on {device}."
