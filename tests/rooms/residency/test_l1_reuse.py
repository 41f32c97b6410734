"""The room of L1, what a CTA finds there, and what its code spills."""

from dataclasses import replace

import numpy as np
import pytest
from support.made_code import made_instruction
from tilesight.simulator.core.engine.l1 import hit_share
from tilesight.simulator.core.sm import instruction as op
from tilesight.simulator.device.device import load_device
from tilesight.simulator.dtypes import DTYPES
from tilesight.simulator.launch.program import Launch, Loop, Resources, Step, Tensor, Tile, TileProgram
from tilesight.simulator.launch.traced import Phase
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.residency.l1_reuse import Served, served_by_l1
from tilesight.simulator.residency.l1_room import hit_curve, kept_of
from tilesight.simulator.residency.residency import residency_of
from tilesight.simulator.sass.flow import Flow, find_flow
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.sm.full_sm import measure_full_sm
from tilesight.simulator.sm.instructions import lower_code
from tilesight.simulator.sm.l1_hits import Spilled, find_spilled, spilled_by_phase, with_l1_hits
from tilesight.simulator.sm.machine import Machine, latencies_of
from tilesight.simulator.sm.match_steps import Attribution, Part
from tilesight.simulator.sm.single_cta import single_cta_costs
from tilesight.simulator.trace.paths import OUTSIDE, CtaPaths, find_paths

H200 = load_device("h200")
KIB = 1024


def flash1(block_m: int = 64, block_n: int = 32, smem_kib: int = 24, heads: int = 2, seqlen_q: int = 128) -> Launch:
    problem = AttentionProblem(batch=1, heads=heads, seqlen_q=seqlen_q, seqlen_k=1024, head_dim=64)
    config = Config(block_m=block_m, block_n=block_n, num_warps=4, num_stages=2, warp_split="q")
    (launch,) = find_schedule("flash1").launches(problem, config, H200)
    resources = replace(launch.resources, smem_bytes_per_cta=smem_kib * KIB, registers_per_thread=128)
    return replace(launch, resources=resources)


def served(launch: Launch, resident: int) -> dict[str, Served]:
    """What L1 serves of the first CTA's loads, so many CTAs on its SM."""
    return served_by_l1(launch, residency_of(launch, H200), H200, resident, 0)


@pytest.mark.parametrize(
    ("smem_kib", "room_kib"),
    [(48, 60), (49, 28), (40, 92), (24, 124), (0, 248)],
    ids=["4 CTAs: 196", "above 48 KiB: all it can", "4 CTAs: 164", "4 CTAs: 132 for 100", "4 CTAs: 8"],
)
def test_shared_memory_takes_what_fits_the_ctas_or_all_it_can(smem_kib: int, room_kib: int) -> None:
    """Spills would be found in an L1 that Triton has given to shared memory, and O would not in one that is free."""
    assert residency_of(flash1(smem_kib=smem_kib), H200).l1_bytes == room_kib * KIB


@pytest.mark.parametrize(
    ("block_n", "smem_kib", "share"),
    [(32, 24, 1.0), (32, 56, 0.61), (128, 56, 0.075), (256, 56, 0.0)],
    ids=["all fits", "most fits", "little fits", "nothing fits"],
)
def test_a_state_that_comes_again_hits_by_how_much_lies_in_between(block_n: int, smem_kib: int, share: float) -> None:
    """ncu on an H200, 128 queries: O, L and MAX are all found again in 192 KiB, 0.54 to 0.62, 0.07 to 0.13 in 28."""
    by_step = served(flash1(block_n=block_n, smem_kib=smem_kib), 1)
    assert by_step["inner"].share == pytest.approx(share, abs=0.03)
    assert by_step["outer"].share == 0.0


def test_all_ctas_of_an_sm_load_in_between() -> None:
    """Eight times 25 KiB pass through a room of 124 between two uses: 7 % hit, and not as if each were alone."""
    alone, eight = (served(flash1(), resident)["inner"].share for resident in (1, 8))
    assert alone == 1.0
    assert eight == pytest.approx(0.075, abs=0.03)


@pytest.mark.parametrize(
    ("room_kib", "reach", "share"), [(248, 0.9, 1.0), (248, 1.3, 0.0), (92, 0.9, 0.61), (28, 1.3, 0.188)]
)
def test_a_whole_l1_keeps_all_that_fits_it(room_kib: int, reach: float, share: float) -> None:
    """H200: behind 0.96 rooms of loads or stores all is found in 248 KiB, but not in what shared memory leaves."""
    curve = hit_curve(H200, room_kib * KIB)
    assert hit_share(reach * room_kib * KIB, room_kib * KIB, curve) == pytest.approx(share, abs=0.01)


def rows_and_weights(weights: int, ctas: int = 20 * 132) -> Launch:
    """CTA c loads row c of 4 KiB, and the same weights as all others [B]."""
    tensors = tuple(
        Tensor(name=name, role="input", slabs=1, rows=rows, cols=cols, dtype=DTYPES["u8"])
        for name, rows, cols in (("X", ctas, 4 * KIB), ("W", 1, weights))
    )
    row = Tile(tensor="X", slab="zero", row=(("row", 1),), rows=1, cols=4 * KIB)
    program = TileProgram(
        tensors=tensors,
        variables=("zero", "row"),
        items=lambda items: np.stack((0 * items, items), axis=1),
        item_count=ctas,
        period_items=1,
        body=(
            Step(name="row", loads=(row,)),
            Step(name="weights", loads=(Tile(tensor="W", slab="zero", rows=1, cols=weights),)),
        ),
    )
    launch = flash1(smem_kib=24)
    return replace(launch, grid=(ctas, 1, 1), program=program)


@pytest.mark.parametrize(("weights_kib", "share"), [(20, 0.95), (800, 0.0)])
def test_what_the_cta_before_has_loaded_is_still_there(weights_kib: int, share: float) -> None:
    """The weights of a norm would come from L2 for every row, and be waited for; those of the first wave do."""
    by_step = served(rows_and_weights(weights_kib * KIB), 1)
    assert by_step["weights"].share == pytest.approx(share)
    assert by_step["row"].share == 0.0


def test_ctas_that_start_together_find_nothing_of_each_other() -> None:
    """A grid of one wave, one CTA an SM or three."""
    for per_sm in (1, 3):
        assert served(rows_and_weights(20 * KIB, per_sm * 132), per_sm)["weights"].share == 0.0


def in_loops(body: tuple[Loop | Step, ...], weights: int) -> Launch:
    """A grid of twenty waves whose CTAs load parts of the same weights [B]."""
    launch = rows_and_weights(weights)
    return replace(launch, program=replace(launch.program, body=body))


def weights_of(trips: int, size: int, moves: int) -> Loop:
    """So many loads of so many bytes, each so much further on [B]."""
    tile = Tile(tensor="W", slab="zero", rows=1, cols=size, col=(("i", moves),) if moves else ())
    return Loop(counter="i", trips=trips, body=(Step(name="weights", loads=(tile,)),))


def test_what_is_loaded_again_and_again_hits_all_but_once() -> None:
    """1,600 loads of the same 4 KiB by CTAs of which none ran before: one of 1,600 misses."""
    first_wave = replace(in_loops((weights_of(1600, 4 * KIB, 0),), 4 * KIB), grid=(132, 1, 1))
    program = replace(first_wave.program, item_count=132)
    seen = served(replace(first_wave, program=program), 1)["weights"]
    assert seen.loaded_bytes == 1600 * 4 * KIB
    assert seen.hit_bytes == pytest.approx(1599 * 4 * KIB)


def test_many_small_pieces_of_the_cta_before_are_still_there() -> None:
    """1,600 times 32 B fit a room of 124 KiB as one load of 50 KiB does: 19 waves of 20 find them."""
    assert served(in_loops((weights_of(1600, 32, 32),), 50 * KIB), 1)["weights"].share == pytest.approx(0.95)


def flow_of(*lines: tuple[str, str]) -> Flow:
    """Instructions of a loop over itself, and an end."""
    body = [
        made_instruction(16 * number, opcode, *operands.split(",")) for number, (opcode, operands) in enumerate(lines)
    ]
    end = 16 * len(lines)
    return find_flow(
        [*body, made_instruction(end, "BRA", target=0, predicate="P0"), made_instruction(end + 16, "EXIT")]
    )


def paths_of(*lines: tuple[str, str], trips: int = 4) -> CtaPaths:
    return find_paths(flow_of(*lines), [[0] * trips + [1]] * 4)


INNER = {
    part: Attribution(steps=(name,), times=1.0, remainder=0.0)
    for part, name in ((Part(OUTSIDE), "prologue"), (Part(0), "inner"))
}


def test_a_step_keeps_what_it_reads_before_it_writes() -> None:
    """What is written first in every iteration would be fetched from device memory as well."""
    paths = paths_of(
        ("LDL.64", "R4,[R1+0x10]"), ("STL", "[R1+0x20],R4"), ("LDL", "R5,[R1+0x20]"), ("STL", "[R1+0x10],R4")
    )
    assert find_spilled(flash1(), paths, INNER)["inner"] == Spilled(touched=3 * 4 * 128, kept=2 * 4 * 128)


def spilled_of(*lines: tuple[str, str], words: int) -> Spilled:
    """What a phase with this code touches of a stack of so many words, in CTAs of four warps."""
    flow = flow_of(*lines)
    launch = flash1()
    launch = replace(launch, resources=replace(launch.resources, spilled_bytes_per_thread=4 * words))
    phase = Phase(step="body", region=0, share=1.0, spills=tuple(range(len(lines))))
    return spilled_by_phase(launch, flow, [phase], 4)["body"]


def test_code_that_indexes_an_array_moves_on_by_the_words_that_it_moves() -> None:
    """All of the array would go to L2 and come from there in each pass."""
    seen = spilled_of(("STL.64", "[R7],R4"), ("LDL", "R5,[R8]"), words=48)
    assert (seen.parts, seen.part_bytes, seen.touched, seen.kept) == (48, 512, 2 * 512, 512)
    assert (seen.written_turn, seen.kept_turn, seen.parts_written, seen.parts_kept) == (2.0, 1.0, 0, 0)


@pytest.mark.parametrize(("words", "parts"), [(62, 62), (64, 32), (65, 33), (130, 44)])
def test_parts_of_a_stack_take_no_more_room_than_it(words: int, parts: int) -> None:
    """Of 64 words there would be 62 parts of two."""
    seen = spilled_of(*(("STL", f"[R1+{4 * word:#x}],R4") for word in range(words)), words=words)
    assert (seen.parts, seen.parts_written) == (parts, (1 << parts) - 1)
    assert 0 <= parts * seen.part_bytes - 512 * words < seen.part_bytes


def table_of(paths: CtaPaths) -> np.ndarray:
    """The code of these paths, whose loads all come from L2."""
    return op.code_table(lower_code(paths.flow.instructions, 90, H200.sm)[0])


def served_table(
    paths: CtaPaths, launch: Launch, attributions: dict[Part, Attribution], resident: int = 1
) -> np.ndarray:
    """The same with what L1 serves."""
    residency = residency_of(launch, H200)
    return with_l1_hits(table_of(paths), launch, residency, H200, resident, 0, paths, attributions)


def hits_of(paths: CtaPaths, resident: int = 1) -> list[bool]:
    """Which fetches of spilled registers L1 serves, 28 KiB of it, in order."""
    reloads = [place for place, instruction in enumerate(paths.flow.instructions) if instruction.family == "LDL"]
    assert (table_of(paths)["kind"][reloads] == op.LOAD).all()
    code = served_table(paths, flash1(smem_kib=56), INNER, resident)[reloads]
    assert not code["spills"][code["kind"] == op.SHARED].any()
    return [bool(hit) for hit in code["kind"] == op.SHARED]


def fetches(words: int, first: int = 0) -> list[tuple[str, str]]:
    return [("LDL", f"R4,[R1+{4 * word + 16:#x}]") for word in range(first, first + words)]


@pytest.mark.parametrize(("words", "share"), [(39, 1.0), (53, 0.5), (68, 0.0)])
def test_spilled_registers_hit_by_how_many_come_in_between(words: int, share: float) -> None:
    """56 of them fill the 28 KiB: four warps take 512 B each."""
    assert np.mean(hits_of(paths_of(*fetches(words)))) == pytest.approx(share, abs=0.03)


def test_a_register_that_is_fetched_soon_after_it_was_spilled_hits() -> None:
    """However many there are in all, its line is still there; ncu on an H200: 2.3 % off became 0.9 % with this."""
    soon = [("STL", "[R1+0x8],R5"), ("LDL", "R5,[R1+0x8]")]
    assert hits_of(paths_of(*fetches(100), *soon)) == [False] * 100 + [True]


def test_plain_loads_in_between_take_room() -> None:
    """Spills of a kernel without stages would seem to have L1 for themselves."""
    tiles = [("LDG.E.128", "R8,[R2.64]")] * 14
    assert all(hits_of(paths_of(*fetches(28))))
    assert not any(hits_of(paths_of(*fetches(28), *tiles)))


def test_warps_on_paths_of_their_own_share_one_l1() -> None:
    """A masked kernel's warps would each find all that they have spilled."""
    flow = flow_of(*fetches(84))
    assert not any(hits_of(find_paths(flow, [[0] * trips + [1] for trips in (4, 5, 6, 7)])))


def test_all_ctas_of_an_sm_spill_to_one_l1() -> None:
    """Two CTAs would find what one does."""
    assert all(hits_of(paths_of(*fetches(34))))
    assert not any(hits_of(paths_of(*fetches(34)), resident=2))


def test_what_was_stored_leaves_after_the_cta_has_ended() -> None:
    """A CTA that stores for longer than it runs would hold up a full SM no longer than it runs."""
    paths = paths_of(*[("STG.E.U16", "[R2.64],R4")] * 8)
    latencies = latencies_of(H200, H200.sms)
    seen = Machine(paths=paths, code=table_of(paths), latencies=latencies).run({0: 4}, np.zeros(1))
    stores = 4 * 4 * 8
    assert seen.end + seen.drain == pytest.approx(stores * 4 * 1.22 * 6.26)
    assert seen.drain > seen.end


def test_a_full_sm_finishes_no_cta_before_its_stores_have_left() -> None:
    """Row kernels of unaligned rows, whose stores wait in hundreds, would be 40 % too fast."""
    paths = paths_of(*[("STG.E.U16", "[R2.64],R4")] * 40, trips=1)
    machine = Machine(paths=paths, code=table_of(paths), latencies=latencies_of(H200, H200.sms))
    alone = single_cta_costs(machine)
    full = measure_full_sm(machine, alone, 4, 0.0).cycles
    assert full[OUTSIDE] == pytest.approx(4 * 40 * 4 * 1.22 * machine.latencies.store_per_line, rel=0.1)
    assert full[OUTSIDE] > 1.4 * alone[OUTSIDE].cycles


def test_what_a_step_loads_again_hits_where_its_code_belongs_to_another() -> None:
    """flash1 with one tile of queries, whose inner loop runs once: O, L and MAX would come from L2, 30 % too slow."""
    paths = paths_of(*[("LDG.E.128", "R4,[R2.64]")] * 8)
    outer = {
        part: Attribution(steps=(name,), times=1.0, remainder=0.0)
        for part, name in ((Part(OUTSIDE), "prologue"), (Part(0), "outer"))
    }
    code = served_table(paths, flash1(block_m=128), outer)
    # K and V are 8 of 25 KiB.
    assert code["kind"][:8].tolist() == [op.LOAD] * 3 + [op.SHARED] * 5


def test_steps_that_share_code_share_what_hits() -> None:
    """Tiles under a mask and others would each be served as the better of both."""
    paths = paths_of(*[("LDG.E.128", "R4,[R2.64]")] * 8)
    both = {
        part: Attribution(steps=names, times=1.0, remainder=0.0)
        for part, names in ((Part(OUTSIDE), ("prologue",)), (Part(0), ("outer", "inner")))
    }
    code = served_table(paths, flash1(block_m=128), both)
    assert (code["kind"][:8] == op.SHARED).mean() == pytest.approx(17 / 25, abs=0.07)


def test_a_whole_l1_keeps_two_rows_of_a_vocabulary() -> None:
    """llm.c's classifier reads its row of 100,608 B again from L1, in CTAs of 1,024 threads (ncu on an H200)."""
    alone = Resources(registers_per_thread=32, smem_bytes_per_cta=0, warps_per_cta=32)
    assert 100_608 < kept_of(alone, (16384, 1, 1), H200) < 0.5 * H200.l1_bytes


def test_beside_shared_memory_half_of_what_is_left_is_kept() -> None:
    """Of 124 KiB that shared memory leaves, a set of half as much is all found again (validate/lab/l1_hits.cu)."""
    beside = Resources(registers_per_thread=32, smem_bytes_per_cta=30 * KIB, warps_per_cta=16)
    assert kept_of(beside, (16384, 1, 1), H200) == pytest.approx(0.5 * 124 * KIB / 4)
