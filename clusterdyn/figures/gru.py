"""The figure of notebook 11: schedules that drive the units of a GRU."""

import numpy as np
from matplotlib.axes import Axes

from clusterdyn.display import INK, MUTED
from clusterdyn.figures.limits import provenance
from clusterdyn.figures.protocol import log_scale, look_of
from clusterdyn.figures.style import Picture, label, new_figure, spread
from clusterdyn.limits.experiments import EQUAL_SWEEPS, GRU_EXPERIMENTS
from clusterdyn.limits.study import PlaceResult
from clusterdyn.limits.tables import places, sweeps_of
from clusterdyn.protocol import Study
from clusterdyn.stats import geometric_mean_ratio


def gru_schedules(study: Study) -> Picture:
    """Test MSE of every schedule on a GRU's units, seed by seed, at equal work and sweeps."""
    found = [(name, place) for name in GRU_EXPERIMENTS for place in places(study, name)]
    figure, axes = new_figure(max(1, len(found)), width=8.4, height=3.6, sharex=True)
    told = []
    for axis, (experiment, place) in zip(axes[0], found, strict=False):
        equal = "sweeps" if experiment in EQUAL_SWEEPS else "work"
        told += [f"at equal {equal}: {', '.join(_draw(axis, place))}"]
        names = [
            f"{arm.schedule}\nK = {sweeps_of(study, arm)}, {arm.node_updates:g} updates"
            for arm in place.arms
        ]
        axis.set_yticks(range(len(names)), names, fontsize=8.5)
        axis.set_ylim(len(names) - 0.5, -0.5)
        log_scale(axis, "x", digits=(1, 3))
        label(axis, title=f"{place.name}, at equal {equal}", x="test MSE, standardised units")
    return Picture(
        figure,
        "gru_schedules",
        f"Geometric means of test MSE of schedules on a GRU's units, {'; '.join(told)}.",
        "Under each schedule its sweeps K and its updates of units a time step. A dot a test seed; "
        "a diamond is the geometric mean, and the dark line through it the 95 % interval of its "
        "ratio to the full sweep's, paired by seed. The upright line is the full sweep's mean.",
        provenance(study),
    )


def _draw(axis: Axes, place: PlaceResult) -> list[str]:
    """A row an arm; returns their means in words."""
    full, told = place.arms[0], []
    level = float(np.exp(np.log(full.test_mse).mean()))
    axis.axvline(level, color=MUTED, linewidth=1)
    for row, arm in enumerate(place.arms):
        look = look_of(arm.schedule)
        moves = row + spread(len(arm.test_mse), 0.25)
        axis.plot(arm.test_mse, moves, ".", color=look.colour, alpha=0.6)
        mean = float(np.exp(np.log(arm.test_mse).mean()))
        axis.plot(mean, row, "D", color=look.colour, markeredgecolor=INK, markersize=6)
        if arm is not full:
            ratio = geometric_mean_ratio(full.test_mse, arm.test_mse)
            axis.plot([level * ratio.low, level * ratio.high], [row, row], "-", color=INK)
        told.append(f"{arm.schedule} {mean:.2g}")
    return told
