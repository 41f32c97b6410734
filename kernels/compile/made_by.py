"""Names of the compiler's answers on disk: equal where the job, the compiler and what asks it are equal."""

import json
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ASKS_AND_READS = ("cubin", "diagnosis", "disassemble", "ttir", "worker")
"""Modules of this folder that decide what an answer of the compiler holds."""


@cache
def made_by() -> tuple[str, ...]:
    """What asks the compiler and reads its answer; results of another one are none of this one's."""
    files = (Path(__file__).with_name(f"{name}.py") for name in ASKS_AND_READS)
    return triton_version(), *(file.read_text(encoding="utf-8") for file in files)


@cache
def triton_version() -> str:
    """Of the Triton that is installed; empty where none is, or one that was built from source."""
    try:
        return version("triton")
    except PackageNotFoundError:
        return ""


def call_key(job: Mapping[str, Any]) -> str:
    """Name of a job's result in the cache: the IR holds all that the compiler sees of a launch."""
    text = json.dumps([dict(job), made_by()], sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()
