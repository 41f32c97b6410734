"""A configuration space on several devices for people: which device is faster, each one's ranking, and both at once."""

from collections.abc import Sequence

from .. import units
from ..display.render import Column, config_text, table, times, wrapped
from ..explore.candidate import Candidate
from ..explore.explore import Exploration
from ..explore.ranking import option_column, options_that_vary, ranking_rows, short_text
from ..schedules.registry import all_options
from .explore import left_out_lines, why_lines

SCHEMA = "tilesight.explore-devices/1"
Key = tuple[str, tuple[tuple[str, object], ...]]
"""Schedule and options: what is the same configuration on another device."""


def devices_text(explorations: Sequence[Exploration], top: int = 5, width: int = 120, color: bool = False) -> str:
    """What `tilesight explore` prints for several devices.

    Args:
        explorations: one a device, of the same problem; top: rows of each device's ranking.
    """
    names = ", ".join(f"{exploration.device_name} ({exploration.device.name})" for exploration in explorations)
    notes = [f"{exploration.device_name}: {note}" for exploration in explorations for note in exploration.notes_on(top)]
    first, *others = (exploration.notes_on(top) for exploration in explorations)
    shared = [note for note in first if all(note in of_other for of_other in others)]
    head = [f"{explorations[0].problem.text} on {names}", *shared]
    head += [note for note in notes if note.partition(": ")[2] not in shared]
    lines = wrapped(head, width)
    ran = [exploration for exploration in explorations if exploration.ranked]
    if ran:
        lines += ["", "The best of each device", _best_table(ran, width, color)]
        lines += ["", "Ranked on each device", _ranking_table(ran, top, width, color)]
        lines += ["", "The same configuration on each device: time and rank", _side_by_side(ran, top, width, color)]
    for exploration in explorations:
        why = [*(why_lines(exploration) if exploration.ranked else ()), *left_out_lines(exploration)]
        lines += wrapped(["", exploration.device_name, *why], width)
    return "\n".join(lines)


def devices_rows(explorations: Sequence[Exploration]) -> list[dict[str, object]]:
    """All candidates of all devices as rows for CSV."""
    rows = [row for of in explorations for row in ranking_rows(of.device_name, of.candidates)]
    keys = dict.fromkeys(key for row in rows for key in row)
    return [{key: row.get(key) for key in keys} for row in rows]


def devices_dict(explorations: Sequence[Exploration], top: int | None = None) -> dict[str, object]:
    """What `explore --json` prints for several devices: the object of each."""
    return {"schema": SCHEMA, "devices": [exploration.to_dict(top) for exploration in explorations]}


def _best_table(explorations: Sequence[Exploration], width: int, color: bool) -> str:
    best = [exploration.ranked[0] for exploration in explorations]
    slowest_s = max(item.costs[0] for item in best)
    rows = sorted(zip(explorations, best, strict=True), key=lambda pair: pair[1].costs[0])

    totals = [item.prediction.total for _, item in rows if item.prediction]
    columns = [
        Column("device", [exploration.device_name for exploration, _ in rows], left=True),
        Column("time", [units.duration(item.costs[0]) for _, item in rows]),
        Column("vs slowest", [times(slowest_s / item.costs[0]) for _, item in rows]),
    ]
    if all(total.matmul_flop for total in totals):
        columns.append(Column("TFLOP/s", [f"{total.matmul_flop / total.time_s / 1e12:.0f}" for total in totals]))
    columns += [
        Column("HBM", [units.traffic(total.hbm_bytes) for total in totals], 1),
        Column("bound by", [item.prediction.bottleneck if item.prediction else "" for _, item in rows], left=True),
        Column("configuration", [short_text(exploration.candidates, item) for exploration, item in rows], left=True),
    ]
    return table(columns, width, color)


def _option_columns(explorations: Sequence[Exploration], items: Sequence[Candidate]) -> list[Column]:
    columns = []
    if len({item.schedule for exploration in explorations for item in exploration.candidates}) > 1:
        columns.append(Column("schedule", [item.schedule for item in items], left=True))
    vary = {name for exploration in explorations for name in options_that_vary(exploration.candidates)}
    return columns + [option_column(name, items) for name in all_options() if name in vary]


def _ranking_table(explorations: Sequence[Exploration], top: int, width: int, color: bool) -> str:
    rows = [
        (exploration, rank, item)
        for exploration in explorations
        for rank, item in enumerate(exploration.ranked[:top], 1)
    ]
    items = [item for _, _, item in rows]
    totals = [item.prediction.total for item in items if item.prediction]
    columns = [
        Column("device", [exploration.device_name for exploration, _, _ in rows], left=True),
        Column("#", [str(rank) for _, rank, _ in rows]),
        *_option_columns(explorations, items),
        Column("time", [units.duration(item.costs[0]) for item in items]),
        Column("vs best", [times(item.costs[0] / exploration.ranked[0].costs[0]) for exploration, _, item in rows]),
        Column("SRAM fill", [units.traffic(total.smem_fill_bytes) for total in totals], rank=2),
        Column("HBM", [units.traffic(total.hbm_bytes) for total in totals], rank=1),
    ]
    bound = [item.prediction.bottleneck if item.prediction else "" for item in items]
    return table([*columns, Column("bound by", bound, left=True)], width, color)


def _key(item: Candidate) -> Key:
    return item.schedule, tuple(item.config_dict().items())


def _side_by_side(explorations: Sequence[Exploration], top: int, width: int, color: bool) -> str:
    """One row a configuration that is among the first of a device, one column a device."""
    places = {
        exploration.device_name: {_key(item): (rank, item) for rank, item in enumerate(exploration.ranked, 1)}
        for exploration in explorations
    }
    first: dict[Key, Candidate] = {}
    for rank in range(top):
        for exploration in explorations:
            for item in exploration.ranked[rank : rank + 1]:
                first.setdefault(_key(item), item)
    columns = _option_columns(explorations, list(first.values())) or [
        Column("configuration", [config_text(item.config_dict()) for item in first.values()], left=True)
    ]
    for name, ranks in places.items():
        columns.append(Column(name, [_cell(ranks.get(key)) for key in first]))
    return table(columns, width, color)


def _cell(place: tuple[int, Candidate] | None) -> str:
    return "-" if place is None else f"{units.duration(place[1].costs[0])} {f'#{place[0]}':>4}"
