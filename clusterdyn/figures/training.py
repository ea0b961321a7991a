"""Figures of notebook 02: training."""

import numpy as np

from clusterdyn.arms import arm_schedule
from clusterdyn.display import MUTED
from clusterdyn.figures.style import (
    BASELINE,
    CLUSTERS,
    IDEA,
    Picture,
    label,
    legend,
    new_figure,
    spread,
    tick_values,
)
from clusterdyn.protocol import Study
from clusterdyn.provenance import describe

COLOURS = (BASELINE, IDEA)


def _arms(study: Study) -> tuple[str, str]:
    return study.config.baseline, study.config.schedule


def _provenance(study: Study) -> str:
    return describe(study.label, *(study.training_stage(arm) for arm in _arms(study)))


def learning_curves(study: Study) -> Picture:
    """Training and validation loss of every seed, at each arm's selected learning rate."""
    rates = len(study.config.learning_rates)
    figure, axes = new_figure(2, width=8.4, height=3.6, sharey=True)
    finals = []
    for axis, arm, colour in zip(axes[0], _arms(study), COLOURS, strict=True):
        population, grid = study.population(arm), study.grid(arm)
        rows = slice(grid.selected, None, rates)
        epochs = np.arange(1, len(population.train_loss) + 1)
        train = axis.semilogy(
            epochs, population.train_loss[:, rows], color=colour, alpha=0.6, linewidth=1
        )
        held_out = axis.semilogy(
            epochs, population.validation_loss[:, rows], "--", color=MUTED, linewidth=0.9
        )
        train[0].set_label("training, a line a seed")
        held_out[0].set_label("validation, a line a seed")
        finals.append(np.nanmean(population.validation_loss[-1, rows]))
        label(axis, title=f"{arm}, learning rate {grid.learning_rate:g}", x="epoch")
        legend(axis)
    axes[0, 0].set_ylabel("MSE [standardised]")
    return Picture(
        figure,
        "training_curves",
        f"Loss against epoch on a log scale, every seed a line. The mean validation loss ends "
        f"at {finals[0]:.2g} for {_arms(study)[0]} and {finals[1]:.2g} for {_arms(study)[1]}.",
        "Training loss (mean over an epoch's minibatches, while the weights move) and validation "
        f"loss (at the end of the epoch) of all {len(study.config.seeds)} seeds, at the learning "
        "rate that the reference protocol selected. The validation split selects nothing here.",
        _provenance(study),
    )


def learning_rates(study: Study) -> Picture:
    """Test MSE of every seed at every learning rate, with the selected one and the edges."""
    figure, axes = new_figure(2, width=8.4, height=3.6, sharey=True)
    edges = []
    for axis, arm, colour in zip(axes[0], _arms(study), COLOURS, strict=True):
        grid = study.grid(arm)
        offsets = 1 + spread(len(grid.scores), 0.06)
        for score, offset in zip(grid.scores, offsets, strict=True):
            finite = np.isfinite(score)
            axis.plot(
                grid.learning_rates[finite] * offset,
                score[finite],
                ".",
                color=colour,
                alpha=0.65,
                markersize=6,
            )
        axis.plot(
            grid.learning_rates,
            grid.means,
            "o-",
            color=MUTED,
            markerfacecolor="none",
            label=f"mean of the first {grid.grid_seeds} seeds",
        )
        axis.plot(
            grid.learning_rate,
            grid.means[grid.selected],
            "s",
            color=colour,
            markersize=11,
            markerfacecolor="none",
            markeredgewidth=1.8,
            label="selected, on the test score",
        )
        ends = (grid.learning_rates.min(), grid.learning_rates.max())
        for number, end in enumerate(ends):
            axis.axvline(
                end,
                color=MUTED,
                linewidth=0.9,
                dashes=(2, 3),
                label=None if number else "grid's edge",
            )
        axis.set_xscale("log"), axis.set_yscale("log")
        tick_values(axis, grid.learning_rates)
        label(axis, title=arm, x="learning rate")
        legend(axis)
        edges.append("at an edge" if grid.at_edge else "inside the grid")
    axes[0, 0].set_ylabel("test MSE [standardised]")
    base, idea = _arms(study)
    return Picture(
        figure,
        "training_learning_rates",
        f"Test error of every seed against learning rate, a panel an arm. The selected rate of "
        f"{base} lies {edges[0]}, that of {idea} {edges[1]}.",
        "Each point is one model; the line joins the means that the reference protocol compares: "
        "the baseline's over its first seeds only, the idea's over all. A best value at the edge "
        "says that the grid may be too short.",
        _provenance(study),
    )


def cluster_choices(study: Study) -> Picture:
    """Share of the cluster updates that each cluster got, while training and at test."""
    arm = study.config.schedule
    population = study.population(arm)
    clusters = arm_schedule(study.config, arm).partition.clusters
    figure, axes = new_figure(2, width=8.4, height=3.3, sharey=True)
    training = population.training_choices
    training = training / training.sum(axis=1, keepdims=True)
    epochs = np.arange(1, len(training) + 1)
    bottom = np.zeros(len(training))
    for cluster in range(clusters):
        axes[0, 0].bar(
            epochs,
            training[:, cluster],
            bottom=bottom,
            color=CLUSTERS[cluster % len(CLUSTERS)],
            width=0.85,
            label=f"cluster {cluster}",
        )
        bottom += training[:, cluster]
    label(axes[0, 0], title="While training, all models", x="epoch", y="share of updates")
    selected = slice(study.grid(arm).selected, None, len(study.config.learning_rates))
    share = population.test_ledger.share[selected]
    bottom = np.zeros(len(share))
    for cluster in range(clusters):
        axes[0, 1].bar(
            [str(seed) for seed in study.config.seeds],
            share[:, cluster],
            bottom=bottom,
            color=CLUSTERS[cluster % len(CLUSTERS)],
            width=0.85,
        )
        bottom += share[:, cluster]
    label(axes[0, 1], title="At test, selected models", x="seed")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", frameon=False, fontsize=9)
    most = int(share.mean(axis=0).argmax())
    return Picture(
        figure,
        "training_choices",
        f"Stacked bars of how often {arm} chose each of {clusters} clusters. At test cluster "
        f"{most} gets {share.mean(axis=0)[most]:.0%} of the updates.",
        f"Left: share of the cluster updates in each epoch, mean of all models and trajectories. "
        f"Right: on the test split, a bar a seed. An even schedule would give each cluster "
        f"{1 / clusters:.0%}.",
        _provenance(study),
    )
