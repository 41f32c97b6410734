"""What kernels of torch, cuBLAS and cuDNN cost: the numbers of the prices in `simulator/operations`, by architecture.

`torch_kernels/sm_90.toml` has a table for each family of operations, and a number a line as a device file has, with
what it means (`doc`), and `shapes = 1` where it was read off one shape alone. Other architectures carry numbers over
(`base`), and a device file may replace single ones in its tables `[torch_kernels.FAMILY]`. A key is `FAMILY.NUMBER`.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

from .numbers import Provenance, check_keys, check_value, number, read_entry
from .sm_numbers import BASE, SM_TABLE, architecture_of, architectures, carried_over

TORCH_TABLE = "torch_kernels"
MORE = ("doc", "shapes")
"""What a number's line may say beyond value, kind and source."""
MOST = 1e15
"""No cost, whatever its unit, is beyond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelNumber:
    """A number of the prices.

    Args:
        value: in the unit that its key ends with.
        doc: what it means.
        shapes: how many shapes it was read off; 0: several.
        origin: kind and source.
    """

    value: float
    doc: str
    shapes: int
    origin: Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchKernels:
    """The numbers of a device: those of an architecture, which are read when one is asked for, and its own.

    Args:
        architecture: name of the file, e.g. sm_90.
        replaced: key -> number that stands for the architecture's.
    """

    architecture: str
    replaced: Mapping[str, KernelNumber] = field(default_factory=dict, hash=False)

    def __getitem__(self, key: str) -> KernelNumber:
        """A number. Args: key: e.g. `softmax.row_s`. Raises: KeyError: there is none."""
        return self.replaced.get(key) or load_kernels(self.architecture)[key]

    def numbers(self) -> dict[str, KernelNumber]:
        """Every number, in the order of the file."""
        return load_kernels(self.architecture) | dict(self.replaced)

    def with_number(self, key: str, value: float, origin: Provenance) -> "TorchKernels":
        """The same with one number replaced. Raises: ValueError: no kernel can have it."""
        check_value(key, kernel_field(key), value)
        number = replace(self[key], value=value, shapes=0, origin=origin)
        return replace(self, replaced=dict(self.replaced) | {key: number})


def kernel_field(key: str) -> Field[Any]:
    """The range of a number, as of a field of `Device`, by the end of its key."""
    made: Field[Any] = number(0, 1 if key.endswith("_fraction") else MOST, "")
    return made


@cache
def load_kernels(architecture: str) -> dict[str, KernelNumber]:
    """Key -> number of an architecture. Raises: ValueError: its file is not as it should be; names file and key."""
    file = f"{TORCH_TABLE}/{architecture}.toml"
    table = tomllib.loads((resources.files(__package__) / file).read_text("utf-8"))
    base = table.pop(BASE, None)
    carried = load_kernels(base) if base else {}
    moved = {key: replace(made, origin=carried_over(made.origin, str(base))) for key, made in carried.items()}
    try:
        return moved | read_kernels(table, moved)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def read_kernels(table: object, known: Mapping[str, KernelNumber]) -> dict[str, KernelNumber]:
    """Numbers of tables, one for each family. Args: known: numbers that they replace; none: all are new.

    Raises:
        ValueError: a table, a key or a value is not as it should be; the text names it.
    """
    if not isinstance(table, Mapping) or not all(isinstance(entries, Mapping) for entries in table.values()):
        raise ValueError(f"must be tables [{TORCH_TABLE}.FAMILY] with numbers")
    made = {}
    for family, entries in table.items():
        for name, entry in entries.items():
            key = f"{family}.{name}"
            if known:
                check_keys({key: entry}, known, f"`simulator/device/{TORCH_TABLE}/sm_90.toml`")
            value, origin = read_entry(key, entry, MORE)
            check_value(key, kernel_field(key), value)
            doc = entry.get("doc", known[key].doc if known else "")
            made[key] = KernelNumber(value=value, doc=doc, shapes=entry.get("shapes", 0), origin=origin)
    return made


def kernels_of(table: Mapping[str, Any]) -> TorchKernels:
    """Costs of a device: those of the architecture that its SM is of, and what its file says itself.

    Args:
        table: the device's file, its SM known.

    Raises:
        ValueError: as `read_kernels`.
    """
    architecture = architecture_of(table["compute_capability"])
    if architecture not in architectures():
        architecture = table[SM_TABLE][BASE]
    try:
        replaced = read_kernels(table[TORCH_TABLE], load_kernels(architecture)) if TORCH_TABLE in table else {}
    except ValueError as error:
        raise ValueError(f"[{TORCH_TABLE}] {error}") from None
    return TorchKernels(architecture=architecture, replaced=replaced)
