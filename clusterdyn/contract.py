"""What every schedule must obey, checked by running it and disturbing what it may not see."""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clusterdyn.graph import Graph, make_partition, ring
from clusterdyn.model import MessagePassingCell
from clusterdyn.schedules import Schedule, SweepView
from clusterdyn.schedules.own import build, own_name
from clusterdyn.sweeps import active_clusters, losses_ahead, rollout

SWEEPS = 3
RELAXATION = 0.5


class ScheduleError(ValueError):
    """A schedule breaks the contract; the message says how."""


class _Watched(Schedule):
    """Hands everything on to a schedule and checks what it does with the view."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule.partition)
        self.schedule = schedule
        self.name = schedule.name
        self.updates_per_sweep = schedule.updates_per_sweep
        self.needs_answer = schedule.needs_answer
        self.reads_batch = schedule.reads_batch

    def start(self, generators: Any, batch: int) -> Any:
        try:
            return self.schedule.start(generators, batch)
        except Exception as error:
            raise ScheduleError(_fails(self.schedule, "start", error)) from error

    def _answer(self, view: SweepView, state: Any) -> tuple[Tensor, Any]:
        try:
            answer = self.schedule.choose(view, state)
        except NotImplementedError as error:
            raise ScheduleError(f"schedule {self.name!r} has no method choose") from error
        except Exception as error:
            raise ScheduleError(_fails(self.schedule, "choose", error)) from error
        if not (isinstance(answer, tuple) and len(answer) == 2 and torch.is_tensor(answer[0])):
            raise ScheduleError(
                f"schedule {self.name!r} must return two things from choose, the active clusters "
                f"as a tensor and its next state; got {type(answer).__name__}"
            )
        return answer

    def choose(self, view: SweepView, state: Any) -> tuple[Tensor, Any]:
        before = view.hidden.clone(), view.proposal.clone()
        choice, state = self._answer(view, state)
        active = active_clusters(self.schedule, choice)
        if not (torch.equal(before[0], view.hidden) and torch.equal(before[1], view.proposal)):
            raise ScheduleError(
                f"schedule {self.name!r} changes the hidden state or the proposal it is shown; "
                "it may only read them"
            )
        if not active.any(dim=-1).all():
            raise ScheduleError(
                f"schedule {self.name!r} names no active cluster at time step "
                f"{view.time_step}, sweep {view.sweep}, update {view.update}; "
                "every update must have at least one"
            )
        return active, state


def example_setting() -> dict[str, object]:
    """What a class is built of to be checked: a ring of 12 nodes in 4 clusters.

    Returns:
        Arguments of a schedule's constructor, by name.
    """
    graph = ring(12)
    partition = make_partition("contiguous", graph, 4)
    return {"partition": partition, "graph": graph, "bins": 4, "relaxation": RELAXATION}


def check_schedule(
    schedule: Schedule | type[Schedule],
    graph: Graph | None = None,
    trajectories: tuple[Tensor, Tensor] | None = None,
) -> None:
    """Checks that a schedule sees the present of its own trajectory and nothing else.

    One that says that it needs the answer may also see the state that ends the time step; one that
    says that it reads the batch, the other trajectories of its model.

    It is run on untrained models. Then later time steps, other trajectories and other models
    are disturbed, in place, and its choices must not move.

    Args:
        schedule: to be checked; a class is built first, of ``example_setting``.
        graph: over its nodes; to be given with a schedule that is built already.
        trajectories: states (S, B, T + 1, 3) and controls (S, B, T, 1), float64, S, B and T at
            least 2; random ones by default. To be given if the schedule holds them.

    Raises:
        ScheduleError: in a sentence that says what the schedule does wrong.
        ValueError: if its choice has the wrong type or shape, or a class cannot be built.
    """
    if isinstance(schedule, type):
        setting = example_setting()
        schedule, graph = build(schedule, own_name(schedule), setting), setting["graph"]
    if graph is None:
        raise ValueError("a schedule that is built already is checked on its own graph; give it")
    asks = schedule.updates_per_sweep
    if not (isinstance(asks, int) and asks > 0):
        raise ScheduleError(
            f"schedule {schedule.name!r} must have a positive whole number of updates_per_sweep; "
            f"got {asks!r}"
        )
    cell = MessagePassingCell(graph, channels=3)
    if trajectories is None:
        rng = np.random.default_rng(0)
        trajectories = (
            torch.as_tensor(rng.normal(size=(2, 5, 4, 3))),
            torch.as_tensor(rng.normal(size=(2, 5, 3, 1))),
        )
    states, controls = trajectories
    population, batch, horizon = controls.shape[:3]
    parameters = np.stack(
        [cell.initial_parameters(s) for s in np.random.SeedSequence(1).spawn(population)]
    )
    bound = cell.bind(torch.as_tensor(parameters))
    watched = _Watched(schedule)

    def choices() -> Tensor:
        """(T, updates a time step, S, B, C)."""
        generators = [np.random.default_rng(seed) for seed in range(population)]
        with torch.no_grad():
            run = rollout(
                bound,
                states[:, :, 0],
                controls,
                watched,
                generators,
                sweeps=SWEEPS,
                relaxation=RELAXATION,
                targets=states[:, :, 1:],
            )
        shape = (population, batch, schedule.partition.clusters)
        taken = torch.stack([active.expand(shape) for active in run.activity])
        return taken.unflatten(0, (horizon, -1))

    kept = states.clone(), controls.clone()
    first = choices()
    if not torch.equal(first, choices()):
        raise ScheduleError(
            f"schedule {schedule.name!r} chooses differently when it is run again with the same "
            "seeds; keep its state in what start returns and draw from the generators given there"
        )
    try:
        for t in range(1, horizon):
            # A schedule that needs the answer may also see the state at the time step's end.
            states[:, :, t + schedule.needs_answer :] *= -1.7
            controls[:, :, t:] *= -1.7
            if not torch.equal(first[:t], choices()[:t]):
                raise ScheduleError(
                    f"schedule {schedule.name!r} reads the future: its choices before time step "
                    f"{t} move when states and controls from there on change"
                )
            states.copy_(kept[0]), controls.copy_(kept[1])
        axes = ((1, "trajectories"), (0, "models"))
        for axis, what in axes[schedule.reads_batch :]:
            last = states.shape[axis] - 1
            # Once all but the first change, and once all but the last.
            for changed, watched_row in ((1, 0), (0, last)):
                states.narrow(axis, changed, last).mul_(-1.7)
                controls.narrow(axis, changed, last).mul_(-1.7)
                moved = choices()
                if not torch.equal(
                    first.select(axis + 2, watched_row), moved.select(axis + 2, watched_row)
                ):
                    raise ScheduleError(_reads_others(schedule, what))
                states.copy_(kept[0]), controls.copy_(kept[1])
    finally:
        states.copy_(kept[0]), controls.copy_(kept[1])
    _check_made_up_states(watched, cell, (population, batch), horizon)


def _check_made_up_states(
    schedule: Schedule, cell: MessagePassingCell, size: tuple[int, int], horizon: int
) -> None:
    """The same at made-up hidden states: in a rollout one cluster may happen to lead throughout."""
    rng = np.random.default_rng(2)
    updates = horizon * SWEEPS * schedule.updates_per_sweep
    shape = (updates, 2, *size, cell.graph.nodes, cell.channels)
    made_up = torch.as_tensor(rng.normal(size=shape))
    other = torch.as_tensor(rng.normal(size=shape))
    first = _choices_at(schedule, made_up)
    axes = ((2, "models"), (3, "trajectories"))
    for axis, what in axes[: 1 if schedule.reads_batch else 2]:
        for row in range(size[axis - 2]):
            mixed = other.clone()
            mixed.select(axis, row).copy_(made_up.select(axis, row))
            moved = _choices_at(schedule, mixed)
            if not torch.equal(first.select(axis - 1, row), moved.select(axis - 1, row)):
                raise ScheduleError(_reads_others(schedule, what))


def _choices_at(schedule: Schedule, states: Tensor) -> Tensor:
    """(updates, S, B, C): what a schedule makes of hidden states and proposals, in turn.

    Args:
        schedule: started anew.
        states: (updates, 2, S, B, n, d).
    """
    population, batch = states.shape[2:4]
    state = schedule.start([np.random.default_rng(seed) for seed in range(population)], batch)
    labels = torch.tensor(schedule.partition.labels)
    taken = []
    for number, (hidden, proposal) in enumerate(states.clone()):
        sweep, update = divmod(number, schedule.updates_per_sweep)
        next_loss = partial(losses_ahead, _any_readout, torch.tensor(0.3), hidden, labels)
        view = SweepView(hidden, proposal, sweep // SWEEPS, sweep % SWEEPS, update, next_loss)
        choice, state = schedule.choose(view, state)
        active = active_clusters(schedule, choice)
        taken.append(active.expand(population, batch, schedule.partition.clusters))
    return torch.stack(taken)


def _any_readout(hidden: Tensor) -> Tensor:
    """(S, B, n d): what a schedule that needs the answer can bring closer to a target."""
    return hidden.flatten(-2)


def _fails(schedule: Schedule, method: str, error: Exception) -> str:
    return (
        f"schedule {schedule.name!r} fails in {method}: {type(error).__name__}: "
        f"{' '.join(str(error).split())}"
    )


def _reads_others(schedule: Schedule, what: str) -> str:
    return (
        f"schedule {schedule.name!r} reads other {what}: its choices for one move when the others "
        "change"
    )
