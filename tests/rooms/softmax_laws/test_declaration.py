"""Declarations: from a dict that a function carries, from the command line, and what is refused."""

from typing import Any

import pytest
from tilesight.softmax_laws.declare.declaration import Declaration, declared, parsed

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"adapter": "flash"}, "adapter = 'flash': must be one of softmax, attention"),
    ({"dtype": "fp8"}, "dtype = 'fp8': must be one of"),
    ({"dtypes": ["int8"]}, "dtypes = 'int8'"),
    ({"dtypes": ["fp16"], "dtype": "fp32"}, "dtype = 'fp32': the implementation supports fp16"),
    ({"dtype": "bf16", "arrays": "numpy"}, "numpy has no such type"),
    ({"adapter": "merge", "dtype": "fp16"}, "states are kept in fp32 or fp64"),
    ({"masking": "some"}, "masking = 'some'"),
    ({"shapes": [[4, 0]]}, "must be whole numbers of 1 or more"),
    ({"shapes": [[4]]}, "pairs M, N"),
    ({"blocks": []}, "not empty"),
    ({"largest_score": 0.1}, "largest_score = 0.1"),
    ({"score_roundings": -1}, "score_roundings = -1"),
    ({"speed": 3}, "speed: no such declaration; there are adapter"),
    ({"largest_score": "much"}, "a value is of the wrong type"),
]


@pytest.mark.parametrize(("values", "text"), WRONG)
def test_what_is_not_allowed_is_named(values: dict[str, Any], text: str) -> None:
    """In one line, with name, value and what is allowed."""
    with pytest.raises(ValueError) as caught:
        declared(object(), **values)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_function_carries_its_declaration_and_others_go_above_it() -> None:
    """A plain dict, so that a kernel's file needs no import of this package."""

    def function() -> None:
        pass

    carried = {"masking": "entries", "dtypes": ["fp16", "bf16"], "shapes": [[1, 2]]}
    function.softmax_laws = carried  # type: ignore[attr-defined]
    declaration = declared(function, dtype="bf16", adapter=None)
    assert (declaration.masking, declaration.dtypes, declaration.dtype, declaration.shapes) == (
        "entries",
        ("fp16", "bf16"),
        "bf16",
        ((1, 2),),
    )
    function.softmax_laws = ["masking"]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="must be a dict"):
        declared(function)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("masking=none", ("masking", "none")),
        ("deterministic=false", ("deterministic", False)),
        ("gradient=True", ("gradient", True)),
        ("shapes=1x1,33x65", ("shapes", ((1, 1), (33, 65)))),
        ("blocks=16,32", ("blocks", (16, 32))),
        ("dtypes=fp16,bf16", ("dtypes", ("fp16", "bf16"))),
        ("score_roundings=2", ("score_roundings", 2)),
        ("largest_score=1e3", ("largest_score", 1000.0)),
        ("block=BLOCK_N", ("block", "BLOCK_N")),
    ],
)
def test_a_typed_declaration_is_read(text: str, value: tuple[str, Any]) -> None:
    """Every type of value that a declaration has can be typed."""
    assert parsed(text) == value
    Declaration(**dict([value]))


@pytest.mark.parametrize(
    "text", ["masking", "=none", "speed=3", "blocks=a,b", "shapes=3", "gradient=perhaps", "rank=x"]
)
def test_a_typed_declaration_that_is_none_is_refused(text: str) -> None:
    """In one line that repeats what was typed."""
    with pytest.raises(ValueError) as caught:
        Declaration(**dict([parsed(text)]))
    assert "\n" not in str(caught.value)


def test_formats_follow_from_the_declaration() -> None:
    """fp64 computes in fp64, all else in fp32; attention rounds weights to half formats; tf32 narrows fp32 alone."""
    assert Declaration(dtype="fp64").inner.digits == 53
    assert Declaration(dtype="fp16").inner.digits == 24
    assert Declaration(adapter="attention", dtype="bf16").weight.digits == 8
    assert Declaration(adapter="softmax", dtype="bf16").weight.digits == 53
    half, single = (Declaration(adapter="attention", dtype=dtype, products="tf32") for dtype in ("fp16", "fp32"))
    assert (half.operand, half.weight.digits) == (None, 11)
    assert single.operand is not None and single.operand.digits == single.weight.digits == 11
