"""Few lines that all SMs read: the slices of L2 in which they lie take one request after the other."""

from dataclasses import replace

import numpy as np
import pytest
from machine.toys import launch, run
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.launch.program import Launch, Loop, Step, Tensor, Tile

H200 = load_device("h200")
CTAS, TIMES, WARPS, LINE_BYTES = 528, 64, 8, 128
REQUESTS = CTAS * TIMES * WARPS


def reads(lines: int) -> Launch:
    """Each warp of each CTA loads a line, 64 times; all of so many lines, past L1."""
    held = Tensor(name="X", role="input", slabs=1, rows=lines, cols=LINE_BYTES, dtype=DTYPES["u8"])
    names = [f"warp{warp}" for warp in range(WARPS)]
    loads = tuple(
        Tile(tensor="X", slab="slab", rows=1, cols=LINE_BYTES, row=((name, 1),), path="uncached") for name in names
    )
    line = np.random.default_rng(0).integers(lines, size=(CTAS, WARPS))
    items = np.concatenate([np.zeros((CTAS, 1), dtype=np.int64), line], axis=1)
    body = (Loop(counter="i", trips=TIMES, body=(Step(name="load", loads=loads),)),)
    return launch(body, (held,), items.tolist(), ("slab", *names))


def ns_a_request(lines: int, gpu: Device = H200) -> float:
    """Nanoseconds from one request of a warp to the next."""
    return run(reads(lines), gpu=gpu).cycles / gpu.boost_clock_hz * 1e9 / REQUESTS


@pytest.mark.parametrize(("lines", "measured_ns"), [(1, 0.153), (2, 0.153), (4, 0.080)])
def test_one_hot_line_is_read_at_the_pace_of_an_h200(lines: int, measured_ns: float) -> None:
    """A request of a warp every 0.15 ns, two lines of a block alike, four in half (validate/lab/hot_lines.cu)."""
    assert ns_a_request(lines) == pytest.approx(measured_ns, rel=0.1)


def test_many_lines_lie_in_all_slices() -> None:
    """Of 4,096 lines the port decides, whatever a slice takes for a request."""
    free = replace(H200, sm=replace(H200.sm, l2_request_s=0.0))
    assert ns_a_request(4096) == pytest.approx(ns_a_request(4096, free), rel=0.03)
    assert ns_a_request(1, free) < 0.5 * ns_a_request(1)


def test_a_device_whose_slices_are_not_known_takes_requests_as_they_come() -> None:
    """As it takes additions."""
    unknown = replace(H200, l2_slices=0)
    assert ns_a_request(1, unknown) < 0.5 * ns_a_request(1)
