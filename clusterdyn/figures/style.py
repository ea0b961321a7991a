"""One look for every figure."""

from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from clusterdyn.display import GRID, INK, MUTED, show_figure

# Okabe and Ito's colours, distinct with every kind of colour vision.
BASELINE = "#0072B2"
IDEA = "#D55E00"
CLUSTERS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6BB1", "#999933")

_STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
}


@dataclass(frozen=True)
class Picture:
    """A figure with what a page needs beside it.

    Attributes:
        figure: the drawing.
        name: names its file.
        alt: what the picture shows.
        caption: what to see in it, and what its intervals mean.
        provenance: settings, commit and artifacts.
    """

    figure: Figure
    name: str
    alt: str
    caption: str
    provenance: str

    def show(self) -> None:
        """Shows it in a notebook."""
        show_figure(
            self.figure,
            name=self.name,
            alt=self.alt,
            caption=self.caption,
            provenance=self.provenance,
        )


def new_figure(
    columns: int = 1, rows: int = 1, *, width: float = 7.6, height: float = 3.4, **keywords
) -> tuple[Figure, np.ndarray]:
    """A figure in the common look and its axes, (rows, columns).

    Args:
        columns, rows: panels.
        width, height: in inches.
        keywords: of ``Figure.subplots``, such as ``sharey``.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **keywords)
    return figure, axes


def label(axis: Axes, *, title: str = "", x: str = "", y: str = "") -> None:
    """Titles a panel and its axes."""
    axis.set_title(title, fontsize=10.5, loc="left", color=INK)
    axis.set_xlabel(x)
    axis.set_ylabel(y)


def tick_values(axis: Axes, values: np.ndarray) -> None:
    """Ticks of a logarithmic x axis at these values and nowhere else."""
    axis.set_xticks(values, [f"{value:.2g}" for value in values])
    axis.minorticks_off()


def legend(axis: Axes, **keywords) -> None:
    """A legend in the common look."""
    axis.legend(frameon=False, labelcolor=INK, fontsize=9, **keywords)


def spread(count: int, width: float = 0.16) -> np.ndarray:
    """Fixed sideways offsets that keep points of one column apart."""
    return np.linspace(-width, width, count) if count > 1 else np.zeros(1)
