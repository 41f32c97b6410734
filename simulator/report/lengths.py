"""Schedules over sequence lengths for people: time, speedup, bytes, memory, and where memory runs out."""

from collections.abc import Callable

from .. import units
from ..display.render import Column, config_text, table, times, wrapped
from ..explore.fastest import Point
from ..explore.lengths import ESTIMATED, Limit, Scaling
from ..schedules.registry import find_schedule

DEVICES_SCHEMA = "tilesight.compare-devices/1"


def compare_text(*scalings: Scaling, width: int = 120, color: bool = False) -> str:
    """What `tilesight compare` prints.

    Args:
        scalings: of each device, the same problem, lengths and schedules.
        width: characters; color: whether to use bold.
    """
    first = scalings[0]
    shape = first.problem.text.replace(f"M=N={first.problem.seqlen_q} ", "")
    named = "; ".join(
        f"{scaling.device_name} ({scaling.device.name}), {units.capacity(scaling.device.hbm_bytes)}"
        for scaling in scalings
    )
    lines = wrapped(
        [f"{shape} on {named}", *dict.fromkeys(note for scaling in scalings for note in scaling.notes)], width
    )
    if len(scalings) > 1:
        lines += ["", "The fastest schedule on each device, and its speedup over the slowest device"]
        lines.append(_devices_table(scalings, width, color))
    faster = any(scaling.speedup(point) for scaling in scalings for point in scaling.points)
    baselines = dict.fromkeys(name for scaling in scalings for name in scaling.chosen if find_schedule(name).baseline)
    time_title = f"Time, and speedup over {', '.join(baselines)}" if faster else "Time"
    cells: tuple[tuple[str, Callable[[Scaling, Point], str]], ...] = (
        (time_title, _time),
        ("HBM traffic", lambda _, point: _figure(point, lambda total: units.traffic(total.hbm_bytes))),
        ("SRAM fill", lambda _, point: _figure(point, lambda total: units.traffic(total.smem_fill_bytes))),
        ("Peak device memory", _memory),
    )
    for title, cell in cells:
        lines += ["", title, _by_length(scalings, cell, width, color)]
    lines += [
        "",
        "Out of memory",
        *_by_device(scalings, limit_lines),
        "",
        *_by_device(scalings, config_lines, config_title),
    ]
    lines += _by_device(scalings, _left_out, indent="")
    return "\n".join(lines)


def config_title(scaling: Scaling) -> str:
    """How the configurations were chosen."""
    if max(scaling.tried.values(), default=0) < 2:
        return "Configurations"
    return "Configurations: the fastest found at each N among those that your options allow"


def config_lines(scaling: Scaling) -> list[str]:
    """The configurations of each schedule, the lengths that they hold for, and of how many they were chosen."""
    lines = []
    for name, chosen in scaling.chosen.items():
        options = find_schedule(name).options
        starts = [now for now, before in zip(chosen, [0, *chosen], strict=False) if chosen[now] != chosen.get(before)]
        for start in starts:
            config = config_text({option: getattr(chosen[start], option) for option in options})
            where = "" if len(starts) == 1 else f"N from {start:,}: "
            of = f" (of {scaling.tried[name]:,})" if scaling.tried[name] > 1 else ""
            lines.append(f"{name:<{_names_width(scaling)}} {where}{config}{of}")
    return lines


def _by_device(
    scalings: tuple[Scaling, ...],
    lines_of: Callable[[Scaling], list[str]],
    title_of: Callable[[Scaling], str] | None = None,
    indent: str = "  ",
) -> list[str]:
    """Lines of each device, under its name where there are several."""
    lines = [title_of(scalings[0])] if title_of else []
    for scaling in scalings:
        device_lines = lines_of(scaling)
        if len(scalings) > 1 and device_lines:
            lines.append(f"{indent}{scaling.device_name}")
        lines += [f"{indent if len(scalings) == 1 else indent + '  '}{line}" for line in device_lines]
    return lines


def _left_out(scaling: Scaling) -> list[str]:
    lines = [f"Left out: schedule {name}: {reason}" for name, reason in scaling.left_out.items()]
    return lines + sorted({f"Not run: {point.schedule}: {point.reason}" for point in scaling.points if _misfit(point)})


def _misfit(point: Point) -> bool:
    return not point.fits and not point.reason.startswith("device memory")


def _time(scaling: Scaling, point: Point) -> str:
    if point.prediction is None:
        return "-" if _misfit(point) else "out of memory"
    speedup = scaling.speedup(point)
    gain = f" {times(speedup):>6}" if speedup is not None and not find_schedule(point.schedule).baseline else " " * 7
    return _duration(point) + gain


def _duration(point: Point) -> str:
    """Its time, marked where it is an estimate."""
    return (f"{ESTIMATED} " if point.is_estimated else "") + units.duration(point.time_s)


def _figure(point: Point, text: Callable[..., str]) -> str:
    return "-" if point.prediction is None else text(point.prediction.total)


def _memory(_: Scaling, point: Point) -> str:
    return units.capacity(point.peak_memory_bytes) if point.peak_memory_bytes else "-"


def _by_length(scalings: tuple[Scaling, ...], cell: Callable[[Scaling, Point], str], width: int, color: bool) -> str:
    """One row a length, of several devices one a length and device; one column a schedule."""
    rows = [(scaling, length) for length in scalings[0].seqlens for scaling in scalings]
    columns = [Column("N", [f"{length:,}" for _, length in rows])]
    if len(scalings) > 1:
        columns.append(Column("device", [scaling.device_name for scaling, _ in rows], left=True))
    for name in dict.fromkeys(name for scaling in scalings for name in scaling.chosen):
        places = [(scaling, scaling.point(name, length)) for scaling, length in rows]
        columns.append(Column(name, [cell(scaling, point) if point else "-" for scaling, point in places]))
    return table(columns, width, color)


def _devices_table(scalings: tuple[Scaling, ...], width: int, color: bool) -> str:
    """One row a length, one column a device: its fastest schedule, by how much it beats the slowest device."""
    columns = [Column("N", [f"{length:,}" for length in scalings[0].seqlens])]
    best = {scaling.device_name: [scaling.best(length) for length in scaling.seqlens] for scaling in scalings}
    slowest_s = [max((point.time_s for point in row if point), default=0.0) for row in zip(*best.values(), strict=True)]
    for name, points in best.items():
        cells = [
            f"{_duration(point)} {times(slow_s / point.time_s):>6}  {point.schedule}" if point else "-"
            for point, slow_s in zip(points, slowest_s, strict=True)
        ]
        columns.append(Column(name, cells, left=True))
    return table(columns, width, color)


def limit_lines(scaling: Scaling) -> list[str]:
    """How long sequences can get before device memory runs out, one line a schedule."""
    width = _names_width(scaling)
    return [f"{limit.schedule:<{width}} {limit_text(limit)}" for limit in scaling.limits]


def limit_text(limit: Limit) -> str:
    """Where memory runs out, e.g. `from N = 65,536 on`."""
    if limit.out_of_memory_seqlen is None:
        return f"not up to N = {limit.longest_seqlen:,}, the longest allowed"
    return f"from N = {limit.out_of_memory_seqlen:,} on"


def _names_width(scaling: Scaling) -> int:
    return max(10, *map(len, scaling.chosen))


def compare_rows(*scalings: Scaling) -> list[dict[str, object]]:
    """All points as rows for CSV."""
    return [row for scaling in scalings for row in scaling.rows()]


def compare_dict(*scalings: Scaling) -> dict[str, object]:
    """What `compare --json` prints: the object of the device; of several, an object that holds theirs."""
    if len(scalings) == 1:
        return scalings[0].to_dict()
    return {"schema": DEVICES_SCHEMA, "devices": [scaling.to_dict() for scaling in scalings]}
