"""A cubin, read: the code of its kernels, and the lines of source that the code is from.

Sources: ELF-64 Object File Format, version 1.5; DWARF 2.0, section 6.2 (line number information), which ptxas writes
without operation codes of its own (tests hold it against `nvdisasm -g`).
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

MAGIC, MACHINE = b"\x7fELF\x02\x01", 190
"""Of a 64-bit file of a little-endian machine; and the number of CUDA's."""
VERSION_AT, MACHINE_AT, SECTIONS_AT, FLAGS_AT, SECTION_COUNT_AT = 8, 18, 40, 48, 58
"""Where the head of the file says the version of its ABI, its machine, where the heads of sections begin, its flags,
and the size of such a head, their number, that of names."""
NEW_ABI = 8
"""ABI from which on flags are laid out otherwise."""
OLD_FLAGS, NEW_FLAGS = (0, 0x800), (8, 0x8)
"""Where flags hold the capability, and the bit of code for it alone: what nvcc 12.9 writes for sm_90a and sm_100a, and
not for sm_90 and sm_100."""
TEXT = ".text."
"""Before the name of a kernel: the section of its code."""
NO_BITS = 8
"""Type of a section that takes no place in the file."""
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATIONS = {".rela": struct.Struct("<QQq"), ".rel": struct.Struct("<QQ")}
"""What is before the name of a section, in that of the section of its relocations -> an entry of it."""
COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE, CONST_ADD_PC, FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9
END_SEQUENCE, SET_ADDRESS = 1, 2
BROKEN = (struct.error, IndexError, ValueError, KeyError, OverflowError, ZeroDivisionError, MemoryError)
"""What reading a file raises that is not whole."""


class Code(NamedTuple):
    """Machine code. Args: name: of the kernel; text: its instructions."""

    name: str
    text: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the file. Args: kind, info: as ELF numbers them; data: its bytes, none of one without a place; size."""

    kind: int
    info: int
    data: bytes
    size: int


def target_of(cubin: bytes) -> tuple[int, bool] | None:
    """Capability that a cubin is compiled for, e.g. 90, and whether for it alone; None: it is no cubin."""
    if not cubin.startswith(MAGIC) or len(cubin) < SECTION_COUNT_AT:
        return None
    (machine,), (flags,) = struct.unpack_from("<H", cubin, MACHINE_AT), struct.unpack_from("<I", cubin, FLAGS_AT)
    shift, alone = NEW_FLAGS if cubin[VERSION_AT] >= NEW_ABI else OLD_FLAGS
    return (flags >> shift & 255, bool(flags & alone)) if machine == MACHINE else None


def kernel_code(cubin: bytes, kernel: str = "") -> Code | None:
    """Code of a kernel of a cubin; None where it calls other functions, or is not whole before it is loaded.

    Args:
        kernel: its name; empty: there is one.
    """
    sections = sections_of(cubin)
    names = [name for name in sections if name.startswith(TEXT) and kernel in ("", name.removeprefix(TEXT))]
    moved = [how + name for name in names for how in RELOCATIONS]
    if len(names) != 1 or any(sections[name].data for name in moved if name in sections):
        return None
    return Code(names[0].removeprefix(TEXT), sections[names[0]].data)


def source_lines(cubin: bytes, kernel: str = "") -> list[list[Any]]:
    """Which line of the user's files each instruction comes from: [address, file, line], where that changes.

    Args:
        kernel: of a cubin with several; empty: there is one.
    """
    sections = sections_of(cubin)
    table = sections[".debug_line"].data if ".debug_line" in sections else b""
    owners = _owners(sections) if kernel else {}
    changes: list[list[Any]] = []
    begin = 0
    while begin < len(table):
        (size,) = struct.unpack_from("<I", table, begin)
        for at, row in _rows(table[begin : begin + 4 + size]):
            if owners.get(begin + at, kernel) == kernel and (not changes or changes[-1][1:] != row[1:]):
                changes.append(row)
        begin += 4 + size
    return changes


def _owners(sections: Mapping[str, Section]) -> dict[int, str]:
    """Place in the table of lines of each address that is set -> the kernel that it is in."""
    names = list(sections)
    symbols = sections[".symtab"].data
    owners = {}
    for how, entry in RELOCATIONS.items():
        moves = sections[f"{how}.debug_line"].data if f"{how}.debug_line" in sections else b""
        for place, what, *_ in entry.iter_unpack(moves):
            section = SYMBOL.unpack_from(symbols, (what >> 32) * SYMBOL.size)[3]
            owners[place] = names[section].removeprefix(TEXT)
    return owners


def sections_of(cubin: bytes) -> dict[str, Section]:
    """Sections by name, in the order of their numbers. Raises: one of `BROKEN`: the file is not whole."""
    (heads_at,) = struct.unpack_from("<Q", cubin, SECTIONS_AT)
    size, count, names_number = struct.unpack_from("<HHH", cubin, SECTION_COUNT_AT)
    heads = [struct.unpack_from("<IIQQQQII", cubin, heads_at + number * size) for number in range(count)]
    names = cubin[heads[names_number][4] :]
    sections = {}
    for name, kind, _, _, offset, length, _, info in heads:
        data = b"" if kind == NO_BITS else cubin[offset : offset + length]
        sections[names[name : names.index(0, name)].decode()] = Section(kind=kind, info=info, data=data, size=length)
    return sections


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


def _rows(table: bytes) -> list[tuple[int, list[Any]]]:
    """Rows of one line number program: where its addresses were set last, and [address, file, line]."""
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
    rows: list[tuple[int, list[Any]]] = []
    address, file_number, line, set_at = 0, 1, 1, 0
    while reader.at < len(table):
        opcode = reader.number("B")
        if opcode >= opcode_base:
            steps = opcode - opcode_base
            address += steps // line_range * least
            line += line_base + steps % line_range
            rows.append((set_at, [address, files[file_number], line]))
        elif opcode == COPY:
            rows.append((set_at, [address, files[file_number], line]))
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
                set_at = reader.at
                address = reader.number("Q")
            elif kind == END_SEQUENCE:
                address, file_number, line = 0, 1, 1
            reader.at = end
    return rows
