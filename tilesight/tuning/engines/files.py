"""Tuning files as the engines write and read them (batch size -> configuration), and what is printed of one."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...simulator.display.columns import Column
from ...simulator.display.render import table, times, wrapped
from ..report import NONE
from ..tuning import ALIKE, TunedLaunch, Tuning
from .engine import FIELDS, Configuration, Engine
from .layer import named_values

DEVICE_NAMES = {
    "a10g": "NVIDIA_A10G",
    "a100-sxm-40gb": "NVIDIA_A100-SXM4-40GB",
    "a100-sxm-80gb": "NVIDIA_A100-SXM4-80GB",
    "a40": "NVIDIA_A40",
    "b200": "NVIDIA_B200",
    "b300": "NVIDIA_B300_SXM6_AC",
    "gb10": "NVIDIA_GB10",
    "gb200": "NVIDIA_GB200",
    "gb300": "NVIDIA_GB300",
    "h20": "NVIDIA_H20",
    "h100-pcie": "NVIDIA_H100_PCIe",
    "h100-sxm": "NVIDIA_H100_80GB_HBM3",
    "h200": "NVIDIA_H200",
    "l20": "NVIDIA_L20",
    "l4": "NVIDIA_L4",
    "l40s": "NVIDIA_L40S",
    "rtx-3090": "NVIDIA_GeForce_RTX_3090",
    "rtx-4090": "NVIDIA_GeForce_RTX_4090",
    "rtx-5090": "NVIDIA_GeForce_RTX_5090",
    "rtx-pro-6000": "NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition",
}
"""Device of the catalogue -> what its driver calls it, with `_` for spaces: the names of the engines' own files."""
VERSION = "triton_version"
SAID = 200
"""Characters of a file that a message quotes."""
SHORT = dict(zip(FIELDS, ("BM", "BN", "BK", "GROUP", "warps", "stages"), strict=True))


def engine_device(device: str, given: str = "") -> str:
    """What the engines call a device of the catalogue. Args: given: goes first. Raises: ValueError: it is unknown."""
    if called := given or DEVICE_NAMES.get(device, ""):
        return called.replace(" ", "_")
    raise ValueError(
        f"device_name: no engine's name of {device!r} is known: give it, as torch.cuda.get_device_name() has it"
    )


def file_text(engine: Engine, entries: Mapping[int, Configuration], triton: str) -> str:
    """The content of a file. Args: entries: batch size -> configuration; triton: version that compiles."""
    head = {VERSION: triton} if engine.has_version else {}
    body = {str(batch): _ordered(entry) for batch, entry in sorted(entries.items())}
    return json.dumps({**head, **body}, indent=4) + "\n"


def read_file(path: Path) -> tuple[dict[str, str], dict[int, Configuration]]:
    """What a file's name tells of its layer, and its entries by batch size.

    Raises:
        OSError; ValueError: it is no tuning file (one line).
    """
    data = path.read_bytes()
    try:
        given = named_values(path.stem.removesuffix("_down"))
    except ValueError:
        raise ValueError(
            "its name tells no layer: it must be as the engine has it, E=...,N=...,device_name=....json"
        ) from None
    try:
        content = json.loads(data)
    except ValueError as error:
        raise ValueError(f"is no JSON: {' '.join(str(error).split())[:SAID]}") from None
    if not isinstance(content, dict):
        raise ValueError("is no tuning file: it must hold an object, batch size -> configuration")
    entries: dict[int, Configuration] = {}
    for batch, entry in content.items():
        if batch == VERSION:
            continue
        if not batch.isdecimal() or not int(batch) or not isinstance(entry, dict):
            raise ValueError(f"{batch!r}: must be a batch size, with a configuration")
        entries[int(batch)] = _checked(batch, entry)
    if not entries:
        raise ValueError("has no entry")
    return given, entries


def _checked(batch: str, entry: Mapping[str, object]) -> Configuration:
    for name in FIELDS:
        value = entry.get(name)
        if type(value) is not int or value < 1:
            raise ValueError(f"batch size {batch}: {name} is {value!r}: must be a whole number of 1 or more")
    return {name: int(str(entry[name])) for name in FIELDS}


def _ordered(entry: Configuration) -> Configuration:
    return {name: entry[name] for name in FIELDS}


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
        Column("batch", [str(launch.shape["batch"]) for launch in launches]),
        *(Column(SHORT[name], [str(best.values[name]) for best in bests]) for name in FIELDS),
        Column("time", [best.row.time_text for best in bests]),
        Column("runs now", [launch.untuned.row.time_text if launch.untuned else NONE for launch in launches]),
        Column("gain", [times(_gain(launch)) if launch.untuned else NONE for launch in launches]),
        Column("~", [f"{launch.alike} of {len(launch.predicted)}" for launch in launches], left=True),
    ]


def _gain(launch: TunedLaunch) -> float:
    assert launch.untuned
    return launch.untuned.time_s / launch.predicted[0].time_s
