"""CTAs that stand for others where threads exchange values: the same addresses as of all CTAs, by a few."""

from collections import defaultdict
from math import prod

import numpy as np
import pytest
from support.listings import listing, words
from tilesight.simulator.emulator.global_memory import Memory
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.launch.program import Code, Resources
from tilesight.simulator.sass.flow import flow_of
from tilesight.simulator.trace.alike.per_tensor_slices import narrowed
from tilesight.simulator.trace.alike.representative_ctas import stand_ins
from tilesight.simulator.trace.cta.address_slice import Tracer, find_slice
from tilesight.simulator.trace.cta.cta_run import follow_cta
from tilesight.simulator.trace.cta.every_thread import every_access
from tilesight.simulator.trace.cta.group import CtaGroup
from tilesight.simulator.trace.cta.knowable import find_unknown
from tilesight.simulator.trace.cta.traced_kernel import CompiledKernel, TracedKernel
from tilesight.simulator.trace.cta.unknown_values import UnknownValues
from tilesight.simulator.trace.positions import Iteration

GRID, WARPS = (8, 32, 1), 2
ROWS = np.random.default_rng(0).permutation(32 * 64).astype(np.int32)
IDS = Storage(number=0, size_bytes=ROWS.nbytes, name="ids", whole=True, values=ROWS.tobytes())
X, OUT = (Storage(number=number, size_bytes=1 << 30, name=name) for number, name in ((1, "x"), (2, "out")))
CONSTANTS = words({
    at: word
    for place, storage in enumerate((IDS, X, OUT))
    for at, word in ((0x210 + 8 * place, storage.address & 0xFFFFFFFF), (0x214 + 8 * place, storage.address >> 32))
})  # fmt: skip
BEGIN = (
    "S2R R0, SR_TID.X",
    "S2R R1, SR_CTAID.X",
    "S2R R2, SR_CTAID.Y",
    "IMAD R3, R2, 0x40, R0",
    "IMAD.WIDE R4, R3, 0x4, c[0x0][0x210]",
    "LDG.E R8, [R4.64]",
)
EXCHANGES = {
    "memory": (
        "SHF.L.U32 R12, R0, 0x2, RZ",
        "STS [R12], R8",
        "BAR.SYNC 0x0",
        "LOP3.LUT R13, R12, 0xfc, RZ, 0x3c, !PT",
        "LDS R14, [R13]",
    ),
    "warp": (
        "LOP3.LUT R13, R0, 0x1f, RZ, 0x3c, !PT",
        "SHFL.IDX PT, R14, R8, R13, 0x1f",
        "NOP",
        "NOP",
        "NOP",
    ),
}
"""Ids as the mirrored thread has them."""
END = (
    "IMAD.WIDE R10, R14, 0x100, c[0x0][0x218]",
    "LDG.E R15, [R10.64]",
    "IMAD R20, R14, 0x400, R1",
    "IMAD.WIDE R22, R20, 0x40, c[0x0][0x220]",
    "STG.E [R22.64], R15",
    "EXIT",
)
GATHER, STORE = len(BEGIN) + 6, len(BEGIN) + 9


def followed(tracer: Tracer, group: CtaGroup, place: int) -> dict[int, list[list[int]]]:
    """Addresses of each CTA of a group at an access."""
    records: dict[int, list[list[int]]] = defaultdict(list)

    def record(at: int, _: Iteration, first: int, addresses: np.ndarray, active: np.ndarray) -> None:
        if at == place:
            for number in range(len(addresses)):
                records[first + number].append(addresses[number][active[number]].tolist())

    every_access(tracer, group, record)
    return records


@pytest.mark.parametrize("by", EXCHANGES)
@pytest.mark.parametrize(
    ("place", "same_places", "count"),
    [(GATHER, True, GRID[1]), (STORE, True, prod(GRID)), (STORE, False, GRID[1])],
)
def test_ctas_that_exchange_the_same_touch_alike(by: str, place: int, same_places: bool, count: int) -> None:
    """Rows are gathered by ids of CTAs of one y, which store at distances that x tells."""
    sass = listing(*BEGIN, *EXCHANGES[by], *END)
    resources = Resources(
        registers_per_thread=32,
        smem_bytes_per_cta=1024,
        warps_per_cta=WARPS,
        code=Code(sass=sass, constants=CONSTANTS),
    )
    storages = (IDS, X, OUT)
    called = CompiledKernel(
        name="toy", grid=GRID, num_warps=WARPS, num_stages=1, resources=resources, storages=storages
    )
    flow, memory = flow_of(sass), Memory(storages)
    unknown = find_unknown(flow, CONSTANTS, memory)
    subject = TracedKernel(kernel=called, flow=flow, constants=CONSTANTS, memory=memory, unknown=unknown)
    tracer = Tracer(subject, find_slice(subject), UnknownValues(subject))
    group = CtaGroup(follow_cta(tracer, 0), np.arange(prod(GRID)), {})
    part = narrowed(tracer, group.representative, frozenset({place}))
    first, which = stand_ins(part, group, same_places=same_places)
    assert len(first) == count
    by_few, by_all = followed(part, group.subset(first), place), followed(tracer, group, place)
    for cta, stand_in in enumerate(which.tolist()):
        few, whole = np.array(by_few[stand_in]), np.array(by_all[cta])
        shift = 0 if same_places else few.flat[0] - whole.flat[0]
        assert (few - shift == whole).all()
