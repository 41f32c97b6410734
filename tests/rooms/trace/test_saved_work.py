"""What is done once and not again: nothing of it shows in what a trace finds."""

import gc
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
from rooms.trace.test_representative_ctas import ADDRESS, COLUMN, GRID, LOAD, MASK, subject_of
from tilesight.simulator.emulator.compute import arithmetic
from tilesight.simulator.emulator.leap import guess
from tilesight.simulator.emulator.semantics import compile_instruction
from tilesight.simulator.emulator.thread_values import TRUE, word
from tilesight.simulator.emulator.threads import Threads
from tilesight.simulator.trace.cta import group as groups
from tilesight.simulator.trace.cta.address_slice import Tracer, find_slice
from tilesight.simulator.trace.cta.bases import find_bases
from tilesight.simulator.trace.cta.block_counts import count_blocks
from tilesight.simulator.trace.cta.cta_run import follow_cta
from tilesight.simulator.trace.cta.group import CtaGroup
from tilesight.simulator.trace.cta.unknown_values import UnknownValues
from tilesight.simulator.trace.program import whole_grid
from tilesight.simulator.trace.program.launch import trace
from tilesight.simulator.trace.touch import mask_classes
from tilesight.simulator.trace.touch.scattered import sectors

LOOP = ("MOV R9, RZ", "IADD3 R9, R9, 0x1, RZ", "ISETP.NE.AND P1, PT, R9, 0xc8, PT", "@P1 BRA 0x10")
CTAS = np.arange(GRID[0] * GRID[1])


def tracer_of(*code: str) -> Tracer:
    """Follows a launch of 512 CTAs."""
    subject = subject_of(*code)
    return Tracer(subject, find_slice(subject), UnknownValues(subject))


def test_a_loop_that_all_ctas_run_alike_is_leaped_over_as_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 iterations by 512 CTAs would be as many numbers in each register, for one and the same count."""
    stacks = []
    made = guess.Stack
    monkeypatch.setattr(guess, "Stack", lambda *args: (stacks.append(args), made(*args))[1])
    counts = count_blocks((subject := subject_of(*LOOP)), UnknownValues(subject)).executions
    assert {ctas for _, ctas in stacks} == {1}
    assert counts.shape == (len(CTAS), len(subject.flow.blocks)) and (counts[:, 1] == 200).all()


def test_registers_of_a_walk_go_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of all threads of all CTAs would wait for the collector, walk after walk: twice the memory."""
    walks = []
    made = groups.PathReplay
    monkeypatch.setattr(
        groups, "PathReplay", lambda *args, **named: (walk := made(*args, **named), walks.append(weakref.ref(walk)))[0]
    )
    tracer = tracer_of(*COLUMN, MASK, *ADDRESS, LOAD)
    group = CtaGroup(follow_cta(tracer, 0), CTAS, {})
    gc.disable()
    try:
        find_bases(tracer, group)
        assert walks and not any(walk() for walk in walks)
    finally:
        gc.enable()


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_rests_while_a_launch_is_traced(collects: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is afterwards as it was before, in a refused launch as well."""
    seen = []

    def refused(*_: object) -> None:
        seen.append(gc.isenabled())
        raise ValueError

    monkeypatch.setattr(whole_grid, "trace", refused)
    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(ValueError):
            whole_grid.trace_grid(subject_of(*COLUMN).kernel, 0.0)
        assert (seen, gc.isenabled()) == ([False], collects)
    finally:
        gc.enable()


def test_few_ctas_are_followed_once_for_all_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 CTAs that stand for all would be looked at tensor by tensor, each by code of its own."""
    tracer = tracer_of(*COLUMN, MASK, *ADDRESS, LOAD, "@P0 STG.E [R6.64], R8")
    group = CtaGroup(follow_cta(tracer, 0), CTAS, {})
    wanted = frozenset(tracer.code_slice.touching)
    columns = []
    for limit in (0, len(CTAS) + 1):
        monkeypatch.setattr(mask_classes, "TOGETHER", limit)
        by_place = mask_classes.signatures_of(tracer, group, wanted)
        columns.append({place: column.tolist() for place, column in by_place.items()})
    assert columns[0] == columns[1] and len(columns[0]) == 2


def test_a_carry_that_nothing_takes_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An addition has two of them, and most code asks for none, or one."""
    asked = []

    def wraps(total: np.ndarray, times: int = 1) -> Iterator[np.ndarray]:
        for number in range(times):
            asked.append(number)
            yield total >= number + 1 << 32

    monkeypatch.setattr(arithmetic, "carries_of", wraps)
    threads = Threads(constants={}, special={}, registers={"R1": (word(2**32 - 1), True), "R2": (word(1), True)})
    plain, carrying = subject_of("IADD3 R0, R1, R2, RZ", "IADD3 R0, P0, R1, R2, RZ").flow.instructions[:2]
    compile_instruction(plain)(threads, TRUE[0])
    assert asked == [] and threads.registers["R0"][0].item() == 0
    compile_instruction(carrying)(threads, TRUE[0])
    assert asked == [0] and threads.registers["P0"][0].item()


def test_sectors_of_an_iteration_are_those_of_the_one_before_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gathered rows are sorted once, not in each of the 20 steps along them."""
    sorted_ones = []
    made = sectors.sectors_touched
    monkeypatch.setattr(sectors, "sectors_touched", lambda *args: (sorted_ones.append(args), made(*args))[1])
    masked = ("IMAD R3, R2, 0x10, R1", "ISETP.LE.AND P0, PT, R0, R3, PT", "IMAD.WIDE R6, R0, 0x4, c[0x0][0x210]")
    steps = ("MOV R9, RZ", LOAD, "IADD3 R6, R6, 0x1000, RZ", "IADD3 R9, R9, 0x1, RZ")  # the load is at 0x80
    ends = ("ISETP.NE.AND P1, PT, R9, 0x14, PT", "@P1 BRA 0x80")
    traced = trace(subject_of(*COLUMN, *masked, *steps, *ends).kernel, 0.0)
    (use,) = (use for kind in traced.classes[0].masked for use in kind.uses)
    assert use.uneven is not None and use.uneven.sizes == (20,)
    assert len(sorted_ones) < 4
