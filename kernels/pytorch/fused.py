"""Operations that are one kernel on a GPU and several on a build for CPUs: RMS norms, gradients of SiLU and Mish.

Source: `rms_norm_symint` in ATen/native/layer_norm.cpp, and entries of ATen/native/native_functions.yaml that have a
kernel for CUDA beside a composite one, torch 2.11 to 2.13.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._guards import TracingContext

from .device_guard import lacking

ATEN = torch.ops.aten
WHOLE = frozenset({"_fused_rms_norm", "silu_backward", "mish_backward"})
"""torch's names of operations that are not to be taken apart, though all builds can."""
BUILT_FOR_GPU = "aten::_fused_rms_norm"


@contextmanager
def kept_whole() -> Iterator[None]:
    """Have them run as one operation each, where this torch has no kernel of them for a GPU."""
    if torch._C._dispatch_has_kernel_for_dispatch_key(BUILT_FOR_GPU, "CUDA"):
        yield
        return
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is overridden
            for name, run in (("rms_norm", _rms_norm), ("silu_backward", _silu), ("mish_backward", _mish)):
                library.impl(name, run, "CompositeImplicitAutograd", allow_override=True)
    except TypeError:
        raise lacking("torch.library.Library.impl(allow_override=True)") from None
    try:
        yield
    finally:
        library._destroy()


def _rms_norm(
    source: torch.Tensor, normalized_shape: list[int], weight: torch.Tensor | None = None, eps: float | None = None
) -> torch.Tensor:
    if _stays_whole(source) and (weight is None or weight.dtype == source.dtype):
        made: torch.Tensor = _Fused.apply(source, normalized_shape, weight, eps)
        return made
    composed: torch.Tensor = ATEN._fused_rms_norm(source, normalized_shape, weight, eps)[0]
    return composed


def _silu(gradient: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    if _stays_whole(source):
        with torch._C._AutoDispatchBelowAutograd():
            whole: torch.Tensor = ATEN.silu_backward(gradient, source)
        return whole
    share = torch.sigmoid(source)
    return gradient * share * (1 + source * (1 - share))


def _mish(gradient: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    if _stays_whole(source):
        with torch._C._AutoDispatchBelowAutograd():
            whole: torch.Tensor = ATEN.mish_backward(gradient, source)
        return whole
    bent = torch.tanh(torch.nn.functional.softplus(source))
    return gradient * (bent + source * torch.sigmoid(source) * (1 - bent * bent))


def _stays_whole(source: torch.Tensor) -> bool:
    """Whether it runs on the GPU as it is; torch's compiler takes it apart."""
    return source.device.type == "cuda" and TracingContext.try_get() is None


class _Fused(torch.autograd.Function):
    """The kernel and its gradient; called below autograd, where they are one operation each."""

    @staticmethod
    def forward(ctx: Any, source: torch.Tensor, shape: list[int], weight: torch.Tensor | None, eps: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            made, deviation = ATEN._fused_rms_norm(source, shape, weight, eps)
        ctx.save_for_backward(source, weight, deviation)
        ctx.shape = shape
        return made

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        source, weight, deviation = ctx.saved_tensors
        wanted = [ctx.needs_input_grad[0], ctx.needs_input_grad[2]]
        with torch._C._AutoDispatchBelowAutograd():
            made = ATEN._fused_rms_norm_backward(gradients[0], source, ctx.shape, deviation, weight, wanted)
        return made[0], None, made[1], None
