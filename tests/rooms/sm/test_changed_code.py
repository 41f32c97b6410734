"""Code that is changed: the instructions that a change is about do less, and all others stay as they were."""

from dataclasses import replace

import numpy as np
import pytest
from support.made_code import coded_launch
from tilesight.simulator.core.sm import instruction as op
from tilesight.simulator.device.device import load_device
from tilesight.simulator.sm.followed import FollowedCode, follow
from tilesight.simulator.sm.what_if.changed_code import (
    CodeChange,
    coalesced,
    conflict_free,
    further_ahead,
    known_before,
    unchanged,
    without_bank_conflicts,
    without_barriers,
    without_spills,
)

H200 = load_device("h200")


@pytest.fixture(scope="module")
def seen() -> FollowedCode:
    """flash2, followed through a CTA."""
    return follow(coded_launch(), 90, H200.sm)


def rows_changed(seen: FollowedCode, change: CodeChange) -> np.ndarray:
    """Places of the instructions that a change has changed."""
    return np.flatnonzero(change(seen, H200.sm).code != seen.code)


def test_code_that_is_changed_in_nothing_is_the_same(seen: FollowedCode) -> None:
    """Nothing is added to it, and a change leaves what it is given alone."""
    before = seen.code.copy()
    assert unchanged(seen, H200.sm) is seen
    for change in (coalesced, further_ahead, without_bank_conflicts, without_barriers, without_spills):
        change(seen, H200.sm)
    assert (seen.code == before).all()


def test_without_barriers_no_warp_waits_for_others(seen: FollowedCode) -> None:
    """Every barrier is an instruction that issues and does nothing else; all else stays."""
    barriers = np.flatnonzero(seen.code["kind"] == op.BARRIER)
    assert len(barriers) and (rows_changed(seen, without_barriers) == barriers).all()
    code = without_barriers(seen, H200.sm).code[barriers]
    assert (code["kind"] == op.PLAIN).all() and (code["stall_cycles"] == seen.code[barriers]["stall_cycles"]).all()


def test_without_spills_only_spilled_registers_stay(seen: FollowedCode) -> None:
    """Code that spills nothing is the same; an instruction that does moves no line any more."""
    assert not len(rows_changed(seen, without_spills))
    spilling = seen.code.copy()
    (load, *_) = np.flatnonzero(spilling["kind"] == op.STORE)
    spilling["spills"][load] = 1
    made = replace(seen, code=spilling)
    assert (rows_changed(made, without_spills) == [load]).all()
    assert without_spills(made, H200.sm).code["smem_lines"][load] == 0


def test_without_bank_conflicts_an_access_takes_a_cycle_for_each_line(seen: FollowedCode) -> None:
    """An access that takes eight times as many is set back to what it moves."""
    assert conflict_free(seen) == {}
    place = next(
        place
        for place, instruction in enumerate(seen.flow.instructions)
        if instruction.family in ("LDS", "STS", "LDSM", "STSM") and seen.code[place]["kind"] == op.SHARED
    )
    crowded = seen.code.copy()
    crowded["smem_lines"][place] *= 8
    made = replace(seen, code=crowded)
    assert conflict_free(made) == {place: pytest.approx(seen.code[place]["smem_lines"])}
    assert without_bank_conflicts(made, H200.sm).code["smem_lines"][place] == seen.code[place]["smem_lines"]


def test_a_stage_more_waits_for_older_groups(seen: FollowedCode) -> None:
    """The waits of the pipelined loop let as many groups more be under way as an iteration asks for."""
    (changed, *_) = rows_changed(seen, further_ahead)
    code = further_ahead(seen, H200.sm).code
    assert seen.code["kind"][changed] == op.COPY_WAIT
    assert code["pending"][changed] > seen.code["pending"][changed]


def test_what_is_known_before_is_there_at_once(seen: FollowedCode) -> None:
    """Loads alone: a place that loads nothing stays as it is."""
    assert not len(rows_changed(seen, known_before([0])))
