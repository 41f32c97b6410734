"""Where the cycles of launches go, for people: steps, waits by line of source and by loop, and the code.

Of a schedule, which has few launches, all are told in full, with steps that bear names of its algorithm;
of launches that anyone's function makes, which may be hundreds, the longest, and the others in short.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .. import units
from ..device.device import Device
from ..display.render import RESOURCES, Column, bound_text, config_text, fitting, percent, plural, table, wrapped
from ..launch.code import NOWHERE, source_text
from ..prediction.explanation import ISSUE, OUTSIDE, REASONS, CodePart, Explanation, LaunchExplanation
from ..prediction.kernels import KernelsPrediction
from ..prediction.prediction import Prediction
from ..prediction.torch_operation import torch_note
from ..sm.stall_reasons import STALLS
from ..sm.step_cost import PIPES
from .simulate import COSTS

LEAST_UNSEEN = 0.001
"""Share of the executed instructions that no simulated warp came by, from which on it is told."""
MOST_PLACES = 6
"""Columns of the table of stalls."""
HOTTEST = 10
"""Instructions that the listing marks."""
MEANINGS = {ISSUE: "the warp issues"} | {stall.name: f"waits {stall.meaning}" for stall in STALLS}
LEAST_TIME = 0.005
"""Share of a launch's time from which on a line is shown; what its results are waited for counts as well."""
LEAST_WAIT = 0.1
"""Share of a line's time from which on a reason is named."""
MOST_REASONS = 2
MOST_LINES = 3
"""Lines of each launch that is told in short."""
LEAST_SOURCE, MOST_SOURCE = 30, 60
"""Characters of a source line that are shown, as there is room beside what warps do there."""
Sources = Mapping[tuple[str, int], CodePart]


def explain_text(explanation: Explanation, device: Device, sass: bool, width: int = 110, color: bool = False) -> str:
    """What `tilesight explain` prints.

    Args:
        sass: with the code of what is told in full, and its loops; width: characters; color: whether to use bold.
    """
    prediction, launches = explanation.prediction, explanation.launches
    rows = prediction.rows if isinstance(prediction, KernelsPrediction) else ()
    lines = wrapped(_head(prediction, device), width)
    short: list[tuple[int, LaunchExplanation]] = []
    for number, launch in enumerate(launches, 1):
        is_longest = launch is explanation.longest
        if launch and rows and not is_longest:
            short.append((number, launch))
        elif launch:
            heading = f"Launch {number} of {len(launches)}: {launch.prediction.name}"
            if len(launches) > 1:
                share = launch.prediction.traffic.time_s / prediction.total.time_s
                heading += f"{', the longest' if is_longest else ''}: {percent(share)} of all"
            lines += ["", heading, *_launch_text(launch, not rows, sass, width, color)]
    if short:
        lines += ["", "Other launches, and the lines where their warps spend most time"]
        lines += [table(_short_columns(short), width, color)]
    remarks = [f"Refused  {row.refused}" for row in rows if row.refused]
    if isinstance(prediction, KernelsPrediction) and prediction.torch_operations:
        remarks.append(f"Note     {torch_note(prediction.torch_operations)}")
    notes = dict.fromkeys([*prediction.notes, *(note for row in rows for note in row.notes)])
    remarks += [f"Note     {note}" for note in notes]
    return "\n".join([*lines, *(["", *wrapped(remarks, width)] if remarks else ())])


def _head(prediction: Prediction | KernelsPrediction, device: Device) -> list[str]:
    if isinstance(prediction, KernelsPrediction):
        return prediction.heading
    return [
        f"{prediction.schedule} on {prediction.device} ({device.name}):"
        f" {units.duration(prediction.time_s)}, bound by {bound_text(prediction)}",
        f"  Problem      {prediction.problem.text}",
        f"  Config       {config_text(prediction.config_dict())}",
    ]


def _launch_text(launch: LaunchExplanation, steps: bool, sass: bool, width: int, color: bool) -> list[str]:
    """A launch in full. Loops are told where the code is shown, as their names are addresses, or no line is known."""
    lines = wrapped(launch_lines(launch), width)
    if launch.steps and steps:
        lines += ["", *step_lines(launch, width, color)]
    if launch.code.warp_cycles:
        is_known = any(file for file, _ in launch.sources)
        if is_known:
            lines += ["", *source_lines(launch.sources, launch.code.warp_cycles, width, color)]
        if sass or not is_known:
            lines += ["", *stall_lines(launch, width, color)]
    return [*lines, *(["", *sass_lines(launch, width, color)] if sass else ())]


def launch_lines(launch: LaunchExplanation) -> list[str]:
    """Time, where its cycles come from, and what of the code could not be read."""
    prediction = launch.prediction
    lines = [
        f"  Time         {units.duration(prediction.traffic.time_s)}: {units.count(prediction.traffic.cycles)} cycles"
        f" at {units.clock(prediction.clock_hz)}, {units.duration(prediction.overhead_s)} launch overhead",
        f"  Bound by     {bound_text(prediction)}: {RESOURCES[prediction.bottleneck]}",
        f"  Cost         cycles {COSTS[prediction.cost.split(':')[0]]}",
    ]
    if launch.resident:
        lines.append(
            f"  Full SM      {plural(launch.resident, 'CTA')} of {plural(prediction.num_warps, 'warp')} each;"
            f" {prediction.waves:.2f} waves"
        )
    counts = {
        True: f"{units.count(launch.code.executed)} by all warps",
        False: "not known before the launch: a branch depends on data",
    }
    lines.append(f"  Executed     {counts[launch.counted]}; {plural(len(launch.code.lines), 'instruction')} of code")
    if launch.unknown:
        named = ", ".join(f"{name} ({count})" for name, count in launch.unknown.items())
        lines.append(f"  Unknown      opcodes that the model does not know, counted as one issue each: {named}")
    unseen = sum(line.executed for line in launch.code.lines if not line.cycles)
    if launch.steps and launch.counted and unseen > LEAST_UNSEEN * launch.code.executed:
        share = percent(unseen / launch.code.executed)
        lines.append(f"  Not timed    {share} of the executed instructions, on paths not simulated")
    return lines


def step_lines(launch: LaunchExplanation, width: int, color: bool = False) -> list[str]:
    """Cycles of each step, alone and on a full SM, and what of them each pipe is busy."""
    steps = [step for step in launch.steps if step.executions]
    columns = [
        Column("step", [step.name for step in steps], left=True),
        Column("executed", [units.count(step.executions) for step in steps]),
        Column("alone", [f"{step.alone_cycles:,.0f}" for step in steps]),
        Column("full SM", [f"{step.full_cycles:,.0f}" for step in steps]),
        Column("of launch", [percent(step.cycles_fraction) for step in steps]),
    ]
    columns += [Column(pipe, [percent(step.pipes[pipe]) for step in steps]) for pipe in PIPES]
    inside = min(1.0, sum(step.cycles_fraction for step in steps))
    caption = "Cycles of a step: of a CTA alone, and per step finished on a full SM; how busy each pipe is on a full SM"
    return [
        *wrapped([caption], width),
        table(columns, width, color),
        f"The rest of the launch, {percent(1.0 - inside)}: waiting for memory, start and end, idle slots.",
    ]


def source_lines(sources: Sources, total_cycles: float, width: int, color: bool = False) -> list[str]:
    """Time and waits beside each line of source. Args: total_cycles: time of all warps of the launch [cycles]."""
    shown = {
        place: part
        for place, part in sources.items()
        if max(part.warp_cycles, part.others_wait_cycles) >= LEAST_TIME * total_cycles
    }
    waits = [part.others_wait_cycles / total_cycles for part in shown.values()]
    reasons = [_main_reasons(part) for part in shown.values()]
    columns = [
        Column("line", [_place_text(place, sources) for place in shown]),
        Column("time", [percent(part.warp_cycles / total_cycles) for part in shown.values()]),
        Column("waited for", [percent(wait) if wait >= LEAST_TIME else "" for wait in waits]),
        Column("executed", [units.count(part.executed) for part in shown.values()], rank=2),
        Column(
            "mostly",
            [", ".join(f"{reason} {percent(share)}" for reason, share in shares) for shares in reasons],
            rank=1,
            left=True,
        ),
    ]
    rooms = (width - 2 - sum(column.width + 2 for column in columns if column.rank < rank) for rank in (2, 1))
    room = next((room for room in rooms if room >= LEAST_SOURCE), LEAST_SOURCE)
    columns.append(Column("source", _source_texts(shown, room), left=True))
    files = sorted({Path(file).name for file, _ in sources if file})
    caption = (
        f"Where warps of a full SM spend their time, by line of {', '.join(files) or 'the source'}: time at the line,"
        " and time that warps wait for its results, of all warps' time"
    )
    lines = [*wrapped([caption], width), table(columns, width, color)]
    if left := len(sources) - len(shown):
        rest = sum(part.warp_cycles for place, part in sources.items() if place not in shown) / total_cycles
        lines.append(f"Not shown: {plural(left, 'line')} with {percent(rest)} of the time.")
    if all(column.title != "mostly" for column in fitting(columns, width)):
        return lines
    named = dict.fromkeys(reason for shares in reasons for reason, _ in shares)
    return [*lines, *wrapped([f"{reason}: {MEANINGS[reason]}" for reason in named], width)]


def _main_reasons(part: CodePart) -> list[tuple[str, float]]:
    """What warps do at a line, most first: reason, share of their time there."""
    total = part.warp_cycles
    shares = sorted(
        ((cycles / total, reason) for reason, cycles in part.cycles_by_reason.items() if cycles), reverse=True
    )
    return [(reason, share) for share, reason in shares[:MOST_REASONS] if share >= LEAST_WAIT]


def _place_text(place: tuple[str, int], sources: Sources) -> str:
    """Number of a line; with its file where there are several."""
    file, number = place
    if place == NOWHERE:
        return "none"
    return f"{Path(file).name}:{number}" if len({other for other, _ in sources if other}) > 1 else str(number)


def _source_texts(places: Iterable[tuple[str, int]], room: int = MOST_SOURCE) -> list[str]:
    """Lines without the indentation that all share, and cut. Args: room: for them in the table [characters]."""
    most = min(MOST_SOURCE, room)
    texts = [source_text(place) for place in places]
    margin = min((len(text) - len(text.lstrip()) for text in texts if text.strip()), default=0)
    inner = [text[margin:] for text in texts]
    return [text if len(text) <= most else f"{text[: most - 4]} ..." for text in inner]


def _short_columns(launches: Sequence[tuple[int, LaunchExplanation]]) -> list[Column]:
    cells: list[tuple[str, ...]] = []
    for number, launch in launches:
        prediction, sources = launch.prediction, launch.sources
        hottest = sorted(sources.items(), key=lambda entry: -entry[1].warp_cycles)[:MOST_LINES]
        shown = [
            (_place_text(place, sources), percent(part.warp_cycles / launch.code.warp_cycles), *_source_texts([place]))
            for place, part in hottest
            if part.warp_cycles
        ] or [("", "", "not simulated")]
        heads = [
            (str(number), prediction.name, units.duration(prediction.traffic.time_s)),
            *[("", "", "")] * MOST_LINES,
        ]
        cells += [(*head, *row) for head, row in zip(heads, shown, strict=False)]
    titles, left = ("launch", "kernel", "time", "line", "of its time", "source"), (1, 5)
    return [
        Column(title, list(column), left=number in left)
        for number, (title, column) in enumerate(zip(titles, zip(*cells, strict=True), strict=True))
    ]


def stall_lines(launch: LaunchExplanation, width: int, color: bool = False) -> list[str]:
    """What warps do with their time, in the loops that take most of it."""
    loops, total = launch.loops, launch.code.warp_cycles
    times = {number: part.warp_cycles for number, part in loops.items()}
    longest = sorted((number for number in times if times[number]), key=lambda number: -times[number])[:MOST_PLACES]
    places = {number: part for number, part in loops.items() if number in longest}
    cycles_by_place = {number: part.cycles_by_reason for number, part in places.items()}
    shown = [reason for reason in REASONS if any(cycles[reason] for cycles in cycles_by_place.values())]
    heads = ["of all warps' time", "executed", "code", "cycles an issue", *shown]
    columns = [Column("", heads, left=True)]
    for number, part in places.items():
        cycles, executed = times[number], part.executed
        cells = [percent(cycles / total), units.count(executed), str(len(part.lines)), f"{cycles / executed:.1f}"]
        cells += [percent(cycles_by_place[number][reason] / cycles) for reason in shown]
        name = "no loop" if number == OUTSIDE else f"loop 0x{part.lines[0].instruction.address:04x}"
        columns.append(Column(name, cells))
    meanings = ["", "instructions, all warps together", "instructions", "of a warp, with its waits"]
    columns.append(Column("", [*meanings, *(MEANINGS[reason] for reason in shown)], rank=1, left=True))
    text = ["Where warps of a full SM spend their time: by loop, and by reason", table(columns, width, color)]
    if left := len(times) - len(places):
        rest = 1.0 - sum(times[number] for number in places) / total
        text.append(f"Not shown: {plural(left, 'loop')} with {percent(max(0.0, rest))} of the time.")
    return text


def sass_lines(launch: LaunchExplanation, width: int, color: bool = False) -> list[str]:
    """The code, with time and waits beside each instruction."""
    hottest = sorted(launch.code.lines, key=lambda line: (-line.warp_cycles, line.instruction.address))[:HOTTEST]
    marked = {line.instruction.address for line in hottest if line.warp_cycles}
    total = launch.code.warp_cycles
    cells: list[tuple[str, ...]] = []
    for line in launch.code.lines:
        waits = {reason: cycles for reason, cycles in line.cycles.items() if reason != ISSUE}
        longest = max(waits, key=lambda reason: waits[reason], default="")
        cells.append(
            (
                ">" if line.instruction.address in marked else "",
                f"{line.instruction.address:04x}",
                units.count(line.executed) if launch.counted or line.executed else "-",
                f"{sum(line.cycles.values()):.1f}" if line.cycles else "-",
                percent(line.warp_cycles / total) if line.warp_cycles else "",
                f"{longest} {waits[longest]:.1f}" if waits and waits[longest] >= 1.0 else "",
                f"{line.others_wait_cycles:.1f}" if line.others_wait_cycles >= 1.0 else "",
                "| " * line.depth + line.text,
            )
        )
    titles = ("", "address", "issues", "cycles", "time", "waits most for", "waited for", "code")
    ranks, left = (0, 0, 0, 0, 0, 0, 1, 0), (True, True, False, False, False, True, False, True)
    columns = [
        Column(title, column, rank=rank, left=aligned)
        for title, column, rank, aligned in zip(titles, zip(*cells, strict=True), ranks, left, strict=True)
    ]
    waited = any(column.title == "waited for" for column in fitting(columns, width))
    caption = (
        f"Code of {launch.prediction.name}: issues of all warps; cycles of a warp at each, its waits included;"
        f" share of all warps' time; longest wait;{' cycles that a warp waits for its result;' if waited else ''}"
        f" > marks the {HOTTEST} hottest, | a loop"
    )
    return [*wrapped([caption], width), table(columns, width, color)]
