"""clusterdyn: do cluster-wise update schedules pay in recurrent message-passing models?"""

from importlib import import_module

__all__ = ["check_schedule", "open_study", "try_schedule"]
__version__ = "0.1.0"

_HOMES = {
    "check_schedule": "clusterdyn.contract",
    "open_study": "clusterdyn.protocol",
    "try_schedule": "clusterdyn.trial",
}


def __getattr__(name: str) -> object:
    # On demand, since importing torch takes seconds and the terminal should answer at once.
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
