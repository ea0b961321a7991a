"""A learned policy as data: its tables, what their states mean, and its file."""

import io
import tempfile
import zipfile
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from clusterdyn.graph import Graph, Partition
from clusterdyn.qlearning.config import check_reward
from clusterdyn.qlearning.states import state_count

FORMAT = "clusterdyn policy 1"


@dataclass(frozen=True)
class Policy:
    """Tables of S models; row s was learned on the model of ``seeds[s]``.

    A table is a model's own, and has a row for each cluster, as in the source: the read-out and
    the drive tell clusters apart, and only so can a policy say where to begin, when h = 0 and all
    clusters are in the same state.

    Attributes:
        ordered: whether all clusters are updated once a sweep (``q_ordered``), or one a sweep.
        reward: "residual", the fall of the global residual norm ||f(h) - h||, or "loss", the fall
            of the next step's loss.
        graph: name of the graph.
        labels: (n,), int64: the cluster of each node.
        seeds: (S,), int64.
        edges: (S, m - 1), float64: bin edges of disagreement, fixed on the training split.
        values: Q, (S, C, X), float64; X counts the states of the largest cluster.
        visits: (S, C, X), int64: updates that each entry has had.
    """

    ordered: bool
    reward: str
    graph: str
    labels: np.ndarray
    seeds: np.ndarray
    edges: np.ndarray
    values: np.ndarray
    visits: np.ndarray

    def __post_init__(self) -> None:
        check_reward(self.reward)
        found = np.unique(self.labels)
        if self.labels.ndim != 1 or not np.array_equal(found, np.arange(len(found))):
            raise ValueError(
                f"labels of a policy number the clusters of its nodes from 0; got {found.tolist()} "
                f"in shape {self.labels.shape}"
            )
        models, clusters = self.values.shape[0], int(self.labels.max()) + 1
        states = state_count(int(np.bincount(self.labels).max()), self.bins)
        shapes = {
            "seeds": (models,),
            "edges": (models, self.bins - 1),
            "values": (models, clusters, states),
            "visits": (models, clusters, states),
        }
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(
                    f"{name} of a policy of {models} models, {clusters} clusters and {states} "
                    f"states must have shape {shape}; got {getattr(self, name).shape}"
                )
        if not (np.isfinite(self.values).all() and np.isfinite(self.edges).all()):
            raise ValueError("values and edges of a policy must be finite")
        if (np.diff(self.edges, axis=1) < 0).any():
            raise ValueError("edges of a policy must ascend in each row")

    @property
    def bins(self) -> int:
        """m."""
        return self.edges.shape[1] + 1

    @property
    def name(self) -> str:
        """The schedule that follows it."""
        return "q_ordered" if self.ordered else "q_learning"

    def rows(self, index: np.ndarray) -> "Policy":
        """The policy of some models, which may repeat.

        Args:
            index: of the rows, int64.
        """
        by_model = ("seeds", "edges", "values", "visits")
        return replace(self, **{name: getattr(self, name)[index] for name in by_model})

    def save(self, path: str | Path) -> None:
        """Writes the policy as an ``.npz`` without pickles, whole or not at all.

        Raises:
            OSError: if it cannot be written there.
        """
        path = Path(path)
        buffer = io.BytesIO()
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        np.savez(buffer, allow_pickle=False, format=FORMAT, **arrays)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            temporary = Path(file.name)
            try:
                file.write(buffer.getvalue())
                file.close()
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise


def untrained_policy(
    graph: Graph,
    partition: Partition,
    bins: int,
    seeds: np.ndarray,
    *,
    ordered: bool,
    reward: str = "residual",
) -> Policy:
    """Q = 0 everywhere: a policy that chooses uniformly at random.

    Args:
        graph: over the nodes.
        partition: of the nodes.
        bins: m.
        seeds: (S,).
        ordered, reward: as in ``Policy``.

    Raises:
        ValueError: if the clusters have too many states, or for an unknown reward.
    """
    shape = (len(seeds), partition.clusters, state_count(int(partition.sizes.max()), bins))
    return Policy(
        ordered=ordered,
        reward=reward,
        graph=graph.name,
        labels=np.array(partition.labels, dtype=np.int64),
        seeds=np.array(seeds, dtype=np.int64),
        edges=np.zeros((len(seeds), bins - 1)),
        values=np.zeros(shape),
        visits=np.zeros(shape, dtype=np.int64),
    )


def load_policy(path: str | Path) -> Policy:
    """Reads a policy that ``Policy.save`` has written; no pickle in it is ever opened.

    Raises:
        OSError: if there is no such file.
        ValueError: in a sentence, if the file is no policy, or damaged.
    """
    kinds = {"ordered": "b", "reward": "U", "graph": "U", "labels": "i", "seeds": "i"}
    kinds |= {"edges": "f", "values": "f", "visits": "i"}
    try:
        with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in (*kinds, "format")}
        if str(arrays.pop("format")) != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        for name, kind in kinds.items():
            if arrays[name].dtype.kind != kind:
                raise ValueError(f"its {name} are {arrays[name].dtype}")
        scalars = {name: arrays.pop(name).item() for name in ("ordered", "reward", "graph")}
        return Policy(**scalars, **arrays)
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is not a whole policy ({error}); save one with Policy.save"
        ) from error
