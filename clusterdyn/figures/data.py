"""Figures of notebook 01: the data."""

import numpy as np

from clusterdyn.datasets import PendulumSampling, Trajectories, sample_trajectories
from clusterdyn.display import MUTED
from clusterdyn.figures.style import BASELINE, CLUSTERS, IDEA, Picture, label, legend, new_figure
from clusterdyn.pendulum import SUBSTEPS, Pendulum, simulate
from clusterdyn.protocol import Study
from clusterdyn.provenance import describe
from clusterdyn.streams import seed_streams

SHOWN = 40  # trajectories drawn


def trajectories(study: Study) -> Picture:
    """Training trajectories of the first seed, in physical units."""
    config, seed = study.config, study.config.seeds[0]
    count = min(SHOWN, config.train_trajectories)
    drawn = sample_trajectories(seed_streams(seed).train, config.train_trajectories, config.horizon)
    raw = Trajectories(drawn.states[:count], drawn.controls[:count])
    step = PendulumSampling().time_step
    time = step * np.arange(config.horizon + 1)
    angle = np.arctan2(raw.states[..., 0], raw.states[..., 1])
    figure, axes = new_figure(3, width=8.4, height=2.9)
    panels = (
        (angle, "Angle", "θ [rad]"),
        (raw.states[..., 2], "Angular velocity", "ω [rad/s]"),
    )
    for axis, (values, title, unit) in zip(axes[0], panels, strict=False):
        axis.plot(time, values.T, color=BASELINE, alpha=0.45, linewidth=0.9)
        label(axis, title=title, x="time [s]", y=unit)
    held = np.concatenate([raw.controls[..., 0], raw.controls[:, -1:, 0]], axis=1)
    axes[0, 2].step(time, held.T, where="post", color=IDEA, alpha=0.45, linewidth=0.9)
    label(axes[0, 2], title="Torque, held over a step", x="time [s]", y="u [N·m]")
    return Picture(
        figure,
        "data_trajectories",
        f"Three panels over {time[-1]:.2g} s: angle, angular velocity and torque of {count} "
        "trajectories. Angles and velocities bend smoothly; torques jump at every step.",
        f"{count} of the {config.train_trajectories} training trajectories of seed {seed}, in "
        "physical units. A model sees the first state and all torques, and predicts the rest.",
        describe(study.label),
    )


def initial_states(study: Study) -> Picture:
    """Initial states of the three splits of the first seed."""
    config, seed = study.config, study.config.seeds[0]
    streams = seed_streams(seed)
    figure, axes = new_figure(3, width=8.4, height=2.9, sharey=True, sharex=True)
    sampling = PendulumSampling()
    for axis, split in zip(axes[0], ("train", "validation", "test"), strict=True):
        count = getattr(config, f"{split}_trajectories")
        raw = sample_trajectories(getattr(streams, split), count, config.horizon)
        angle = np.arctan2(raw.states[:, 0, 0], raw.states[:, 0, 1])
        axis.plot(angle, raw.states[:, 0, 2], ".", color=BASELINE, markersize=3.5)
        for sign in (-1, 1):
            axis.axvline(sign * sampling.largest_angle, color=MUTED, linewidth=0.8, dashes=(4, 3))
            axis.axhline(
                sign * sampling.largest_velocity, color=MUTED, linewidth=0.8, dashes=(4, 3)
            )
        label(axis, title=f"{split}, {count}", x="θ₀ [rad]")
    axes[0, 0].set_ylabel("ω₀ [rad/s]")
    return Picture(
        figure,
        "data_initial_states",
        "Three scatter plots of initial angle against initial velocity, one a split, inside the "
        f"rectangle of ±{sampling.largest_angle:.3g} rad and ±{sampling.largest_velocity:g} rad/s.",
        f"Initial states of seed {seed}. Dashed: the ranges they are drawn from, evenly. The "
        "splits come from streams of their own and share no trajectory.",
        describe(study.label),
    )


def integrator(study: Study) -> Picture:
    """Error of the simulator against its step, and energy of a free pendulum over a long time."""
    pendulum = Pendulum()
    start = np.array([1.5, 0.5])
    torques = np.array([1.0, -1.5, 0.5, 2.0])
    step = PendulumSampling().time_step
    exact = simulate(pendulum, start, torques, time_step=step, substeps=512)
    substeps = np.array([1, 2, 4, 8, 16, 32, 64])
    errors = [
        np.abs(simulate(pendulum, start, torques, time_step=step, substeps=s) - exact).max()
        for s in substeps
    ]
    figure, axes = new_figure(2, width=8.4, height=3.1)
    sizes = step / substeps
    axes[0, 0].loglog(sizes, errors, "o-", color=BASELINE, label="measured")
    axes[0, 0].loglog(
        sizes, errors[0] * (sizes / sizes[0]) ** 4, "--", color=MUTED, label="order 4"
    )
    axes[0, 0].axvline(step / SUBSTEPS, color=IDEA, linewidth=1, label="used here")
    label(
        axes[0, 0], title="Error after four steps", x="Runge–Kutta step [s]", y="error [rad, rad/s]"
    )
    legend(axes[0, 0])
    free = Pendulum(damping=0.0)
    seconds, drifts = 60.0, []
    angles = np.array([0.2, 1.0, 1.5])
    still = np.stack([angles, np.zeros_like(angles)], axis=-1)
    paths = simulate(free, still, np.zeros((len(angles), int(seconds / step))), time_step=step)
    for number, (angle, path) in enumerate(zip(angles, paths, strict=True)):
        energy = free.energy(path)
        drifts.append(np.abs(energy / energy[0] - 1).max())
        axes[0, 1].plot(
            step * np.arange(len(energy)),
            energy / energy[0] - 1,
            color=CLUSTERS[number],
            linewidth=1,
            label=f"θ₀ = {angle:g} rad",
        )
    label(
        axes[0, 1], title="Energy of a free pendulum", x="time [s]", y="relative change of energy"
    )
    legend(axes[0, 1])
    return Picture(
        figure,
        "data_integrator",
        f"Left: the integrator's error falls from {errors[0]:.1g} to {errors[-1]:.1g} as its step "
        f"shrinks {substeps[-1]}-fold. Right: the energy of an undamped, unforced pendulum drifts "
        f"by {max(drifts):.1g} of itself at most in {seconds:g} s.",
        "Left: error of the classical Runge–Kutta method against 512 substeps. Right: without "
        "damping and torque the energy should not change.",
        describe(study.label),
    )
