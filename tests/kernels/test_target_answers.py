"""What code is told that asks torch or Triton for its GPU: published figures, on which autotuners decide."""

from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package

import tilesight

if missing_package() is None:
    import torch
    import triton
    from triton.runtime.driver import driver

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))
KIB, MIB = 1 << 10, 1 << 20
PUBLISHED: dict[str, dict[str, Any]] = {
    "h100-sxm": {
        "major": 9,
        "minor": 0,
        "multi_processor_count": 132,
        "warp_size": 32,
        "max_threads_per_multi_processor": 2048,
        "shared_memory_per_block": 48 * KIB,
        "shared_memory_per_block_optin": 227 * KIB,
        "shared_memory_per_multiprocessor": 228 * KIB,
        "regs_per_multiprocessor": 64 * KIB,
        "L2_cache_size": 50 * MIB,
    },
    "a100-sxm-80gb": {
        "major": 8,
        "minor": 0,
        "multi_processor_count": 108,
        "warp_size": 32,
        "max_threads_per_multi_processor": 2048,
        "shared_memory_per_block": 48 * KIB,
        "shared_memory_per_block_optin": 163 * KIB,
        "shared_memory_per_multiprocessor": 164 * KIB,
        "regs_per_multiprocessor": 64 * KIB,
        "L2_cache_size": 40 * MIB,
    },
    "l40s": {
        "major": 8,
        "minor": 9,
        "multi_processor_count": 142,
        "warp_size": 32,
        "max_threads_per_multi_processor": 1536,
        "shared_memory_per_block": 48 * KIB,
        "shared_memory_per_block_optin": 99 * KIB,
        "shared_memory_per_multiprocessor": 100 * KIB,
        "regs_per_multiprocessor": 64 * KIB,
        "L2_cache_size": 96 * MIB,
    },
}
"""CUDA C++ Programming Guide, technical specifications by compute capability; NVIDIA's whitepapers."""


@pytest.mark.parametrize("device", PUBLISHED)
def test_torch_tells_what_is_published_of_a_gpu(device: str) -> None:
    """An autotuner would drop configurations that fit, or keep those that do not."""
    with tilesight.capture(device):
        properties = torch.cuda.get_device_properties(0)
        assert torch.cuda.get_device_capability() == (properties.major, properties.minor)
    published = PUBLISHED[device]
    assert {name: getattr(properties, name) for name in published} == published


def test_torch_tells_of_an_accelerator() -> None:
    """Where it was built for CPUs, too: code that asks by that name would launch as many CTAs as there are cores."""
    before = torch.accelerator.current_accelerator()
    with tilesight.capture("h200"):
        accelerator = torch.accelerator.current_accelerator()
        assert accelerator is not None and accelerator.type == "cuda"
        assert torch.accelerator.is_available() and torch.accelerator.device_count() == 1
        assert torch.empty(4, device=accelerator).device.type == torch.empty(4, device="cuda").device.type
        torch.accelerator.synchronize()
    assert torch.accelerator.current_accelerator() == before


def test_code_asks_for_the_part_of_torch_that_serves_its_gpu() -> None:
    """By no name, on a torch for CPUs, too; and `with` blocks of a tensor's GPU hold nothing up."""
    with tilesight.capture("h200"):
        x = torch.empty(4, device="cuda")
        assert torch.get_device_module() is torch.get_device_module("cuda") is torch.cuda
        with torch.cuda.device_of(x), torch.accelerator.device_index(0):
            assert torch.get_device_module().current_device() == 0


@pytest.mark.parametrize("device", PUBLISHED)
def test_triton_tells_the_same_limits(device: str) -> None:
    """By its own names: shared memory is what a CTA may opt in to, as Triton's kernels do."""
    published = PUBLISHED[device]
    with tilesight.capture(device):
        properties = driver.active.utils.get_device_properties(driver.active.get_current_device())
        target = triton.runtime.driver.active.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("cuda", 10 * published["major"] + published["minor"], 32)
    assert properties["max_shared_mem"] == published["shared_memory_per_block_optin"]
    assert properties["max_num_regs"] == published["regs_per_multiprocessor"]
    assert properties["multiprocessor_count"] == published["multi_processor_count"]
    assert properties["warpSize"] == published["warp_size"]
