"""`validate --launches` for people: launches, the dominating kernel, the fused kernel's share, and gaps."""

from ...simulator import units
from ...simulator.display.render import Column, percent, table
from ..experiments.launches import LaunchReport, LaunchRow, Split
from ..timing.kernel_runs import short_name

WAY_TITLES = {"stream": "Launched one by one in a stream", "graph": "Replayed as a CUDA graph"}
LONGEST_NAME = 36


def launches_text(report: LaunchReport, width: int = 120, color: bool = False) -> str:
    """What `tilesight validate --launches` prints."""
    lines = [f"{report.problem.text} on {report.device}; p: predicted, m: profiled, warm L2"]
    for way, title in WAY_TITLES.items():
        rows = [row for row in report.rows if row.way == way]
        lines += ["", title, _table(rows, width, color)]
        lines += [f"  {row.subject}: not profiled: {row.reason}" for row in rows if row.reason]
    if any(row.profiled for row in report.rows):
        lines += ["", "Gaps in a stream are longer under the profiler than without it: it slows the host down."]
    return "\n".join(lines)


def _table(rows: list[LaunchRow], width: int, color: bool) -> str:
    def both(title: str, text: object, rank: int = 0, left: bool = False) -> list[Column]:
        assert callable(text)
        return [
            Column(title=f"{title} p", cells=[text(row.predicted) for row in rows], rank=rank, left=left),
            Column(
                title=f"{title} m",
                cells=[text(row.profiled) if row.profiled else "-" for row in rows],
                rank=rank,
                left=left,
            ),
        ]

    return table(
        [
            Column(title="implementation", cells=[row.subject for row in rows], left=True),
            *both("launches", lambda split: str(split.count)),
            *both("in kernels", lambda split: units.duration(split.busy_s), rank=1),
            *both("gaps", lambda split: units.duration(split.gap_s)),
            *both("fused", lambda split: percent(split.fused_fraction)),
            *both("dominant kernel", _dominating, left=True),
            Column(title="ran", cells=[row.family or "-" for row in rows], rank=2, left=True),
        ],
        width,
        color,
    )


def _dominating(split: Split) -> str:
    name, share = split.dominating
    short = short_name(name)
    return f"{short if len(short) <= LONGEST_NAME else short[: LONGEST_NAME - 3] + '...'} {percent(share)}"
