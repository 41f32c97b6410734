"""What kernels of torch's compiler write that depends on numbers that are known: ones, ranges, masks of packed tokens.

A pointwise kernel all of whose tensors are whole numbers with values is run by Triton's interpreter, in one CTA.
"""

from collections.abc import Mapping
from math import prod
from types import FunctionType
from typing import Any

import torch
from triton.runtime.interpreter import InterpretedFunction

from ..storages import Storages, outside

POINTWISE = "triton_poi"
"""What names of pointwise kernels begin with."""
BLOCKS = {"XBLOCK": "xnumel", "YBLOCK": "ynumel", "ZBLOCK": "znumel"}
"""Sizes of a CTA, and what they divide."""
MOST_ELEMENTS = 1 << 20
"""Of the CTA that takes all of it."""


def computed(kernel: Any, given: Mapping[str, Any], stored: frozenset[str], storages: Storages) -> bool:
    """Run a kernel on the values that are known of its tensors, which thereby are known of those that it stores to.

    Args:
        kernel: a function of Triton that Inductor wrote; given: its arguments; stored: names that it stores to.

    Returns:
        Whether it was run: else nothing is known of what it stores.
    """
    sizes = {block: 1 << (int(given[size]) - 1).bit_length() for block, size in BLOCKS.items() if size in given}
    if not kernel.__name__.startswith(POINTWISE) or prod(sizes.values()) > MOST_ELEMENTS:
        return False
    numbers = prod(int(given[BLOCKS[block]]) for block in sizes)
    known = {
        name: storages.writable(value, numbers) if name in stored else storages.values(value)
        for name, value in given.items()
        if isinstance(value, torch.Tensor)
    }
    if any(value is None for value in known.values()):
        return False
    alone = FunctionType(kernel.fn.__code__, dict(kernel.fn.__globals__), kernel.fn.__name__)  # it adds to globals
    alone.__annotations__ = kernel.fn.__annotations__
    passed = {name: value for name, value in {**given, **known, **sizes}.items() if name in kernel.arg_names}
    try:
        with outside():
            InterpretedFunction(alone).run(**passed, grid=(1, 1, 1), warmup=False)
    except Exception:
        return False
    return True
