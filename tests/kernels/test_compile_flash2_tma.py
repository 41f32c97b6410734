"""flash2_tma compiled ahead of time: copies by TMA, wgmma, added warps, and the copies of a divided query tile."""

import re
from dataclasses import replace

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.refusal import Refusal
from tilesight.simulator.schedules.registry import find_schedule

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

from support.compiling import compile_launch
from tilesight.kernels.compile.compile import job_of, key_of
from tilesight.kernels.compile.outcomes import Compiled
from tilesight.kernels.compile.worker import compiled_kernel

pytestmark = pytest.mark.usefixtures("own_cache")

SCHEDULE = find_schedule("flash2_tma")
PROBLEM = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
SPECIALISED = {"block_m": 128, "num_warps": 4, "num_stages": 2, "warp_specialize": 1}
# The tensor-core instruction of each architecture that has TMA, for fp16 and for fp8.
DEVICES = {"h200": ("HGMMA", "QGMMA"), "b200": ("UTCHMMA", "UTCQMMA"), "rtx-5090": ("HMMA", "QMMA")}
COPY = re.compile(
    r"async_tma_copy_global_to_local \S+?\[([^\]]*)\]"
    r".*?tensordesc<(?:tensor<)?([0-9x]+)x[a-zA-Z].*-> !ttg\.memdesc<([0-9x]+)x"
)
SHIFTED = re.compile(r"(%\w+) = arith\.addi (%\w+), %c64_i32")


def compiled(problem: AttentionProblem = PROBLEM, device: str = "h200", **chosen: int) -> Compiled:
    """What the compiler makes of a configuration."""
    (launch,) = SCHEDULE.launches(problem, SCHEDULE.config(**chosen), load_device(device))
    outcome = compile_launch(launch, load_device(device))
    assert isinstance(outcome, Compiled), outcome
    return outcome


def copy_faults(ttgir: str) -> list[str]:
    """What Triton 3.6 is known to do wrong when it divides a query tile among warps, as far as its output shows it.

    A copy whose descriptor has more rows than the memory that it is to fill; one whose columns move with its rows;
    and a position in a mask that moves along with the index of a copy: it is shifted by half a tile twice.
    """
    faults = []
    for indices, block, memory in COPY.findall(ttgir):
        if not indices.split(", ")[-1].startswith("%c0"):
            faults.append(f"a copy from {indices}")
        rows, filled = [int(size) for size in block.split("x")], [int(size) for size in memory.split("x")]
        if [size for size in rows if size != 1] != filled:
            faults.append(f"a copy of {block} into {memory}")
    for region in re.split(r"partition\d+\(", ttgir)[1:]:
        faults += [f"a mask at {name}" for name, _ in SHIFTED.findall(region) if f"tt.splat {name} " in region]
    return faults


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["fp16", "fp8"])
def test_tiles_come_by_tma_on_every_architecture_that_has_it(device: str, dtype: str) -> None:
    """Not by any thread's loads; products run on the tensor cores of the architecture, in the element type."""
    outcome = compiled(replace(PROBLEM, dtype=dtype), device, block_m=64, block_n=64, num_warps=4, num_stages=2)
    assert outcome.count("UTMALDG") > 0
    assert outcome.count("LDG") == outcome.count("LDGSTS") == 0
    assert outcome.count(DEVICES[device][dtype == "fp8"]) > 0, outcome.instructions


@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_hopper_multiplies_by_wgmma_and_does_not_spill(head_dim: int, causal: bool) -> None:
    """With K and V of three stages in shared memory, as the estimate has it, barriers and alignment aside."""
    problem = replace(PROBLEM, head_dim=head_dim, causal=causal)
    outcome = compiled(problem, block_m=128, block_n=64, num_warps=head_dim // 16, num_stages=3)
    assert outcome.count("HGMMA") > outcome.count("HMMA") == 0
    assert outcome.resources.spilled_bytes_per_thread == 0
    assert outcome.resources.warps_per_cta == head_dim // 16
    assert 0 <= outcome.resources.smem_bytes_per_cta - 2 * head_dim * (128 + 3 * 2 * 64) <= 1024


@pytest.mark.parametrize(
    ("head_dim", "chosen"),
    [
        (64, {"block_n": 128}),
        (64, {"block_n": 64, "block_m": 256}),
        (128, {"block_n": 128}),
        (128, {"block_n": 32}),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_specialised_warps_are_twelve_and_do_not_spill(head_dim: int, chosen: dict[str, int], causal: bool) -> None:
    """Registers, warps and shared memory are those of the estimate, barriers aside; groups trade registers."""
    problem = replace(PROBLEM, head_dim=head_dim, causal=causal)
    (launch,) = SCHEDULE.launches(problem, SCHEDULE.config(**{**SPECIALISED, **chosen}), load_device("h200"))
    outcome = compiled(problem, **{**SPECIALISED, **chosen})
    assert outcome.resources.spilled_bytes_per_thread == 0
    assert outcome.resources.warps_per_cta == launch.warps_per_cta == 12
    assert outcome.resources.registers_per_thread == launch.resources.registers_per_thread == 168
    assert 0 <= outcome.resources.smem_bytes_per_cta - launch.resources.smem_bytes_per_cta <= 1024
    assert outcome.count("UTMALDG") > 0 and outcome.count("HGMMA") > 0 and outcome.count("USETMAXREG") > 0


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ({}, {"block_n": 128}),
        ({"seqlen_q": 4000, "seqlen_k": 4000}, {"block_n": 128}),
        ({"causal": True, "head_dim": 128}, {"block_n": 32}),
        ({"head_dim": 80}, {"block_n": 128}),
    ],
)
def test_each_group_copies_its_half_of_a_query_tile(changed: dict[str, int], chosen: dict[str, int]) -> None:
    """Copies fill their memory exactly, and no mask takes the shifted index of a copy for a position."""
    problem = replace(PROBLEM, **changed)
    (launch,) = SCHEDULE.launches(problem, SCHEDULE.config(**{**SPECIALISED, **chosen}), load_device("h200"))
    ttgir = compiled_kernel(job_of(launch, load_device("h200"))).asm["ttgir"]
    assert len(COPY.findall(ttgir)) == 4
    assert copy_faults(ttgir) == []


def _copy(descriptor: str, indices: str, block: str) -> str:
    """A copy into the memory of 64 rows, as Triton 3.6 writes it."""
    types = f"!tt.tensordesc<tensor<{block}xf16, #s>>, !ttg.memdesc<1xi64, #b> -> !ttg.memdesc<64x64xf16, #s2>"
    return f"ttng.async_tma_copy_global_to_local {descriptor}[{indices}] %56, %55, %true : {types}"


def test_the_faults_of_a_divided_query_tile_are_found() -> None:
    """Q by a descriptor that the host made; by one whose index is the row, or the same constant as the column."""
    assert copy_faults(_copy("%q_d", "%q, %row, %c0_i32", "1x128x64")) == ["a copy of 1x128x64 into 64x64"]
    assert copy_faults(_copy("%qd", "%c64_i32, %c64_i32", "64x64")) == ["a copy from %c64_i32, %c64_i32"]
    row = """partition1(%seqlen_q: i32) {
        %q = arith.addi %row, %c64_i32 {async_task_id = array<i32: 2>} : i32
        %53 = tt.splat %q {async_task_id = array<i32: 2>} : i32 -> tensor<64xi32>"""
    assert copy_faults(row) == ["a mask at %q"]


def test_specialisation_that_the_compiler_leaves_out_is_a_failure() -> None:
    """Eight warps, which the schedule refuses: Triton 3.6 ignores the request without a word."""
    (launch,) = SCHEDULE.launches(PROBLEM, SCHEDULE.config(**SPECIALISED), load_device("h200"))
    outcome = compile_launch(replace(launch, num_warps=8), load_device("h200"))
    assert isinstance(outcome, Refusal)
    assert "left it out and compiled 8 warps" in outcome.reason


def test_lengths_and_heads_share_a_compiled_kernel() -> None:
    """The compiler sees of a descriptor its element type and its block."""

    def key(problem: AttentionProblem, **chosen: int) -> str:
        (launch,) = SCHEDULE.launches(problem, SCHEDULE.config(**chosen), load_device("h200"))
        return key_of(job_of(launch, load_device("h200")))

    assert key(PROBLEM) == key(replace(PROBLEM, seqlen_q=8192, seqlen_k=8192))
    assert (
        len(
            {
                key(PROBLEM),
                key(PROBLEM, block_n=32),
                key(PROBLEM, num_stages=2, warp_specialize=1),
                key(replace(PROBLEM, dtype="bf16")),
            }
        )
        == 4
    )
