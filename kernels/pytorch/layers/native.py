"""Layers that torch's native code makes of other operations, below all modes: written out here, so that each is seen.

Source: ATen/native/transformers (transformer.cpp, cuda/attention.cu, attention.cpp), torch 2.11 to 2.13, tensors that
are not nested. `nn.TransformerEncoderLayer` and `nn.MultiheadAttention` run them in inference.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..attention import Asked, backend_of
from ..fused import WHOLE

ATEN = torch.ops.aten
FSDP = "torch.distributed.fsdp._fully_shard._fsdp_collectives"
GATHERED = {"all_gather_copy_in": "all_gather_copy_in_cuda"}
"""Where FSDP2 writes out its operations in Python, and one that is called otherwise there."""
WARP_ROWS = 1024
"""Longest row of scores that `_masked_softmax` takes in one kernel."""


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    width: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """`_native_multi_head_attention`. Args: query, key, value: [batch, tokens, width].

    Returns:
        What attention gives, [batch, tokens, width]; its weights, where they are needed.
    """
    batch, tokens, _ = query.shape
    if query is key is value and mask is None and not need_weights and width // heads % 8 == 0:
        split = query.view(batch, -1, heads, width // heads).transpose(1, 2)
        if backend_of(torch.cuda.get_device_capability(), split, split, split, Asked())[0] != "math":
            parts = functional.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
            q, k, v = (part.view(batch, -1, heads, width // heads).transpose(1, 2) for part in parts)
            mixed = functional.scaled_dot_product_attention(q, k, v)
            return functional.linear(mixed.transpose(1, 2).reshape(batch, -1, width), out_weight, out_bias), None
    projected = _projected(query, key, value, width, qkv_weight)
    q, k, v = (query.new_empty(batch, heads, tokens, width // heads) for _ in "qkv")
    ATEN._transform_bias_rescale_qkv.out(projected, qkv_bias, heads, out0=q, out1=k, out2=v)
    q, k, v = (part.view(batch * heads, tokens, -1) for part in (q, k, v))
    scores = torch.bmm(q, k.transpose(1, 2)).view(batch, heads, tokens, -1)
    weights = scores.softmax(-1) if mask is None else _masked(scores, mask.to(torch.bool), mask_type)
    mixed = torch.bmm(weights.view(batch * heads, tokens, -1), v).view(batch, heads, tokens, -1)
    result = functional.linear(mixed.transpose(1, 2).reshape(batch, tokens, width), out_weight, out_bias)
    if not need_weights:
        return result, None
    return result, weights.sum(1).div_(heads) if average else weights


def encoder_layer(
    source: Tensor,
    width: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    gelu: bool,
    norm_first: bool,
    epsilon: float,
    weight_1: Tensor,
    bias_1: Tensor,
    weight_2: Tensor,
    bias_2: Tensor,
    up_weight: Tensor,
    up_bias: Tensor,
    down_weight: Tensor,
    down_bias: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """`_transformer_encoder_layer_fwd`. Args: source: [batch, tokens, width]. Returns: the same shape."""

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.layer_norm(x, (width,), weight, bias, epsilon)

    x = norm(source, weight_1, bias_1) if norm_first else source
    projections = (qkv_weight, qkv_bias, out_weight, out_bias)
    x, _ = multi_head_attention(x, x, x, width, heads, *projections, mask, False, True, mask_type)
    x = x.add_(source)
    x = x if norm_first else norm(x, weight_1, bias_1)
    before, x = x, norm(x, weight_2, bias_2) if norm_first else x
    wide = ATEN._addmm_activation(up_bias, x.flatten(0, 1), up_weight.t(), use_gelu=gelu)
    x = torch.addmm(down_bias, wide, down_weight.t())
    del wide  # its memory is free before the norm
    x = x.view(source.shape).add_(before)
    return x if norm_first else norm(x, weight_2, bias_2)


def _projected(query: Tensor, key: Tensor, value: Tensor, width: int, weight: Tensor) -> Tensor:
    """Q, K and V beside each other: one product of what is given twice or thrice, else products joined."""
    if query is key is value:
        return query @ weight.t()
    if key is value:
        rows, pairs = weight.split((width, 2 * width))
        return torch.cat((query @ rows.t(), key @ pairs.t()), 2)
    return torch.cat([x @ rows.t() for x, rows in zip((query, key, value), weight.chunk(3), strict=True)], 2)


def _masked(scores: Tensor, mask: Tensor, mask_type: int | None) -> Tensor:
    if scores.shape[-1] > WARP_ROWS:
        where = mask.view(mask.shape[0], 1, 1, -1) if mask_type == 1 else mask
        return scores.masked_fill(where, float("-inf")).softmax(-1)
    weights = torch.empty_like(scores)
    ATEN._masked_softmax.out(scores, mask, -1, mask_type, out=weights)
    return weights


LAYERS: Mapping[str, Callable[..., Any]] = {
    "_native_multi_head_attention": multi_head_attention,
    "_transformer_encoder_layer_fwd": encoder_layer,
    "_efficientzerotensor": torch.zeros,  # without memory, until a kernel of compiled code reads it
}
"""torch's name -> the same, written out."""


def _layer(source: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(source)


def _gru_cell(gates: Tensor, hidden_gates: Tensor, state: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    """The new state, and what its gradient needs: five numbers of each."""
    return torch.empty_like(state), state.new_empty(state.shape[0], 5 * state.shape[1])


def _lstm_cell(gates: Tensor, hidden_gates: Tensor, state: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    """What is handed on, the new state, and gates for its gradient."""
    return torch.empty_like(state), torch.empty_like(state), torch.empty_like(gates)


def _attended(query: Tensor, key: Tensor, _: Tensor, width: int, heads: int, *more: Any) -> tuple[Tensor, Tensor]:
    """Args: more: weights and biases of two products, the mask, whether weights are needed, and averaged."""
    given: list[Any] = [None, True, True]
    given[: len(more) - 4] = more[4:]
    _, needed, average, *_ = given
    weights = (len(query), *([] if average else [heads]), query.shape[1], key.shape[1]) if needed else (0,)
    return query.new_empty(*query.shape[:2], width), query.new_empty(weights)


def parts_of(function: Any) -> Callable[..., Any] | None:
    """What runs the operations that an operation of the device is made of; None: it has kernels itself.

    Modes see whole operations that torch takes apart elsewhere, where gradients are switched off for good
    (`torch.inference_mode`).
    """
    if not isinstance(function, torch._ops.OpOverload):
        return None
    if function.namespace == "fsdp":
        return getattr(import_module(FSDP), GATHERED.get(function._opname, function._opname), None)
    if function.namespace != "aten":
        return None
    if written := LAYERS.get(function._opname):
        return written
    if function._opname in WHOLE:
        return None
    composed = torch._C._dispatch_has_kernel_for_dispatch_key(function.name(), "CompositeImplicitAutograd")
    return function.decompose if composed else None


SHAPES: Mapping[str, Callable[..., Any]] = {
    "_native_multi_head_attention": _attended,
    "_transformer_encoder_layer_fwd": _layer,
    "_thnn_fused_gru_cell": _gru_cell,
    "_thnn_fused_lstm_cell": _lstm_cell,
}
"""torch's name -> what it gives, without values."""
