"""Operands: from text to values, and from values back to the same text."""

from math import inf

import pytest
from support.made_code import CODE, made_instruction
from support.recorded_code import recorded_listings
from tilesight.simulator.sass.decode import decode
from tilesight.simulator.sass.operands import (
    Address,
    Constant,
    Immediate,
    Name,
    Operand,
    Predicate,
    Register,
    is_uniform,
    launch_offset,
    parse,
    stack_offset,
)

FORMS = (
    # One line an architecture that prints them first: sm_80, sm_89, sm_90, sm_100, sm_120.
    "R4 -R10 ~R19 |R9| -|R22| RZ -RZ URZ -UR10 R4.H1_H1 -R2.H0_H0 PT !PT P0 !P6 PR B0 SB0 SRZ SR_TID.X 0x1f -0x60"
    " c[0x0][0x28] -c[0x0][0x170] [R43+0x6000] [R41] [RZ] [R52.64+0x40] [R28.64+-0x800] [R7.X4] [R241.X16+0x4000]",
    "R184.ROW R8.COL RZ.H0_H0 SR_CTAID.Y",
    "UP0 !UP1 UPT !UPT gsb0 gdesc[UR8] gdesc[UR8].tnspB gdesc[UR8].tnspA.tnspB desc[UR12][R2.64] [UR6] [UR12+0x8]"
    " desc[UR22][R10.64+-0x800] [R4+UR6+0x800] [R0+UR6] c[0x4][R8] R12.H1 ~UR6 SR_CgaCtaId {5,4,3,2,1,0}",
    "R74.F32 UR10.F32 -R44.F32x2.HI_LO tmem[UR11] tmem[UR11+0x40] idesc[UR35] [R5+URZ+0x20050] UPR",
    "[R8.64+UR40]",
)


def text_of(operand: Operand) -> str:
    """How cuobjdump prints an operand, but for floats."""
    match operand:
        case Immediate(int(value)):
            return f"{value:#x}"
        case Predicate():
            return "!" * operand.negated + operand.name
        case Register() | Constant():
            bar = "|" * operand.absolute
            return "-" * operand.negative + "~" * operand.inverted + bar + unsigned(operand) + bar
        case Address(space="code"):
            return f"{total(operand.terms, 0)} {operand.offset:#x}"
        case Address():
            memory = f"desc[{operand.descriptor.name}]" if operand.descriptor else operand.space
            return f"{memory}[{total(operand.terms, operand.offset)}]{'.' * bool(operand.form)}{operand.form}"
        case Name():
            return operand.text
    raise AssertionError(operand)


def unsigned(operand: Register | Constant) -> str:
    """The text without signs and bars."""
    if isinstance(operand, Constant):
        return f"c[{operand.bank:#x}][{total((operand.index,) if operand.index else (), operand.offset)}]"
    return operand.name + "." * bool(operand.form) + operand.form


def total(terms: tuple[Register, ...], offset: int) -> str:
    """A sum in brackets."""
    return "+".join([*map(unsigned, terms), *([f"{offset:#x}"] if offset or not terms else [])])


@pytest.mark.parametrize("text", " ".join(FORMS).split())
def test_each_form_that_is_printed_is_read_and_prints_as_before(text: str) -> None:
    """A part of an operand would be dropped."""
    assert text_of(parse(text)) == text


@pytest.mark.parametrize("listing", [CODE.sass, *recorded_listings()], ids=range(15))
def test_every_operand_of_the_recorded_code_prints_as_before(listing: str) -> None:
    """All but floats, which are compared as numbers, and the cache of registers, which the control bits name."""
    for text in {text for instruction in decode(listing) for text in instruction.printed}:
        operand = parse(text)
        if isinstance(operand, Immediate) and isinstance(operand.value, float):
            assert operand.value == float(text)
        else:
            assert text_of(operand) == text.replace(".reuse", "")


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("-R4.reuse.H1_H1", Register(file="R", number=4, negative=True, form="H1_H1")),
        ("|R9|.reuse", Register(file="R", number=9, absolute=True)),
        ("URZ", Register(file="UR", number=None)),
        ("!UP1", Predicate(file="UP", number=1, negated=True)),
        ("-INF", Immediate(-inf)),
        ("8388608", Immediate(8388608.0)),
        ("`(0x20)", Immediate(32)),
        ("c[0x0][R4+0x210]", Constant(bank=0, offset=0x210, index=Register(file="R", number=4))),
        ("R2 -0x170", Address(space="code", terms=(Register(file="R", number=2),), offset=-0x170)),
        ("desc[UR4][R2.64+UR6+-0x10]", Address(
            space="", descriptor=Register(file="UR", number=4), offset=-16,
            terms=(Register(file="R", number=2, form="64"), Register(file="UR", number=6)),
        )),
        ("cx[UR4][0x10]", Name("cx[UR4][0x10]", (Register(file="UR", number=4),))),
    ],
)  # fmt: skip
def test_an_operand_says_what_it_names(text: str, operand: Operand) -> None:
    """A sign, an offset, or a register of a form that nobody has seen would be lost."""
    assert parse(text) == operand


def test_an_instruction_has_its_operands_and_its_guard_as_values() -> None:
    """Readers would have to look at the text again."""
    instruction = made_instruction(0, "IADD3", "R4", "-R5.reuse", predicate="!UP0")
    assert instruction.operands == (Register(file="R", number=4), Register(file="R", number=5, negative=True))
    assert instruction.guard == Predicate(file="UP", number=0, negated=True)
    assert made_instruction(0, "NOP").guard is None


def test_only_a_lone_uniform_register_is_the_same_address_in_all_threads() -> None:
    """Stores of each thread's own data would be followed, or common ones not."""
    texts = ("[UR4]", "[URZ+0x10]", "[R2+UR4]", "gdesc[UR4]", "[RZ]", "UR4")
    assert [text for text in texts if is_uniform(parse(text))] == ["[UR4]", "[URZ+0x10]"]


def test_only_the_stack_pointer_and_a_number_are_a_place_on_the_stack() -> None:
    """Arrays would be taken for spilled registers."""
    texts = ("[R1]", "[R1+0x8]", "[R2+0x8]", "[R1+UR4]", "[R1.64]", "R1")
    assert [stack_offset(parse(text)) for text in texts] == [0, 8, None, None, None, None]


def test_only_a_number_is_a_place_in_the_bank_of_the_launch() -> None:
    """Words of another bank, or of a table, would be taken for arguments."""
    texts = ("-c[0x0][0x170]", "c[0x0][0x28]", "c[0x4][0x28]", "c[0x0][R2+0x28]", "0x28")
    assert [launch_offset(parse(text)) for text in texts] == [0x170, 0x28, None, None, None]
