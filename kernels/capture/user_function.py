"""A function of a user's file: found and loaded as Python would, and what it raises in one line."""

import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

from ...simulator.names import unknown
from .recording import needs_arguments


class Unusable(Exception):
    """A file or function that cannot be called; the text is one line."""


def user_function(path: Path, name: str) -> Any:
    """The function of that name, once its file has run. Raises: Unusable: there is none, or it needs arguments."""
    return _function(_module(path), name, path.name)


def _module(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise Unusable(f"{path.name}: is no Python file")
    module = module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[path.stem] = module
    sys.argv = [str(path)]
    spec.loader.exec_module(module)
    return module


def _function(module: ModuleType, name: str, file: str) -> Any:
    function = getattr(module, name, None)
    if function is None:
        functions = [
            known for known, value in vars(module).items() if isfunction(value) and value.__module__ == module.__name__
        ]
        raise Unusable(f"{file}: function {unknown(name, functions, where='the file')}")
    if not callable(function):
        raise Unusable(f"{file}: {name} is no function")
    if needed := needs_arguments(function):
        raise Unusable(f"{file}: {name} needs arguments ({needed}): name a function that takes none")
    return function


def raised_by(error: BaseException, path: Path) -> str:
    """What was raised, and by which line of the user's file."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({path.name}:{error.lineno})"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    text = " ".join(str(error).split())
    where = f" ({path.name}:{lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"
