"""Schedules over sequence lengths for people: time, speed-up, bytes, memory, and where memory runs out."""

from collections.abc import Callable

from . import units
from .report import Column, config_text, problem_text, table, times, wrapped
from .scaling import Point, Scaling


def compare_text(found: Scaling, width: int = 120, color: bool = False) -> str:
    """What `tilesight compare` prints. Args: width: characters; color: whether to use bold."""
    shape = problem_text(found.problem).replace(f"M=N={found.problem.seqlen_q} ", "")
    head = [
        f"{shape} on {found.device_name} ({found.device.name}), {units.capacity(found.device.hbm_bytes)}",
        *found.notes,
    ]
    lines = wrapped(head, width)
    faster = any(found.speedup(point) for point in found.points)
    time_title = "Time, and how much faster than naive" if faster else "Time"
    for title, cell in (
        (time_title, lambda point: _time(found, point)),
        ("HBM traffic", lambda point: _figure(point, lambda total: units.traffic(total.hbm_bytes))),
        ("SRAM fill", lambda point: _figure(point, lambda total: units.traffic(total.smem_fill_bytes))),
        ("Peak device memory", _memory),
    ):
        lines += ["", title, _by_length(found, cell, width, color)]
    lines += ["", "Out of memory", *(f"  {line}" for line in limit_lines(found))]
    lines += [
        "",
        "Configurations",
        *(f"  {name:<{_names_width(found)}} {config_text(config)}" for name, config in found.configs.items()),
    ]
    lines += [f"Left out: schedule {name}: {reason}" for name, reason in found.left_out.items()]
    lines += sorted({f"Not run: {point.schedule}: {point.reason}" for point in found.points if _misfit(point)})
    return "\n".join(lines)


def _misfit(point: Point) -> bool:
    return not point.fits and not point.reason.startswith("device memory")


def _time(found: Scaling, point: Point) -> str:
    if point.prediction is None:
        return "-" if _misfit(point) else "out of memory"
    speedup = found.speedup(point)
    gain = f" {times(speedup):>6}" if speedup is not None and point.schedule != "naive" else " " * 7
    return units.duration(point.prediction.time_s) + gain


def _figure(point: Point, text: Callable[..., str]) -> str:
    return "-" if point.prediction is None else text(point.prediction.total)


def _memory(point: Point) -> str:
    return units.capacity(point.peak_memory_bytes) if point.peak_memory_bytes else "-"


def _by_length(found: Scaling, cell: Callable[[Point], str], width: int, color: bool) -> str:
    columns = [Column(title="N", cells=[f"{length:,}" for length in found.seqlens])]
    for name in found.configs:
        cells = [cell(point) for point in found.points if point.schedule == name]
        columns.append(Column(title=name, cells=cells))
    return table(columns, width, color)


def limit_lines(found: Scaling) -> list[str]:
    """How long sequences can get before device memory runs out, one line a schedule."""
    lines = []
    for limit in found.limits:
        if limit.out_of_memory_seqlen is None:
            text = f"not up to N = {limit.longest_seqlen:,}, the longest that can be asked for"
        else:
            text = f"from N = {limit.out_of_memory_seqlen:,} on"
        lines.append(f"{limit.schedule:<{_names_width(found)}} {text}")
    return lines


def _names_width(found: Scaling) -> int:
    return max(10, *map(len, found.configs))


def compare_rows(found: Scaling) -> list[dict[str, object]]:
    """All points as rows for CSV."""
    return [point.to_dict(found.speedup(point)) for point in found.points]
