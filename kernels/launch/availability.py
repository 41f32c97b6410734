"""What the kernels need and whether it is here, said in one line; imports neither torch nor triton by itself."""

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from ...simulator.limits import OLDEST_CAPABILITY

TRITON = "3.6", "3.9"
"""Oldest and newest minor version of Triton whose inner functions `compile.worker` and `capture` are known to call
rightly: all kernel tests ran with 3.6.0, those of compilation with 3.9.0, none with 3.7 and 3.8."""

TORCH_PACKAGE, TRITON_PACKAGE = "'torch>=2.10,<2.16'", "'triton>=3.6,<3.10'"
"""What pip installs of them: the ranges of the extras in pyproject.toml."""
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""Where pip finds torch without CUDA, which is 3 GB less."""


TRUE = ("1", "true", "on", "yes", "y")
"""What Triton takes for true in a variable (`triton.knobs.getenv_bool`)."""


def install_torch() -> str:
    """The command that installs torch into this environment, for a machine without a GPU."""
    return f"{sys.executable} -m pip install {TORCH_PACKAGE} --index-url {CPU_INDEX}"


def install_triton() -> str:
    """The command that installs a Triton that is supported."""
    return f"{sys.executable} -m pip install {TRITON_PACKAGE}"


def install_extra() -> str:
    """The command that installs both in a clone, for a machine without a GPU."""
    return f"{sys.executable} -m pip install '.[predict]' --extra-index-url {CPU_INDEX}"


def interprets() -> bool:
    """Whether Triton interprets kernels on the CPU (TRITON_INTERPRET=1 when it was imported), which compiles none."""
    if "triton" in sys.modules:
        return bool(sys.modules["triton"].knobs.runtime.interpret)
    return os.environ.get("TRITON_INTERPRET", "").lower() in TRUE


def missing_package() -> str | None:
    """Why no kernel can be compiled or interpreted here, and the commands that change it; None where one can."""
    commands = {"torch": install_torch(), "triton": install_triton()}
    missing = [name for name in commands if find_spec(name) is None]
    if missing:
        how = " && ".join(commands[name] for name in missing)
        extra = f"; or in a clone, the predict extra: {install_extra()}" if len(missing) > 1 else ""
        return f"{_not_installed(missing)} (no GPU is needed): {how}{extra}"
    return _other_triton()


def _not_installed(names: list[str]) -> str:
    return f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} not installed"


def _other_triton() -> str | None:
    """Why the Triton that is here is none that is supported."""
    try:
        installed = version("triton")
    except PackageNotFoundError:  # built from source: nobody knows of which version
        return None
    oldest, newest = TRITON
    if _minor(oldest) <= _minor(installed) <= _minor(newest):
        return None
    return f"triton {installed} is installed: must be {oldest} to {newest}: {install_triton()}"


def _minor(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def missing_gpu() -> str | None:
    """Why no kernel can be run on a GPU here; None where one can."""
    if missing := [name for name in ("torch", "triton") if find_spec(name) is None]:
        return f"{_not_installed(missing)}: install the gpu extra, in a clone: {sys.executable} -m pip install '.[gpu]'"
    if reason := _other_triton():
        return reason
    import torch

    if not torch.cuda.is_available():
        return "no CUDA GPU is visible: torch.cuda.is_available() is False"
    capability = torch.cuda.get_device_capability()
    if capability < OLDEST_CAPABILITY:
        name = torch.cuda.get_device_name()
        return f"{name} has compute capability {capability[0]}.{capability[1]}: the kernels need 8.0 or newer"
    return None
