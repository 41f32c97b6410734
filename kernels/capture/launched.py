"""What a recorded launch, or a `warmup`, gives back: the kernel, compiled for the target once code asks for anything.

Code takes its registers and shared memory to size a persistent grid, reads its PTX, or launches it again.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from typing import Any
from unittest.mock import patch

from triton.runtime.jit import JITFunction

from .lowering import NOT_FOR_THE_COMPILER, passed
from .recorded import RecordedLaunch

COMPILE: Any = JITFunction.run


class LaunchedKernel:
    """Stands for Triton's `CompiledKernel`.

    Args:
        capture: the launch that it was compiled for; launch: records another one, as `JITFunction.run`.
    """

    def __init__(self, capture: RecordedLaunch, launch: Callable[..., Any]) -> None:
        self._capture, self._launch = capture, launch

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """A launch with other arguments; constants may be left out."""
        capture = self._capture
        constants = {
            parameter.name: capture.arguments[parameter.name]
            for parameter in capture.function.params
            if parameter.is_constexpr
        }

        def launched(*args: Any, stream: Any = None) -> Any:
            names = capture.function.arg_names
            if len(args) < len(names):
                names = [name for name in names if name not in constants]
            return self._launch(grid=grid, **{**capture.options, **constants, **dict(zip(names, args, strict=True))})

        return launched

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._compiled, name)

    @cached_property
    def _compiled(self) -> Any:
        """Triton's own, for the driver that answers for the target; `JITFunction` keeps it from no other one."""
        capture, function = self._capture, self._capture.function
        given = {**capture.options, **passed(capture)}
        named = {name: value for name, value in given.items() if name not in NOT_FOR_THE_COMPILER}
        with patch.object(function, "device_caches", defaultdict(function.create_binder)):
            compiled = COMPILE(function, grid=capture.grid, warmup=True, **named)
        compiled._init_handles()
        return compiled
