"""What is found by trying, and how a function that does not fit is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.softmax_laws.examples import Stream, attention, merge, softmax
from tilesight.softmax_laws.run.fit import fit

needs_torch = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))


def _row(x: Any) -> Any:
    p = np.exp(x - x.max())
    return p / p.sum()


def _matrices(q: Any, k: Any, v: Any) -> Any:
    p = np.exp(q @ k.T / q.shape[-1] ** 0.5)
    return (p / p.sum(axis=1, keepdims=True)) @ v


def _positional(q: Any, k: Any, v: Any, masked: bool) -> Any:
    return attention(q, k, v, masked)


def test_the_examples_are_recognised() -> None:
    """By their arguments, with what they return and show."""
    subjects = {function: fit(function) for function in (softmax, attention, merge, Stream)}
    assert [subject.declaration.adapter for subject in subjects.values()] == [
        "softmax",
        "attention",
        "merge",
        "streaming",
    ]
    assert {subject.declaration.arrays for subject in subjects.values()} == {"numpy"}
    assert {subject.declaration.lse for subject in subjects.values()} == {"natural"}
    assert (subjects[softmax].declaration.rank, subjects[attention].declaration.rank) == (2, 4)
    assert (subjects[softmax].declaration.block, subjects[attention].declaration.block) == ("block", "block_n")
    assert (subjects[attention].declaration.causal, subjects[attention].causal_name) == ("last", "causal")
    assert subjects[Stream].declaration.observes == ("max", "sum")


def test_axes_are_found_by_what_is_right() -> None:
    """Softmax of all elements at once, and attention of plain matrices, give wrong numbers for more axes."""
    assert fit(_row).declaration.rank == 1
    assert fit(_matrices).declaration.rank == 2
    assert fit(_matrices).declaration.causal == "none"


def test_a_fourth_argument_is_the_mask() -> None:
    """Whatever its name."""
    assert fit(_positional).causal_name is None
    assert fit(attention).causal_name == "causal"


def _first(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    """A mask that begins at the first key, as torch's scaled_dot_product_attention has it."""
    seen = np.tril(np.ones((q.shape[-2], k.shape[-2]), bool)) if causal else True
    scores = np.where(seen, q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ v


def _square(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    """One that refuses a mask where lengths differ."""
    assert not causal or q.shape == k.shape
    return _first(q, k, v, causal)


@pytest.mark.parametrize(("function", "alignment"), [(_positional, "last"), (_first, "first"), (_square, "square")])
def test_the_alignment_of_a_mask_is_found_by_trying(function: Callable[..., Any], alignment: str) -> None:
    """With fewer rows than keys, where alignments differ; `square` where that shows none."""
    assert fit(function).declaration.causal == alignment
    assert fit(function, causal="square").declaration.causal == "square"
    kinds = ["numpy, causal with M < N"]
    assert fit(function, skip=kinds).declaration.causal == "square"


@needs_torch
def test_torch_functions_are_given_tensors() -> None:
    """And gradients are found where there are any."""
    from laws import softmax_torch_samples

    declaration = fit(softmax_torch_samples.softmax).declaration
    assert (declaration.arrays, declaration.gradient) == ("torch", True)


def _five(a: Any, b: Any, c: Any, d: Any, e: Any) -> None:
    """Needs too much."""


def _nothing(x: Any) -> None:
    """Returns nothing."""


def _raises(x: Any) -> None:
    raise RuntimeError("two\nlines")


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (_five, {}, "_five needs 5 arguments: must be one of"),
    (_nothing, {}, "_nothing, called as softmax f(x)"),
    (_raises, {}, "raised RuntimeError: two lines"),
    (softmax, {"adapter": "attention"}, "TypeError"),
    (lambda x: x[..., :1], {}, "returned an output of shape (3, 1): must be (3, 5)"),
    (lambda a, b: a[0], {}, "must be a state (max, sum, output)"),
    (3, {"adapter": "softmax"}, "3 is a int: must be a function or a class"),
    (softmax, {"dtype": "fp8"}, "dtype = 'fp8'"),
    (softmax, {"lse": "none", "nonsense": 1}, "nonsense: no such declaration"),
]


@pytest.mark.parametrize(("function", "given", "text"), REFUSED)
def test_what_does_not_fit_is_refused_in_one_line(
    function: Callable[..., Any], given: dict[str, Any], text: str
) -> None:
    """With the function, how it was called, and what came of it."""
    with pytest.raises(ValueError) as caught:
        fit(function, arrays="numpy", **given)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_lse_that_is_declared_and_not_returned_is_refused() -> None:
    """A law that needs it would otherwise be skipped in silence."""
    with pytest.raises(ValueError, match="returned no LSE"):
        fit(_row, arrays="numpy", lse="natural")


def test_kinds_that_killed_a_process_are_not_tried_again() -> None:
    """The runner names them."""
    tried: list[str] = []
    with pytest.raises(ValueError):
        fit(softmax, trying=tried.append, skip=["numpy", "torch", "cuda"])
    assert tried == []
