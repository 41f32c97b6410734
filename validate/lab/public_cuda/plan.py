"""Turn launch files into a plan that needs nothing of Tilesight to be run: `python plan.py FOLDER > FOLDER/plan.json`.

Of each launch the buffer of its parameters, where pointers and descriptors go into it, and the tensors. Launches in
clusters are left out.
"""

import json
import sys
from pathlib import Path
from typing import Any

from launches import listed
from tilesight.kernels.compile.kernel_info import read_cubin
from tilesight.kernels.given.arguments import Argument, Number, Pointer, Struct, Tensor, argument_of
from tilesight.kernels.given.descriptors import Descriptor
from tilesight.kernels.given.launch import read_launches

FIRST = 0x210
"""Where parameters begin in constant bank 0 of sm_90."""


def _placed(name: str, argument: Argument, at: int, buffer: bytearray, fixups: list[list[Any]]) -> None:
    """Put an argument into the buffer, or say what goes there."""
    if isinstance(argument, Struct):
        for member, (offset, inner) in argument.members.items():
            _placed(member, inner, at + offset, buffer, fixups)
    elif isinstance(argument, Number):
        buffer[at : at + len(argument.raw)] = argument.raw
    elif isinstance(argument, Pointer):
        fixups.append([at, "pointer", argument.tensor, argument.offset_bytes])
    elif isinstance(argument, Descriptor):
        fixups.append([at, "tma", argument.tensor, argument.shape, argument.strides, argument.box, argument.swizzle])
    else:
        fixups.append([at, "pointer", name, 0])


def planned(path: Path, data: dict[str, str]) -> dict[str, Any]:
    """The plan of a launch. Args: data: tensor -> what says its values."""
    (launch,) = read_launches(path)
    block = [launch.block] if isinstance(launch.block, int) else list(launch.block)
    grid = [launch.grid] if isinstance(launch.grid, int) else list(launch.grid)
    info = read_cubin((launch.folder / str(launch.cubin)).read_bytes())[launch.kernel]
    buffer = bytearray(max(at + size for at, size in info.parameters) - FIRST)
    fixups: list[list[Any]] = []
    tensors: dict[str, Tensor] = {}
    for (name, value), (at, size) in zip(launch.args.items(), info.parameters, strict=True):
        argument, new = argument_of(name, value, size, tensors, launch.folder)
        _placed(name, argument, at - FIRST, buffer, fixups)
        tensors |= new
    made = {
        name: {
            "dtype": tensor.dtype,
            "bytes": tensor.size_bytes,
            "fill": tensor.fill.hex(),
            "values": data.get(name, ""),
        }
        for name, tensor in tensors.items()
    }
    return {
        "name": path.stem, "cubin": launch.cubin, "kernel": launch.kernel, "grid": [*grid, 1, 1][:3],
        "block": [*block, 1, 1][:3],
        "smem": launch.smem, "buffer": buffer.hex(), "fixups": fixups, "tensors": made,
    }  # fmt: skip


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    alone = [launch for launch in listed() if launch["cluster"] == [1, 1, 1]]
    print(json.dumps([planned(folder / f"{launch['name']}.toml", launch["data"]) for launch in alone]))
