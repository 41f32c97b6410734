"""Pipes, intervals and latencies of machine instructions, by architecture.

A table is a TOML file `sm_90.toml` of rules, each for some opcodes, with its source; it may stand on another,
`base`.
An opcode's rule is that of its longest prefix, cut at a dot: `IMAD.WIDE.U32` by `IMAD.WIDE`, `IMAD.MOV` by `IMAD`.
Opcodes without a rule are counted by name (`sm.instructions.lower_code`), not passed over.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ..limits import WORD_BYTES
from .decode import Instruction
from .matrix import matmul_shape_of, tensor_cycles
from .registers import WIDTHS

ARCHITECTURES = (80, 86, 89, 90, 100, 103, 120, 121)
MATRICES = {"2": 2, "4": 4}
VECTOR = re.compile(r"B?F(\d+)x(\d)")
"""Elements of an atomic on several: their bits, and how many: F16x2, BF16x8, F32x4."""
TIMINGS = ("fixed", "scoreboard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What the table says of some opcodes.

    Args:
        pipe: e.g. `fma`, `alu`, `mufu`, `tensor`, `lsu`, `uniform`, `branch`, `tma`.
        per_sm: whether the pipe is shared by the sub-cores of an SM.
        interval_cycles: from one warp's instruction to the next on the pipe, of 4 bytes a thread or m16n8k16.
        latency_cycles: from issue to result, without waiting for others.
        scoreboard: whether the code waits for the result by a scoreboard, or counts on its latency.
        fma_share: of the interval, during which the FMA of the sub-core is taken as well.
        alu_share: the same of its ALU, and of the heavy half of its FMA.
        scales: whether the interval grows with the bytes that a thread moves.
        source: page, paper or measurement; `estimate` where there is none.
    """

    pipe: str
    per_sm: bool
    interval_cycles: float
    latency_cycles: float
    scoreboard: bool
    fma_share: float
    alu_share: float
    scales: bool
    source: str


def rules(capability: int) -> Mapping[str, Rule]:
    """Opcode prefix -> rule.

    Args:
        capability: e.g. 90.

    Raises:
        ValueError: an architecture without a table.
    """
    if capability not in ARCHITECTURES:
        known = ", ".join(f"sm_{known_capability}" for known_capability in ARCHITECTURES)
        raise ValueError(f"sm_{capability}: no table of opcodes; must be one of {known}")
    return _read(f"sm_{capability}")


def find_rule(instruction: Instruction, table: Mapping[str, Rule]) -> Rule | None:
    """The rule of an instruction; None where the table has none."""
    name = instruction.opcode
    while name:
        if name in table:
            return table[name]
        name = name.rpartition(".")[0]
    return None


def interval_cycles(instruction: Instruction, rule: Rule) -> float:
    """How long an instruction keeps its pipe [cycles]: by the bytes that it moves, or the matmul that it makes."""
    if matmul := matmul_shape_of(instruction):
        return tensor_cycles(matmul, rule.interval_cycles)
    return rule.interval_cycles * (thread_bytes(instruction) / WORD_BYTES if rule.scales else 1)


def thread_bytes(instruction: Instruction) -> int:
    """Bytes that a thread moves, at least a word: shared memory takes no less time for a byte [B]."""
    modifiers = instruction.modifiers
    if instruction.family in ("LDSM", "STSM"):
        return WORD_BYTES * max((MATRICES.get(modifier, 1) for modifier in modifiers), default=1)
    if instruction.family in ("LDTM", "STTM"):
        return WORD_BYTES * max(
            (int(modifier[1:]) for modifier in modifiers if modifier[1:].isdigit() and modifier[0] == "x"), default=1
        )
    return max(
        vector_bytes(instruction), WORD_BYTES * max((WIDTHS.get(modifier, 1) for modifier in modifiers), default=1)
    )


def vector_bytes(instruction: Instruction) -> int:
    """Bytes of the elements that an atomic of several adds to; 0 of any other instruction [B]."""
    vectors = (VECTOR.fullmatch(modifier) for modifier in instruction.modifiers)
    return next((int(vector[1]) // 8 * int(vector[2]) for vector in vectors if vector), 0)


@cache
def _read(name: str) -> Mapping[str, Rule]:
    text = (resources.files(__package__) / f"{name}.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    rules_by_prefix = dict(_read(table["base"])) if "base" in table else {}
    for entry in table["rule"]:
        rules_by_prefix.update(dict.fromkeys(entry["opcodes"], _rule(name, entry)))
    return rules_by_prefix


def _rule(name: str, entry: Mapping[str, Any]) -> Rule:
    if entry["timing"] not in TIMINGS:
        raise ValueError(f"{name}.toml: timing = {entry['timing']!r}: must be one of {', '.join(TIMINGS)}")
    return Rule(
        pipe=entry["pipe"],
        per_sm=entry.get("per") == "sm",
        interval_cycles=float(entry["interval"]),
        latency_cycles=float(entry["latency"]),
        scoreboard=entry["timing"] == "scoreboard",
        fma_share=float(entry.get("fma_share", 0.0)),
        alu_share=float(entry.get("alu_share", 0.0)),
        scales=entry.get("scales") == "bytes",
        source=entry["source"],
    )
