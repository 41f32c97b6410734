"""Shapes of operations that a build of torch knows only by running them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def shaped(shapes: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Have torch know what operations give without running them: a build for GPUs would run them on one.

    Args:
        shapes: torch's name -> what makes results of the right shapes. Operations that have such a function keep it.
    """
    library = torch.library.Library("aten", "IMPL")
    for name, results in shapes.items():
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
            library.impl(name, results, "Meta")
    try:
        yield
    finally:
        library._destroy()
