"""The published trial's figures, as data of the package."""

import json
from importlib import resources
from typing import Any


def published_report() -> dict[str, Any]:
    """The published ``bench_report`` and verdicts, without its sentences."""
    text = resources.files("clusterdyn.reference").joinpath("published.json").read_text("utf-8")
    return json.loads(text)
