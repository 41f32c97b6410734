"""Measurements of micro-benchmarks that the project has published, for tests of the model that ships."""

import json
import lzma
import re
from typing import Any

from support.lab import DATA

H100 = DATA / "h100-2026-11-22.toml"
"""What `tilesight calibrate` measured on an H100; the numbers of the architecture's file are of an H200."""
SHARING = DATA / "sm-sharing-h200-2026-11-22.json.xz"
"""What validate/lab/sm_sharing.cu printed on an H200, twice."""
_BESIDE = re.compile(
    r"^# beside_(\w+)_(smem|registers)_(\d)_extra_cycles = .*: "
    r"([\d.]+) cycles alone, ([\d.]+) beside products at ([\d.]+)",
    re.MULTILINE,
)


def barriers_of_an_h100() -> dict[int, float]:
    """Warps -> cycles from one bar.sync to the next."""
    lines = re.findall(r"^# barrier_(\d+)_warps_cycles = ([\d.]+)", H100.read_text("utf-8"), re.MULTILINE)
    return {int(warps): float(cycles) for warps, cycles in lines}


def beside_products_of_an_h100() -> dict[tuple[str, int], tuple[float, float, float]]:
    """Instruction and warps of a sub-core that repeat it -> its cycles alone, its cycles beside m64n128k16, and theirs.

    A comes from registers, so that instructions and products meet at the register port alone.
    """
    return {
        (name, int(warps)): (float(alone), float(beside), float(products))
        for name, source, warps, alone, beside, products in _BESIDE.findall(H100.read_text("utf-8"))
        if source == "registers"
    }


def shared_with_products(products: str) -> list[dict[str, Any]]:
    """Rows of what moved beside a stream of products. Args: products: e.g. `m64n64k16 SS`, both operands in memory."""
    runs = json.loads(lzma.decompress(SHARING.read_bytes()))
    return [
        row
        for row in (*runs["rows"], *runs["rows_again"])
        if row["what"] == "products" and row["first"] == products and row["first_warps"] == 4
    ]
