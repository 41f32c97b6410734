"""The oracle: attention and row softmax written out, in fp64 for the truth, in the working precision for the tolerance.

A kernel is right if its error against fp64 is at most twice that of the same computation done plainly
in the kernel's own precision, plus a floor of units in the last place:

- of the output, which is rounded to its dtype;
- of the scores, held in fp32 (in the dtype where a pipeline stores them): a score s is off by eps * |s|,
  and so, relatively, is its share of O. The plain computation has that error too, but may be lucky on a few large ones.

Nothing is tuned.

In fp8, P is rounded to e4m3 before it is divided by its row's sum, times 2^8 over the row's largest:
its share of O would underflow otherwise. O is bf16.
Hopper's tensor cores keep fewer bits than fp32 of sums of fp8 products (`FP8_SUM_EPS`); a processor does not.

Beyond twice the plain computation's error, a row of a softmax may be off by one rounding of its output,
and by the roundings that a kernel of its blocks makes in fp32: those of its sum, and, without a maximum,
those of exponents that are large themselves.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from ..simulator.problems.mask import Mask
from ..simulator.problems.pattern import pattern_of

LSE_ULPS = 8
"""Roundings of an LSE beyond the reference's: scale, product, exponential, logarithm, sum and change of base."""
TF32_DROPPED_BITS = 13
FP8 = torch.float8_e4m3fn
FP8_LARGEST_P = 256.0
"""What the largest of a row of P is rounded as; e4m3 ends at 448 (FlashAttention-3, `hopper/softmax.h`)."""
FP8_SUM_EPS = 2.0**-13
"""Sums of fp8 products in Hopper's tensor cores hold 14 bits (DeepSeek-V3 technical report 2024, section 3.3.2)."""

FP32_ROUNDINGS = 4
"""Exponential (two units in the last place on a GPU), reciprocal, product."""
BLOCK_ROUNDINGS = 3
"""Of a running sum, a block: one addition; where it is rescaled, an exponential (relative to 1) and a product."""
IN_WORKING = ("tf32", "score_roundings")
"""Options of `attention` that only the working precision has."""


class Attention(NamedTuple):
    """O, LSE, and the magnitude of the largest score that the mask lets through, per head (B, H).

    Of fp8 tensors it is that of the largest sum of magnitudes instead, which bounds what is rounded on the way.
    """

    o: torch.Tensor
    lse: torch.Tensor
    largest_score: torch.Tensor


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    window: int = 0,
    mask: str = "",
    working: bool = False,
    tf32: bool = False,
    score_roundings: int = 0,
    keep: torch.Tensor | None = None,
    dropout: float = 0.0,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
) -> Attention:
    """Eager attention; one head at a time, so that only one score matrix is in memory.

    Args:
        q: (B, H, M, D); k: (B, G, N, D); v: (B, G, N, D_v).
        causal: mask aligned to the last key: row i sees keys 0 .. i + N - M;
            window: how many of the last, 0: all; mask: what it has beyond both (`problems.pattern`).
        working: compute in the working precision: products of q.dtype with fp32 sums, P rounded to q.dtype; else fp64.
            q, k, v may be fp8 (e4m3).
        tf32: with `working` and fp32 tensors, cut operands of products to tf32, as tensor cores take them.
        score_roundings: with `working`, how often scores are rounded to q.dtype: 0, 1 (once scaled) or 2 (before, too).
        keep: (B, H, M, N), nonzero where dropout keeps an element of P; dropout: its probability.
        softcap: scores are cap * tanh(score / cap), 0: as they are; sinks: (H,), logits that join the sums of rows.

    Returns:
        O (B, H, M, D_v): fp64, or q.dtype (bf16 for fp8) with `working`; LSE (B, H, M): fp64 or fp32; largest scores.
        In rows that see no key O is 0 and LSE -inf.
    """
    batch, heads, rows, _ = q.shape
    group = heads // k.shape[1]
    precision = torch.float32 if working else torch.float64
    output = torch.bfloat16 if q.dtype == FP8 else q.dtype
    o = torch.empty((*q.shape[:3], v.shape[3]), dtype=output if working else precision, device=q.device)
    lse = torch.empty((batch, heads, rows), dtype=precision, device=q.device)
    largest_score = torch.zeros((batch, heads), dtype=precision, device=q.device)
    whole_mask = Mask(causal=causal or pattern_of(mask).is_causal, window=window, pattern=pattern_of(mask))
    hidden = ~visible_keys(whole_mask, rows, k.shape[2], q.device)
    for b in range(batch):
        for h in range(heads):
            qh, kh, vh = (operand_of(x, precision, tf32) for x in (q[b, h], k[b, h // group], v[b, h // group]))
            scores, magnitudes = _scores(qh, kh, q.dtype, score_roundings if working else 0, softcap)
            largest_score[b, h] = (magnitudes.masked_fill(hidden, 0.0)).amax()
            scores = scores.masked_fill(hidden, float("-inf"))
            if sinks is not None:
                scores = torch.cat((scores, sinks[h].to(precision).expand(rows, 1)), 1)
            lse[b, h] = torch.logsumexp(scores, dim=-1)
            seen = lse[b, h] > float("-inf")
            p = torch.softmax(scores, dim=-1).masked_fill(~seen[:, None], 0.0)
            largest_p, p = p.amax(dim=-1, keepdim=True), p[:, : k.shape[2]]
            if keep is not None:
                p = p * (keep[b, h] != 0) / (1.0 - dropout)
            largest_p = largest_p.masked_fill(~seen[:, None], 1.0)
            o[b, h] = _rounded_product(p, vh, q.dtype, tf32, largest_p) if working else p @ vh
    return Attention(o, lse, largest_score)


def _scores(
    q: torch.Tensor, k: torch.Tensor, dtype: torch.dtype, roundings: int, softcap: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of a head, (M, N), and magnitudes of what is rounded on the way to them."""
    scores = q @ k.T
    if roundings == 2:
        scores = scores.to(dtype).to(q.dtype)
    scores = scores / q.shape[1] ** 0.5
    if roundings:
        scores = scores.to(dtype).to(q.dtype)
    magnitudes = q.abs() @ k.abs().T / q.shape[1] ** 0.5 if dtype == FP8 else scores.abs()
    if softcap:
        # A tanh from exponentials is off by what 1 is, however small.
        return softcap * torch.tanh(scores / softcap), magnitudes.clamp(min=softcap)
    return scores, magnitudes


def _rounded_product(
    p: torch.Tensor, v: torch.Tensor, dtype: torch.dtype, tf32: bool, largest_p: torch.Tensor
) -> torch.Tensor:
    """P V of a head, (M, D_v), P rounded to a dtype. Args: largest_p: of each row, (M, 1), which fp8 scales by."""
    if dtype == FP8:
        scale = FP8_LARGEST_P / largest_p
        return (p * scale).to(FP8).to(p.dtype) @ v / scale
    return operand_of(p.to(dtype), p.dtype, tf32) @ v


def visible_keys(mask: Mask, rows: int, keys: int, device: torch.device) -> torch.Tensor:
    """Which keys each query sees, as a matrix: bool (rows, keys); made on the device, where it is large."""
    first, end = (torch.as_tensor(x, device=device)[:, None] for x in mask.visible(np.arange(rows), rows, keys))
    row, key = torch.arange(rows, device=device)[:, None], torch.arange(keys, device=device)[None, :]
    seen = ((first <= key) | (key < mask.always)) & (key < end)
    blocks = torch.as_tensor(mask.blocks, device=device)
    if not blocks.all():
        seen &= blocks[row * blocks.shape[0] // rows, key * blocks.shape[1] // keys]
    return seen


def operand_of(x: torch.Tensor, precision: torch.dtype, tf32: bool) -> torch.Tensor:
    """An operand of a product in the oracle's precision. Args: tf32: whether fp32 is cut as tensor cores cut it."""
    if tf32 and x.dtype == torch.float32:
        # Triton hands fp32 numbers to the tensor cores as they are; those ignore the bits that tf32 lacks.
        x = (x.contiguous().view(torch.int32) >> TF32_DROPPED_BITS << TF32_DROPPED_BITS).view(torch.float32)
    return x.to(precision)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How far a result is from the truth. Args: error: largest, in units of what is allowed; right: whether it passes.

    `text` says it in one line.
    """

    error: float
    right: bool
    text: str


def judge(
    actual: torch.Tensor,
    truth: torch.Tensor,
    working: torch.Tensor,
    *,
    ulps: int,
    largest_score: torch.Tensor | None = None,
    score_eps: float = torch.finfo(torch.float32).eps,
    floor: torch.Tensor | None = None,
) -> Verdict:
    """Hold a kernel's output against the truth, head by head.

    Args:
        actual: the kernel's; truth: fp64; working: the reference in the kernel's precision; of one shape (B, H, ...).
        ulps: units in the last place (of the dtype of `actual`, at the head's largest value) allowed on top.
        largest_score: (B, H), for outputs that weigh by exponentials of scores; score_eps: of the scores' dtype.
        floor: (B, H), error that is allowed besides.

    Returns:
        The verdict. A NaN, or an infinity that the truth does not have, never passes.
    """
    if actual.shape != truth.shape:
        return Verdict(error=float("inf"), right=False, text=f"shape {tuple(actual.shape)}, not {tuple(truth.shape)}")
    infinite = torch.isinf(truth)
    agree = torch.where(infinite, actual.double() == truth, torch.isfinite(actual))
    if not agree.all():
        wrong = int((~agree).sum())
        return Verdict(error=float("inf"), right=False, text=f"{wrong} elements are NaN or wrongly (in)finite")
    heads = truth.shape[0] * truth.shape[1]
    exact = truth.masked_fill(infinite, 0.0).reshape(heads, -1)

    def largest_error(x: torch.Tensor) -> torch.Tensor:
        return (x.double().masked_fill(infinite, 0.0).reshape(heads, -1) - exact).abs().amax(dim=1)

    relative = torch.full_like(exact[:, 0], ulps * torch.finfo(actual.dtype).eps)
    if largest_score is not None:
        relative += score_eps * largest_score.double().reshape(heads)
    allowed = 2.0 * largest_error(working) + relative * exact.abs().amax(dim=1)
    if floor is not None:
        allowed += floor.double().reshape(heads)
    error = largest_error(actual)
    # A head whose outputs are all exactly 0 allows no error at all.
    ratio = torch.where(error > 0, error / allowed, torch.zeros_like(error)).max().item()
    return Verdict(error=ratio, right=ratio <= 1.0, text=f"error is {ratio:.3g} of what is allowed")


def judge_attention(
    o: torch.Tensor,
    lse: torch.Tensor | None,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    output_roundings: int = 1,
    sum_eps: float = torch.finfo(torch.float32).eps,
    **options: Any,
) -> tuple[Verdict, ...]:
    """Verdicts on O, and on LSE where there is one.

    Args:
        output_roundings: how often the kernel rounds O to its dtype; options: as for `attention`, but `working`.
        sum_eps: precision of the kernel's sums of products: `FP8_SUM_EPS` for fp8 on a GPU, else that of fp32.
    """
    truth = attention(q, k, v, **{name: value for name, value in options.items() if name not in IN_WORKING})
    plain = attention(q, k, v, working=True, **options)
    score_eps = torch.finfo(q.dtype).eps if options.get("score_roundings") else sum_eps
    verdicts = [
        judge(o, truth.o, plain.o, ulps=output_roundings, largest_score=truth.largest_score, score_eps=score_eps)
    ]
    if lse is not None:
        # An LSE is off by what the scores are off by: a sum, by the magnitudes of what it adds; a tanh, by its cap.
        longest_q, longest_k = (x.double().norm(dim=-1).amax(dim=-1) for x in (q, k))
        longest_k = longest_k.repeat_interleave(q.shape[1] // k.shape[1], 1)
        floor = (longest_q * longest_k / q.shape[3] ** 0.5).clamp(min=options.get("softcap", 0.0)) * sum_eps
        verdicts.append(judge(lse, truth.lse, plain.lse, ulps=LSE_ULPS, floor=floor))
    return tuple(verdicts)


def softmax(x: torch.Tensor, *, working: bool = False) -> torch.Tensor:
    """Softmax along the last axis; rows of -inf alone are 0.

    Args:
        working: compute in fp32 and round to the dtype of x; else fp64.
    """
    precision = torch.float32 if working else torch.float64
    y = torch.softmax(x.to(precision), dim=-1)
    y = y.masked_fill((x == float("-inf")).all(dim=-1, keepdim=True), 0.0)
    return y.to(x.dtype) if working else y


def judge_softmax(y: torch.Tensor, x: torch.Tensor, *, block_n: int, safe: bool = True) -> Verdict:
    """Hold a kernel's softmax against the truth, each row against its own largest element.

    Args:
        y, x: (batch, heads, M, N); block_n: columns of the kernel's block;
        safe: whether it subtracts the maximum before it exponentiates.

    Returns:
        The verdict. A NaN never passes.
    """
    blocks = -(-x.shape[-1] // block_n)
    within_block = (block_n - 1).bit_length()  # a tree of additions
    roundings = FP32_ROUNDINGS + within_block + BLOCK_ROUNDINGS * blocks
    largest = torch.zeros_like(x[..., 0], dtype=torch.float64)
    if not safe:
        largest = x.double().masked_fill(torch.isinf(x), 0.0).abs().amax(dim=-1)
    # Rows stand where `judge` has heads.
    return judge(
        *(rows.flatten(0, 1) for rows in (y, softmax(x), softmax(x, working=True))),
        ulps=1,
        largest_score=(largest + roundings).flatten(0, 1),
    )
