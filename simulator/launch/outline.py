"""Outlines: launches whose nest nobody writes down; it is found in the machine code of their kernel (`trace`).

Tensors of an outline lie in the address space of `emulator.storage`, each in a storage that its name gives the number
of: so what one launch writes the next finds, whoever compiles them, and however many at a time.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import prod
from types import MappingProxyType

from ..emulator.storage import Storage
from .program import Launch, Resources, Tensor, TileProgram

NUMBER_BYTES = 2
"""Of the digest of a name: few names are ever together, and a test sees that all that exist differ."""
INTEGERS = frozenset({"i32", "i8", "u8"})
"""Types of elements that addresses and branches may be computed from."""
UNKNOWN = Resources(registers_per_thread=32, smem_bytes_per_cta=0)
"""What an outline takes of an SM, until it is compiled."""


def outline(tensors: Sequence[Tensor], ctas: int) -> TileProgram:
    """A program of which only tensors and CTAs are known. Args: tensors: in the order of the kernel's parameters."""
    return TileProgram(
        tensors=tuple(tensors),
        variables=("cta",),
        items=lambda indices: indices[:, None],
        item_count=ctas,
        period_items=1,
        body=(),
    )


def outlined_launch(
    name: str,
    grid: tuple[int, int, int],
    tensors: Sequence[Tensor],
    *,
    num_warps: int,
    num_stages: int,
    dtype: str,
    constants: Mapping[str, int | bool | str],
    arguments: Mapping[str, int | float],
) -> Launch:
    """A launch whose program is an outline. Args: tensors: as of `outline`; the rest as of `Launch`."""
    return Launch(
        name=name,
        grid=grid,
        num_warps=num_warps,
        num_stages=num_stages,
        program=outline(tensors, prod(grid)),
        resources=UNKNOWN,
        dtype=dtype,
        constants=MappingProxyType(dict(constants)),
        arguments=MappingProxyType(dict(arguments)),
    )


def is_outline(launch: Launch) -> bool:
    """Whether only tensors and CTAs of a launch are known."""
    return not launch.program.body


def storage_of(tensor: Tensor) -> Storage:
    """Where a tensor of an outline lies."""
    number = int.from_bytes(sha256(tensor.name.encode()).digest()[:NUMBER_BYTES], "big")
    return Storage(
        number=number,
        size_bytes=tensor.size_bytes,
        name=tensor.name,
        whole=tensor.dtype.name in INTEGERS,
        values=tensor.values,
    )
