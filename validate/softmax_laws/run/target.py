"""Finds the user's implementation: `package.module:function` or `path/to/file.py:function`. Importing runs its code."""

import importlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

MOST_NAMES = 8


def split(target: str) -> tuple[str, str]:
    """Module or file, and name. Raises: ValueError: the target is not written as one; one line."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"{target!r}: must be package.module:function or path/to/file.py:function")
    return place, name


def load(target: str) -> Any:
    """The implementation that a target names; the working directory, or the file's, is searched for its imports.

    Raises:
        ValueError: there is no such file, module or name, or importing it fails; one line.
    """
    place, name = split(target)
    module = _from_file(place) if place.endswith(".py") else _from_module(place)
    attribute: Any = module
    for part in name.split("."):
        if not hasattr(attribute, part):
            names = [name for name, value in vars(module).items() if callable(value) and _is_own(module, value)]
            there = f"it has {', '.join(names[:MOST_NAMES])}" if names else "it defines no function"
            raise ValueError(f"{target!r}: {place} has no {name}; {there}")
        attribute = getattr(attribute, part)
    return attribute


def _is_own(module: ModuleType, value: Any) -> bool:
    return getattr(value, "__module__", None) == module.__name__


def _from_file(place: str) -> ModuleType:
    path = Path(place).resolve()
    if not path.is_file():
        raise ValueError(f"{place!r}: no such file")
    _search(path.parent)
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"checked_{abs(hash(path))}"
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ValueError(f"{place!r}: importing it raised {_words(error)}") from None
    return module


def _from_module(place: str) -> ModuleType:
    _search(Path.cwd())
    try:
        return importlib.import_module(place)
    except (Exception, SystemExit) as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name and f"{place}.".startswith(f"{error.name}.")
        if missing:
            raise ValueError(f"{place!r}: no such module, from {Path.cwd()} or installed") from None
        raise ValueError(f"{place!r}: importing it raised {_words(error)}") from None


def _search(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".rstrip(": ")


def importing(target: str) -> tuple[str, str]:
    """Lines of Python that bring in a target, and the name that it then has."""
    place, name = split(target)
    if place.endswith(".py"):
        return (
            f"from tilesight.softmax_laws import load\n\n{name.split('.')[-1]} = load({target!r})",
            name.split(".")[-1],
        )
    first, *rest = name.split(".")
    return f"from {place} import {first}", ".".join([first, *rest])
