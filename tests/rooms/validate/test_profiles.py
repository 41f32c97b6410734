"""What a profiler's trace says: kernels, passes, gaps, and whose attention it is."""

from typing import Any

import pytest
from tilesight.validate.timing.kernel_runs import KernelRun, Pass, family_of, kernels_in, pass_of, short_name

FLASH = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4> >(Flash_fwd_params)"
)
EFFICIENT = "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::half_t>::Params)"
CUDNN = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0"
OTHER_FLASH = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >(flash::Flash_fwd_params)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<c10::Half, c10::Half, float, 10, false, false>(c10::Half*)"
PRODUCT = "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT"


def event(name: str, start_us: float, time_us: float, **others: Any) -> dict[str, Any]:
    """A kernel as the profiler exports it."""
    details = {"device": 0, "stream": 7, "registers per thread": 128, "shared memory": 49152}
    details |= {"grid": [4096, 1, 1], "block": [128, 1, 1]}
    return {"ph": "X", "cat": "kernel", "name": name, "ts": start_us, "dur": time_us, "args": details} | others


def trace(*events: dict[str, Any]) -> dict[str, Any]:
    """A trace with these events among others."""
    others = [{"ph": "M", "name": "process_name"}, {"ph": "X", "cat": "cpu_op", "name": "aten::bmm", "ts": 1, "dur": 2}]
    return {"schemaVersion": 1, "traceEvents": [*others, *events]}


def kernel(name: str, start_us: float, time_us: float) -> KernelRun:
    """A kernel as read from a trace."""
    (run,) = kernels_in(trace(event(name, start_us, time_us)))
    return run


def test_a_kernel_is_read_with_all_that_the_trace_knows() -> None:
    """Times in seconds, extents, registers, shared memory and stream."""
    (run,) = kernels_in(trace(event("scores_kernel", 1_000_000.5, 12.5)))
    assert (run.name, run.start_s, run.time_s) == ("scores_kernel", pytest.approx(1.0000005), pytest.approx(12.5e-6))
    assert (run.grid, run.num_warps, run.registers_per_thread) == ((4096, 1, 1), 4, 128)
    assert (run.smem_bytes_per_cta, run.stream) == (49152, 7)


def test_kernels_come_in_the_order_in_which_they_ran() -> None:
    """Traces are not sorted."""
    runs = kernels_in(trace(event("b", 20, 1), event("a", 10, 1)))
    assert [run.name for run in runs] == ["a", "b"]


def test_a_kernel_survives_json() -> None:
    """What a process on a GPU reads, the one that asked gets whole."""
    run = kernel("a", 1, 2)
    assert KernelRun.from_dict({**run.to_dict(), "grid": [4096, 1, 1], "block": [128, 1, 1]}) == run


def test_what_is_no_trace_is_refused() -> None:
    """Another JSON file has no kernels to read."""
    with pytest.raises(ValueError, match="trace: holds no traceEvents"):
        kernels_in({"schema": "other"})


def two_passes() -> list[KernelRun]:
    """Two passes of three kernels, the second slower; a long pause between the passes."""
    first = [kernel("a", 0, 10), kernel("b", 12, 20), kernel("c", 35, 30)]
    return [*first, kernel("a", 1000, 12), kernel("b", 1014, 22), kernel("c", 1041, 34)]


def test_a_pass_has_the_median_of_each_kernel() -> None:
    """In the order of the launches."""
    whole = pass_of(two_passes(), 2)
    assert whole.kernels == (
        ("a", pytest.approx(11e-6)),
        ("b", pytest.approx(21e-6)),
        ("c", pytest.approx(32e-6)),
    )
    assert whole.count == 3


def test_gaps_are_between_kernels_of_a_pass_and_not_between_passes() -> None:
    """Two and three microseconds in the first pass, two and five in the second; the pause does not count."""
    whole = pass_of(two_passes(), 2)
    assert whole.gap_s == pytest.approx(6e-6)
    assert whole.gap_fraction == pytest.approx(6 / 70)


def test_kernels_that_overlap_leave_no_negative_gap() -> None:
    """A kernel that starts before the last has ended fills no other gap."""
    whole = pass_of([kernel("a", 0, 10), kernel("b", 8, 10), kernel("c", 20, 10)], 1)
    assert whole.gap_s == pytest.approx(2e-6)


def test_the_dominating_kernel_is_the_one_that_takes_longest() -> None:
    """And its share is of the time in kernels, gaps left out."""
    name, share = pass_of(two_passes(), 2).dominating
    assert name == "c"
    assert share == pytest.approx(32 / 64)


@pytest.mark.parametrize(("names", "passes"), [("abcab", 2), ("abba", 2), ("", 2)])
def test_unequal_passes_are_refused(names: str, passes: int) -> None:
    """A pass that launches something else has no place in a median."""
    kernels = [kernel(name, 10 * place, 5) for place, name in enumerate(names)]
    with pytest.raises(ValueError, match=f"{len(names)} kernels are not 2 equal passes"):
        pass_of(kernels, passes)


def test_a_single_kernel_has_no_gaps() -> None:
    """There is nothing between one kernel."""
    assert Pass(kernels=(("a", 1e-3),), gap_s=0.0).gap_fraction == 0.0


@pytest.mark.parametrize(
    ("names", "family"),
    [
        ([FLASH], "flash"),
        ([EFFICIENT], "efficient"),
        ([CUDNN], "cudnn"),
        ([OTHER_FLASH], "flash-attn"),
        ([PRODUCT, SOFTMAX, PRODUCT], "math"),
        (["elementwise", FLASH], "flash"),
        ([PRODUCT], "unknown"),
        ([], "unknown"),
    ],
)
def test_the_family_is_told_by_the_kernels_names(names: list[str], family: str) -> None:
    """cuDNN's kernel calls itself flash as well, and torch's copy of FlashAttention is not the package."""
    assert family_of(names) == family


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (FLASH, "pytorch_flash::flash_fwd_kernel"),
        (EFFICIENT, "fmha_cutlassF_f16_aligned_64x64_rf_sm80"),
        (SOFTMAX, "softmax_warp_forward"),
        ("flash2_kernel", "flash2_kernel"),
    ],
)
def test_a_short_name_says_which_kernel(name: str, short: str) -> None:
    """Without return type, template arguments and parameters."""
    assert short_name(name) == short
