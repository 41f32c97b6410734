"""Accesses that are followed one tensor at a time: the same addresses, by fewer CTAs and fewer instructions."""

from collections import defaultdict
from collections.abc import Mapping
from math import prod

import numpy as np
import pytest
from support.listings import listing, words
from tilesight.simulator.emulator.global_memory import Memory
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.launch.program import Code, Resources
from tilesight.simulator.sass.flow import flow_of
from tilesight.simulator.trace.alike.per_tensor_slices import by_tensor, narrowed
from tilesight.simulator.trace.alike.representative_ctas import stand_ins
from tilesight.simulator.trace.cta.address_slice import Tracer, find_slice
from tilesight.simulator.trace.cta.cta_run import follow_cta
from tilesight.simulator.trace.cta.every_thread import every_access
from tilesight.simulator.trace.cta.group import CtaGroup
from tilesight.simulator.trace.cta.knowable import find_unknown
from tilesight.simulator.trace.cta.traced_kernel import CompiledKernel, TracedKernel
from tilesight.simulator.trace.cta.unknown_values import UnknownValues
from tilesight.simulator.trace.positions import Iteration
from tilesight.simulator.trace.program.launch import trace
from tilesight.simulator.trace.touch import mask_classes

GRID, WARPS = (16, 64, 1), 2
ROWS = np.random.default_rng(0).permutation(64 * 64).astype(np.int32)
IDS = Storage(number=0, size_bytes=ROWS.nbytes, name="ids", whole=True, values=ROWS.tobytes())
X, W, OUT = (Storage(number=number, size_bytes=1 << 30, name=name) for number, name in ((1, "x"), (2, "w"), (3, "out")))
CONSTANTS = words({
    at: word
    for place, storage in enumerate((IDS, X, W, OUT))
    for at, word in ((0x210 + 8 * place, storage.address & 0xFFFFFFFF), (0x214 + 8 * place, storage.address >> 32))
})  # fmt: skip
CODE = (
    "S2R R0, SR_TID.X",
    "S2R R1, SR_CTAID.X",
    "S2R R2, SR_CTAID.Y",
    "IMAD R3, R2, 0x40, R0",
    "IMAD.WIDE R4, R3, 0x4, c[0x0][0x210]",
    "LDG.E R8, [R4.64]",
    "IMAD R14, R1, 0x40, R0",
    "ISETP.GE.AND P0, PT, R14, 0x10000, PT",
    "@P0 BRA 0xb0",
    "LOP3.LUT R14, R14, 0x1f8, RZ, 0xc0, !PT",
    "BRA 0xc0",
    "LOP3.LUT R14, R14, 0xff8, RZ, 0xc0, !PT",
    "IMAD.WIDE R10, R8, 0x100, c[0x0][0x218]",
    "LDG.E R12, [R10.64]",
    "IMAD.WIDE R16, R14, 0x4, c[0x0][0x220]",
    "LDG.E R18, [R16.64]",
    "ISETP.LT.AND P1, PT, R8, 0xe00, PT",
    "IMAD R20, R8, 0x400, R14",
    "IMAD.WIDE R22, R20, 0x4, c[0x0][0x228]",
    "@!P1 EXIT",
    "STG.E [R22.64], R12",
    "EXIT",
)
"""Rows are gathered by ids of CTAs of one y; columns wrap around by x, with a branch that no thread takes; both tell
where is stored, but for rows that are too high, whose threads end before."""
GATHER, COLUMN, STORE = 13, 15, 20
SASS = listing(*CODE)
CALLED = CompiledKernel(
    name="toy",
    grid=GRID,
    num_warps=WARPS,
    num_stages=1,
    resources=Resources(
        registers_per_thread=32, smem_bytes_per_cta=0, warps_per_cta=WARPS, code=Code(sass=SASS, constants=CONSTANTS)
    ),
    storages=(IDS, X, W, OUT),
)
Records = Mapping[tuple[int, Iteration], Mapping[int, list[int]]]


@pytest.fixture
def toy() -> tuple[Tracer, CtaGroup]:
    """What follows a launch of it, and all of its CTAs."""
    flow, memory = flow_of(SASS), Memory(CALLED.storages)
    unknown = find_unknown(flow, CONSTANTS, memory)
    subject = TracedKernel(kernel=CALLED, flow=flow, constants=CONSTANTS, memory=memory, unknown=unknown)
    tracer = Tracer(subject, find_slice(subject), UnknownValues(subject))
    return tracer, CtaGroup(follow_cta(tracer, 0), np.arange(prod(GRID)), {})


def recorded(tracer: Tracer, group: CtaGroup, place: int) -> Records:
    """Addresses of the threads that take part in an access, by iteration and CTA of the group."""
    records: dict[tuple[int, Iteration], dict[int, list[int]]] = defaultdict(dict)

    def record(at: int, iteration: Iteration, first: int, addresses: np.ndarray, active: np.ndarray) -> None:
        if at == place:
            for number in range(len(addresses)):
                records[at, iteration][first + number] = addresses[number][active[number]].tolist()

    every_access(tracer, group, record)
    return records


@pytest.mark.parametrize(("place", "count"), [(GATHER, GRID[1]), (COLUMN, GRID[0]), (STORE, prod(GRID))])
def test_few_ctas_touch_the_places_of_all(toy: tuple[Tracer, CtaGroup], place: int, count: int) -> None:
    """1,024 CTAs gather the rows of 64, and load the columns of 16: each of the few is followed once."""
    tracer, group = toy
    part = narrowed(tracer, group.representative, frozenset({place}))
    first, which = stand_ins(part, group, same_places=True)
    assert len(first) == count
    by_few, by_all = recorded(part, group.subset(first), place), recorded(tracer, group, place)
    assert by_few.keys() == by_all.keys()
    for key, of_all in by_all.items():
        assert [by_few[key][rank] for rank in which] == [of_all[cta] for cta in range(len(group))]


def test_what_other_accesses_need_is_not_executed(toy: tuple[Tracer, CtaGroup]) -> None:
    """Neither the other's address, nor a branch that all take alike, nor one behind the last of the accesses."""
    tracer, group = toy
    places = {
        wanted: {
            place
            for block in narrowed(tracer, group.representative, frozenset({wanted})).code_slice.places
            for place in block
        }
        for wanted in (GATHER, COLUMN, STORE)
    }
    exits = {19, 21}
    assert places[GATHER] - exits == {0, 2, 3, 4, 5, 12, GATHER}
    assert places[COLUMN] - exits == {0, 1, 6, 9, 14, COLUMN}
    assert {16, 19} <= places[STORE], "threads that end before do not store"


def test_accesses_are_followed_tensor_by_tensor(toy: tuple[Tracer, CtaGroup]) -> None:
    """Each of the four is touched at one place."""
    tracer, group = toy
    groups = by_tensor(tracer, group.representative, frozenset(tracer.code_slice.touching))
    assert sorted(map(sorted, groups)) == [[5], [GATHER], [COLUMN], [STORE]]


def test_what_differs_in_some_ctas_is_not_followed_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores of a few CTAs tell more kinds than there may be: all 1,024 are listed without a look at their kinds."""
    followed: dict[int, int] = defaultdict(int)
    follow = mask_classes.signatures

    def counted(tracer: Tracer, group: CtaGroup, wanted: frozenset[int], *even: object) -> dict[int, np.ndarray]:
        for place in wanted:
            followed[place] = max(followed[place], len(group))
        return follow(tracer, group, wanted, *even)

    monkeypatch.setattr(mask_classes, "signatures", counted)
    traced = trace(CALLED, 1 << 16)
    assert followed[STORE] <= mask_classes.SAMPLED_CTAS * mask_classes.MOST_KINDS
    assert followed[COLUMN] < mask_classes.TOGETHER < prod(GRID)
    assert traced.known == traced.accesses == 4
