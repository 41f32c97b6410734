"""Completes a declaration by trying: which adapter, arrays and axes an implementation takes, and what it returns."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..call.adapters import feed, forward
from ..call.calls import Subject, Violation, call, plain, takes_causal
from ..declare.case import Case, case_of
from ..declare.declaration import Declaration, declared
from ..draw.arrays import counting, normal
from ..laws.oracle import truth

FORMS = {
    "softmax": "f(x) -> weights[, LSE]",
    "attention": "f(q, k, v[, causal]) -> output[, LSE]",
    "merge": "f(state, state) -> state, states being (max, sum, output)",
    "streaming": "a class without arguments, with update(scores, values) and finish() -> output[, LSE]",
}
RANKS = {"softmax": (2, 1), "attention": (4, 2, 3), "merge": (2,), "streaming": (2,)}
BLOCK_NAMES = ("block_n", "block_size", "block", "BLOCK_N", "BLOCK_SIZE", "BLOCK")
ROUGHLY = 0.05
"""Tells a function that means other axes from one that is a little wrong, which is for the laws to find."""


def fit(
    function: Callable[..., Any], *, trying: Callable[[str], None] | None = None, skip: Sequence[str] = (), **given: Any
) -> Subject:
    """An implementation, ready for the laws.

    Args:
        trying: called with the kind of arrays before a first call with them, which may hang or crash.
        skip: kinds of arrays not to try.
        given: what is declared beside what the function carries.

    Raises:
        ValueError: a declaration that is not allowed, or a function that does not work on a plain input; one line.
    """
    declaration = declared(function, **given)
    if not callable(function):
        raise ValueError(f"{_name(function)} is a {type(function).__name__}: must be a function or a class")
    adapter = declaration.adapter or _adapter(function)
    declaration = replace(declaration, adapter=adapter, dtype=declaration.dtype or declaration.dtypes[0])
    causal_name, aligned = None, True
    if adapter == "attention":
        takes, causal_name = takes_causal(function)
        aligned = declaration.causal is not None or not takes
        declaration = replace(declaration, causal=(declaration.causal or "square") if takes else "none")
    if declaration.block is None:
        known = inspect.signature(function).parameters
        declaration = replace(declaration, block=next((name for name in BLOCK_NAMES if name in known), ""))
    reasons: dict[str, None] = {}
    fitting: list[Subject] = []
    for candidate in _candidates(declaration):
        if candidate.arrays in skip:
            continue
        if trying:
            trying(candidate.arrays or "")
        subject = Subject(function=function, declaration=candidate, causal_name=causal_name)
        try:
            output = forward(subject, plain_case(candidate))
        except Violation as violation:
            reasons.setdefault(f"{candidate.arrays}: {violation}")
            continue
        fitting.append(subject)
        if np.abs(output.o - truth(plain_case(candidate), candidate).o).max() <= ROUGHLY:
            fitting = [subject]
            break
    if not fitting:
        shown = "; ".join(list(reasons)[:3])
        raise ValueError(f"{_name(function)}, called as {adapter} {FORMS[adapter]}, fails on a plain input: {shown}")
    return _observed(fitting[0] if aligned else _aligned(fitting[0], trying, skip))


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)[:60]


def _adapter(function: Callable[..., Any]) -> str:
    """The adapter that a signature means: one, two, three or four arguments, or a class."""
    if inspect.isclass(function):
        return "streaming"
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise ValueError(f"adapter: {_name(function)} has no signature to tell it by; name one") from None
    needed = [
        parameter for parameter in parameters if parameter.default is parameter.empty and parameter.kind in (0, 1)
    ]
    adapter = {0: "streaming", 1: "softmax", 2: "merge", 3: "attention", 4: "attention"}.get(len(needed))
    if adapter is None:
        raise ValueError(f"{_name(function)} needs {len(needed)} arguments: must be one of {', '.join(FORMS.values())}")
    return adapter


def _candidates(declaration: Declaration) -> Iterator[Declaration]:
    if declaration.arrays:
        kinds = [declaration.arrays]
    else:
        kinds = ["numpy"] if declaration.dtype != "bf16" else []
        if find_spec("torch") is not None:
            import torch

            kinds += ["torch", "cuda"] if torch.cuda.is_available() else ["torch"]
        if not kinds:
            raise ValueError("dtype = 'bf16': numpy has no such type, and torch is not installed")
    for kind in kinds:
        for rank in (declaration.rank,) if declaration.rank else RANKS[declaration.adapter or ""]:
            for base in (declaration.lse,) if declaration.lse else ("natural", "none"):
                yield replace(declaration, arrays=kind, rank=rank, lse=base)


def plain_case(declaration: Declaration, *, causal: bool = False) -> Case:
    """An input that is not hard, of lengths that tell the axes apart. Args: causal: under a mask."""
    rows, keys = next((shape for shape in declaration.shapes if min(shape) > 1), (3, 5))
    if declaration.shapes and not declaration.allows(rows, keys):
        rows, keys = declaration.shapes[0]
    if causal:
        rows, keys = next((shape for shape in declaration.shapes if shape[0] < shape[1]), (rows, keys))
    dims = declaration.head_dims[0]
    if declaration.adapter == "attention":
        q, k = normal(1, (2, rows, dims)), normal(2, (2, keys, dims))
        return case_of(declaration, q=q, k=k, v=np.stack([counting(keys, dims)] * 2), causal=causal)
    x = normal(3, (rows, keys))
    if declaration.adapter == "softmax":
        return case_of(declaration, x=x)
    return case_of(declaration, x=x, v=counting(keys, 2), cuts=(2,) if keys > 2 else ())


def _aligned(subject: Subject, trying: Callable[[str], None] | None, skip: Sequence[str]) -> Subject:
    """The same, with the alignment of its mask, as fewer rows than keys show it; for M = N alone where they do not."""
    declaration, kind = subject.declaration, f"{subject.declaration.arrays}, causal with M < N"
    rows, keys = plain_case(declaration, causal=True).rows, plain_case(declaration, causal=True).keys
    if rows >= keys or kind in skip:
        return subject
    if trying:
        trying(kind)
    for alignment in ("last", "first"):
        candidate = replace(declaration, causal=alignment)
        case = plain_case(candidate, causal=True)
        try:
            output = forward(subject, case)
        except Violation:
            return subject
        if np.abs(output.o - truth(case, candidate).o).max() <= ROUGHLY:
            return replace(subject, declaration=candidate)
    return subject


def _observed(subject: Subject) -> Subject:
    """The same, with what else it has: gradients, and attributes to look at on the way."""
    declaration, case = subject.declaration, plain_case(subject.declaration)
    if declaration.gradient is None:
        gradient = False
        if declaration.arrays != "numpy" and declaration.adapter in ("softmax", "attention"):
            try:
                forward(subject, case, gradient_of=np.ones_like(truth(case, declaration).o))
                gradient = True
            except Violation:
                gradient = False
        declaration = replace(declaration, gradient=gradient)
    if declaration.adapter == "streaming" and declaration.observes is None:
        assert case.x is not None and case.v is not None
        stream = call(subject.function)
        feed(subject, stream, case.x, case.v)
        declaration = replace(
            declaration, observes=tuple(name for name in ("max", "sum") if _shows(stream, name, case))
        )
    return replace(subject, declaration=declaration)


def _shows(stream: Any, name: str, case: Case) -> bool:
    try:
        plain(getattr(stream, name), (case.rows,), name)
    except (AttributeError, Violation):
        return False
    return True
