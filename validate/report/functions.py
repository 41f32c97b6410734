"""Launches of a user's function, predicted beside measured, for people and programs."""

from typing import Any

from ...simulator.display.render import Column, table, wrapped
from ..functions.compare import ComparedFunction, ComparedLaunch, Judged
from ..measurement import MEASURED

SCHEMA = "tilesight.validate.function.compared/1"


def function_text(compared: ComparedFunction, width: int, color: bool = False) -> str:
    """What `tilesight validate FILE.py:FUNCTION` prints. Args: width: characters; color: whether to use bold."""
    measured = compared.measured
    lines = [
        f"{measured.target} on {measured.machine.gpu}, predicted as {compared.prediction.device}, L2 {measured.l2}:"
        f" {len(compared.launches)} of {len(compared.prediction.rows)} launches compared",
    ]
    for number, launch in enumerate(compared.launches, 1):
        grid = " x ".join(map(str, launch.row.grid))
        lines += ["", f"{number}. {launch.row.name}, grid {grid}", table(_columns(launch), width, color)]
    judged = [value for launch in compared.launches for value in launch.values if value.verdict in ("pass", "FAIL")]
    passed = sum(value.verdict == "pass" for value in judged)
    notes = dict.fromkeys(
        [*compared.prediction.notes, *(note for row in compared.prediction.rows for note in row.notes)]
    )
    remarks = [
        f"Verdict  {passed} of {len(judged)} figures pass",
        *(f"Refused  {row.refused}" for row in compared.prediction.rows if row.refused),
        *([] if measured.counters == MEASURED else [f"Note     no counters: {measured.counters}"]),
        *(f"Note     {note}" for note in notes),
    ]
    return "\n".join([*wrapped(lines[:1], width), *lines[1:], "", *wrapped(remarks, width)])


def _columns(launch: ComparedLaunch) -> list[Column]:
    values = launch.values
    return [
        Column("", [value.quantity.title for value in values], left=True),
        Column("predicted", [value.quantity.text(value.predicted) for value in values]),
        Column("measured", [_measured(value) for value in values]),
        Column("error", ["" if value.finite_error is None else f"{value.finite_error:+.1%}" for value in values]),
        Column("allowed", [f"{value.quantity.limit:.1%}" if value.quantity.limit else "equal" for value in values]),
        Column("verdict", [value.verdict for value in values], left=True),
    ]


def _measured(value: Judged) -> str:
    return "-" if value.measured is None else value.quantity.text(value.measured)


def function_dict(compared: ComparedFunction) -> dict[str, Any]:
    """The object that `validate FILE.py:FUNCTION --json` prints."""
    measured = compared.measured
    return {
        "schema": SCHEMA,
        "target": measured.target,
        "device": compared.prediction.device,
        "l2": measured.l2,
        "machine": measured.machine.to_dict(),
        "counters": measured.counters,
        "launches": [
            {
                "name": launch.row.name,
                "grid": list(launch.row.grid),
                "quantities": {value.quantity.name: value.to_dict() for value in launch.values},
                "timing": launch.measured.timing.to_dict(),
            }
            for launch in compared.launches
        ],
        "refused": [row.refused for row in compared.prediction.rows if row.refused],
        "notes": list(compared.prediction.notes),
    }
