"""What a kernel really touches: its loads and stores, CTA by CTA, recorded in Triton's interpreter on a CPU.

Every access of an interpreted kernel, through a tensor descriptor too,
ends in the interpreter's own `load` and `store`, with an array of addresses and one of masks.
There it is caught and turned back into a tile of a tensor, so that it can be held against `simulator.walk.accesses`.
The interpreter visits the CTAs of a grid z fastest, the hardware x fastest: the record is as the hardware has it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from tilesight.kernels.launch.launch import TritonKernel, allocate, interpreted, run
from tilesight.simulator.launch.program import Launch, Tensor
from tilesight.simulator.launch.walk import Access
from tilesight.simulator.problems.problem import Problem
from triton.runtime import interpreter

Trace = tuple[tuple[Access, ...], ...]


def record(twin: TritonKernel, launch: Launch, tensors: dict[str, torch.Tensor]) -> Trace:
    """Run a kernel in the interpreter and note what each CTA touches.

    Args:
        tensors: by name of the program's tensors, on the CPU; written as the kernel writes them.

    Returns:
        Per CTA, x fastest, its accesses in the order it made them; those that touch nothing are left out.

    Raises:
        RuntimeError: triton was imported without TRITON_INTERPRET=1.
        ValueError: an access that is no tile of a tensor: out of bounds, with holes, or touching an element twice.
    """
    if not interpreted():
        raise RuntimeError("recording needs Triton's interpreter: set TRITON_INTERPRET=1 before triton is imported")
    places = [(tensor, tensors[tensor.name]) for tensor in launch.program.tensors]
    noted: dict[tuple[int, ...], list[Access]] = {}

    def note(kind: str, addresses: np.ndarray, mask: np.ndarray) -> None:
        touched = np.broadcast_to(addresses, mask.shape)[mask].astype(np.int64)
        if touched.size:
            cta = tuple(interpreter.interpreter_builder.grid_idx)
            noted.setdefault(cta, []).append(_tile(kind, touched, places))

    with _hooked(note):
        run(twin, launch, tensors)
    x, y, z = launch.grid
    return tuple(tuple(noted.get((i, j, k), ())) for k in range(z) for j in range(y) for i in range(x))


def example_tensors(launches: tuple[Launch, ...], problem: Problem, seed: int = 0) -> dict[str, torch.Tensor]:
    """Tensors for all launches of a pipeline, on the CPU: inputs random (a mask: ones), the others not yet written."""
    generator = torch.Generator().manual_seed(seed)
    tensors: dict[str, torch.Tensor] = {}
    for launch in launches:
        for tensor in launch.program.tensors:
            if tensor.name in tensors:
                continue
            memory = allocate(tensor, torch.device("cpu"))
            if memory.dtype == torch.uint8:
                memory.fill_(1)
            elif tensor.role == "input":
                memory.copy_(torch.randn(memory.shape, generator=generator))
            tensors[tensor.name] = memory
    return tensors


def record_addresses(run_it: Callable[[], object]) -> dict[tuple[int, ...], dict[str, list[np.ndarray]]]:
    """Run any kernels in the interpreter, and note the addresses that each CTA touches, element by element.

    Returns:
        CTA along x, y, z -> `load`, `store` or `atomic` -> int64 arrays of addresses, in the order they were touched.

    Raises:
        RuntimeError: triton was imported without TRITON_INTERPRET=1.
    """
    if not interpreted():
        raise RuntimeError("recording needs Triton's interpreter: set TRITON_INTERPRET=1 before triton is imported")
    noted: dict[tuple[int, ...], dict[str, list[np.ndarray]]] = {}

    def note(kind: str, addresses: np.ndarray, mask: np.ndarray) -> None:
        touched = np.broadcast_to(addresses, mask.shape)[mask].astype(np.int64)
        if touched.size:
            cta = tuple(interpreter.interpreter_builder.grid_idx)
            noted.setdefault(cta, {}).setdefault(kind, []).append(touched)

    with _hooked(note, atomics=True):
        run_it()
    return noted


@contextmanager
def _hooked(note: Any, atomics: bool = False) -> Iterator[None]:
    """Have the interpreter's `load` and `store` call `note(kind, addresses, mask)` first.

    Args:
        atomics: whether these are noted, too; else they are refused. Reductions through tensor descriptors, which
            the interpreter of Triton 3.6 lacks, are noted alone.
    """
    native = interpreter._interpreter
    load, store, rmw, cas = native.load, native.store, native.atomic_rmw, native.atomic_cas

    def noted_load(addresses: np.ndarray, mask: np.ndarray, *rest: Any) -> Any:
        note("load", addresses, mask)
        return load(addresses, mask, *rest)

    def noted_store(addresses: np.ndarray, values: np.ndarray, mask: np.ndarray) -> Any:
        note("store", addresses, mask)
        return store(addresses, values, mask)

    def refused(*_: Any) -> Any:
        raise ValueError("atomic accesses are not recorded: no schedule describes them")

    def noted_rmw(operation: Any, addresses: np.ndarray, values: np.ndarray, mask: np.ndarray, order: Any) -> Any:
        note("atomic", addresses, mask)
        return rmw(operation, addresses, values, mask, order)

    def noted_reduce(_: Any, kind: Any, boxes: Any, value: Any, indices: Any) -> None:
        pointers, mask = boxes.materialize_pointers(indices)
        note("atomic", pointers.data, mask)

    builder: Any = interpreter.InterpreterBuilder
    native.load, native.store = noted_load, noted_store
    native.atomic_rmw, native.atomic_cas = (noted_rmw, cas) if atomics else (refused, refused)
    if atomics:
        builder.create_descriptor_reduce = noted_reduce
    try:
        yield
    finally:
        native.load, native.store, native.atomic_rmw, native.atomic_cas = load, store, rmw, cas
        if atomics:
            del builder.create_descriptor_reduce


def _tile(kind: str, addresses: np.ndarray, places: list[tuple[Tensor, torch.Tensor]]) -> Access:
    """The rectangle of a tensor that a set of addresses is. Raises: ValueError: it is none."""
    low, high = int(addresses.min()), int(addresses.max())
    for tensor, memory in places:
        base = memory.data_ptr()
        if base <= low and high < base + tensor.size_bytes:
            return _rectangle(kind, addresses - base, tensor)
    names = ", ".join(tensor.name for tensor, _ in places)
    raise ValueError(f"{kind} of {addresses.size} elements lies in none of {names}")


def _rectangle(kind: str, offsets: np.ndarray, tensor: Tensor) -> Access:
    line, byte = np.divmod(offsets, tensor.pitch_bytes)
    slab, row = np.divmod(line, tensor.rows)
    col, rest = np.divmod(byte, tensor.element_bytes)
    rows, cols = int(np.ptp(row)) + 1, int(np.ptp(col)) + 1
    if np.ptp(slab) or rest.any() or col.max() >= tensor.cols:
        raise ValueError(f"{kind} of {tensor.name} crosses a matrix's edge or splits an element")
    if offsets.size != rows * cols or np.unique(offsets).size != offsets.size:
        raise ValueError(f"{kind} of {tensor.name}: {offsets.size} elements are no tile of {rows} x {cols}")
    return Access(
        kind=kind,
        tensor=tensor.name,
        slab=int(slab[0]),
        row=int(row.min()),
        rows=rows,
        col=int(col.min()),
        cols=cols,
    )
