"""What `tilesight tune --format vllm-moe` prints: a row for each batch size, and what the file holds."""

from collections.abc import Sequence

from ...simulator.display.columns import Column
from ...simulator.display.render import table, times, wrapped
from ..report import NONE
from ..tuning import ALIKE, TunedLaunch, Tuning
from .engine import FIELDS, Configuration

SHORT = dict(zip(FIELDS, ("BM", "BN", "BK", "GROUP", "warps", "stages"), strict=True))


def summary(tuning: Tuning, paths: Sequence[str], width: int, color: bool = False) -> str:
    """The table. Args: paths: files that were written; width: characters at most; color: whether the head is bold."""
    chosen = [launch for launch in tuning.launches if launch.best]
    lines = [*wrapped([tuning.incomplete], width), ""] if tuning.incomplete else []
    lines += [*wrapped([f"{tuning.target} on {tuning.device}: predicted, not measured"], width), ""]
    if chosen:
        lines += [table(_columns(chosen), width, color), ""]
    lost = [str(launch.shape["batch"]) for launch in tuning.launches if not launch.best]
    remarks = [f"Refused  batch {', '.join(lost)}: no configuration is predicted; --json says why"] if lost else []
    gains = sum(not launch.untuned or _gain(launch) > 1 + ALIKE for launch in chosen)
    remarks += [f"Verdict  {gains} of {len(chosen)} batch sizes gain more than {ALIKE:.0%} over what runs now"]
    remarks += ["~        configurations that predictions do not tell from the fastest, of those predicted"]
    remarks += [f"Note     {note}" for note in tuning.notes]
    remarks += [f"File     {path}" for path in paths]
    return "\n".join([*lines, *wrapped(remarks, width)]).rstrip()


def entries(tuning: Tuning) -> dict[int, Configuration]:
    """The fastest configuration of each batch size; none where none is predicted."""
    return {int(launch.shape["batch"]): dict(launch.best.values) for launch in tuning.launches if launch.best}


def _columns(launches: Sequence[TunedLaunch]) -> list[Column]:
    bests = [launch.predicted[0] for launch in launches]
    return [
        Column(title="batch", cells=[str(launch.shape["batch"]) for launch in launches]),
        *(Column(title=SHORT[name], cells=[str(best.values[name]) for best in bests]) for name in FIELDS),
        Column(title="time", cells=[best.row.time_text for best in bests]),
        Column(
            title="runs now",
            cells=[launch.untuned.row.time_text if launch.untuned else NONE for launch in launches],
        ),
        Column(title="gain", cells=[times(_gain(launch)) if launch.untuned else NONE for launch in launches]),
        Column(title="~", cells=[f"{launch.alike} of {len(launch.predicted)}" for launch in launches], left=True),
    ]


def _gain(launch: TunedLaunch) -> float:
    assert launch.untuned
    return launch.untuned.time_s / launch.predicted[0].time_s
