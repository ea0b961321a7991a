"""The simulator against closed forms, an elliptic integral and scipy's integrator."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import solve_ivp
from scipy.special import ellipk

from clusterdyn.pendulum import Pendulum, observe, simulate
from clusterdyn.strict.config import StrictConfig

UNDAMPED = Pendulum(damping=0.0)
UNUSUAL = Pendulum(gravity=1.62, length=2.5, mass=3.0, damping=0.7)


def study_draws(count: int, horizon: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Initial states (count, 2) and torques (count, horizon) over the study's ranges."""
    rng = np.random.default_rng(seed)
    states = rng.uniform(-1, 1, (count, 2)) * [math.pi / 2, 1.0]
    return states, rng.uniform(-2, 2, (count, horizon))


def scipy_solution(
    pendulum: Pendulum, initial: np.ndarray, torques: np.ndarray, time_step: float
) -> np.ndarray:
    """(T + 1, 2) of one trajectory by DOP853, restarted wherever the torque jumps."""

    def derivative(_: float, state: np.ndarray, torque: float) -> list[float]:
        angle, velocity = state
        inertia = pendulum.mass * pendulum.length**2
        gravity = -pendulum.mass * pendulum.gravity * pendulum.length * math.sin(angle)
        return [velocity, (gravity - pendulum.damping * velocity + torque) / inertia]

    states = [initial]
    for torque in torques:
        step = solve_ivp(
            derivative,
            (0.0, time_step),
            states[-1],
            method="DOP853",
            args=(torque,),
            rtol=1e-13,
            atol=1e-14,
        )
        states.append(step.y[:, -1])
    return np.stack(states)


# Known answers of the physics.


def test_energy_is_kinetic_plus_potential_above_the_lowest_point():
    pendulum = Pendulum(gravity=10.0, length=3.0, mass=2.0, damping=0.0)
    states = np.array([[0.0, 0.0], [math.pi / 2, 0.0], [math.pi, 0.0], [0.0, 2.0], [math.pi, -2.0]])
    # m g l = 60 J, and m l^2 w^2 / 2 = 36 J at 2 rad/s.
    assert_allclose(pendulum.energy(states), [0.0, 60.0, 120.0, 36.0, 156.0], rtol=1e-14, atol=0)


def test_acceleration_of_a_state_worked_out_by_hand():
    pendulum = Pendulum(gravity=10.0, length=2.0, mass=3.0, damping=6.0)  # inertia 12 kg m^2
    rate = pendulum.derivative(np.array([math.pi / 6, 4.0]), np.array(18.0))
    # -(10 / 2) sin 30 deg - (6 / 12) 4 + 18 / 12 = -2.5 - 2 + 1.5
    assert_allclose(rate, [4.0, -3.0], rtol=1e-14)


def test_undamped_unforced_pendulum_keeps_its_energy():
    initial = np.array([[1.5, 0.0], [3.0, 0.5], [0.1, 0.0], [0.0, 7.0]])  # the last one turns over
    energy = UNDAMPED.energy(simulate(UNDAMPED, initial, np.zeros((4, 2000))))  # 100 s
    drift = np.abs(energy / energy[:, :1] - 1)
    assert drift.max() < 1e-8


def test_damping_only_lowers_the_energy():
    initial, _ = study_draws(50, 0)
    pendulum = Pendulum()
    energy = pendulum.energy(simulate(pendulum, initial, np.zeros((50, 400))))
    assert (np.diff(energy, axis=1) < 0).all()


def test_energy_lost_is_the_work_of_friction():
    # dE/dt = -c w^2, integrated by Simpson's rule over fine steps.
    states = simulate(UNUSUAL, np.array([1.2, 0.4]), np.zeros(2000), time_step=0.001)
    power = UNUSUAL.damping * states[:, 1] ** 2
    work = 0.001 / 3 * (power[0] + 4 * power[1::2].sum() + 2 * power[2:-1:2].sum() + power[-1])
    energy = UNUSUAL.energy(states)
    assert work > 0.1
    assert_allclose(energy[0] - energy[-1], work, rtol=1e-10)


def test_energy_gained_is_the_work_of_a_constant_torque():
    pendulum = Pendulum(gravity=3.0, length=1.5, mass=2.0, damping=0.0)
    torque = 1.7
    states = simulate(pendulum, np.array([0.3, -0.2]), np.full(40, torque))
    gained = pendulum.energy(states) - pendulum.energy(states[0])
    assert_allclose(gained, torque * (states[:, 0] - 0.3), rtol=0, atol=1e-9)


def test_pendulum_stays_where_the_torque_balances_gravity():
    angle = 0.6
    torque = UNUSUAL.mass * UNUSUAL.gravity * UNUSUAL.length * math.sin(angle)
    states = simulate(UNUSUAL, np.array([angle, 0.0]), np.full(200, torque))
    assert_allclose(states, np.tile([angle, 0.0], (201, 1)), rtol=0, atol=1e-13)


@pytest.mark.parametrize("pendulum", [UNDAMPED, Pendulum(1.62, 2.5, 3.0, 0.0)])
def test_small_angle_period_is_two_pi_root_length_over_gravity(pendulum):
    amplitude = 1e-5  # the period is longer by amplitude^2 / 16, 6e-12 of it
    period = 2 * math.pi * math.sqrt(pendulum.length / pendulum.gravity)
    states = simulate(pendulum, np.array([amplitude, 0.0]), np.zeros(100), time_step=period / 100)
    frequency = 2 * math.pi / period
    time = np.arange(101) * period / 100
    expected = amplitude * np.stack(
        [np.cos(frequency * time), -frequency * np.sin(frequency * time)], axis=1
    )
    assert_allclose(states, expected, rtol=0, atol=1e-9 * amplitude)


@pytest.mark.parametrize("amplitude", [0.5, 1.5, 3.0])
def test_large_angle_period_is_the_elliptic_integral(amplitude):
    period = 4 * math.sqrt(1 / 9.81) * ellipk(math.sin(amplitude / 2) ** 2)
    states = simulate(UNDAMPED, np.array([amplitude, 0.0]), np.zeros(200), time_step=period / 200)
    assert_allclose(states[100], [-amplitude, 0.0], rtol=0, atol=1e-8)
    assert_allclose(states[200], [amplitude, 0.0], rtol=0, atol=1e-8)


def test_small_damped_oscillation_is_the_linear_oscillators():
    # theta = a e^(-g t) (cos w t + g / w sin w t), g = c / (2 m l^2), w^2 = g_0 / l - g^2
    amplitude = 1e-5
    decay = UNUSUAL.damping / (2 * UNUSUAL.mass * UNUSUAL.length**2)
    frequency = math.sqrt(UNUSUAL.gravity / UNUSUAL.length - decay**2)
    time = np.arange(401) * 0.05
    phase = frequency * time
    expected = (
        amplitude * np.exp(-decay * time) * (np.cos(phase) + decay / frequency * np.sin(phase))
    )
    states = simulate(UNUSUAL, np.array([amplitude, 0.0]), np.zeros(400))
    assert_allclose(states[:, 0], expected, rtol=0, atol=1e-9 * amplitude)


# The integrator.


def test_integrator_has_order_four():
    initial, torques = study_draws(8, 20, seed=1)
    pendulum = Pendulum()
    span = 0.8  # s for each held torque, so that every refinement has the same jumps
    truth = simulate(pendulum, initial, torques, time_step=span, substeps=2048)[:, -1]
    steps, errors = [], []
    for refinement in (16, 32, 64, 128):
        fine = np.repeat(torques, refinement, axis=1)
        step = span / refinement
        states = simulate(pendulum, initial, fine, time_step=step, substeps=1)
        steps.append(step)
        errors.append(np.abs(states[:, -1] - truth).max())
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert 3.9 < slope < 4.1


def test_substeps_divide_the_time_step():
    initial, torques = study_draws(5, 6)
    by_substeps = simulate(UNUSUAL, initial, torques, time_step=0.06, substeps=3)
    by_steps = simulate(UNUSUAL, initial, np.repeat(torques, 3, axis=1), time_step=0.02, substeps=1)
    assert_allclose(by_substeps, by_steps[:, ::3], rtol=0, atol=1e-14)


@pytest.mark.parametrize("pendulum", [Pendulum(), UNUSUAL])
def test_fine_simulation_agrees_with_scipy_to_1e_10(pendulum):
    initial, torques = study_draws(4, 20, seed=2)
    states = simulate(pendulum, initial, torques, substeps=40)
    for b in range(4):
        expected = scipy_solution(pendulum, initial[b], torques[b], 0.05)
        assert_allclose(states[b], expected, rtol=0, atol=1e-10)


def test_simulation_as_the_study_runs_it_agrees_with_scipy_to_1e_10():
    initial, torques = study_draws(30, 4, seed=3)
    initial[0] = [math.pi / 2, -1.0]  # corners of the range, where the error is largest
    initial[1] = [0.0, 1.0]
    states = simulate(Pendulum(), initial, torques)
    for b in range(30):
        expected = scipy_solution(Pendulum(), initial[b], torques[b], 0.05)
        assert_allclose(states[b], expected, rtol=0, atol=1e-10)


def test_the_error_stays_below_1e_11_over_the_studys_longest_horizon_and_grows_beyond():
    def error(count: int, horizon: int) -> float:
        initial, torques = study_draws(count, horizon, seed=4)
        fine = simulate(Pendulum(), initial, torques, substeps=160)  # 256 times as accurate
        return np.abs(simulate(Pendulum(), initial, torques) - fine).max()

    assert max(StrictConfig().horizons) == 16
    assert error(2000, 16) < 1e-11
    assert 1e-10 < error(200, 400) < 5e-10


def test_torque_acts_only_from_its_own_time_step_on():
    initial, torques = study_draws(3, 6)
    before = simulate(Pendulum(), initial, torques)
    for t in range(6):
        changed = torques.copy()
        changed[:, t] += 1.0
        after = simulate(Pendulum(), initial, changed)
        assert_array_equal(after[:, : t + 1], before[:, : t + 1])
        # 1 N m on 1 kg m^2 for 0.05 s gives about 0.05 rad/s.
        assert_allclose(after[:, t + 1, 1] - before[:, t + 1, 1], 0.05, rtol=0.02)


def test_first_state_is_the_initial_one_and_leading_axes_are_kept():
    rng = np.random.default_rng(5)
    initial, torques = rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 3, 4))
    states = simulate(UNUSUAL, initial, torques)
    assert states.shape == (2, 3, 5, 2)
    assert states.dtype == np.float64
    assert_array_equal(states[:, :, 0], initial)
    for i in range(2):
        for j in range(3):
            alone = simulate(UNUSUAL, initial[i, j], torques[i, j])
            assert_allclose(states[i, j], alone, rtol=0, atol=1e-13)


def test_observation_is_sine_cosine_and_angular_velocity():
    states = np.array([[0.0, 1.0], [math.pi / 2, -2.0], [math.pi / 6, 0.5]])
    expected = [[0.0, 1.0, 1.0], [1.0, 0.0, -2.0], [0.5, math.sqrt(3) / 2, 0.5]]
    assert_allclose(observe(states), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("time_step", [0.0, -0.05, math.nan])
def test_time_step_must_be_positive(time_step):
    with pytest.raises(ValueError, match=r"time_step must be a positive number of seconds; got"):
        simulate(Pendulum(), np.zeros(2), np.zeros(3), time_step=time_step)


def test_there_is_at_least_one_substep():
    with pytest.raises(ValueError, match=r"substeps must be at least 1; got 0"):
        simulate(Pendulum(), np.zeros(2), np.zeros(3), substeps=0)
