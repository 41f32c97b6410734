"""STSM: which half of which thread's word lies where, as PTX says of stmatrix."""

import numpy as np
import pytest
from support.made_code import made_instruction
from tilesight.simulator.emulator.semantics import compile_instruction
from tilesight.simulator.emulator.shared_memory import SYSTEM_BYTES
from tilesight.simulator.emulator.thread_values import word
from tilesight.simulator.emulator.threads import Threads

LANE = np.arange(32, dtype=np.int64).reshape(1, 1, 32)
EVERY = np.ones((1, 1, 32), dtype=np.bool_)
PITCH = 48


@pytest.mark.parametrize(("transposed", "matrices"), [(False, 1), (False, 4), (True, 2)])
def test_a_thread_stores_two_neighbours_of_each_matrix(transposed: bool, matrices: int) -> None:
    """In a row, or in a column; rows begin where lanes say, here in reverse order."""
    begins = SYSTEM_BYTES + PITCH * (31 - LANE)
    threads = Threads(constants={}, special={"SR_LANEID": (LANE, True)}, whole=True)
    threads.registers["R2"] = begins, True
    for matrix in range(matrices):
        low, high = 256 * matrix + 4 * LANE, 256 * matrix + 4 * LANE + 1
        threads.registers[f"R{4 + matrix}"] = low | high << 16, True
    modifiers = f"{'MT88' if transposed else 'M88'}{f'.{matrices}' * (matrices > 1)}"
    compile_instruction(made_instruction(0, f"STSM.16.{modifiers}", "[R2]", "R4"))(threads, EVERY)
    for matrix in range(matrices):
        for row in range(8):
            for column in range(8):
                lane, half = divmod(row, 2) if transposed else divmod(column, 2)
                lane += 4 * (column if transposed else row)
                at = int(begins[0, 0, 8 * matrix + row]) + 2 * column
                ((stored, known),) = threads.shared.load((word(at), True), 2, EVERY)
                assert (int(stored.item()), bool(np.all(known))) == (256 * matrix + 4 * lane + half, True)


def test_what_lanes_store_is_not_known_where_not_all_of_a_warp_are_followed() -> None:
    """Rows of a lane hold what other lanes have."""
    threads = Threads(constants={}, special={"SR_LANEID": (LANE, True)}, whole=False)
    threads.registers |= {"R2": (SYSTEM_BYTES + 16 * LANE, True), "R4": (LANE, True)}
    threads.shared.store((SYSTEM_BYTES + 16 * LANE, True), [(LANE, True)], 4, EVERY)
    compile_instruction(made_instruction(0, "STSM.16.M88", "[R2]", "R4"))(threads, EVERY)
    ((_, known),) = threads.shared.load((SYSTEM_BYTES + 16 * LANE, True), 4, EVERY)
    assert np.broadcast_to(known, LANE.shape).ravel().tolist() == [lane >= 8 for lane in range(32)]
