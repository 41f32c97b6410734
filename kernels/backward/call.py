"""From the tensors of a backward pass to its gradients: checks, the schedule's launches, and their outputs."""

from collections.abc import Mapping
from dataclasses import fields
from typing import NamedTuple

import torch

from ...simulator.device.device import Device
from ...simulator.launch.program import Tensor
from ...simulator.problems.attention_backward import AttentionBackwardProblem
from ...simulator.schedules.config import Config
from ..launch.launch import Twin, check_tensor, launches_for, problem_of, run_all


class Gradients(NamedTuple):
    """dQ (B, H, M, D), dK and dV (B, G, N, D)."""

    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor


def backward(
    schedule: str,
    twins: Mapping[str, Twin],
    given: dict[str, torch.Tensor],
    *,
    causal: bool,
    window: int,
    config: Config | None,
    device: Device | str | None,
) -> Gradients:
    """Gradients by the launches of a schedule.

    Args:
        twins: as of `run_all`; given: q, k, v, o, lse, do, and p where it was kept; the rest as in `flash_backward`.
    """
    problem = problem_of_backward(given, causal=causal, window=window)
    q, k, v = (given[name] for name in ("q", "k", "v"))
    tensors = {"Q": q, "K": k, "V": v, "O": given["o"], "LSE": given["lse"], "dO": given["do"]}
    if "p" in given:
        tensors["P"] = given["p"]
    launches = launches_for(schedule, problem, config, device, q)
    if "p" in given:
        check_probabilities(
            given["p"], next(x for launch in launches for x in launch.program.tensors if x.name == "P"), q
        )
    run_all(launches, twins, tensors)
    return Gradients(tensors["dQ"].view(q.shape), tensors["dK"].view(k.shape), tensors["dV"].view(v.shape))


def problem_of_backward(given: dict[str, torch.Tensor], *, causal: bool, window: int) -> AttentionBackwardProblem:
    """The problem that the tensors q, k, v, o, lse and do pose. Raises: ValueError: they do not fit together."""
    q, lse = given["q"], given["lse"]
    forward = problem_of(q, given["k"], given["v"], causal=causal, window=window)
    for name in ("o", "do"):
        check_tensor(name, given[name], "(batch, heads, length, head_dim)")
        if (given[name].shape, given[name].dtype, given[name].device) != (q.shape, q.dtype, q.device):
            raise ValueError(f"{name} is {_text(given[name])}: must be {_text(q)}, as q")
    wanted = torch.empty(q.shape[:3], dtype=torch.float32, device="meta")
    if (lse.shape, lse.dtype, lse.device) != (wanted.shape, wanted.dtype, q.device) or not lse.is_contiguous():
        raise ValueError(f"lse is {_text(lse)}: must be contiguous, float32 {tuple(wanted.shape)} on {q.device}")
    return AttentionBackwardProblem(**{item.name: getattr(forward, item.name) for item in fields(forward)})


def check_probabilities(p: torch.Tensor, tensor: Tensor, q: torch.Tensor) -> None:
    """Raises: ValueError: P is not of the shape in which the forward pass stores it. Args: tensor: of the launches."""
    shape = (tensor.slabs, tensor.rows, tensor.pitch_elements)
    if (p.shape, p.dtype, p.device) != (shape, q.dtype, q.device) or not p.is_contiguous():
        wanted = f"contiguous, {str(q.dtype).removeprefix('torch.')} {shape} on {q.device}"
        raise ValueError(f"p is {_text(p)}: must be {wanted}")


def _text(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)} on {tensor.device}"
