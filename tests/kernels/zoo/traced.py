"""What traced programs of the zoo's kernels touch: sectors, by CTA, kind and tensor, from their tiles."""

from dataclasses import replace
from functools import cache

import numpy as np
from tilesight.kernels.capture.lowering import lower
from tilesight.kernels.compile.calls import compile_calls
from tilesight.simulator.launch.program import Launch, Loop, Step
from tilesight.simulator.launch.walk import accesses
from tilesight.simulator.residency.l1_room import kept_of
from tilesight.simulator.trace.cta.traced_kernel import CompiledKernel
from tilesight.simulator.trace.program.launch import Traced, launches_of, trace

import tilesight

SECTOR_BYTES = 32
DEVICE = tilesight.load_device("h200")


@cache
def traced(case) -> tuple[Traced, Launch]:
    """The one launch of a case, on tensors without data. Args: case: function of a device that makes a launch."""
    with tilesight.capture() as launches:
        case("meta")()
    (launch,) = launches
    (outcome,) = compile_calls([lower(launch, 90)], DEVICE, workers=1)
    assert isinstance(outcome, CompiledKernel), outcome
    kernel = trace(outcome, kept_of(outcome.resources, outcome.grid, DEVICE))
    return kernel, launches_of([kernel])[0]


def _without_returns(body: tuple[Step | Loop, ...]) -> tuple[Step | Loop, ...]:
    return tuple(
        replace(node, body=_without_returns(node.body))
        if isinstance(node, Loop)
        else replace(node, loads=tuple(tile for tile in node.loads if tile.path != "atomic"))
        for node in body
    )


def sectors(launch: Launch) -> dict[str, dict[str, list[int]]]:
    """CTA, as `x,y,z` -> `load X`, `store X` -> sectors from the tensor's begin.

    Descriptors that the compiler has kernels write to their workspace are left out: the interpreter writes none. So is
    what atomics give back, which counts as stored.
    """
    launch = replace(launch, program=replace(launch.program, body=_without_returns(launch.program.body)))
    touched_by_cta: dict[str, dict[str, list[int]]] = {}
    x, y, _ = launch.grid
    for cta in range(launch.cta_count):
        by_key: dict[str, set[int]] = {}
        for access in accesses(launch.program, cta):
            if access.tensor == "workspace":
                continue
            pitch = launch.program.tensor(access.tensor).pitch_bytes
            touched = by_key.setdefault(f"{access.kind} {access.tensor}", set())
            for begin in ((access.row + np.arange(access.rows)) * pitch + access.col).tolist():
                touched.update(range(begin // SECTOR_BYTES, (begin + access.cols - 1) // SECTOR_BYTES + 1))
        if by_key:
            touched_by_cta[f"{cta % x},{cta // x % y},{cta // (x * y)}"] = {
                key: sorted(numbers) for key, numbers in by_key.items()
            }
    return touched_by_cta
