"""The launches of a layer under one configuration, as the engine makes them; run where launches are recorded.

A kernel is called by the names of its parameters, which vLLM and SGLang share but for a few; a plain function of the
user's is called with what it takes of `batch, experts, n, hidden, topk, topk_ids, dtype, block_shape, config`.
Source: `invoke_fused_moe_kernel` and `w8a8_block_fp8_matmul` of both engines.
"""

import inspect
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import torch
import triton.language as tl
from triton import cdiv
from triton.runtime.jit import JITFunction

from ...kernels.capture.user_function import located, module_of
from ...simulator.refusal import UserError
from .engine import ENGINES, Configuration, Engine
from .layer import Layer, Product, from_plain
from .routing import Routing, aligned, launched_rows

OFF: Mapping[str, Any] = {
    **dict.fromkeys(("b_bias_ptr", "bias_ptr", "a_desc", "b_desc", "add_mask_ptr")),
    **dict.fromkeys(("stride_bbe", "stride_bbn", "stride_bias_e", "stride_bias_n"), 0),
    **dict.fromkeys(("use_int8_w8a8", "use_int8_w8a16", "per_channel_quant", "HAS_BIAS"), False),
    **dict.fromkeys(("naive_block_assignment", "c_sorted", "filter_expert", "MASK_OUTPUT"), False),
    **dict.fromkeys(("FUSE_ADD_TO_OUTPUT", "FUSE_SUM_ALL_REDUCE", "LORA_PRESERVE_BASE"), False),
    "SPLIT_K": 1,
}  # fmt: skip
"""Parameters of what a plain layer does without."""
OPTIONS = ("num_warps", "num_stages")


def launch(
    engine: str, kernel: str, layer: Mapping[str, Any], batch: int, config: Configuration, skew: float, seed: int
) -> None:
    """Launch all products of a layer.

    Args:
        engine: name of its format; kernel: `FILE.py:NAME` or `MODULE:NAME`, empty: the installed engine's.
        layer: as `layer.plain` has it; batch: tokens; skew, seed: as `Routing`.

    Raises:
        UserError: there is no such kernel, or it has parameters that are unknown.
    """
    asked, routing = from_plain(layer), Routing(skew=skew, seed=seed)
    launched, name = _kernel_or_function(ENGINES[engine], kernel)
    if not isinstance(launched, JITFunction):
        _call(launched, name, asked, batch, config, routing)
        return
    for number, product in enumerate(asked.products(batch)):
        if asked.experts:
            values = _grouped(asked, product, batch, config, routing, last=number == 1)
            tiles = cdiv(values["EM"], config["BLOCK_SIZE_M"])
        else:
            values = _plain_product(asked, product)
            tiles = cdiv(product.rows, config["BLOCK_SIZE_M"])
        grid = (tiles * cdiv(product.n, config["BLOCK_SIZE_N"]),)
        tuned = {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M"}
        given = {**OFF, **values, **{field: config[field] for field in tuned}}
        if asked.experts and asked.block:
            given["BLOCK_SIZE_K"] = min(config["BLOCK_SIZE_K"], *asked.block)
        given["swap_ab"] = given["SWAP_AB"] = bool(asked.dtype) and _swaps(config)
        given["even_Ks"] = product.k % given["BLOCK_SIZE_K"] == 0
        launched[grid](**_bound(launched, name, given), **{option: config[option] for option in OPTIONS})


def _kernel_or_function(engine: Engine, kernel: str) -> tuple[Any, str]:
    """The kernel, or a function that launches it, and its name for people."""
    if kernel:
        file, _, name = kernel.rpartition(":")
        launched = getattr(module_of(located(file)), name, None)
        if launched is None:
            raise UserError(f"{kernel}: there is no {name} in it")
        return launched, kernel
    if find_spec(engine.package) is None:
        raise UserError(
            f"--format {engine.name}: {engine.package} is not installed here: name its kernel by FILE.py:KERNEL, "
            f"or pip install {engine.package}"
        )
    for place in engine.kernels:
        module, _, name = place.rpartition(":")
        try:
            launched = getattr(module_of(located(module)), name, None)
        except UserError:
            continue
        if launched is not None:
            return launched, place
    raise UserError(
        f"--format {engine.name}: the {engine.package} that is installed has none of {', '.join(engine.kernels)}"
    )


def _swaps(config: Configuration) -> bool:
    """Whether FP8 products are computed transposed: a low tile is then the narrow side of a wgmma, which has 64 rows.

    Source: `enable_swap_ab` of vLLM 0.33, `should_enable_swap_ab` of SGLang 0.5.23.
    """
    low = config["BLOCK_SIZE_M"] < 64 <= config["BLOCK_SIZE_N"]
    return low and torch.cuda.get_device_capability() == (9, 0)


def _call(function: Any, name: str, layer: Layer, batch: int, config: Configuration, routing: Routing) -> None:
    """Call a user's function with what it takes."""
    if not callable(function):
        raise UserError(f"{name}: is neither a kernel (@triton.jit alone) nor a function")
    offered: dict[str, Any] = {
        "batch": batch,
        "experts": layer.experts,
        "n": layer.n,
        "hidden": layer.k,
        "k": layer.k,
        "topk": layer.topk,
        "dtype": layer.dtype,
        "block_shape": list(layer.block) if layer.block else None,
        "config": dict(config),
    }
    if layer.experts:
        offered["topk_ids"] = torch.tensor(routing.experts(layer, batch).tolist(), dtype=torch.int32, device="cuda")
    parameters = inspect.signature(function).parameters
    for parameter in parameters.values():
        needed = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        )
        if needed and parameter.name not in offered:
            raise UserError(f"{name}: takes {parameter.name}, which is none of {', '.join(offered)}")
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    function(**{given: value for given, value in offered.items() if takes_all or given in parameters})


def _bound(kernel: Any, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a kernel's parameters."""
    parameters = kernel.signature.parameters
    for parameter in parameters.values():
        if parameter.default is parameter.empty and parameter.name not in given:
            raise UserError(
                f"{name}: has a parameter {parameter.name}, which this version of Tilesight does not know: give a "
                "function that launches it, FILE.py:FUNCTION"
            )
    if missing := [field for field in ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K") if field not in parameters]:
        raise UserError(f"{name}: has no parameter {missing[0]}: it is not the kernel of such files")
    return {parameter: given[parameter] for parameter in parameters if parameter in given}


def _grouped(
    layer: Layer, product: Product, batch: int, config: Configuration, routing: Routing, last: bool
) -> dict[str, Any]:
    """Arguments of a product of a mixture of experts. Args: last: whether it is weighted by the router."""
    tile = config["BLOCK_SIZE_M"]
    order = aligned(routing.experts(layer, batch), layer.experts, tile)
    tensors = _tensors(layer, product, layer.experts)
    a, b, c, a_scale, b_scale = (tensors[name] for name in ("a", "b", "c", "a_scale", "b_scale"))
    of_a, of_b = (a_scale.stride(), b_scale.stride()) if layer.block else ((0, 0), (0, 0, 0))
    strides = {
        **dict(zip(("stride_am", "stride_ak"), a.stride(), strict=True)),
        **dict(zip(("stride_be", "stride_bn", "stride_bk"), b.stride(), strict=True)),
        **dict(zip(("stride_cm", "stride_cn"), c.stride(), strict=True)),
        **dict(zip(("stride_asm", "stride_ask"), of_a, strict=True)),
        **dict(zip(("stride_bse", "stride_bsn", "stride_bsk"), of_b, strict=True)),
    }  # fmt: skip
    scaled = bool(layer.dtype)
    return {
        "a_ptr": a,
        "b_ptr": b,
        "c_ptr": c,
        "a_scale_ptr": a_scale if scaled else None,
        "b_scale_ptr": b_scale if scaled else None,
        "topk_weights_ptr": torch.empty(product.rows, dtype=torch.float32, device="cuda"),
        "sorted_token_ids_ptr": torch.from_numpy(order.rows).cuda(),
        "expert_ids_ptr": torch.from_numpy(order.experts).cuda(),
        "num_tokens_post_padded_ptr": torch.tensor([order.padded], dtype=torch.int32, device="cuda"),
        "N": product.n,
        "K": product.k,
        "EM": launched_rows(order, product, tile),
        "num_valid_tokens": product.rows,
        **strides,
        "group_n": layer.block[0] if layer.block else 0,
        "group_k": layer.block[1] if layer.block else 0,
        "MUL_ROUTED_WEIGHT": last,
        "top_k": product.top,
        "ROUTER_TOPK": layer.topk,
        "compute_type": tl.bfloat16,
        "use_fp8_w8a8": scaled,
    }


def _plain_product(layer: Layer, product: Product) -> dict[str, Any]:
    """Arguments of a single product with scales of blocks."""
    assert layer.block
    tensors = _tensors(layer, product, 0)
    a, b, c, a_scale, b_scale = (tensors[name] for name in ("a", "b", "c", "a_scale", "b_scale"))
    return {
        "A": a,
        "B": b,
        "C": c,
        "As": a_scale,
        "Bs": b_scale,
        "M": product.rows,
        "N": product.n,
        "K": product.k,
        "group_n": layer.block[0],
        "group_k": layer.block[1],
        **dict(zip(("stride_am", "stride_ak"), a.stride(), strict=True)),
        **dict(zip(("stride_bn", "stride_bk"), b.stride(), strict=True)),
        **dict(zip(("stride_cm", "stride_cn"), c.stride(), strict=True)),
        **dict(zip(("stride_As_m", "stride_As_k"), a_scale.stride(), strict=True)),
        **dict(zip(("stride_Bs_n", "stride_Bs_k"), b_scale.stride(), strict=True)),
    }


def _tensors(layer: Layer, product: Product, experts: int) -> dict[str, torch.Tensor]:
    """Tensors of a product, without data. Args: experts: whose weights lie behind each other; 0: there are none."""
    weights = torch.float8_e4m3fn if layer.dtype else torch.bfloat16
    behind = (experts,) if experts else ()
    n, k = layer.block or (1, 1)
    scales_a = (product.rows // product.top, cdiv(product.k, k)) if layer.block else (1,)
    scales_b = (cdiv(product.n, n), cdiv(product.k, k)) if layer.block else ()
    return {
        "a": torch.empty(product.rows // product.top, product.k, dtype=weights, device="cuda"),
        "b": torch.empty(*behind, product.n, product.k, dtype=weights, device="cuda"),
        "c": torch.empty(product.rows, product.n, dtype=torch.bfloat16, device="cuda"),
        "a_scale": torch.empty(scales_a, dtype=torch.float32, device="cuda"),
        "b_scale": torch.empty(behind + scales_b, dtype=torch.float32, device="cuda"),
    }
