"""The machine that a time was measured on."""

import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from clusterdyn.execution import available_cores


@dataclass(frozen=True)
class Machine:
    """What a time depends on beside the code.

    Attributes:
        cpu: its model, as the system names it.
        architecture: such as x86_64.
        cores: that this process may use.
        system: such as Linux.
        python, torch, numpy: versions.
        jax: its version, or None where it is not installed.
    """

    cpu: str
    architecture: str
    cores: int
    system: str
    python: str
    torch: str
    numpy: str
    jax: str | None


def this_machine() -> Machine:
    """The machine that this process runs on."""
    return Machine(
        cpu=_cpu_model(),
        architecture=platform.machine(),
        cores=available_cores(),
        system=platform.system(),
        python=platform.python_version(),
        torch=metadata.version("torch"),
        numpy=metadata.version("numpy"),
        jax=jax_version(),
    )


def jax_version() -> str | None:
    """The version of JAX, or None where it or its compiled half is not installed."""
    try:
        metadata.version("jaxlib")
        return metadata.version("jax")
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
