"""Figures of the page on data that were recorded elsewhere."""

import numpy as np

from clusterdyn.arms import study_dataset
from clusterdyn.datasets import Trajectories
from clusterdyn.figures.style import BASELINE, IDEA, Picture, label, new_figure
from clusterdyn.protocol import Study
from clusterdyn.provenance import describe
from clusterdyn.recordings import recording_of

SHOWN = 40  # windows drawn
SPLITS = ("train", "validation", "test")


def _channels(study: Study) -> list[tuple[str, str, int]]:
    """(name, states or controls, number) of every channel."""
    recording = recording_of(study.config.data)
    names = {"states": recording.state_names, "controls": recording.control_names}
    return [(name, kind, i) for kind, group in names.items() for i, name in enumerate(group)]


def _in_units(study: Study, split: str) -> Trajectories:
    """A split of the first seed in the file's units."""
    dataset = study_dataset(study.config, study.config.seeds[0])
    moments, found = dataset.standardisation, getattr(dataset, split)
    return Trajectories(
        found.states * moments.state_std + moments.state_mean,
        found.controls * moments.control_std + moments.control_mean,
    )


def windows(study: Study) -> Picture:
    """Training windows of the first seed, a panel a channel, in the file's units."""
    channels, train = _channels(study), _in_units(study, "train")
    step = recording_of(study.config.data).time_step
    time = np.arange(study.config.horizon + 1) * (step or 1)
    columns = min(3, len(channels))
    rows = -(-len(channels) // columns)
    figure, axes = new_figure(columns, rows, width=8.4, height=2.7 * rows)
    for axis in axes.flat[len(channels) :]:
        axis.axis("off")
    for axis, (name, kind, number) in zip(axes.flat, channels, strict=False):
        values = getattr(train, kind)[:SHOWN, :, number]
        if kind == "states":
            axis.plot(time, values.T, color=BASELINE, alpha=0.45, linewidth=0.9)
        else:
            held = np.concatenate([values, values[:, -1:]], axis=1)
            axis.step(time, held.T, where="post", color=IDEA, alpha=0.45, linewidth=0.9)
        label(axis, title=name, x="time [time steps]" if step is None else "time [as in the file]")
    count = min(SHOWN, len(train.states))
    return Picture(
        figure,
        "recording_windows",
        f"{len(channels)} panels, one a channel, over {study.config.horizon} time steps: {count} "
        "windows of the recording.",
        f"{count} of the {len(train.states)} training windows of seed {study.config.seeds[0]}, in "
        "the file's units; controls are held over a time step. A model sees the first state and "
        "all controls, and predicts the rest.",
        describe(study.label),
    )


def distributions(study: Study) -> Picture:
    """How every channel is distributed in the three splits of the first seed."""
    channels = _channels(study)
    splits = {split: _in_units(study, split) for split in SPLITS}
    columns = min(3, len(channels))
    rows = -(-len(channels) // columns)
    figure, axes = new_figure(columns, rows, width=8.4, height=2.7 * rows)
    for axis in axes.flat[len(channels) :]:
        axis.axis("off")
    for axis, (name, kind, number) in zip(axes.flat, channels, strict=False):
        for row, found in enumerate(splits.values()):
            values = getattr(found, kind)[..., number].ravel()
            low, median, high = np.quantile(values, [0.025, 0.5, 0.975])
            axis.plot([values.min(), values.max()], [row, row], color=BASELINE, linewidth=0.8)
            axis.plot([low, high], [row, row], color=BASELINE, linewidth=4, solid_capstyle="butt")
            axis.plot(median, row, "o", color=IDEA, markersize=5)
        axis.set_yticks(range(len(SPLITS)), SPLITS)
        axis.set_ylim(len(SPLITS) - 0.5, -0.5)
        label(axis, title=name)
    sizes = ", ".join(f"{split} {len(found.states)}" for split, found in splits.items())
    return Picture(
        figure,
        "recording_distributions",
        f"{len(channels)} panels, one a channel: range, middle and median in each split.",
        f"Splits of seed {study.config.seeds[0]} ({sizes} windows): thin line from the smallest to "
        "the largest value, thick line the middle 95 %, dot the median. No trajectory gives "
        "windows to two splits.",
        describe(study.label),
    )
