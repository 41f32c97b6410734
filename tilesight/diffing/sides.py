"""From recorded launches to sides: both compiled, and predicted where their code differs. torch and triton, no GPU."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from ..predicting import compiled_launches, with_recording
from ..simulator.device.device import Device
from ..simulator.explain import explain_launch
from ..simulator.launch.code import source_text
from ..simulator.launch.program import Launch
from ..simulator.predict_kernels import CompiledLaunch, predict_kernels
from ..simulator.prediction.explanation import CodePart
from ..simulator.prediction.kernel_row import KernelRow
from ..simulator.prediction.kernels import KernelsPrediction, Request
from ..simulator.prediction.prediction import LaunchPrediction
from ..simulator.report.kernels.sources import shown_numbers
from .code import code_of, flow_of, shape_of, tiling_of
from .environments.found import Installation
from .side import Environment, LaunchSide, Side, SourceLine

if TYPE_CHECKING:
    from ..kernels.capture.file import RecordedFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Request):
    """What a side is predicted for.

    Args:
        settings: what-ifs that made the device, `key=value`; timing: as `predict`.
        installation: that records and compiles, None: this one, and no other was asked for.
    """

    settings: tuple[str, ...] = ()
    timing: str = "single"
    installation: Installation | None = None

    @property
    def compiler(self) -> tuple[str, str]:
        """Versions of Triton and of the assembler that make the code; empty where no environment was asked for."""
        environment = self.installation.environment if self.installation else None
        return (environment.triton, environment.ptxas) if environment else ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A side whose launches are compiled.

    Args:
        name, code, environment: as of `Side`; recorded: the function; launches: of it; codes, shapes, tilings: of each.
    """

    name: str
    recorded: "RecordedFunction"
    launches: Sequence[CompiledLaunch]
    codes: Sequence[str]
    shapes: Sequence[str]
    tilings: Sequence[str]
    code: str
    environment: Environment | None = None


def compiled_side(name: str, recorded: "RecordedFunction", question: Question) -> Compiled:
    """Launches with their machine code, and the names of it."""
    from ..kernels.compile.call import KernelLaunch

    interpreter = question.installation.interpreter if question.installation else None
    launches = compiled_launches(recorded.calls, question, interpreter)
    pairs = list(zip(launches, recorded.calls, strict=True))
    codes = [code_of(launch.kernel, call) if isinstance(call, KernelLaunch) else "" for launch, call in pairs]
    shapes = [shape_of(call) if isinstance(call, KernelLaunch) else "" for call in recorded.calls]
    tilings = [tiling_of(call) if isinstance(call, KernelLaunch) else "" for call in recorded.calls]
    calls: list[KernelLaunch] = [call for call in recorded.calls if isinstance(call, KernelLaunch)]
    flow = flow_of(calls, codes) if len(calls) == len(codes) else ""
    return Compiled(
        name=name,
        recorded=recorded,
        launches=launches,
        codes=codes,
        shapes=shapes,
        tilings=tilings,
        code=flow,
        environment=question.installation.environment if question.installation else None,
    )


def unpredicted(compiled: Compiled, question: Question) -> Side:
    """A side that is not predicted: of an autotuned launch the first configuration stands for all."""
    groups = {
        (launch.tuned if launch.tuned >= 0 else -number - 1): number
        for number, launch in reversed(list(enumerate(compiled.launches)))
    }
    numbers = sorted(groups.values())
    rows = [compiled.launches[number].row for number in numbers]
    return _side(compiled, question, rows, numbers, [()] * len(rows), predicted=False)


def predicted(compiled: Compiled, question: Question, shown: bool = False) -> tuple[Side, KernelsPrediction]:
    """A side with figures and with executed instructions by line of source, and all that was predicted of it.

    Args:
        shown: whether that is shown as `predict` shows it, with every way to measure time, and with advice.
    """
    do_bench = shown or question.timing == "do_bench"
    outcome = predict_kernels(compiled.launches, question, do_bench=do_bench, advice=shown)
    rows = outcome.prediction.measured_as(question.timing).rows
    lines = [
        _lines(launch, row.prediction, question.device) if launch and row.prediction else ()
        for launch, row in zip(outcome.launches, outcome.prediction.rows, strict=True)
    ]
    side = _side(compiled, question, rows, outcome.numbers, lines, predicted=True)
    return side, with_recording(outcome.prediction, compiled.recorded)


def _side(
    compiled: Compiled,
    question: Question,
    rows: Sequence[KernelRow],
    numbers: Sequence[int],
    lines: Sequence[tuple[SourceLine, ...]],
    predicted: bool,
) -> Side:
    launches = [
        LaunchSide(
            row=row,
            shape=compiled.shapes[number],
            code=compiled.codes[number],
            tiling=compiled.tilings[number],
            lines=source,
        )
        for row, number, source in zip(rows, numbers, lines, strict=True)
    ]
    return side_with(launches, compiled, question, predicted)


def side_with(launches: Sequence[LaunchSide], compiled: Compiled, question: Question, predicted: bool) -> Side:
    """A side of these launches. Args: predicted: as of `Side`."""
    notes = [note for launch in launches for note in launch.row.notes]
    return Side(
        name=compiled.name,
        device=question.name,
        settings=question.settings,
        l2=question.l2,
        timing=question.timing,
        launches=tuple(launches),
        code=compiled.code,
        predicted=predicted,
        notes=tuple(dict.fromkeys((*compiled.recorded.notes, *notes))),
        ended=compiled.recorded.ended,
        torch_operations=compiled.recorded.operations,
        environment=compiled.environment,
    )


def _lines(launch: Launch, prediction: LaunchPrediction, device: Device) -> tuple[SourceLine, ...]:
    """Lines of a launch's source, with what each executes by family of opcodes, and its share of the time."""
    if launch.resources.code is None:
        return ()
    explained = explain_launch(launch, prediction, device)
    if not explained.counted:
        return ()
    total_cycles, sources = explained.code.warp_cycles, explained.sources
    lines = []
    for file, places in groupby(sources, key=lambda place: place[0]):
        for number in shown_numbers([number for _, number in places]):
            families: dict[str, int] = {}
            part = sources.get((file, number), CodePart(lines=()))
            for line in part.lines:
                if line.executed:
                    family = line.instruction.family
                    families[family] = families.get(family, 0) + line.executed
            lines.append(
                SourceLine(
                    file=Path(file).name,
                    number=number,
                    text=source_text((file, number)),
                    executed=families,
                    time_fraction=part.warp_cycles / total_cycles if total_cycles else None,
                )
            )
    return tuple(lines)
