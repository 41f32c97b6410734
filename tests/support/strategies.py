"""Hypothesis strategies that all test suites share: small problems, configurations, toy devices."""

from dataclasses import replace
from functools import cache

from hypothesis import strategies as st
from tilesight.simulator.device.device import Device
from tilesight.simulator.device.sm_numbers import load_sm
from tilesight.simulator.device.torch_kernels import TorchKernels
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.contract import Schedule
from tilesight.simulator.schedules.options import Option
from tilesight.simulator.schedules.registry import find_schedule

TOY = Device(
    name="toy",
    compute_capability="8.0",
    sm=replace(load_sm("sm_80"), cta_place_cycles=0.0, cta_place_warp_cycles=0.0),
    torch_kernels=TorchKernels(architecture="sm_80"),
    sms=2,
    boost_clock_hz=1e9,
    tensor_boost_clock_hz=1e9,
    tensor_rest_cycles=1000,
    tensor_restart_s=0,
    tensor_clock_hz=1e9,
    mixed_clock_hz=1e9,
    power_limit_w=100,
    registers_per_sm=65536,
    max_registers_per_thread=255,
    max_warps_per_sm=64,
    max_ctas_per_sm=16,
    max_threads_per_cta=1024,
    smem_per_sm_bytes=167936,
    smem_per_cta_bytes=166912,
    smem_reserved_per_cta_bytes=1024,
    l1_bytes=196608,
    l1_latency_cycles=30,
    sm_fill_bytes_per_cycle=64,
    l2_bytes=1 << 20,
    l2_dirty_fraction=1,
    l2_set_spread=0,
    gpc_clock_spread=0,
    l2_partitions=1,
    sector_bytes=32,
    line_bytes=128,
    l2_bytes_per_s=2e11,
    l2_write_bytes_per_s=2e11,
    l2_latency_cycles=200,
    fabric_bytes_per_s=1e11,
    fabric_latency_cycles=100,
    coalescer_sms=1,
    hbm_bytes=1 << 32,
    hbm_peak_bytes_per_s=1e11,
    hbm_read_bytes_per_s=9e10,
    hbm_write_bytes_per_s=9e10,
    hbm_channels=1,
    hbm_mixed_fraction=1,
    hbm_part_line_fraction=1,
    hbm_piece_write_bytes=0,
    hbm_latency_s=2e-7,
    hbm_piece_latency_s=0,
    hbm_turn_s=0,
    mma_fp16_flop_per_cycle=2048,
    mma_tf32_flop_per_cycle=1024,
    fma_per_cycle=64,
    alu_per_cycle=64,
    mufu_per_cycle=16,
    issue_per_cycle=4,
    smem_bytes_per_cycle=128,
    launch_ramp_cycles=0,
    cta_dispatch_cycles=1,
    launch_stream_s=5e-6,
    launch_graph_s=1e-6,
)
"""A GPU of round numbers: two SMs, a 1 MiB L2 of one partition, mma.sync only."""

TOY_WGMMA = replace(TOY, compute_capability="9.0", wgmma_fp16_flop_per_cycle=4096, wgmma_tf32_flop_per_cycle=2048)
TOY_TCGEN05 = replace(
    TOY, compute_capability="10.0", tcgen05_fp16_flop_per_cycle=8192, tcgen05_tf32_flop_per_cycle=4096
)
HEAD_DIMS = (16, 24, 40, 64)
DTYPES = ("fp32", "fp16", "bf16")
# Lengths of several tiles, ragged and exact, drawn as often as tiny ones; so the many-tile cases really are taken.
LENGTHS = st.one_of(st.integers(65, 150), st.sampled_from((64, 128, 96)), st.integers(1, 33))
LONG_ROW = st.integers(16385, 20000)
CHOICES = {
    "block_m": (32, 16, 64),
    "block_n": (32, 16, 64),
    "num_warps": (1, 2, 4, 8),
    "num_stages": (1, 2, 3),
    "persistent": (0, 1, 2),
}
"""Option -> values that keep examples small; of other options, those that are allowed."""
FEW_ROWS = (4, 8)
SPECIALISED = {"block_m": 128, "num_warps": 4, "num_stages": 2}
"""What warp specialisation goes with, in problems of every length."""


@cache
def toys(schedule: str) -> tuple[Device, ...]:
    """The toy devices that have what a schedule needs, the plainest first."""
    chosen, able = find_schedule(schedule), []
    for device in (TOY, TOY_WGMMA, TOY_TCGEN05):
        try:
            chosen.launches(
                AttentionProblem(batch=1, heads=1, seqlen_q=1, seqlen_k=1, head_dim=16), chosen.default, device
            )
        except ValueError as error:
            assert "compute capability" in str(error)
        else:
            able.append(device)
    return tuple(able)


def devices(schedule: Schedule) -> st.SearchStrategy[Device]:
    """Toy devices of 1 to 5 SMs with each class of tensor-core instruction on which a schedule can run."""
    return st.builds(
        lambda device, sms: replace(device, sms=sms), st.sampled_from(toys(schedule.name)), st.integers(1, 5)
    )


def dtypes_of(config: Config, among: tuple[str, ...] = DTYPES) -> tuple[str, ...]:
    """Those element types with which a configuration goes."""
    return tuple(dtype for dtype in among if not config.named().get("warp_specialize") or dtype in ("fp16", "bf16"))


@st.composite
def problems(draw: st.DrawFn, *, dtypes: tuple[str, ...] = DTYPES, windows: tuple[int, ...] = (0,)) -> AttentionProblem:
    """Small problems: ragged lengths, M != N either way, grouped heads, odd head dims, causal or not."""
    kv_heads = draw(st.integers(1, 2))
    return AttentionProblem(
        batch=draw(st.integers(1, 2)),
        heads=kv_heads * draw(st.integers(1, 3)),
        kv_heads=kv_heads,
        seqlen_q=draw(LENGTHS),
        seqlen_k=draw(LENGTHS),
        head_dim=draw(st.sampled_from(HEAD_DIMS)),
        dtype=draw(st.sampled_from(dtypes)),
        causal=draw(st.booleans()),
        window=draw(st.sampled_from(windows)),
        dropout=draw(st.sampled_from((0.0, 0.1))),
    )


def windows_of(schedule: Schedule) -> tuple[int, ...]:
    """Windows to try: none, shorter and longer than tiles; none alone where a schedule has no such mask."""
    takes = any(item.name == "window" for item in schedule.problem.FIELDS) and "window" in schedule.reads
    return (0, 0, 1, 20, 70) if takes else (0,)


def read_by(schedule: Schedule, problem: AttentionProblem) -> AttentionProblem:
    """A problem without what a schedule has none of: a mask, or dropout."""
    taken = schedule.reads if schedule.problem is AttentionProblem else ()
    return replace(problem, **{name: value for name, value in problem.ASKS_NOTHING.items() if name not in taken})


@st.composite
def long_row_problems(draw: st.DrawFn, *, dtypes: tuple[str, ...] = DTYPES) -> AttentionProblem:
    """Few queries, and more keys than a CTA holds of a row in registers."""
    return AttentionProblem(
        batch=1,
        heads=2,
        kv_heads=draw(st.integers(1, 2)),
        seqlen_q=draw(st.integers(1, 3)),
        seqlen_k=draw(LONG_ROW),
        head_dim=16,
        dtype=draw(st.sampled_from(dtypes)),
        causal=draw(st.booleans()),
    )


def choices_of(option: Option) -> tuple[int | str, ...]:
    """Values of an option to try."""
    return CHOICES.get(option.name) or tuple(option.values[:4])


@st.composite
def configs(draw: st.DrawFn, schedule: Schedule) -> Config:
    """Configurations of a schedule: every option that it reads, tile sizes small; few rows where it takes them."""
    choices = {name: choices_of(option) for name, option in schedule.options.items()}
    if "block_m" in choices:
        choices["block_m"] += tuple(rows for rows in FEW_ROWS if rows in schedule.options["block_m"].values)
    chosen = {name: draw(st.sampled_from(values)) for name, values in choices.items()}
    return schedule.config(**(chosen | (SPECIALISED if chosen.get("warp_specialize") else {})))


@st.composite
def divisible_problems(draw: st.DrawFn, config: Config) -> AttentionProblem:
    """Problems without mask that the tiles of a configuration cover exactly, rows in whole sectors."""
    kv_heads = draw(st.integers(1, 2))
    return AttentionProblem(
        batch=draw(st.integers(1, 2)),
        heads=kv_heads * draw(st.integers(1, 3)),
        kv_heads=kv_heads,
        seqlen_q=config.block_m * draw(st.integers(1, 4)),
        seqlen_k=max(config.block_n, 32) * draw(st.integers(1, 4)),
        head_dim=draw(st.sampled_from((16, 32, 64))),
        dtype=draw(st.sampled_from(dtypes_of(config))),
    )
