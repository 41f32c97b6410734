"""Versions of what decides on machine code in this environment. Read by `python -c` of others, too."""

import re
import subprocess
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from inspect import signature
from typing import Any

from .made_by import triton_version

RELEASE = re.compile(r"release \d[\d.]*, V(\d[\d.]*)")


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
    """Of the assembler that Triton takes for this GPU, of those that it brings."""
    try:
        compiler: Any = import_module("triton.backends.nvidia.compiler")
        get_ptxas = compiler.get_ptxas  # takes the GPU since Triton 3.6
        tool = (get_ptxas(capability) if signature(get_ptxas).parameters else get_ptxas()).path
        said = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    except (ImportError, AttributeError, OSError, RuntimeError, subprocess.CalledProcessError):
        return ""
    match = RELEASE.search(said)
    return match[1] if match else ""
