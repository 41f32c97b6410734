"""What a cubin says of a kernel beside its code: parameters, registers, shared memory, limits of its launch.

The driver reads the same, so a launch needs nothing else. Attributes are a byte of format, a byte of number, and two
bytes that are the value, or the size of what follows.

Source: `cuobjdump -elf` of nvcc 12.9, which prints these bytes with their names (`EIATTR_...`); tests hold it against.
"""

import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ...simulator.limits import WARP_THREADS, WORD_BYTES
from .cubin import BROKEN, RELOCATIONS, SYMBOL, TEXT, Section, sections_of, source_lines, target_of

INFO, SHARED, RESERVED, LITERALS = ".nv.info.", ".nv.shared.", ".nv.shared.reserved.0", ".nv.constant2."
SIZED = 4
"""Format of an attribute whose value follows its size."""
MAX_THREADS, PARAM_CBANK, THREADS, FRAME_SIZE, KPARAM_INFO = 0x05, 0x0A, 0x10, 0x11, 0x17
REGISTERS, CTAS_PER_CLUSTER = 0x2F, 0x3D
"""Attributes: `EIATTR_MAX_NTID`, `_PARAM_CBANK`, `_REQNTID`, `_FRAME_SIZE`, `_KPARAM_INFO`, `_REGCOUNT`,
`_CTA_PER_CLUSTER`."""
KPARAM_INFO_V2 = 0x45
"""`EIATTR_KPARAM_INFO_V2`, in the place of the other from CUDA 13 on."""
PARAMETER, PARAMETER_V2 = struct.Struct("<IHHI"), struct.Struct("<IHHHH")
"""Of both: an index, number, place, and size: of the former in the upper bits of a word."""
SIZE_SHIFT = 18
RESERVED_BYTES = 1024
"""Of the shared memory of a kernel, that the system keeps for itself from sm_90 on (CUDA C++ Programming Guide, Shared
Memory) [B]."""


class NoCubin(ValueError):
    """A file cannot be launched from; the text says why, in part of a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelInfo:
    """A kernel of a cubin.

    Args:
        name: of it; capability: that it is compiled for, e.g. 90; is_exact: for no other, as `sm_90a`.
        parameters: where each begins in constant bank 0, and its size [B].
        registers: of a thread; frame_bytes: its stack [B]; smem_bytes: static shared memory of a CTA [B].
        literals: words of constant bank 2, where the code has numbers and tables of jumps.
        most_threads: of a CTA, by `__launch_bounds__`; 0: it does not say.
        threads, cluster: of a CTA, and CTAs of a cluster, along x, y, z, where the code is compiled for them alone.
    """

    name: str
    capability: int
    is_exact: bool
    parameters: tuple[tuple[int, int], ...]
    registers: int
    frame_bytes: int
    smem_bytes: int
    most_threads: int = 0
    literals: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()


def read_cubin(data: bytes) -> dict[str, KernelInfo]:
    """Kernels of a cubin by name. Raises: NoCubin: it is none, holds none, or is not whole."""
    target = target_of(data)
    if target is None:
        raise NoCubin(_what_else(data))
    try:
        sections = sections_of(data)
        kernels = [name.removeprefix(INFO) for name in sections if name.startswith(INFO)]
        per_function = _per_function(sections)
        infos = {
            name: info
            for name in kernels
            if TEXT + name in sections and sections[TEXT + name].data
            if (info := _info(name, sections, per_function.get(name, {}), target))
        }
    except BROKEN:
        raise NoCubin("is not whole: compile it again") from None
    if not infos:
        raise NoCubin("holds no kernel: link it (nvcc -cubin without -rdc=true)")
    return infos


def _what_else(data: bytes) -> str:
    """What a file is that is no cubin."""
    if b".version" in data[:4096] and b".target" in data[:4096] and b"\0" not in data:
        return "is PTX: assemble it to a cubin first (ptxas -arch=sm_90a FILE.ptx -o FILE.cubin)"
    if data.startswith(b"\x50\xed\x55\xba"):
        return "is a fat binary: take a cubin out of it (cuobjdump -xelf all FILE)"
    if data.startswith(b"\x7fELF"):
        return "is not whole, or of another machine: must be a cubin (nvcc -cubin, or cuobjdump -xelf all FILE)"
    return "is no cubin: make one with nvcc -cubin or NVRTC"


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and value of each attribute that has a size."""
    at = 0
    while at < len(data):
        kind, number, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if kind == SIZED:
            yield number, data[at : at + size]
            at += size


def _per_function(sections: Mapping[str, Section]) -> dict[str, dict[int, int]]:
    """Function -> attribute -> value, of those that one section tells of all functions."""
    symbols, names = sections[".symtab"].data, sections[".strtab"].data
    values: dict[str, dict[int, int]] = {}
    for number, value in _attributes(sections[".nv.info"].data):
        if number in (REGISTERS, FRAME_SIZE):
            symbol, count = struct.unpack("<II", value)
            at = SYMBOL.unpack_from(symbols, symbol * SYMBOL.size)[0]
            values.setdefault(names[at : names.index(0, at)].decode(), {})[number] = count
    return values


def _info(
    name: str, sections: Mapping[str, Section], of_function: Mapping[int, int], target: tuple[int, bool]
) -> KernelInfo | None:
    """Of a kernel; None of a function that is none, and has no parameters in a constant bank."""
    capability, is_exact = target
    places: dict[int, tuple[int, int]] = {}
    first: int | None = None
    words: dict[int, Sequence[int]] = {}
    for number, value in _attributes(sections[INFO + name].data):
        if number == KPARAM_INFO:
            _, ordinal, offset, flags = PARAMETER.unpack(value)
            places[ordinal] = offset, flags >> SIZE_SHIFT
        elif number == KPARAM_INFO_V2:
            _, ordinal, offset, size, _ = PARAMETER_V2.unpack(value)
            places[ordinal] = offset, size
        elif number == PARAM_CBANK:
            first = struct.unpack("<II", value)[1] & 0xFFFF
        elif number in (MAX_THREADS, THREADS, CTAS_PER_CLUSTER):
            words[number] = struct.unpack("<3I", value)
    if first is None or sorted(places) != list(range(len(places))):
        return None
    shared = sections.get(SHARED + name)
    reserved = RESERVED_BYTES if RESERVED in sections else 0
    return KernelInfo(
        name=name,
        capability=capability,
        is_exact=is_exact,
        parameters=tuple((first + places[number][0], places[number][1]) for number in range(len(places))),
        registers=of_function[REGISTERS],
        frame_bytes=of_function.get(FRAME_SIZE, 0),
        smem_bytes=max(0, shared.size - reserved) if shared else 0,
        most_threads=prod(words.get(MAX_THREADS, (0,))),
        literals=literals_of(sections, name),
        threads=tuple(words.get(THREADS, ())),
        cluster=tuple(words.get(CTAS_PER_CLUSTER, ())),
    )


def literals_of(sections: Mapping[str, Section], kernel: str) -> tuple[int, ...]:
    """Words that the code of a kernel finds in bank 2; none where they are not whole before it is loaded."""
    section = sections.get(LITERALS + kernel)
    moved = [sections[name].data for how in RELOCATIONS if (name := how + LITERALS + kernel) in sections]
    if section is None or any(moved):
        return ()
    count = len(section.data) // WORD_BYTES
    return struct.unpack_from(f"<{count}I", section.data)


def answer_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """What a compiler would answer of a cubin.

    Args:
        job: cubin (in base64, compressed by zlib), name of the kernel, threads of a CTA, dynamic smem_bytes, signature
            (name and type of each argument).

    Returns:
        As `worker.answer`.
    """
    data = zlib.decompress(b64decode(job["cubin"]))
    info = read_cubin(data)[job["name"]]
    try:
        lines = source_lines(data, info.name)
    except BROKEN:
        return {"reason": "its table of source lines is not whole: compile it again"}
    parameters = [
        {"name": name, "type": kind, "address": address, "size_bytes": size}
        for (name, kind), (address, size) in zip(job["signature"], info.parameters, strict=True)
    ]
    return {
        "registers": info.registers,
        "spilled_bytes": info.frame_bytes,
        "smem_bytes": info.smem_bytes + job["smem_bytes"],
        "num_warps": -(-prod(job["threads"]) // WARP_THREADS),
        "tmem_columns": 0,
        "cubin": b64encode(data).decode(),
        "workspace_bytes": 0,
        "boxes": [],
        "code": {"parameters": parameters, "lines": lines, "literals": list(info.literals)},
    }
