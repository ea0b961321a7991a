"""Files of trajectories for tests: a damped oscillator that is pushed, in both forms."""

from pathlib import Path

import numpy as np

NAMES = ("state:position [m]", "state:velocity [m/s]", "control:force [N]")


def oscillator(count: int, length: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """States (count, length, 2) and forces (count, length - 1, 1)."""
    rng = np.random.default_rng(seed)
    state, forces = rng.normal(size=(count, 2)), rng.normal(size=(count, length - 1, 1))
    states = [state]
    for t in range(length - 1):
        x, v = state[:, 0], state[:, 1]
        state = np.stack([x + 0.1 * v, v - 0.1 * (x + 0.2 * v) + 0.1 * forces[:, t, 0]], axis=1)
        states.append(state)
    return np.stack(states, axis=1), forces


def rows(states: np.ndarray, controls: np.ndarray) -> list[list[str]]:
    """A CSV file's rows, its header first; the last control of a trajectory is empty."""
    table = [["trajectory", "time [s]", *NAMES]]
    for number, (path, held) in enumerate(zip(states, controls, strict=True)):
        for t, state in enumerate(path):
            force = repr(float(held[t, 0])) if t < len(held) else ""
            table.append([f"run {number}", f"{0.1 * t:g}", *map(repr, state.tolist()), force])
    return table


def write_csv(path: Path, table: list[list[str]]) -> Path:
    """Writes rows; returns the path."""
    path.write_text("\n".join(",".join(row) for row in table) + "\n", encoding="utf-8")
    return path
