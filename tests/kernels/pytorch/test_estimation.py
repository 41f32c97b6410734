"""Times of single operations for torch's compiler: those of a profile, and none where there is no price."""

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

import tilesight


def graph() -> GraphModule:
    """A product, a GELU, a view, and the most frequent values, whose time is not known."""

    def run(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x @ w).view(-1, 1024).mode(0).values

    tensors = (torch.empty(4096, 4096, device="meta", dtype=torch.bfloat16) for _ in range(2))
    made: GraphModule = make_fx(run, tracing_mode="fake")(*tensors)
    return made


def estimated() -> dict[str, float | None]:
    """Node -> its time on an H200 [ms]."""
    estimate = tilesight.runtime_estimation("h200")
    return {node.name: estimate(node, None) for node in graph().graph.nodes if isinstance(node, Node)}


def test_a_product_takes_at_least_what_tensor_cores_take() -> None:
    """And no more than twice that, where it is large."""
    h200 = load_device("h200")
    least_ms = 2 * 4096**3 / (h200.sms * h200.wgmma_fp16_flop_per_cycle * h200.tensor_clock_hz) * 1e3
    assert least_ms <= (estimated()["mm"] or 0) <= 2 * least_ms


def test_an_operation_of_elements_takes_at_least_its_bytes() -> None:
    """Read and written once."""
    least_ms = 2 * 2 * 4096**2 / 4.8e12 * 1e3
    assert least_ms <= (estimated()["gelu"] or 0) <= 2 * least_ms


def test_what_has_no_price_is_left_to_torch() -> None:
    """Views, inputs, operations that nobody has priced, and other sizes."""
    times = estimated()
    assert [name for name, time in times.items() if time is not None] == ["mm", "gelu"]
    product = next(node for node in graph().graph.nodes if node.name == "mm")
    assert tilesight.runtime_estimation("h200")(product, 1) is None
