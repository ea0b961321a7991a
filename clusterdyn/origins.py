"""Where each setting of the reference profile comes from: published, fitted, or assumed here.

The published trial is known only as a JSON report. It names few of its settings.
"""

from dataclasses import dataclass

from clusterdyn.arms import arm_schedule, message_passing_cell
from clusterdyn.config import StudyConfig
from clusterdyn.datasets import PendulumSampling
from clusterdyn.pendulum import Pendulum
from clusterdyn.recordings import recording_of
from clusterdyn.schedules import Histogram

ORIGINS = {
    "published": "stands in the published report, or follows from its figures",
    "fitted": "chosen by the baseline's published grid means",
    "assumed": "an assumption of this project",
}


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
        name: in words.
        value: as text.
        origin: a key of ``ORIGINS``: where the reference profile's value comes from.
    """

    name: str
    value: str
    origin: str


def study_settings(config: StudyConfig) -> tuple[Setting, ...]:
    """Every setting that a result depends on, and where the reference profile has it from."""
    return (*_published(config), *_fitted(config), *_assumed(config))


def _published(config: StudyConfig) -> list[Setting]:
    rates = ", ".join(f"{rate:g}" for rate in config.learning_rates)
    sizes = f"{config.train_trajectories} and {config.test_trajectories}"
    values = {
        "seeds": ", ".join(map(str, config.seeds)),
        "seeds that the baseline's grid averages": config.baseline_grid_seeds,
        "learning rates": rates,
        "epochs": config.epochs,
        "training and test trajectories": sizes,
        "clusters C": config.clusters,
    }
    if _histograms(config):
        values["histogram bins m"] = config.bins
    return [Setting(name, str(value), "published") for name, value in values.items()]


def _fitted(config: StudyConfig) -> list[Setting]:
    values = {
        "nodes n": config.nodes,
        "channels a node d": config.channels,
        "horizon T, time steps": config.horizon,
        "batch size B": config.batch_size,
        "initial weights": "uniform, ±1/√(fan in), as torch.nn.Linear's",
        "parameters a model": message_passing_cell(config).parameter_count,
    }
    return [Setting(name, str(value), "fitted") for name, value in values.items()]


def _assumed(config: StudyConfig) -> list[Setting]:
    values = {
        "cell": "tanh of a node's own state, its neighbours' and its drive",
        "sweeps a time step K": config.sweeps,
        "relaxation factor η": config.relaxation,
        "hidden state": "h = 0 at the start, carried over time steps",
        "graph": config.graph,
        "partition": config.partition,
    }
    schedules = _histograms(config)
    if schedules:
        values["histogram's range"] = "from 0 to the trajectory's largest disagreement"
        values["ties between clusters"] = _tie_rule(schedules[0])
    values |= {
        "optimiser": "Adam",
        "largest gradient norm": f"{config.clip_norm:g}",
        "validation trajectories": f"{config.validation_trajectories}, which select nothing",
        **_data(config),
        "precision of training": config.dtype,
    }
    return [Setting(name, str(value), "assumed") for name, value in values.items()]


def _data(config: StudyConfig) -> dict[str, str]:
    recording = recording_of(config.data)
    if recording is not None:
        step = recording.time_step
        return {"data": config.data, "time step": "not said" if step is None else f"{step:g}"}
    pendulum, drawn = Pendulum(), PendulumSampling()
    return {
        "pendulum": f"g = {pendulum.gravity:g} m/s², ℓ = {pendulum.length:g} m, "
        f"m = {pendulum.mass:g} kg, c = {pendulum.damping:g} N·m·s",
        "initial states and torques": f"|θ₀| ≤ {drawn.largest_angle:.4g} rad, "
        f"|ω₀| ≤ {drawn.largest_velocity:g} rad/s, |u| ≤ {drawn.largest_torque:g} N·m, "
        "each drawn evenly",
        "time step": f"{drawn.time_step:g} s",
    }


def _histograms(config: StudyConfig) -> list[Histogram]:
    schedules = (arm_schedule(config, arm) for arm in (config.baseline, config.schedule))
    return [schedule for schedule in schedules if isinstance(schedule, Histogram)]


def _tie_rule(schedule: Histogram) -> str:
    winners = {
        "lowest": "the lowest-numbered cluster wins",
        "random": "a random cluster wins",
        "oldest": "the cluster that has waited longest wins",
    }
    return winners[schedule.ties]
