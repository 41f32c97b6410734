"""`F.rms_norm` as one kernel, as it is on a GPU: a build for CPUs makes eight operations of it.

Source: `rms_norm_symint` in ATen/native/layer_norm.cpp, torch 2.11 to 2.13.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._guards import TracingContext

from .device_guard import lacking

ATEN = torch.ops.aten
FUSED = "aten::_fused_rms_norm"


@contextmanager
def fused_rms_norm() -> Iterator[None]:
    """Have RMS norms run as `_fused_rms_norm` and its gradient, where this torch has no kernel of them for a GPU."""
    if torch._C._dispatch_has_kernel_for_dispatch_key(FUSED, "CUDA"):
        yield
        return
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is overridden
            library.impl("rms_norm", _rms_norm, "CompositeImplicitAutograd", allow_override=True)
    except TypeError:
        raise lacking("torch.library.Library.impl(allow_override=True)") from None
    try:
        yield
    finally:
        library._destroy()


def _rms_norm(
    source: torch.Tensor, normalized_shape: list[int], weight: torch.Tensor | None = None, eps: float | None = None
) -> torch.Tensor:
    fuses = source.device.type == "cuda" and (weight is None or weight.dtype == source.dtype)
    if fuses and TracingContext.try_get() is None:  # torch's compiler takes it apart
        made: torch.Tensor = _Fused.apply(source, normalized_shape, weight, eps)  # type: ignore[no-untyped-call]
        return made
    composed: torch.Tensor = ATEN._fused_rms_norm(source, normalized_shape, weight, eps)[0]
    return composed


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
