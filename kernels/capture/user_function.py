"""A function of a user's file: found and loaded as Python would, and what it raises in one line."""

import inspect
import sys
import traceback
from collections.abc import Collection, Mapping
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from triton.runtime.jit import KernelInterface

from ...simulator.names import unknown
from ...simulator.refusal import UserError

WITHOUT_GRID = ("Cannot call @triton.jit'd outside", "'Autotuner' object is not callable")
"""What Triton and Python say of a kernel that is called as a function."""
NONE: Mapping[str, Any] = {}
"""No arguments."""
INPUTS = "inputs"
"""Name of the function of a user's file that makes what its step is given."""


def located(file: str) -> Path:
    """The file that is meant: a path, or the name of a module that can be imported here. Raises: UserError: none is."""
    if Path(file).is_file():
        return Path(file).resolve()
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = find_spec(file)
    except ModuleNotFoundError as error:
        raise UserError(f"{file}: no module named {error.name!r}") from None
    if spec is None or not spec.origin or not Path(spec.origin).is_file():
        raise UserError(f"{file}: is no module of Python source that can be imported here")
    return Path(spec.origin).resolve()


def user_function(path: Path, name: str, arguments: Mapping[str, Any] = NONE) -> Any:
    """The function of that name, once its file has run.

    Args:
        arguments: that it will be called with.

    Raises:
        UserError: there is none, or it needs other arguments.
    """
    return _function(module_of(path), name, path.name, arguments)


def shown_arguments(arguments: Mapping[str, Any]) -> str:
    """Arguments as a call has them, e.g. `M=512, N=64`."""
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def module_of(path: Path) -> ModuleType:
    """The file as a module; in a folder with `__init__.py` as a part of that package, for imports relative to it."""
    root, name = path.parent, "" if path.stem == "__init__" else path.stem
    while (root / "__init__.py").is_file() and root.name.isidentifier():
        root, name = root.parent, f"{root.name}.{name}".rstrip(".")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    sys.argv = [str(path)]
    if "." in name:
        import_module(name.rpartition(".")[0])
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == str(path):
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path.name}: is no Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _function(module: ModuleType, name: str, file: str, arguments: Mapping[str, Any]) -> Any:
    function = getattr(module, name, None)
    if function is None:
        functions = [
            known
            for known, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__
            if arguments or hasattr(module, INPUTS) or not needs_arguments(value)
        ]
        raise UserError(f"{file}: function {unknown(name, functions, where='the file')}")
    if isinstance(function, KernelInterface):
        raise UserError(f"{file}: {name} is a kernel: name a function that launches it: def run(): {name}[grid](...)")
    if not callable(function):
        raise UserError(f"{file}: {name} is no function: name one that launches kernels")
    parameters = inspect.signature(function).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    if (strange := [given for given in arguments if given not in parameters]) and not takes_any:
        raise UserError(f"{file}: {name} takes no argument {strange[0]}: it takes {', '.join(parameters) or 'none'}")
    if needed := needs_arguments(function, arguments):
        other = "tune --shapes gives them, or name a function that takes none" if not arguments else "give these too"
        raise UserError(f"{file}: {name} needs arguments ({needed}): {other}")
    return function


def lacks_grid(error: BaseException) -> bool:
    """Whether it was raised as a kernel is called without the grid of a launch."""
    return any(words in str(error) for words in WITHOUT_GRID)


def raised_by(error: BaseException, path: Path, said: str = "") -> str:
    """What was raised, and by which line of the user's file. Args: said: the last line that it wrote on stderr."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({Path(error.filename or path).name}:{error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == path]
    text = " ".join(str(error).split())
    where = f" ({path.name}:{lines[-1]})" if lines else ""
    if isinstance(error, SystemExit):
        text = "" if error.code is None else text
        said = f": {said}" if said and said != text else ""
        return f"the code ended itself: SystemExit{f': {text}' if text else ''}{where}{said}"
    if lacks_grid(error):
        return (
            f"a kernel is called without a grid{where}: kernel[grid](...) launches it ({type(error).__name__}: {text})"
        )
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"


def needs_arguments(function: Any, given: Collection[str] = ()) -> str:
    """Names of the parameters that a call with these arguments lacks, as a text; empty where there are none."""
    parameters = inspect.signature(function).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return ", ".join(
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in variadic and parameter.name not in given
    )
