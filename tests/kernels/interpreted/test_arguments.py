"""Bad input is answered with one line that says what is wrong and what is allowed."""

import dataclasses
from typing import Any

import pytest
import torch
from kernels.interpreted.inputs import draw
from tilesight.kernels.compile.compile import compile_many
from tilesight.kernels.flash2 import flash2
from tilesight.kernels.launch.launch import check_runnable, launches_for
from tilesight.kernels.launch.registry import find_twin, twinned
from tilesight.kernels.naive import naive
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule

PROBLEM = AttentionProblem(batch=1, heads=2, seqlen_q=32, seqlen_k=48, head_dim=32)
Q, K, V = draw(PROBLEM)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"q": [1.0]}, "q is a list: must be a torch.Tensor"),
        ({"k": K[0]}, "k has shape (2, 48, 32): must be (batch, heads, length, head_dim)"),
        ({"q": Q.double()}, "q has dtype float64: must be one of float32, float16, bfloat16"),
        ({"v": V.float()}, "v has dtype torch.float32, q has torch.float16: must be the same"),
        ({"k": K.transpose(2, 3).contiguous().transpose(2, 3)}, "k is not contiguous: pass k.contiguous()"),
        ({"v": V[:, :, 1:].contiguous()}, "k has shape (1, 2, 48, 32), v has (1, 2, 47, 32): must be the same"),
        ({"q": Q[:, :, :, :16].contiguous()}, "batch and head_dim must be the same"),
        ({"k": K.to("meta")}, "k is on meta, q is on cpu: must be the same device"),
        ({"q": torch.empty(Q.numel() + 1, dtype=Q.dtype)[1:].view(Q.shape)}, "q starts at no multiple of 16 bytes"),
        ({"q": Q.repeat(1, 2, 1, 1)[:, :3].contiguous()}, "kv_heads = 2: must divide heads = 3"),
        ({"q": Q[:, :, :0].contiguous()}, "seqlen_q = 0: must be an integer of 1 or more"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(changed: dict[str, Any], text: str) -> None:
    """Type, rank, dtype, layout, shape, device, alignment, heads, emptiness."""
    tensors = {"q": Q, "k": K, "v": V} | changed
    with pytest.raises(ValueError) as caught:
        flash2(**tensors)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_head_dim_that_no_kernel_takes_is_refused() -> None:
    """D = 20 is no multiple of 8."""
    q, k, v = (x[..., :20].contiguous() for x in (Q, K, V))
    with pytest.raises(ValueError, match="head_dim = 20: must be a multiple of 8 from 16 to 512"):
        naive(q, k, v)


def test_warps_that_split_keys_are_refused() -> None:
    """The simulator can model it, Triton cannot do it."""
    with pytest.raises(ValueError, match="warp_split = 'k': Triton splits the rows"):
        flash2(Q, K, V, config=Config(warp_split="k"))


def test_a_grid_beyond_the_hardware_is_refused() -> None:
    """2^31 - 1 CTAs along x."""
    (launch,) = launches_for("flash2", PROBLEM, None, None, Q)
    with pytest.raises(ValueError, match="must be at most 2147483647"):
        check_runnable(dataclasses.replace(launch, grid=(1 << 31, 1, 1)))


def test_every_schedule_has_kernels() -> None:
    """What is simulated can be run."""
    assert set(twinned()) >= {"flash1", "flash2", "naive", "unfused"}


def test_a_launch_without_kernel_is_refused() -> None:
    """By name, with those that there are."""
    (launch,) = launches_for("flash2", PROBLEM, None, None, Q)
    with pytest.raises(ValueError, match=r"launch 'flash9' has no kernel; those that have one are .*flash2"):
        find_twin(dataclasses.replace(launch, name="flash9"))


def test_an_interpreted_process_does_not_compile() -> None:
    """Both modes cannot share a process."""
    (launch,) = find_schedule("flash2").launches(PROBLEM, Config(), load_device("h200"))
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET is set"):
        compile_many([launch], load_device("h200"))
