"""Arguments of a kernel as people write them: tensors, numbers, bytes, TMA descriptors.

| text | what |
|---|---|
| `tensor:fp16[64,4096,128]` | a pointer to memory of that size; its data are not known |
| `tensor:int32[4096]=0`, `tensor:int32[4096]@rows.npy` | the same, of one value, or with data that decide addresses |
| `tensor:fp16[64,4096]+512` | a pointer into new memory, so many bytes from its begin |
| `pointer:x+512` | a pointer into the tensor `x`, so many bytes from its begin |
| `int32:4096`, `fp32:0.5`, `4096`, `0.5` | a number; one without a type has the size of the parameter |
| `bytes:00ff...` | a struct by value, in hexadecimal digits |
| `struct:x@0=tensor:fp32[64];n@8=int32:64` | a struct by value, members at their offsets [B], the rest 0 |
| `tma:q,box=64x64,swizzle=128` | a 128-byte descriptor of the tensor `q`; `shape=`, `strides=`: as whose it is seen |

In Python an array of numpy's is a tensor with its data.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from ...simulator.arguments import shown
from ...simulator.emulator.storage import STORAGE_SHIFT
from ...simulator.limits import POINTER_BYTES
from ...simulator.refusal import UserError
from .descriptors import DESCRIPTOR_BYTES, Descriptor, described

ELEMENTS = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "fp8": 1, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8,
}  # fmt: skip
"""Type -> size of an element [B]."""
CODES = {
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
    "uint64": "Q", "fp16": "e", "fp32": "f", "fp64": "d",
}  # fmt: skip
"""Type -> what `struct` calls it."""
OTHER_NAMES = {
    "float": "fp32", "double": "fp64", "half": "fp16", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32",
    "float64": "fp64", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32",
    "i64": "int64", "u64": "uint64",
}  # fmt: skip
TENSOR = re.compile(r"(\w+)\[([\d, ]*)\](?:=([^@]+)|@(.+)|\+(\d+))?")
POINTER = re.compile(r"(.+?)(?:\+(\d+))?")
TMA = re.compile(r"(\w+(?:\[[\d, ]*\])?)((?:,\s*\w+=\w+)*)")
MEMBER = re.compile(r"(\w+)@(\d+)=(.+)")
EXAMPLES = "tensor:fp16[64,4096], int32:4096, fp32:0.5, bytes:00ff or tma:NAME,box=64x64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """Memory that a kernel is given. Args: dtype, shape: of it; fill: bytes that repeat in it; values: its bytes."""

    dtype: str
    shape: tuple[int, ...]
    fill: bytes = b""
    values: bytes | None = None

    @property
    def size_bytes(self) -> int:
        """All of it [B]."""
        return prod(self.shape) * ELEMENTS[self.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number by value. Args: kind: its type, as Triton writes it; value: it; raw: the same in memory."""

    kind: str
    value: int | float
    raw: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """A pointer into memory that is named elsewhere. Args: tensor: its name; offset_bytes: from its begin [B]."""

    tensor: str
    offset_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """Members at places of a struct by value. Args: size_bytes: of it; members: name -> offset [B], argument."""

    size_bytes: int
    members: Mapping[str, tuple[int, "Argument"]]


Argument = Tensor | Pointer | Number | Descriptor | Struct


def argument_of(
    name: str, value: object, size_bytes: int, tensors: Mapping[str, Tensor], folder: Path
) -> tuple[Argument, dict[str, Tensor]]:
    """An argument, and the tensors that it names first.

    Args:
        name, value: as given; size_bytes: of the parameter; tensors: named so far; folder: of files with data.

    Raises:
        UserError: it is none, or does not fit the parameter; one line.
    """
    text = value.strip() if isinstance(value, str) else ""
    kind, colon, rest = text.partition(":")
    made: Argument
    new: dict[str, Tensor] = {}
    if hasattr(value, "__array_interface__"):
        made = new[name] = _of_array(name, value)
        _fits(name, "an array", size_bytes, POINTER_BYTES)
    elif kind == "pointer" and colon:
        made = _pointer(name, text, rest, tensors)
        _fits(name, text, size_bytes, POINTER_BYTES)
    elif kind == "tensor" and colon:
        new[name], offset_bytes = _tensor(name, text, rest, folder)
        made = Pointer(tensor=name, offset_bytes=offset_bytes) if offset_bytes else new[name]
        _fits(name, text, size_bytes, POINTER_BYTES)
    elif kind == "struct" and colon:
        made, new = _struct(name, text, rest, size_bytes, tensors, folder)
    elif kind == "tma" and colon:
        _fits(name, text, size_bytes, DESCRIPTOR_BYTES)
        made, named = _descriptor(name, text, rest, tensors, folder)
        new |= {name: named} if named else {}
    elif kind == "bytes" and colon:
        made = _bytes(name, text, rest)
        _fits(name, text, size_bytes, len(made.raw))
    else:
        made = _number(name, value, kind if colon else "", rest if colon else value, size_bytes)
        _fits(name, str(value), size_bytes, len(made.raw))
    return made, new


def _fits(name: str, text: str, parameter_bytes: int, size_bytes: int) -> None:
    if parameter_bytes != size_bytes:
        raise UserError(f"argument {name} = {shown(text)}: has {size_bytes} bytes, the parameter {parameter_bytes}")


def _tensor(name: str, text: str, rest: str, folder: Path) -> tuple[Tensor, int]:
    """Memory, and how far behind its begin it is pointed to [B]."""
    match = TENSOR.fullmatch(rest)
    dtype = OTHER_NAMES.get(match[1], match[1]) if match else ""
    if not match or dtype not in ELEMENTS:
        raise UserError(
            f"argument {name} = {shown(text)}: must be such as tensor:fp16[64,4096]; types are {', '.join(ELEMENTS)}"
        )
    shape = tuple(int(size) for size in match[2].split(",") if size.strip())
    tensor = Tensor(dtype=dtype, shape=shape)
    if not shape or not 0 < tensor.size_bytes < 1 << STORAGE_SHIFT:
        raise UserError(f"argument {name} = {shown(text)}: must have axes of 1 or more, and less than 1 TiB")
    if match[3]:
        number = _number(name, text, dtype, match[3], ELEMENTS[dtype])
        return Tensor(dtype=dtype, shape=shape, fill=number.raw), 0
    if match[4]:
        return Tensor(dtype=dtype, shape=shape, values=_data(name, text, folder / match[4], tensor)), 0
    offset_bytes = int(match[5] or 0)
    if offset_bytes >= tensor.size_bytes:
        raise UserError(f"argument {name} = {shown(text)}: must point within its {tensor.size_bytes:,} bytes")
    return tensor, offset_bytes


def _of_array(name: str, array: Any) -> Tensor:
    """Memory with the data of an array of numpy's."""
    written = str(array.dtype)
    dtype = OTHER_NAMES.get(written, written)
    if dtype not in ELEMENTS or not array.size:
        raise UserError(f"argument {name}: an array of {written}: types are {', '.join(ELEMENTS)}, sizes 1 and more")
    return Tensor(dtype=dtype, shape=tuple(array.shape) or (1,), values=array.tobytes())


def _pointer(name: str, text: str, rest: str, tensors: Mapping[str, Tensor]) -> Pointer:
    match = POINTER.fullmatch(rest)
    tensor, offset_bytes = (match[1], int(match[2] or 0)) if match else ("", 0)
    if tensor not in tensors or offset_bytes >= tensors[tensor].size_bytes:
        known = ", ".join(tensors) or "none so far"
        raise UserError(f"argument {name} = {shown(text)}: must be within a tensor such as pointer:x+512, of {known}")
    return Pointer(tensor=tensor, offset_bytes=offset_bytes)


def _data(name: str, text: str, path: Path, tensor: Tensor) -> bytes:
    """The data of a file of numpy's."""
    import numpy as np

    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"argument {name} = {shown(text)}: cannot be read ({' '.join(str(error).split())})") from None
    if not isinstance(array, np.ndarray) or array.nbytes != tensor.size_bytes:
        raise UserError(
            f"argument {name} = {shown(text)}: the file has {getattr(array, 'nbytes', 0):,} bytes, the tensor"
            f" {tensor.size_bytes:,}"
        )
    return bytes(np.ascontiguousarray(array).tobytes())


def _struct(
    name: str, text: str, rest: str, size_bytes: int, tensors: Mapping[str, Tensor], folder: Path
) -> tuple[Struct, dict[str, Tensor]]:
    """A struct by value, and the tensors that its members name first."""
    members: dict[str, tuple[int, Argument]] = {}
    new: dict[str, Tensor] = {}
    for part in rest.split(";"):
        match = MEMBER.fullmatch(part.strip())
        if match is None or match[1] in members:
            raise UserError(f"argument {name} = {shown(text)}: {shown(part)}: must be such as x@0=int32:64, once")
        member, at, value = match[1], int(match[2]), match[3]
        kind = value.partition(":")[0]
        sizes = {"tensor": POINTER_BYTES, "pointer": POINTER_BYTES, "tma": DESCRIPTOR_BYTES}
        size = (len(value) - 6) // 2 if kind == "bytes" else sizes.get(kind)
        size = size or ELEMENTS.get(OTHER_NAMES.get(kind, kind), 0)
        if not size or at + size > size_bytes:
            has = f"a struct of {size_bytes} bytes ends before it" if size else f"a member has a type: {EXAMPLES}"
            raise UserError(f"argument {name} = {shown(text)}: {shown(part)}: {has}")
        made, named = argument_of(member, value, size, {**tensors, **new}, folder)
        members[member], new = (at, made), new | named
    return Struct(size_bytes=size_bytes, members=members), new


def _bytes(name: str, text: str, rest: str) -> Number:
    try:
        raw = bytes.fromhex(rest)
    except ValueError:
        raise UserError(f"argument {name} = {shown(text)}: must be pairs of hexadecimal digits") from None
    return Number(kind="bytes", value=int.from_bytes(raw, "little"), raw=raw)


def _number(name: str, value: object, kind: str, written: object, size_bytes: int) -> Number:
    """A number. Args: kind: its type as written, or empty; written: the number alone; size_bytes: of its place."""
    dtype = OTHER_NAMES.get(kind, kind)
    try:
        if isinstance(written, bool):
            number: int | float = int(written)
        else:
            number = written if isinstance(written, int | float) else _parsed(str(written))
    except ValueError:
        raise UserError(f"argument {name} = {shown(value)}: must be such as {EXAMPLES}") from None
    if not dtype:
        dtype = _usual(number, size_bytes)
    if dtype not in CODES and dtype != "bf16":
        raise UserError(f"argument {name} = {shown(value)}: must be such as {EXAMPLES}")
    if not dtype.startswith(("fp", "bf")) and isinstance(number, float) and not number.is_integer():
        raise UserError(f"argument {name} = {shown(value)}: must be a whole number")
    try:
        raw = _raw(dtype, number)
    except (struct.error, OverflowError):
        raise UserError(f"argument {name} = {shown(value)}: is beyond the values of {dtype}") from None
    if dtype in ("fp32", "fp64"):
        return Number(kind=dtype, value=number, raw=raw)
    return Number(kind=f"uint{8 * len(raw)}", value=int.from_bytes(raw, "little"), raw=raw)


def _parsed(text: str) -> int | float:
    try:
        return int(text, 0)
    except ValueError:
        return float(text)


def _usual(number: float, size_bytes: int) -> str:
    """Type of a number that says none, by the size of the parameter; empty where there is no such type."""
    kinds = {4: "fp32", 8: "fp64"} if isinstance(number, float) else {1: "int8", 2: "int16", 4: "int32", 8: "int64"}
    kind = kinds.get(size_bytes, "")
    return f"u{kind}" if kind.startswith("int") and number >= 1 << 8 * size_bytes - 1 else kind


def _raw(dtype: str, number: float) -> bytes:
    """A number as it lies in memory. Raises: struct.error, OverflowError: it is too large for its type."""
    if dtype == "bf16":  # the upper half of an fp32
        return struct.pack("<f", number)[2:]
    return struct.pack(f"<{CODES[dtype]}", number if dtype.startswith("fp") else int(number))


def _descriptor(
    name: str, text: str, rest: str, tensors: Mapping[str, Tensor], folder: Path
) -> tuple[Descriptor, Tensor | None]:
    match = TMA.fullmatch(rest)
    if match is None:
        raise UserError(f"argument {name} = {shown(text)}: must be such as tma:NAME,box=64x64,swizzle=128")
    first, settings = match[1], match[2].split(",")[1:]
    said = dict(setting.strip().partition("=")[::2] for setting in settings)
    new = _tensor(name, text, first, folder)[0] if "[" in first else None
    tensor = new or tensors.get(first)
    if tensor is None:
        known = f"one of {', '.join(tensors)}" if tensors else "an argument tensor:..."
        raise UserError(
            f"argument {name} = {shown(text)}: {shown(first)}: must be {known}, or a type such as fp16[64,128]"
        )
    try:
        return described(name if new else first, tensor.shape, ELEMENTS[tensor.dtype], said), new
    except ValueError as error:
        raise UserError(f"argument {name} = {shown(text)}: {error}") from None
