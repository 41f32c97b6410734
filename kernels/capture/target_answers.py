"""What code learns that asks torch or Triton for its GPU while launches are recorded: the target device's properties.

Libraries choose kernels, grids and tile sizes by them, so the answers must be those of the device that is predicted.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch._library.triton import set_wrap_triton_enabled
from triton import testing
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from ...simulator.device.device import Device
from ...simulator.limits import MAX_CTA_THREADS, WARP_THREADS, WORD_BYTES
from ..compile.kernel_info import read_cubin
from .harness import harness_code
from .on_gpu import OnGpu, on_gpu
from .streams import StreamOrder, stand_ins

CUDA = "13.0"
"""What a torch that was built for CPUs alone is said to be built with; libraries ask whether, not with which."""


BYPASSED = (
    "torch.compile is bypassed: the function runs as written; kernels that its compiler would make are not predicted"
)


@contextmanager
def fake_target(device: Device, mode: OnGpu) -> Iterator[None]:
    """Have torch and Triton speak of a device as if it were there. Args: mode: what tensors are told by."""
    properties = properties_of(device)
    capability = properties.major, properties.minor
    answers = answers_of(device, properties, StreamOrder(mode.notes))
    with ExitStack() as stack:
        answer_cuda(stack, answers)
        _answer_accelerator(stack, answers)
        stack.enter_context(patch.object(torch._C, "_cuda_getCurrentRawStream", lambda *_: 0, create=True))
        stack.enter_context(patch.object(torch.version, "cuda", torch.version.cuda or CUDA))
        stack.enter_context(on_gpu(mode))
        stack.enter_context(harness_code(mode))
        stack.enter_context(set_wrap_triton_enabled(False))
        _run_eagerly(stack, mode.notes)
        stack.enter_context(active_driver(driver_of(device, capability)))
        yield


@contextmanager
def active_driver(made: Any) -> Iterator[None]:
    """Have Triton ask a driver that is made up for its GPU."""
    active = "_active" if hasattr(driver, "_active") else "active"  # Triton 3.4
    before = getattr(driver, active)
    driver.set_active(made)
    try:
        yield
    finally:
        setattr(driver, active, before)


def properties_of(device: Device) -> Any:
    """What torch calls the properties of a device."""
    capability = tuple(int(digit) for digit in device.compute_capability.split("."))
    return SimpleNamespace(
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
        max_threads_per_block=MAX_CTA_THREADS,
        gcnArchName="",
    )


def answers_of(device: Device, properties: Any, order: StreamOrder, gpus: int = 1) -> dict[str, Any]:
    """What `torch.cuda` answers, by name. Args: properties: of the device; order: of streams; gpus: that there are."""
    capability = properties.major, properties.minor
    return stand_ins(order) | {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *_, **__: True,
        "device_count": lambda: gpus,
        "current_device": lambda: 0,
        "get_device_capability": lambda *_, **__: capability,
        "get_device_name": lambda *_, **__: properties.name,
        "get_device_properties": lambda *_, **__: properties,
        "get_arch_list": lambda: [f"sm_{capability[0]}{capability[1]}"],
        "mem_get_info": lambda *_, **__: (device.hbm_bytes, device.hbm_bytes),
    }


def answer_cuda(stack: ExitStack, answers: dict[str, Any]) -> None:
    """Have `torch.cuda` give some answers, and its own modules, which have taken names from it."""
    modules = [module for name, module in sys.modules.items() if name.startswith("torch.cuda.")]
    for name, answer in answers.items():
        original = getattr(torch.cuda, name, None)
        stack.enter_context(patch.object(torch.cuda, name, answer, create=True))
        for module in modules:
            if original is not None and vars(module).get(name) is original:
                stack.enter_context(patch.object(module, name, answer))


def _answer_accelerator(stack: ExitStack, answers: dict[str, Any]) -> None:
    """Have `torch.accelerator` answer as `torch.cuda` does. Args: answers: of `torch.cuda`, by name."""
    here: dict[str, Any] = answers | {
        "current_accelerator": lambda *_, **__: torch.device("cuda"),
        "current_device_index": answers["current_device"],
        "current_device_idx": answers["current_device"],
        "set_device_index": answers["set_device"],
        "set_device_idx": answers["set_device"],
        "device_index": answers["device"],
        "get_memory_info": answers["mem_get_info"],
    }
    here.pop("get_device_capability")  # which types it has, there
    stack.enter_context(patch.object(torch, "get_device_module", _device_module))
    for name in here.keys() & set(torch.accelerator.__all__):
        stack.enter_context(patch.object(torch.accelerator, name, here[name]))


def _device_module(device: Any = None) -> Any:
    """The part of torch for a kind of device, the target's where none is named."""
    return getattr(torch, torch.device("cuda" if device is None else device).type)


def _run_eagerly(stack: ExitStack, notes: dict[str, None]) -> None:
    """Have functions of `torch.compile` run as they are written, for what its compiler makes of them is not recorded.

    torch takes more than a second to load that compiler, so this waits until somebody has loaded it.
    """
    loaded = "torch._dynamo" in sys.modules

    def eagerly() -> None:
        stack.enter_context(torch.compiler.set_stance("force_eager"))

    def compile_function(*args: Any, **kwargs: Any) -> Any:
        nonlocal loaded
        if not loaded:
            loaded = True
            eagerly()
        notes[BYPASSED] = None
        return before(*args, **kwargs)

    before = torch.compile
    if loaded:
        eagerly()
    stack.enter_context(patch.object(torch, "compile", compile_function))


def driver_of(device: Device, capability: tuple[int, ...]) -> Any:
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
        get_benchmarker=lambda: testing.do_bench,
        launcher_cls=lambda *_: None,
        utils=SimpleNamespace(get_device_properties=lambda *_: properties, load_binary=_loaded),
    )


def _loaded(name: str, cubin: bytes, *_: Any) -> tuple[Any, ...]:
    """What the driver says of a kernel: module, function, registers and spilled words of a thread, and most threads."""
    info = read_cubin(cubin)[name]
    return name, name, info.registers, info.frame_bytes // WORD_BYTES, MAX_CTA_THREADS
