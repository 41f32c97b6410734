"""Where a side is recorded and compiled: versions of an installed Python, or why it cannot be used."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...kernels.interpreter import Interpreter, folders_left_away, variables_of_another
from ...simulator.refusal import UserError
from ..side import Environment

OLDEST_PYTHON = (3, 11)
TRITON = "3.4", "3.9"
"""Oldest and newest minor version of Triton whose inner functions `capture` and `compile` call rightly.

Tried with 3.4.0, 3.5.1, 3.6.0, 3.7.1, 3.8.0 and 3.9.0; 3.3 lacks `triton.knobs`."""
TORCH_PACKAGE, TRITON_PACKAGE = "torch", "'triton>=3.4,<3.10'"
PROBE_S = 120.0
"""What a Python may take to name its versions [s]."""
PROBE = """\
import json, sys
answer = {"python": ".".join(map(str, sys.version_info[:3]))}
if sys.version_info >= (3, 11):
    from tilesight.kernels.compile.versions import versions
    answer.update(versions(int(sys.argv[1])))
print(json.dumps(answer))
"""
"""Any Python 3 can read it; what follows the check of its version is of this program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Where a side is recorded and compiled.

    Args:
        environment: its versions; interpreter: None: this one; notes: one line each.
    """

    environment: Environment
    interpreter: Interpreter | None = None
    notes: tuple[str, ...] = ()


def here(capability: int) -> Installation:
    """This environment. Args: capability: of the GPU to compile for, e.g. 90."""
    from ...kernels.compile.versions import versions

    python = ".".join(map(str, sys.version_info[:3]))
    return Installation(environment=_environment({"python": python, **versions(capability)}))


def installation_of(python: str, option: str, capability: int) -> Installation:
    """The environment of a Python.

    Args:
        python: path, or a name on PATH; option: that named it, for messages; capability: as `here`.

    Raises:
        UserError: there is none, it is too old, it lacks torch or Triton, or has a Triton that is not supported.
    """
    named = f"{option} {python!r}"
    path = shutil.which(python)
    if Path(python).is_dir():
        raise UserError(f"{named}: is a folder; name the Python in it, e.g. {Path(python) / 'bin/python'}")
    if path is None:
        why = "is not executable" if Path(python).exists() else "no such interpreter"
        raise UserError(f"{named}: {why}; give the path of a Python, e.g. .venv/bin/python")
    path = os.path.abspath(path)
    variables = variables_of_another()
    answer = _probed(path, variables, named, capability)
    if tuple(map(int, answer["python"].split("."))) < OLDEST_PYTHON:
        raise UserError(f"{named}: is Python {answer['python']}: must be 3.11 or newer")
    if missing := [name for name in ("torch", "triton") if not answer[name]]:
        packages = {"torch": TORCH_PACKAGE, "triton": TRITON_PACKAGE}
        raise UserError(
            f"{named}: {' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not installed there: "
            f"{path} -m pip install {' '.join(packages[name] for name in missing)}"
        )
    oldest, newest = TRITON
    if not minor(oldest) <= minor(answer["triton"]) <= minor(newest):
        raise UserError(f"{named}: has triton {answer['triton']}: must be {oldest} to {newest}")
    left = [
        f"PYTHONPATH: {folder} is left away for {python}: it holds torch or Triton" for folder in folders_left_away()
    ]
    return Installation(
        environment=_environment(answer),
        interpreter=Interpreter(path=path, variables=variables, triton=answer["compiler"]),
        notes=tuple(left),
    )


def _probed(path: str, variables: dict[str, str], named: str, capability: int) -> dict[str, Any]:
    """What a Python says of itself."""
    try:
        finished = subprocess.run(
            [path, "-c", PROBE, str(capability)],
            env=os.environ | variables,
            cwd=os.sep,  # modules that lie where the user is are none of its own
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=PROBE_S,
            check=False,
        )
    except OSError as error:
        raise UserError(f"{named}: cannot be run ({error.strerror})") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"{named}: names no versions in {PROBE_S:.0f} s") from None
    try:
        answer: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
        return {"python": str(answer["python"]), **answer}
    except (ValueError, LookupError, TypeError):
        said = [line.strip() for line in (finished.stderr or finished.stdout).splitlines() if line.strip()]
        raise UserError(f"{named}: is no Python that works ({said[-1][:200] if said else 'it says nothing'})") from None


def _environment(answer: dict[str, str]) -> Environment:
    return Environment(**{name: answer[name] for name in ("python", "torch", "triton", "ptxas")})


def minor(text: str) -> tuple[int, ...]:
    """Major and minor number of a version."""
    digits = [part for part in text.split(".")[:2] if part.isdecimal()]
    return tuple(map(int, digits)) or (0,)
