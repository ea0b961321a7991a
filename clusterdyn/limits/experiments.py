"""The experiments: places away from the study's own, and the arms that are compared at each."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from clusterdyn.arms import arm_schedule, gru_units, study_graph, study_partition
from clusterdyn.config import StudyConfig
from clusterdyn.graph import coloring
from clusterdyn.limits.config import LimitsConfig
from clusterdyn.schedules import Histogram
from clusterdyn.schedules.own import is_own
from clusterdyn.strict.arms import BASELINE, Arm, at_work, sweeps_of

EXPERIMENTS = {
    "graphs": "other graphs",
    "partitions": "other partitions",
    "nodes": "more nodes",
    "sweeps": "other numbers of sweeps",
    "relaxations": "other relaxation factors in training",
    "gru": "the units of a GRU as nodes",
    "gru_sweeps": "the units of a GRU as nodes, at equal sweeps",
}
EQUAL_SWEEPS = ("gru_sweeps",)  # elsewhere it is the node updates that are equal
GRU_EXPERIMENTS = ("gru", "gru_sweeps")  # of another cell
# All of them move one cluster a sweep, so that at equal work they take the same sweeps.
COMPARED = ("round_robin", "random", "histogram")
_SCHEDULES = {
    "graphs": COMPARED,
    "partitions": COMPARED,
    "nodes": ("round_robin", "random"),
    "sweeps": COMPARED,
    "relaxations": ("round_robin", "random"),
    "gru": (*COMPARED, "residual"),
    "gru_sweeps": (*COMPARED, "residual"),
}


def in_full(experiment: str) -> str:
    """An experiment's name as a sentence begins with it."""
    words = EXPERIMENTS[experiment]
    return words[0].upper() + words[1:]


@dataclass(frozen=True)
class Place:
    """A setting in which the schedules are compared at equal work.

    Attributes:
        experiment: a key of ``EXPERIMENTS``.
        name: in words.
        arms: the full sweep first; the others have as many node updates a time step, or as many
            sweeps in the experiments of ``EQUAL_SWEEPS``.
        left_out: schedules for which that takes more updates than are affordable.
    """

    experiment: str
    name: str
    arms: tuple[Arm, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class LeftOut:
    """A place that is not measured, and why."""

    experiment: str
    name: str
    reason: str


def plan(
    config: StudyConfig, limits: LimitsConfig
) -> tuple[tuple[Place, ...], tuple[LeftOut, ...]]:
    """Every place, and those that the study's nodes do not allow or that repeat another.

    Args:
        config: the study's settings, from which every place departs in one respect.
        limits: where to go.
    """
    places, left_out = [], []
    seen = {("message_passing", False, *_sameness(config)): "the study's own setting"}
    for experiment, name, changes in _changes(config, limits):
        try:
            changed = replace(config, **changes)
        except ValueError as error:
            left_out.append(LeftOut(experiment, name, str(error)))
            continue
        same = (_cell(experiment), experiment in EQUAL_SWEEPS, *_sameness(changed))
        if same in seen:
            left_out.append(LeftOut(experiment, name, f"it is the same as {seen[same]}"))
            continue
        seen[same] = name
        places.append(_place(changed, experiment, name, changes, limits))
    return tuple(places), tuple(left_out)


def _changes(
    config: StudyConfig, limits: LimitsConfig
) -> Iterable[tuple[str, str, dict[str, object]]]:
    for graph in limits.other_graphs:
        yield "graphs", graph, {"graph": graph}
    for partition in limits.other_partitions:
        clusters = config.clusters
        if partition == "coloring":
            clusters = coloring(study_graph(config)).clusters
        name = f"{partition}, C = {clusters}"
        yield "partitions", name, {"partition": partition, "clusters": clusters}
    for clusters in limits.other_clusters:
        name = f"{config.partition}, C = {clusters}"
        yield "partitions", name, {"clusters": clusters}
    for nodes in limits.other_nodes:
        shorter = {
            "train_trajectories": limits.other_nodes_trajectories,
            "batch_size": limits.other_nodes_batch,
            "epochs": limits.other_nodes_epochs,
        }
        yield "nodes", f"n = {nodes}", {"nodes": nodes, **shorter}
    for sweeps in limits.other_sweeps:
        yield "sweeps", f"K = {sweeps}", {"sweeps": sweeps}
    for relaxation in limits.other_relaxations:
        yield (
            "relaxations",
            f"\N{GREEK SMALL LETTER ETA} = {relaxation:g}",
            {"relaxation": relaxation},
        )
    units = gru_units(config)
    for experiment in GRU_EXPERIMENTS:
        yield experiment, f"GRU of {units['nodes']} units", units


def _cell(experiment: str) -> str:
    """As ``TrainingRun.cell``."""
    return "gru_units" if experiment in GRU_EXPERIMENTS else "message_passing"


def _sameness(config: StudyConfig) -> tuple[object, ...]:
    """Equal for two settings under which every arm is the same."""
    labels = study_partition(config).labels
    return (
        config.graph,
        config.nodes,
        config.train_trajectories,
        config.batch_size,
        config.epochs,
        config.sweeps,
        config.relaxation,
        labels,
    )


def _place(
    config: StudyConfig,
    experiment: str,
    name: str,
    changes: dict[str, object],
    limits: LimitsConfig,
) -> Place:
    work, cell = config.nodes * config.sweeps, _cell(experiment)

    def side_arm(schedule: str, changes: dict[str, object]) -> Arm:
        return Arm(schedule, tuple(changes.items()), cell, side=True)

    arms, left_out = [side_arm(BASELINE, changes)], []
    own = (config.schedule,) if is_own(config.schedule) else ()
    for schedule in (*_SCHEDULES[experiment], *own):
        if experiment in EQUAL_SWEEPS:
            arms.append(side_arm(schedule, changes))
            continue
        built, arm = arm_schedule(config, schedule), at_work(config, schedule, work)
        looks = isinstance(built, Histogram)
        largest = limits.largest_choices if looks else limits.largest_updates
        if arm is None or sweeps_of(config, arm) * built.updates_per_sweep > largest:
            left_out.append(schedule)
        else:
            arms.append(side_arm(schedule, {**changes, **dict(arm.changes)}))
    return Place(experiment, name, tuple(arms), tuple(left_out))
