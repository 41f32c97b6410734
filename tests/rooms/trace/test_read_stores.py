"""Stores to shared memory that nobody reads: they are left out, and what their addresses need; all else stays."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from support.listings import listing, words
from tilesight.simulator.emulator.global_memory import Memory
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.launch.program import Code, Resources
from tilesight.simulator.sass.flow import flow_of
from tilesight.simulator.trace.cta.address_slice import AddressSlice, find_slice
from tilesight.simulator.trace.cta.knowable import find_unknown
from tilesight.simulator.trace.cta.traced_kernel import CompiledKernel, TracedKernel
from tilesight.simulator.trace.program import launch
from tilesight.simulator.trace.program.launch import Traced, trace
from tilesight.simulator.trace.touch.address_list import AddressList

GRID, WARPS, TRIPS = (96, 1, 1), 2, 40
ROWS = np.random.default_rng(0).permutation(prod(GRID) * 64).astype(np.int32)
IDS = Storage(number=0, size_bytes=ROWS.nbytes, name="ids", whole=True, values=ROWS.tobytes())
X, OUT = (Storage(number=number, size_bytes=1 << 30, name=name) for number, name in ((1, "x"), (2, "out")))
CONSTANTS = words({
    at: word
    for place, storage in enumerate((IDS, X, OUT))
    for at, word in ((0x210 + 8 * place, storage.address & 0xFFFFFFFF), (0x214 + 8 * place, storage.address >> 32))
})  # fmt: skip
CODE = (
    "S2R R0, SR_TID.X",
    "S2R R1, SR_CTAID.X",
    "IMAD R3, R1, 0x40, R0",
    "IMAD.WIDE R4, R3, 0x4, c[0x0][0x210]",
    "LDG.E R8, [R4.64]",
    "SHF.L.U32 R6, R0, 0x4, RZ",
    "IMAD.WIDE R10, R3, 0x1000, c[0x0][0x218]",
    "MOV R7, RZ",
    "LDGSTS.E.BYPASS.128 [R6], [R10.64]",
    "BAR.SYNC 0x0",
    "IADD3 R10, P1, R10, 0x10, RZ",
    "IADD3.X R11, R11, RZ, RZ, P1, !PT",
    "IADD3 R7, R7, 0x1, RZ",
    f"ISETP.LT.AND P0, PT, R7, {TRIPS:#x}, PT",
    "@P0 BRA 0x80",
    "SHF.L.U32 R12, R0, 0x2, RZ",
    "STS [R12], R8",
    "BAR.SYNC 0x0",
    "LOP3.LUT R13, R12, 0xfc, RZ, 0x3c, !PT",
    "LDS R14, [R13]",
    "ISETP.GE.AND P2, PT, R14, 0x1000, PT",
    "@P2 EXIT",
    "IMAD.WIDE R16, R14, 0x100, c[0x0][0x220]",
    "STG.E [R16.64], R14",
    "EXIT",
)
"""Tiles come through shared memory, where threads then leave ids for each other: of high ones nothing is stored."""


def called(code: tuple[str, ...]) -> CompiledKernel:
    """A launch of code."""
    resources = Resources(
        registers_per_thread=32,
        smem_bytes_per_cta=1024,
        warps_per_cta=WARPS,
        code=Code(sass=listing(*code), constants=CONSTANTS),
    )
    return CompiledKernel(
        name="toy", grid=GRID, num_warps=WARPS, num_stages=1, resources=resources, storages=(IDS, X, OUT)
    )


def starts(lists: AddressList) -> tuple[object, ...]:
    """What a listing holds of each CTA; several may share their lists."""
    of_ctas = (lists.spans[at:until].tolist() for at, until in zip(lists.at, lists.until, strict=True))
    return lists.piece, [[lists.starts[at : at + count].tolist() for at, count in spans] for spans in of_ctas]


def touched(traced: Traced) -> list[tuple[object, ...]]:
    """All that is told of where CTAs touch memory."""
    return [
        (
            use.storage,
            use.kind,
            use.runs,
            use.strides,
            use.base.tolist(),
            mask.members.tolist(),
            *map(starts, use.listings),
        )
        for path_class in traced.classes
        for mask in path_class.masked
        for use in mask.uses
    ]


def test_what_nobody_reads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same accesses of the same CTAs, as often, whether or not tiles are followed into shared memory."""
    without = trace(called(CODE), 1 << 16)
    monkeypatch.setattr(launch, "find_sources", lambda *_: None)
    followed = trace(called(CODE), 1 << 16)
    assert touched(without) == touched(followed)
    assert without.instructions == followed.instructions
    stored = {use.storage for path_class in without.classes for mask in path_class.masked for use in mask.uses}
    assert OUT.number in stored


def test_copies_that_are_read_are_followed() -> None:
    """Without the ids that threads store, a return depends on a tile that was copied: its tensor is named."""
    code = tuple("NOP" if text.startswith("STS") else text for text in CODE)
    traced = trace(called(code), 1 << 16)
    assert any("may return on values computed from tensor x" in note for note in traced.notes)


def test_stores_that_one_cta_reads_are_those_that_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids that threads store, and not the tiles."""
    kept: list[frozenset[int] | None] = []
    find = launch.find_sources

    def watched(subject: TracedKernel, code_slice: AddressSlice) -> frozenset[int] | None:
        kept.append(find(subject, code_slice))
        return kept[-1]

    monkeypatch.setattr(launch, "find_sources", watched)
    trace(called(CODE), 1 << 16)
    assert kept == [frozenset({CODE.index("STS [R12], R8")})]


def test_data_that_a_loop_stores_is_not_followed() -> None:
    """Where nothing is copied, too: warps tell each other once what to do, and then store tiles again and again."""
    code = list(CODE)
    code[CODE.index("LDGSTS.E.BYPASS.128 [R6], [R10.64]")] = "STS [R6+0x400], R7"
    resources = called(tuple(code)).resources
    assert resources.code is not None
    flow, memory = flow_of(resources.code.sass), Memory((IDS, X, OUT))
    unknown = find_unknown(flow, CONSTANTS, memory)
    subject = TracedKernel(kernel=called(tuple(code)), flow=flow, constants=CONSTANTS, memory=memory, unknown=unknown)
    stored = launch.find_sources(subject, find_slice(subject))
    assert stored == {CODE.index("STS [R12], R8")}
    loops = [loop.blocks for loop in flow.loops]
    assert all(find_slice(subject).exchanging.intersection(blocks) for blocks in loops)
    assert not any(find_slice(replace(subject, stored=stored)).exchanging.intersection(blocks) for blocks in loops)
