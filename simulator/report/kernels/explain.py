"""Where the cycles of a user's kernels go, for people and programs: the longest launch by line, the others in short."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ... import units
from ...display.render import Column, percent, plural, table, wrapped
from ...explain_kernels import KernelExplanation, KernelsExplanation, SourceLine
from ...prediction.torch_operation import torch_note
from ..explain import MEANINGS, launch_dict, launch_lines, sass_lines

SCHEMA = "tilesight.explain.kernels/1"
LEAST_TIME = 0.005
"""Share of a launch's time from which on a line is shown; what its results are waited for counts as well."""
LEAST_WAIT = 0.1
"""Share of a line's time from which on a reason is named."""
MOST_REASONS = 2
MOST_LINES = 3
"""Lines of each launch that does not take longest."""
SOURCE_WIDTH = 60
"""Characters of a source line that are shown."""


def kernels_explanation_text(explanation: KernelsExplanation, sass: bool, width: int, color: bool = False) -> str:
    """What `tilesight explain FILE.py:FUNCTION` prints. Args: sass: with the code of the launch that takes longest."""
    prediction = explanation.prediction
    lines = list(wrapped(prediction.heading, width))
    kernel = explanation.dominating
    if kernel and kernel.launch:
        heading = f"Launch {_number(explanation, kernel)} of {len(explanation.kernels)}: {kernel.row.name}"
        if len(explanation.kernels) > 1:
            heading += f", the longest: {percent(kernel.row.traffic.time_s / prediction.total.time_s)} of all"
        lines += ["", heading, *wrapped(launch_lines(kernel.launch), width)]
        if kernel.launch.warp_cycles:
            lines += ["", *source_lines(kernel.sources, kernel.launch.warp_cycles, width, color)]
        if sass:
            lines += ["", *sass_lines(kernel.launch, width, color)]
        if others := [other for other in explanation.kernels if other is not kernel and other.launch]:
            lines += ["", "Other launches, and the lines where their warps spend most time"]
            lines += [table(_other_columns(explanation, others), width, color)]
    notes = dict.fromkeys([*prediction.notes, *(note for row in prediction.rows for note in row.notes)])
    remarks = [f"Refused  {row.refused}" for row in prediction.rows if row.refused]
    if prediction.torch_operations:
        remarks.append(f"Note     {torch_note(prediction.torch_operations)}")
    remarks += [f"Note     {note}" for note in notes]
    return "\n".join([*lines, *(["", *wrapped(remarks, width)] if remarks else [])])


def source_lines(sources: Sequence[SourceLine], total_cycles: float, width: int, color: bool = False) -> list[str]:
    """Time and waits beside each line of the source. Args: total_cycles: time of all warps of the launch [cycles]."""
    shown = [
        source for source in sources if max(source.total_cycles, source.others_wait_cycles) >= LEAST_TIME * total_cycles
    ]
    reasons = [_reasons(source) for source in shown]
    columns = [
        Column(title="line", cells=[_place(source, sources) for source in shown]),
        Column(title="time", cells=[percent(source.total_cycles / total_cycles) for source in shown]),
        Column(title="waited for", cells=[_share(source.others_wait_cycles, total_cycles) for source in shown]),
        Column(title="executed", cells=[units.count(source.executed) for source in shown], rank=2),
        Column(
            title="mostly",
            cells=[", ".join(f"{reason} {percent(share)}" for reason, share in shares) for shares in reasons],
            rank=1,
            left=True,
        ),
        Column(title="source", cells=_cut([source.text for source in shown]), left=True),
    ]
    files = sorted({Path(source.file).name for source in sources if source.file})
    text = [
        f"Where warps of a full SM spend their time, by line of {', '.join(files) or 'the source'}: time at the line,"
        " and time that warps wait for its results, of all warps' time",
        table(columns, width, color),
    ]
    lines = [*wrapped(text[:1], width), text[1]]
    if left := len(sources) - len(shown):
        rest = sum(source.total_cycles for source in sources if source not in shown) / total_cycles
        lines.append(f"Not shown: {plural(left, 'line')} with {percent(rest)} of the time.")
    named = dict.fromkeys(reason for shares in reasons for reason, _ in shares)
    return [*lines, *wrapped([f"{reason}: {MEANINGS[reason]}" for reason in named], width)]


def _reasons(source: SourceLine) -> list[tuple[str, float]]:
    """What warps do at a line, most first: reason, share of their time there."""
    total = source.total_cycles
    shares = sorted(((cycles / total, reason) for reason, cycles in source.warp_cycles.items() if cycles), reverse=True)
    return [(reason, share) for share, reason in shares[:MOST_REASONS] if share >= LEAST_WAIT]


def _place(source: SourceLine, sources: Sequence[SourceLine]) -> str:
    """Number of a line; with its file where there are several."""
    if not source.file:
        return "none"
    files = {other.file for other in sources if other.file}
    return f"{Path(source.file).name}:{source.number}" if len(files) > 1 else str(source.number)


def _share(cycles: float, total_cycles: float) -> str:
    return percent(cycles / total_cycles) if cycles >= LEAST_TIME * total_cycles else ""


def _cut(texts: Sequence[str]) -> list[str]:
    """Lines without the indentation that all share, and no longer than there is room for."""
    margin = min((len(text) - len(text.lstrip()) for text in texts if text.strip()), default=0)
    inner = [text[margin:] for text in texts]
    return [text if len(text) <= SOURCE_WIDTH else f"{text[: SOURCE_WIDTH - 4]} ..." for text in inner]


def _other_columns(explanation: KernelsExplanation, others: Sequence[KernelExplanation]) -> list[Column]:
    cells: list[tuple[str, ...]] = []
    for kernel in others:
        assert kernel.launch is not None
        hottest = sorted(kernel.sources, key=lambda line: -line.total_cycles)[:MOST_LINES]
        for place, source in enumerate(line for line in hottest if line.total_cycles):
            head = (str(_number(explanation, kernel)), kernel.row.name, units.duration(kernel.row.traffic.time_s))
            share = percent(source.total_cycles / kernel.launch.warp_cycles)
            text = _cut([source.text])[0]
            cells.append((*(head if not place else ("", "", "")), _place(source, kernel.sources), share, text))
    titles, left = ("launch", "kernel", "time", "line", "of its time", "source"), (1, 5)
    return [
        Column(title=title, cells=list(column), left=place in left)
        for place, (title, column) in enumerate(zip(titles, zip(*cells, strict=True), strict=True))
    ]


def _number(explanation: KernelsExplanation, kernel: KernelExplanation) -> int:
    return next(number for number, other in enumerate(explanation.kernels, 1) if other is kernel)


def kernels_explanation_dict(explanation: KernelsExplanation, sass: bool) -> dict[str, Any]:
    """The object that `explain FILE.py:FUNCTION --json` prints. Args: sass: with the code of every launch."""
    prediction = explanation.prediction
    return {
        "schema": SCHEMA,
        "device": prediction.device,
        "l2": prediction.l2,
        "complete": prediction.complete,
        "ended": prediction.ended or None,
        "time_s": prediction.total.time_s,
        "launches": [_kernel_dict(kernel, sass) for kernel in explanation.kernels],
        "torch_operations": [operation.to_dict() for operation in prediction.torch_operations],
        "notes": list(prediction.notes),
    }


def _kernel_dict(kernel: KernelExplanation, sass: bool) -> dict[str, Any]:
    """One launch; of one that was refused name, grid and reason alone."""
    row = kernel.row
    head = {"name": row.name, "grid": list(row.grid), "notes": list(row.notes), "refused": row.refused}
    if kernel.launch is None:
        return head | {"lines": []}
    lines = [
        {
            "file": line.file or None,
            "line": line.number or None,
            "source": line.text,
            "executed": line.executed,
            "warp_cycles": line.warp_cycles,
            "blamed_cycles": line.others_wait_cycles,
        }
        for line in kernel.sources
    ]
    return head | launch_dict(kernel.launch, sass) | {"lines": lines}
