"""The study's settings: one frozen dataclass that refuses what does not fit."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import torch

from clusterdyn.graph import make_partition
from clusterdyn.graphs import make_graph, pinned_graph
from clusterdyn.recordings import pinned_data
from clusterdyn.schedules import SCHEDULES, make_schedule
from clusterdyn.schedules.own import is_own, own_source
from clusterdyn.settings import check_distinct, check_positive, check_seeds, check_types
from clusterdyn.training import TrainingConfig

LARGEST_NODES = 65_536  # four times as many as have been trained; far more would fill any memory


@dataclass(frozen=True)
class StudyConfig:
    """All that a result depends on. The defaults are the ``reference`` profile.

    Attributes:
        data: ``pendulum``, the study's own simulator, or the path of a file of trajectories.
        graph: over the nodes: ring, torus, random_regular, complete or edge_list, perhaps with
            options, as in ``random_regular(degree=4, seed=0)``.
        nodes: n.
        channels: d, a node.
        clusters: C.
        partition: contiguous, strided, random or coloring.
        partition_seed: of the random partition.
        bins: m, of the disagreement histogram.
        sweeps: K, a time step.
        relaxation: eta in (0, 1].
        horizon: T, in time steps, which are 0.05 s long unless the data are a file.
        train_trajectories, validation_trajectories, test_trajectories: sizes of the splits.
        batch_size: B, trajectories an optimiser step.
        epochs: passes over the training split.
        validation_curve: whether the validation split is scored after every epoch, or after the
            last alone; training is the same.
        learning_rates: of Adam; the grid of both arms.
        clip_norm: largest gradient norm of a model.
        minibatch_stream: which of a seed's minibatch orders is used; 0 but to see what the order
            alone does.
        seeds: one model a seed and learning rate.
        baseline_grid_seeds: the baseline's grid averages that many seeds from the first, or all
            if there are fewer (the published trial used 4 of 8; the idea's grid averages all).
        baseline, schedule: the two arms.
        dtype: of training, float32 or float64.
        device: as PyTorch names it.
    """

    data: str = "pendulum"
    graph: str = "ring"
    nodes: int = 16
    channels: int = 4
    clusters: int = 4
    partition: str = "contiguous"
    partition_seed: int = 0
    bins: int = 4
    sweeps: int = 3
    relaxation: float = 0.5
    horizon: int = 4
    train_trajectories: int = 400
    validation_trajectories: int = 100
    test_trajectories: int = 100
    batch_size: int = 20
    epochs: int = 12
    validation_curve: bool = True
    learning_rates: tuple[float, ...] = (0.001, 0.003, 0.01)
    clip_norm: float = 1.0
    minibatch_stream: int = 0
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7)
    baseline_grid_seeds: int = 4
    baseline: str = "full"
    schedule: str = "histogram"
    dtype: str = "float32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        check_types(self)
        self._check_ranges()
        object.__setattr__(self, "data", pinned_data(self.data))
        graph = make_graph(self.graph, self.nodes)
        object.__setattr__(self, "graph", pinned_graph(self.graph))
        partition = make_partition(self.partition, graph, self.clusters, seed=self.partition_seed)
        for arm in ("baseline", "schedule"):
            built = make_schedule(getattr(self, arm), graph, partition, bins=self.bins)
            object.__setattr__(self, arm, built.name)
        if self.baseline == self.schedule:
            raise ValueError(
                f"baseline and schedule are the two arms and must differ; both are "
                f"{self.schedule!r} (schedules: {', '.join(SCHEDULES)})"
            )

    def _check_ranges(self) -> None:
        if not 0 < self.relaxation <= 1:
            raise ValueError(f"relaxation must lie in (0, 1]; got {self.relaxation:g}")
        check_positive(
            self,
            (
                "channels", "bins", "sweeps", "horizon", "train_trajectories",
                "validation_trajectories", "test_trajectories", "batch_size", "epochs",
                "clip_norm", "baseline_grid_seeds", "learning_rates",
            ),
        )  # fmt: skip
        for name, why in (
            ("horizon", "the mechanism check also looks at a state after a time step"),
            ("clusters", "with one there is nothing to choose"),
        ):
            if getattr(self, name) < 2:
                raise ValueError(
                    f"{name} must be at least 2, since {why}; got {getattr(self, name)}"
                )
        if self.nodes > LARGEST_NODES:
            raise ValueError(f"nodes must be at most {LARGEST_NODES}; got {self.nodes}")
        if self.batch_size > self.train_trajectories:
            raise ValueError(
                f"batch_size must not exceed train_trajectories ({self.train_trajectories}); "
                f"got {self.batch_size}"
            )
        check_seeds("seeds", self.seeds)
        if not 0 <= self.partition_seed < 2**63:
            raise ValueError(
                f"partition_seed must lie between 0 and 2^63 - 1; got {self.partition_seed}"
            )
        check_distinct("learning_rates", self.learning_rates)
        if self.minibatch_stream < 0:
            raise ValueError(f"minibatch_stream must not be negative; got {self.minibatch_stream}")
        if self.dtype not in ("float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64; got {self.dtype!r}")
        _check_device(self.device)

    def dependencies(self) -> dict[str, Any]:
        """All that a result depends on: the settings, and the source of schedules of one's own."""
        return {**vars(self), **schedule_sources(self.baseline, self.schedule)}

    def training(self) -> TrainingConfig:
        """The part that training needs."""
        names = [field.name for field in dataclasses.fields(TrainingConfig)]
        return TrainingConfig(**{name: getattr(self, name) for name in names})


def schedule_sources(*schedules: str) -> dict[str, Any]:
    """The sources of those schedules that are a user's own, for keys of artifacts."""
    own = {text: own_source(text) for text in schedules if is_own(text)}
    return {"schedule_sources": own} if own else {}


def _check_device(device: str) -> None:
    try:
        kind = torch.device(device).type
    except RuntimeError:
        kind = "unknown"
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"device must be cpu or cuda (or cuda:N); got {device!r}")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {device!r}, but PyTorch finds no CUDA device here; use cpu")


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: the form that configs are hashed in."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
