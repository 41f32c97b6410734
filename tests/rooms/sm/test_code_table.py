"""The table of a kernel's instructions: one builder, steps that change nothing of each other's, channels of TMA."""

from functools import cache

import numpy as np
import pytest
from support.listings import flow_of
from support.recorded_code import recorded
from tilesight.simulator.core.sm import instruction as op
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.launch.walk import steps
from tilesight.simulator.sm.followed import FollowedCode, follow
from tilesight.simulator.sm.instructions import lower_code
from tilesight.simulator.sm.mbarriers import with_bulk_copy_sizes, with_bulk_store_sizes, with_channels, with_leaders
from tilesight.simulator.trace.paths import find_paths

SM = load_device("h200").sm
LINE_BYTES = 128


@cache
def followed(specialized: bool) -> tuple[Launch, FollowedCode]:
    """A recorded kernel of flash2_tma, with specialised warps or without, followed through a CTA."""
    launch = next(
        launch
        for kernel, launch in recorded()
        if kernel.schedule == "flash2_tma" and (launch.consumer_warps > 0) == specialized
    )
    return launch, follow(launch, 90, SM)


def test_a_field_of_another_kind_is_zero() -> None:
    """Each field has one meaning: none is borrowed by a kind that it does not name."""
    _, seen = followed(True)
    owners = {
        "commits": {op.MATMUL},
        "pending": {op.MATMUL_WAIT, op.COPY_WAIT},
        "barrier_warps": {op.BARRIER},
        "copies": {op.EXPECT},
        "free_phases": {op.MBARRIER_WAIT},
        "channel": {op.EXPECT, op.MBARRIER_WAIT, op.ARRIVE},
        "tensor_cycles": {op.MATMUL},
    }
    for field, kinds in owners.items():
        assert set(seen.code["kind"][seen.code[field] != 0].tolist()) <= kinds, field


def test_specialised_warps_pass_tiles_on_over_channels_of_their_own() -> None:
    """Producers announce what they copy; consumers give room back, as many places of it as there are stages."""
    launch, seen = followed(True)
    code = seen.code
    expects, waits, arrives = (code[code["kind"] == kind] for kind in (op.EXPECT, op.MBARRIER_WAIT, op.ARRIVE))
    assert expects["copies"].min() > 0
    assert expects["copies"].sum() == (code["kind"] == op.BULK_COPY).sum()
    given_back = set(arrives["channel"].tolist())
    assert given_back.isdisjoint(expects["channel"].tolist())
    for wait in waits:
        assert wait["free_phases"] == (launch.num_stages if wait["channel"] in given_back else 0)
    assert not waits["in_order"].any()


def test_without_specialised_warps_each_wait_is_for_the_next_copy() -> None:
    """One channel, and every announcement is of one copy."""
    _, seen = followed(False)
    code = seen.code
    assert set(code["copies"][code["kind"] == op.EXPECT]) == {1}
    assert code["in_order"][code["kind"] == op.MBARRIER_WAIT].all()
    assert not code["channel"].any()


@pytest.mark.parametrize("specialized", [True, False])
def test_bulk_copies_move_what_their_steps_load_by_tma(specialized: bool) -> None:
    """Lines that a CTA's leaders copy, over its whole path, are the tiles of its steps."""
    launch, seen = followed(specialized)
    lines = 0.0
    for warp in range(len(seen.paths.warps)):
        for number, _ in seen.paths.executed(warp):
            block = seen.paths.flow.blocks[number]
            code = seen.code[block.first : block.stop]
            lines += code["smem_lines"][(code["kind"] == op.BULK_COPY) & (code["leader"] == warp)].sum()
    wanted = sum(
        seen.executed[step.name] * tile.rows * tile.cols * launch.program.tensor(tile.tensor).element_bytes
        for step, _ in steps(launch.program.body)
        for tile in step.loads
        if tile.path == "tma"
    )
    assert lines * LINE_BYTES == pytest.approx(wanted)


def test_no_step_of_the_builder_changes_the_table_that_it_is_given() -> None:
    """Two devices or two numbers of CTAs that start from one table would see each other's."""
    launch, seen = followed(True)
    before = seen.code.copy()
    with_leaders(seen.code, seen.paths)
    with_channels(seen.code, launch, seen.paths)
    with_bulk_copy_sizes(seen.code, launch, seen.paths, seen.attributions, seen.executed)
    with_bulk_store_sizes(seen.code, launch, seen.paths, seen.executed)
    assert np.array_equal(before, seen.code)


def test_more_rings_of_mbarriers_than_are_followed_are_refused_in_one_line() -> None:
    """They would share a channel, and a wait be over with another ring's copies."""
    launch, _ = followed(True)
    lines = [f"SYNCS.ARRIVE.TRANS64 RZ, [UR4+{0x100 + 8 * ring:#x}], R1" for ring in range(op.CHANNELS + 1)]
    flow = flow_of(*lines, "EXIT")
    code = op.code_table(lower_code(flow.instructions, 90, SM)[0])
    with pytest.raises(ValueError, match=f"{op.CHANNELS + 1} rings of mbarriers; at most {op.CHANNELS} are followed$"):
        with_channels(code, launch, find_paths(flow, [[0]]))
