"""Tuned launches as tables for people."""

import re
from collections.abc import Callable, Sequence

from ..simulator import units
from ..simulator.display.columns import Column
from ..simulator.display.render import table, times, wrapped
from ..simulator.display.words import percent
from ..simulator.prediction.kernel_row import same_code
from ..simulator.prediction.prediction import LaunchPrediction
from .tuning import ALIKE, Configured, TunedLaunch, Tuning

NONE = "-"
BYTES = re.compile(r"[\d.,]+ ([KMGT]i?)?B\b")
"""What reasons differ in that are one reason: by how much something does not fit."""


def tuning_text(tuning: Tuning, top: int, width: int, color: bool = False) -> str:
    """What `tilesight tune` prints. Args: top: configurations of each launch; width: characters at most."""
    lines = [*wrapped([tuning.incomplete], width), ""] if tuning.incomplete else []
    for launch in tuning.launches:
        lines += [*wrapped([heading(tuning, launch)], width), ""]
        if launch.predicted:
            lines += [table(configured_columns(launch, launch.predicted[:top]), width, color), ""]
        lines += [*wrapped(remarks(launch, top), width), ""]
    return "\n".join([*lines, *wrapped([f"Note     {note}" for note in tuning.notes], width)]).rstrip()


def heading(tuning: Tuning, launch: TunedLaunch) -> str:
    """Kernel, shape, device, and how many configurations there are."""
    shape = "".join(f", {name} {value}" for name, value in launch.shape.items())
    some = f", {len(launch.configured)} of them predicted" if launch.left_out else ""
    asked = f"{launch.count} configurations{some}"
    return f"{launch.kernel}{shape} on {tuning.device}: {asked}, each by itself on empty caches"


def configured_columns(launch: TunedLaunch, shown: Sequence[Configured]) -> list[Column]:
    """A row for each configuration that is predicted, the fastest first; values that all share have no column."""
    best_s = launch.predicted[0].time_s

    def column(title: str, cell: Callable[[LaunchPrediction], str], rank: int = 0, left: bool = False) -> Column:
        return Column(title, [cell(item.row.prediction) for item in shown if item.row.prediction], rank=rank, left=left)

    columns = [Column("#", [str(rank) for rank in range(1, len(shown) + 1)])]
    columns += [Column(name, [str(item.values.get(name, NONE)) for item in shown]) for name in varying(launch)]
    return [
        *columns,
        Column("time", [item.row.time_text for item in shown]),
        Column("vs best", [times(item.time_s / best_s) for item in shown]),
        Column("~", ["~" if launch.is_alike(item) else "" for item in shown], left=True),
        column("regs", lambda row: str(row.registers_per_thread), 4),
        Column("spill", [f"{item.row.spilled_bytes_per_thread} B" for item in shown], rank=1),
        column("smem", lambda row: units.capacity(row.smem_bytes_per_cta), 4),
        column("CTAs/SM", lambda row: str(row.ctas_per_sm), 3),
        column("HBM", lambda row: units.traffic(row.traffic.hbm_bytes), 2),
        column("bound by", lambda row: f"{row.bottleneck} {percent(row.bottleneck_share)}", left=True),
        Column("", ["untuned" if item is launch.untuned else "" for item in shown], left=True),
    ]


def why_refused(launch: TunedLaunch, item: Configured) -> str:
    """Why a configuration is not predicted, without the name of the kernel."""
    return (item.row.refused or "").replace(f"kernel {launch.kernel}: ", "")


def varying(launch: TunedLaunch) -> list[str]:
    """Values that configurations differ in."""
    every = [*(item.values for item in launch.configured), *launch.left_out]
    names = dict.fromkeys(name for values in every for name in values)
    return [name for name in names if len({repr(values.get(name)) for values in every}) > 1]


def remarks(launch: TunedLaunch, top: int) -> list[str]:
    """What stands below a table: the verdict, ties, what is left out, why some are refused."""
    left = len(launch.predicted) - top
    refused = [item for item in launch.configured if not item.row.prediction]
    shown = varying(launch)
    lines = [f"Verdict  {launch.verdict}"]
    if launch.alike > 1:
        lines.append(
            f"~        within {ALIKE:.0%} of the fastest ({launch.alike} of {len(launch.predicted)}): "
            "predictions do not tell them apart; measure these"
        )
    doubts = [(item, doubt) for item in launch.predicted if (doubt := launch.doubt(item))]
    for item, doubt in doubts[:1]:
        which = ", ".join(f"{name} {item.values.get(name, NONE)}" for name in shown)
        lines.append(
            f"Doubt    {f'{len(doubts)}, such as ' if len(doubts) > 1 else ''}{which}: {doubt}; "
            f"--sweep and --space can name one kernel, e.g. {launch.kernel}.{shown[0]}"
        )
    labelled = [
        (", ".join(f"{name} {item.values.get(name, NONE)}" for name in shown), item.row) for item in launch.configured
    ]
    if alike_code := same_code(labelled):
        lines.append(f"Code     {alike_code}")
    if left > 0:
        lines.append(f"Left out {left} slower ones: --top shows more, --csv and --json have all")
    if launch.left_out:
        lines.append(
            f"Screened {len(launch.left_out)} of {launch.count} are not predicted: by work and bytes of their tiles "
            f"they rank behind, or take {ALIKE:.0%} longer than the fastest at least; --screen off predicts all"
        )
    reasons: dict[str, list[str]] = {}
    for item in refused:
        why = why_refused(launch, item)
        which = ", ".join(f"{name} {item.values.get(name, NONE)}" for name in shown)
        reasons.setdefault(BYTES.sub("", why), []).append(f"{which}: {why}")
    for alike in reasons.values():
        lines.append(f"Refused  {f'{len(alike)}, such as ' if len(alike) > 1 else ''}{alike[0]}")
    notes = dict.fromkeys(note for item in launch.predicted[:top] for note in item.row.notes)
    return [*lines, *(f"Note     {note}" for note in notes)]
