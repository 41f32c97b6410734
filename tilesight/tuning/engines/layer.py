"""The layer that a tuning file is for, and the matrix products that it launches.

Written as in the files' names: `E=8, N=7168, hidden=4096, topk=2, dtype=fp8_w8a8, block_shape=[128,128]`.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ...simulator.names import unknown

FP8 = "fp8_w8a8"
PART = re.compile(r"\s*(\w+)\s*=\s*(\[[^\]]*\]|[^,=\[\]]*)\s*(?:,|$)")
"""A name and its value; one in brackets has commas of its own."""
SHAPE = re.compile(r"\[\s*(\d+)\s*,\s*(\d+)\s*\]")
WHOLE = ("E", "N", "K", "hidden", "topk")
GIVEN = (*WHOLE, "dtype", "block_shape", "device_name")
"""All that a layer can be told by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One launch: C[rows, n] = A[rows / top, k] W[expert][n, k]. Args: top: rows that share a row of A."""

    rows: int
    n: int
    k: int
    top: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer of a model, or one GPU's part of it.

    Args:
        n, k: of its weights: of a mixture of experts the inner size and the hidden size, else rows and columns.
        experts, topk: how many there are, and how many a token goes to; 0: it is a single product.
        dtype: of weights and activations, `fp8_w8a8`; empty: bfloat16.
        block: weights of n x k that share a scale; None: those of an expert do.
        device_name: what the engine calls the GPU; empty: as the catalogue's device is called.
    """

    n: int
    k: int
    experts: int = 0
    topk: int = 0
    dtype: str = ""
    block: tuple[int, int] | None = None
    device_name: str = ""

    @property
    def element_bytes(self) -> int:
        """Size of a weight [B]."""
        return 1 if self.dtype else 2

    def products(self, batch: int) -> tuple[Product, ...]:
        """The launches of a batch: up and gate together, then down, of a mixture of experts. Args: batch: tokens."""
        if not self.experts:
            return (Product(rows=batch, n=self.n, k=self.k),)
        rows = batch * self.topk
        return (
            Product(rows=rows, n=2 * self.n, k=self.k, top=self.topk),
            Product(rows=rows, n=self.k, k=self.n),
        )


def named_values(text: str) -> dict[str, str]:
    """Names and values of a text such as `E=8, N=7168`. Raises: ValueError: it is no such text; one line."""
    values: dict[str, str] = {}
    at = 0
    while at < len(text.rstrip()):
        part = PART.match(text, at)
        if not part or not part[2].strip():
            raise ValueError(f"{text!r}: must be NAME=VALUE, NAME=VALUE with {', '.join(GIVEN)}")
        if part[1] in values:
            raise ValueError(f"{text!r}: {part[1]} is given twice; give it once")
        values[part[1]] = part[2].strip()
        at = part.end()
    return values


def layer_of(given: Mapping[str, str], needed: Collection[str], experts: bool) -> Layer:
    """The layer that names and values tell of.

    Args:
        needed: names without which there is none; experts: whether it is a mixture of them.

    Raises:
        ValueError: one is missing, strange or out of its range; one line.
    """
    allowed = (*needed, *GIVEN[len(WHOLE) :])
    for name in given:
        if name not in allowed:
            raise ValueError(f"{unknown(name, allowed)}")
    if missing := [name for name in needed if name not in given]:
        raise ValueError(f"{missing[0]} is missing: it needs {', '.join(needed)}")
    sizes = {name: _whole(name, given[name]) for name in needed}
    dtype, block = given.get("dtype", "" if experts else FP8), None
    if dtype not in ("", FP8) or not (experts or dtype):
        raise ValueError(f"dtype={dtype}: must be {FP8}{', or be left out: bfloat16' if experts else ''}")
    if "block_shape" in given or not experts:
        block = _shape(given.get("block_shape", "[128,128]"))
        if not dtype:
            raise ValueError(f"block_shape={given['block_shape']}: is of dtype={FP8} alone; give that too")
    device_name = given.get("device_name", "")
    if not experts:
        return Layer(n=sizes["N"], k=sizes["K"], dtype=dtype, block=block, device_name=device_name)
    if sizes["topk"] > sizes["E"]:
        raise ValueError(f"topk={sizes['topk']}: must be at most E={sizes['E']}")
    return Layer(
        n=sizes["N"],
        k=sizes["hidden"],
        experts=sizes["E"],
        topk=sizes["topk"],
        dtype=dtype,
        block=block,
        device_name=device_name,
    )


def plain(layer: Layer) -> dict[str, Any]:
    """A layer as JSON can hold it."""
    return {name: getattr(layer, name) for name in Layer.__slots__}


def from_plain(values: Mapping[str, Any]) -> Layer:
    """The layer that `plain` made a dictionary of."""
    block = values["block"]
    return Layer(**{**values, "block": tuple(block) if block else None})


def _whole(name: str, text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 1 << 24:
        raise ValueError(f"{name}={text}: must be a whole number of 1 to {1 << 24}")
    return int(text)


def _shape(text: str) -> tuple[int, int]:
    sides = SHAPE.fullmatch(text)
    if not sides or not all(map(int, sides.groups())):
        raise ValueError(f"block_shape={text}: must be two whole numbers of 1 or more, e.g. [128,128]")
    return int(sides[1]), int(sides[2])
