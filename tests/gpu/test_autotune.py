"""`tilesight.autotune` where there is a GPU: what is chosen runs and is right; nothing is measured to keep one."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_gpu, missing_package

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(missing_gpu() is not None, reason=str(missing_gpu()))]

if missing_package() is None:
    import torch
    import triton
    from tilesight.simulator.device.device import device_of_product
    from users_tuned import CONFIGS, N, double, gather, grid

    import tilesight


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """The choice is for the GPU that is here, and any warning that none is made fails."""
    product = torch.cuda.get_device_name()
    if device_of_product(product) is None:
        pytest.skip(f"{product} is not in the catalogue")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def never(*args: Any, **kwargs: Any) -> Any:
    """A benchmark that is not to be called."""
    raise AssertionError("measured")


def test_what_is_chosen_runs_and_nothing_is_measured() -> None:
    """On the first call and on the second; other blocks would run as well."""
    kernel = tilesight.autotune(CONFIGS, key=["n"], do_bench=never, budget_s=None)(double)
    x = torch.randn(N, device="cuda")
    for _ in range(2):
        y = torch.zeros_like(x)
        kernel[grid](x, y, N)
        assert torch.equal(y, x * 2)
    assert kernel.best_config in CONFIGS


@pytest.mark.parametrize("values", [None, True])
def test_rows_by_index_are_chosen_for_without_a_look_at_them_or_with_one(values: bool | None) -> None:
    """Real tensors on the GPU, also one that begins at no multiple of 16 bytes."""
    configs = [triton.Config({"BLOCK": size}) for size in (16, 32, 128)]
    kernel = tilesight.autotune(configs, key=[], do_bench=never, values=values, budget_s=None)(gather)
    x = torch.randn(1024, 64, device="cuda", dtype=torch.float16)
    ids = torch.randint(0, 1024, (2049,), device="cuda", dtype=torch.int32)[1:]
    y = torch.zeros(2048, 64, device="cuda", dtype=torch.float16)
    kernel[lambda given: (2048 // given["BLOCK"],)](x, ids, y, 64)
    assert torch.equal(y, x[ids.long()])


def test_those_that_are_kept_are_measured_by_triton() -> None:
    """Two of three, by its own benchmark."""
    hook = tilesight.prune(double, keep=2, budget_s=None)
    kernel = triton.autotune(CONFIGS, key=["n"], prune_configs_by={"early_config_prune": hook})(double)
    x = torch.randn(N, device="cuda")
    y = torch.zeros_like(x)
    kernel[grid](x, y, N)
    assert torch.equal(y, x * 2)
    assert len(kernel.configs_timings) == 2


def test_while_a_graph_is_captured_nothing_new_is_chosen() -> None:
    """What was chosen before is captured and replayed; the hook alone says why it chooses nothing."""
    kernel = tilesight.autotune(CONFIGS, key=["n"], do_bench=never, budget_s=None)(double)
    x = torch.randn(N, device="cuda")
    y = torch.zeros_like(x)
    kernel[grid](x, y, N)
    y.zero_()
    graph = torch.cuda.CUDAGraph()
    hook = tilesight.prune(double, keep=1)
    with pytest.warns(UserWarning, match="a CUDA graph is being captured"), torch.cuda.graph(graph):
        kernel[grid](x, y, N)
        assert hook(CONFIGS, {"X": x, "Y": y, "n": N}, grid=grid) == CONFIGS
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, x * 2)
