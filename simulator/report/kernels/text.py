"""Launches of a user's kernels on one device or several: a table for each, and all beside each other."""

from collections.abc import Mapping, Sequence
from typing import Any

from ... import units
from ...display.render import Column, bound_text, table, times
from ...prediction.kernels import SCHEMA, KernelsPrediction


def compared_text(predictions: Sequence[KernelsPrediction], width: int, color: bool = False) -> str:
    """What is printed below the tables of several devices; empty of one."""
    texts = []
    if len(predictions) > 1 and (compared := comparison(predictions)):
        texts.append(f"Each device\n{table(compared, width, color)}")
        if beside := side_by_side(predictions):
            texts.append(f"Each launch: time on each device\n{table(beside, width, color)}")
    return "\n\n".join(texts)


def kernels_json(outcomes: Mapping[str, KernelsPrediction | str]) -> dict[str, Any] | list[dict[str, Any]]:
    """What `predict --json` prints: an object, or a list of them, in the order in which devices were named.

    Args:
        outcomes: device -> its predictions, or why there are none, in one line.
    """
    every = [
        {"schema": SCHEMA, "device": name, "failed": outcome} if isinstance(outcome, str) else outcome.to_dict()
        for name, outcome in outcomes.items()
    ]
    return every[0] if len(every) == 1 else every


def comparison(predictions: Sequence[KernelsPrediction]) -> list[Column]:
    """A row for each device that anything was predicted on, the fastest first; one that predicts less says so."""
    ran = sorted(
        (prediction for prediction in predictions if prediction.is_predicted),
        key=lambda prediction: (not prediction.complete, -_predicted(prediction), prediction.total.time_s),
    )
    if not ran:
        return []
    slowest_s = max(prediction.total.time_s for prediction in ran)
    longest = [prediction.longest.prediction for prediction in ran]
    columns = [
        Column("device", [prediction.device for prediction in ran], left=True),
        Column(
            "launches",
            [
                f"{_predicted(prediction)} of {len(prediction.rows)}{'' if prediction.complete else ': incomplete'}"
                for prediction in ran
            ],
            rank=0 if any(not prediction.complete for prediction in ran) else 2,
        ),
        Column("time", [units.duration(prediction.total.time_s) for prediction in ran]),
    ]
    if len({(_predicted(prediction), prediction.complete) for prediction in ran}) == 1:
        columns.append(Column("vs slowest", [times(slowest_s / prediction.total.time_s) for prediction in ran]))
    return [
        *columns,
        Column("HBM", [units.traffic(prediction.total.hbm_bytes) for prediction in ran], rank=1),
        Column("SRAM fill", [units.traffic(prediction.total.smem_fill_bytes) for prediction in ran], rank=3),
        Column("longest launch", [launch.name if launch else "" for launch in longest], left=True),
        Column("bound by", [bound_text(launch) if launch else "" for launch in longest], left=True),
    ]


def side_by_side(predictions: Sequence[KernelsPrediction]) -> list[Column]:
    """A row for each launch, a column for each device; none where the devices are given different launches."""
    names = [row.name for row in predictions[0].rows]
    if len(names) < 2 or any([row.name for row in prediction.rows] != names for prediction in predictions):
        return []
    columns = [Column("launch", names, left=True)]
    for prediction in predictions:
        cells = [units.duration(row.traffic.time_s) if row.prediction else "refused" for row in prediction.rows]
        columns.append(Column(prediction.device, cells))
    return columns


def _predicted(prediction: KernelsPrediction) -> int:
    return sum(row.prediction is not None for row in prediction.rows)
