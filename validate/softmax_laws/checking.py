"""The laws of online softmax, to run against an implementation of one's own.

    from tilesight.softmax_laws import check

    def test_my_softmax():
        check(my_softmax)

`check` runs all laws in this process; `reproduce` holds an implementation to one law on one input, as printed
counter-examples do; `hunt` searches for a counter-example to one of `LAWS`.
Strategies are in `draw.inputs`, bounds in `laws.oracle`, the four ways to call in `call.adapters`.
"""

from collections.abc import Callable, Iterator
from typing import Any

from .call.calls import Violation
from .declare.case import case_of
from .laws.law import hold
from .run.fit import fit
from .run.hunt import EXAMPLES, LAWS, Result, find_law, hunt
from .run.report import failures_text

__all__ = ["LAWS", "Result", "Violation", "check", "check_each", "find_law", "fit", "hunt", "reproduce"]


def check_each(
    function: Callable[..., Any], *, examples: int = EXAMPLES, seed: int = 0, **given: Any
) -> Iterator[Result]:
    """Results of all laws, one after the other, in this process. Args, Raises: as `check`, but that a law fails."""
    subject = fit(function, **given)
    for law in LAWS:
        yield hunt(law, subject, examples=examples, seed=seed)


def check(function: Callable[..., Any], *, examples: int = EXAMPLES, seed: int = 0, **given: Any) -> list[Result]:
    """See that all laws that apply hold for an implementation; in this process, so a hang is not caught.

    Args:
        function: softmax, attention or merge function, or streaming class.
        examples: inputs for each law; seed: of what is drawn.
        given: declarations, e.g. adapter, dtype, masking; see `declare.declaration`.

    Returns:
        All results, for whoever wants to see which laws did not apply.

    Raises:
        AssertionError: a law does not hold; the text has the counter-example of each as a runnable snippet.
        ValueError: the function does not work on a plain input, or a declaration is not allowed.
    """
    results = list(check_each(function, examples=examples, seed=seed, **given))
    failed = [result for result in results if result.outcome == "failed"]
    if failed:
        raise AssertionError(failures_text(failed, function, given))
    return results


def reproduce(
    law: str,
    function: Callable[..., Any],
    *,
    knob: Any = None,
    masked: bool = False,
    cuts: tuple[int, ...] = (),
    x: Any = None,
    q: Any = None,
    k: Any = None,
    v: Any = None,
    **given: Any,
) -> None:
    """Hold an implementation to one law on one input.

    Args:
        law: name; knob: what the law changes; x, q, k, v, cuts: the input, as in `Case`;
        masked: whether the causal mask is asked for; given: declarations, among them how it is aligned (`causal`).

    Raises:
        Violation: the law does not hold.
    """
    if isinstance(given.get("causal"), bool):  # so older snippets say that the input asks for it
        masked = given.pop("causal")
    subject = fit(function, **given)
    arrays = {name: array for name, array in (("x", x), ("q", q), ("k", k), ("v", v)) if array is not None}
    hold(find_law(law), subject, case_of(subject.declaration, causal=masked, cuts=cuts, **arrays), knob)
