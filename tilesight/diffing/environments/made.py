"""Environments for versions of Triton: made once, by venv and pip, in the user's cache folder.

An environment holds one Triton, and reads whatever lies beside it (torch, libraries) in the environment that this
program runs in. It is made in a temporary folder and moved to its place when it is whole.
"""

import json
import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from ...kernels.interpreter import folders_left_away
from ...simulator.cache_folder import cache_folder
from ...simulator.refusal import UserError
from .found import TRITON, minor

VERSION = re.compile(r"\d+(\.\d+)+((a|b|rc|\.post|\.dev)\d+)?(\+[\w.]+)?")
KNOWN = re.compile(r"\(from versions: (.*?)\)")
ABANDONED_S = 86400.0
"""Nothing takes so long to make [s]."""
OFFLINE = re.compile(r"Failed to establish|Name or service|Temporary failure|NameResolution|ConnectTimeout|unreachable")


def versions_of(text: str) -> tuple[str, str]:
    """Two versions of Triton. Args: text: e.g. `3.6.0,3.9.0`. Raises: UserError: they are none."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(map(VERSION.fullmatch, parts)):
        raise UserError(f"--triton {text!r}: must be two versions as pip takes them, e.g. --triton 3.6.0,3.9.0")
    old, new = parts
    if old == new:
        raise UserError(f"--triton {text!r}: names one version twice; name two")
    oldest, newest = TRITON
    for part in parts:
        if not minor(oldest) <= minor(part) <= minor(newest):
            raise UserError(f"--triton {text!r}: triton {part}: must be {oldest} to {newest}")
    return old, new


def python_with_triton(version: str, torch: str, say: Callable[[str], None]) -> str:
    """Path of a Python with a version of Triton, which is made where there is none yet.

    Args:
        version: as pip takes it; torch: version of the torch that is here; say: announces what is installed.

    Raises:
        UserError: pip cannot install it, or the cache folder cannot be written.
    """
    shared = [*folders_left_away(), *_site_folders()]
    parts = json.dumps([sys.version, os.path.realpath(sys.executable), version, torch, shared])
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    name = f"triton-{version}-torch-{torch}-python-{python}-{sha256(parts.encode()).hexdigest()[:8]}"
    place = cache_folder() / "environments" / name
    if not (place / "bin/python").exists():
        say(
            f"installing triton {version}, once, up to 1 GB; torch and all else stay those of this environment; to "
            f"remove it: rm -r {place}"
        )
        _make(place, version, shared)
    return str(place / "bin/python")


def _site_folders() -> list[str]:
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [folder for folder in (*user, *site.getsitepackages()) if Path(folder).is_dir()]


def _make(place: Path, version: str, shared: Sequence[str]) -> None:
    """Make an environment. Args: shared: folders whose packages it reads behind its own."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _sweep(place.parent)
        making = Path(tempfile.mkdtemp(prefix=".making-", dir=place.parent))
    except OSError as error:
        raise UserError(
            f"--triton {version}: {place.parent} cannot be written ({error.strerror}); set TILESIGHT_CACHE_DIR to a "
            "folder that can"
        ) from None
    try:
        whole = making / "whole"
        made = run_quietly([sys.executable, "-m", "venv", str(whole)])
        if made.returncode:
            raise UserError(f"--triton {version}: python -m venv fails: {_last(made.stdout + made.stderr)}")
        python = whole / "bin/python"
        options = ("--no-deps", "--no-user", "--no-input", "--disable-pip-version-check", "--retries", "1", "--quiet")
        pip = run_quietly([str(python), "-m", "pip", "install", *options, f"triton=={version}"])
        if pip.returncode:
            raise UserError(f"--triton {version}: {_why(version, pip.stderr)}")
        (packages,) = whole.glob("lib/python*/site-packages")
        lines = [f"import site; site.addsitedir({folder!r})" for folder in shared]
        (packages / "beside_triton.pth").write_text("\n".join([*lines, ""]), encoding="utf-8")
        try:
            whole.rename(place)
        except OSError as error:
            if not (place / "bin/python").exists():  # else another process was first
                raise UserError(f"--triton {version}: {place} cannot be written ({error.strerror})") from None
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what a killed process has left half made."""
    for left in folder.glob(".making-*"):
        if time.time() - left.stat().st_mtime > ABANDONED_S:
            shutil.rmtree(left, ignore_errors=True)


def run_quietly(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run a command that sees nothing of this environment's packages. Returns: what it printed, and its status."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX")
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    return subprocess.run(
        command,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _why(version: str, said: str) -> str:
    """Why pip has not installed a version. Args: said: on stderr."""
    known = KNOWN.search(said)
    exist = [] if known is None or known[1] == "none" else known[1].split(", ")
    if exist:
        nearest = sorted(exist, key=lambda other: _distance(other, version))[:3]
        return f"pip finds no such version of triton; nearest are {', '.join(sorted(nearest, key=_numbers))}"
    if known or OFFLINE.search(said):
        return "pip finds no version of triton: is there a network, or an index that has it?"
    return f"pip cannot install it: {_last(said)}"


def _distance(version: str, other: str) -> list[int]:
    pairs = zip(_numbers(version), _numbers(other), strict=False)
    return [abs(a - b) for a, b in pairs]


def _numbers(version: str) -> list[int]:
    return [*map(int, re.findall(r"\d+", version)), 0, 0][:4]


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith(("ERROR", "Error"))]
    return (errors or lines or ["it does not say why"])[-1][:200]
