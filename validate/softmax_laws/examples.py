"""One correct implementation in numpy for each adapter: what the laws expect, and something to try them on.

    tilesight check-softmax tilesight.softmax_laws.examples:attention

All compute in fp32, or in fp64 for fp64, whatever their input is. Tests plant mistakes in their lines.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
State = tuple[Array, Array, Array]


def inner(x: Array) -> Array:
    """The array in the format that sums and exponentials are computed in."""
    wanted: Any = np.float64 if x.dtype == np.float64 else np.float32
    return x.astype(wanted)


def ratio(output: Array, total: Array) -> Array:
    """Output over sum; 0 where no key was seen."""
    return np.asarray(output / np.where(total == 0.0, 1.0, total).astype(output.dtype)[..., None])


def log_sum_exp(maximum: Array, total: Array) -> Array:
    """LSE of a maximum and a sum."""
    with np.errstate(divide="ignore"):
        return np.asarray(maximum + np.log(total))


def softmax(x: Array, block: int = 64) -> tuple[Array, Array]:
    """Softmax over the last axis in two sweeps over blocks, and LSE."""
    scores = inner(x)
    maximum = np.full(scores.shape[:-1], -np.inf, scores.dtype)
    total = np.zeros_like(maximum)
    for first in range(0, scores.shape[-1], block):
        part = scores[..., first : first + block]
        higher = np.maximum(maximum, part.max(axis=-1))
        base = np.where(higher == -np.inf, 0.0, higher).astype(scores.dtype)
        total = total * np.exp(maximum - base) + np.exp(part - base[..., None]).sum(axis=-1)
        maximum = higher
    base = np.where(maximum == -np.inf, 0.0, maximum).astype(scores.dtype)
    weights = ratio(np.exp(scores - base[..., None]), total)
    return weights.astype(x.dtype), log_sum_exp(maximum, total)


class Stream:
    """Online softmax over blocks of scores (R, n) and values (n, D)."""

    def __init__(self) -> None:
        self.max: Any = None
        self.sum: Any = 0.0
        self.output: Any = 0.0
        self.dtype: Any = None

    def update(self, scores: Array, values: Array) -> None:
        """Take in one more block."""
        self.dtype, scores, values = values.dtype, inner(scores), inner(values)
        if self.max is None:
            self.max = np.full(len(scores), -np.inf, scores.dtype)
            self.sum = np.zeros(len(scores), scores.dtype)
            self.output = np.zeros((len(scores), values.shape[1]), scores.dtype)
        higher = np.maximum(self.max, scores.max(axis=1))
        base = np.where(higher == -np.inf, 0.0, higher).astype(scores.dtype)
        alpha = np.exp(self.max - base)
        p = np.exp(scores - base[:, None])
        self.sum = self.sum * alpha + p.sum(axis=1)
        self.output = self.output * alpha[:, None] + p @ values
        self.max = higher

    def merge(self, other: "Stream") -> None:
        """Take in all that another one has seen."""
        if other.max is not None:
            mine = (self.max, self.sum, self.output)
            theirs = (other.max, other.sum, other.output)
            self.max, self.sum, self.output = merge(mine, theirs) if self.max is not None else theirs
            self.dtype = other.dtype

    def finish(self) -> tuple[Array, Array]:
        """Output and LSE."""
        return ratio(self.output, self.sum).astype(self.dtype), log_sum_exp(self.max, self.sum)


def merge(first: State, second: State) -> State:
    """Two states (max, sum, accumulated output) as one."""
    (max_1, sum_1, output_1), (max_2, sum_2, output_2) = first, second
    maximum = np.maximum(max_1, max_2)
    base = np.where(maximum == -np.inf, 0.0, maximum).astype(maximum.dtype)
    scale_1, scale_2 = np.exp(max_1 - base), np.exp(max_2 - base)
    total = scale_1 * sum_1 + scale_2 * sum_2
    return maximum, total, scale_1[:, None] * output_1 + scale_2[:, None] * output_2


def attention(q: Array, k: Array, v: Array, causal: bool = False, block_n: int = 64) -> tuple[Array, Array]:
    """Attention (..., M, D) over blocks of keys, mask aligned to the last key; output and LSE."""
    queries, keys, values = inner(q), inner(k), inner(v)
    rows, count = q.shape[-2], k.shape[-2]
    scale = q.shape[-1] ** -0.5
    log2_e = 1.4426950408889634
    maximum = np.full(q.shape[:-1], -np.inf, queries.dtype)
    total = np.zeros_like(maximum)
    output = np.zeros_like(queries)
    for first in range(0, count, block_n):
        key = np.arange(first, min(first + block_n, count))
        scores = queries @ keys[..., key, :].swapaxes(-1, -2) * (scale * log2_e)
        if causal:
            scores = np.where(key <= np.arange(rows)[:, None] + count - rows, scores, -np.inf)
        higher = np.maximum(maximum, scores.max(axis=-1))
        base = np.where(higher == -np.inf, 0.0, higher).astype(queries.dtype)
        alpha = np.exp2(maximum - base)
        p = np.exp2(scores - base[..., None]).astype(queries.dtype)
        total = total * alpha + p.sum(axis=-1)
        output = output * alpha[..., None] + p @ values[..., key, :]
        maximum = higher
    return ratio(output, total).astype(q.dtype), log_sum_exp(maximum / log2_e, total)


attention.softmax_laws = {"causal": "last"}  # type: ignore[attr-defined]
CORRECT = {"softmax": softmax, "attention": attention, "merge": merge, "streaming": Stream}
