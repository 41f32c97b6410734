"""Laws of online softmax, to hold anyone's implementation to; the public names load on first use."""

from importlib import import_module
from typing import TYPE_CHECKING

_ROOMS = {
    "LAWS": "run.hunt",
    "Result": "run.hunt",
    "Violation": "call.calls",
    "check": "checking",
    "check_each": "checking",
    "find_law": "run.hunt",
    "fit": "run.fit",
    "hunt": "run.hunt",
    "load": "run.target",
    "reproduce": "checking",
}

if TYPE_CHECKING:
    from .call.calls import Violation as Violation
    from .checking import check as check
    from .checking import check_each as check_each
    from .checking import reproduce as reproduce
    from .run.fit import fit as fit
    from .run.hunt import LAWS as LAWS
    from .run.hunt import Result as Result
    from .run.hunt import find_law as find_law
    from .run.hunt import hunt as hunt
    from .run.target import load as load

__all__ = ["LAWS", "Result", "Violation", "check", "check_each", "find_law", "fit", "hunt", "load", "reproduce"]


def __getattr__(name: str) -> object:
    from .draw.arrays import FUNCTIONS

    if name not in _ROOMS and name not in FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_ROOMS.get(name, 'draw.arrays')}", __name__), name)
