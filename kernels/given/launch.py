"""`tilesight.Launch`: a kernel of a cubin with its grid and arguments, as a value; no compiler is asked.

What it becomes is what a recorded launch of Triton's becomes, with the cubin in the place of the IR, so that all that
predicts, explains and compares launches takes it.
"""

import tomllib
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import prod
from pathlib import Path
from typing import Any

from ...simulator.arguments import shown, whole
from ...simulator.emulator.storage import Storage
from ...simulator.limits import MAX_CTA_THREADS, MAX_GRID, MAX_GRID_AXES, WARP_THREADS
from ...simulator.refusal import UserError
from ..compile.call import KernelLaunch
from ..compile.kernel_info import KernelInfo, NoCubin, read_cubin
from .arguments import ELEMENTS, Argument, Number, Pointer, Struct, Tensor, argument_of
from .descriptors import Descriptor

MAX_THREADS_AXES = (1024, 1024, 64)
"""Threads of a CTA along x, y and z (CUDA C++ Programming Guide, compute capabilities)."""
MOST_CUBIN_BYTES = 1 << 30
SUFFIX = ".toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launch of a kernel in a cubin.

    Args:
        cubin: path of the file, or its bytes; kernel: name of it there, empty: it holds one.
        grid, block: CTAs of the grid, and threads of a CTA, along x, y, z, or along x alone.
        args: name -> argument, in the order of the kernel's parameters; names are free, and a tensor of the same name
            in another launch is the same memory. Numbers, or texts as of `--arg`.
        smem: dynamic shared memory of a CTA [B]; cluster: CTAs of a cluster along x, y, z.
        folder: that files are looked for in; title: what reports call it, empty: the kernel's name.
    """

    cubin: str | Path | bytes = field(repr=False)
    kernel: str = ""
    grid: int | Sequence[int] = 1
    block: int | Sequence[int] = WARP_THREADS
    args: Mapping[str, Any] = field(default_factory=dict)
    smem: int = 0
    cluster: int | Sequence[int] = 1
    folder: Path = Path()
    title: str = ""

    @property
    def file(self) -> str:
        """The cubin, for messages."""
        return "cubin" if isinstance(self.cubin, bytes) else str(self.cubin)


def calls_of(
    launches: Sequence[Launch], capability: int, numbers: Mapping[str, int] | None = None
) -> tuple[KernelLaunch, ...]:
    """Launches that follow each other, for the tracer.

    Args:
        capability: of the device, e.g. 90; numbers: of storages, by name; None: in the order in which they are named.

    Raises:
        UserError: no such kernel, or a grid, a block or an argument that it does not take; one line.
    """
    tensors: dict[str, Tensor] = {}
    return tuple(call_of(launch, capability, tensors, numbers) for launch in launches)


def call_of(
    launch: Launch, capability: int, tensors: dict[str, Tensor], numbers: Mapping[str, int] | None = None
) -> KernelLaunch:
    """One of them. Args: tensors: those of the launches before, its own are added; the rest: as of `calls_of`."""
    data = _read(launch)
    info = _kernel(launch, data)
    begin = f"{launch.file}: kernel {info.name}: "
    if not _runs_on(info, capability):
        arch = f"sm_{info.capability}{'a' if info.is_exact else ''}"
        raise UserError(f"{begin}is compiled for {arch}, the device executes sm_{capability}: compile it for that")
    try:
        grid, threads = extents_of(launch, info)
        made = _arguments(launch, info, tensors)
    except ValueError as error:
        raise UserError(f"{begin}{error}") from None
    numbers = numbers or {name: number for number, name in enumerate(tensors)}
    used = dict.fromkeys(tensor for name, argument in made.items() for tensor in _named_by(name, argument))
    storages = {name: _storage(numbers[name], name, tensors[name]) for name in used}
    return KernelLaunch(
        name=launch.title or info.name,
        file="",
        line=0,
        grid=grid,
        num_warps=-(-prod(threads) // WARP_THREADS),
        num_stages=0,
        num_ctas=1,
        job={
            "name": info.name,
            "cubin": b64encode(zlib.compress(data)).decode(),
            "capability": info.capability,
            "threads": list(threads),
            "smem_bytes": launch.smem,
            "signature": [[name, _kind(argument)] for name, argument in made.items()],
        },
        arguments={name: _value(name, argument, storages, tensors) for name, argument in made.items()},
        storages=tuple(storages.values()),
    )


def _read(launch: Launch) -> bytes:
    if isinstance(launch.cubin, bytes):
        return launch.cubin
    path = launch.folder / launch.cubin
    try:
        if path.stat().st_size > MOST_CUBIN_BYTES:
            raise UserError(f"{launch.file}: has more than {MOST_CUBIN_BYTES:,} bytes: is no cubin")
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{launch.file}: cannot be read ({error.strerror})") from None


def _kernel(launch: Launch, data: bytes) -> KernelInfo:
    try:
        kernels = read_cubin(data)
    except NoCubin as error:
        raise UserError(f"{launch.file}: {error}") from None
    if not launch.kernel and len(kernels) == 1:
        return next(iter(kernels.values()))
    if launch.kernel not in kernels:
        raise UserError(f"{launch.file}: kernel {shown(launch.kernel)}: must be one of {', '.join(sorted(kernels))}")
    return kernels[launch.kernel]


def _runs_on(info: KernelInfo, capability: int) -> bool:
    """Whether a device executes a cubin (CUDA C++ Programming Guide, Binary Compatibility)."""
    if info.is_exact:
        return info.capability == capability
    return info.capability // 10 == capability // 10 and info.capability <= capability


def _axes(name: str, value: object) -> tuple[int, int, int]:
    """Three extents. Raises: ValueError: they are none."""
    given = [value] if isinstance(value, int) else list(value) if isinstance(value, Sequence) else []
    if not 1 <= len(given) <= 3 or isinstance(value, str):
        raise ValueError(f"{name} = {shown(value)}: must be 1 to 3 numbers")
    x, y, z = (whole(name, size) for size in (*given, 1, 1)[:3])
    return x, y, z


def extents_of(launch: Launch, info: KernelInfo) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Grid and block. Raises: ValueError: the driver would not take them, or they are not modelled."""
    grid, threads, cluster = _axes("grid", launch.grid), _axes("block", launch.block), _axes("cluster", launch.cluster)
    whole("smem", launch.smem, 0)
    limits = (("grid", grid, MAX_GRID_AXES, MAX_GRID), ("block", threads, MAX_THREADS_AXES, MAX_CTA_THREADS))
    for name, extents, most, most_in_all in limits:
        if any(size > limit for size, limit in zip(extents, most, strict=True)) or prod(extents) > most_in_all:
            raise ValueError(f"{name} = {_times(extents)}: must be at most {_times(most)}, and {most_in_all:,} in all")
    if info.threads and tuple(info.threads) != threads:
        raise ValueError(f"block = {_times(threads)}: is compiled for {_times(info.threads)} alone")
    if info.most_threads and prod(threads) > info.most_threads:
        raise ValueError(f"block = {_times(threads)}: its __launch_bounds__ allow {info.most_threads} threads")
    if prod(cluster) > 1 or prod(info.cluster) > 1:
        asked = max((cluster, info.cluster), key=prod)
        bound = "without them each CTA loads what multicast shares, and the time is an upper bound"
        raise ValueError(f"cluster = {_times(asked)}: clusters of CTAs are not modelled; {bound}")
    return grid, threads


def _times(extents: Sequence[int]) -> str:
    return " x ".join(map(str, extents))


def _arguments(launch: Launch, info: KernelInfo, tensors: dict[str, Tensor]) -> dict[str, Argument]:
    """Arguments by name; tensors that they name are added to those of the launches before."""
    if len(launch.args) != len(info.parameters):
        sizes = ", ".join(str(size) for _, size in info.parameters)
        takes = f"takes {len(info.parameters)} arguments" + (f" of {sizes} bytes" if sizes else "")
        given = ", ".join(launch.args) or "none"
        raise ValueError(f"{takes}, {len(launch.args)} are given: {given}")
    made = {}
    for (name, value), (_, size) in zip(launch.args.items(), info.parameters, strict=True):
        made[name], new = argument_of(name, value, size, tensors, launch.folder)
        for label, tensor in new.items():
            if tensors.setdefault(label, tensor) != tensor:
                raise ValueError(f"argument {label}: is another tensor in an earlier launch: give it another name")
    return made


def _storage(number: int, name: str, tensor: Tensor) -> Storage:
    return Storage(
        number=number,
        size_bytes=tensor.size_bytes,
        name=name,
        whole="int" in tensor.dtype or tensor.dtype == "bool",
        values=tensor.values if "int" in tensor.dtype or tensor.dtype == "bool" else None,
        fill=tensor.fill,
        cure=f"give them: {name}=tensor:{tensor.dtype}[{','.join(map(str, tensor.shape))}]@FILE.npy",
    )


def _named_by(name: str, argument: Argument) -> list[str]:
    """Tensors that an argument leads to."""
    if isinstance(argument, Struct):
        return [tensor for member, (_, inner) in argument.members.items() for tensor in _named_by(member, inner)]
    if isinstance(argument, Number):
        return []
    return [name if isinstance(argument, Tensor) else argument.tensor]


def _kind(argument: Argument) -> str:
    """Type of an argument, as Triton writes such."""
    if isinstance(argument, Number):
        return argument.kind
    if isinstance(argument, Pointer):
        return "*uint8"
    return f"*{argument.dtype}" if isinstance(argument, Tensor) else "bytes"


def _value(
    name: str, argument: Argument, storages: Mapping[str, Storage], tensors: Mapping[str, Tensor]
) -> int | float:
    """What the kernel is passed, as a number."""
    if isinstance(argument, Number):
        return argument.value
    if isinstance(argument, Pointer):
        return storages[argument.tensor].address + argument.offset_bytes
    if isinstance(argument, Descriptor):
        size = ELEMENTS[tensors[argument.tensor].dtype]
        address = storages[argument.tensor].address
        # Needs numpy, which an environment that only compiles may lack.
        from ...simulator.emulator.tma.descriptor import image_of

        return int.from_bytes(image_of(address, argument.shape, argument.strides, argument.box, size), "little")
    if isinstance(argument, Struct):
        members = ((at, member, inner) for member, (at, inner) in argument.members.items())
        return sum(_raw(member, inner, storages, tensors) << 8 * at for at, member, inner in members)
    return storages[name].address


def _raw(name: str, argument: Argument, storages: Mapping[str, Storage], tensors: Mapping[str, Tensor]) -> int:
    """The same as it lies in memory."""
    if isinstance(argument, Number):
        return int.from_bytes(argument.raw, "little")
    return int(_value(name, argument, storages, tensors))


KEYS = tuple(field.name for field in fields(Launch) if field.name not in ("folder", "title"))


def is_launch_file(target: str) -> bool:
    """Whether a target is a file of launches."""
    return target.endswith(SUFFIX)


def read_launches(path: Path) -> tuple[Launch, ...]:
    """The launches of a file. Raises: UserError: it holds none; one line."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: is not TOML ({' '.join(str(error).split())})") from None
    tables = content.get("launch")
    if set(content) != {"launch"} or not isinstance(tables, list) or not tables:
        raise UserError(f"{path}: must hold tables [[launch]] alone, one for each launch")
    return tuple(_launch(path, number, table) for number, table in enumerate(tables, 1))


def _launch(path: Path, number: int, table: Any) -> Launch:
    begin = f"{path}: launch {number}: "
    if not isinstance(table, dict):
        raise UserError(f"{begin}must be a table")
    if unknown := [key for key in table if key not in KEYS]:
        raise UserError(f"{begin}{shown(unknown[0])}: must be one of {', '.join(KEYS)}")
    if not isinstance(table.get("cubin"), str) or not isinstance(table.get("kernel", ""), str):
        raise UserError(f"{begin}cubin: must be the path of a cubin, and kernel a name in it")
    if not isinstance(table.get("args", {}), dict):
        raise UserError(f"{begin}args: must be a table, name = argument in the order of the parameters")
    return Launch(**table, folder=path.parent)
