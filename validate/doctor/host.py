"""How the doctor asks this machine: torch and other programs in processes of their own, where what is broken stays."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from .doctor import Host

QUERY_S = 30.0


def this_host() -> Host:
    """The machine that this runs on."""
    return Host(command=output_of, version=version_of, torch_gpu=_torch_says, counters=_ncu_says)


def output_of(command: Sequence[str]) -> str | None:
    """What a program prints on stdout; None where it is missing, fails or hangs."""
    path = shutil.which(command[0])
    if path is None:
        return None
    try:
        finished = subprocess.run([path, *command[1:]], capture_output=True, text=True, timeout=QUERY_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return finished.stdout if finished.returncode == 0 else None


def version_of(package: str) -> str | None:
    """Version of an installed package; None where there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


_TORCH = """
import json, torch, warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    there = torch.cuda.is_available()
    l2 = torch.cuda.get_device_properties(0).L2_cache_size if there else 0
print(json.dumps({"cuda": torch.version.cuda, "available": there, "l2_bytes": l2,
                  "why": str(said[0].message).split("\\n")[0][:120] if said else ""}))
"""


def _torch_says() -> Mapping[str, Any]:
    printed = output_of([sys.executable, "-P", "-c", _TORCH])
    if printed is None:
        return {"cuda": "unknown", "available": False, "l2_bytes": 0, "why": "import torch fails"}
    answer: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return answer


def _ncu_says() -> tuple[str, str]:
    from ..counters.ncu import doubt, find_ncu
    from ..counters.ncu_output import NcuFailed

    try:
        ncu = find_ncu()
    except NcuFailed as error:
        return "", str(error)
    return ncu.version, doubt(ncu, int(_torch_says()["l2_bytes"])) or ""
