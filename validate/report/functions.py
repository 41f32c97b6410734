"""Launches of a user's function, predicted beside measured, for people and programs."""

from typing import Any

from ...simulator import units
from ...simulator.display.render import Column, table, wrapped
from ..functions.compare import Compared, ComparedFunction, ComparedLaunch
from ..measurement import MEASURED

SCHEMA = "tilesight.validate.function.compared/1"


def function_text(found: ComparedFunction, width: int, color: bool = False) -> str:
    """What `tilesight validate FILE.py:FUNCTION` prints. Args: width: characters; color: whether to use bold."""
    measured = found.measured
    lines = [
        f"{measured.target} on {measured.machine.gpu}, predicted as {found.prediction.device}, L2 {measured.l2}:"
        f" {len(found.launches)} of {len(found.prediction.rows)} launches compared",
    ]
    for number, launch in enumerate(found.launches, 1):
        grid = " x ".join(map(str, launch.row.grid))
        lines += ["", f"{number}. {launch.row.name}, grid {grid}", table(_columns(launch), width, color)]
    judged = [one for launch in found.launches for one in launch.values if one.verdict in ("pass", "FAIL")]
    passed = sum(one.verdict == "pass" for one in judged)
    notes = dict.fromkeys([*found.prediction.notes, *(note for row in found.prediction.rows for note in row.notes)])
    remarks = [
        f"Verdict  {passed} of {len(judged)} figures pass",
        *(f"Refused  {row.refused}" for row in found.prediction.rows if row.refused),
        *([] if measured.counters == MEASURED else [f"Note     no counters: {measured.counters}"]),
        *(f"Note     {note}" for note in notes),
    ]
    return "\n".join([*wrapped(lines[:1], width), *lines[1:], "", *wrapped(remarks, width)])


def _columns(launch: ComparedLaunch) -> list[Column]:
    values = launch.values
    return [
        Column(title="", cells=[one.quantity.title for one in values], left=True),
        Column(title="predicted", cells=[_text(one, one.predicted) for one in values]),
        Column(title="measured", cells=[_text(one, one.measured) for one in values]),
        Column(title="error", cells=["" if one.error is None else f"{one.error:+.1%}" for one in values]),
        Column(
            title="allowed", cells=[f"{one.quantity.limit:.1%}" if one.quantity.limit else "equal" for one in values]
        ),
        Column(title="verdict", cells=[one.verdict for one in values], left=True),
    ]


def _text(one: Compared, value: float | None) -> str:
    if value is None:
        return "-"
    if one.quantity.kind == "time":
        return units.duration(value)
    return units.traffic(value) if one.quantity.kind == "bytes" else f"{value:,.0f}"


def function_dict(found: ComparedFunction) -> dict[str, Any]:
    """The object that `validate FILE.py:FUNCTION --json` prints."""
    measured = found.measured
    return {
        "schema": SCHEMA,
        "target": measured.target,
        "device": found.prediction.device,
        "l2": measured.l2,
        "machine": measured.machine.to_dict(),
        "counters": measured.counters,
        "launches": [
            {
                "name": launch.row.name,
                "grid": list(launch.row.grid),
                "quantities": {one.quantity.name: one.to_dict() for one in launch.values},
                "timing": launch.measured.timing.to_dict(),
            }
            for launch in found.launches
        ],
        "refused": [row.refused for row in found.prediction.rows if row.refused],
        "notes": list(found.prediction.notes),
    }
