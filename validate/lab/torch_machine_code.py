"""Kernels of torch's own, run through the simulator from the machine code of a CUDA build; no GPU.

    python validate/lab/torch_machine_code.py LIBTORCH_CUDA.so FOLDER FILE.ndjson   (FOLDER: for what is unpacked)

Prices of `simulator/operations/families` that are said to be counted were read off what it prints: for each kernel its
instructions an element, and the time that an H100 is predicted to take. A line of the file has the operation as torch's
dispatcher sees it, too, so that a test holds its price against the simulated kernel.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import repeat
from math import ceil, prod
from pathlib import Path
from struct import pack
from typing import Any

from tilesight.kernels.compile.disassemble import inspect
from tilesight.simulator.device.device import load_device
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.launch.code import Code
from tilesight.simulator.launch.resources import Resources
from tilesight.simulator.operations.operation import ITEM_BYTES, Operand, Operation
from tilesight.simulator.predict_kernels import CompiledLaunch, predict_kernels
from tilesight.simulator.prediction.kernel_row import KernelRow
from tilesight.simulator.prediction.kernels import Request
from tilesight.simulator.sass.constants import PARAMETERS_AT, constant_bank
from tilesight.simulator.trace.cta.traced_kernel import CompiledKernel

FIRST_PARAMETER = PARAMETERS_AT[9][1]
CTYPES = {"bfloat16": "c10::BFloat16", "float32": "float", "int64": "long"}
MOST_DIMENSIONS = 25
"""Of `TensorInfo`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A launch of one of torch's kernels.

    Args:
        operation: that launches it; priced: name of its price.
        pattern: of the kernel's name, as `c++filt` writes it.
        ctas, threads: of the launch, of a CTA along x and y; smem_bytes: dynamic [B].
        parameters: begin [B] and bytes of each; storages: that its pointers point to.
        elements: that instructions are told for.
    """

    operation: Operation
    priced: str
    pattern: str
    ctas: int
    threads: tuple[int, int]
    parameters: tuple[tuple[int, bytes], ...]
    storages: tuple[Storage, ...]
    elements: int
    smem_bytes: int = 0


def tensor(number: int, *shape: int, dtype: str = "bfloat16") -> Operand:
    """A contiguous tensor."""
    strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    size = prod(shape) * ITEM_BYTES[dtype]
    return Operand(storage=number, storage_bytes=size, shape=shape, strides=strides, dtype=dtype)


def storages(*operands: Operand) -> tuple[Storage, ...]:
    """Memory of tensors."""
    return tuple(Storage(number=x.storage, size_bytes=x.storage_bytes, name=f"x{x.storage}") for x in operands)


def ints(*values: int) -> bytes:
    """Numbers of 32 bits."""
    return pack(f"<{len(values)}i", *values)


def longs(*values: int) -> bytes:
    """Numbers of 64 bits."""
    return pack(f"<{len(values)}q", *values)


def accessor(operand: Operand, shape: tuple[int, ...] = (), *, wide: bool = False) -> bytes:
    """`PackedTensorAccessor32` or `64` of a contiguous tensor."""
    shape = shape or operand.shape
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    (storage,) = storages(operand)
    return longs(storage.address) + (longs if wide else ints)(*shape, *strides)


def tensor_info(operand: Operand | None, sizes: list[int], strides: list[int], *, wide: bool = False) -> bytes:
    """`TensorInfo`."""
    numbers = longs if wide else ints
    rest = [0] * (MOST_DIMENSIONS - len(sizes))
    address = storages(operand)[0].address if operand else 0
    return longs(address) + numbers(*sizes, *rest) + numbers(*strides, *rest) + ints(len(sizes), 0)


def operation(name: str, inputs: tuple[Operand, ...], outputs: tuple[Operand, ...], **arguments: Any) -> Operation:
    """An operation of torch."""
    return Operation(kind="torch", name=name, inputs=inputs, outputs=outputs, arguments=arguments)


def convolutions() -> Iterator[Case]:
    """Depthwise ones: forward, and gradients of the input and of the weights."""
    halves = (
        (8, 2048, (1, 2048), (1, 4)),
        (32, 1024, (1, 4096), (1, 4)),
        (1, 64, (1, 2048), (1, 8)),
        (1, 64, (1, 2048), (1, 31)),
        *((1, 16, (64, 64), window) for window in ((3, 11), (7, 7), (1, 1), (3, 3), (5, 5), (11, 1), (4, 4), (3, 8))),
    )
    floats = ((1, 16, (64, 64), window) for window in ((11, 1), (1, 11), (4, 4), (7, 7), (3, 8)))
    for dtype, (batch, channels, plane, window) in (*zip(repeat("bfloat16"), halves), *zip(repeat("float32"), floats)):
        wide = tuple(size + places - 1 for size, places in zip(plane, window, strict=True))
        square = window[0] if window[0] == window[1] and window[0] in (1, 3, 5) else 0
        flat = len(plane) - 1 if plane[0] == window[0] == 1 else 0
        shapes = ((batch, channels, *wide), (channels, 1, *window), (batch, channels, *plane))
        source, weights, output = (tensor(number, *shape, dtype=dtype) for number, shape in enumerate(shapes))
        seen = [
            tensor(x.storage, *x.shape[:2], *x.shape[2 + flat :], dtype=dtype) if flat else x
            for x in (source, weights, output)
        ]
        sizes = (wide[1], wide[0], plane[1], plane[0], window[1], window[0], 1, 1, 0, 0, 1, 1)
        generic = f"<{square}, " if square else "_generic<"
        yield Case(
            operation=operation("convolution", tuple(seen[:2]), (seen[2],), groups=channels),
            priced="conv_depthwise2d_forward",
            pattern=rf"conv_depthwise2d_forward_kernel{generic}{CTYPES[dtype]}",
            ctas=ceil(output.elements / 1024),
            threads=(1024, 1),
            parameters=(
                (0, accessor(source)),
                (40, accessor(output)),
                (80, accessor(weights)),
                (136, ints(0, output.elements, channels, 1, *sizes)),
            ),
            storages=storages(source, weights, output),
            elements=output.elements,
        )
    for window in ((1, 1), (3, 3), (5, 5), (1, 4), (7, 7)):
        square = window[0] if window[0] == window[1] else 0
        made, weights = tensor(0, 1, 16, 64, 64), tensor(1, 16, 1, *window)
        gradient = tensor(2, 1, 16, 65 - window[0], 65 - window[1])
        arguments = {"groups": 16, "output_mask": (True, False, False)}
        yield Case(
            operation=operation(
                "convolution_backward", (gradient, replace(made, storage=3), weights), (made,), **arguments
            ),
            priced="conv_depthwise2d_backward",
            pattern=rf"conv_depthwise2d_backward_kernel<{square if square < 7 else 0}, 1, c10::BFloat16",
            ctas=made.elements // 1024,
            threads=(1024, 1),
            parameters=(
                (0, accessor(gradient)),
                (40, accessor(made)),
                (80, accessor(weights)),
                (120, ints(made.elements, 16, 1, 16, 64, 64, *gradient.shape[:1:-1], *window[::-1], 1, 1, 0, 0, 1, 1)),
            ),
            storages=storages(gradient, made, weights),
            elements=made.elements,
        )
    for window in ((3, 3), (7, 7)):
        source, weights = tensor(0, 8, 16, 63 + window[0], 63 + window[1]), tensor(1, 16, 1, *window)
        gradient = tensor(2, 8, 16, 64, 64)
        made = tensor(3, *weights.shape)
        sizes = (*source.shape[:1:-1], 64, 64, window[1], window[0], 1, 1, 0, 0, 1, 1)
        arguments = {"groups": 16, "output_mask": (False, True, False)}
        yield Case(
            operation=operation("convolution_backward", (gradient, source, weights), (made,), **arguments),
            priced="conv_depthwise2d_grad_weight",
            pattern="conv_depthwise2d_grad_weight_kernel<c10::BFloat16",
            ctas=weights.elements,
            threads=(256, 1),
            parameters=(
                (0, accessor(gradient)),
                (40, accessor(source)),
                (80, accessor(made)),
                (120, ints(8, 16, 16, 1, *sizes)),
            ),
            storages=storages(gradient, source, made),
            elements=gradient.elements * prod(window),
        )


def sorts() -> Iterator[Case]:
    """Rows in a CTA each."""
    for rows, row, dtype in (
        *((4096, 1024, dtype) for dtype in CTYPES),
        *((1, 4096, dtype) for dtype in CTYPES),
        *((4096, 4096, dtype) for dtype in ("bfloat16", "float32")),
        *((rows, 128, "float32") for rows in (32, 4096, 65536)),
        (4096, 64, "int64"),
    ):
        keys, values = tensor(0, rows, row, dtype=dtype), tensor(1, rows, row, dtype="int64")
        threads, items = (row // 32, 32) if row > 128 else (32, 4)
        dimensions = ([rows, 1], [row, 1]) if rows > 1 else ([1], [1])
        yield Case(
            operation=operation("sort", (keys,), (keys, values), dim=-1),
            priced="radix_sort_rows",
            pattern=(
                rf"radixSortKVInPlace<{2 if rows > 1 else -2}, -1, {threads}, {items}, {CTYPES[dtype]}, long, "
                "unsigned int>"
            ),
            ctas=rows,
            threads=(threads, 1),
            parameters=(
                (0, tensor_info(keys, *dimensions)),
                (216, ints(rows, row, 1)),
                (232, tensor_info(values, *dimensions)),
                (448, ints(1, 0)),
            ),
            storages=storages(keys, values),
            elements=rows * threads * items,
        )


def others() -> Iterator[Case]:
    """Histograms, and the split of heads in native attention."""
    for dtype in ("float32", "int64"):
        source, bins = tensor(0, 1 << 20, dtype=dtype), tensor(1, 64, dtype=dtype)
        info = tensor_info(bins, [64], [1], wide=True)
        ends = pack("<ff", 0, 63) if dtype == "float32" else longs(0, 63)
        kind = CTYPES[dtype]
        yield Case(
            operation=operation("histc", (source,), (bins,), min=0, max=63),
            priced="histogram",
            pattern=rf"kernelHistogram1D<{kind}, {kind}, long, 1, 2, -1, \(at::cuda::CUDAHistogramMemoryType\)0.*#1\}}",
            ctas=source.elements // 512,
            threads=(512, 1),
            parameters=(
                (0, info),
                (len(info), tensor_info(None, [0], [1], wide=True)),
                (2 * len(info), tensor_info(source, [source.elements], [1], wide=True)),
                (3 * len(info), longs(64) + ends + longs(source.elements)),
            ),
            storages=storages(source, bins),
            elements=source.elements,
            smem_bytes=bins.bytes + 8,
        )
    joined, bias = tensor(0, 32, 512, 2304), tensor(1, 2304)
    made = tensor(2, 3, 32, 12, 512, 64)
    parts = tuple(tensor(2 + number, 32, 12, 512, 64) for number in range(3))
    yield Case(
        operation=operation("_transform_bias_rescale_qkv", (joined, bias), parts),
        priced="transform_bias_rescale_qkv",
        pattern="transform_bias_rescale_qkv_kernel<c10::BFloat16, float, true>",
        ctas=32 * 512,
        threads=(192, 1),
        parameters=(
            (0, accessor(joined, wide=True)),
            (56, accessor(bias, wide=True)),
            (80, accessor(made, wide=True)),
            (168, b"\x00\x3e\x00\x00"),
        ),
        storages=storages(joined, bias, made),
        elements=joined.elements,
    )


def kernels_in(library: Path, folder: Path) -> dict[str, tuple[Path, str]]:
    """Name of each kernel for sm_90, as people write it -> its file, and its name there."""
    tool = _tool()
    if not any(folder.glob("*.cubin")):
        subprocess.run([tool, "-xelf", "sm_90", str(library.resolve())], cwd=folder, check=True, capture_output=True)
    known: dict[str, tuple[Path, str]] = {}
    for file in folder.glob("*.cubin"):
        names = subprocess.run(["nm", str(file)], check=True, capture_output=True, text=True).stdout
        symbols = [line.split()[-1] for line in names.splitlines() if re.search(" [TtW] ", line)]
        text = subprocess.run(["c++filt"], input="\n".join(symbols), check=True, capture_output=True, text=True).stdout
        known |= {full: (file, symbol) for full, symbol in zip(text.splitlines(), symbols, strict=True)}
    return known


def predicted(case: Case, known: dict[str, tuple[Path, str]]) -> KernelRow:
    """A launch on an H100. Raises: SystemExit: there is not one such kernel."""
    hits = [place for full, place in known.items() if re.search(case.pattern, full)]
    if len(hits) != 1:
        raise SystemExit(f"{case.pattern}: {len(hits)} kernels")
    file, symbol = hits[0]
    sass = _run("-sass", symbol, file)
    sass = re.sub(r"HFMA2\.MMA (R\d+), -RZ, RZ, 0, 0 ", r"MOV \1, RZ ", sass)
    used = re.search(rf"{re.escape(symbol)}:\s+REG:(\d+) STACK:\d+ SHARED:(\d+)", _run("-res-usage", symbol, file))
    assert used
    warps = ceil(prod(case.threads) / 32)
    grid = (case.ctas, 1, 1)
    bank = constant_bank(90, (), {}, grid=grid, threads=(*case.threads, 1))
    for begin, raw in case.parameters:
        for at in range(0, len(raw), 4):
            bank[FIRST_PARAMETER + begin + at] = int.from_bytes(raw[at : at + 4], "little")
    resources = Resources(
        registers_per_thread=int(used[1]),
        smem_bytes_per_cta=int(used[2]) + case.smem_bytes,
        warps_per_cta=warps,
        origin="compiled",
        code=Code(sass=sass, constants=bank),
    )
    shape = {"name": case.priced, "grid": grid, "num_warps": warps, "num_stages": 1}
    kernel = CompiledKernel(**shape, resources=resources, storages=case.storages)
    launch = CompiledLaunch(row=KernelRow(**shape), kernel=kernel)
    return predict_kernels(
        [launch], Request(device=load_device("h100"), name="h100", l2="cold"), do_bench=False
    ).prediction.rows[0]


def main(library: str, folder: str, target: str) -> None:
    """Predict all, print a line for each, and write it down."""
    known = kernels_in(Path(library), Path(folder))
    with Path(target).open("w", encoding="utf-8") as lines:
        for case in (*convolutions(), *sorts(), *others()):
            row = predicted(case, known)
            if row.prediction is None:
                print(f"{case.pattern}: {row.refused}")
                continue
            line = {
                "operation": case.operation.to_dict(),
                "priced": case.priced,
                "instructions": 32 * row.executed_instructions / case.elements,
                "time_us": 1e6 * row.prediction.traffic.time_s,
            }
            lines.write(json.dumps(line) + "\n")
            lines.flush()
            shapes = [operand["shape"] for operand in map(asdict, case.operation.inputs)]
            print(case.priced, shapes, f"{line['instructions']:.1f} an element, {line['time_us']:.1f} us", flush=True)


def _tool() -> str:
    from triton import knobs

    return str(knobs.nvidia.cuobjdump.path)


def _run(switch: str, symbol: str, file: Path) -> str:
    return inspect(file.read_bytes(), switch, "-fun", symbol)


if __name__ == "__main__":
    main(*sys.argv[1:])
