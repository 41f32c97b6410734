"""Configurations as lines of Python for `@triton.autotune`, with what such lines leave out said beside them."""

from collections.abc import Sequence

from .. import units
from ..schedules.registry import find_schedule
from .candidate import Candidate

BLOCKS = ("block_m", "block_n")
LAUNCHED = ("num_warps", "num_stages")
"""Options that `triton.Config` has names of its own for."""


def triton_configs_text(head: str, best: Sequence[Candidate], notes: Sequence[str] = ()) -> str:
    """A list of `triton.Config`, one a line, each with its predicted time; comments above say what is not in them.

    Args:
        head: what was asked, and where, in one line; best: that run, best first; notes: remarks, one line each.
    """
    rest = [_rest(item) for item in best]
    names = list(dict.fromkeys(name for options in rest for name in options))
    values = {name: list(dict.fromkeys(str(options.get(name, "-")) for options in rest)) for name in names}
    schedules = list(dict.fromkeys(item.schedule for item in best))
    lines = [
        f"# {head}",
        "# block_m, block_n are the names in the kernels of Tilesight; put those of yours (e.g. BLOCK_M, BLOCK_N).",
    ]
    pipelines = dict.fromkeys(item.schedule for item in best if item.prediction and len(item.prediction.launches) > 1)
    if pipelines:
        lines.append(f"# {', '.join(pipelines)}: these are of its matrix products; the kernels between have their own.")
    same = [f"{name} = {some[0]}" for name, some in values.items() if len(some) == 1]
    if same:
        lines.append(f"# Not in them, and predicted with: {', '.join(same)}.")
    varying = [name for name, some in values.items() if len(some) > 1]
    if varying:
        lines.append(f"# Not in them, and told behind each: {', '.join(varying)}.")
    lines += [f"# Note: {note}" for note in notes]
    lines.append("[")
    for item, options in zip(best, rest, strict=True):
        differing = [f"{name} = {options[name]}" for name in varying if name in options]
        lines.append(f"    {_config(item)},  # {', '.join([*_label(item, len(schedules) > 1), *differing])}")
    return "\n".join([*lines, "]"])


def _rest(item: Candidate) -> dict[str, int | str]:
    """Options that `triton.Config` does not hold, but for what Triton always does."""
    always = find_schedule(item.schedule).in_triton
    options = item.config_dict().items()
    return {name: value for name, value in options if name not in BLOCKS + LAUNCHED and always.get(name) != value}


def _config(item: Candidate) -> str:
    options = item.config_dict()
    blocks = ", ".join(f'"{name}": {options[name]}' for name in BLOCKS if name in options)
    launched = "".join(f", {name}={options[name]}" for name in LAUNCHED if name in options)
    return f"triton.Config({{{blocks}}}{launched})"


def _label(item: Candidate, named: bool) -> list[str]:
    """Its schedule, where there are several, and its predicted time."""
    time = [units.duration(item.prediction.time_s)] if item.prediction else []
    return [*([item.schedule] if named else []), *time]
