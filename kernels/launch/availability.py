"""What the kernels need and whether it is here, said in one line; imports neither torch nor triton by itself."""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from ...simulator.limits import OLDEST_CAPABILITY

TRITON = "3.6", "3.9"
"""Oldest and newest minor version of Triton whose inner functions `compile.worker` and `capture` are known to call
rightly: all kernel tests ran with 3.6.0, those of compilation with 3.9.0, none with 3.7 and 3.8."""


def missing_package() -> str | None:
    """Why no kernel can be compiled or interpreted here; None where one can."""
    for name in ("torch", "triton"):
        if find_spec(name) is None:
            return f"{name} is not installed: install the gpu extra (pip install 'tilesight[gpu]')"
    return _other_triton()


def _other_triton() -> str | None:
    """Why the Triton that is here is none that is supported."""
    try:
        installed = version("triton")
    except PackageNotFoundError:  # built from source: nobody knows of which version
        return None
    oldest, newest = TRITON
    if _minor(oldest) <= _minor(installed) <= _minor(newest):
        return None
    return f"triton {installed} is installed: must be {oldest} to {newest} (pip install 'tilesight[gpu]')"


def _minor(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def missing_gpu() -> str | None:
    """Why no kernel can be run on a GPU here; None where one can."""
    reason = missing_package()
    if reason:
        return reason
    import torch

    if not torch.cuda.is_available():
        return "no CUDA GPU is visible: torch.cuda.is_available() is False"
    capability = torch.cuda.get_device_capability()
    if capability < OLDEST_CAPABILITY:
        name = torch.cuda.get_device_name()
        return f"{name} has compute capability {capability[0]}.{capability[1]}: the kernels need 8.0 or newer"
    return None
