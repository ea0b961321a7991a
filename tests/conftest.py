"""What several test modules need: small notebooks, and one that has been run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusterdyn.report.execute import ExecutedNotebook, run_notebook
from clusterdyn.report.parameters import KERNELSPEC

if TYPE_CHECKING:
    from clusterdyn.protocol import Study

HEADER = f"# ---\n# jupyter:\n#   {KERNELSPEC}\n# ---"
PARAMETERS = 'profile = "reference"\nsettings = {}\nartifacts = ""'

PROSE = r"""## What the sweeps do

One sweep does $h \leftarrow h + \eta\, a \odot (f(h, z) - h)$, and

$$D_i = \eta^2 \sum_{j < i} J_{ij} F_j + O(\eta^3) .$$

The code span `cost = $5 and $6` is no formula. See [the paper](https://arxiv.org/abs/2112.13934).

| schedule | per sweep |
|---|---|
| `full` | all $n$ nodes |

```python
model = train(config)  # fenced
```"""

SAMPLE_CELLS = (
    """
import numpy as np
from matplotlib import pyplot as plt

from clusterdyn.display import GRID, INK, MUTED, finish, show_figure, show_table, show_text

plt.rcParams.update({"text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": MUTED})
plt.rcParams.update({"xtick.color": MUTED, "ytick.color": MUTED, "grid.color": GRID})
print("trained 24 models", flush=True)
print("trained 48 models", flush=True)
""",
    """
show_table(
    [[seed, 0.0037 + seed / 1e4, f"<b>{seed}</b> & more"] for seed in range(3)],
    columns=["seed", "test MSE", "a column with a long heading that no phone can show in full"],
    caption="Test MSE of each seed & <script>alert(1)</script>.",
)
""",
    """
figure, axes = plt.subplots(figsize=(7, 4))
axes.plot([0, 1], [0.0037, 0.0061], "o-", label="one seed")
axes.set(xlabel="arm", ylabel="test MSE (standardised)")
axes.grid()
axes.legend()
show_figure(
    figure, name="pairs", alt="A line rises from left to right.", caption="One pair <of> eight.",
    provenance="profile reference, seeds 0–7",
)
""",
    """
figure, axes = plt.subplots(figsize=(4, 3))
axes.plot([0, 1], [0.0037, 0.0061], "o-", label="one seed")
axes.text(0.5, 0.005, "the same drawing, η²")
show_figure(figure, name="pairs_again", alt="Again a line.", caption="Two figures share shapes.")
""",
    """
show_text("The mean is **0.0024** with $p = 0.0078$. <img src=x onerror=alert(1)>")
""",
)


@dataclass(frozen=True)
class Sample:
    """A notebook that has been run once, and where."""

    source: Path
    workdir: Path
    executed: ExecutedNotebook


def notebook_source(
    name: str,
    cells: tuple[str, ...],
    *,
    header: str = HEADER,
    title: str = "# A small notebook",
    prose: str = "",
    parameters: str | None = PARAMETERS,
    figures: int | None = 0,
) -> str:
    """Writes down a py:percent notebook; ``figures=None`` leaves out the last cell."""
    markdown = "\n".join(f"# {line}".rstrip() for line in f"{title}\n\n{prose}".splitlines())
    parts = [header, f"# %% [markdown]\n{markdown}"]
    if parameters is not None:
        parts.append(f'# %% tags=["parameters"]\n{parameters}')
    parts += [f"# %%\n{cell.strip()}" for cell in cells]
    if figures is not None:
        last = f'from clusterdyn.display import finish\n\nfinish("{name}", figures={figures})'
        parts.append(f"# %%\n{last}")
    return "\n\n".join(parts) + "\n"


@pytest.fixture
def write_notebook(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a notebook's source: ``write_notebook(*cells, name="case", …)``."""

    def write(*cells: str, name: str = "case", **parts: object) -> Path:
        source = tmp_path / f"{name}.py"
        source.write_text(notebook_source(name, cells, **parts))
        return source

    return write


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """A notebook with prose, math, a table and two figures, run with parameters."""
    folder = tmp_path_factory.mktemp("sample {x} ü")
    source = folder / "02_sample.py"
    source.write_text(
        notebook_source("02_sample", SAMPLE_CELLS, title="# Does it *pay*?", prose=PROSE, figures=2)
    )
    # A pair that has gone stale: whatever it holds must not matter, and must not change.
    source.with_suffix(".ipynb").write_text("a stale pair")
    executed = run_notebook(
        source,
        {"profile": "quick", "settings": {"seeds": [0, 1]}, "artifacts": str(folder / "artifacts")},
        workdir=folder / "work",
        failed_dir=folder / "failed",
        progress=lambda line: None,
    )
    return Sample(source, folder / "work", executed)


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> "Study":
    """A tiny study with all its results: two arms, three seeds, three learning rates."""
    from clusterdyn.protocol import open_study  # here, since PyTorch takes seconds

    settings = {
        "nodes": 6,
        "channels": 2,
        "clusters": 3,
        "horizon": 3,
        "sweeps": 2,
        "train_trajectories": 50,
        "validation_trajectories": 6,
        "test_trajectories": 8,
        "batch_size": 10,
        "epochs": 2,
        "learning_rates": (0.003, 0.01, 0.03),
        "seeds": (0, 1, 5),
        "baseline_grid_seeds": 2,
    }
    study = open_study(
        "quick", settings, tmp_path_factory.mktemp("artifacts"), progress=lambda line: None
    )
    assert len(study.reference.comparison.differences) == 3
    return study
