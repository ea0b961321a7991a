"""Figures of notebook 08: what training costs."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from clusterdyn.bench.scaling import Axis
from clusterdyn.bench.tables import MEBIBYTE, SIZES, exponent
from clusterdyn.bench.targets import Target
from clusterdyn.display import INK, MUTED
from clusterdyn.figures.protocol import LOOKS, log_scale
from clusterdyn.figures.style import BASELINE, IDEA, Picture, label, legend, new_figure, spread
from clusterdyn.protocol import Study
from clusterdyn.provenance import describe

_COLOURS = {"kept": BASELINE, "missed": IDEA, "no target": MUTED}
_MOST_TICKS = 6


def _provenance(study: Study) -> str:
    machine = study.cost.machine
    return f"{describe(study.label, study.cost_stage())} {machine.cores} cores, {machine.cpu}."


def cost_ratios(study: Study) -> Picture:
    """Every measured ratio of times, its repeats and its target."""
    bench = study.cost.bench
    targets = [target for target in bench.targets if target.ratio is not None]
    figure, axes = new_figure(width=8.6, height=0.9 + 0.36 * len(targets))
    axis = axes[0, 0]
    for row, target in enumerate(targets):
        _draw_ratio(axis, row, target)
    for outcome, colour in _COLOURS.items():
        if any(target.outcome == outcome for target in targets):
            axis.plot([], [], "D", color=colour, markersize=5, label=f"median, {outcome}")
    axis.plot([], [], "o", color=MUTED, alpha=0.5, markersize=4, label="one repeat")
    axis.plot([], [], "|", color=INK, markersize=13, markeredgewidth=2, label="target")
    axis.axvline(1, color=MUTED, linewidth=1)
    log_scale(axis, "x", digits=(1,))
    axis.set_yticks(range(len(targets)), [target.name for target in targets], fontsize=9)
    axis.set_ylim(len(targets) - 0.4, -0.6)
    label(axis, x="ratio of times [1]")
    legend(axis, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axis.margins(x=0.08)
    kept = sum(target.kept is True for target in targets)
    bound = sum(target.bound is not None for target in targets)
    return Picture(
        figure,
        "cost_ratios",
        f"A row for each of {len(targets)} ratios of times, with its repeats, their median and its "
        f"target; {kept} of {bound} targets are kept.",
        f"Each dot is one of {bench.repeats} repeats, in which both sides were timed in turn; the "
        "line joins the smallest and the largest. A target with > is to be reached, one with < "
        "not to be exceeded.",
        _provenance(study),
    )


def _draw_ratio(axis: Axes, row: int, target: Target) -> None:
    colour = _COLOURS[target.outcome]
    axis.plot([target.low, target.high], [row, row], color=colour, linewidth=1.2, alpha=0.6)
    offsets = spread(len(target.ratios), 0.15)
    axis.plot(target.ratios, row + offsets, "o", color=colour, alpha=0.5, markersize=4)
    axis.plot(target.ratio, row, "D", color=colour, markersize=5)
    if target.bound is not None:
        axis.plot(target.bound, row, "|", color=INK, markersize=13, markeredgewidth=2)
        side = 2 if target.at_least else -2
        axis.annotate(
            ">" if target.at_least else "<",
            (target.bound, row),
            xytext=(side, 7),
            textcoords="offset points",
            ha="left" if target.at_least else "right",
            va="center",
            color=INK,
        )


def cost_scaling(study: Study) -> Picture:
    """Time of an optimiser step a model against S, n, T, B and K."""
    measured = study.cost.scaling
    figure, axes = new_figure(3, 2, width=8.6, height=5.4)
    panels = axes.ravel()
    for axis, grown in zip(panels, measured.axes, strict=False):
        _draw_axis(axis, grown)
    for axis in panels[len(measured.axes) :]:
        axis.set_axis_off()
    panels[0].plot([], [], "o", color=BASELINE, alpha=0.7, markersize=4, label="one repeat")
    panels[0].plot([], [], "--", color=INK, label="fitted power law")
    legend(panels[0], loc="best")
    for row in axes:
        row[0].set_ylabel("time a step and model [ms]")
    told = ", ".join(
        f"{SIZES[grown.size][0]} with exponent {grown.law.exponent:.2f}"
        for grown in measured.axes
        if grown.law is not None
    )
    sizes = ", ".join(f"{SIZES[name][0]} = {v}" for name, v in vars(measured.sizes).items())
    return Picture(
        figure,
        "cost_scaling",
        f"Time of an optimiser step a model against each size on logarithmic axes: {told}.",
        f"Full sweep in one process of one thread, {sizes}, d = {measured.channels}, one size "
        "varied at a time. Each dot is one repeat. Dashed: least squares on logarithms over the "
        "upper half of the values; the bracket is the exponent's 95 % t interval. An exponent of 0 "
        "for S means that a model costs the same in a population of any size.",
        _provenance(study),
    )


def _draw_axis(axis: Axes, grown: Axis) -> None:
    symbol, name = SIZES[grown.size]
    milliseconds = 1e3 * grown.per_model
    for column in milliseconds.T:
        axis.plot(grown.values, column, "o", color=BASELINE, alpha=0.5, markersize=4)
    title = symbol
    if grown.law is not None:
        fitted = grown.values[-grown.law.points :]
        axis.plot(fitted, 1e3 * grown.law.at(fitted), "--", color=INK, linewidth=1.2)
        title = f"{symbol}, exponent {exponent(grown)}"
    log_scale(axis, "x")
    log_scale(axis, "y", milliseconds.ravel())
    ticks = grown.values[:: -(-len(grown.values) // _MOST_TICKS)]
    axis.xaxis.set_major_locator(FixedLocator(ticks))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.tick_params(axis="x", labelsize=8)
    label(axis, title=title, x=f"{symbol}, {name}")


def cost_chunks(study: Study) -> Picture:
    """Memory and time of a population that is trained within a given memory."""
    measured = study.cost.scaling
    chunks = measured.chunks
    figure, axes = new_figure(2, width=8.2, height=3.4)
    memory, seconds = axes[0]
    fit = [chunk.models for chunk in chunks]
    bounds = [chunk.max_bytes / MEBIBYTE for chunk in chunks]
    peaks = [chunk.memory / MEBIBYTE for chunk in chunks]
    memory.plot(fit, bounds, "_", color=INK, markersize=16, markeredgewidth=2, label="max_bytes")
    memory.plot(fit, peaks, "o", color=BASELINE, label="peak of the process")
    log_scale(memory, "y", np.array([*bounds, *peaks]))
    legend(memory, loc="best")
    per_model = [1e3 * chunk.seconds / measured.chunk_population for chunk in chunks]
    for models, times in zip(fit, per_model, strict=True):
        places = models * np.exp(spread(len(times), 0.05))
        seconds.plot(places, times, "o", color=BASELINE, alpha=0.6, markersize=4)
        seconds.plot(models, np.median(times), "D", color=INK, markersize=5)
    seconds.set_ylim(0, 1.1 * np.max(per_model))
    for axis in (memory, seconds):
        log_scale(axis, "x")
        axis.xaxis.set_major_locator(FixedLocator(fit))
    label(memory, title="Memory", x="models in a chunk", y="memory above the start [MiB]")
    label(seconds, title="Time", x="models in a chunk", y="time a step and model [ms]")
    return Picture(
        figure,
        "cost_chunks",
        f"Left, the peak memory of training {measured.chunk_population} models in chunks of "
        f"{fit[0]} to {fit[-1]}; right, its time a step and model.",
        f"{measured.chunk_population} models of the study's sizes in one process of one thread, "
        "chunk after chunk; max_bytes is the bound that was given. The peak is that of the whole "
        "process above its start, so it holds what lies outside of the trainer's bound as well: "
        "data and the libraries' own memory. Dots: repeats; diamonds: their medians.",
        _provenance(study),
    )


def cost_wall_clock(study: Study) -> Picture:
    """Time of a time step over the full sweep's, beside the ratio of node updates."""
    found = study.cost.wall_clock
    figure, axes = new_figure(width=8.4, height=1.2 + 0.75 * len(found.points))
    axis, told = axes[0, 0], []
    others = list(enumerate(found.schedules))[1:]
    for row, point in enumerate(found.points):
        for move, (place, schedule) in zip(spread(len(others), 0.34), others, strict=True):
            look, ratios = LOOKS[schedule], point.ratios[place]
            ideal, middle = point.ideal[place], float(np.median(ratios))
            name = schedule if row == 0 else None
            axis.plot([ideal, middle], [row + move] * 2, "-", color=look.colour, alpha=0.35)
            axis.plot(
                ratios, [row + move] * len(ratios), look.marker, color=look.colour, alpha=0.75,
                markersize=5, label=name,
            )  # fmt: skip
            axis.plot(ideal, row + move, "|", color=INK, markersize=9, markeredgewidth=1.6)
            told.append(f"n = {point.nodes}, B = {point.batch_size}, {schedule} {middle:.2g}")
    axis.plot([], [], "|", color=INK, markersize=9, markeredgewidth=1.6, label="node updates")
    axis.axvline(1, color=MUTED, linewidth=1)
    log_scale(axis, "x")
    names = [f"n = {point.nodes}, B = {point.batch_size}" for point in found.points]
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    label(axis, x="time of a time step over the full sweep's, a ratio")
    legend(axis, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return Picture(
        figure,
        "cost_wall_clock",
        f"Time of a time step over the full sweep's at equal sweeps: {'; '.join(told)}.",
        f"One model on {found.device_in_words} in one thread, K = {found.sweeps} sweeps under "
        "every schedule. A mark a repeat, timed in turn with the full sweep; the bar is the ratio "
        "of node updates by the ledger, which time would follow on an ideal machine. Right of 1 a "
        "schedule takes longer than the full sweep, whatever it saves in node updates.",
        _provenance(study),
    )
