"""What tuning found, in the forms that Triton reads: lines for `@triton.autotune`, and files of its autotuner's cache.

Source of the files: `Autotuner.check_disk_cache` of Triton 3.6, which reads them where `TRITON_CACHE_AUTOTUNING=1`.
"""

import json
from collections.abc import Mapping
from typing import Any

from ..kernels.configurations.space import OPTIONS
from ..simulator import units
from .tuning import TunedLaunch, Tuning

USUAL = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
"""What `triton.Config` takes by default."""


def triton_configs(tuning: Tuning, top: int) -> str:
    """The best configurations of each kernel as lines of Python, each once, the fastest of any shape first.

    Args:
        top: configurations of each launch.
    """
    kernels: dict[str, list[TunedLaunch]] = {}
    for launch in tuning.launches:
        kernels.setdefault(launch.kernel, []).append(launch)
    lines = [f"# {tuning.target} on {tuning.device}: predicted, not measured"]
    lines += [f"# {tuning.incomplete}"] if tuning.incomplete else []
    lines += [f"# Note: {note}" for note in tuning.notes]
    for kernel, launches in kernels.items():
        lines_said: dict[str, list[str]] = {}
        for launch in launches:
            shape = f" at {_shape(launch.shape)}" if launch.shape else ""
            for rank, item in enumerate(launch.predicted[:top], 1):
                said = f"{rank}. of {len(launch.predicted)}{shape}: {units.duration(item.time_s)}"
                lines_said.setdefault(config_line(item.values), []).append(said)
        lines.append(f"# {kernel}: {'; '.join(dict.fromkeys(launch.verdict for launch in launches))}")
        lines += ["[", *(f"    {line},  # {'; '.join(said)}" for line, said in lines_said.items()), "]"]
    return "\n".join(lines)


def config_line(values: Mapping[str, Any]) -> str:
    """A configuration as a line of Python, e.g. `triton.Config({"BLOCK": 64}, num_warps=8)`."""
    constants = ", ".join(f'"{name}": {value!r}' for name, value in values.items() if name not in OPTIONS)
    options = "".join(
        f", {name}={values[name]!r}" for name in OPTIONS if name in values and values[name] != USUAL.get(name)
    )
    return f"triton.Config({{{constants}}}{options})"


def triton_cache(launch: TunedLaunch) -> dict[str, str]:
    """Files for Triton's cache, below its folder: path -> content; none where its autotuner looks for none."""
    if not launch.cache or not launch.predicted:
        return {}
    timings = [[_config(item.values), [item.time_s * 1e3] * 3] for item in launch.predicted]
    return {launch.cache: json.dumps({"key": list(launch.cache_key), "configs_timings": timings})}


def _config(values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a `triton.Config`."""
    constants = {name: value for name, value in values.items() if name not in OPTIONS}
    given = {name: values.get(name, USUAL.get(name)) for name in OPTIONS}
    return {"kwargs": constants, **given, "pre_hook": None, "ir_override": None}


def _shape(shape: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in shape.items())
