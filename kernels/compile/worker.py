"""One compiler process: takes compile jobs on stdin, gives results on stdout, and may die of one without harm.

Run as `python -m tilesight.kernels.compile.worker`; `compile` starts and feeds it. Messages are lines of JSON.
"""

import os
import re
from base64 import b64encode
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ...simulator.jobs.processes import TELLING, serve
from ...simulator.limits import WARP_THREADS
from .cubin import sections_of, source_lines
from .diagnosis import explained
from .disassemble import inspect
from .kernel_info import literals_of
from .made_by import triton_version

DESCRIPTOR = re.compile(r"^tensordesc<(?P<element>\w+)\[(?P<box>[0-9, ]+)\]")
"""Type of a descriptor: of its elements, and the shape of its tiles."""
BANK = re.compile(r"Attribute:\s*EIATTR_PARAM_CBANK\s+Format:\s*\w+\s+Value:\s*0x[0-9a-f]+ 0x([0-9a-f]+)")
"""Where parameters lie in constant bank 0: size in the upper half of the word, address in the lower."""
PARAMETER = re.compile(r"Ordinal\s*:\s*0x([0-9a-f]+)\s+Offset\s*:\s*0x([0-9a-f]+)\s+Size\s*:\s*0x([0-9a-f]+)")
DESCRIPTOR_FLAGS = ("padding", "round_f32_to_tf32")
"""Of descriptors of the host, where a version of Triton has them."""
STDERR = 2
WORKSPACE = "global_scratch"
"""The compiler's name for memory that it has each launch be given."""
INSERTED = re.compile(r"// begin inline asm\n.*?// end inline asm", re.DOTALL)
LINE = re.compile(r"^\s*\.loc\s.*\n", re.MULTILINE)
RESOURCE = re.compile(r"Function (\S+):\s*\n?\s*REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


def kernel_source(job: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """What the JIT would compile for a job on its GPU: the same signature, constants and attributes.

    Args:
        job: module and name of the Triton function, arguments, pointers (name -> torch dtype, e.g. `torch.float16`),
            blocks (name -> rows and columns of a tile, where the pointer is a descriptor's), capability (e.g. 90),
            options (num_warps, num_stages, ...).

    Returns:
        Triton's source, target and options.

    Source: `JITFunction.run` of Triton 3.6, which binds arguments and then compiles in the same two calls.
    """
    import torch
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, make_backend
    from triton.runtime.jit import MockTensor, create_function_from_signature
    from triton.tools.tensor_descriptor import TensorDescriptor

    function = getattr(import_module(job["module"]), job["name"])
    target = GPUTarget("cuda", job["capability"], WARP_THREADS)
    backend = make_backend(target)
    pointers: dict[str, Any] = {
        name: MockTensor(getattr(torch, dtype.removeprefix("torch."))) for name, dtype in job["pointers"].items()
    }
    for name, (rows, cols) in job["blocks"].items():
        # The compiler sees type and block; shape and strides are arguments at run time.
        pointers[name] = TensorDescriptor(pointers[name], [1, rows, cols], [rows * cols, cols, 1], [1, rows, cols])
    options = dict(job["options"])
    bind = create_function_from_signature(function.signature, function.params, backend)
    bound, specialization, extra = bind(**pointers, **job["arguments"], **options)
    parsed, signature, constants, attributes = function._pack_args(backend, options, bound, specialization, extra)
    return ASTSource(function, signature, constants, attributes), target, parsed.__dict__


def compiled_kernel(job: dict[str, Any]) -> Any:
    """Compile a job as the JIT would on its GPU. Args: job: as in `kernel_source`. Returns: Triton's kernel."""
    from triton.compiler import compile

    source, target, options = (written_source if "ttir" in job else kernel_source)(job)
    return compile(source, target=target, options=options)


def written_source(job: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """The same for a job that holds a kernel's first IR: ttir, name, signature, capability, options."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import make_backend

    from .ttir import WrittenDown

    target = GPUTarget("cuda", job["capability"], WARP_THREADS)
    options = make_backend(target).parse_options(dict(job["options"]))
    return WrittenDown(job), target, options.__dict__


def parameter_types(job: dict[str, Any], tma: bool) -> list[tuple[str, str]]:
    """Parameters of a job's machine code in order: name and type, e.g. `i32`, `fp32`, `*fp16`.

    Args:
        tma: whether descriptors of the host came as such; else as pointer, sizes, strides and flags, and then sizes and
            strides again.

    Source: `make_launcher` and `make_tensordesc_arg` of Triton 3.6; 3.4 has no flag, 3.7 and newer have two.
    """
    from triton.tools.tensor_descriptor import TensorDescriptor

    flags = [flag for flag in DESCRIPTOR_FLAGS if flag in TensorDescriptor.__dataclass_fields__]
    signature = job["signature"] if "ttir" in job else kernel_source(job)[0].signature.items()
    flat = []
    for name, kind in signature:
        if kind == "constexpr":
            continue
        match = DESCRIPTOR.match(kind)
        if match is None:
            flat.append((name, kind))
            continue
        axes = range(len(match["box"].split(",")))
        if tma:
            flat.append((name, kind))
        else:
            flat.append((name, f"*{match['element']}"))
            flat += [(f"{name}.{what}[{axis}]", "i64") for what in ("shape", "stride") for axis in axes]
            flat += [(f"{name}.{flag}", "i1") for flag in flags]
        # The compiler passes shape and strides beside a descriptor.
        flat += [(f"{name}.shape[{axis}]", "i32") for axis in axes]
        flat += [(f"{name}.stride[{axis}]", "i64") for axis in axes]
    return flat


def name_compiler_by_version() -> None:
    """Have Triton name itself by its version, as `made_by` does, not by a digest of all of its files.

    The digest, of some 400 MB, takes longer than most kernels, once for each process. What this process compiles has
    another name than what others do: its lines are those of `keep_lines`.
    """
    from triton.runtime import cache

    if hasattr(cache, "triton_key") and (release := triton_version()):
        cache.triton_key = lambda: f"{release}, lines of calls"


def keep_lines() -> None:
    """Have machine code name the line of a load or store as its source line, whatever Triton's version.

    Triton writes them as PTX of several lines; that of 3.9 counts these on from the line of the call, so that a vector
    of four is said to be loaded three lines below.
    """
    from triton.backends.nvidia.compiler import CUDABackend

    make_cubin = CUDABackend.make_cubin
    CUDABackend.make_cubin = lambda self, ptx, *others: make_cubin(self, with_lines_of_calls(ptx), *others)


def with_lines_of_calls(ptx: str) -> str:
    """PTX without line numbers within what was inserted as PTX: it has the line before it."""
    return INSERTED.sub(lambda inserted: LINE.sub("", inserted[0]), ptx)


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Compile a job and read its resources; a refusal becomes its reason.

    Returns:
        As `outcomes.answers_of`, with `cubin` in base64 in the place of what disassembly gives.
    """
    from triton.compiler.errors import CompilationError

    printed = printed_from_here()
    try:
        kernel = compiled_kernel(job)
    except CompilationError as error:
        return {"reason": f"Triton refuses: {_one_line(error.error_message or str(error))}"}
    except Exception as error:
        return {"reason": explained(f"{type(error).__name__}: {_one_line(str(error))}", printed(), job)}
    cubin, metadata = kernel.asm["cubin"], kernel.metadata
    if "arguments" in job and (reason := _unspecialised(job, metadata.num_warps)):
        return {"reason": reason}
    said = inspect(cubin, "--dump-resource-usage", *(["-elf"] if job.get("code") else []))
    usage = RESOURCE.search(said)
    if usage is None:
        return {"reason": "cuobjdump reports no resource usage"}
    result: dict[str, Any] = {
        "registers": int(usage[2]),
        # Spills lie on the stack; older targets report them as local memory.
        "spilled_bytes": max(int(usage[3]), int(usage[5])),
        "smem_bytes": metadata.shared,
        "num_warps": metadata.num_warps,
        "tmem_columns": metadata.tmem_size or 0,
        "cubin": b64encode(cubin).decode(),
    }
    if job.get("code"):
        result["workspace_bytes"] = metadata.global_scratch_size
        result["boxes"] = [box["block_size"] for box in metadata.tensordesc_meta or ()]
        arguments = parameters(job, said, tma=bool(metadata.tensordesc_meta))
        literals = literals_of(sections_of(cubin), metadata.name)
        result["code"] = {"parameters": arguments, "lines": source_lines(cubin), "literals": list(literals)}
    return result


def _unspecialised(job: dict[str, Any], num_warps: int) -> str | None:
    # Here alone, as it imports torch, which takes a second that kernels that come as IR do not need.
    from ..launch.launch import unspecialised

    return unspecialised(job["arguments"], job["options"]["num_warps"], num_warps)


def parameters(job: dict[str, Any], elf: str, *, tma: bool) -> list[dict[str, Any]]:
    """Where the arguments of a kernel lie in constant bank 0: name, type, address, size [B].

    Args:
        elf: what cuobjdump says of the cubin; the compiler adds parameters of its own behind those of the job, of which
            the first is the address of the launch's workspace.
        tma: as in `parameter_types`.
    """
    bank = BANK.search(elf)
    places = {int(ordinal, 16): (int(offset, 16), int(size, 16)) for ordinal, offset, size in PARAMETER.findall(elf)}
    types = parameter_types(job, tma)
    if bank is None or len(places) < len(types):
        return []
    if len(places) > len(types):
        types.append((WORKSPACE, "*i8"))
    first = int(bank[1], 16) & 0xFFFF
    return [
        {"name": name, "type": kind, "address": first + places[number][0], "size_bytes": places[number][1]}
        for number, (name, kind) in enumerate(types)
    ]


def printed_from_here() -> Callable[[], str]:
    """Gives what this process, libraries included, will have printed on stderr; empty where that is no file."""
    try:
        begin = os.lseek(STDERR, 0, os.SEEK_CUR)
    except OSError:
        return lambda: ""
    return lambda: os.pread(STDERR, os.lseek(STDERR, 0, os.SEEK_CUR) - begin, begin).decode(errors="replace")


def _one_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if TELLING.search(line)] or lines
    return telling[-1][:300] if telling else "no reason given"


if __name__ == "__main__":
    name_compiler_by_version()
    keep_lines()
    serve(answer)
