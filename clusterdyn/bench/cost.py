"""The cost of training on one machine: side by side with others, and against its sizes."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from clusterdyn.bench.config import CostConfig
from clusterdyn.bench.machine import Machine
from clusterdyn.bench.scaling import Scaling, measure_scaling
from clusterdyn.bench.side_by_side import BenchResult, run_bench
from clusterdyn.bench.wall_clock import WallClock, measure_wall_clock
from clusterdyn.config import StudyConfig
from clusterdyn.recordings import PENDULUM


@dataclass(frozen=True)
class Cost:
    """All that was measured.

    Attributes:
        machine: on which.
        bench: one arm side by side with other ways to train it.
        scaling: growth of time and memory.
        wall_clock: a time step under each schedule, on the CPU.
    """

    machine: Machine
    bench: BenchResult
    scaling: Scaling
    wall_clock: WallClock


def measure_cost(
    config: StudyConfig,
    cost: CostConfig,
    machine: Machine,
    *,
    progress: Callable[[str], None] = print,
) -> Cost:
    """Measures all of it, on the cores of this machine; nothing else should run meanwhile.

    Args:
        config: of the study.
        cost: what is timed, and how often.
        machine: this one.
        progress: called with one line now and then.
    """
    config = replace(
        config, data=PENDULUM
    )  # the sizes decide, and scaling needs any number of them
    bench = run_bench(config, cost, cores=machine.cores, progress=progress)
    scaling = measure_scaling(config, cost, progress=progress)
    return Cost(machine, bench, scaling, measure_wall_clock(config, cost, progress=progress))
