"""The kernel that a report's notebooks run in: this Python, and a directory of its own.

Jupyter looks a kernel up by name in the user's and the system's data directories. Whoever has
installed a ``python3`` kernel there decides which Python runs; an unwritable home directory puts
warnings into the outputs; and an inherited ``MPLBACKEND`` decides whether figures appear. None of
that may change a report, so nothing is looked up.
"""

import sys
from pathlib import Path

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from traitlets import Unicode, default

LOG = "kernel.log"
"""Where a kernel's own words go, in its scratch directory."""


def kernel_environment(scratch: Path) -> dict[str, str]:
    """Computes the variables that a kernel gets on top of this process's environment.

    Args:
        scratch: a writable directory for everything that the tools write.
    """
    return {
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "MPLCONFIGDIR": str(scratch / "matplotlib"),
        "IPYTHONDIR": str(scratch / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(scratch / "runtime"),
        "JUPYTER_CONFIG_DIR": str(scratch / "config"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }


# matplotlib warns on standard error if listing the fonts takes it longer than five seconds, which
# a busy machine can make happen in any fresh MPLCONFIGDIR; a clean notebook has an empty one.
_QUIET_FONT_CACHE = (
    "import logging; logging.getLogger('matplotlib.font_manager').setLevel(logging.ERROR)"
)


class PinnedKernelManager(AsyncKernelManager):
    """Starts a kernel on :data:`sys.executable`, with all its files below ``scratch``."""

    scratch = Unicode(help="writable directory for the kernel's files").tag(config=True)

    @property
    def kernel_spec(self) -> KernelSpec:
        """The one kernel there is, whatever name was asked for."""
        return KernelSpec(
            argv=[
                sys.executable,
                "-Xfrozen_modules=off",  # else the debugger warns of frozen modules
                "-m",
                "ipykernel_launcher",
                "-f",
                "{connection_file}",
                "--log-level=40",  # else ipykernel warns on every start
                f"--IPKernelApp.exec_lines={_QUIET_FONT_CACHE}",
            ],
            env=kernel_environment(Path(self.scratch)),
            display_name="Python 3",
            language="python",
        )

    async def _async_launch_kernel(self, kernel_cmd: list[str], **options: object) -> None:
        # What a kernel has to say about itself, most of it while it is stopped, is not for the
        # terminal. What its cells print comes over the wire.
        with (Path(self.scratch) / LOG).open("ab") as log:
            await super()._async_launch_kernel(kernel_cmd, stdout=log, stderr=log, **options)

    @default("connection_file")
    def _connection_file_in_scratch(self) -> str:
        runtime = Path(self.scratch) / "runtime"
        runtime.mkdir(parents=True, exist_ok=True)
        return str(runtime / f"kernel-{self.kernel_id}.json")

    @default("shutdown_wait_time")
    def _short_shutdown(self) -> float:
        # A kernel that does not heed the polite request is hung: there is nothing to wait for.
        return 2.0
