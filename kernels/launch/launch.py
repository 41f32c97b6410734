"""From torch tensors to a running kernel: argument checks, the device, and the one place that launches.

A kernel file gives, for each `Launch` of its schedule, a `TritonKernel`:
the Triton function and its arguments, all but the pointers.
The first parameters of the function are the tensors of the launch's program, one each, in that order:
a pointer, or a descriptor through which the hardware copies tiles (TMA).
So the same twin can be launched, interpreted and recorded, or compiled without a GPU.
"""

from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache, lru_cache
from inspect import signature
from typing import Any

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from ...simulator.device.device import Device, device_of_product, load_device
from ...simulator.dtypes import OPERANDS
from ...simulator.launch.program import Launch, Tensor
from ...simulator.limits import MAX_GRID
from ...simulator.problems.attention import AttentionProblem
from ...simulator.problems.problem import Problem
from ...simulator.resolve import asked_config, launches_of
from ...simulator.schedules.config import Config
from ...simulator.schedules.registry import find_schedule

TORCH_DTYPES = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8": torch.float8_e4m3fn,
    "u8": torch.uint8,
    "i8": torch.int8,
    "i32": torch.int32,
}
"""Element type -> torch's."""
OPERAND_DTYPES = {name: TORCH_DTYPES[name] for name in OPERANDS}

INTERPRETED_DEVICE = "h200"
ALIGNMENT_BYTES = 16
"""Triton compiles for aligned pointers where they are, and only then copies 16 bytes at a time [B]."""


@dataclass(frozen=True, slots=True)
class TritonKernel:
    """The Triton function of a launch and all its arguments but the tensors.

    Args:
        function: the Triton function.
        arguments: by name; None of a tensor or number that the launch does not have.
        blocks: tensor of the program -> (rows, columns) of the tiles that are copied of it,
            where the function takes a descriptor; it takes pointers to the others.
    """

    function: Any
    arguments: Mapping[str, int | float | bool | str | None]
    blocks: Mapping[str, tuple[int, int]] = field(default_factory=dict)


Twin = Callable[[Launch], TritonKernel]
"""What makes the kernel of a launch. Raises: ValueError: Triton cannot follow the launch."""


def twin_of(function: Any) -> Twin:
    """A kernel called as its launch says; what a launch does not have is the kernel's default, or None."""

    def twin(launch: Launch) -> TritonKernel:
        check_runnable(launch)
        given, parameters = launch.kernel_arguments, list(signature(function.fn).parameters.values())
        rest = parameters[len(launch.program.tensors) :]
        asked = [item.name for item in rest if item.name in given or item.default is item.empty]
        return TritonKernel(function, {name: given.get(name) for name in asked})

    return twin


@dataclass(frozen=True, slots=True, kw_only=True)
class Roundings:
    """How often the kernels of a schedule round to the element type by storing; a kernel's module says it.

    Args:
        scores: scores, or operands made of them; outputs: what becomes O, the last time included.
        output_each_key_tile: whether O is stored once more for every key tile.
    """

    scores: int = 0
    outputs: int = 1
    output_each_key_tile: bool = False


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, on the CPU (TRITON_INTERPRET=1 when triton was imported)."""
    return bool(triton.knobs.runtime.interpret)


def device_of(tensor: torch.Tensor) -> Device:
    """The catalogue's device for the GPU that holds a tensor; in the interpreter the H200.

    Raises:
        ValueError: the tensor is on no GPU, or on one that the catalogue does not have.
    """
    if interpreted():
        return load_device(INTERPRETED_DEVICE)
    if tensor.device.type != "cuda":
        raise ValueError(
            f"tensors are on {tensor.device}: the kernels need a CUDA GPU of compute capability 8.0 or newer"
        )
    return _device_of_product(torch.cuda.get_device_name(tensor.device))


@cache
def _device_of_product(product: str) -> Device:
    """Once for a product: to read the files of the catalogue takes 60 ms, and a kernel may take 20 us."""
    if name := device_of_product(product):
        return load_device(name)
    raise ValueError(f"GPU {product!r} is not in the catalogue: pass device=, a name or a path to a TOML file")


def check_tensor(name: str, tensor: torch.Tensor, axes: str) -> None:
    """See that kernels can take a tensor of the user's: type, rank, dtype, layout. Args: axes: names of the four.

    Raises:
        ValueError: they cannot; one line.
    """
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{name} is a {type(tensor).__name__}: must be a torch.Tensor")
    if tensor.dim() != 4:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: must be {axes}")
    if tensor.dtype not in OPERAND_DTYPES.values():
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in OPERAND_DTYPES.values())
        raise ValueError(f"{name} has dtype {str(tensor.dtype).removeprefix('torch.')}: must be one of {known}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name} is not contiguous: pass {name}.contiguous()")
    if tensor.data_ptr() % ALIGNMENT_BYTES:
        raise ValueError(f"{name} starts at no multiple of {ALIGNMENT_BYTES} bytes: pass {name}.clone()")


def problem_of(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **asked: Any) -> AttentionProblem:
    """The problem that three tensors pose, once they fit together.

    Args:
        q: (B, H, M, D); k, v: (B, G, N, D); contiguous, of one dtype, on one device.
        asked: the other fields of the problem; with head_dim_v v may be of another width.

    Raises:
        ValueError: a shape, dtype, device or layout that the kernels cannot take; one line.
    """
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        check_tensor(name, tensor, "(batch, heads, length, head_dim)")
        if tensor.dtype != q.dtype:
            raise ValueError(f"{name} has dtype {tensor.dtype}, q has {q.dtype}: must be the same")
        if tensor.device != q.device:
            raise ValueError(f"{name} is on {tensor.device}, q is on {q.device}: must be the same device")
    if k.shape[:-1] != v.shape[:-1] or (k.shape != v.shape and "head_dim_v" not in asked):
        raise ValueError(f"k has shape {tuple(k.shape)}, v has {tuple(v.shape)}: must be the same")
    if (k.shape[0], k.shape[3]) != (q.shape[0], q.shape[3]):
        raise ValueError(f"q has shape {tuple(q.shape)}, k has {tuple(k.shape)}: batch and head_dim must be the same")
    if k.shape[1] == 0:
        raise ValueError("k and v have no heads: must have 1 or more")
    dtype = next(name for name, value in OPERAND_DTYPES.items() if value == q.dtype)
    return AttentionProblem(
        batch=q.shape[0],
        heads=q.shape[1],
        kv_heads=k.shape[1],
        seqlen_q=q.shape[2],
        seqlen_k=k.shape[2],
        head_dim=q.shape[3],
        dtype=dtype,
        **asked,
    )


def check_sinks(sinks: torch.Tensor | None, q: torch.Tensor) -> dict[str, torch.Tensor]:
    """SINKS by name, where there are some. Raises: ValueError: they are not one fp32 number a head of q."""
    if sinks is None:
        return {}
    if sinks.shape != q.shape[1:2] or sinks.dtype != torch.float32 or sinks.device != q.device:
        raise ValueError(
            f"sinks is {tuple(sinks.shape)} {sinks.dtype} on {sinks.device}: must be ({q.shape[1]},) torch.float32 on"
            f" {q.device}, one a head"
        )
    return {"SINKS": sinks.contiguous()}


def run_all(launches: tuple[Launch, ...], twins: "Mapping[str, Twin]", tensors: dict[str, torch.Tensor]) -> None:
    """Run the launches of a pipeline one after the other.

    Args:
        twins: launch name -> what makes its kernel.
        tensors: inputs by name; what is missing is allocated and added.
    """
    place = next(iter(tensors.values())).device
    for launch in launches:
        for tensor in launch.program.tensors:
            if tensor.name not in tensors:
                tensors[tensor.name] = allocate(tensor, place)
        run(twins[launch.name](launch), launch, tensors)


def launches_for(
    schedule: str, problem: Problem, config: Config | None, device: Device | str | None, q: torch.Tensor
) -> tuple[Launch, ...]:
    """The launches that a schedule makes of a problem, on the device that holds q unless another is named.

    Raises:
        ValueError: the schedule cannot do the problem, or the kernels cannot do the configuration.
    """
    if device is None:
        device = device_of(q)
    elif not interpreted() and q.device.type != "cuda":
        raise ValueError(f"tensors are on {q.device}: the kernels need a CUDA GPU of compute capability 8.0 or newer")
    return _launches(schedule, problem, config, load_device(device) if isinstance(device, str) else device)


@lru_cache(maxsize=1024)
def _launches(schedule: str, problem: Problem, config: Config | None, device: Device) -> tuple[Launch, ...]:
    asked = asked_config(problem, find_schedule(schedule), config or Config(), device, "compiled")
    launches = launches_of(problem, schedule, asked, device)
    for launch in launches:
        check_runnable(launch)
    return launches


def check_runnable(launch: Launch) -> None:
    """Raises: ValueError: a launch that no Triton kernel can follow."""
    if launch.warp_split != "q":
        raise ValueError(
            f"warp_split = {launch.warp_split!r}: Triton splits the rows of a tile among warps; must be 'q'"
        )
    if launch.cta_count > MAX_GRID:
        raise ValueError(f"{launch.name}: {launch.cta_count} CTAs: must be at most {MAX_GRID} (2^31 - 1)")


def torch_dtype(tensor: Tensor) -> torch.dtype:
    """Element type of a tensor of a launch's program."""
    return TORCH_DTYPES[tensor.dtype.name]


def allocate(tensor: Tensor, device: torch.device) -> torch.Tensor:
    """Device memory for a tensor of a program: (slabs, rows, pitch), the padding of its rows included; with its values.

    Values are left out on the `meta` device.
    """
    shape = (tensor.slabs, tensor.rows, tensor.pitch_elements)
    if tensor.values is not None and device.type != "meta":
        return torch.frombuffer(bytearray(tensor.values), dtype=torch_dtype(tensor)).reshape(shape).to(device)
    return torch.empty(shape, dtype=torch_dtype(tensor), device=device)


def descriptor(tensor: Tensor, memory: Any, block: tuple[int, int]) -> TensorDescriptor:
    """What a kernel copies tiles of a tensor by: (slab, row, column), so that tiles are clipped at a slab's edges.

    Args:
        memory: holds the tensor; block: rows and columns of a tile.
    """
    pitch = tensor.pitch_elements
    return TensorDescriptor(
        memory, [tensor.slabs, tensor.rows, tensor.cols], [tensor.rows * pitch, pitch, 1], [1, *block]
    )


def parameter_names(twin: TritonKernel, launch: Launch) -> dict[str, str]:
    """Tensor of the program -> parameter of the kernel that stands for it."""
    tensors = launch.program.tensors
    return {tensor.name: name for tensor, name in zip(tensors, twin.function.arg_names, strict=False)}


def options_of(launch: Launch) -> dict[str, int | bool]:
    """What a launch asks of Triton's compiler; FMAs by name, since Triton 3.10 will not form them by default."""
    return {"num_warps": launch.num_warps, "num_stages": launch.num_stages, "enable_fp_fusion": True}


def arguments_of(twin: TritonKernel, launch: Launch, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    """What a kernel is called with: tensors or their descriptors, parameters, options. Args: as of `run`."""
    parameters = {
        parameter: descriptor(launch.program.tensor(name), tensors[name], twin.blocks[name])
        if name in twin.blocks
        else tensors[name]
        for name, parameter in parameter_names(twin, launch).items()
    }
    return {**parameters, **twin.arguments, **options_of(launch)}


def run(twin: TritonKernel, launch: Launch, tensors: dict[str, torch.Tensor]) -> Any:
    """Launch a kernel exactly as its `Launch` says.

    Args:
        tensors: by name of the program's tensors, all on one device.

    Returns:
        What Triton returns for a launch: the compiled kernel; None in the interpreter.

    Raises:
        ValueError: warp specialisation was asked for, and the compiler left it out.
    """
    arguments = arguments_of(twin, launch, tensors)
    place = tensors[launch.program.tensors[0].name].device
    if place.type != "cuda":
        return twin.function[launch.grid](**arguments)
    with torch.cuda.device(place):
        # In a context of its own, so that an allocator that the user has set stays.
        kernel = copy_context().run(_run_on_gpu, twin, launch, arguments)
    if reason := unspecialised(twin.arguments, launch.num_warps, kernel.metadata.num_warps):
        raise ValueError(f"{launch.name}: {reason}")
    return kernel


def _run_on_gpu(twin: TritonKernel, launch: Launch, arguments: dict[str, Any]) -> Any:
    # Asked for memory only by kernels whose CTAs write descriptors of their own.
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    return twin.function[launch.grid](**arguments)


def unspecialised(arguments: Mapping[str, Any], asked_warps: int, num_warps: int) -> str:
    """Why warp specialisation that the arguments ask for was not done, in one line; empty where all is well.

    Args:
        asked_warps: warps of a CTA as launched; num_warps: as compiled, with those that the compiler added.
    """
    if not arguments.get("warp_specialize") or num_warps > asked_warps:
        return ""
    return f"warp_specialize = 1: Triton {triton.__version__} left it out and compiled {num_warps} warps; must be 0"
