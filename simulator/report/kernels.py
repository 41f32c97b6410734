"""Launches of a user's kernels on one device or several: a table for each, and all beside each other."""

from collections.abc import Sequence
from typing import Any

from .. import units
from ..display.render import Column, bound_text, table, times
from ..prediction.kernels import KernelsPrediction


def kernels_text(found: Sequence[KernelsPrediction], width: int, color: bool = False) -> str:
    """What `tilesight predict` prints. Args: found: one a device; width: characters; color: whether to use bold."""
    texts = [one.text(width, color) for one in found]
    if len(found) > 1 and (compared := comparison(found)):
        texts.append(f"Each device\n{table(compared, width, color)}")
        if beside := side_by_side(found):
            texts.append(f"Each launch: time on each device\n{table(beside, width, color)}")
    return "\n\n".join(texts)


def kernels_json(found: Sequence[KernelsPrediction]) -> dict[str, Any] | list[dict[str, Any]]:
    """What `predict --json` prints: an object, or a list of them, in the order in which devices were named."""
    every = [one.to_dict() for one in found]
    return every[0] if len(every) == 1 else every


def kernels_rows(found: Sequence[KernelsPrediction]) -> list[dict[str, Any]]:
    """What `predict --csv` prints: a row for each launch on each device."""
    return [row for one in found for row in one.flat_rows()]


def comparison(found: Sequence[KernelsPrediction]) -> list[Column]:
    """A row for each device that anything was predicted on, the fastest first; one that predicts less says so."""
    ran = sorted((one for one in found if one.is_predicted), key=lambda one: (-_predicted(one), one.total.time_s))
    if not ran:
        return []
    slowest_s = max(one.total.time_s for one in ran)
    longest = [one.longest.prediction for one in ran]
    columns = [
        Column(title="device", cells=[one.device for one in ran], left=True),
        Column(title="launches", cells=[f"{_predicted(one)} of {len(one.rows)}" for one in ran], rank=2),
        Column(title="time", cells=[units.duration(one.total.time_s) for one in ran]),
    ]
    if len({_predicted(one) for one in ran}) == 1:
        columns.append(Column(title="vs slowest", cells=[times(slowest_s / one.total.time_s) for one in ran]))
    return [
        *columns,
        Column(title="HBM", cells=[units.traffic(one.total.hbm_bytes) for one in ran], rank=1),
        Column(title="SRAM fill", cells=[units.traffic(one.total.smem_fill_bytes) for one in ran], rank=3),
        Column(title="longest launch", cells=[one.name if one else "" for one in longest], left=True),
        Column(title="bound by", cells=[bound_text(one) if one else "" for one in longest], left=True),
    ]


def side_by_side(found: Sequence[KernelsPrediction]) -> list[Column]:
    """A row for each launch, a column for each device; none where the devices are given different launches."""
    names = [row.name for row in found[0].rows]
    if len(names) < 2 or any([row.name for row in one.rows] != names for one in found):
        return []
    columns = [Column(title="launch", cells=names, left=True)]
    for one in found:
        cells = [units.duration(row.traffic.time_s) if row.prediction else "refused" for row in one.rows]
        columns.append(Column(title=one.device, cells=cells))
    return columns


def _predicted(one: KernelsPrediction) -> int:
    return sum(row.prediction is not None for row in one.rows)
