"""What a worker looks at to know that kernels did their work: poisoned outputs, other inputs, quiet streams.

Tensors come in, `doubts.Facts` and `LaunchMeasurement`s go out. Needs torch and a GPU.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..measurement import LaunchMeasurement

POISON = 0xFF
"""Every byte of an output before the run: a NaN in all floating-point types, and one that no arithmetic yields."""
SPILL_BYTES = 4
LEAST_WAIT_S = 2e-3
"""Streams are watched for so long at least: looking takes some ten microseconds itself [s]."""


def poison(outputs: Iterable[torch.Tensor]) -> None:
    """Fill outputs with what no kernel writes."""
    for output in outputs:
        output.view(torch.uint8).fill_(POISON)


def untouched_fraction(outputs: Iterable[torch.Tensor]) -> float:
    """Share of all elements whose every byte is still poison."""
    untouched = elements = 0
    for output in outputs:
        bytes_of = output.contiguous().view(torch.uint8).reshape(output.numel(), output.element_size())
        untouched += int((bytes_of == POISON).all(dim=1).sum())
        elements += output.numel()
    return untouched / elements


def is_stale(run: Callable[[], object], outputs: list[torch.Tensor], changed: torch.Tensor) -> bool:
    """Whether outputs stay the same, bit for bit, when the input `changed` is negated; it is put back afterwards.

    The kernel is to be run once before. Outputs of all zeros say nothing, and count as fresh.
    """
    before = [output.clone() for output in outputs]
    _negate(changed)
    run()
    torch.cuda.synchronize()
    same = all(
        torch.equal(old.view(torch.uint8), new.view(torch.uint8)) for old, new in zip(before, outputs, strict=True)
    )
    _negate(changed)
    run()
    return same and any(bool(output.any()) for output in before)


def _negate(numbers: torch.Tensor) -> None:
    """Change the sign of all, of fp8 as well, which torch does not negate."""
    if numbers.is_floating_point() and numbers.element_size() == 1:
        numbers.view(torch.uint8).bitwise_xor_(0x80)
    else:
        numbers.neg_()


def watch_streams(run: Callable[[], object]) -> tuple[float, float]:
    """Host time until the current stream has done some runs, and from then until the whole GPU has [s]."""
    runs = 1
    while True:
        end = torch.cuda.Event()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(runs):
            run()
        end.record()
        end.synchronize()
        stream_ended = time.perf_counter()
        torch.cuda.synchronize()
        done = time.perf_counter()
        if done - begin >= LEAST_WAIT_S:
            return stream_ended - begin, done - stream_ended
        runs *= 2


def ran(name: str, grid: tuple[int, int, int], kernel: Any) -> LaunchMeasurement:
    """What Triton says of a kernel that ran. Args: name, grid: of its launch; kernel: what Triton returned."""
    kernel._init_handles()
    return LaunchMeasurement(
        name=name,
        grid=grid,
        num_warps=kernel.metadata.num_warps,
        registers_per_thread=kernel.n_regs,
        spilled_bytes_per_thread=kernel.n_spills * SPILL_BYTES,
        smem_bytes_per_cta=kernel.metadata.shared,
        counters={},
    )
