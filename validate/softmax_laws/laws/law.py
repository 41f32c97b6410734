"""What a law is, and how results are compared: by bounds that are derived, never by eye."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ..call.calls import Output, Subject, Violation
from ..declare.case import Case
from ..declare.declaration import Declaration
from ..declare.formats import Array
from ..draw.inputs import Ease, Wanted, cases
from .oracle import Truth

Drawn = tuple[Case, Any]
Draws = Callable[[Declaration, Ease], st.SearchStrategy[Drawn]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A law.

    Args:
        name: as in tables; statement: what must be, in one line.
        missing: why it does not apply to an implementation; None where it does.
        draw: strategy of pairs (case, knob) for an implementation, as easy as asked for;
            a knob is what the law changes, in plain values.
        check: raises `Violation` where the law does not hold for an implementation, a case and a knob.
        unless: declaration by which an implementation does not promise the law; empty where there is none.
    """

    name: str
    statement: str
    missing: Callable[[Declaration], str | None]
    draw: Draws
    check: Callable[[Subject, Case, Any], None]
    unless: str = ""


def hold(law: Law, subject: Subject, case: Case, knob: Any) -> None:
    """Hold an implementation to a law on one input. Raises: Violation: the law does not hold."""
    # Infinite bounds meet zeros, and implementations return what they like: `near` knows what to make of either.
    with np.errstate(all="ignore"):
        law.check(subject, case, knob)


def near(actual: Array, expected: Array, bound: Array | float, what: str) -> None:
    """Raises: Violation: an element is farther from what is expected than the bound; NaN always is."""
    with np.errstate(all="ignore"):
        error = np.abs(actual - expected)
        # An infinite bound, or no bound as infinity met 0 on the way to it, says that any finite number will do.
        limit = np.broadcast_to(np.where(np.isnan(bound), np.inf, bound), error.shape)
        right = ((error <= limit) & np.isfinite(actual)) | (actual == expected)
        if right.all():
            return
        excess = np.where(right, -1.0, np.where(np.isnan(error), np.inf, error) / np.maximum(limit, 1e-300))
    place = np.unravel_index(int(np.argmax(excess)), error.shape)
    named = list(zip(("head", "row", "column"), place, strict=False))
    where = ", ".join(f"{axis} {index}" for axis, index in named[error.shape[0] == 1 :])
    wrong = int((~right).sum())
    count = f"; {wrong} of {right.size} are wrong" if wrong > 1 else ""
    must = "a number" if np.isnan(expected[place]) else f"{expected[place]:.9g} within {limit[place]:.2g}"
    raise Violation(f"{what} is {actual[place]:.9g} at {where}, must be {must}{count}")


def lse_bound(true: Truth, output: Output) -> Array:
    """What an LSE may be off by, the format that it came in included."""
    return np.asarray(true.lse_bound + output.lse_eps * np.where(true.seen, np.abs(true.lse), 0.0))


def same(after: Output, before: Output, bound: Array, lse_within: Array, what: str) -> None:
    """Raises: Violation: a result differs from what it was by more than rounding explains, in output or LSE."""
    near(after.o, before.o, bound, f"{what}, output")
    if before.lse is not None and after.lse is not None:
        near(after.lse, before.lse, lse_within, f"{what}, LSE")


def compare(output: Output, true: Truth) -> None:
    """Raises: Violation: output or LSE differ from the truth by more than rounding explains."""
    near(output.o, true.o, true.o_bound, "output")
    if output.lse is not None:
        near(output.lse, true.lse, lse_bound(true, output), "LSE")


def always(_declaration: Declaration) -> str | None:
    """Applies to every implementation."""
    return None


def needs_lse(declaration: Declaration) -> str | None:
    """Applies where an LSE comes with the output."""
    return "it returns no LSE" if declaration.lse == "none" else None


def no_knob(**wanted: Any) -> Draws:
    """A law's `draw` that needs a case alone. Args: wanted: fields of `Wanted`."""
    return lambda declaration, ease: cases(declaration, Wanted(ease=ease, **wanted)).map(lambda case: (case, None))


def with_knob(knob: Callable[[Declaration, Case], st.SearchStrategy[Any]], **wanted: Any) -> Draws:
    """A law's `draw` whose knob depends on the case. Args: wanted: fields of `Wanted`."""

    @st.composite
    def drawn(draw: st.DrawFn, declaration: Declaration, ease: Ease) -> Drawn:
        case = draw(cases(declaration, Wanted(ease=ease, **wanted)))
        return case, draw(knob(declaration, case))

    return drawn
