"""Listings of machine code: instructions, their operands, and what they tell the scheduler."""

import pytest
from support.listings import listing
from tilesight.simulator.sass.decode import decode, split_operands


def test_text_and_address_come_from_the_listing() -> None:
    """Predicate, opcode, operands or target of a line would be read wrongly."""
    first, second, last = decode(
        listing("LDG.E.128 R4, desc[UR4][R2.64+0x10]", "@!UP0 UIADD3 UR4, UP1, -UR5, 0x1, URZ", "@P0 BRA 0x0")
    )
    assert (first.opcode, first.printed) == ("LDG.E.128", ("R4", "desc[UR4][R2.64+0x10]"))
    assert (first.family, first.modifiers, first.predicate, first.target) == ("LDG", ("E", "128"), "", None)
    assert (second.predicate, second.printed) == ("!UP0", ("UR4", "UP1", "-UR5", "0x1", "URZ"))
    assert (last.address, last.predicate, last.target) == (32, "P0", 0)


@pytest.mark.parametrize(
    ("high_word", "stall", "yields", "write", "read", "waits", "reuse"),
    [
        # As newer versions of cuobjdump print them: `&wr=0x1 ?trans8`, `?WAIT5_END_GROUP`, `&req={1} ?trans1`.
        (0x000E7000, 8, False, 1, -1, 0, 0),
        (0x000FCA00, 5, True, -1, -1, 0, 0),
        (0x002FE200, 1, False, -1, -1, 0b10, 0),
        (0x0003E800, 4, False, -1, 1, 0, 0),
        (0x080FE200, 1, False, -1, -1, 0, 2),
        (0x020FE200, 1, False, -1, -1, 0b100000, 0),
        (0x200FE200, 1, False, -1, -1, 0, 8),
    ],
)
def test_control_bits_stand_above_bit_41_of_the_high_word(
    high_word: int, stall: int, yields: bool, write: int, read: int, waits: int, reuse: int
) -> None:
    """A field would be shifted, or one of the two bits that are stored inverted taken as it is."""
    (instruction,) = decode(listing("NOP", control=high_word))
    assert (instruction.stall_cycles, instruction.yields, instruction.write_barrier, instruction.read_barrier) == (
        stall,
        yields,
        write,
        read,
    )
    assert (instruction.wait_mask, instruction.reuse) == (waits, reuse)


@pytest.mark.parametrize("predicate", ["PT", "UPT"])
def test_what_always_runs_has_no_predicate(predicate: str) -> None:
    """Both kinds of registers have one that is always true."""
    (instruction,) = decode(listing(f"@{predicate} MOV R1, R2"))
    assert instruction.predicate == ""


def test_control_bits_that_are_printed_are_no_operands() -> None:
    """On sm_120 the last operand would carry the text of the control bits."""
    (instruction,) = decode(listing("LDC.64 R4, c[0x0][0x380]     &req={1,0} &wr=0x2     ?trans8"))
    assert instruction.printed == ("R4", "c[0x0][0x380]")


def test_operands_are_split_outside_brackets() -> None:
    """A list in braces, as in DEPBAR, would become several operands."""
    assert split_operands("SB0, {5,4}, c[0x0][0x10], [R2+UR4]") == ("SB0", "{5,4}", "c[0x0][0x10]", "[R2+UR4]")


def test_a_condition_among_a_branchs_operands_leaves_its_target() -> None:
    """`BRA.U !UP0, ...` would have no target."""
    branch, call, base = decode(listing("BRA.U !UP0, 0x10", "CALL.REL.NOINC 0x0", "JMP R2 0x20"))
    assert (branch.target, call.target, base.target) == (16, 0, 32)


def test_a_jump_through_a_table_names_its_targets() -> None:
    """As nvdisasm prints them; labels in their place are of no use, and none of both is an operand."""
    table = '(*"BRANCH_TARGETS {}"*)'
    known, labelled, plain = decode(
        listing(
            f"BRX R6 -0x1d0 {table.format('0x10,0x20')}",
            f"BRX R6 -0x1d0 {table.format('.L_x_2,.L_x_30')}",
            "BRX R6 0x0",
        )
    )
    assert (known.table, labelled.table, plain.table) == ((16, 32), (), ())
    assert known.printed == labelled.printed == ("R6 -0x1d0",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nothing", "holds 0 functions"),
        (listing("NOP") + listing("NOP"), "holds 2 functions"),
        (listing("NOP").rsplit("\n", 2)[0], "at 0x0 has no second encoding word"),
        ("\t\tFunction : toy\n", "holds no instruction"),
    ],
)
def test_a_listing_that_cannot_be_read_is_refused(text: str, reason: str) -> None:
    """Half a kernel would be simulated as a whole one."""
    with pytest.raises(ValueError, match=reason):
        decode(text)
