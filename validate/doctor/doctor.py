"""`tilesight doctor`: what `validate` and `calibrate` need, whether it is here, and what helps where it is not.

A `Host` answers questions about a machine; `examine` turns its answers into checks, those of planted ones as well.
`this_host` asks torch and other programs in processes of their own, where what is broken stays.
Nothing here needs torch, triton or a driver; what is missing becomes a check.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any, Literal

from ...kernels.launch.availability import CPU_INDEX
from ...simulator import units
from ...simulator.display import render
from ...simulator.limits import OLDEST_CAPABILITY
from ...simulator.problems.attention import AttentionProblem

SCHEMA = "tilesight.doctor/1"
OLDEST = {"torch": (2, 5), "triton": (3, 4)}
"""The first versions that will do: torch's SDPA with GQA; triton's knobs, which name its disassembler."""
PROVEN = {"torch": ("2.11", "2.13"), "triton": ("3.6", "3.9")}
"""Versions that the kernels and the compiler's output were tested with."""
INSTALL = (
    "to run kernels here, the gpu extra (in a clone: pip install '.[gpu]'); to predict yours, which needs no GPU, the "
    f"predict extra (pip install '.[predict]' --extra-index-url {CPU_INDEX})"
)

State = Literal["ok", "note", "bad"]
QUERY_S = 30.0
"""What a program may take to answer [s]."""
_TORCH = """
import json, torch, warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    there = torch.cuda.is_available()
    l2 = torch.cuda.get_device_properties(0).L2_cache_size if there else 0
print(json.dumps({"cuda": torch.version.cuda, "available": there, "l2_bytes": l2,
                  "why": str(said[0].message).split("\\n")[0][:120] if said else ""}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at.

    Args:
        name: of the thing.
        state: `ok`; `note`, which works, with less; `bad`, `validate` cannot run.
        seen: what is here, in one line.
        remedy: what helps, in one line; empty where nothing is wrong.
    """

    name: str
    state: State
    seen: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Questions to a machine.

    Args:
        command: output of a program; None where it is missing or fails.
        version: version of an installed package; None where there is none.
        torch_gpu: what torch says of CUDA: `cuda` (version torch was built for, or None), `available`, `why`.
        counters: ncu's version, and why counters cannot be had (empty where they can).
    """

    command: Callable[[Sequence[str]], str | None]
    version: Callable[[str], str | None]
    torch_gpu: Callable[[], Mapping[str, Any]]
    counters: Callable[[], tuple[str, str]]


def examine(host: Host, problem: AttentionProblem) -> list[Check]:
    """Look at everything, in the order in which one thing needs the other.

    Args:
        problem: shape whose tensors have to fit.
    """
    smi = host.command(
        ["nvidia-smi", "--query-gpu=name,compute_cap,driver_version,memory.total,memory.free", "--format=csv,noheader"]
    )
    gpus = gpus_in(smi or "")
    # Asked before anything of ours runs there.
    others = host.command(["nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader"])
    versions = {name: host.version(name) for name in ("torch", "triton")}
    torch_gpu = host.torch_gpu() if versions["torch"] else None
    works = bool(torch_gpu and torch_gpu["available"])
    checks = [_driver(smi, gpus, works), *_gpu(gpus), *(_package(name, version) for name, version in versions.items())]
    if torch_gpu:
        checks.append(_torch_gpu(torch_gpu))
    if works:
        checks.append(_counters(*host.counters()))
    else:
        checks.append(Check(name="ncu", state="note", seen="not tried: no GPU to count on", remedy="see what fails"))
    checks += [
        _extra("cuda.bindings", host.version("cuda-bindings"), "calibrate cannot run", "pip install cuda-bindings"),
        _extra("NVML", host.version("nvidia-ml-py"), "calibrate reads no power", "pip install nvidia-ml-py"),
    ]
    if gpus:
        checks += [_memory(gpus[0], problem), _others(others or "")]
    return checks


def looks_at_problem(checks: Sequence[Check]) -> bool:
    """Whether one of the checks depends on the problem: that of memory does."""
    return any(check.name == "memory" for check in checks)


def can_validate(checks: Sequence[Check]) -> bool:
    """Whether nothing that `validate` needs is missing."""
    return all(check.state != "bad" for check in checks)


@dataclass(frozen=True, slots=True)
class SmiGpu:
    """A GPU in the output of nvidia-smi. Args: memory in bytes."""

    name: str
    capability: tuple[int, int]
    driver: str
    total_bytes: int
    free_bytes: int


def gpus_in(text: str) -> list[SmiGpu]:
    """GPUs in the output of `nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total,memory.free`."""
    gpus = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 5 or not re.fullmatch(r"\d+\.\d+", fields[1]):
            continue
        name, version, driver, *sizes = fields
        major, minor = version.split(".")
        total, free = map(_mebibytes, sizes)
        gpus.append(SmiGpu(name, (int(major), int(minor)), driver, total_bytes=total, free_bytes=free))
    return gpus


def _mebibytes(text: str) -> int:
    number = re.match(r"\d+", text)
    return int(number[0]) << 20 if number else 0


def _driver(smi: str | None, gpus: Sequence[SmiGpu], works: bool) -> Check:
    if gpus:
        return Check(name="driver", state="ok", seen=gpus[0].driver)
    if smi is None:
        text, remedy = "no nvidia-smi that answers", "install NVIDIA's driver, or run where there is a GPU"
    else:
        text, remedy = f"nvidia-smi names no GPU: {' '.join(smi.split())[:100] or 'it says nothing'}", "see nvidia-smi"
    return Check(name="driver", state="note" if works else "bad", seen=text, remedy=remedy)


def _gpu(gpus: Sequence[SmiGpu]) -> list[Check]:
    checks = []
    for number, gpu in enumerate(gpus):
        major, minor = gpu.capability
        text = f"{gpu.name}, compute capability {major}.{minor}, {units.capacity(gpu.total_bytes)}"
        good = gpu.capability >= OLDEST_CAPABILITY
        state: State = "ok" if good else "bad" if number == 0 else "note"
        remedy = "" if good else "the kernels need compute capability 8.0 or newer (CUDA_VISIBLE_DEVICES chooses)"
        checks.append(Check(name=f"GPU {number}", state=state, seen=text, remedy=remedy))
    return checks


def version_numbers(text: str) -> tuple[int, int]:
    """Major and minor of a version, e.g. (2, 11) of `2.11.0+cu130`; (0, 0) where it has none."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _package(name: str, version: str | None) -> Check:
    if version is None:
        return Check(name=name, state="bad", seen="not installed", remedy=INSTALL)
    oldest = ".".join(map(str, OLDEST[name]))
    if version_numbers(version) < OLDEST[name]:
        return Check(name=name, state="bad", seen=f"{version} is too old", remedy=f"install {name} {oldest} or newer")
    if ".".join(map(str, version_numbers(version))) not in PROVEN[name]:
        proven = " and ".join(PROVEN[name])
        return Check(name=name, state="note", seen=f"{version}, which is untested", remedy=f"tested are {proven}")
    return Check(name=name, state="ok", seen=version)


def _torch_gpu(answer: Mapping[str, Any]) -> Check:
    if answer["cuda"] is None:
        remedy = "install a build of torch for CUDA (pytorch.org names the index)"
        return Check(name="torch on the GPU", state="bad", seen="this torch is built without CUDA", remedy=remedy)
    if not answer["available"]:
        remedy = "see nvidia-smi and CUDA_VISIBLE_DEVICES; the driver may be older than torch's CUDA"
        text = f"torch (CUDA {answer['cuda']}) sees no GPU{': ' + answer['why'] if answer['why'] else ''}"
        return Check(name="torch on the GPU", state="bad", seen=text, remedy=remedy)
    return Check(name="torch on the GPU", state="ok", seen=f"CUDA {answer['cuda']}")


def _counters(version: str, why: str) -> Check:
    if why:
        text = f"{version + ': ' if version else ''}no counters, validate compares times only"
        return Check(name="ncu", state="note", seen=text, remedy=why)
    return Check(name="ncu", state="ok", seen=f"{version}, counts a copy of known size correctly")


def _extra(name: str, version: str | None, without: str, remedy: str) -> Check:
    if version is None:
        return Check(name=name, state="note", seen=f"not installed: {without}", remedy=remedy)
    return Check(name=name, state="ok", seen=version)


def _memory(gpu: SmiGpu, problem: AttentionProblem) -> Check:
    heads, kv_heads = problem.batch * problem.heads, problem.batch * problem.kv_heads
    rows = 2 * heads * problem.seqlen_q + 2 * kv_heads * problem.seqlen_k
    needed = rows * problem.head_dim * problem.element_bytes
    text = f"{units.capacity(gpu.free_bytes)} free of {units.capacity(gpu.total_bytes)}"
    if gpu.free_bytes < needed:
        remedy = f"Q, K, V and O of this shape take {units.capacity(needed)}: stop what else uses the GPU"
        return Check(name="memory", state="bad", seen=text, remedy=remedy)
    return Check(name="memory", state="ok", seen=text)


def _others(text: str) -> Check:
    others = [line.strip() for line in text.splitlines() if re.match(r"\d+,", line.strip())]
    if not others:
        return Check(name="other processes", state="ok", seen="none on the GPU")
    text = f"{len(others)}: {'; '.join(others[:3])}"
    return Check(name="other processes", state="note", seen=text, remedy="they disturb times and clocks: stop them")


def doctor_dict(checks: Sequence[Check], problem: AttentionProblem) -> dict[str, object]:
    """The object that `doctor --json` prints."""
    return {
        "schema": SCHEMA,
        "can_validate": can_validate(checks),
        "problem": asdict(problem),
        "checks": [
            {"name": check.name, "state": check.state, "found": check.seen, "remedy": check.remedy} for check in checks
        ],
    }


def doctor_text(checks: Sequence[Check], width: int) -> str:
    """The checks, a line each, with the remedy below; and the verdict."""
    marks = {"ok": "ok  ", "note": "note", "bad": "FAIL"}
    name_width = max(len(check.name) for check in checks)
    lines = []
    indent = " " * (name_width + 8)
    for check in checks:
        lines.append(f"{marks[check.state]}  {check.name:<{name_width}}  {check.seen}")
        if check.remedy:
            lines.append(f"{indent}-> {check.remedy}")
    bad = [check.name for check in checks if check.state == "bad"]
    verdict = f"validate cannot run here: {', '.join(bad)}" if bad else "validate can run here"
    return "\n".join(render.wrapped([*lines, "", verdict], width))


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
