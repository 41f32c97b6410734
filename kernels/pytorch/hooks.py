"""Makes torch report a CUDA device that is not there: every private hook of torch that this takes, and no other.

A hook is looked for before it is used: a torch that lacks one is told in one line. All is undone after the block,
but what the caches of torch's compiler keep, so that a process of its own is best.
"""

import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from ...simulator.device.device import Device
from ..capture.harness import GeneratorOnCpu
from ..capture.streams import StreamOrder
from ..capture.target_answers import CUDA, active_driver, answer_cuda, answers_of, driver_of, properties_of
from .device_guard import device_in_cpp, lacking
from .padding import padding_for

DYNAMO = "torch._dynamo"


class _Settings(ModuleType):
    """Stands for torch's compiler, which takes 2 s to load: holds its settings; whoever asks for more has it loaded."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(DYNAMO), name)


def _as_written(function: Callable[..., Any], name: str, default: Any) -> Any:
    """What torch calls in the place of a function that its compiler shall not compile: as long as there is none, it."""
    return getattr(function, name, default) or (None if DYNAMO in sys.modules else function)


@contextmanager
def compiler_on_demand() -> Iterator[None]:
    """Have fake tensors not load torch's compiler, of which they read settings, and which shall not compile them."""
    name, file = f"{DYNAMO}.config", Path(torch.__file__).parent / "_dynamo" / "config.py"
    spec = spec_from_file_location(name, file)
    if DYNAMO in sys.modules or not file.exists() or spec is None or spec.loader is None:
        yield
        return
    # The compiler, once loaded, finds the same settings here.
    sys.modules[name] = config = module_from_spec(spec)
    spec.loader.exec_module(config)
    vars(torch)["_dynamo"] = stand_in = _Settings(DYNAMO)
    vars(stand_in)["config"] = config
    try:
        with patch.object(torch._compile, "getattr", _as_written, create=True):  # a name that it looks up here first
            yield
    finally:
        if DYNAMO not in sys.modules:
            del sys.modules[name]
        if vars(torch).get("_dynamo") is stand_in:
            del vars(torch)["_dynamo"]


@contextmanager
def fake_cuda_device(device: Device, order: StreamOrder, gpus: int = 1) -> Iterator[Callable[[], None]]:
    """Have torch and Triton speak of a device as if it was there.

    Args:
        order: that follows its streams, with the notes of the recording; gpus: that there are of it.

    Yields:
        What makes torch's compiler speak of it too: it loads that compiler, which takes seconds.

    Raises:
        UserError: this torch lacks a hook; one line.
    """
    made, notes = properties_of(device), order.notes
    properties = namedtuple("Properties", vars(made))(**vars(made))  # hashable, as torch's is
    compiler_hooked = False
    with ExitStack() as stack:
        _answer(stack, device, properties, order, gpus)
        stack.enter_context(device_in_cpp())

        def hook_compiler() -> None:
            nonlocal compiler_hooked
            if not compiler_hooked:
                compiler_hooked = True
                _hook_device_interface(stack, properties)
                _hook_compiler(stack, device, notes)

        stack.enter_context(active_driver(_driver(device, properties)))
        yield hook_compiler


def hide_fakes(stack: ExitStack) -> None:
    """Have libraries that do otherwise on fake tensors, where they are loaded, do as on a GPU."""
    for name, asks in ASK_FOR_FAKES.items():
        if hasattr(sys.modules.get(name), asks):
            stack.enter_context(patch.object(sys.modules[name], asks, lambda _: False))


ASK_FOR_FAKES = {"transformers.utils.import_utils": "is_fake_tensor"}
"""Modules, and their functions that say whether a tensor is fake: masks of attention are made otherwise then."""


def replace(stack: ExitStack, path: str, value: Any, is_new: bool = False) -> Any:
    """Replace an attribute until a stack is left.

    Args:
        path: `module:name` or `module:class.name`; value: that takes its place; is_new: it may be missing.

    Returns:
        What stood there; None: nothing.

    Raises:
        UserError: there is no such attribute.
    """
    module, _, names = path.partition(":")
    *owners, name = names.split(".")
    try:
        owner = import_module(module)
        for part in owners:
            owner = getattr(owner, part)
        original = getattr(owner, name, None) if is_new else getattr(owner, name)
    except (ImportError, AttributeError):
        raise lacking(path.replace(":", ".")) from None
    stack.enter_context(patch.object(owner, name, value, create=is_new))
    return original


def _answer(stack: ExitStack, device: Device, properties: Any, order: StreamOrder, gpus: int) -> None:
    """What Python code asks of `torch.cuda`, and what fake tensors ask."""
    answers: dict[str, Any] = {
        **answers_of(device, properties, order, gpus),
        "get_rng_state": lambda *_, **__: torch.empty(16, dtype=torch.uint8),
        "set_rng_state": lambda *_, **__: None,
        "is_current_stream_capturing": lambda: False,
        "_exchange_device": lambda *_: 0,
        "_maybe_exchange_device": lambda *_: 0,
    }
    for name in answers:
        if not hasattr(torch.cuda, name):
            raise lacking(f"torch.cuda.{name}")
    answer_cuda(stack, answers)
    replace(stack, "torch:version.cuda", torch.version.cuda or CUDA)
    # Wrappers that Inductor writes import these by name, though a build for CPUs has none.
    replace(stack, "torch._C:_cuda_getCurrentRawStream", lambda *_: 0, is_new=True)
    replace(stack, "torch._C:_cuda_getDefaultStream", lambda *_: (0, 0, 1), is_new=True)
    # It is `not is_available()`, which is false here: yet there is no device to initialise.
    replace(stack, "torch._subclasses.fake_tensor:FakeTensorMode.avoid_device_init", property(lambda _: True))
    replace(stack, "torch:Generator", GeneratorOnCpu)
    # Numbers of the device are printed as what `item` gives.
    replace(stack, "torch._subclasses.fake_tensor:FakeTensor.__format__", _formatted, is_new=True)
    # A build without cuDNN, or without its GPU, answers for other libraries.
    replace(stack, "torch._C:_select_conv_backend", lambda *_, **__: None)
    replace(stack, "torch._C:_conv_determine_backend_memory_format", _convolved_as)
    # A CUDA build would make a tensor for real, so that its autograd finds a device.
    replace(stack, "torch._subclasses.fake_tensor:init_gpu_context", lambda *_: None)
    # It draws again until no number is out of range, which is not known.
    drawn: Any = None

    def truncated(tensor: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        if not isinstance(tensor, FakeTensor):
            return drawn(tensor, *args, **options)
        with torch.no_grad():
            return tensor.normal_()

    drawn = replace(stack, "torch.nn.init:_no_grad_trunc_normal_", truncated)
    # Modules of fake tensors could not be moved: something refers to these weakly.
    replace(stack, "torch.utils:weakref", SimpleNamespace(getweakrefs=lambda _: []))


def _hook_device_interface(stack: ExitStack, properties: Any) -> None:
    """What Dynamo and Inductor ask of their device."""
    interface = "torch._dynamo.device_interface:CudaInterface"
    asked: dict[str, Any] = {
        "get_compute_capability": lambda *_: 10 * properties.major + properties.minor,
        "get_device_properties": lambda *_: properties,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "is_available": lambda: True,
        "exchange_device": lambda *_: 0,
        "maybe_exchange_device": lambda *_: 0,
        "get_raw_stream": lambda *_: 0,
        "Worker.current_device": lambda: 0,
        "Worker.get_device_properties": lambda *_: properties,
    }
    for name, answer in asked.items():
        replace(stack, f"{interface}.{name}", staticmethod(answer))


def _hook_compiler(stack: ExitStack, device: Device, notes: dict[str, None]) -> None:
    """What Dynamo and Inductor do on their device while they compile."""
    # There is no generator of random numbers whose state could be kept.
    replace(stack, "torch._dynamo.utils:preserve_rng_state", nullcontext)
    # Forward and recomputation would share one, without a kernel more.
    replace(
        stack,
        "torch._functorch.partitioners:functionalize_rng_ops",
        lambda _, forward, backward, __: (forward, backward),
    )
    # Inductor's wrappers allocate in C++.
    guards = "torch._C._dynamo.guards"
    replace(stack, f"{guards}:_empty_strided_cuda", _empty_strided)
    replace(stack, f"{guards}:_reinterpret_tensor", _reinterpreted)
    # It folds constants by computing them on their device.
    folder = "torch._inductor.fx_passes.joint_graph:UniformValueConstantFolder._deduce_value"
    deduced: Any = None

    def deduce(folder: Any, node: Any) -> Any:
        with _OnCpu():
            return deduced(folder, node)

    deduced = replace(stack, folder, deduce)
    # Its pattern is traced with a generator of the device.
    replace(stack, "torch._inductor.fx_passes.misc_patterns:_misc_patterns_init", lambda *_: None)
    joint = "torch._inductor.fx_passes.joint_graph"
    if hasattr(sys.modules[joint], "_misc_patterns_init"):
        replace(stack, f"{joint}:_misc_patterns_init", lambda *_: None)
    # It times products with and without padding.
    replace(stack, "torch._inductor.fx_passes.pad_mm:_should_pad", padding_for(device, notes))
    # It looks for libcuda.
    replace(stack, "torch._inductor.runtime.triton_helpers:set_driver_to_gpu", lambda: None)
    # Constants that move to the device would be moved for real, unless the operation's result might differ each time.
    tags = torch.ops.prims.device_put.default.tags
    tags.append(torch.Tag.nondeterministic_seeded)
    stack.callback(tags.remove, torch.Tag.nondeterministic_seeded)
    config = import_module("torch._inductor.config")
    settings = {
        "compile_threads": 1,
        "fx_graph_cache": False,
        "fx_graph_remote_cache": False,
        "triton.autotune_at_compile_time": False,
        "benchmark_epilogue_fusion": True,  # what is compiled for it tells its registers, of which there are none here
        "autotune_in_subproc": False,
    }
    # What is graphed in parts lies on lines that Inductor does not tell the nodes of.
    newer = ("pipeline_max_autotune_gemm", "graph_partition")
    settings |= {name: False for name in newer if hasattr(config, name)}
    try:
        stack.enter_context(config.patch(settings))
    except AttributeError as error:
        raise lacking(f"a setting of torch._inductor.config ({error})") from None


class _OnCpu(TorchDispatchMode):
    """Tensors are made on the CPU, wherever they are asked for."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = {name: torch.device("cpu") if name == "device" else value for name, value in (kwargs or {}).items()}
        return function(*args, **options)


def _convolved_as(source: torch.Tensor, weights: torch.Tensor, _: None) -> torch.memory_format:
    """The layout of a convolution's results: cuDNN has channels last where either operand has them."""
    formats = {suggest_memory_format(tensor) for tensor in (source, weights)} - {torch.contiguous_format}
    return formats.pop() if formats and source.dtype != torch.float64 else torch.contiguous_format


def _formatted(tensor: torch.Tensor, text: str) -> str:
    return format(tensor.item(), text) if not tensor.dim() else object.__format__(tensor, text)


def _empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def _reinterpreted(tensor: torch.Tensor, size: Any, stride: Any, offset: int = 0) -> torch.Tensor:
    return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)


def _driver(device: Device, properties: Any) -> Any:
    answering = driver_of(device, (properties.major, properties.minor))
    answering.get_active_torch_device = lambda: torch.device("cuda", 0)
    answering.is_active = lambda: True
    answering.get_benchmarker = lambda: None
    return answering
