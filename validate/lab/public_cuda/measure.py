"""Run the launches of a plan on a GPU: `python measure.py FOLDER OUT [--count]`, with `plan.json` of plan.py in FOLDER.

A line of JSON for each launch in OUT/times.ndjson: medians from event to event [us], behind a flush of L2 that leaves
nothing dirty (reads), behind one that does (a memset), and right after a run of its own (warm). With --count each
is run once between the profiler's marks, for ncu. A launch that was begun is not begun again, so that the program can
be called until it returns 0. Needs a GPU, numpy and `cuda-bindings`. What a kernel computes is not
looked at: floating-point tensors hold random numbers, others random bytes, those with data theirs.
"""

import ctypes
import json
import signal
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from cuda.bindings import driver
from values import values

RUNS, WARMUPS = 21, 3
FLUSH_BYTES = 512 << 20
BLOCK_BYTES = 16 << 20
SIZES = {
    "uint8": 1, "int8": 1, "fp8": 1, "bool": 1, "uint16": 2, "int16": 2, "fp16": 2, "bf16": 2, "int32": 4, "uint32": 4,
    "fp32": 4, "int64": 8, "uint64": 8, "fp64": 8,
}  # fmt: skip
KINDS = {"uint8": "UINT8", "int8": "UINT8", "fp16": "FLOAT16", "bf16": "BFLOAT16", "fp32": "FLOAT32", "int32": "INT32"}
LIMIT_S = 20
"""Of a launch with all its runs; what takes longer ends the program."""
DYNAMIC_SMEM = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
READER = "read.cubin"
"""Own kernel that reads a buffer: `read.cu`."""


def done(answer: tuple[Any, ...]) -> Any:
    """What a call of the driver returns. Raises: RuntimeError: it failed."""
    status, *values = answer
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(status))
    return values[0] if values else None


def random_block(dtype: str) -> "np.ndarray[Any, Any]":
    """16 MiB of random values of a type."""
    random = np.random.default_rng(1)
    if dtype in ("fp32", "fp16", "bf16"):
        floats = random.standard_normal(BLOCK_BYTES // SIZES[dtype]).astype(np.float32) * 0.5
        if dtype == "bf16":
            return (floats.view(np.uint32) >> 16).astype(np.uint16)
        return floats.astype(np.float16) if dtype == "fp16" else floats
    return random.integers(0, 127, BLOCK_BYTES, dtype=np.uint8)


def filled(tensor: dict[str, Any], blocks: dict[str, Any], folder: Path) -> int:
    """Address of new memory with its data. Args: folder: of files with data."""
    size = tensor["bytes"]
    pointer = int(done(driver.cuMemAlloc(max(size, 16))))
    if tensor["values"]:
        data = np.ascontiguousarray(values(tensor["values"], tensor["dtype"], folder))
        done(driver.cuMemcpyHtoD(pointer, data.ctypes.data, size))
    elif tensor["fill"]:
        data = np.frombuffer(bytes.fromhex(tensor["fill"]) * (size // (len(tensor["fill"]) // 2)), np.uint8).copy()
        done(driver.cuMemcpyHtoD(pointer, data.ctypes.data, size))
    else:
        block = blocks.setdefault(tensor["dtype"], random_block(tensor["dtype"]))
        first = min(size, BLOCK_BYTES)
        done(driver.cuMemcpyHtoD(pointer, block.ctypes.data, first))
        for at in range(first, size, BLOCK_BYTES):
            done(driver.cuMemcpyDtoD(pointer + at, pointer, min(BLOCK_BYTES, size - at)))
    return pointer


def described(dtype: str, address: int, shape: list[int], strides: list[int], box: list[int], swizzle: str) -> bytes:
    """The driver's own descriptor."""
    outer, inner = shape[::-1], box[::-1]
    kinds, swizzles = driver.CUtensorMapDataType, driver.CUtensorMapSwizzle
    made = done(
        driver.cuTensorMapEncodeTiled(
            getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{KINDS[dtype]}"),
            len(outer),
            address,
            [driver.cuuint64_t(extent) for extent in outer],
            [driver.cuuint64_t(SIZES[dtype] * stride) for stride in strides[-2::-1]],
            [driver.cuuint32_t(extent) for extent in inner],
            [driver.cuuint32_t(1)] * len(inner),
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(swizzles, "CU_TENSOR_MAP_SWIZZLE_" + ("NONE" if swizzle == "none" else f"{swizzle}B")),
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )
    return b"".join(int(word).to_bytes(8, "little") for word in made.opaque)


class Run:
    """A launch that is ready. Args: plan: of it; folder: of cubins and data; blocks: random data by type."""

    def __init__(self, plan: dict[str, Any], folder: Path, blocks: dict[str, Any]) -> None:
        self.grid, self.block, self.smem = plan["grid"], plan["block"], plan["smem"]
        self.module = done(driver.cuModuleLoadData((folder / plan["cubin"]).read_bytes()))
        self.function = done(driver.cuModuleGetFunction(self.module, plan["kernel"].encode()))
        if self.smem > 49152:
            done(driver.cuFuncSetAttribute(self.function, DYNAMIC_SMEM, self.smem))
        self.at = {name: filled(tensor, blocks, folder) for name, tensor in plan["tensors"].items()}
        self.kept = {
            name: (self.at[name], filled(tensor, blocks, folder), tensor["bytes"])
            for name, tensor in plan["tensors"].items()
            if tensor["values"]
        }
        buffer = bytearray.fromhex(plan["buffer"])
        for at, kind, tensor, *rest in plan["fixups"]:
            if kind == "pointer":
                buffer[at : at + 8] = (self.at[tensor] + rest[0]).to_bytes(8, "little")
            else:
                buffer[at : at + 128] = described(plan["tensors"][tensor]["dtype"], self.at[tensor], *rest)
        self.size = ctypes.c_size_t(len(buffer))
        self.raw = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        # CU_LAUNCH_PARAM_BUFFER_POINTER, its address, CU_LAUNCH_PARAM_BUFFER_SIZE, its size, CU_LAUNCH_PARAM_END
        self.extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(self.raw), 2, ctypes.addressof(self.size), 0)

    def restore(self) -> None:
        """Put back data that decide where it goes: a launch may have overwritten them."""
        for address, copy, size in self.kept.values():
            done(driver.cuMemcpyDtoD(address, copy, size))

    def launch(self) -> None:
        """Launch it once."""
        extra = ctypes.addressof(self.extra)
        done(driver.cuLaunchKernel(self.function, *self.grid, *self.block, self.smem, 0, 0, extra))

    def free(self) -> None:
        """Give its memory back."""
        for pointer in (*self.at.values(), *(copy for _, copy, _ in self.kept.values())):
            done(driver.cuMemFree(pointer))
        done(driver.cuModuleUnload(self.module))


def median_us(run: Run, before: Any) -> float:
    """Median time of runs. Args: before: what is done before each."""
    begin, end = (done(driver.cuEventCreate(0)) for _ in range(2))
    times = []
    for _ in range(WARMUPS + RUNS):
        run.restore()
        before()
        done(driver.cuEventRecord(begin, 0))
        run.launch()
        done(driver.cuEventRecord(end, 0))
        done(driver.cuEventSynchronize(end))
        times.append(1e3 * done(driver.cuEventElapsedTime(begin, end)))
    return round(median(times[WARMUPS:]), 3)


def main() -> None:
    """Run all launches of the plan that were not begun yet."""
    folder, out, counting = Path(sys.argv[1]), Path(sys.argv[2]), "--count" in sys.argv
    out.mkdir(parents=True, exist_ok=True)
    done(driver.cuInit(0))
    gpu = done(driver.cuDeviceGet(0))
    done(driver.cuCtxSetCurrent(done(driver.cuDevicePrimaryCtxRetain(gpu))))
    flush = int(done(driver.cuMemAlloc(FLUSH_BYTES)))
    sink = int(done(driver.cuMemAlloc(16)))
    reader = done(
        driver.cuModuleGetFunction(done(driver.cuModuleLoadData((folder / READER).read_bytes())), b"read_all")
    )
    values, kinds = (flush, sink, FLUSH_BYTES // 16), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    blocks: dict[str, Any] = {}

    def dirty() -> None:
        done(driver.cuMemsetD8(flush, 0, FLUSH_BYTES // 2))

    def clean() -> None:
        done(driver.cuLaunchKernel(reader, 1056, 1, 1, 512, 1, 1, 0, 0, (values, kinds), 0))

    clean()
    done(driver.cuCtxSynchronize())
    begun = out / ("counted.txt" if counting else "begun.txt")
    known = begun.read_text("utf-8").split() if begun.exists() else []
    plans = [plan for plan in json.loads((folder / "plan.json").read_text("utf-8")) if plan["name"] not in known]
    with (out / "times.ndjson").open("a", encoding="utf-8") as file, begun.open("a", encoding="utf-8") as names:
        for plan in plans:
            row: dict[str, Any] = {"name": plan["name"]}
            print(plan["name"], file=names, flush=True)
            signal.alarm(LIMIT_S)
            run = Run(plan, folder, blocks)
            if counting:
                done(driver.cuProfilerStart())
                run.launch()
                done(driver.cuCtxSynchronize())
                done(driver.cuProfilerStop())
            else:
                for key, before in (("clean_us", clean), ("dirty_us", dirty), ("warm_us", lambda: None)):
                    row[key] = median_us(run, before)
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(row, flush=True)
            run.free()


if __name__ == "__main__":
    main()
