"""Ranked configurations as columns of a table and as rows of a file."""

from collections.abc import Sequence

from .. import units
from ..display.columns import Column, figure_columns
from ..display.render import times
from ..display.words import config_text
from ..schedules.registry import all_options
from .candidate import Candidate


def ranking_columns(shown: Sequence[Candidate], every: Sequence[Candidate]) -> list[Column]:
    """One row a configuration that runs, best first; options that are the same everywhere have no column.

    Args:
        every: all that were looked at, those that do not fit included.
    """
    rows = [
        # The worst of all launches, where the longest one would hide it.
        item.to_dict() | {"spilled_bytes_per_thread": prediction.spilled_bytes_per_thread, "l2_fit": prediction.l2_fit}
        for item in shown
        if (prediction := item.prediction)
    ]
    times_s = [item.prediction.time_s for item in shown if item.prediction]
    columns = [Column("#", [str(rank) for rank in range(1, len(shown) + 1)])]
    if len({item.schedule for item in every}) > 1:
        columns.append(Column("schedule", [item.schedule for item in shown], left=True))
    columns += [option_column(name, shown) for name in options_that_vary(every)]
    columns.append(Column("time", [item.prediction.time_text for item in shown if item.prediction]))
    banded = any(item.band_s for item in shown)
    if banded:
        columns.append(Column("band", [band_text(item) for item in shown], rank=2))
    columns.append(Column("vs best", [times(time_s / times_s[0]) for time_s in times_s], rank=1))
    if banded:
        columns.append(Column("~", ["~" if item.like_best else "" for item in shown], left=True))
    columns += figure_columns(rows)
    columns.append(Column("P", ["*" if item.pareto else "" for item in shown], rank=3, left=True))
    return columns


def band_text(item: Candidate) -> str:
    """Band of a candidate's times, e.g. `1.02-1.20 ms`; empty where there is none."""
    low, high = (units.duration(bound_s) for bound_s in item.band_s or (0.0, 0.0))
    same_unit = low.split()[-1] == high.split()[-1]
    return f"{low.split()[0] if same_unit else low}-{high}" if item.band_s else ""


def option_column(name: str, shown: Sequence[Candidate]) -> Column:
    """Values of an option; `-` where a schedule has none."""
    cells = [str(item.config_dict().get(name, "-")) for item in shown]
    option = all_options()[name]
    return Column(option.title, cells, left=not option.is_number)


def options_that_vary(every: Sequence[Candidate]) -> list[str]:
    """Options that take more than one value over all candidates."""
    values: dict[str, set[object]] = {}
    for item in every:
        for name, value in item.config_dict().items():
            values.setdefault(name, set()).add(value)
    return [name for name in all_options() if len(values.get(name, ())) > 1]


def short_text(every: Sequence[Candidate], item: Candidate) -> str:
    """Schedule and configuration of a candidate, without options that are the same everywhere."""
    shown = {"block_m", "block_n", "num_warps", "num_stages", *options_that_vary(every)}
    return f"{item.schedule} {config_text({key: value for key, value in item.config_dict().items() if key in shown})}"


def ranking_rows(device_name: str, every: Sequence[Candidate]) -> list[dict[str, object]]:
    """All candidates as rows for CSV: device, rank, schedule, options, figures."""
    names = [name for name in all_options() if any(name in item.options for item in every)]
    rows = []
    for rank, item in enumerate(every, 1):
        figures = item.to_dict()
        del figures["config"]
        config: dict[str, object] = {name: item.config_dict().get(name) for name in names}
        rows.append({"device": device_name, "rank": rank, "schedule": figures.pop("schedule")} | config | figures)
    return rows
