"""What a step costs an SM: pipe cycles from counts and rates, a critical path, bytes through shared memory."""

from dataclasses import replace

import pytest
from support.strategies import TOY, TOY_WGMMA
from tilesight.simulator.device.device import Device
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.launch.program import Launch, Matmul, Path, Resources, Step, Tensor, Tile, TileProgram, Work
from tilesight.simulator.sm.step_cost import PIPES, StepCost, operand_smem_bytes, step_cost

HELD = Tensor(name="X", role="input", slabs=1, rows=256, cols=64, dtype=DTYPES["fp16"])
PRODUCT = Matmul(m=128, n=64, k=64)


def cost(
    work: Work,
    device: Device = TOY,
    *,
    loads: tuple[Tile, ...] = (),
    num_warps: int = 4,
    consumer_warps: int = 0,
    spilled: int = 0,
) -> StepCost:
    """Cost of one step of a launch of fp16."""
    step = Step(name="step", loads=loads, work=work)
    program = TileProgram(
        tensors=(HELD,), variables=("slab",), items=lambda i: i[:, None], item_count=1, period_items=1, body=(step,)
    )
    launch = Launch(
        name="one",
        grid=(1, 1, 1),
        num_warps=num_warps,
        consumer_warps=consumer_warps,
        num_stages=1,
        program=program,
        resources=Resources(registers_per_thread=64, smem_bytes_per_cta=0, spilled_bytes_per_thread=spilled),
        dtype="fp16",
    )
    return step_cost(step, launch, device)


def pipe(name: str, seen: StepCost) -> float:
    """Cycles on that pipe."""
    return seen.pipe_cycles[PIPES.index(name)]


@pytest.mark.parametrize(("device", "rate"), [(TOY, 2048), (TOY_WGMMA, 4096)])
def test_tile_products_take_their_flop_over_the_rate(device: Device, rate: int) -> None:
    """Of the instruction class that the device has for the tile."""
    seen = cost(Work(matmuls=(PRODUCT, PRODUCT)), device)
    assert pipe("tensor", seen) == 2 * 2 * 128 * 64 * 64 / rate
    assert seen.executed_flop == 2 * PRODUCT.flop


def test_small_tiles_run_at_the_rate_of_mma() -> None:
    """32 rows are too few for wgmma."""
    small = Matmul(m=32, n=64, k=64)
    assert pipe("tensor", cost(Work(matmuls=(small,)), TOY_WGMMA)) == small.flop / 2048


def test_eight_warps_on_64_rows_compute_everything_twice() -> None:
    """Two warpgroups and rows for one: tile products, exponentials and arithmetic double."""
    work = Work(matmuls=(Matmul(m=64, n=64, k=64),), exp_count=4096, fma_count=4096, alu_count=4096)
    four, eight = (cost(work, TOY_WGMMA, num_warps=warps) for warps in (4, 8))
    for name in ("tensor", "mufu", "fma", "alu"):
        assert pipe(name, eight) == 2 * pipe(name, four)
    assert eight.executed_flop == four.executed_flop
    assert eight.exp_count == four.exp_count


@pytest.mark.parametrize(("name", "work", "cycles"), [
    ("mufu", Work(exp_count=1600), 100),
    ("fma", Work(fma_count=6400), 100),
    ("alu", Work(alu_count=6400), 100),
    ("smem", Work(smem_write_bytes=6400, smem_read_bytes=6400), 100),
])  # fmt: skip
def test_a_pipe_is_busy_for_count_over_rate(name: str, work: Work, cycles: float) -> None:
    """16 exponentials, 64 multiply-adds, 64 compares, 128 B of shared memory per cycle."""
    seen = cost(work)
    assert pipe(name, seen) == cycles
    assert seen.critical_path_cycles >= (cycles if name != "smem" else 0)


@pytest.mark.parametrize(("path", "written"), [("plain", 0), ("async", 32 * 128), ("tma", 32 * 128)])
def test_asynchronous_loads_are_written_to_shared_memory(path: Path, written: int) -> None:
    """A plain load ends in registers; what it writes on from there the step's work says."""
    tile = Tile(tensor="X", slab="slab", rows=32, cols=64, path=path)
    assert cost(Work(), loads=(tile,)).smem_write_bytes == written


def test_loads_take_issue_slots() -> None:
    """Six instructions for each 512 B of a warp, on four issue slots a cycle."""
    tile = Tile(tensor="X", slab="slab", rows=128, cols=64, path="plain")
    slots = 6 * 128 * 64 * 2 / 512
    assert pipe("issue", cost(Work(), loads=(tile,))) - pipe("issue", cost(Work())) == slots / 4


def test_a_copy_by_tma_takes_no_issue_slots() -> None:
    """One thread starts it, however large it is."""
    tile = Tile(tensor="X", slab="slab", rows=128, cols=64, path="tma")
    assert pipe("issue", cost(Work(), loads=(tile,))) == pipe("issue", cost(Work()))


def test_specialised_warps_share_the_work_and_do_not_keep_step() -> None:
    """Four were asked for and eight compute: the work of eight, and a path on which each group has the pipes."""
    work = Work(matmuls=(PRODUCT,), exp_count=4096, fma_count=4096, row_reductions=2)
    specialised, eight = cost(work, TOY_WGMMA, consumer_warps=8), cost(work, TOY_WGMMA, num_warps=8)
    assert specialised == replace(eight, critical_path_cycles=specialised.critical_path_cycles)
    assert specialised.pipe_cycles != cost(work, TOY_WGMMA).pipe_cycles
    saved = eight.critical_path_cycles - specialised.critical_path_cycles
    assert saved == pytest.approx(pipe("issue", eight) / 2)


@pytest.mark.parametrize(
    ("instruction", "num_warps", "split", "a_times", "b_times"),
    [
        ("mma", 4, "q", 1, 4),
        ("mma", 4, "k", 4, 1),
        ("mma", 8, "q", 1, 8),
        ("wgmma", 4, "q", 1, 2),
        ("wgmma", 8, "q", 1, 2),
        ("wgmma", 8, "k", 2, 2),
    ],
)
def test_every_worker_reads_what_it_shares(
    instruction: str, num_warps: int, split: str, a_times: int, b_times: int
) -> None:
    """Split-Q: each warp (group) reads all of B, once for each 64 rows with wgmma; split-K: all of A."""
    a_bytes, b_bytes = 128 * 64 * 2, 64 * 64 * 2
    seen = operand_smem_bytes(PRODUCT, 2, num_warps, instruction, split)
    assert seen == a_times * a_bytes + b_times * b_bytes


def test_an_operand_in_registers_is_not_read_from_shared_memory() -> None:
    """P of the second product."""
    held = replace(PRODUCT, a_source="registers")
    assert operand_smem_bytes(PRODUCT, 2, 4, "mma", "q") - operand_smem_bytes(held, 2, 4, "mma", "q") == 128 * 64 * 2


def test_spills_cost_shared_memory_cycles_and_issue_slots() -> None:
    """Local memory goes the way of shared memory; without tile products nothing needs the registers."""
    work = Work(matmuls=(PRODUCT,))
    none, some = cost(work), cost(work, spilled=100)
    for name in ("smem", "issue"):
        assert pipe(name, some) > pipe(name, none)
    assert some.critical_path_cycles > none.critical_path_cycles
    assert cost(Work(exp_count=10), spilled=100) == cost(Work(exp_count=10))


def test_one_cta_waits_for_each_part_of_its_step() -> None:
    """The critical path holds the products and the softmax one after the other, latencies and barriers on top."""
    products, softmax = Work(matmuls=(PRODUCT,)), Work(exp_count=8192, row_reductions=2)
    both = Work(matmuls=(PRODUCT,), exp_count=8192, row_reductions=2)
    alone = cost(products).critical_path_cycles, cost(softmax).critical_path_cycles
    assert cost(both).critical_path_cycles > max(alone)
    assert cost(both).critical_path_cycles > pipe("tensor", cost(both)) + pipe("mufu", cost(both))
    assert cost(replace(both, barriers=3)).critical_path_cycles > cost(both).critical_path_cycles


def test_every_barrier_takes_the_same() -> None:
    """22.5 cycles each; warps that share rows of a tile meet at four more."""
    none, first, third = (cost(Work(barriers=count)).critical_path_cycles for count in (0, 1, 3))
    assert (first - none, third - none) == (22.5, 67.5)
    rows = Matmul(m=64, n=64, k=64)
    apart, shared = (cost(Work(matmuls=(rows,)), num_warps=warps) for warps in (4, 8))
    slots = 4 * (shared.pipe_cycles[PIPES.index("issue")] - apart.pipe_cycles[PIPES.index("issue")])
    longer = shared.critical_path_cycles - apart.critical_path_cycles
    assert longer == pytest.approx(4 * 22.5 + slots / 4)


def test_a_warp_takes_twenty_issue_slots_a_step_besides() -> None:
    """Four warps on four slots a cycle."""
    assert pipe("issue", cost(Work())) == 20


def test_a_row_is_combined_in_two_shuffles_one_after_the_other() -> None:
    """Of 25 cycles each."""
    assert cost(Work(row_reductions=1)).critical_path_cycles - cost(Work()).critical_path_cycles == 50


def test_mma_takes_a_slot_for_each_product_and_for_each_512_bytes_of_operands() -> None:
    """128 x 64 x 64 by mma.sync m16n8k16, A read once and B by each of four warps: on four slots a cycle."""
    slots = 128 * 64 * 64 / (16 * 8 * 16) + (128 * 64 + 4 * 64 * 64) * 2 / 512
    assert pipe("issue", cost(Work(matmuls=(PRODUCT,)))) - pipe("issue", cost(Work())) == slots / 4


def test_what_is_spilled_goes_there_and_back() -> None:
    """100 B of each of 128 threads, twice, at 128 B a cycle."""
    work = Work(matmuls=(PRODUCT,))
    assert pipe("smem", cost(work, spilled=100)) - pipe("smem", cost(work)) == 2 * 100


def test_counts_pass_through() -> None:
    """Operations and exponentials are those of the work."""
    seen = cost(Work(exp_count=11, fma_flop=22, smem_read_bytes=33, smem_write_bytes=44))
    assert (seen.exp_count, seen.other_flop, seen.smem_read_bytes, seen.smem_write_bytes) == (11, 22, 33, 44)


def test_arithmetic_without_matmuls_takes_one_issue_slot_a_warp() -> None:
    """Four schedulers issue 200 instructions in 50 cycles; more slots than that are for code beside wgmma."""
    assert pipe("issue", cost(Work(alu_count=6400))) - pipe("issue", cost(Work())) == 50


def test_warps_that_find_no_columns_share_the_rows() -> None:
    """Split-K of eight columns: the one group of columns reads A once, and each of four warps all of B."""
    narrow = Matmul(m=64, n=8, k=16)
    assert operand_smem_bytes(narrow, 2, 4, "mma", "k") == 64 * 16 * 2 + 4 * (16 * 8 * 2)


def test_tiles_say_nothing_of_pauses_of_the_clock() -> None:
    """Only compiled code is followed closely enough to see the clock of lone CTAs rise."""
    seen = cost(Work(matmuls=(PRODUCT,)))
    assert (seen.restarts, seen.rested_cycles) == (0, 0)
