"""Machine code of many kernels as text, by one run of nvdisasm.

nvdisasm takes a quarter of a second to start, whatever it is given. So the code of all kernels is laid end to end in
one raw file, and addresses are counted from the begin of each kernel again. A kernel that calls others, or whose code
is changed when it is loaded, is left to cuobjdump, and so is one that is not whole in the listing.
"""

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from .cubin import Code, kernel_code

INSTRUCTION_BYTES = 16
ENCODED_AS = {103: 100, 121: 120}
"""Capability that the disassembler of Triton 3.6 lacks -> the one whose instructions it executes."""
FIRST = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*/\* (0x[0-9a-f]{16}) \*/\s*$")
SECOND = re.compile(r"^\s*/\* (0x[0-9a-f]{16}) \*/\s*$")
"""The two lines of an instruction: its address [B], text and low word; its high word."""
JUMP = re.compile(r"^(?:@!?U?P\w+ )?(?:BRA|BSSY|CALL|JMP|JMXU?|RET|WARPSYNC|BREAK|LEPC)\b")
"""Instructions that name a place in the code."""
TARGET = re.compile(r"(?<= )(`\()?0x([0-9a-f]+)(\))?(?= [&?]|$)")
TABLE_JUMP = re.compile(r"\bBRXU? [^;(]*[^;( ]")
"""A jump through a table, whose targets the raw code does not name."""
ADDRESS = re.compile(r"^ */\*([0-9a-f]{4,})\*/", re.MULTILINE)
LIMIT_S = 120.0
"""That a disassembler may take; kernels of the most code take 10 s [s]."""
RUNS = re.compile(r"[ \t]+")
OPCODE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)", re.M)


class Listing(NamedTuple):
    """Args: sass: the text, as `cuobjdump -sass` prints it; opcodes: how often each stands in it, with modifiers."""

    sass: str
    opcodes: dict[str, int]


def disassemble(cubins: Sequence[tuple[bytes, int, str]]) -> list[Listing]:
    """Listing of a kernel of each cubin.

    Args:
        cubins: each with its capability, e.g. 90, and the name of the kernel; empty: there is one.

    Raises:
        subprocess.SubprocessError: a disassembler fails; OSError: there is none.
    """
    codes = [kernel_code(cubin, kernel) for cubin, _, kernel in cubins]
    texts: dict[int, str] = {}
    for capability in dict.fromkeys(capability for _, capability, _ in cubins):
        alike = [n for n, (_, its, _) in enumerate(cubins) if its == capability and codes[n] is not None]
        listed = _together([code for n in alike if (code := codes[n])], capability)
        texts |= {n: text for n, text in zip(alike, listed, strict=True) if text is not None}
    for n, (cubin, _, kernel) in enumerate(cubins):
        if n not in texts:
            texts[n] = RUNS.sub(" ", inspect(cubin, "-sass", *(("-fun", kernel) if kernel else ())))
    return [Listing(texts[n], dict(Counter(OPCODE.findall(texts[n])))) for n in range(len(cubins))]


def with_tables(sass: str, literals: Sequence[int]) -> str:
    """A listing that says of jumps through tables where they can lead, as nvdisasm does.

    Args:
        literals: words of constant bank 2, where tables lie: those at which an instruction of the code begins.
    """
    if not TABLE_JUMP.search(sass):
        return sass
    begins = {int(address, 16) for address in ADDRESS.findall(sass)}
    places = ",".join(f"{word:#x}" for word in dict.fromkeys(literals) if word and word in begins)
    return TABLE_JUMP.sub(rf'\g<0> (*"BRANCH_TARGETS {places}"*)', sass) if places else sass


def inspect(cubin: bytes, *switches: str, tool: str = "cuobjdump") -> str:
    """What Triton's bundled cuobjdump (or nvdisasm) says of a file. Args: switches: e.g. `-sass`."""
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [getattr(knobs.nvidia, tool).path, *switches, file.name]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout


def _together(codes: Sequence[Code], capability: int) -> list[str | None]:
    """Text of each kernel; None of one that is not whole in the listing of them all."""
    if not codes:
        return []
    target = f"SM{ENCODED_AS.get(capability, capability)}{'a' if capability >= 90 else ''}"
    try:
        listing = inspect(b"".join(code.text for code in codes), "-b", target, "-hex", tool="nvdisasm")
    except subprocess.SubprocessError:
        return [None] * len(codes)
    instructions = _instructions(listing)
    texts: list[str | None] = []
    begin = 0
    for code in codes:
        places = range(begin, begin + len(code.text), INSTRUCTION_BYTES)
        if all(place in instructions for place in places):
            lines = [line for place in places for line in _rebased(place - begin, begin, *instructions[place])]
            texts.append("\n".join([f" Function : {code.name}", *lines]))
        else:
            texts.append(None)
        begin += len(code.text)
    return texts


def _instructions(listing: str) -> dict[int, tuple[str, str, str]]:
    """Address -> text, low and high word of each instruction whose two lines are there."""
    by_address: dict[int, tuple[str, str, str]] = {}
    first: re.Match[str] | None = None
    for line in listing.splitlines():
        second = SECOND.match(line)
        if first and second:
            by_address[int(first[1], 16)] = RUNS.sub(" ", first[2]), first[3], second[1]
        first = None if second else FIRST.match(line)
    return by_address


def _rebased(address: int, begin: int, text: str, low: str, high: str) -> tuple[str, str]:
    """Two lines of an instruction whose kernel begins somewhere in the file. Args: begin: where [B]."""
    if begin and JUMP.match(text):
        text = TARGET.sub(lambda match: f"{match[1] or ''}{int(match[2], 16) - begin:#x}{match[3] or ''}", text)
    return f" /*{address:04x}*/ {text} ; /* {low} */", f" /* {high} */"
