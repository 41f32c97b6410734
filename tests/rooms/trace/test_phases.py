"""Where code is cut into steps: at the first wait for a load since the last cut, and nowhere else."""

from dataclasses import replace

from support.listings import flow_of
from tilesight.simulator.trace.touch.phases import cut_code

LOAD, ADD = "LDG.E R4, desc[UR4][R2.64]", "FADD R8, R8, R4"


def sizes(*code: tuple[str, int, tuple[int, ...]]) -> tuple[int, ...]:
    """Instructions of each phase of a loop's body. Args: code: instruction, scoreboard that it sets or -1, waits."""
    decoded = flow_of(*(text for text, _, _ in code), "EXIT").instructions
    body = [
        (place, replace(decoded[place], write_barrier=sets, wait_mask=sum(1 << board for board in waits)))
        for place, (_, sets, waits) in enumerate(code)
    ]
    return cut_code(body, True, (0, 0), {}, {})


def test_loads_that_are_issued_together_are_waited_for_once() -> None:
    """The step waits for all of them, so that the second wait finds its data there."""
    assert sizes((LOAD, 0, ()), (LOAD, 1, ()), (ADD, -1, (0,)), (ADD, -1, (1,))) == (4,)


def test_a_load_behind_a_wait_begins_a_step() -> None:
    """It sets out when the first is there, and comes after another round trip."""
    assert sizes((LOAD, 0, ()), (ADD, -1, (0,)), (LOAD, 0, ()), (ADD, -1, (0,))) == (3, 1)


def test_loads_in_flight_beside_each_other_take_turns_together() -> None:
    """The second of two finds its data there when the first was waited for: four round trips, not seven."""
    body = [(LOAD, 0, ()), (LOAD, 1, ())]
    for _ in range(3):
        body += [(ADD, -1, (0,)), (LOAD, 0, ()), (ADD, -1, (1,)), (LOAD, 1, ())]
    body += [(ADD, -1, (0,)), (ADD, -1, (1,))]
    assert len(sizes(*body)) == 4
