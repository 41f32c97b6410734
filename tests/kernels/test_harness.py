"""Code around launches, as public files end in, does not end a recording, and launches once."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package

import tilesight

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
import triton
import triton.language as tl
from tilesight.kernels.capture.on_gpu import NO_DATA
from triton.testing import do_bench


@triton.jit
def square(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + i, mask=i < n)
    tl.store(Y + i, x * x, mask=i < n)


def call(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    square[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y


def on_gpu() -> torch.Tensor:
    return torch.randn(4096, 4096, device="cuda")


def bench() -> None:
    x = on_gpu()
    assert 1e-9 / (do_bench(lambda: call(x)) * 1e-3) != 0


def quantiles() -> None:
    x = on_gpu()
    _, _, _ = triton.testing.do_bench_cudagraph(lambda: call(x), quantiles=[0.5, 0.2, 0.8])


def events() -> None:
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.nvtx.range("square"):
        a.record()
        call(on_gpu())
        b.record(torch.cuda.current_stream())
    torch.cuda.synchronize()
    print(f"{a.elapsed_time(b):.3f} ms")


def checked() -> None:
    x = on_gpu()
    y = call(x)
    torch.testing.assert_close(y, x * x)
    triton.testing.assert_close(y, x * x)
    assert torch.allclose(y, x * x) and y.allclose(x) and torch.equal(y, x)


def printed() -> None:
    y = call(on_gpu())
    print(y, f"{y.max():.3f}", y.abs().max().item(), y.mean().cpu().item())


@pytest.mark.parametrize("ends", [bench, quantiles, events, checked, printed])
def test_code_around_a_launch_does_not_end_it(ends: Callable[[], None]) -> None:
    """The launch is recorded once, and a note says that times and comparisons mean nothing."""
    with tilesight.capture() as launches:
        ends()
    assert [launch.name for launch in launches] == ["square"]
    assert list(launches.notes) == [NO_DATA]


def test_a_comparison_of_values_that_are_known_is_made() -> None:
    """Only those without data pass."""
    with tilesight.capture() as launches:
        ids = torch.arange(4, device="cuda")
        assert torch.equal(ids, ids) and not torch.equal(ids, ids + 1)
        with pytest.raises(AssertionError):
            torch.testing.assert_close(ids, ids + 1)
    assert not launches.notes


def test_benchmarks_are_themselves_again_after_a_recording() -> None:
    """Under the name that they were imported by."""
    code = do_bench.__code__
    with tilesight.capture():
        assert do_bench.__code__ is not code
    assert do_bench.__code__ is code


def test_usual_lines_about_the_gpu_are_answered() -> None:
    """Seeds, memory, default devices; nothing is left behind."""
    with tilesight.capture("h100"):
        torch.manual_seed(0)
        torch.cuda.manual_seed_all(0)
        torch.cuda.empty_cache()
        assert torch.cuda.max_memory_allocated() == 0 and torch.cuda.mem_get_info()[1] > 70e9
        assert torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count == 132
        torch.set_default_device("cuda")
        assert torch.zeros(4).is_cuda and torch.arange(4).tolist() == [0, 1, 2, 3]
        torch.set_default_device(None)
        with torch.device("cuda"):
            assert torch.empty(1 << 40).device == torch.device("cuda", 0)
        with torch.cuda._DeviceGuard(0):  # as code that torch's compiler writes
            assert not torch.cuda.current_stream().is_capturing()
        assert not torch.equal(torch.zeros((), device="cuda"), torch.ones((), device="cuda"))
        assert "device='meta'" in f"{torch.empty_like(torch.zeros(4, device='cuda'))}"
    assert torch.zeros(4).device.type == "cpu"


def test_seeds_are_set_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.cuda's own modules count the GPUs of the machine, whose generators nobody has made yet."""

    def there() -> int:
        return 8

    for name, module in list(sys.modules.items()):
        if name.startswith("torch.cuda") and hasattr(module, "device_count"):
            monkeypatch.setattr(module, "device_count", there)
    with tilesight.capture():
        torch.manual_seed(0)
        torch.cuda.manual_seed(1)
        assert torch.cuda.random.device_count is not there
        for name in ("device_count", "_lazy_init", "current_device"):
            assert getattr(torch.cuda.random, name) is getattr(torch.cuda, name)
        torch.cuda.random.manual_seed_all(2)
        torch.cuda.get_rng_state()


def test_graphs_are_refused_in_one_line() -> None:
    """They would launch again what was recorded once."""
    with tilesight.capture(), pytest.raises(RuntimeError, match="CUDA graphs are not recorded"):
        torch.cuda.CUDAGraph()


def test_code_that_is_compiled_is_run_as_written_and_says_so() -> None:
    """Its compiler would make other kernels of it."""
    with tilesight.capture() as launches:
        x = torch.empty(8192, 1024, device="cuda", dtype=torch.bfloat16)
        torch.compile(lambda x: torch.nn.functional.gelu(x + 1))(x)
    assert [note.partition(":")[0] for note in launches.notes] == ["torch.compile is bypassed"]
    operations = {operation.name: operation for operation in launches.operations}
    assert set(operations) == {"add", "gelu"}
    assert operations["gelu"].bytes == 2 * 2 * 8192 * 1024 and operations["gelu"].count == 1


def test_operations_of_torch_are_counted_with_their_flop_and_bytes() -> None:
    """Matrix products and attention as one kernel each; views and allocations are none, nor what makes the inputs."""
    with tilesight.capture() as launches:
        x, w = torch.randn(2048, 4096, device="cuda"), torch.zeros(512, 4096, device="cuda")
        q = torch.empty(2, 8, 1024, 64, device="cuda", dtype=torch.float16)
        for _ in range(3):
            call((x @ w.t()).view(-1)[:1024])
        k = q[:, :4]
        torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True)
        torch.zeros(64, device="cuda")
    counted = {operation.name: operation for operation in launches.operations}
    assert set(counted) == {"matmul", "scaled_dot_product_attention", "zeros"}
    product = counted["matmul"]
    assert (product.count, product.flop) == (3, 3 * 2 * 2048 * 4096 * 512)
    assert product.bytes == 3 * 4 * (2048 * 4096 + 512 * 4096 + 2048 * 512)
    attention = counted["scaled_dot_product_attention"]
    assert attention.flop == 2 * 2 * 2 * 8 * 1024 * 1024 * 64
    assert attention.bytes == 2 * (2 * 2 * 8 + 2 * 4) * 1024 * 64


def test_the_state_of_the_gpus_generator_is_a_seed_and_an_offset() -> None:
    """Libraries hand both to kernels that draw, and move the offset on by as many as these take."""
    with tilesight.capture():
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        generator.manual_seed(7)
        state = generator.get_state()
        seed, offset = state.view(torch.int64)
        assert (int(seed), int(offset)) == (7, 0)
        offset += 12
        generator.set_state(state)
        assert generator.get_state().view(torch.int64).tolist() == [7, 12]


def test_autotuners_of_libraries_measure_each_configuration_once() -> None:
    """Subclasses of Triton's that run on their own ask the driver for its benchmark, as `Autotuner._bench` does."""

    class Library(triton.runtime.Autotuner):
        def run(self, *args: Any, **kwargs: Any) -> Any:
            self.nargs = dict(zip(self.arg_names, args, strict=False))
            timings = {config: self._bench(*args, config=config, **kwargs) for config in self.configs}
            best = min(timings, key=lambda config: timings[config])
            return self.fn.run(*args, **kwargs, **best.all_kwargs())

    configs = [triton.Config({"BLOCK": block}) for block in (256, 1024)]
    with tilesight.capture() as launches:
        x = torch.empty(4096, device="cuda")
        kernel = Library(square, square.arg_names, configs, ["n"], None, None)
        kernel[lambda meta: (4096 // meta["BLOCK"],)](x, torch.empty_like(x), 4096)
    assert [launch.grid[0] for launch in launches] == [16, 4, 16]
