"""Which back end `scaled_dot_product_attention` takes on the target: a build for CPUs always takes `math`.

Source: `select_sdp_backend` and its checks in ATen/native/transformers/cuda/sdp_utils.cpp, torch 2.11 to 2.13 with
cuDNN 9.15 or newer; attention of dense tensors.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import pad

from .device_guard import lacking

ATEN = torch.ops.aten
HALF = (torch.float16, torch.bfloat16)
CUDNN_FIRST = ((9, 0), (10, 0))
"""Compute capabilities on which cuDNN is asked first."""


@contextmanager
def attention_of(capability: tuple[int, int], note: Callable[[str], None]) -> Iterator[None]:
    """Have attention take the target's back end. Args: note: is told of attention that no fused kernel takes."""

    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        backend = "math"
        reasons: Mapping[str, str] = {}
        if query.device.type == "cuda":
            asked = Asked(mask=attn_mask, causal=is_causal, dropout=dropout_p > 0.0)
            backend, reasons = backend_of(capability, query, key, value, asked)
        if reasons and backend == "math":
            why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
            note(f"scaled_dot_product_attention takes no fused kernel ({why})")
        if backend != "math" and attn_mask is not None and attn_mask.dtype == torch.bool:
            kept, hidden = (torch.full((), value, dtype=query.dtype, device=query.device) for value in (0.0, -math.inf))
            attn_mask = torch.where(attn_mask, kept, hidden)
        keeps = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
        given = (query, key, value)
        if backend == "cudnn":
            call = ATEN._scaled_dot_product_cudnn_attention
            return call(*given, attn_mask, keeps, dropout_p, is_causal, False, scale=scale)[0]
        if backend == "flash":
            size, over = query.shape[-1], -query.shape[-1] % 8
            if over:
                given, scale = tuple(pad(tensor, (0, over)) for tensor in given), scale or size**-0.5
            call = ATEN._scaled_dot_product_flash_attention
            return call(*given, dropout_p, is_causal, False, scale=scale)[0][..., :size]
        if backend == "efficient":
            call = ATEN._scaled_dot_product_efficient_attention
            return call(*given, attn_mask, keeps, dropout_p, is_causal, scale=scale)[0]
        call = ATEN._scaled_dot_product_attention_math
        return call(*given, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)[0]

    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a kernel is overridden
            library.impl("scaled_dot_product_attention", attention, "CompositeImplicitAutograd", allow_override=True)
    except TypeError:
        raise lacking("torch.library.Library.impl(allow_override=True)") from None
    try:
        yield
    finally:
        library._destroy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What attention is asked for beside its tensors."""

    mask: Any = None
    causal: bool = False
    dropout: bool = False


def backend_of(
    capability: tuple[int, int], query: Any, key: Any, value: Any, asked: Asked
) -> tuple[str, Mapping[str, str]]:
    """`cudnn`, `flash`, `efficient` or `math`, and why those before it were passed over."""
    reasons: dict[str, str] = {}
    order = ("cudnn", "flash", "efficient") if capability in CUDNN_FIRST else ("flash", "efficient", "cudnn")
    for backend in order:
        reason = _against(backend, capability, query, key, value, asked)
        if not reason:
            return backend, reasons
        reasons[backend] = reason
    return "math", reasons


def _against(backend: str, capability: tuple[int, int], query: Any, key: Any, value: Any, asked: Asked) -> str:
    """Why a back end does not take it; empty: it does."""
    switches = torch.backends.cuda
    enabled = {
        "cudnn": switches.cudnn_sdp_enabled,
        "flash": switches.flash_sdp_enabled,
        "efficient": switches.mem_efficient_sdp_enabled,
    }
    size, size_v = int(query.shape[-1]), int(value.shape[-1])
    half = query.dtype in HALF
    if not enabled[backend]():
        return "switched off"
    if query.dim() != 4:
        return f"{query.dim()} dimensions"
    if asked.mask is not None and asked.mask.stride(-1) != 1:
        return f"a mask whose last dimension has stride {asked.mask.stride(-1)}, as an expanded one has"
    if any(tensor.stride(-1) != 1 and tensor.shape[-1] != 1 for tensor in (query, key, value)):
        return "a last dimension whose stride is not 1"
    if backend == "efficient":
        multiple = 8 if half else 4
        if not (half or query.dtype == torch.float32) or size % multiple or size_v % multiple:
            return f"{query.dtype}, head dimension {size}"
        return ""
    if not half or capability < (8, 0):
        return f"{query.dtype}"
    if backend == "cudnn":
        most = 256 if capability == (9, 0) else 128
        if max(size, size_v) > most or size % 8 or size_v % 8:
            return f"head dimension {size}"
        if int(query.shape[-2]) == 1 and asked.dropout:
            return "dropout of one query"
        if asked.mask is not None and asked.mask.requires_grad:
            return "a mask that has a gradient"
        return "one key" if int(key.shape[-2]) == 1 else ""
    if asked.mask is not None:
        return "a mask"
    if size > 256 or size != size_v:
        return f"head dimensions {size} and {size_v}"
    return "causal, not square" if asked.causal and query.shape[-2] != key.shape[-2] else ""
