"""A cubin, read: the code of its kernel, and the lines of source that the code is from.

Sources: ELF-64 Object File Format, version 1.5; DWARF 2.0, section 6.2 (line number information), which ptxas writes
without operation codes of its own (tests hold it against `nvdisasm -g`).
"""

import struct
from typing import Any, NamedTuple

SECTIONS_AT, SECTION_COUNT_AT = 40, 58
"""Where the header of the file says where the heads of sections begin, and their size, their number, that of names."""
COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE, CONST_ADD_PC, FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9
END_SEQUENCE, SET_ADDRESS = 1, 2


class Code(NamedTuple):
    """Machine code. Args: name: of the kernel; text: its instructions."""

    name: str
    text: bytes


def kernel_code(cubin: bytes) -> Code | None:
    """Code of the one kernel of a cubin; None where it calls other functions, or is not whole before it is loaded."""
    sections = _sections(cubin)
    names = [name for name in sections if name.startswith(".text.")]
    moved = [name for name, data in sections.items() if name.startswith((".rela.text.", ".rel.text.")) and data]
    if len(names) != 1 or moved:
        return None
    return Code(names[0].removeprefix(".text."), sections[names[0]])


def source_lines(cubin: bytes) -> list[list[Any]]:
    """Which line of the user's files each instruction comes from: [address, file, line], where that changes."""
    table = _sections(cubin).get(".debug_line", b"")
    changes: list[list[Any]] = []
    begin = 0
    while begin < len(table):
        (size,) = struct.unpack_from("<I", table, begin)
        for row in _rows(table[begin : begin + 4 + size]):
            if not changes or changes[-1][1:] != row[1:]:
                changes.append(row)
        begin += 4 + size
    return changes


def _sections(cubin: bytes) -> dict[str, bytes]:
    """Sections by name."""
    (heads_at,) = struct.unpack_from("<Q", cubin, SECTIONS_AT)
    size, count, names_number = struct.unpack_from("<HHH", cubin, SECTION_COUNT_AT)
    heads = [struct.unpack_from("<IIQQQQ", cubin, heads_at + number * size) for number in range(count)]
    names = cubin[heads[names_number][4] :]
    return {
        names[name : names.index(0, name)].decode(): cubin[offset : offset + length]
        for name, _, _, _, offset, length in heads
    }


class _Reader:
    """Numbers and texts, one after the other. Args: data: to be read; at: where it begins."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def number(self, kind: str) -> int:
        """A number of fixed size. Args: kind: as `struct` writes it."""
        (value,) = struct.unpack_from(f"<{kind}", self.data, self.at)
        self.at += struct.calcsize(f"<{kind}")
        return int(value)

    def leb(self, *, signed: bool = False) -> int:
        """A number in LEB128: seven bits a byte, the lowest first."""
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value - (1 << shift) if signed and byte & 64 else value

    def text(self) -> str:
        """What stands before the next zero."""
        end = self.data.index(0, self.at)
        text, self.at = self.data[self.at : end].decode(errors="replace"), end + 1
        return text


def _rows(table: bytes) -> list[list[Any]]:
    """Rows of one line number program: [address, file, line]."""
    reader = _Reader(table, 6)
    program_at = reader.number("I") + reader.at
    least, _, line_base, line_range, opcode_base = (reader.number(kind) for kind in "BBbBB")
    operands = [reader.number("B") for _ in range(opcode_base - 1)]
    folders, files = [""], [""]
    while folder := reader.text():
        folders.append(folder)
    while file := reader.text():
        folder, _, _ = folders[reader.leb()], reader.leb(), reader.leb()
        files.append(f"{folder}/{file}" if folder else file)
    reader.at = program_at
    rows: list[list[Any]] = []
    address, file_number, line = 0, 1, 1
    while reader.at < len(table):
        opcode = reader.number("B")
        if opcode >= opcode_base:
            steps = opcode - opcode_base
            address += steps // line_range * least
            line += line_base + steps % line_range
            rows.append([address, files[file_number], line])
        elif opcode == COPY:
            rows.append([address, files[file_number], line])
        elif opcode == ADVANCE_PC:
            address += reader.leb() * least
        elif opcode == ADVANCE_LINE:
            line += reader.leb(signed=True)
        elif opcode == SET_FILE:
            file_number = reader.leb()
        elif opcode == CONST_ADD_PC:
            address += (255 - opcode_base) // line_range * least
        elif opcode == FIXED_ADVANCE_PC:
            address += reader.number("H")
        elif opcode:
            for _ in range(operands[opcode - 1]):
                reader.leb()
        else:
            end = reader.leb() + reader.at
            kind = reader.number("B")
            if kind == SET_ADDRESS:
                address = reader.number("Q")
            elif kind == END_SEQUENCE:
                address, file_number, line = 0, 1, 1
            reader.at = end
    return rows
