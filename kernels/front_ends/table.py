"""The table of front ends, and their catchers, entered once what they belong to is loaded or named by the user's file.

A front end is a module of this folder with `caught(catcher)`, a context manager in which launches are caught.
"""

import sys
from contextlib import ExitStack
from importlib import import_module

from .catcher import Catcher

FRONT_ENDS = {"numba.cuda": "numba_cuda", "cuda.tile": "cutile", "helion": "helion"}
"""Module that a user's file imports -> the module here that catches what it launches."""


class FrontEnds:
    """Catches what front ends launch, until a stack is left. Args: stack: that undoes it; catcher: gets launches."""

    def __init__(self, stack: ExitStack, catcher: Catcher) -> None:
        self.catcher = catcher
        self._stack, self._caught = stack, set[str]()

    def catch(self, text: str = "") -> None:
        """Catch those that are loaded, or named in a text, e.g. of the user's file."""
        for name, module in FRONT_ENDS.items():
            if name in self._caught or not (name in sys.modules or names(text, name)):
                continue
            try:
                import_module(name)
            except ImportError:  # the user's own code is told
                continue
            self._caught.add(name)
            self._stack.enter_context(import_module(f"{__package__}.{module}").caught(self.catcher))


def names(text: str, module: str) -> bool:
    """Whether a file of Python may import a module: `from numba import cuda` has its parts apart."""
    return all(part in text for part in module.split("."))
