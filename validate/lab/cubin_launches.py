"""Write launches of the CUDA kernels that tests keep, at sizes of 0.1 to 1 ms.

    python validate/lab/cubin_launches.py FOLDER [FILE]

Each has a TOML file of its own beside its cubin, for `tilesight predict` and `validate/lab/cubins.py`.
With a second FILE each is predicted for an H200, on a cold L2: a line of JSON each.
"""

import json
import sys
from pathlib import Path

from tilesight.kernels.given.launch import read_launches

import tilesight

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.given_cubins import cubin

ROW = "tensor:fp32[67108864]"
SQUARE, TILES, BLOCK = "tensor:fp32[8192,8192]", [256, 256], [32, 8]
BYTES, HALVES = "tensor:uint8[268435456]", "tensor:fp16[4096,4096]"
MEMBERS = [f"in{i}@{8 * i}=tensor:fp32[8388608]" for i in range(8)]
LAUNCHES: dict[str, tuple[str, str, object, object, int, dict[str, object]]] = {
    "add": ("basic", "add", 262144, 256, 0, {"x": ROW, "y": ROW, "z": ROW, "n": 1 << 26}),
    "transpose": ("basic", "transpose", TILES, BLOCK, 0, {"in": SQUARE, "out": SQUARE, "n": 8192}),
    "transpose_padded": ("basic", "transpose_padded", TILES, BLOCK, 0, {"in": SQUARE, "out": SQUARE, "n": 8192}),
    "transpose_naive": ("basic", "transpose_naive", TILES, BLOCK, 0, {"in": SQUARE, "out": SQUARE, "n": 8192}),
    "gemm": (
        *("basic", "gemm", [128, 128], [16, 16], 0),
        {name: "tensor:fp32[2048,2048]" for name in "abc"} | {name: 2048 for name in "mnk"},
    ),
    "reduce": ("basic", "reduce", 1056, 256, 0, {"x": ROW, "sums": "tensor:fp32[1056]", "n": 1 << 26}),
    "softmax": ("basic", "softmax", 16384, 256, 16384, {"x": ROW, "y": ROW, "columns": 4096}),
    "softmax_wide": ("basic", "softmax", 4096, 512, 65536, {"x": ROW, "y": ROW, "columns": 16384}),
    "pipeline": ("basic", "pipeline", 1024, 256, 0, {"x": ROW, "y": ROW, "tiles": 64}),
    "scale": (
        *("basic", "scale", 262144, 256, 0),
        {"x": ROW, "y": ROW, "shape": "struct:rows@0=int64:8192;columns@8=int64:8192;scale@16=fp32:2"},
    ),
    "divide": (
        *("basic", "divide", 262144, 256, 0),
        {"x": "tensor:int32[67108864]", "y": "tensor:int32[67108864]", "n": 1 << 26, "d": 64},
    ),
    "stack": (
        *("basic", "stack", 4096, 256, 0),
        {"x": "tensor:fp32[64,1048576]", "y": "tensor:fp32[1048576]", "n": 1 << 20, "step": 3},
    ),
    "call": (
        *("basic", "call", 131072, 256, 0),
        {"x": "tensor:fp64[33554432]", "y": "tensor:fp64[33554432]", "n": 1 << 25},
    ),
    "named": ("basic", "named", 2048, 256, 0, {"x": ROW, "y": ROW, "n": 256}),
    "mma": (
        *("mma", "mma", [64, 64], 128, 0),
        {"a": HALVES, "b": HALVES, "c": "tensor:fp32[4096,4096]", "n": 4096, "k": 4096},
    ),
    "tma": (
        *("tma", "copy", 264, 128, 0),
        {"from": "tma:fp16[16896,8192],box=64x64", "to": "tensor:fp16[16896,8192]", "columns": 8192, "tiles": 128},
    ),
    "many": (
        *("banks", "many", [32768, 8], 256, 0),
        {"p": f"struct:{';'.join(MEMBERS)};out@64={ROW};n@72=int32:8388608"},
    ),
    "choose_exp": ("banks", "choose", 262144, 256, 0, {"x": ROW, "y": ROW, "mode": 3}),
    "choose_sine": ("banks", "choose", 262144, 256, 0, {"x": ROW, "y": ROW, "mode": 5}),
    "bulk": ("bulk", "bulk", 1024, 128, 16384, {"in": BYTES, "out": BYTES, "bytes": 8192, "rows": 32}),
    "bulk_small": ("bulk", "bulk", 2048, 128, 4096, {"in": BYTES, "out": BYTES, "bytes": 2048, "rows": 64}),
    "bulk_load": ("bulk", "bulk_load", 32768, 256, 0, {"in": ROW, "out": "tensor:fp32[8388608]"}),
    "bulk_add": ("bulk", "bulk_add", 32768, 256, 0, {"in": ROW, "out": "tensor:fp32[2048]"}),
    "bulk_warps": ("bulk", "bulk_warps", 1024, 128, 0, {"in": BYTES, "out": BYTES, "rows": 64}),
    "ring": ("roles", "ring", 1024, 160, 0, {"in": BYTES, "out": "tensor:fp32[131072]", "rows": 64}),
    "ring_few": (
        "roles",
        "ring",
        132,
        160,
        0,
        {"in": "tensor:uint8[276824064]", "out": "tensor:fp32[16896]", "rows": 512},
    ),
    "matrices": ("roles", "matrices", 32768, 128, 0, {"in": BYTES, "out": BYTES}),
    "handed": (
        *("roles", "handed", 2048, 128, 0),
        {"in": "tensor:fp32[50331648]", "out": "tensor:fp32[50331648]", "rows": 256},
    ),
    "partial": (
        *("roles", "partial", 65536, 80, 0),
        {"in": "tensor:fp32[65536,1000]", "out": "tensor:fp32[65536,1000]", "columns": 1000},
    ),
    "odd": (
        *("roles", "odd", [512, 768], [15, 10], 0),
        {"in": "tensor:fp32[7680,7680]", "out": "tensor:fp32[7680,7680]", "n": 7680},
    ),
}
"""Name -> file, kernel, grid, block, shared memory [B], arguments."""


def written(folder: Path) -> list[Path]:
    """The TOML files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, (file, kernel, grid, block, smem, args) in LAUNCHES.items():
        (folder / f"{file}.cubin").write_bytes(cubin(file))
        listed = ", ".join(f'"{key}" = {json.dumps(value)}' for key, value in args.items())
        lines = ("[[launch]]", f'cubin = "{file}.cubin"', f'kernel = "{kernel}"', f"grid = {grid}", f"block = {block}")
        paths.append(folder / f"{name}.toml")
        paths[-1].write_text("\n".join((*lines, f"smem = {smem}", f"args = {{ {listed} }}", "")), "utf-8")
    return paths


def main() -> None:
    """Write them, and predict them where a file is named."""
    paths = written(Path(sys.argv[1]))
    if len(sys.argv) > 2:
        with Path(sys.argv[2]).open("w", encoding="utf-8") as file:
            for path in paths:
                made: dict[str, object] = {"name": path.stem}
                for key, timing in (("predicted_us", "single"), ("do_bench_us", "do_bench")):
                    (row,) = tilesight.predict(read_launches(path), device="h200", l2="cold", timing=timing).rows
                    made[key] = 1e6 * row.traffic.time_s if row.prediction else None
                made |= {"missing_accesses": row.missing_accesses, "refused": row.refused}
                file.write(json.dumps(made) + "\n")
                print(made, flush=True)


if __name__ == "__main__":
    main()
