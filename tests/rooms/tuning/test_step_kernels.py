"""Configurations of a step's Triton kernels: chosen as tuners choose, on an L2 that holds nothing of the step."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tilesight.kernels.compile.call import KernelLaunch
from tilesight.simulator.device.device import load_device
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.operations.cost_model import empty_kernel_s
from tilesight.simulator.operations.operation import Operand, Operation, RecordedStep
from tilesight.simulator.operations.price import price_around_triton
from tilesight.simulator.prediction.kernel_row import KernelRow
from tilesight.simulator.prediction.kernels import Request
from tilesight.simulator.screening.static_time import StaticWork

from tilesight.tuning import step_kernels
from tilesight.tuning.step_kernels import simulated_kernels

TIMES_S = {"cold": {4: 3e-6, 8: 2e-6}, "warm": {4: 1e-6, 8: 1.5e-6}}
"""Warps -> time: eight are faster on a flushed L2, four where the step has left the data."""


def launch(num_warps: int, ctas: int = 1) -> KernelLaunch:
    """A configuration of a kernel over one storage."""
    return KernelLaunch(
        name="scale",
        file="",
        line=1,
        grid=(ctas, 1, 1),
        num_warps=num_warps,
        num_stages=1,
        num_ctas=1,
        job={"signature": [["X", "*bf16"]]},
        arguments={"X": 1 << 40},
        storages=(Storage(number=0, size_bytes=1 << 20, name="X"),),
    )


def predicted(calls: Sequence[KernelLaunch], *_: Any) -> list[KernelRow]:
    """Rows by the times above."""
    rows = []
    for call in calls:
        traffic = SimpleNamespace(time_s=TIMES_S["warm" if call.before else "cold"][call.num_warps])
        for name in ("hbm_read_bytes", "hbm_write_bytes", "l2_read_bytes", "l2_write_bytes"):
            setattr(traffic, name, 0.0)
        made = cast(Any, SimpleNamespace(traffic=traffic, bottleneck="hbm"))
        rows.append(KernelRow(name="scale", grid=call.grid, num_warps=call.num_warps, num_stages=1, prediction=made))
    return rows


def test_a_tuner_chooses_on_a_flushed_l2_and_the_step_runs_its_choice_on_what_it_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second kernel finds its data in L2; it runs with eight warps all the same, since the tuner saw a miss."""
    x = Operand(shape=(1 << 19,), dtype="bfloat16", strides=(1,), storage=0, storage_bytes=1 << 20)
    scale = Operation(kind="triton", name="scale", inputs=(x,), outputs=(x,), calls=(0, 1))
    step = RecordedStep(operations=(scale, scale), mode="compiled", peak_bytes=1 << 20)
    recorded = cast(Any, SimpleNamespace(step=step, calls=(launch(4), launch(8))))
    monkeypatch.setattr(step_kernels, "predicted_rows", predicted)
    monkeypatch.setattr(step_kernels, "static_s", lambda calls, *_: [1e-6] * len(calls))
    device = load_device("h200")
    before = price_around_triton(step, device, l2="warm").before
    times_s = [
        kernel.time_s
        for kernel in simulated_kernels(recorded, before, Request(device=device, name="h200")).values()
        if not isinstance(kernel, str)
    ]
    assert times_s == [step_kernels.as_profiled_s(TIMES_S["warm"][8], device)] * 2


@pytest.mark.parametrize(
    ("static_us", "asked"),
    [
        ((1.0, 2.0, 2.1), [1, 2]),  # one is out of reach
        ((5.0, 2.0, 5.0), []),  # one alone is left: it is the choice
        ((5.0, 0.0, 1.0), [2, 3]),  # nobody knows of the second
        ((0.0, 0.0, 0.0), [1, 2, 3]),
    ],
)
def test_configurations_of_more_than_twice_the_least_static_time_are_not_predicted(
    static_us: tuple[float, ...], asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that nobody has a static time of are."""
    grids: list[list[int]] = []

    def noting(calls: Sequence[KernelLaunch], *rest: Any) -> list[KernelRow]:
        grids.append([call.grid[0] for call in calls])
        return predicted(calls, *rest)

    x = Operand(shape=(1 << 19,), dtype="bfloat16", strides=(1,), storage=0, storage_bytes=1 << 20)
    scale = Operation(kind="triton", name="scale", inputs=(x,), outputs=(x,), calls=(0, 1, 2))
    step = RecordedStep(operations=(scale,), mode="compiled", peak_bytes=1 << 20)
    recorded = cast(Any, SimpleNamespace(step=step, calls=(launch(4, 1), launch(8, 2), launch(4, 3))))
    monkeypatch.setattr(step_kernels, "predicted_rows", noting)
    monkeypatch.setattr(step_kernels, "static_s", lambda *_: [us * 1e-6 for us in static_us])
    before = price_around_triton(step, load_device("h200"), l2="warm").before
    simulated_kernels(recorded, before, Request(device=load_device("h200"), name="h200"))
    assert grids == [asked, [2]]


def test_a_static_time_is_at_least_that_of_handing_out_the_ctas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten million CTAs take 5 ms; of a launch that is refused nothing is known."""
    work = StaticWork(ctas=10**7, resident=8, sm_cycles=0.0, fill_bytes=0.0, hbm_bytes=0.0, flight_bytes=0.0)
    monkeypatch.setattr(step_kernels, "static_work", lambda call, _: work if call.num_warps == 4 else None)
    device = load_device("h200")
    handed_out_s = 10**7 * device.cta_dispatch_cycles / device.boost_clock_hz
    assert step_kernels.static_s([launch(4), launch(8)], device) == pytest.approx(
        [empty_kernel_s(device) + handed_out_s, 0.0]
    )
