"""The GPU side of timing on a GPU that is made up: the order of a lap, the gate, and the compiled instruments."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from tilesight.validate.timing import device_kernels
from tilesight.validate.timing import track as room
from tilesight.validate.timing.track import SHORTEST_GATE_S, Track

NS = 1_000_000_000


class MadeUpGpu:
    """Keeps what is enqueued, in order; a kernel takes a millisecond, and the SMs tick at 1.5 GHz.

    Args:
        late: laps in which the host is slower than the gate.
    """

    def __init__(self, late: int = 0) -> None:
        self.late, self.now_s = late, 0.0
        self.queue: list[str] = []
        self.gates_cycles: list[int] = []

    def enqueue(self, what: str, time_s: float = 0.0) -> None:
        """Run something."""
        self.queue.append(what)
        self.now_s += time_s

    def sleep(self, cycles: int) -> None:
        """The gate, or a launch that does nothing."""
        if cycles:
            self.gates_cycles.append(cycles)
        self.enqueue("gate" if cycles else "nothing")

    def event(self, enable_timing: bool = False) -> Any:
        """An event; the gate's says whether the host is late."""
        seen = SimpleNamespace(at_s=0.0)

        def record() -> None:
            seen.at_s = self.now_s
            if enable_timing:
                self.queue.append("event")

        def query() -> bool:
            self.late -= 1
            return self.late >= 0

        return SimpleNamespace(
            record=record, query=query, elapsed_time=lambda end: (end.seen.at_s - seen.at_s) * 1e3, seen=seen
        )

    def kernel(self, what: str) -> Any:
        """A Triton function."""

        def launch(*arguments: Any, **options: Any) -> None:
            self.enqueue(what)
            if what == "clock":
                (reads,) = arguments
                reads[:, 0] = torch.arange(reads.shape[0]) % 2
                reads[:, 1] = round(self.now_s * 1.5e9)
                reads[:, 2] = round(self.now_s * NS)

        class Function:
            def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
                return launch

        return Function()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> MadeUpGpu:
    """A GPU of two SMs with an L2 of 64 KiB, in the place of torch's."""
    made_up = MadeUpGpu()
    properties = SimpleNamespace(multi_processor_count=2, L2_cache_size=1 << 16)
    for name, stand_in in (
        ("get_device_properties", lambda device: properties),
        ("Event", made_up.event),
        ("_sleep", made_up.sleep),
        ("synchronize", lambda: None),
    ):
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(room, "overwrite_kernel", made_up.kernel("overwrite"))
    monkeypatch.setattr(room, "discard_kernel", made_up.kernel("discard"))
    monkeypatch.setattr(room, "read_clock_kernel", made_up.kernel("clock"))
    return made_up


def taken(gpu: MadeUpGpu, **options: Any) -> tuple[Any, list[str]]:
    """A lap of a run of one millisecond, and what it enqueued."""
    track = Track("cpu")
    gpu.queue.clear()
    lap = track.lap(lambda: gpu.enqueue("run", 1e-3), **options)
    return lap, gpu.queue


def test_a_cold_lap_flushes_before_each_sample_and_outside_it(gpu: MadeUpGpu) -> None:
    """Gate, clock, then both parts of the flush, event, run, event for each sample, and the clock once more."""
    _, queue = taken(gpu, samples=2, repeats=1, cold=True)
    assert queue == ["gate", "clock", *["overwrite", "discard", "event", "run", "event"] * 2, "clock"]


def test_a_warm_lap_repeats_the_run_between_two_events(gpu: MadeUpGpu) -> None:
    """Without a flush."""
    lap, queue = taken(gpu, samples=2, repeats=3, cold=False)
    assert queue == ["gate", "clock", *["event", "run", "run", "run", "event"] * 2, "clock"]
    assert lap.samples_s == pytest.approx((3e-3, 3e-3))


def test_the_clock_covers_the_samples(gpu: MadeUpGpu) -> None:
    """From before the first to after the last."""
    lap, _ = taken(gpu, samples=4, repeats=1, cold=True)
    assert lap.span_s == pytest.approx(4e-3)
    assert lap.cycles == pytest.approx(4e-3 * 1.5e9)


def test_a_lap_in_which_the_host_was_late_is_taken_again(gpu: MadeUpGpu) -> None:
    """The GPU waited for the host, so the samples are thrown away."""
    gpu.late = 2
    lap, queue = taken(gpu, samples=1, repeats=1, cold=False)
    assert not lap.host_late
    assert queue.count("gate") == 3


def test_a_host_that_is_always_late_is_told(gpu: MadeUpGpu) -> None:
    """After some tries the lap is returned as it is, marked."""
    gpu.late = 1000
    lap, queue = taken(gpu, samples=1, repeats=1, cold=False)
    assert lap.host_late
    assert queue.count("gate") == room.TRIES


def test_the_gate_grows_with_the_hosts_work(gpu: MadeUpGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that took ten milliseconds gets a gate of twenty the next time, and a quick one the shortest."""
    ticks = iter([0.0, 0.010, 1.0, 1.0001, 2.0, 2.0001])
    monkeypatch.setattr(room.time, "perf_counter", lambda: next(ticks))
    track = Track("cpu")
    for _ in range(3):
        track.lap(lambda: None, samples=1, repeats=1, cold=False)
    assert [cycles / room.FASTEST_HZ for cycles in gpu.gates_cycles] == pytest.approx(
        [SHORTEST_GATE_S, 0.020, SHORTEST_GATE_S]
    )


def test_the_flush_is_several_times_the_l2(gpu: MadeUpGpu) -> None:
    """And what the track holds can be taken off a peak."""
    assert Track("cpu").held_bytes >= room.FLUSH_L2_SIZES * (1 << 16)


def compiled(function: Any, signature: dict[str, str], constants: dict[str, int]) -> str:
    """PTX of a kernel for an H200."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(
        fn=function,
        signature=signature,
        constexprs={(function.arg_names.index(name),): value for name, value in constants.items()},
        attrs={(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]} if len(signature) > 1 else {},
    )
    return str(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"])


def test_the_clock_is_read_together_with_sm_and_time() -> None:
    """In one piece of assembly that the compiler neither drops nor tears apart."""
    ptx = compiled(device_kernels.read_clock_kernel, {"out_ptr": "*i64"}, {})
    line = next(line for line in ptx.splitlines() if "%clock64" in line)
    assert "%smid" in line
    assert "%globaltimer" in line


def test_the_flush_overwrites_and_then_drops_every_line() -> None:
    """Wide stores; and for each 128 bytes one instruction that makes the line forget that it is dirty."""
    written = {"elements": device_kernels.FLUSH_ELEMENTS}
    signature = {"buffer_ptr": "*i32", "elements": "constexpr"}
    assert "st.global.v4.b32" in compiled(device_kernels.overwrite_kernel, signature, written)
    step = {"step": device_kernels.DISCARD_ELEMENTS}
    ptx = compiled(device_kernels.discard_kernel, signature | {"step": "constexpr"}, written | step)
    lines_a_thread = device_kernels.FLUSH_ELEMENTS * 4 // 128 // 128
    assert ptx.count("discard.global.L2") == lines_a_thread
    assert "st.global" not in ptx
