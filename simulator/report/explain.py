"""Where the cycles of a configuration go, for people and programs: steps, waits per loop, and the code itself."""

from collections.abc import Sequence
from dataclasses import asdict

from .. import units
from ..device.device import Device
from ..display.render import RESOURCES, Column, bound_text, config_text, fitting, percent, plural, table, wrapped
from ..explain import ISSUE, OUTSIDE, REASONS, Explanation, LaunchExplanation, Line
from ..sm.stall_reasons import STALLS
from ..sm.step_cost import PIPES
from .simulate import COSTS

SCHEMA = "tilesight.explain/1"
LEAST_UNSEEN = 0.001
"""Share of the executed instructions that no simulated warp came by, from which on it is told."""
MOST_PLACES = 6
"""Columns of the table of stalls."""
HOTTEST = 10
"""Instructions that the listing marks."""
MEANINGS = {ISSUE: "the warp issues"} | {stall.name: f"waits {stall.meaning}" for stall in STALLS}


def explain_text(explanation: Explanation, device: Device, sass: bool, width: int = 110, color: bool = False) -> str:
    """What `tilesight explain` prints. Args: sass: with the code; width: characters; color: whether to use bold."""
    prediction = explanation.prediction
    head = [
        f"{prediction.schedule} on {prediction.device} ({device.name}):"
        f" {units.duration(prediction.time_s)}, bound by {bound_text(prediction)}",
        f"  Problem      {prediction.problem.text}",
        f"  Config       {config_text(prediction.config_dict())}",
        *(f"  Note         {note}" for note in prediction.notes),
    ]
    lines, count = wrapped(head, width), len(explanation.launches)
    for number, launch in enumerate(explanation.launches, 1):
        lines += ["", f"Launch {number} of {count}: {launch.prediction.name}", *wrapped(launch_lines(launch), width)]
        if launch.steps:
            lines += ["", *step_lines(launch, width, color), "", *stall_lines(launch, width, color)]
        if sass:
            lines += ["", *sass_lines(launch, width, color)]
    return "\n".join(lines)


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
        True: f"{units.count(launch.executed)} by all warps",
        False: "not known before the launch: a branch depends on data",
    }
    lines.append(f"  Executed     {counts[launch.counted]}; {plural(len(launch.lines), 'instruction')} of code")
    if launch.unknown:
        named = ", ".join(f"{name} ({count})" for name, count in launch.unknown.items())
        lines.append(f"  Unknown      opcodes that the model does not know, counted as one issue each: {named}")
    unseen = sum(line.executed for line in launch.lines if not line.cycles)
    if launch.steps and launch.counted and unseen > LEAST_UNSEEN * launch.executed:
        lines.append(
            f"  Not timed    {percent(unseen / launch.executed)} of the executed instructions, on paths not simulated"
        )
    return lines


def step_lines(launch: LaunchExplanation, width: int, color: bool = False) -> list[str]:
    """Cycles of each step, alone and on a full SM, and what of them each pipe is busy."""
    steps = [step for step in launch.steps if step.executions]
    columns = [
        Column(title="step", cells=[step.name for step in steps], left=True),
        Column(title="executed", cells=[units.count(step.executions) for step in steps]),
        Column(title="alone", cells=[f"{step.alone_cycles:,.0f}" for step in steps]),
        Column(title="full SM", cells=[f"{step.full_cycles:,.0f}" for step in steps]),
        Column(title="of launch", cells=[percent(step.cycles_fraction) for step in steps]),
    ]
    columns += [Column(title=pipe, cells=[percent(step.pipes[pipe]) for step in steps]) for pipe in PIPES]
    inside = min(1.0, sum(step.cycles_fraction for step in steps))
    caption = "Cycles of a step: of a CTA alone, and per step finished on a full SM; how busy each pipe is on a full SM"
    return [
        *wrapped([caption], width),
        table(columns, width, color),
        f"The rest of the launch, {percent(1.0 - inside)}: waiting for memory, start and end, idle slots.",
    ]


def place_text(number: int, lines: Sequence[Line]) -> str:
    """Name of a loop, or of what is in none."""
    return "no loop" if number == OUTSIDE else f"loop 0x{lines[0].instruction.address:04x}"


def _reasons(lines: Sequence[Line]) -> dict[str, float]:
    """Time of all warps at these instructions, by reason [cycles]."""
    return {reason: sum(line.executed * line.cycles.get(reason, 0.0) for line in lines) for reason in REASONS}


def stall_lines(launch: LaunchExplanation, width: int, color: bool = False) -> list[str]:
    """What warps do with their time, in the loops that take most of it."""
    times = {number: sum(line.warp_cycles for line in lines) for number, lines in launch.places().items()}
    longest = sorted((number for number in times if times[number]), key=lambda number: -times[number])[:MOST_PLACES]
    places = {number: lines for number, lines in launch.places().items() if number in longest}
    cycles_by_place = {number: _reasons(lines) for number, lines in places.items()}
    shown = [reason for reason in REASONS if any(cycles[reason] for cycles in cycles_by_place.values())]
    heads = ["of all warps' time", "executed", "code", "cycles an issue", *shown]
    columns = [Column(title="", cells=heads, left=True)]
    for number, lines in places.items():
        cycles, executed = sum(cycles_by_place[number].values()), sum(line.executed for line in lines)
        cells = [percent(cycles / launch.warp_cycles), units.count(executed), str(len(lines))]
        cells += [f"{cycles / executed:.1f}", *(percent(cycles_by_place[number][reason] / cycles) for reason in shown)]
        columns.append(Column(title=place_text(number, lines), cells=cells))
    meanings = ["", "instructions, all warps together", "instructions", "of a warp, with its waits"]
    columns.append(Column(title="", cells=[*meanings, *(MEANINGS[reason] for reason in shown)], rank=1, left=True))
    text = ["Where warps of a full SM spend their time: by loop, and by reason", table(columns, width, color)]
    if left := len(times) - len(places):
        rest = 1.0 - sum(times[number] for number in places) / launch.warp_cycles
        text.append(f"Not shown: {plural(left, 'loop')} with {percent(max(0.0, rest))} of the time.")
    return text


def sass_lines(launch: LaunchExplanation, width: int, color: bool = False) -> list[str]:
    """The code, with time and waits beside each instruction."""
    hottest = sorted(launch.lines, key=lambda line: (-line.warp_cycles, line.instruction.address))[:HOTTEST]
    marked = {line.instruction.address for line in hottest if line.warp_cycles}
    total = launch.warp_cycles
    cells: list[tuple[str, ...]] = []
    for line in launch.lines:
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
                "| " * line.depth + instruction_text(line),
            )
        )
    titles = ("", "address", "issues", "cycles", "time", "waits most for", "waited for", "code")
    ranks, left = (0, 0, 0, 0, 0, 0, 1, 0), (True, True, False, False, False, True, False, True)
    columns = [
        Column(title=title, cells=column, rank=rank, left=aligned)
        for title, column, rank, aligned in zip(titles, zip(*cells, strict=True), ranks, left, strict=True)
    ]
    waited = any(column.title == "waited for" for column in fitting(columns, width))
    caption = (
        f"Code of {launch.prediction.name}: issues of all warps; cycles of a warp at each, its waits included;"
        f" share of all warps' time; longest wait;{' cycles that a warp waits for its result;' if waited else ''}"
        f" > marks the {HOTTEST} hottest, | a loop"
    )
    return [*wrapped([caption], width), table(columns, width, color)]


def instruction_text(line: Line) -> str:
    """An instruction as cuobjdump prints it."""
    instruction = line.instruction
    guard = f"@{instruction.predicate} " if instruction.predicate else ""
    return f"{guard}{instruction.opcode} {', '.join(instruction.printed)}".rstrip()


def explain_dict(explanation: Explanation, sass: bool) -> dict[str, object]:
    """The object that `explain --json` prints. Args: sass: with the code."""
    prediction = explanation.prediction
    return {
        "schema": SCHEMA,
        "device": prediction.device,
        "schedule": prediction.schedule,
        "problem": prediction.problem.to_dict(),
        "config": prediction.config_dict(),
        "time_s": prediction.time_s,
        "bottleneck": prediction.bottleneck,
        "bottleneck_share": prediction.bottleneck_share,
        "launches": [launch_dict(launch, sass) for launch in explanation.launches],
        "notes": list(prediction.notes),
    }


def launch_dict(launch: LaunchExplanation, sass: bool) -> dict[str, object]:
    """A launch as `explain --json` has it. Args: sass: with the code."""
    prediction = launch.prediction
    figures: dict[str, object] = {
        "name": prediction.name,
        "time_s": prediction.traffic.time_s,
        "cycles": prediction.traffic.cycles,
        "clock_hz": prediction.clock_hz,
        "bottleneck": prediction.bottleneck,
        "bottleneck_share": prediction.bottleneck_share,
        "cost": prediction.cost,
        "ctas_per_sm": prediction.ctas_per_sm,
        "executed_instructions": launch.executed if launch.counted else None,
        "unknown_opcodes": launch.unknown,
        "steps": [asdict(step) for step in launch.steps],
        "loops": [
            {
                "first_address": None if number == OUTSIDE else lines[0].instruction.address,
                "depth": lines[0].depth,
                "instructions": len(lines),
                "executed": sum(line.executed for line in lines),
                "warp_cycles": _reasons(lines),
            }
            for number, lines in launch.places().items()
        ],
    }
    if sass:
        figures["code"] = [
            {
                "address": line.instruction.address,
                "text": instruction_text(line),
                "depth": line.depth,
                "executed": line.executed,
                "cycles": line.cycles,
                "blamed_cycles": line.others_wait_cycles,
            }
            for line in launch.lines
        ]
    return figures
