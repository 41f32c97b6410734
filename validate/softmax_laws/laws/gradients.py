"""The law of gradients: what torch's autograd gives is the derivative of softmax attention.

For a sum of outputs weighted by g: dV = P^T g, dP = g V^T, dS = P (dP - rowsum(g O)), dQ = scale dS K,
dK = scale dS^T Q; for softmax alone dP = g and dx = dS.
A bound follows each step: a factor that is off by r makes its product off by r, a sum of n terms costs (n + 1) eps of
the sum of magnitudes, and what is rounded on the way costs as in `laws.oracle`.

Source: Dao et al., FlashAttention (2022), appendix B.2.
"""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..call.adapters import forward
from ..call.calls import Subject, Violation
from ..declare.case import Case
from ..declare.declaration import Declaration
from ..declare.formats import Array, rounded
from ..draw.arrays import normal
from .law import Law, near, with_knob
from .oracle import truth

MODERATE = 16.0
"""Magnitude of scores and values: gradients are products of several, and would leave the range of fp16."""


def _no_gradient(declaration: Declaration) -> str | None:
    if declaration.adapter not in ("softmax", "attention"):
        return "gradients are asked of softmax and attention alone"
    if declaration.arrays == "numpy":
        return "numpy has no gradients"
    return None if declaration.gradient else "its output has no grad_fn"


def _draw_seed(_declaration: Declaration, _case: Case) -> st.SearchStrategy[Any]:
    return st.integers(0, 99)


def _gradient(subject: Subject, case: Case, knob: int) -> None:
    true = truth(case, subject.declaration)
    g = rounded(normal(knob, true.o.shape), subject.declaration.dtype or "fp32")
    gradients = forward(subject, case, gradient_of=g).gradients
    assert gradients is not None
    for name, (expected, bound) in _derivatives(case, subject.declaration, g).items():
        if gradients[name].shape != expected.shape:
            raise Violation(f"gradient of {name} has shape {gradients[name].shape}, must have {expected.shape}")
        near(gradients[name], expected, bound, f"gradient of {name}")


def _derivatives(case: Case, declaration: Declaration, g: Array) -> dict[str, tuple[Array, Array]]:
    """Name of an input -> its gradient and how far one may be from it."""
    true, v = truth(case, declaration), case.values()
    e, element = declaration.inner.eps, declaration.element
    operand = 2 * declaration.operand.eps if declaration.operand else 0.0
    p, size = true.weights, np.abs(g)
    share = declaration.weight.eps * p + declaration.weight.smallest + declaration.inner.lost
    p_error = p * true.weight_error
    if v is None:
        dp, dp_error = g, np.zeros_like(g)
    else:
        dp = g @ v.transpose(0, 2, 1)
        dp_error = ((v.shape[-1] + 1) * e + operand) * (size @ np.abs(v).transpose(0, 2, 1))
    mean = (g * true.o).sum(axis=-1, keepdims=True)
    terms = (size * (true.o_bound + (g.shape[-1] + 2) * e * np.abs(true.o))).sum(axis=-1, keepdims=True)
    ds = p * (dp - mean)
    total = np.abs(dp) + np.abs(mean)
    ds_error = (p + p_error) * (dp_error + terms) + (p_error + 3 * e * p) * total
    if case.q is None or case.k is None or v is None:
        return {"x": (ds, ds_error + 0.5 * element.eps * np.abs(ds) + element.lost)}
    ds_error += (share + p_error * declaration.weight.eps) * total

    def product(a: Array, a_error: Array, b: Array, factor: float) -> tuple[Array, Array]:
        exact, sums = factor * (a @ b), factor * (np.abs(a) @ np.abs(b))
        error = factor * (a_error @ np.abs(b)) + ((a.shape[-1] + 2) * e + operand) * sums
        return exact, error + 0.5 * element.eps * np.abs(exact) + element.lost

    def turned(a: Array) -> Array:
        return a.transpose(0, 2, 1)

    return {
        "q": product(ds, ds_error, case.k, case.scale),
        "k": product(turned(ds), turned(ds_error), case.q, case.scale),
        "v": product(turned(p), turned(p_error + share), g, 1.0),
    }


GRADIENT_LAWS = (
    Law(name="gradients", statement="autograd gives the derivative, where numbers are moderate", missing=_no_gradient,
        draw=with_knob(_draw_seed, largest=MODERATE), check=_gradient),
)  # fmt: skip
