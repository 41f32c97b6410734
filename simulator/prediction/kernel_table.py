"""Launches of a user's kernels, and the configurations of an autotuned one, as tables."""

from collections.abc import Callable, Sequence

from .. import units
from ..display.columns import Column, rate_text
from ..display.render import times
from ..display.words import percent, plural
from .kernel_row import KernelRow
from .prediction import LaunchPrediction

NONE = "-"
MOST_TENSORS = 4
"""Tensors that are named of a launch, those of the largest traffic."""


def launch_columns(rows: Sequence[KernelRow]) -> list[Column]:
    """The launches that were predicted, in order. Args: rows: those that were refused are left out."""
    shown = [(row, row.prediction) for row in rows if row.prediction]
    total_s = sum(launch.traffic.time_s for _, launch in shown) or 1.0

    def column(title: str, cell: Callable[[LaunchPrediction], str], rank: int = 0, left: bool = False) -> Column:
        return Column(title, [cell(launch) for _, launch in shown], rank=rank, left=left)

    columns = [
        column("launch", lambda launch: launch.name, left=True),
        Column("grid", [grid_text(row.grid) for row, _ in shown], rank=4),
        column("regs", lambda launch: str(launch.registers_per_thread), 5),
        column("smem", lambda launch: units.capacity(launch.smem_bytes_per_cta), 6),
        Column("spill", [f"{row.spilled_bytes_per_thread} B" for row, _ in shown], rank=4),
        column("CTAs/SM", lambda launch: str(launch.ctas_per_sm), 5),
        column("occupancy", occupancy_text, 7),
        column("HBM read", lambda launch: units.traffic(launch.traffic.hbm_read_bytes)),
        column("written", lambda launch: units.traffic(launch.traffic.hbm_write_bytes), 1),
        column("HBM rate", lambda launch: units.bandwidth(launch.traffic.hbm_bytes_per_s), 7),
        column("L2 read", lambda launch: units.traffic(launch.traffic.l2_read_bytes), 8),
        column("L2 written", lambda launch: units.traffic(launch.traffic.l2_write_bytes), 9),
        column("SRAM fill", lambda launch: units.traffic(launch.traffic.smem_fill_bytes), 3),
    ]
    if any(launch.traffic.matmul_flop for _, launch in shown):
        columns.append(column("TFLOP/s", _rate_text, 1))
    return [
        *columns,
        Column("time", [row.time_text for row, _ in shown]),
        Column("roofline", [roofline_text(row) for row, _ in shown], rank=1),
        column("bound by", lambda launch: f"{launch.bottleneck} {percent(launch.bottleneck_share)}", left=True),
        column("share", lambda launch: percent(launch.traffic.time_s / total_s)),
    ]


def occupancy_text(launch: LaunchPrediction) -> str:
    """Active warps over those that an SM can hold, and what keeps one more CTA off it, e.g. `50 % registers`."""
    return f"{percent(launch.occupancy_fraction)} {launch.occupancy_limit}"


def roofline_text(row: KernelRow) -> str:
    """Time over that of the roofline, e.g. `1.31x`."""
    return times(row.roofline_multiple) if row.roofline_multiple else NONE


def _rate_text(launch: LaunchPrediction) -> str:
    return rate_text(launch.traffic.matmul_flop_per_s) if launch.traffic.matmul_flop else NONE


def bytes_line(row: KernelRow) -> str:
    """What HBM moves over what it must, and how often each tensor is loaded into the SMs; empty where nothing moves."""
    ceiling = row.ceiling
    if ceiling is None or not ceiling.tensors:
        return ""
    moved, least = row.traffic.hbm_bytes, ceiling.compulsory_bytes
    loaded = [
        f"{tensor.name} {times(tensor.times_loaded)[:-1]} times" for tensor in ceiling.tensors if tensor.loaded_bytes
    ]
    others = len(loaded[MOST_TENSORS:])
    return (
        (f"HBM moves {units.traffic(moved)}, {times(moved / least)} what it must" if least else "HBM moves nothing")
        + (f"; the SMs load {', '.join(loaded[:MOST_TENSORS])}" if loaded else "")
        + (f", and {plural(others, 'other tensor')}" if others else "")
    )


def tensors_text(row: KernelRow) -> str:
    """Bytes by tensor in one cell, e.g. `A: 33554432 B, loaded 1073741824, stored 0; ...`."""
    tensors = row.ceiling.tensors if row.ceiling else ()
    return "; ".join(
        f"{tensor.name}: {tensor.size_bytes} B, loaded {tensor.loaded_bytes}, stored {tensor.stored_bytes}"
        for tensor in tensors
    )


def configuration_columns(rows: Sequence[KernelRow]) -> list[Column]:
    """Configurations of an autotuned launch, the fastest first; last those that were refused."""
    ordered = sorted(rows, key=lambda row: row.traffic.time_s if row.prediction else float("inf"))

    def column(title: str, cell: Callable[[LaunchPrediction], str], rank: int = 0) -> Column:
        return Column(title, [cell(row.prediction) if row.prediction else NONE for row in ordered], rank=rank)

    return [
        Column("configuration", distinct_labels([row.label for row in ordered]), left=True),
        Column("time", [row.time_text if row.prediction else NONE for row in ordered]),
        column("regs", lambda launch: str(launch.registers_per_thread), 2),
        Column("spill", [_spills(row) for row in ordered], rank=3),
        column("CTAs/SM", lambda launch: str(launch.ctas_per_sm), 2),
        column("occupancy", occupancy_text, 4),
        column("HBM read", lambda launch: units.traffic(launch.traffic.hbm_read_bytes), 1),
        Column("roofline", [roofline_text(row) for row in ordered], rank=2),
        Column("bound by", [_binds(row) for row in ordered], left=True),
    ]


def _spills(row: KernelRow) -> str:
    return f"{row.spilled_bytes_per_thread} B" if row.prediction else NONE


def _binds(row: KernelRow) -> str:
    if row.prediction is None:
        return f"refused: {row.refused}".replace(f"kernel {row.name}: ", "")
    return f"{row.prediction.bottleneck} {percent(row.prediction.bottleneck_share)}"


def grid_text(grid: Sequence[int]) -> str:
    """A grid without the axes behind that have one CTA, e.g. `64 x 2`."""
    axes = list(grid)
    while len(axes) > 1 and axes[-1] == 1:
        axes.pop()
    return " x ".join(map(str, axes))


def distinct_labels(labels: Sequence[str]) -> list[str]:
    """Labels such as `BLOCK: 128, num_warps: 4`, without the parts that all have in common."""
    parts = [label.split(", ") for label in labels]
    shared = set(parts[0]).intersection(*parts[1:]) if len(parts) > 1 else set()
    short = [", ".join(part for part in label_parts if part not in shared) for label_parts in parts]
    return [text or label for text, label in zip(short, labels, strict=True)]
