"""What else a result depends on than its settings: the code, and the libraries that do the sums."""

import os
import platform
from dataclasses import dataclass

import numpy as np
import torch

from clusterdyn.artifacts import source_hash


class DifferentInstallation(RuntimeError):
    """A worker's installation would give other results; the message says which part differs."""


@dataclass(frozen=True)
class Installation:
    """What must be the same in two processes for a training to give the same bits in both.

    Attributes:
        source: hash of the package's source, as far as training depends on it.
        torch, numpy: versions.
    """

    source: str
    torch: str
    numpy: str

    @classmethod
    def here(cls) -> "Installation":
        """This process's own."""
        return cls(source_hash("clusterdyn.arms"), str(torch.__version__), np.__version__)

    def check(self, worker: "Installation") -> None:
        """Compares a worker's installation to this one; called on the worker.

        Raises:
            DifferentInstallation: if they differ.
        """
        place = f"the worker on {platform.node()} (process {os.getpid()})"
        if worker.source != self.source:
            raise DifferentInstallation(
                f"{place} runs another source of clusterdyn ({worker.source[:10]}) than this "
                f"command ({self.source[:10]}): put the same checkout there and start it anew"
            )
        for name, mine, theirs in (
            ("PyTorch", self.torch, worker.torch),
            ("NumPy", self.numpy, worker.numpy),
        ):
            if mine != theirs:
                raise DifferentInstallation(
                    f"{place} has {name} {theirs} and this command {name} {mine}, which round "
                    "differently: install the same requirements.txt there and start it anew"
                )


def instruction_set() -> str:
    """The vector instructions that PyTorch uses on this processor, such as "AVX2".

    Another set sums in another order, so the last bits of a result may differ.
    """
    return torch.backends.cpu.get_cpu_capability()
