"""Four kinds of implementation, one question: what is the result of this case?

softmax `f(x) -> p[, lse]`; attention `f(q, k, v[, causal]) -> o[, lse]`;
merge `f(state, state) -> state` with states (max, sum, output);
streaming, a class without arguments, with `update(scores, values)` and `finish() -> o[, lse]`.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from ..declare.case import Case
from ..declare.declaration import Declaration
from ..declare.formats import Array
from .calls import Output, Subject, Violation, call, joined, native, output_of, plain

State = tuple[Array, Array, Array]


def forward(subject: Subject, case: Case, *, block: int | None = None, gradient_of: Array | None = None) -> Output:
    """The implementation's result for a case.

    Args:
        block: value for the parameter that sets the block size, where the implementation has one.
        gradient_of: (H, M, C) weights of the outputs in a sum whose gradient is wanted.
    """
    options = {} if block is None else {subject.declaration.block or "": block}
    if subject.declaration.adapter == "softmax":
        return _softmax(subject, case, options, gradient_of)
    if subject.declaration.adapter == "attention":
        return _attention(subject, case, options, gradient_of)
    if subject.declaration.adapter == "streaming":
        return _streaming(subject, case)
    return _merging(subject, case)


def _softmax(subject: Subject, case: Case, options: dict[str, Any], gradient_of: Array | None) -> Output:
    assert case.x is not None
    row_by_row = subject.declaration.rank == 1
    parts = []
    for row in range(len(case.x)) if row_by_row else [slice(None)]:
        given = native(case.x[row], subject.declaration, gradient_of is not None)
        weight = None if gradient_of is None else gradient_of[0][row]
        returned = call(subject.function, given, **options)
        parts.append(output_of(subject, returned, case.x[row].shape, {"x": given}, weight))
    return joined(parts, (1, *case.x.shape))


def _attention(subject: Subject, case: Case, options: dict[str, Any], gradient_of: Array | None) -> Output:
    assert case.q is not None and case.k is not None and case.v is not None
    rank = subject.declaration.rank
    mask: tuple[bool, ...] = ()
    if subject.causal_name and case.causal:
        options = options | {subject.causal_name: True}
    elif subject.declaration.causal != "none" and not subject.causal_name:
        mask = (case.causal,)
    parts = []
    for head in range(len(case.q)) if rank == 2 else [None if rank == 4 else slice(None)]:
        given = {
            name: native(array[head], subject.declaration, gradient_of is not None)
            for name, array in (("q", case.q), ("k", case.k), ("v", case.v))
        }
        weight = None if gradient_of is None else gradient_of[head]
        returned = call(subject.function, *given.values(), *mask, **options)
        parts.append(output_of(subject, returned, case.q[head].shape, given, weight))
    return joined(parts, case.q.shape)


def blocks(case: Case) -> list[slice]:
    """The blocks that a case's keys are cut into."""
    edges = [0, *case.cuts, case.keys]
    return [slice(begin, end) for begin, end in pairwise(edges)]


def feed(subject: Subject, stream: Any, x: Array, v: Array) -> None:
    """Give a streaming object a block of scores (R, n) and values (n, D)."""
    call(stream.update, native(x, subject.declaration), native(v, subject.declaration))


def finish(subject: Subject, stream: Any, rows: int, dims: int) -> Output:
    """Take the result out of a streaming object that has been fed."""
    return joined([output_of(subject, call(stream.finish), (rows, dims))], (1, rows, dims))


def _streaming(subject: Subject, case: Case) -> Output:
    assert case.x is not None and case.v is not None
    stream = call(subject.function)
    for block in blocks(case):
        feed(subject, stream, case.x[:, block], case.v[block])
    return finish(subject, stream, case.x.shape[0], case.v.shape[1])


def empty_state(rows: int, dims: int) -> State:
    """The state of no keys: what a merge must leave unchanged."""
    return np.full(rows, -np.inf), np.zeros(rows), np.zeros((rows, dims))


def state_of(x: Array, v: Array, declaration: Declaration) -> State:
    """The state (max, sum, output) of a block of keys; max (R,), sum (R,), output (R, D)."""
    with np.errstate(all="ignore"):
        maximum = x.max(axis=1)
        p = np.exp(x - np.where(maximum == -np.inf, 0.0, maximum)[:, None])
        total = p.sum(axis=1)
        output = p @ v
        if declaration.state == "normalised":
            output = output / np.where(total == 0.0, 1.0, total)[:, None]
    return maximum, total, output


def merged(subject: Subject, first: State, second: State) -> State:
    """The implementation's merge of two states."""
    given = [tuple(native(part, subject.declaration) for part in state) for state in (first, second)]
    returned = call(subject.function, *given)
    if not isinstance(returned, tuple | list) or len(returned) != 3:
        raise Violation(f"returned a {type(returned).__name__}: must be a state (max, sum, output)")
    names = ("a maximum", "a sum", "an output")
    maximum, total, output = (
        plain(part, like.shape, name) for part, like, name in zip(returned, first, names, strict=True)
    )
    return maximum, total, output


def finished(state: State, declaration: Declaration) -> Output:
    """Output and LSE of a state."""
    maximum, total, output = state
    with np.errstate(all="ignore"):
        if declaration.state == "accumulated":
            output = np.where(total[:, None] == 0.0, 0.0, output / total[:, None])
        lse = np.where(total == 0.0, -np.inf, maximum + np.log(total))
    return Output(o=output[None], lse=lse[None], lse_eps=declaration.element.eps)


def _merging(subject: Subject, case: Case) -> Output:
    assert case.x is not None and case.v is not None
    state = empty_state(case.x.shape[0], case.v.shape[1])
    for number, block in enumerate(blocks(case)):
        part = state_of(case.x[:, block], case.v[block], subject.declaration)
        state = merged(subject, state, part) if number else part
    return finished(state, subject.declaration)
