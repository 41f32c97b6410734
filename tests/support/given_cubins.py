"""Cubins of our own CUDA C++, compiled by NVRTC and kept with their source, so that tests need no CUDA compiler."""

import base64
import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

from tilesight.kernels.given.launch import Launch

FILE = Path(__file__).parents[1] / "recorded" / "cubins.json.xz"


@cache
def _kept() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(lzma.decompress(FILE.read_bytes()))
    return kept


def cubin(name: str, target: str = "sm_90a") -> bytes:
    """A cubin. Args: name: of its source file, e.g. `basic`; target: that it is compiled for."""
    return base64.b64decode(_kept()["files"][name]["cubins"][target])


def source(name: str) -> str:
    """Source text of a cubin."""
    return str(_kept()["files"][name]["source"])


def launch(kernel: str, grid: Any, block: Any, *, file: str = "basic", smem: int = 0, **args: Any) -> Launch:
    """A launch of one of its kernels on sm_90a."""
    return Launch(cubin=cubin(file), kernel=kernel, grid=grid, block=block, smem=smem, args=args)
