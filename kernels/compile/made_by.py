"""Names of the compiler's answers on disk: equal where the job, the compiler and what asks it are equal."""

import json
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ASKS_AND_READS = ("cubin", "diagnosis", "disassemble", "kernel_info", "ttir", "worker")
"""Modules of this folder that decide what an answer of the compiler holds."""


@cache
def made_by(compiler: str = "") -> tuple[str, ...]:
    """What asks the compiler and reads its answer; results of another one are none of this one's.

    Args:
        compiler: name of the Triton, as `triton_version` gives it; empty: of the one that is installed here.
    """
    files = (Path(__file__).with_name(f"{name}.py") for name in ASKS_AND_READS)
    return compiler or triton_version(), *(file.read_text(encoding="utf-8") for file in files)


@cache
def triton_version() -> str:
    """Of the Triton that is installed, of one that was built from source with its time; empty where none is."""
    try:
        release = version("triton")
    except PackageNotFoundError:
        release = ""
    if release and "+" not in release:
        return release
    spec = find_spec("triton")
    library = Path(spec.origin).parent / "_C" / "libtriton.so" if spec and spec.origin else None
    return f"{release} of {library.stat().st_mtime_ns}" if library and library.exists() else release


def call_key(job: Mapping[str, Any], compiler: str = "") -> str:
    """Name of a job's result in the cache: the IR holds all that the compiler sees of a launch.

    Args:
        compiler: as `made_by`.
    """
    text = json.dumps([dict(job), made_by(compiler)], sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()
