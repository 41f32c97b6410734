"""Instructions whose results are never known: none that is known by a thread is among them, and slices leave them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.listings import flow_of, words
from tilesight.simulator.emulator.global_memory import Memory, load_of_memory
from tilesight.simulator.emulator.read_operands import predicate_of
from tilesight.simulator.emulator.semantics import compile_instruction
from tilesight.simulator.emulator.storage import Storage
from tilesight.simulator.emulator.thread_values import TRUE, WORD_MASK
from tilesight.simulator.emulator.threads import Threads, special_registers
from tilesight.simulator.sass.registers import written
from tilesight.simulator.trace.control_slice import jumps_of, reaching
from tilesight.simulator.trace.cta.knowable import find_unknown
from tilesight.simulator.trace.cta.transfer import TransferRules

FLOATS, INDICES = (
    Storage(number=0, size_bytes=1 << 12, name="x"),
    Storage(number=1, size_bytes=1 << 12, name="index", whole=True, values=bytes(range(256)) * 16),
)
POINTERS = {0x210: FLOATS.address & WORD_MASK, 0x214: FLOATS.address >> 32, 0x218: 0, 0x21C: INDICES.address >> 32}
CONSTANTS = words({address: value for address, value in POINTERS.items()})
MEMORY = Memory([FLOATS, INDICES])
FROM_X = ("MOV R8, c[0x0][0x210]", "MOV R9, c[0x0][0x214]")
FROM_INDEX = ("MOV R10, c[0x0][0x218]", "MOV R11, c[0x0][0x21c]")
WANTED = ("@P0 STG.E [R0.64], RZ", "@P1 STG.E [R2.64], RZ")
"""All registers and predicates that code may have computed."""
LOAD_X, LOAD_INDEX = "LDG.E {}, [R8.64]", "LDG.E {}, [R10.64]"

register, predicate = st.sampled_from(["R0", "R1", "R2", "R3"]), st.sampled_from(["P0", "P1"])
guard = st.sampled_from(["", "", "@P0 ", "@!P1 "])
templates = st.sampled_from(
    [
        LOAD_X,
        LOAD_INDEX,
        "S2R {}, SR_TID.X",
        "MOV {}, {}",
        "MOV {}, RZ",
        "IADD3 {}, {}, {}, RZ",
        "IMAD {}, {}, {}, {}",
        "FADD {}, {}, -{}",
        "MUFU.EX2 {}, {}",
        "MUFU.RCP {}, {}",
        "LOP3.LUT {}, {}, 0xff, RZ, 0xc0, !PT",
        "LOP3.LUT {}, {}, {}, RZ, 0xc0, !PT",
        "LOP3.LUT {}, {}, RZ, RZ, 0xc0, !PT",
        "SHFL.BFLY PT, {}, {}, 0x1, 0x1f",
        "STL [R1+0x4], {}",
        "LDL {}, [R1+0x4]",
        "STS [{}+0x400], {}",
        "LDS {}, [{}+0x400]",
        "F2FP.F16.F32.PACK_AB {}, {}, {}",
        "ISETP.LT.AND p, PT, {}, {}, PT",
        "FSETP.LT.AND p, PT, {}, {}, p",
        "SEL {}, {}, {}, p",
    ]
)


@st.composite
def instructions(draw: st.DrawFn) -> str:
    """An instruction of a few registers, guarded or not."""
    text = draw(templates)
    for _ in range(text.count("{}")):
        text = text.replace("{}", draw(register), 1)
    for _ in range(text.count(" p")):
        text = text.replace(" p", f" {draw(predicate)}", 1)
    return draw(guard) + text


@given(st.lists(instructions(), min_size=1, max_size=30))
def test_what_a_thread_knows_is_never_among_what_is_unknown(code: list[str]) -> None:
    """An address or a branch that follows from the arguments would be taken to depend on data."""
    flow = flow_of(*FROM_X, *FROM_INDEX, *code, *WANTED, "EXIT")
    unknown = find_unknown(flow, CONSTANTS, MEMORY)
    threads = Threads(constants=CONSTANTS, special=special_registers((1, 1, 1), np.arange(1), 1))
    for place, instruction in enumerate(flow.instructions[:-1]):
        holds, sure = predicate_of(instruction.guard)(threads) if instruction.guard else TRUE
        step = load_of_memory(instruction, MEMORY) if instruction.family == "LDG" else compile_instruction(instruction)
        step(threads, TRUE[0])
        executed = holds & np.asarray(sure)
        if place in unknown:
            for name in written(instruction):
                known = np.asarray(threads.registers[name][1]) & executed
                assert not known.any(), (place, name)
                assert name not in threads.unknown_bits or ((threads.unknown_bits[name] == WORD_MASK) | ~executed).all()


def test_what_is_computed_from_data_is_not_followed() -> None:
    """Each iteration would compute a softmax whose result nobody knows, because a branch depends on it."""
    compute = ("FADD R0, R0, R1", "FMUL R0, R0, R0", "MUFU.EX2 R0, R0", "SHFL.BFLY PT, R1, R0, 0x1, 0x1f") * 20
    flow = flow_of(*FROM_X, LOAD_X.format("R0"), *compute, "FSETP.LT.AND P0, PT, R0, R1, PT", "@P0 BRA 0x20", "EXIT")
    unknown = find_unknown(flow, CONSTANTS, MEMORY)
    sizes = [sum(map(len, reaching(flow, jumps_of(flow), places))) for places in (frozenset(), unknown)]
    assert sizes == [len(flow.instructions), 3], "FSETP, which makes P0 unknown, BRA and EXIT"


def test_what_follows_from_indices_is_followed() -> None:
    """A branch on a length that was given would go both ways."""
    code = (*FROM_INDEX, LOAD_INDEX.format("R0"), "IADD3 R0, R0, 0x1, RZ", "ISETP.EQ.AND P0, PT, R0, RZ, PT")
    flow = flow_of(*code, "@P0 EXIT", "EXIT")
    assert find_unknown(flow, CONSTANTS, MEMORY) == frozenset()
    assert find_unknown(flow, CONSTANTS, Memory([FLOATS])) == frozenset({2, 3, 4})


def test_bits_that_are_set_for_sure_are_kept() -> None:
    """A flag packed into a word of data would be lost with them."""
    code = (*FROM_X, LOAD_X.format("R0"), "LOP3.LUT R1, R0, 0x1, RZ, 0xfc, !PT", "LOP3.LUT R2, R1, 0x1, RZ, 0xc0, !PT")
    assert find_unknown(flow_of(*code, "EXIT"), CONSTANTS, MEMORY) == frozenset({2})


def test_data_that_go_through_shared_memory_stay_unknown() -> None:
    """Every warp of a reduction would be followed through barriers, thread by thread."""
    code = (*FROM_X, LOAD_X.format("R0"), "STS [R3], R0", "BAR.SYNC 0x0", "LDS R1, [R3]", "FADD R2, R1, R0", *WANTED)
    assert find_unknown(flow_of(*code, "EXIT"), CONSTANTS, MEMORY) == frozenset({2, 5, 6})
    indices = (*code[:3], "STS [R3], R4", *code[4:], "EXIT")
    assert find_unknown(flow_of(*indices), CONSTANTS, MEMORY) == frozenset({2, 6})


def test_code_that_no_slice_holds_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of a kernel moves and multiplies data, and took a sixth of its trace."""
    seen = []
    made = TransferRules.rule_of
    monkeypatch.setattr(TransferRules, "rule_of", lambda *args: (seen.append(args[1].opcode), made(*args))[1])
    find_unknown(flow_of(*FROM_X, LOAD_X.format("R0"), *["FADD R0, R0, R0"] * 50, "EXIT"), CONSTANTS, MEMORY)
    assert seen == ["MOV", "MOV", "LDG.E", "EXIT"]
