"""Public Triton kernels as cases: which there are, how one is recorded without a GPU, and how one is run with one.

A case is a public function of a library and the tensors that it is called with. Its launches are what is measured:
those of different kernels or grids, each the first of its kind. Of an autotuned kernel one configuration is taken by a
rule that looks at nothing measured, so that predicted and measured code are the same.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any
from unittest.mock import patch

from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

Body = Callable[[], object]
Make = Callable[[str], Body]
MOST_LAUNCHES = 12
"""Launches of a case that are measured, at most."""
FOLDERS = {5: "tokenspeed_deepspeed", 6: "miniworld_trinix", 7: "colortransfer_vllm_omni"}
"""Folders of cases, by round. Two libraries with many cases name each; rounds 1 to 4 had theirs until 2c9d9281."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A public function at given sizes.

    Args:
        name: library and function; kind: of kernel, for the tables; round: of its folder.
        make: from a device to a function of no arguments that launches; tensors lie on that device.
    """

    name: str
    kind: str
    make: Make
    round: int


os.environ |= {
    "FLA_CACHE_MODE": "disabled",
    "UNSLOTH_IS_PRESENT": "1",
    "UNSLOTH_ALLOW_CPU": "1",
    "TORCHDYNAMO_DISABLE": "1",
}

CASES: dict[str, Case] = {}


def round_of(make: Make) -> int:
    """The round of a case: by the folder that its module lies in."""
    folder = make.__module__.partition(".")[0]
    return next(number for number, name in FOLDERS.items() if name == folder)


def case(name: str, kind: str) -> Callable[[Make], Make]:
    """Enter a function as a case of the round whose folder its module lies in."""

    def enter(make: Make) -> Make:
        if name in CASES:
            raise ValueError(f"case {name!r}: there is one of this name")
        CASES[name] = Case(name=name, kind=kind, make=make, round=round_of(make))
        return make

    return enter


def library(path: str, *bare: str) -> Any:
    """Import a module of a library. Args: bare: packages above it whose `__init__`, which needs more, is left out."""
    root = path.split(".")[0]
    for name in bare or (root,):
        if isinstance(sys.modules.get(name), _Absent | None):
            folder = folder_of(name)
            package = ModuleType(name)
            package.__spec__ = ModuleSpec(name, None, is_package=True)
            package.__path__ = [folder]
            package.__file__ = f"{folder}/__init__.py"
            package.__version__ = "0"  # type: ignore[attr-defined]
            sys.modules[name] = package
    if isinstance(sys.modules.get(path), _Absent):  # to a module before it was; to a case it is not
        del sys.modules[path]
    return importlib.import_module(path)


class _Absent(ModuleType):
    """A module that a library imports and no case needs: all that is asked of it is a function that says no."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: False


def absent(*names: str, **given: Any) -> None:
    """Have modules imported as if they held nothing. Args: given: what they hold after all."""
    for name in names:
        if name not in sys.modules:
            module = _Absent(name)
            module.__path__ = []
            module.__version__ = "0.49.0"
            module.__spec__ = ModuleSpec(name, None, is_package=True)
            vars(module).update(given)
            sys.modules[name] = module
            above, _, last = name.rpartition(".")
            if above in sys.modules:
                setattr(sys.modules[above], last, module)


def folder_of(name: str) -> str:
    """Where a package lies. Raises: ModuleNotFoundError."""
    parts = name.split(".")
    for place in sys.path:
        folder = "/".join([place or ".", *parts])
        try:
            os.listdir(folder)
        except OSError:
            continue
        return folder
    raise ModuleNotFoundError(f"no folder of package {name} on the path")


def _pick(configs: list[Any]) -> Any:
    """Of an autotuner's configurations the first with 4 warps, else the first: known without a measurement."""
    return next((config for config in configs if config.num_warps == 4), configs[0])


def _tuned(tuner: Any, *args: Any, **kwargs: Any) -> Any:
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    configs = tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs
    chosen = _pick(list(configs))
    tuner.best_config = chosen
    options = chosen.all_kwargs()
    if chosen.pre_hook is not None:
        chosen.pre_hook({**tuner.nargs, **kwargs, **options})
    try:
        return tuner.fn.run(*args, **{**kwargs, **options})
    finally:
        tuner.nargs = None


@contextmanager
def pinned() -> Iterator[None]:
    """In the block autotuners measure nothing, and take the configuration of the rule."""
    with patch.object(Autotuner, "run", _tuned):
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A launch that ran: what it takes to run it again.

    Args:
        name: of the kernel; grid: CTAs along x, y, z; kernel: as compiled.
    """

    name: str
    grid: tuple[int, ...]
    kernel: Any
    again: Body


@contextmanager
def ran() -> Iterator[list[Launched]]:
    """Run what is launched in the block on the GPU, and note it. Yields: the list that launches are added to."""
    launches: list[Launched] = []
    before = JITFunction.run

    def run(function: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        kernel = before(function, *args, grid=grid, warmup=warmup, **kwargs)
        if warmup or kernel is None:
            return kernel
        sizes = grid
        if callable(grid):
            known = {name: value for name, value in kwargs.items() if name in function.arg_names}
            bound = function.signature.bind(*args, **known)
            bound.apply_defaults()
            sizes = grid({**bound.arguments, **kwargs})
        shape = tuple(int(size) for size in (sizes if isinstance(sizes, list | tuple) else (sizes,)))
        again = lambda: before(function, *args, grid=shape, warmup=False, **kwargs)  # noqa: E731
        launches.append(Launched(name=function.__name__, grid=(*shape, 1, 1)[:3], kernel=kernel, again=again))
        return kernel

    with pinned(), patch.object(JITFunction, "run", run):
        yield launches


def kept(launches: list[Any]) -> dict[str, Any]:
    """The launches of a case that count, by number and kernel: the first of each kernel and grid."""
    seen: set[tuple[str, tuple[int, ...]]] = set()
    found: dict[str, Any] = {}
    for number, launch in enumerate(launches):
        key = (launch.name, tuple(launch.grid))
        if key not in seen and len(found) < MOST_LAUNCHES:
            seen.add(key)
            found[f"{number}:{launch.name}"] = launch
    return found
