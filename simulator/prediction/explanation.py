"""Where the cycles of launches go, as values: steps, instructions, and what is counted of loops and lines of source.

`to_dict` gives the objects that `explain --json` prints; `report` renders the same for people.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from ..launch.code import source_text
from ..sass.decode import Instruction
from ..sm.stall_reasons import STALLS
from .kernels import KernelsPrediction
from .prediction import LaunchPrediction, Prediction

SCHEMA, KERNELS_SCHEMA = "tilesight.explain/1", "tilesight.explain.kernels/1"
ISSUE = "issuing"
REASONS = (ISSUE, *(stall.name for stall in STALLS))
OUTSIDE = -1
"""Number of the place that is in no loop."""
Place = TypeVar("Place", int, tuple[str, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShare:
    """One step of the tile program.

    Args:
        executions: in the whole launch; alone_cycles: of one with the SM for itself; full_cycles: after which a full SM
            finishes another one [cycles].
        pipes: pipe -> busy share of full_cycles; cycles_fraction: of the launch's cycles, CTAs spread evenly over SMs.
    """

    name: str
    executions: int
    alone_cycles: float
    full_cycles: float
    pipes: dict[str, float]
    cycles_fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLine:
    """One instruction.

    Args:
        loop: number of the innermost loop around it, or `OUTSIDE`; depth: loops around it.
        source: file and line that it comes from, or `launch.code.NOWHERE`.
        executed: issues in the whole launch, all warps together.
        cycles: time of a warp from its last issue to this one, by reason; empty where unknown [cycles].
        others_wait_cycles: time that other instructions of a warp wait for its result, each time it runs [cycles].
    """

    instruction: Instruction
    loop: int
    depth: int
    source: tuple[str, int]
    executed: int
    cycles: dict[str, float]
    others_wait_cycles: float

    @property
    def text(self) -> str:
        """As cuobjdump prints it."""
        guard = f"@{self.instruction.predicate} " if self.instruction.predicate else ""
        return f"{guard}{self.instruction.opcode} {', '.join(self.instruction.printed)}".rstrip()

    @property
    def warp_cycles(self) -> float:
        """Time of all warps of the launch [cycles]."""
        return self.executed * sum(self.cycles.values())

    def to_dict(self) -> dict[str, Any]:
        """The instruction as `explain --sass --json` has it."""
        return {
            "address": self.instruction.address,
            "text": self.text,
            "depth": self.depth,
            "line": self.source[1] or None,
            "executed": self.executed,
            "cycles": self.cycles,
            "blamed_cycles": self.others_wait_cycles,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePart:
    """Instructions that are counted together: all, those of a loop, or of a line of source. Args: lines: in order."""

    lines: tuple[CodeLine, ...]

    @property
    def executed(self) -> int:
        """Instructions that all warps issue."""
        return sum(line.executed for line in self.lines)

    @property
    def warp_cycles(self) -> float:
        """Time of all warps [cycles]."""
        return sum(line.warp_cycles for line in self.lines)

    @property
    def cycles_by_reason(self) -> dict[str, float]:
        """The same, divided [cycles]."""
        return {reason: sum(line.executed * line.cycles.get(reason, 0.0) for line in self.lines) for reason in REASONS}

    @property
    def others_wait_cycles(self) -> float:
        """Time that warps wait for results of these instructions, wherever they do [cycles]."""
        return sum(line.executed * line.others_wait_cycles for line in self.lines)

    def to_dict(self) -> dict[str, Any]:
        """What is counted, as `explain --json` has it."""
        return {
            "instructions": len(self.lines),
            "executed": self.executed,
            "warp_cycles": self.cycles_by_reason,
            "blamed_cycles": self.others_wait_cycles,
        }

    def by(self, place_of: Callable[[CodeLine], Place]) -> dict[Place, "CodePart"]:
        """Its parts, by where they stand, e.g. their loops. Args: place_of: of an instruction."""
        lines_by_place: defaultdict[Place, list[CodeLine]] = defaultdict(list)
        for line in self.lines:
            lines_by_place[place_of(line)].append(line)
        return {place: CodePart(lines=tuple(lines)) for place, lines in sorted(lines_by_place.items())}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchExplanation:
    """One launch.

    Args:
        prediction: what the engine says of it.
        counted: whether executions are those of the launch; otherwise they are those of the simulated SM, or unknown.
        resident: CTAs of a full SM; 0 where its code gave no cost.
        unknown: opcodes that no rule knows -> how often they stand in the code.
        steps, code: the tile program, and all instructions in order of address.
    """

    prediction: LaunchPrediction
    counted: bool
    resident: int
    unknown: dict[str, int]
    steps: tuple[StepShare, ...]
    code: CodePart

    @property
    def loops(self) -> dict[int, CodePart]:
        """The loops, by their numbers in the code, and what is outside of them; without the loops inside of each."""
        return self.code.by(lambda line: line.loop)

    @property
    def sources(self) -> dict[tuple[str, int], CodePart]:
        """The lines of source, by file and number."""
        return self.code.by(lambda line: line.source)

    def to_dict(self, sass: bool) -> dict[str, Any]:
        """The launch's object in `simulate --json`, explained. Args: sass: with the code."""
        figures = self.prediction.to_dict() | {
            "executed_instructions": self.code.executed if self.counted else None,
            "unknown_opcodes": self.unknown,
            "steps": [asdict(step) for step in self.steps],
            "loops": [
                {
                    "first_address": None if number == OUTSIDE else part.lines[0].instruction.address,
                    "depth": part.lines[0].depth,
                    **part.to_dict(),
                }
                for number, part in self.loops.items()
            ],
            "lines": [
                {"file": file or None, "line": number or None, "source": source_text((file, number)), **part.to_dict()}
                for (file, number), part in self.sources.items()
            ],
        }
        return figures | ({"code": [line.to_dict() for line in self.code.lines]} if sass else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Launches that follow each other. Args: prediction: of all; launches: in order, None where one was refused."""

    prediction: Prediction | KernelsPrediction
    launches: tuple[LaunchExplanation | None, ...]

    @property
    def longest(self) -> LaunchExplanation | None:
        """The launch that takes longest; None where none was predicted."""
        explained = [launch for launch in self.launches if launch]
        return max(explained, key=lambda launch: launch.prediction.traffic.time_s, default=None)

    def to_dict(self, sass: bool) -> dict[str, Any]:
        """The object of `simulate --json` or `predict --json`, explained. Args: sass: with the code of all launches."""
        prediction, launches = self.prediction, [launch.to_dict(sass) if launch else {} for launch in self.launches]
        if not isinstance(prediction, KernelsPrediction):
            bound = {"bottleneck": prediction.bottleneck, "bottleneck_share": prediction.bottleneck_share}
            return prediction.to_dict() | {"schema": SCHEMA, "time_s": prediction.time_s, **bound, "launches": launches}
        rows = [
            {"name": row.name, "grid": list(row.grid), "notes": list(row.notes), "refused": row.refused, "lines": []}
            for row in prediction.rows
        ]
        launches = [row | launch for row, launch in zip(rows, launches, strict=True)]
        return prediction.to_dict() | {
            "schema": KERNELS_SCHEMA,
            "time_s": prediction.total.time_s,
            "launches": launches,
        }
