"""Turn what `runtime.cpp` noted of a driver's launches into arguments as `tilesight predict --cubin` takes them.

    python validate/lab/public_cuda/noted.py DRIVER.ndjson

A line of JSON for each launch: name, kernel, grid, block, smem, args, and data, from which tensors' values are made.
"""

import json
import struct
import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from tilesight.kernels.given.arguments import ELEMENTS

TMA_MAGIC, TMA_BYTES = 0x544D41544D41, 128
DESCRIBED = struct.Struct("<QQ4I5Q5II")
SWIZZLES = ("none", "32", "64", "128")
INT_BYTES = {4: "int32", 8: "int64"}
LARGEST_INT = 1 << 31


class Given:
    """Tensors of a driver, by address. Args: rows: as noted."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = sorted(rows, key=lambda row: row["address"])
        self.used: dict[str, str] = {}

    def at(self, address: int) -> tuple[dict[str, Any], int] | None:
        """The tensor that an address lies in, and the offset in it [B]."""
        for row in self.rows:
            offset = address - row["address"]
            if 0 <= offset < prod(row["shape"]) * ELEMENTS[row["dtype"]]:
                return row, offset
        return None

    def written(self, address: int) -> tuple[str, str] | None:
        """Name and text of a pointer, where it is one."""
        held = self.at(address)
        if held is None:
            return None
        row, offset = held
        if row["name"] in self.used:
            return f"{row['name']}_{len(self.used)}_{offset}", f"pointer:{row['name']}+{offset}"
        if offset:
            raise ValueError(f"{row['name']}: its first pointer is {offset} bytes into it")
        values = row["values"]
        text = f"tensor:{row['dtype']}[{','.join(map(str, row['shape']))}]"
        if values.startswith("fill:"):
            text += f"={values[5:]}"
        elif values:
            text += f"@{row['name']}.npy"
        self.used[row["name"]] = values
        return row["name"], text


def _described(raw: bytes, given: Given) -> tuple[str, str]:
    """Name and text of a descriptor."""
    fields = DESCRIBED.unpack(raw[: DESCRIBED.size])
    _, address, rank, _, swizzle, _ = fields[:6]
    shape, box = fields[6 : 6 + rank][::-1], fields[11 : 11 + rank][::-1]
    held = given.at(address)
    if held is None:
        raise ValueError("a descriptor of no tensor")
    row, _ = held
    made = f"box={'x'.join(map(str, box))},shape={'x'.join(map(str, shape))},swizzle={SWIZZLES[swizzle]}"
    if row["name"] in given.used:
        return f"{row['name']}_map", f"tma:{row['name']},{made}"
    given.used[row["name"]] = ""
    return row["name"], f"tma:{row['dtype']}[{','.join(map(str, row['shape']))}],{made}"


def _members(raw: bytes, given: Given) -> Iterator[tuple[int, str, str]]:
    """Offset, name and text of what a parameter holds, bytes between pointers as they are."""
    at = begin = 0
    while at <= len(raw):
        name = text = ""
        size = 0
        if at + TMA_BYTES <= len(raw) and int.from_bytes(raw[at : at + 8], "little") == TMA_MAGIC:
            size = TMA_BYTES
            name, text = _described(raw[at : at + TMA_BYTES], given)
        elif at + 8 <= len(raw) and (held := given.written(int.from_bytes(raw[at : at + 8], "little"))):
            size, (name, text) = 8, held
        if size or at + 8 > len(raw):
            end = at if size else len(raw)
            if end > begin and (any(raw[begin:end]) or (begin == 0 and end == len(raw))):
                yield begin, f"b{begin}", f"bytes:{raw[begin:end].hex()}"
            if size:
                yield at, name, text
            if not size:
                return
            at += size
            begin = at
        else:
            at += 8


def _argument(number: int, raw: bytes, given: Given) -> tuple[str, object]:
    """Name and text of an argument."""
    members = list(_members(raw, given))
    if not members:
        return f"a{number}", f"bytes:{raw.hex()}"
    (at, name, text), *others = members
    if not others and not at and name[0] != "b":
        return name, text
    if all(text.startswith("bytes") for _, _, text in members):
        value = int.from_bytes(raw, "little")
        if len(raw) in INT_BYTES and value < LARGEST_INT and value % (1 << 23) != 0 and value < 1 << 24:
            return f"a{number}", value
        return f"a{number}", f"bytes:{raw.hex()}"
    return f"a{number}", "struct:" + ";".join(f"{name}@{at}={text}" for at, name, text in members)


def launches(path: Path) -> Iterator[dict[str, Any]]:
    """Launches of a driver, in order."""
    tensors: list[dict[str, Any]] = []
    label = ""
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        if "label" in row:
            label, tensors, number = row["label"], [], 0
        elif "tensor" in row:
            tensors.append({"name": row["tensor"], **row})
        else:
            given = Given(tensors)
            raws = [bytes.fromhex(text) for text in row["params"]]
            args = dict(_argument(index, raw, given) for index, raw in enumerate(raws))
            if len(args) != len(raws):
                raise ValueError(f"{label}: two arguments have the same name")
            number += 1
            yield {
                "name": label if number == 1 else f"{label}_{number}",
                "cubin": f"{path.stem}.cubin",
                "kernel": row["kernel"],
                "grid": row["grid"],
                "block": row["block"],
                "smem": row["smem"],
                "cluster": row.get("cluster", [1, 1, 1]),
                "args": args,
                "data": {name: values for name, values in given.used.items() if values and values[:5] != "fill:"},
            }


if __name__ == "__main__":
    for file in sys.argv[1:]:
        for launch in launches(Path(file)):
            print(json.dumps(launch))
