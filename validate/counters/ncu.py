"""Hardware counters by Nsight Compute: find it, ask what it offers, run a program under it, check that it counts right.

A program that is to be counted puts `cudaProfilerStart()` and `cudaProfilerStop()` round the launches that count,
and reads its work from a file. The GPU cannot count everything at once, so what is counted is repeated, in one of two
ways (`Repeated`): the whole program, which then flushes L2 itself where a point is cold, since a pipeline's second
kernel has to find what the first one left in L2, and not its own data; or each launch, if it is to find L2 empty.

Nothing here ever asks for more rights; without permission there are no counters, and the reason says what would help.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from .ncu_output import CountedLaunch, NcuFailed, offered, parse
from .table import Metrics, fields_of, metric_names, resolve

VARIABLE = "TILESIGHT_NCU"
"""Environment variable that names the ncu to use."""
PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu", "/usr/local/NVIDIA-Nsight-Compute*/ncu")
OLDEST = (2022, 3)
"""The first version that knows compute capability 9.0."""
ESSENTIAL = ("hbm_read_bytes", "hbm_write_bytes", "cycles", "time_s")
"""Fields without which counters are not worth a run."""
Repeated = Literal["program", "launch"]
REPEATING: Mapping[Repeated, Mapping[str, str]] = {
    "program": {"--replay-mode": "application", "--cache-control": "none"},
    "launch": {"--replay-mode": "kernel", "--cache-control": "all"},
}
"""What is repeated for each set of counters: all that the program does; or each launch by itself, its data put back and
all caches emptied before each time, so that the program starts only once (7 s in place of 26 s)."""
KNOWN_COPY = f"{__package__}.self_check"
COPY_L2_SIZES = 64
"""Size of the known copy, as a multiple of the L2: dirty lines left behind are at most 1/64 (1.6 %) of it."""
COPY_TOLERANCE = 0.02
QUERY_S, COPY_S = 120.0, 300.0
REMEDIES = {
    "ERR_NVGPUCTRPERM": "no permission to read GPU counters (ERR_NVGPUCTRPERM): have the administrator load the nvidia "
    "module with NVreg_RestrictProfilingToAdminUsers=0",
    "LibraryNotLoaded": "ncu cannot reach the GPU's counters (LibraryNotLoaded): some containers block them",
    "InsufficientPrivileges": "no permission to read GPU counters: in a container, have it started with CAP_SYS_ADMIN",
    "driver resource": "another profiler holds the GPU's counters: end it (DCGM: dcgmi profm --pause)",
}
"""What ncu says -> why there are no counters, and what helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ncu:
    """An ncu that can be asked.

    Args:
        path: of the program.
        version: as it reports it.
        metrics: field of ours -> metrics that hold it on this GPU.
    """

    path: str
    version: str
    metrics: Mapping[str, Metrics]


def find_ncu() -> Ncu:
    """The installed ncu, with the metrics that it offers for the GPU of this machine.

    Raises:
        NcuFailed: there is none, it is too old, or it does not know the GPU; with the remedy.
    """
    path = _path()
    if path is None:
        raise NcuFailed(f"ncu is not installed: install Nsight Compute, or name it in {VARIABLE}")
    version = version_of(_output([path, "--version"]))
    if version is None:
        raise NcuFailed(f"{path} does not tell its version: name another ncu in {VARIABLE}")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise NcuFailed(f"ncu {version} is too old: install {OLDEST[0]}.{OLDEST[1]} or newer, or name it in {VARIABLE}")
    said = _output([path, "--query-metrics"])
    metrics = resolve(offered(said))
    missing = [name for name in ESSENTIAL if name not in metrics]
    if missing:
        raise NcuFailed(reason_in(said) or f"ncu {version} has no counters for {', '.join(missing)} on this GPU")
    return Ncu(path=path, version=version, metrics=metrics)


def version_of(said: str) -> str | None:
    """The version in the output of `ncu --version`, e.g. `2025.3.1`; None where there is none."""
    match = re.search(r"Version (\d+\.\d+(?:\.\d+)?)", said)
    return match[1] if match else None


def count(
    ncu: Ncu, program: Sequence[str], *, timeout_s: float, repeated: Repeated = "program"
) -> tuple[CountedLaunch, ...]:
    """Run a program under ncu. Returns: the launches between the profiler's marks, in order.

    Args:
        program: command line; what it prints is thrown away.
        repeated: for each set of counters.
        timeout_s: for all its repetitions together [s].

    Raises:
        NcuFailed: it did not run, or nothing was counted.
    """
    with TemporaryDirectory(prefix="tilesight-ncu-") as folder:
        log = Path(folder) / "ncu.csv"
        command = [*command_line(ncu, log, repeated), *program]
        try:
            finished = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise NcuFailed(f"ncu did not end within {timeout_s:g} s") from None
        except OSError as error:
            raise NcuFailed(f"{ncu.path}: {error.strerror or error}") from None
        said = log.read_text(errors="replace") if log.exists() else ""
    reason = reason_in(said + finished.stdout)
    if reason or finished.returncode:
        last = [line for line in finished.stderr.splitlines() if line.strip()][-1:]
        raise NcuFailed(reason or f"ncu ended with status {finished.returncode}: {' '.join(last)[:200]}")
    return parse(said)


def command_line(ncu: Ncu, log: Path, repeated: Repeated) -> list[str]:
    """The ncu call, up to the program. Args: log: file for the table, to keep the program's own output out of it."""
    options = {
        "--page": "raw",
        "--print-units": "base",
        "--clock-control": "none",
        **REPEATING[repeated],
        "--profile-from-start": "off",
        "--target-processes": "application-only",
        "--log-file": str(log),
        "--metrics": ",".join(metric_names(ncu.metrics)),
    }
    return [ncu.path, "--csv", *(word for pair in options.items() for word in pair)]


def reason_in(said: str) -> str | None:
    """Why there are no counters, as far as ncu's remarks say it; None where they name no error."""
    errors = [line.removeprefix("==ERROR==").strip() for line in said.splitlines() if line.startswith("==ERROR==")]
    for line in errors:
        for sign, remedy in REMEDIES.items():
            if sign in line:
                return remedy
    return f"ncu: {errors[0][:200]}" if errors else None


def doubt(ncu: Ncu, l2_bytes: int) -> str | None:
    """Count a copy of known size.

    Args:
        l2_bytes: size of the GPU's L2 [B].

    Returns:
        Why counters cannot be read, or are not to be trusted, in one line; None where all is well.
    """
    size_bytes = copy_bytes(l2_bytes)
    program = [sys.executable, "-P", "-m", KNOWN_COPY, str(size_bytes)]
    try:
        launches = count(ncu, program, timeout_s=COPY_S, repeated="launch")
        counted = [fields_of(launch, ncu.metrics) for launch in launches]
    except NcuFailed as error:
        return str(error)
    return copy_doubt(counted, size_bytes)


def copy_bytes(l2_bytes: int) -> int:
    """Size of the known copy for an L2 [B]."""
    return COPY_L2_SIZES * l2_bytes // 4 * 4


def copy_doubt(counted: Sequence[Mapping[str, float]], size_bytes: int) -> str | None:
    """Hold the counters of a copy, which may be several launches, against its size.

    Returns:
        What is off, in one line; None where nothing is.
    """
    if not counted:
        return "counters are not trusted: a copy was launched, and no launch was counted"
    for field, what in (("hbm_read_bytes", "read"), ("hbm_write_bytes", "written")):
        if any(field not in launch for launch in counted):
            return f"counters are not trusted: ncu gave no {field} for a copy"
        error = sum(launch[field] for launch in counted) / size_bytes - 1.0
        if abs(error) > COPY_TOLERANCE:
            return f"counters are not trusted: a copy of {size_bytes} B is counted with {error:+.1%} of bytes {what}"
    return None


def _path() -> str | None:
    named = os.environ.get(VARIABLE)
    if named:
        return shutil.which(named)
    on_path = shutil.which("ncu")
    installed = (sorted(Path("/").glob(place.removeprefix("/")), reverse=True) for place in PLACES)
    return on_path or next((str(path) for paths in installed for path in paths if os.access(path, os.X_OK)), None)


def _output(command: list[str]) -> str:
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=QUERY_S, check=False)
    except subprocess.TimeoutExpired:
        raise NcuFailed(f"{command[0]} {command[1]} did not end within {QUERY_S:g} s") from None
    except OSError as error:
        raise NcuFailed(f"{command[0]}: {error.strerror or error}") from None
    return finished.stdout + finished.stderr
