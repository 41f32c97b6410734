"""The oracle: softmax in fp64, and how far from it an implementation may be.

The bound is derived from what the implementation declares about its arithmetic, not tuned. Write e for the eps of the
format that it computes in (one operation is off by at most e, also where hardware truncates), n for the number of keys,
m for a row's maximum, p for its weights, all true values.

**Score.** A score is given exactly, or is a product of D elements: (D + 1) e sum|q k| for the sum, 2 e' sum|q k| where
operands are cut to a format of eps e' first, 2 e |s| for the scale; and e'' |s| / 2 for each rounding to dtype.

**Exponent.** What exp sees is s - m, perhaps times log2(e): constant and product cost 2 e (|s| + |m|), the difference
e |s - m|. An online softmax reaches m by steps, whose differences add up to |s - m| and cost what one does.
Together 3 e (|s| + |m|), and the score's error, make the exponent's error d_j.
An error of the maximum itself cancels, since weights, sum and LSE share it.

**Weight.** Relative error z_j = exp(d_j) - 1 + 4 e, as exponentials of all libraries are good to 4 e.
Common errors cancel between numerator and denominator: |sum p z (v - o)| <= sum p_j z_j (|v_j| + |o|).

**Sums.** A key's share goes through at most n steps, each an exponential, a product, an addition and, where states are
normalised, a division: 8 e a step, in numerator and denominator each, so 8 n e (sum p|v| + |o|).
The last division costs 4 e |o|.

**Roundings.** Weights that are rounded before they meet V cost sum (u p_j + least) |v_j|, u half their eps;
tensor cores that take tf32 cut weights and V alike, for e' each. The output costs u |o|, and u sum p|v| for each
earlier rounding of a partial output. What underflows is lost: `Format.lost`.

**LSE** = m + log(sum): the mean of z, 8 n e for the sum, 4 e for a logarithm near 1 (absolute),
4 e (|m| + |log(sum)|) for the change of base, 2 e |LSE| for the last addition, and e' |LSE| where it is returned in a
format of eps e'.

Errors of first order are divided by one minus the relative error of the sum. Where that reaches one half, scores are
too coarse to tell weights, and less is known: outputs lie among the values that a row sees, LSE is off by no more than
the worst of its scores, and the weight of a hidden key is 0. Where sums alone are so coarse, the bound is infinite.
For fp64 the oracle is as wrong as the implementation, and e is doubled.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..declare.case import Case
from ..declare.declaration import Declaration
from ..declare.formats import FORMATS, Array

EXP_EPS = 4.0
STEP_EPS = 8.0
VAGUE_STEPS = 0.25
"""Where sums are off by less, a row too coarse to tell its weights is so by its scores."""
TINY = 1e-300
"""Keeps a bound of 0 from becoming no number where it is divided by 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What an implementation must return, and within what.

    Args:
        o: (H, M, C) and lse: (H, M), true; 0 and -inf in rows that see no key.
        o_bound, lse_bound: of their shapes; rounding_bound: that part of o_bound which no error of a score explains.
        weights: (H, M, N) p; seen: (H, M) rows that see a key; weight_error: (H, M, N) relative, of p.
    """

    o: Array
    lse: Array
    o_bound: Array
    lse_bound: Array
    rounding_bound: Array
    weights: Array
    seen: NDArray[np.bool_]
    weight_error: Array


def truth(case: Case, declaration: Declaration) -> Truth:
    """The true result of a case, with bounds for an implementation that computes as declared."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        return _truth(case, declaration)


def _truth(case: Case, declaration: Declaration) -> Truth:
    scores, v = case.scores(), case.values()
    e = declaration.inner.eps * (2.0 if declaration.inner is FORMATS["fp64"] else 1.0)
    count = scores.shape[-1]
    finite = scores > -np.inf
    seen = np.asarray(finite.any(axis=-1))
    maximum = np.where(seen, scores.max(axis=-1, initial=-np.inf), 0.0)
    magnitude = np.where(finite, np.abs(scores), 0.0)
    p = np.exp(scores - maximum[..., None])
    total = np.where(seen, p.sum(axis=-1), 1.0)
    p /= total[..., None]
    lse = np.where(seen, maximum + np.log(total), -np.inf)

    exponent_error = _score_error(case, declaration, magnitude, e) + 3 * e * (magnitude + np.abs(maximum)[..., None])
    z = np.where(finite, np.expm1(np.minimum(exponent_error, 700.0)) + EXP_EPS * e, 0.0)
    mean = (p * z).sum(axis=-1)
    steps = STEP_EPS * count * e
    coarse = mean + steps
    second_order = np.where(coarse < 0.5, 1.0 / (1.0 - coarse), np.inf)
    vague = (coarse >= 0.5) & (steps < VAGUE_STEPS)

    weight, element = declaration.weight, declaration.element
    share = 2.0 * weight.eps if weight is FORMATS["tf32"] else 0.5 * weight.eps
    lost = weight.smallest + declaration.inner.lost
    if v is None:
        o, size, spread, reach = p, p, p * z, np.where(finite, np.inf, 0.0)
        length = np.abs(o)
        rounding = share * p + lost
    else:
        absolute = np.abs(v)
        o, size, spread = p @ v, p @ absolute, (p * z) @ absolute
        low, high, reach = _hull(v, finite, o) if vague.any() else (o, o, np.zeros_like(o))
        # What a coarse row puts weight on, and rounds, may be its largest value.
        top = np.maximum(np.abs(low), np.abs(high))
        size, length = (np.where(vague[..., None], top, values) for values in (size, np.abs(o)))
        rounding = share * size + lost * finite.astype(float) @ absolute
    rounding += steps * (size + length) + 4 * e * length
    by_scores = spread + mean[..., None] * length
    times = np.ceil(count / declaration.output_block) - 1 if declaration.output_block else 0.0
    stored = 0.5 * element.eps * (length + times * size) + element.lost
    rounding_bound = rounding / (1.0 - min(steps, 0.5)) * (1.0 + element.eps) + stored
    o_bound = (rounding + by_scores + TINY) * second_order[..., None] * (1.0 + element.eps) + stored
    o_bound = np.where(vague[..., None], reach + rounding_bound, o_bound)
    log_total = np.abs(np.log(total))
    finite_lse = np.where(seen, np.abs(lse), 0.0)
    sum_error = np.where(
        vague, np.where(finite, exponent_error, 0.0).max(axis=-1) + 2 * (steps + EXP_EPS * e), coarse * second_order
    )
    lse_bound = sum_error + 4 * e * (1.0 + np.abs(maximum) + log_total) + 2 * e * finite_lse
    return Truth(
        o=np.where(seen[..., None], o, 0.0),
        lse=lse,
        o_bound=np.where(seen[..., None], o_bound, 0.0),
        lse_bound=np.where(seen, lse_bound, 0.0),
        rounding_bound=rounding_bound,
        weights=p,
        seen=seen,
        weight_error=(z + mean[..., None] + 2 * steps) * second_order[..., None],
    )


def _hull(v: Array, finite: NDArray[np.bool_], o: Array) -> tuple[Array, Array, Array]:
    """Least and largest value that a row sees, and how far from its output they lie (H, M, C each)."""
    seen = finite[..., None]
    low = np.where(seen, v[:, None], np.inf).min(axis=2)
    high = np.where(seen, v[:, None], -np.inf).max(axis=2)
    blind = ~np.isfinite(low)
    low, high = np.where(blind, 0.0, low), np.where(blind, 0.0, high)
    return low, high, np.maximum(high - o, o - low)


def _score_error(case: Case, declaration: Declaration, magnitude: Array, e: float) -> Array:
    """Absolute error of scores (H, M, N), before the softmax."""
    error = np.zeros_like(magnitude)
    products = case.magnitudes()
    if products is not None and case.q is not None:
        operand = declaration.operand.eps if declaration.operand else 0.0
        error += ((case.q.shape[-1] + 1) * e + 2 * operand) * products + 2 * e * magnitude
    if declaration.score_roundings:
        element = declaration.element
        error += declaration.score_roundings * (0.5 * element.eps * (magnitude + error) + element.lost)
    return error
