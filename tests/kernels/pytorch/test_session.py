"""Recording in one's own process: memory in closed form, missing hooks in one line, and nothing that stays behind."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from tilesight.simulator.refusal import UserError

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
import torch.nn.functional as F
from pytorch.steps import Model
from tilesight.kernels.pytorch import device_guard
from tilesight.kernels.pytorch.attention import Asked, backend_of
from tilesight.kernels.pytorch.live import record_live as record
from tilesight.kernels.pytorch.step import recording
from torch._subclasses import FakeTensorMode

H200 = load_device("h200")
SIZE = 1 << 20
BEFORE = torch.accelerator.current_accelerator()
"""None, or CUDA of a build that has it."""

ON_DEMAND = """
import sys
import torch
from tilesight.kernels.pytorch.step import recording
from tilesight.simulator.device.device import load_device

with recording(load_device("h200")):
    torch.nn.functional.rms_norm(torch.ones(4, 8, device="cuda"), (8,)).sum()
    torch._dynamo.config.suppress_errors = True
    assert "torch._dynamo" not in sys.modules
    assert torch._dynamo.mark_dynamic and "torch._dynamo" in sys.modules
    assert torch._dynamo.config.suppress_errors and torch._dynamo.config is sys.modules["torch._dynamo.config"]
    torch.ones(4, 8, device="cuda").sum()
"""


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    """After each test torch knows no GPU again, and the CPU works as ever."""
    yield
    assert not torch.cuda.is_available() and torch.accelerator.current_accelerator() == BEFORE
    x = torch.ones(1, 1, 4, 8, requires_grad=True)
    F.scaled_dot_product_attention(x, x, x).sum().backward()
    assert x.grad is not None and not isinstance(x.grad, torch._subclasses.FakeTensor)
    with pytest.raises((RuntimeError, AssertionError, NotImplementedError)):
        torch.empty(1, device="cuda")


def test_peak_is_what_is_alive_at_a_time() -> None:
    """A chain of in-place and other operations: three tensors at most, and two at the end."""

    def chain(x: torch.Tensor) -> torch.Tensor:
        y = x * 2  # x, y
        y = y + 1  # x, y, and the sum
        y.mul_(3)
        return y[: SIZE // 2]

    step = record(chain, (torch.empty(SIZE, device="meta"),), device=H200).step
    assert step.peak_bytes == 3 * 4 * SIZE
    assert [operation.live_bytes for operation in step.operations] == [8 * SIZE, 12 * SIZE, 8 * SIZE]
    multiplied = step.operations[-1]
    assert multiplied.inputs[0].storage == multiplied.outputs[0].storage == step.operations[1].outputs[0].storage


def test_an_operation_whose_shapes_torch_lacks_is_recorded_by_what_it_writes_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `_scaled_mm.out` of torch 2.11: it has no formula there, and torch begins to run it on the device, in vain."""
    made = FakeTensorMode._dispatch_impl

    def lacking(mode: FakeTensorMode, function: object, *rest: object) -> object:
        if function is torch.ops.aten.mm.out:
            try:
                raise NotImplementedError("no formula")
            except NotImplementedError:
                raise RuntimeError("Found no NVIDIA driver on your system")  # noqa: B904 (as torch does)
        return made(mode, function, *rest)

    def product(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, y, out=out) + 1

    monkeypatch.setattr(FakeTensorMode, "_dispatch_impl", lacking)
    recorded = record(product, tuple(torch.empty(64, 64, device="meta") for _ in range(3)), device=H200)
    assert [operation.name for operation in recorded.step.operations] == ["mm", "add"]
    assert not recorded.step.ended


def test_modules_on_meta_are_recorded_and_left_as_they_were() -> None:
    """A module without data, called and closed over, eager and compiled: its parameters stay those on meta."""
    with torch.device("meta"):
        model = Model()
    before = dict(model.named_parameters())
    ids = torch.arange(16)
    forward = record(model, (ids,), device=H200).step
    doubled = record(lambda words: model(words) * 2, (ids,), device=H200).step
    compiled = record(model, (ids,), device=H200, mode="compiled")
    names = [operation.name for operation in forward.operations]
    assert [operation.name for operation in doubled.operations] == [*names, "mul"]
    assert compiled.step.mode == "compiled" and len(compiled.calls) > 0
    assert all(dict(model.named_parameters())[name] is tensor for name, tensor in before.items())
    assert all(tensor.is_meta and tensor.grad is None for tensor in model.parameters())


TRAINED = """
import torch
from tilesight.kernels.pytorch.live import record_live as record
from tilesight.simulator.device.device import load_device
model = torch.nn.Linear(64, 64, device="meta")
if {late}:
    torch.ones(1, requires_grad=True).backward()
try:
    for mode in ("eager", "compiled"):
        step = record(model, (torch.ones(8, 64),), device=load_device("h200"), mode=mode, train=True).step
        print(mode, [operation.name for operation in step.operations if operation.phase == "backward"], step.notes)
except Exception as error:
    print(type(error).__name__, error)
"""


def test_training_is_recorded_in_a_process_that_has_not_trained_before() -> None:
    """The engine has queues for the devices that it finds when it starts: too late is one line."""

    def said(late: bool) -> list[str]:
        code = TRAINED.format(late=late)
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.splitlines()

    eager, compiled = said(late=False)
    assert eager == "eager ['mm', 'sum'] ()"
    assert compiled.startswith("compiled ['mm'") and compiled.endswith(" ()")
    (refused,) = said(late=True)
    assert refused.startswith("UserError training: this process has run a backward pass before")


def test_code_that_was_compiled_before_is_compiled_for_the_target() -> None:
    """A function of `torch.compile` from outside: one kernel, or its operations where compilation is left out."""
    function = torch.compile(lambda x: (x * 2).sin())
    names = {
        mode: [
            operation.name for operation in record(function, (torch.ones(4),), device=H200, mode=mode).step.operations
        ]
        for mode in ("auto", "eager")
    }
    assert names == {"auto": ["triton_poi_fused_mul_sin_0"], "eager": ["mul", "sin"]}


def test_known_whole_numbers_decide_shapes() -> None:
    """Routing tables that the code computes from its own numbers come out as on a GPU."""

    def route() -> torch.Tensor:
        ids = torch.arange(10, device="cuda")
        return ids[ids > 6] * 2

    assert record(route, device=H200).step.operations[-1].outputs[0].shape == (3,)


def test_attention_takes_the_back_end_of_the_target() -> None:
    """cuDNN on an H200 and flash on an A100; float32 takes the efficient kernel, an odd head dimension none, aloud."""

    def names(device: str, dtype: torch.dtype, size: int) -> tuple[list[str], tuple[str, ...]]:
        x = torch.empty(2, 4, 128, size, dtype=dtype, device="meta")
        step = record(lambda q: F.scaled_dot_product_attention(q, q, q), (x,), device=load_device(device)).step
        return [operation.name for operation in step.operations], step.notes

    assert names("h200", torch.bfloat16, 64) == (["_scaled_dot_product_cudnn_attention"], ())
    assert names("a100", torch.bfloat16, 64) == (["_scaled_dot_product_flash_attention"], ())
    assert names("h200", torch.float32, 64) == (["_scaled_dot_product_efficient_attention"], ())
    unfused, notes = names("h200", torch.float32, 33)
    assert "bmm" in unfused and notes[0].startswith("scaled_dot_product_attention takes no fused kernel (cudnn: ")
    masked = [torch.empty(2, 4, 128, 256, dtype=torch.half, device="meta")] * 3
    assert backend_of((9, 0), *masked, Asked(mask=torch.empty(128, 128, device="meta")))[0] == "cudnn"
    assert backend_of((8, 0), *masked, Asked(mask=torch.empty(128, 128, device="meta")))[0] == "efficient"
    assert backend_of((9, 0), *masked, Asked(mask=torch.empty(128, 1, device="meta").expand(128, 128)))[0] == "math"
    lone_query = [torch.empty(2, 8, length, 64, dtype=torch.half, device="meta") for length in (1, 128, 128)]
    assert [backend_of((9, 0), *lone_query, Asked(dropout=drops))[0] for drops in (False, True)] == ["cudnn", "flash"]


def test_convolutions_have_the_layouts_of_cudnn() -> None:
    """Channels together where the input or the weights have them, but never float64; so have both gradients."""

    def layouts(*formats: torch.memory_format, dtype: torch.dtype = torch.bfloat16) -> set[bool]:
        shapes = zip(((2, 16, 8, 8), (32, 16, 3, 3)), formats, strict=True)
        given = [torch.empty(shape, dtype=dtype, device="meta").to(memory_format=order) for shape, order in shapes]

        def gradients(x: torch.Tensor, weights: torch.Tensor) -> None:
            made = F.conv2d(x, weights, padding=1)
            torch.ops.aten.convolution_backward(
                made, x, weights, None, [1] * 2, [1] * 2, [1] * 2, False, [0] * 2, 1, [True, True, False]
            )

        operations = record(gradients, given, device=H200).step.operations
        assert [operation.name for operation in operations] == ["convolution", "convolution_backward"]
        return {output.strides[1] == 1 for operation in operations for output in operation.outputs}

    apart, together = torch.contiguous_format, torch.channels_last
    assert layouts(apart, apart) == {False}
    assert layouts(together, apart) == layouts(apart, together) == {True}
    assert layouts(together, together, dtype=torch.float64) == {False}


def test_an_rms_norm_is_one_kernel_as_on_a_gpu() -> None:
    """F.rms_norm is one operation, whatever torch was built for; with a weight of another type it is composed."""

    def names(dtype: torch.dtype) -> list[str]:
        given = torch.empty(8, 64, device="meta"), torch.empty(64, dtype=dtype, device="meta")
        step = record(lambda x, weight: F.rms_norm(x, (64,), weight, 1e-6), given, device=H200).step
        return [operation.name for operation in step.operations]

    assert names(torch.float32) == ["_fused_rms_norm"]
    assert "rsqrt" in names(torch.bfloat16)


def test_a_torch_without_a_hook_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is missing, Python's or C++'s, one line names torch's version and the hook."""

    def refused() -> str:
        with pytest.raises(UserError) as error, recording(H200, "compiled") as session:
            session.run(torch.neg, (torch.ones(4, device="cuda"),))
        return str(error.value)

    with monkeypatch.context() as missing:
        missing.delattr(torch.cuda, "_exchange_device")
        assert refused().startswith(f"torch {torch.__version__} lacks torch.cuda._exchange_device, which ")
    with monkeypatch.context() as missing:
        missing.delattr("torch._inductor.runtime.triton_helpers.set_driver_to_gpu")
        assert "lacks torch._inductor.runtime.triton_helpers.set_driver_to_gpu" in refused()
    with monkeypatch.context() as missing:
        missing.setattr(device_guard, "REGISTRY", "no such table")
        assert "lacks c10::impl::device_guard_impl_registry" in refused()
    device_guard.cpp_tables.cache_clear()
    with monkeypatch.context() as missing:
        names = device_guard.virtual_functions
        without = lambda *header: [name for name in names(*header) if name != "record"]  # noqa: E731
        missing.setattr(device_guard, "virtual_functions", without)
        assert "lacks functions as they are known (type, " in refused()


def test_headers_tell_the_places_of_functions() -> None:
    """A destructor takes two places, and comments none."""
    guard = device_guard.virtual_functions("c10/core/impl/DeviceGuardImplInterface.h", "DeviceGuardImplInterface")
    hooks = device_guard.virtual_functions("ATen/detail/AcceleratorHooksInterface.h", "AcceleratorHooksInterface")
    assert guard[:3] == ["type", "exchangeDevice", "getDevice"] and guard.index("block") == guard.index("record") + 1
    assert hooks[:5] == ["~AcceleratorHooksInterface"] * 2 + ["isBuilt", "isAvailable", "hasPrimaryContext"]


def test_a_step_that_compiles_nothing_loads_no_compiler() -> None:
    """Asked for more than its settings torch loads it, and it has those that were set before."""
    done = subprocess.run([sys.executable, "-c", ON_DEMAND], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
