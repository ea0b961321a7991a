"""Where a number or a figure came from: commit, settings and artifact."""

import subprocess

from clusterdyn.artifacts import PACKAGE, Stage


def source_commit() -> str:
    """The commit that the code was run from, with a note if the code differs from it.

    Returns:
        Such as "1a2b3c4", "1a2b3c4 with uncommitted changes", or "no commit" outside a checkout.
    """
    commit = _git("rev-parse", "--short=10", "HEAD")
    if commit is None:
        return "no commit"
    changed = _git("status", "--porcelain", "--", "clusterdyn", "notebooks", "requirements.txt")
    return f"{commit} with uncommitted changes" if changed else commit


def _git(*arguments: str) -> str | None:
    try:
        run = subprocess.run(
            ["git", "-C", str(PACKAGE.parent), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip()


def describe(label: str, *stages: Stage) -> str:
    """One line under a figure.

    Args:
        label: profile and settings.
        stages: whose artifacts the figure shows.
    """
    parts = [f"Settings: {label}", f"commit {source_commit()}"]
    if stages:
        artifacts = ", ".join(f"{stage.name} {stage.key[:10]}" for stage in stages)
        parts.append(f"artifact{'s' if len(stages) > 1 else ''} {artifacts}")
    return "; ".join(parts) + "."
