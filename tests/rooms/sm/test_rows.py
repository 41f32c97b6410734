"""Code without loops, and around them: how often it waits for late data, and what its CTAs take from each other."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from support.made_code import made_instruction
from tilesight.simulator.core.sm.instruction import code_table
from tilesight.simulator.core.sm.state import START
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Launch, Step
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.sass.decode import Instruction
from tilesight.simulator.sass.flow import find_flow
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.sm.full_sm import measure_full_sm
from tilesight.simulator.sm.instructions import lower_code
from tilesight.simulator.sm.latency_slack import latency_slacks
from tilesight.simulator.sm.machine import Machine, latencies_of
from tilesight.simulator.sm.match_steps import Attribution, Part
from tilesight.simulator.sm.single_cta import single_cta_costs
from tilesight.simulator.trace.paths import OUTSIDE, CtaPaths, find_paths

H200 = load_device("h200")
LATE = 20_000.0


def load(**waits: int) -> Instruction:
    instruction = made_instruction(0, "LDG.E", "R4", "desc[UR4][R2.64]")
    return replace(instruction, write_barrier=0, **waits)  # type: ignore[arg-type]


def work(times: int) -> list[Instruction]:
    return [replace(made_instruction(0, "FFMA", "R5", "R5", "R5", "R5"), stall_cycles=4)] * times


def waiting(instruction: Instruction) -> Instruction:
    return replace(instruction, wait_mask=1)


def machine_on(paths: CtaPaths) -> Machine:
    """An SM of an H200 with the code of these paths, whose loads all come from L2."""
    code = code_table(lower_code(paths.flow.instructions, 90, H200.sm)[0])
    return Machine(paths=paths, code=code, latencies=latencies_of(H200, H200.sms))


def machine_of(code: Sequence[Instruction]) -> Machine:
    placed = [
        replace(instruction, address=16 * place)
        for place, instruction in enumerate([*code, made_instruction(0, "EXIT")])
    ]
    return machine_on(find_paths(find_flow(placed), [[0]] * 4))


def rows(tiles: int) -> tuple[Launch, str]:
    """Row softmax whose one step loads so many tiles."""
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=4096, seqlen_k=1024, head_dim=64)
    launch = find_schedule("naive").launches(problem, Config(block_m=64, block_n=64), H200)[1]
    (step,) = (node for node in launch.program.body if isinstance(node, Step) and node.loads)
    body = tuple(replace(node, loads=step.loads * tiles) if node is step else node for node in launch.program.body)
    return replace(launch, program=replace(launch.program, body=body)), step.name


def waits_of(code: Sequence[Instruction], tiles: int = 4, times: int = 1) -> int:
    launch, name = rows(tiles)
    machine = machine_of(code)
    attributions = {Part(OUTSIDE): Attribution(steps=(name,), times=1.0, remainder=0.0)}
    cycles = {OUTSIDE: single_cta_costs(machine)[OUTSIDE].cycles}
    return latency_slacks(launch, machine, attributions, {name: times}, cycles)[name].waits


def test_loads_that_wait_for_each_other_are_late_one_after_the_other() -> None:
    """Rows of 12,288 keys that need a second look would come as early as those that do not."""
    first, apart = [load(), load(), waiting(work(1)[0])], [load(), load(wait_mask=1), waiting(work(1)[0])]
    assert waits_of(first) == 1
    assert waits_of(apart) == 2
    assert waits_of(apart * 2) == 4


def test_no_step_waits_more_often_than_it_loads_tiles() -> None:
    """Spilled registers that the code waits for would come from device memory."""
    assert waits_of([load(wait_mask=1)] * 5 + [waiting(work(1)[0])], tiles=2) == 2


def test_a_step_that_runs_twice_waits_half_as_often_each_time() -> None:
    """A step that the code has unrolled would wait twice for all of it."""
    assert waits_of([load(wait_mask=1)] * 4 + [waiting(work(1)[0])], times=2) == 2


def test_code_around_a_loop_waits_as_often_as_its_loads_need_each_other() -> None:
    """flash1 loads K and V in front of its inner loop: they would be late together where one waits for the other."""
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=256, seqlen_k=1024, head_dim=64)
    (launch,) = find_schedule("flash1").launches(problem, Config(block_m=64, block_n=64), H200)
    body = [*work(1), load(), load(wait_mask=1), waiting(work(1)[0]), *work(1)]
    code = [
        *(replace(instruction, address=16 * place) for place, instruction in enumerate(body)),
        made_instruction(5 * 16, "BRA", target=4 * 16, predicate="P0"),
        made_instruction(6 * 16, "BRA", target=1 * 16, predicate="P1"),
        made_instruction(7 * 16, "EXIT"),
    ]
    machine = machine_on(find_paths(find_flow(code), [[0, *[1, *[2] * 4, 3] * 3, 4]] * 4))
    owners = {Part(OUTSIDE): "prologue", Part(0): "outer", Part(1): "inner", Part(0, after=True): "outer"}
    attributions = {part: Attribution(steps=(name,), times=1.0, remainder=0.0) for part, name in owners.items()}
    cycles = {region: cost.cycles for region, cost in single_cta_costs(machine).items()}
    slacks = latency_slacks(launch, machine, attributions, {"prologue": 1, "outer": 3, "inner": 12}, cycles)
    assert (slacks["outer"].waits, slacks["inner"].waits) == (2, 1)


def held_up(late: float, resident: int = 2) -> tuple[float, float]:
    """Cycles by which a CTA that loads and computes holds up a full SM, and how long it takes alone."""
    machine = machine_of([load(), *work(400), waiting(work(1)[0]), *work(1000)])
    alone = single_cta_costs(machine)
    full = measure_full_sm(machine, alone, resident, late)
    return full.cycles[OUTSIDE], alone[OUTSIDE].cycles


def test_a_cta_that_waits_for_device_memory_holds_up_nobody_meanwhile() -> None:
    """A row kernel's CTAs would be charged the latency of device memory, which the engine charges as well."""
    (none, alone), (late, _) = held_up(0.0), held_up(LATE)
    assert none < late < alone


def test_alone_on_its_sm_it_is_charged_what_it_does() -> None:
    """One CTA an SM meets nobody."""
    charged, alone = held_up(LATE, resident=1)
    assert charged == pytest.approx(alone, rel=0.05)


def looping_machine(opcode: str = "IADD3") -> Machine:
    """A load and 100 instructions that use it: the ALU takes IADD3 every other cycle, the FMA an FADD each."""
    add = replace(made_instruction(0, opcode, "R5", "R5", "R5", "RZ"), stall_cycles=1)
    body = [load(), waiting(add), *[add] * 99]
    placed = [replace(instruction, address=16 * place) for place, instruction in enumerate(body)]
    loop = made_instruction(101 * 16, "BRA", target=0, predicate="P0")
    flow = find_flow([*placed, loop, made_instruction(102 * 16, "EXIT")])
    return machine_on(find_paths(flow, [[*[0] * 6, 1]] * 4))


@pytest.mark.parametrize("resident", [2, 8, 16])
def test_a_loop_takes_a_full_sm_what_its_alu_needs(resident: int) -> None:
    """A sub-core's ALU takes an instruction every other cycle; warps take turns, and hide their loads."""
    machine = looping_machine()
    cycles = measure_full_sm(machine, single_cta_costs(machine), resident, 0.0).cycles[0]
    assert cycles >= 0.95 * 200
    assert resident == 2 or cycles < 1.1 * 200


def test_a_slot_that_runs_many_ctas_before_another_is_done_is_logged_whole() -> None:
    """Entries of a log that is full would be lost, and with them the end of the run."""
    seen = machine_of(work(4)).run({}, np.array([0.0, 200_000.0]))
    assert seen.end > 200_000
    assert len(seen.times(0, START)) > 100


def test_what_is_asked_of_iterations_together_is_known_once_the_first_cta_is_through() -> None:
    """The youngest would be followed to their ends for nothing: half of the time of an SM, or more."""
    machine = looping_machine("FADD")
    whole = machine.run({0: 40}, np.zeros(6))
    ended = machine.run({0: 40}, np.zeros(6), together=0)
    assert np.array_equal(ended.log, whole.log[: len(ended.log)])
    assert ended.issues.sum() < 0.7 * whole.issues.sum()
    stop = ended.times(0, 0)[39]
    assert all(ended.times(slot, 0)[-1] > stop for slot in range(1, 6))
