"""The microbenchmarks' CUDA C++, and NVRTC, which compiles it without a CUDA toolkit."""

from importlib import resources
from typing import Any


class NoGpu(Exception):
    """Microbenchmarks cannot run here. The text is one line with the remedy."""


class GpuFault(Exception):
    """A CUDA call failed. The text is one line: the call and CUDA's name for the error."""


def micro_source(name: str) -> str:
    """The CUDA C++ of a file of microbenchmarks. Args: name: without `.cu`."""
    return (resources.files(__package__) / f"{name}.cu").read_text("utf-8")


def target_of(capability: str) -> str:
    """The architecture that NVRTC compiles for; Hopper's own instructions need its `a`. Args: capability: `9.0`."""
    return f"sm_{capability.replace('.', '')}{'a' if capability == '9.0' else ''}"


def compile_cubin(nvrtc: Any, source: str, file: str, target: str) -> bytes:
    """Compile CUDA C++ to a cubin.

    Args:
        nvrtc: the module `cuda.bindings.nvrtc`; file: for messages; target: e.g. `sm_90a`.

    Raises:
        GpuFault: the source does not compile; the text is the compiler's first complaint.
        NoGpu: NVRTC is not here.
    """
    try:
        error, program = nvrtc.nvrtcCreateProgram(source.encode(), file.encode(), 0, [], [])
    except RuntimeError:
        raise NoGpu("NVRTC's library is not found: pip install nvidia-cuda-nvrtc") from None
    if int(error) != 0:
        raise GpuFault(f"{file}: NVRTC: {error.name}")
    options = [f"--gpu-architecture={target}".encode()]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(error) != 0:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        complaints = [line for line in log.decode(errors="replace").splitlines() if "error" in line]
        raise GpuFault(f"{file}: does not compile for {target}: {(complaints or [error.name])[0]}")
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    cubin: bytes = b" " * size
    nvrtc.nvrtcGetCUBIN(program, cubin)
    return cubin
