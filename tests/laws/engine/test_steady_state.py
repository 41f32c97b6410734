"""Continuing a large grid from its steady state, against stepping through all of it.

What is continued is held to 0.5 % of the bytes and 2 % of the cycles, or the grid is stepped on.
Bytes are relative to what moves there; where that is little, to a tenth of what device memory moves,
or, of L2 and L1, to a quarter and all of what SMs ask for (`extrapolate.BYTES_TOLERANCE`).
"""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from laws.cases import Case, bytes_touched_first, continued
from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.engine.lower import lower_tensors
from tilesight.simulator.engine.touched import touched_bytes
from tilesight.simulator.launch.walk import begin_alike, tally
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import launches_of, simulate

COUNTED = (
    "l2_write_bytes",
    "matmul_flop",
    "executed_flop",
    "other_flop",
    "exp_count",
    "smem_read_bytes",
    "smem_write_bytes",
)
"""Figures that are counted, whatever is stepped through."""
BYTES, CYCLES = 0.005, 0.025
H200, A100, RTX_4090 = (load_device(name) for name in ("h200", "a100-sxm-80gb", "rtx-4090"))
SLICE = replace(H200, name="8 SMs and 4 MiB of an H200", sms=8, l2_bytes=4 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Large:
    """A grid, and the largest share of its least stepped launch that may be stepped through at the costs of tiles."""

    problem: AttentionProblem
    schedule: str = "flash2"
    config: Config | None = None
    device: Device
    at_most: float


def problem(batch: int, heads: int, seqlen: int, head_dim: int = 64, **more: int | bool) -> AttentionProblem:
    """As many queries as keys, unless said otherwise."""
    shape = {"batch": batch, "heads": heads, "seqlen_q": seqlen, "seqlen_k": seqlen, "head_dim": head_dim}
    return AttentionProblem(**shape | more)  # type: ignore[arg-type]


LARGE = {
    "short keys": Large(problem=problem(64, 128, 128, seqlen_k=256), device=H200, at_most=0.7),
    "causal": Large(
        problem=problem(64, 32, 1024, 128, causal=True), config=Config(num_stages=2), device=A100, at_most=0.95
    ),
    "causal, shared KV heads, plain loads": Large(
        problem=problem(16, 32, 2048, 128, kv_heads=8, causal=True),
        config=Config(num_stages=1, block_m=64),
        device=RTX_4090,
        at_most=0.8,
    ),
    "head-fast": Large(
        problem=problem(16, 16, 1024), config=Config(num_stages=3, cta_order="head-fast"), device=SLICE, at_most=0.8
    ),
    "head-fast, causal, rows without keys": Large(
        problem=problem(64, 4, 1024, causal=True, seqlen_k=512),
        config=Config(block_m=32, num_stages=2, cta_order="head-fast"),
        device=SLICE,
        at_most=1.0,
    ),
    "unfused, causal": Large(problem=problem(8, 8, 512, causal=True), schedule="unfused", device=SLICE, at_most=0.9),
    "naive": Large(problem=problem(8, 8, 1024), schedule="naive", device=SLICE, at_most=0.7),
    "softmax": Large(
        problem=problem(16, 8, 256, seqlen_k=2000), schedule="online_softmax", device=SLICE, at_most=0.5
    ),
}  # fmt: skip


@pytest.mark.parametrize("cost", ["tiles", "compiled"])
@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE)
def test_a_steady_state_comes_close_to_the_full_run(large: Large, cost: str) -> None:
    """In all that moves; counts are exact."""
    part, whole = (
        simulate(
            large.problem,
            schedule=large.schedule,
            config=large.config,
            device=large.device,
            steady_state=steady,
            cost=cost,
        )
        for steady in (True, False)
    )
    assert cost == "compiled" or min(launch.simulated_fraction for launch in part.launches) <= large.at_most
    assert all(launch.simulated_fraction == 1 for launch in whole.launches)
    chosen = large.config or find_schedule(large.schedule).default
    programs = [launch.program for launch in launches_of(large.problem, large.schedule, chosen, large.device)]
    for seen, full, program in zip(part.launches, whole.launches, programs, strict=True):
        new, old = seen.traffic, full.traffic
        for name in COUNTED:
            assert getattr(new, name) == getattr(old, name)
        if seen.simulated_fraction == 1:
            continue  # what follows a launch that was continued begins with its CTAs and L2 in another order
        asked = sum(tally(program).load_bytes.values())
        hbm = old.hbm_read_bytes + old.hbm_write_bytes
        assert new.cycles == pytest.approx(old.cycles, rel=CYCLES)
        assert new.hbm_read_bytes == pytest.approx(old.hbm_read_bytes, rel=BYTES)
        assert new.hbm_write_bytes == pytest.approx(old.hbm_write_bytes, rel=BYTES, abs=BYTES * hbm / 10)
        assert new.fabric_bytes == pytest.approx(old.fabric_bytes, rel=BYTES, abs=BYTES * hbm / 10)
        assert new.l2_read_bytes == pytest.approx(old.l2_read_bytes, rel=BYTES, abs=BYTES * asked / 4)
        assert new.l1_hit_bytes == pytest.approx(old.l1_hit_bytes, abs=BYTES * asked)


@settings(max_examples=40, deadline=None)
@given(case=continued())
def test_a_continued_grid_reads_and_stores_every_byte(case: Case) -> None:
    """From an empty L2 never less than each byte once; and all that is stored is counted."""
    total = case.simulate().total
    assert total.hbm_read_bytes >= bytes_touched_first(case.launches, "load")
    assert total.l2_write_bytes == sum(sum(tally(launch.program).store_bytes.values()) for launch in case.launches)


@settings(max_examples=40, deadline=None)
@given(case=continued())
def test_what_a_launch_touches_is_what_it_reads_where_nothing_is_read_twice(case: Case) -> None:
    """Coverage alone says what a full run with room for all reads from device memory in its first launch."""
    roomy = replace(case, device=replace(case.device, l2_bytes=1 << 30), steady_state=False)
    first = roomy.launches[0]
    tensors = lower_tensors(roomy.launches, roomy.device, "chunk")
    read = roomy.simulate().launches[0].traffic.hbm_read_bytes
    # Ends of rows that begin anywhere within sectors are shared with what is beside them, in the mean.
    off = 0.0 if begin_alike(first.program) else 0.05
    assert read == pytest.approx(touched_bytes(first.program, tensors), rel=off, abs=64 * (off > 0))


@pytest.mark.parametrize(
    "shape",
    [
        problem(4, 32, 4096),
        problem(1, 8, 16384),
        problem(1, 1, 65536, causal=True),
        problem(2, 16, 300, seqlen_k=5000),
    ],
    ids=lambda shape: f"B{shape.batch}H{shape.heads}N{shape.seqlen_q}",
)
def test_where_nothing_is_skipped_nothing_differs(shape: AttentionProblem) -> None:
    """A grid of a few waves is stepped through anyway, and gives the same to the last bit."""
    part, whole = (simulate(shape, config=Config(num_stages=3), steady_state=steady) for steady in (True, False))
    assert part.launches[0].simulated_fraction == 1
    assert part == whole


def test_inputs_of_short_keys_are_all_read() -> None:
    """Q, K and V of 8,192 heads, each once, though a quarter of them is never stepped through."""
    seen = simulate(problem(64, 128, 128, seqlen_k=256), device=H200)
    assert seen.launches[0].simulated_fraction < 0.75
    assert seen.total.hbm_read_bytes == 64 * 128 * (128 + 2 * 256) * 64 * 2


def test_a_grid_ten_times_as_long_costs_hardly_more_steps() -> None:
    """The steps taken depend on waves and L2 capacity, not on the length of the grid."""
    taken = []
    for batch in (16, 160):
        shape = problem(batch, 8, 256, seqlen_k=2000)
        seen = simulate(shape, schedule="online_softmax", device=SLICE).launches[0]
        taken.append(seen.simulated_fraction * seen.grid[0])
    assert taken[1] < 4 * taken[0]


def test_a_million_sequences_are_answered_for() -> None:
    """A launch of millions of CTAs, whose tensors do not fit any memory, steps through a part of them."""
    seen = simulate(problem(1_000_000, 1, 512), device=H200).launches[0]
    assert seen.grid[0] == 4_000_000
    assert seen.simulated_fraction < 0.4
    assert seen.traffic.hbm_read_bytes >= 0.999 * 3 * 1_000_000 * 512 * 64 * 2
