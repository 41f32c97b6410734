"""Kernels of Helion, which become Triton's: they are compiled for their configuration, and recorded as Triton's are.

Source: `helion/runtime/kernel.py` of Helion 1.5.1.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ...simulator.refusal import UserError
from .catcher import Catcher


@contextmanager
def compiling() -> Iterator[None]:
    """In a block of `tilesight.capture`: leave tensors to Helion's own compiler, which has stand-ins of its own."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        yield


@contextmanager
def caught(_: Catcher) -> Iterator[None]:
    """Have kernels compiled where they are called, without a search."""
    from helion.runtime.kernel import Kernel

    def call(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        given = kernel.normalize_args(*args, **kwargs)
        if len(kernel.configs) != 1:
            raise UserError(f"{kernel.fn.__name__}: Helion would search: give it one, @helion.kernel(config=...)")
        with compiling():
            function = kernel.bind(given).compile_config(kernel.configs[0], allow_print=False)
        return function(*given)

    with patch.object(Kernel, "__call__", call):
        yield
