"""What code learns that asks torch or Triton for its GPU while launches are recorded: the target device's properties.

Libraries choose kernels, grids and tile sizes by them, so the answers must be those of the device that is predicted.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch._library.custom_ops import OPDEFS
from torch._library.fake_impl import FakeImplHolder
from torch._library.triton import set_wrap_triton_enabled
from torch._library.utils import Kernel
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from ...simulator.device.device import Device
from ...simulator.limits import WARP_THREADS
from .recorded import StorageNumbers

IS_CUDA = torch.Tensor.is_cuda.__get__
DEVICE = torch.Tensor.device.__get__
CUDA = "13.0"
"""What a torch that was built for CPUs alone is said to be built with; libraries ask whether, not with which."""


@contextmanager
def answered_for(device: Device, storages: StorageNumbers) -> Iterator[None]:
    """Have torch and Triton speak of a device as if it were there. Args: storages: what addresses are numbered by."""
    capability = tuple(int(digit) for digit in device.compute_capability.split("."))
    properties = SimpleNamespace(
        name=device.product or device.name,
        major=capability[0],
        minor=capability[1],
        multi_processor_count=device.sms,
        total_memory=device.hbm_bytes,
        warp_size=WARP_THREADS,
        max_threads_per_multi_processor=device.max_warps_per_sm * WARP_THREADS,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=device.smem_per_cta_bytes,
        shared_memory_per_multiprocessor=device.smem_per_sm_bytes,
        regs_per_multiprocessor=device.registers_per_sm,
        L2_cache_size=device.l2_bytes,
    )
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_capability": lambda *_: capability,
        "get_device_name": lambda *_: properties.name,
        "get_device_properties": lambda *_: properties,
        "synchronize": lambda *_: None,
        "current_stream": lambda *_: SimpleNamespace(cuda_stream=0),
        "device": _Device,
        "set_device": lambda *_: None,
    }
    before = driver._active
    with ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(patch.object(torch.cuda, name, answer))
        stack.enter_context(patch.object(torch._C, "_cuda_getCurrentRawStream", lambda *_: 0, create=True))
        stack.enter_context(patch.object(torch.version, "cuda", torch.version.cuda or CUDA))
        mode = _AsOnGpu(storages)
        stack.enter_context(mode)
        stack.enter_context(set_wrap_triton_enabled(False))
        _run_eagerly(stack)
        for kind, attribute, replacement in _entered_from_below(mode):
            stack.enter_context(patch.object(kind, attribute, replacement))
        driver.set_active(_driver(device, capability))
        try:
            yield
        finally:
            driver._active = before


def _run_eagerly(stack: ExitStack) -> None:
    """Have functions of `torch.compile` run as they are written, for what its compiler makes of them is not recorded.

    torch takes more than a second to load that compiler, so this waits until somebody has loaded it.
    """

    def eagerly() -> None:
        stack.enter_context(torch.compiler.set_stance("force_eager"))

    def compile_function(*args: Any, **kwargs: Any) -> Any:
        eagerly()
        return before(*args, **kwargs)

    before = torch.compile
    if "torch._dynamo" in sys.modules:
        eagerly()
    else:
        stack.enter_context(patch.object(torch, "compile", compile_function))


class _Device(nullcontext):
    """A `with` block on one of the GPUs, of which there is one."""

    idx = 0


class _AsOnGpu(TorchFunctionMode):
    """Tensors that say they are on a GPU, and where; new ones for a GPU are made without data.

    torch gives all tensors without data the same address, 0: they would be views of each other.
    """

    def __init__(self, storages: StorageNumbers) -> None:
        super().__init__()
        self._storages = storages

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if getattr(function, "__name__", "") == "__get__":
            if function == IS_CUDA:
                return True
            if function == DEVICE:
                return torch.device("cuda", 0)
        if function is torch.Tensor.to and any(_is_cuda(argument) for argument in (*args[1:], options.get("device"))):
            args = (args[0], *(argument for argument in args[1:] if not _is_cuda(argument)))
            options.pop("device", None)
            return function(*args, **options) if len(args) > 1 or options else args[0]
        if "device" in options and _is_cuda(options["device"]):
            options["device"] = "meta"
        if function is torch.Tensor.data_ptr and args[0].is_meta:
            return self._storages.address(args[0])
        if function is torch.Tensor.cuda:
            return args[0]
        return function(*(args if _is_registered(function) else _together(args)), **options)


def _entered_from_below(mode: TorchFunctionMode) -> list[tuple[Any, str, Any]]:
    """Where torch calls a user's Python without the mode, which it leaves while it works: what is to stand there.

    Those are `backward` of autograd functions, and operators that a library has registered (`torch.library`): of these
    torch would run, on tensors without data, the shapes' function alone, and no kernel would be launched.
    """

    def apply(node: Any, *args: Any) -> Any:
        with mode:
            return before(node, *args)

    def kernel(holder: Any) -> Any:
        registered = OPDEFS.get(holder.qualname)
        latest = holder.kernels[-1] if holder.kernels else None
        if registered is None or latest is None or registered._init_fn.__module__.startswith("torch."):
            return latest
        body = registered._backend_fns.get("cuda", registered._init_fn)

        def run(*args: Any, **kwargs: Any) -> Any:
            with mode:
                return body(*args, **kwargs)

        return Kernel(run, latest.source)

    before = BackwardCFunction.apply
    return [
        (BackwardCFunction, "apply", apply),
        (FakeImplHolder, "kernel", property(kernel)),
    ]


def _is_registered(function: Any) -> bool:
    """Whether it is an operator of a library: its kernels may read the values that torch's own functions do without."""
    name = getattr(function, "_qualified_op_name", "") or getattr(function, "_name", "")
    return "::" in name and not name.startswith(("aten::", "prims::"))


def _together(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of a function: where some tensors have no data, those on the CPU lose theirs, as torch mixes none."""
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    if len(tensors) < 2 or len({tensor.is_meta for tensor in tensors}) == 1:
        return args
    return tuple(
        arg.to("meta") if isinstance(arg, torch.Tensor) and arg.dim() and not arg.is_meta else arg for arg in args
    )


def _is_cuda(device: Any) -> bool:
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, str) and device.split(":")[0] == "cuda"


def _driver(device: Device, capability: tuple[int, ...]) -> Any:
    """What Triton asks for its GPU."""
    properties = {
        "max_shared_mem": device.smem_per_cta_bytes,
        "max_num_regs": device.registers_per_sm,
        "multiprocessor_count": device.sms,
        "warpSize": WARP_THREADS,
        "sm_clock_rate": int(device.boost_clock_hz / 1e3),
        "mem_clock_rate": 0,
        "mem_bus_width": 0,
    }
    return SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", 10 * capability[0] + capability[1], WARP_THREADS),
        get_current_device=lambda: 0,
        get_current_stream=lambda *_: 0,
        get_device_capability=lambda *_: capability,
        set_current_device=lambda *_: None,
        get_active_torch_device=lambda: torch.device("meta"),
        get_device_interface=lambda: torch.cuda,
        utils=SimpleNamespace(get_device_properties=lambda *_: properties),
    )
