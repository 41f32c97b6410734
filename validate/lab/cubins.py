"""Launches of cubins, run and timed on the GPU beside their predictions: `python validate/lab/cubins.py FILE.toml ...`.

Prints a line of JSON for each launch of the files: predicted time on a cold L2, and the median of runs behind a memset
that flushes L2 [us]. Needs a GPU, torch, triton and `cuda-bindings`; what kernels compute is not looked at.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from cuda.bindings import driver
from tilesight.kernels.compile.kernel_info import read_cubin
from tilesight.kernels.given.arguments import (
    ELEMENTS,
    SWIZZLES,
    Argument,
    Descriptor,
    Number,
    Pointer,
    Struct,
    Tensor,
    argument_of,
)
from tilesight.kernels.given.launch import Launch, extents_of, read_launches
from tilesight.simulator.limits import POINTER_BYTES

import tilesight

RUNS, WARMUPS = 21, 3
FLUSH_BYTES = 256 << 20
DTYPES = {
    "uint8": "UINT8", "int8": "UINT8", "fp8": "UINT8", "bool": "UINT8", "uint16": "UINT16", "int16": "UINT16",
    "uint32": "UINT32", "int32": "INT32", "uint64": "UINT64", "int64": "INT64", "fp16": "FLOAT16", "fp32": "FLOAT32",
    "fp64": "FLOAT64", "bf16": "BFLOAT16",
}  # fmt: skip
"""Type of elements -> its name in `CUtensorMapDataType`."""
MAJOR = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
FIRST = {8: 0x160, 9: 0x210, 10: 0x380, 12: 0x380}
"""Major compute capability -> where parameters begin in constant bank 0."""
DYNAMIC_SMEM = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def done(answer: tuple[Any, ...]) -> Any:
    """What a call of the driver returns. Raises: RuntimeError: it failed."""
    status, *values = answer
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(status))
    return values[0] if values else None


def allocated(tensor: Tensor) -> int:
    """Address of new memory with what is known of its values, else zeros."""
    size = tensor.size_bytes
    pointer = done(driver.cuMemAlloc(size))
    values = tensor.values or tensor.fill * (size // max(1, len(tensor.fill)))
    done(driver.cuMemcpyHtoD(pointer, values, size) if values else driver.cuMemsetD8(pointer, 0, size))
    return int(pointer)


def encoded(descriptor: Descriptor, tensor: Tensor, address: int) -> bytes:
    """The driver's own descriptor."""
    size = ELEMENTS[tensor.dtype]
    shape, box, strides = descriptor.shape[::-1], descriptor.box[::-1], descriptor.strides[::-1]
    swizzle = f"{SWIZZLES[descriptor.swizzle]}B" if SWIZZLES[descriptor.swizzle] else "NONE"
    kinds, swizzles = driver.CUtensorMapDataType, driver.CUtensorMapSwizzle
    encoded_map = done(
        driver.cuTensorMapEncodeTiled(
            getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{DTYPES[tensor.dtype]}"),
            len(shape),
            address,
            [driver.cuuint64_t(extent) for extent in shape],
            [driver.cuuint64_t(size * stride) for stride in strides[1:]],
            [driver.cuuint32_t(extent) for extent in box],
            [driver.cuuint32_t(1)] * len(box),
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(swizzles, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )
    return b"".join(int(word).to_bytes(8, "little") for word in encoded_map.opaque)


def packed(launch: Launch, tensors: dict[str, Tensor], addresses: dict[str, int], places: Any) -> bytearray:
    """The buffer of parameters. Args: tensors, addresses: of all launches, by name; places: of the parameters."""
    first = FIRST[done(driver.cuDeviceGetAttribute(MAJOR, done(driver.cuCtxGetDevice())))]
    buffer = bytearray(max((at + size for at, size in places), default=first) - first)
    for (name, value), (at, size) in zip(launch.args.items(), places, strict=True):
        argument, new = argument_of(name, value, size, tensors, launch.folder)
        for label, tensor in new.items():
            if label not in tensors:
                tensors[label], addresses[label] = tensor, allocated(tensor)
        buffer[at - first : at - first + size] = _raw(name, argument, size, tensors, addresses)
    return buffer


def _raw(name: str, argument: Argument, size: int, tensors: Mapping[str, Tensor], at: Mapping[str, int]) -> bytes:
    if isinstance(argument, Descriptor):
        return encoded(argument, tensors[argument.tensor], at[argument.tensor])
    if isinstance(argument, Pointer):
        return (at[argument.tensor] + argument.offset_bytes).to_bytes(size, "little")
    if isinstance(argument, Struct):
        buffer = bytearray(size)
        for member, (place, inner) in argument.members.items():
            raw = _raw(member, inner, POINTER_BYTES, tensors, at)
            buffer[place : place + len(raw)] = raw
        return bytes(buffer)
    return argument.raw if isinstance(argument, Number) else at[name].to_bytes(size, "little")


def measured_us(function: Any, launch: Launch, extents: Any, buffer: bytearray, flush: int) -> float:
    """Median time of a launch behind a flush of L2."""
    import ctypes

    (grid, threads), size = extents, ctypes.c_size_t(len(buffer))
    raw = (ctypes.c_char * max(1, len(buffer))).from_buffer(buffer or bytearray(1))
    # CU_LAUNCH_PARAM_BUFFER_POINTER, its address, CU_LAUNCH_PARAM_BUFFER_SIZE, its size, CU_LAUNCH_PARAM_END
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(raw), 2, ctypes.addressof(size), 0)
    begin, end = (done(driver.cuEventCreate(0)) for _ in range(2))
    times = []
    for _ in range(WARMUPS + RUNS):
        done(driver.cuMemsetD8(flush, 0, FLUSH_BYTES))
        done(driver.cuEventRecord(begin, 0))
        done(driver.cuLaunchKernel(function, *grid, *threads, launch.smem, 0, 0, ctypes.addressof(extra)))
        done(driver.cuEventRecord(end, 0))
        done(driver.cuEventSynchronize(end))
        times.append(1e3 * done(driver.cuEventElapsedTime(begin, end)))
    return median(times[WARMUPS:])


def main(paths: list[str]) -> None:
    """Run the launches of files. Args: paths: of TOML files."""
    done(driver.cuInit(0))
    gpu = done(driver.cuDeviceGet(0))
    done(driver.cuCtxSetCurrent(done(driver.cuDevicePrimaryCtxRetain(gpu))))
    flush = int(done(driver.cuMemAlloc(FLUSH_BYTES)))
    for path in paths:
        launches = read_launches(Path(path))
        rows = tilesight.predict(launches, l2="cold").rows
        tensors: dict[str, Tensor] = {}
        addresses: dict[str, int] = {}
        for launch, row in zip(launches, rows, strict=True):
            data = (launch.folder / str(launch.cubin)).read_bytes()
            info = read_cubin(data)[row.name]
            function = done(driver.cuModuleGetFunction(done(driver.cuModuleLoadData(data)), row.name.encode()))
            done(driver.cuFuncSetAttribute(function, DYNAMIC_SMEM, launch.smem))
            buffer = packed(launch, tensors, addresses, info.parameters)
            took_us = measured_us(function, launch, extents_of(launch, info), buffer, flush)
            predicted_us = 1e6 * row.traffic.time_s if row.prediction else None
            print(json.dumps({"kernel": row.name, "file": path, "predicted_us": predicted_us, "measured_us": took_us}))


if __name__ == "__main__":
    main(sys.argv[1:])
