"""Versions of what decides on machine code in this environment. Read by `python -c` of others, too."""

import re
import subprocess
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from .made_by import triton_version

RELEASE = re.compile(r"release \d[\d.]*, V(\d[\d.]*)")
BLACKWELL = 100
"""Compute capability from which on Triton brings an assembler of its own."""


def versions(capability: int) -> dict[str, str]:
    """Versions by name.

    Args:
        capability: of the GPU to compile for, e.g. 90.

    Returns:
        torch, triton: empty where it is not installed; ptxas: empty where it does not say; compiler: name of Triton in
        names of answers on disk.
    """
    torch, triton = map(_version, ("torch", "triton"))
    ptxas = _ptxas(capability) if triton else ""
    return {"torch": torch, "triton": triton, "ptxas": ptxas, "compiler": triton_version()}


def _version(package: str) -> str:
    if find_spec(package) is None:
        return ""
    try:
        return version(package)
    except PackageNotFoundError:  # built from source
        return str(getattr(import_module(package), "__version__", "of unknown version"))


def _ptxas(capability: int) -> str:
    """Of the assembler that Triton brings."""
    try:
        nvidia: Any = import_module("triton.knobs").nvidia
        newer = getattr(nvidia, "ptxas_blackwell", None) if capability >= BLACKWELL else None
        tool = (newer or nvidia.ptxas).path
        said = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    except (ImportError, AttributeError, OSError, RuntimeError, subprocess.CalledProcessError):
        return ""
    match = RELEASE.search(said)
    return match[1] if match else ""
