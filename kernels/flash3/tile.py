"""What a key tile does to the rows of a warp group: hide, exponentiate, sum; on tensors in the layout of the scores."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

LOWEST = gl.constexpr(-3.0e38)
"""Maximum of a row that has seen no key: below every score in fp32, and finite, so that -inf less it stays -inf."""
FP8_LOG2 = gl.constexpr(8)
"""In fp8 P is rounded times 2^8: e4m3 ends at 448."""

FP8_TEXT = gl.constexpr(
    "{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, $2, $1; cvt.rn.satfinite.e4m3x2.f32 high, $4, $3;"
    " mov.b32 $0, {low, high}; }"
)
"""Four numbers to e4m3. Triton converts two at a time, and takes three instructions for each to bring four together."""


@gluon.jit
def hide(scores, rows, cols, last, seqlen_k, key, window, causal: gl.constexpr, windowed: gl.constexpr):
    """Scores, -inf where the mask hides them. Args: last: key that row 0 sees last; key: first of the tile."""
    if causal:
        # Past its last key a row of the problem has none, so this clips a ragged end as well.
        reach = rows - (key - last)
        scores = gl.where(reach[:, None] >= cols[None, :], scores, -float("inf"))
        if windowed:
            scores = gl.where((reach - window)[:, None] >= cols[None, :], -float("inf"), scores)
    else:
        scores = gl.where((cols < seqlen_k - key)[None, :], scores, -float("inf"))
    return scores


@gluon.jit
def cap(scores, inner):
    """Hyperbolic tangent of scores, from exponentials, which end at 1 and -1. Args: inner: 2 log2(e) over the cap."""
    return 1.0 - 2.0 / (1.0 + gl.exp2(scores * inner))


@gluon.jit
def column(values):
    """A number for each row, across its columns; a number for all as it is."""
    if values.type.is_block():
        values = values[:, None]
    return values


@gluon.jit
def weights(scores, row_max, scale, fp8: gl.constexpr, operand_layout: gl.constexpr, dtype: gl.constexpr):
    """P of a tile of scores as the operand of a product, and its sums over the columns that lie eight apart.

    Those of a class are held by one thread: no sum crosses threads until the rows are done.
    """
    if fp8:
        row_max = row_max - FP8_LOG2
    p = gl.exp2(scores * column(scale) - row_max[:, None])
    sums = gl.sum(p.reshape([p.shape[0], p.shape[1] // 8, 8]), 1)
    if fp8:
        # A thread holds columns 2t, 2t + 1 of every eight, and its operand is 4t to 4t + 3 of every 16: V's keys are in
        # the order (`values.py`) in which these are the same.
        p = p.reshape([p.shape[0], p.shape[1] // 16, 2, 4, 2]).permute((0, 1, 3, 2, 4)).reshape(p.shape)
        p = gl.convert_layout(p, operand_layout, assert_trivial=True)
    else:
        p = gl.convert_layout(p.to(dtype), operand_layout, assert_trivial=True)
    return p, sums


@gluon.jit
def narrowed(p):
    """P in fp8."""
    return gl.inline_asm_elementwise(FP8_TEXT, "=r,r,r,r,r", [p], dtype=gl.float8e4nv, is_pure=True, pack=4)


@gluon.jit
def begin(scores, scale, fp8: gl.constexpr, operand_layout: gl.constexpr, dtype: gl.constexpr):
    """Maximum, sums and P of the first key tile of rows."""
    row_max = gl.maximum(gl.max(scores, 1) * scale, LOWEST)
    p, sums = weights(scores, row_max, scale, fp8, operand_layout, dtype)
    return row_max, sums, p


@gluon.jit
def go_on(scores, row_max, sums, scale, fp8: gl.constexpr, operand_layout: gl.constexpr, dtype: gl.constexpr):
    """The same of a later one; and what the rows' earlier sums are to be multiplied by."""
    new_max = gl.maximum(row_max, gl.max(scores, 1) * scale)
    alpha = gl.exp2(row_max - new_max)
    p, more = weights(scores, new_max, scale, fp8, operand_layout, dtype)
    sums = sums * gl.convert_layout(alpha, gl.SliceLayout(1, sums.type.layout))[:, None] + more
    return new_max, sums, p, alpha
