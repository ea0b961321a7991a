"""A study's result in the fields of the published trial's report."""

from dataclasses import replace
from typing import Any

import numpy as np

from clusterdyn.comparison import compare
from clusterdyn.config import StudyConfig
from clusterdyn.grids import ArmGrid, arm_grid
from clusterdyn.protocol import ReferenceResult
from clusterdyn.recordings import PENDULUM
from clusterdyn.schedules import Histogram
from clusterdyn.verdicts import comparison_verdict, practical_verdict, system_verdict


def bench_report(config: StudyConfig, result: ReferenceResult) -> dict[str, Any]:
    """The published fields, with this study's numbers.

    ``std`` is a population standard deviation over seeds; ``mde`` is the half-width of a 95 % t
    interval of the mean difference (the published name is kept, the figure is not an effect
    detectable at 80 % power). A mean over a diverged model is null.

    Args:
        config: of the study.
        result: of the reference protocol.

    Returns:
        What ``reports/bench_report.json`` holds; its schema is ``bench_report.schema.json``.
    """
    comparison, signature = result.comparison, result.signature
    sizes = signature.size[:, 0]
    ratios = sizes / signature.relaxations**2
    baseline_mean = float(np.mean(comparison.baseline))
    system = "controlled pendulum" if config.data == PENDULUM else config.data
    return {
        "bench_version": 1,
        "track": "dynamics",
        "model": "ring message passing",
        "metric_direction": "lower is better",
        "n_seeds": len(config.seeds),
        "baseline": {
            "best_cfg": _cfg(config, result.baseline.learning_rate),
            "sweep": _sweep(config, result.baseline),
            "full": _scores(comparison.baseline),
        },
        "idea": _scores(comparison.treatment),
        "comparison": {
            "delta_mean": comparison.mean_difference,
            "idea_wins": comparison.win_rate.wins,
            "n_pairs": len(comparison.differences),
            "per_seed_diffs": comparison.differences.tolist(),
            "p_value": comparison.test.pvalue,
            "mde": comparison.half_width,
            "mde_rel_pct": 100 * comparison.half_width / baseline_mean,
            "verdict": result.verdict,
            "system_worked": result.system_verdict == "works",
        },
        "mechanism_signature": {
            "track_structure": (
                f"{system}, {config.horizon}-step rollouts; recurrent message passing"
            ),
            "scheduler": _scheduler(config),
            "clusters": config.clusters,
            "histogram_bins": config.bins,
            "signature": {
                "prediction": (
                    "one sequential minus one synchronous sweep over the clusters of the trained "
                    "model is eta^2 times the predicted coefficient, plus O(eta^3)"
                ),
                "rows": [
                    {
                        "eta": float(eta),
                        "observed_linf": float(size),
                        "eta2": float(eta) ** 2,
                    }
                    for eta, size in zip(signature.relaxations, sizes, strict=True)
                ],
                "eta2_ratio_range": [float(ratios.min()), float(ratios.max())],
                "confirmed": result.confirmed,
            },
        },
        "protocol_notes": {
            "paired_seeds": list(config.seeds),
            "dataset_sizes": [config.train_trajectories, config.test_trajectories],
            "idea_grid": _sweep(config, result.idea),
            "selected_idea_cfg": _cfg(config, result.idea.learning_rate),
            "baseline_grid_union": [_cfg(config, rate) for rate in config.learning_rates],
        },
        "system_verdict": result.system_verdict,
        "practical_verdict": result.practical_verdict,
        "mechanism_ok": int(result.mechanism_ok),
    }


def without_idea(result: ReferenceResult) -> ReferenceResult:
    """The same result if the idea's arm were a copy of the baseline; the mechanism stays.

    It shows which published figures a trial would meet that tells nothing about the idea.
    """
    grid, scores = result.baseline, result.comparison.baseline
    comparison = compare(result.comparison.seeds, scores, scores)
    practical = practical_verdict(comparison)
    return replace(
        result,
        idea=arm_grid(grid.schedule, grid.learning_rates, grid.scores, result.idea.grid_seeds),
        comparison=comparison,
        verdict=comparison_verdict(comparison),
        practical_verdict=practical,
        system_verdict=system_verdict(practical, result.mechanism_ok),
    )


def _cfg(config: StudyConfig, learning_rate: float) -> dict[str, Any]:
    return {"lr": float(learning_rate), "epochs": config.epochs}


def _sweep(config: StudyConfig, grid: ArmGrid) -> list[dict[str, Any]]:
    return [
        {"cfg": _cfg(config, rate), "mean": float(mean) if np.isfinite(mean) else None}
        for rate, mean in zip(grid.learning_rates, grid.means, strict=True)
    ]


def _scores(scores: np.ndarray) -> dict[str, Any]:
    return {
        "mean": float(np.mean(scores)),
        "std": float(np.std(scores)),
        "per_seed": scores.tolist(),
        "n": len(scores),
    }


def _scheduler(config: StudyConfig) -> str:
    if config.schedule == Histogram.name:
        return "largest high-bin hidden-state disagreement histogram"
    return config.schedule
