"""The oracle is right, and its bounds are as wide as arithmetic needs and no wider."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tilesight.softmax_laws.declare.case import Case, case_of
from tilesight.softmax_laws.declare.declaration import Declaration
from tilesight.softmax_laws.draw.inputs import Wanted, cases
from tilesight.softmax_laws.laws.oracle import truth

ROWS = Declaration(adapter="softmax", dtype="fp32", arrays="numpy", lse="natural", causal="none")
HEADS = Declaration(adapter="attention", dtype="fp16", arrays="numpy", lse="natural", causal="last")


def _rows(*rows: list[float], **declared: object) -> Case:
    return case_of(Declaration(**{"adapter": "softmax", "dtype": "fp32", **declared}), x=np.array(rows))  # type: ignore[arg-type]


def test_weights_and_lse_of_a_row_are_those_of_the_formula() -> None:
    """exp(x) over its sum, and the logarithm of the sum."""
    true = truth(_rows([0.0, np.log(3.0)], [1000.0, 1000.0]), ROWS)
    assert true.o[0] == pytest.approx(np.array([[0.25, 0.75], [0.5, 0.5]]), rel=1e-6)
    assert true.lse[0] == pytest.approx([np.log(4.0), 1000.0 + np.log(2.0)], rel=1e-6)


def test_a_masked_row_is_0_and_minus_infinity_without_any_tolerance() -> None:
    """An implementation that is nearly right there is wrong."""
    true = truth(_rows([-np.inf, -np.inf]), ROWS)
    assert (true.o == 0).all() and (true.lse == -np.inf).all()
    assert (true.o_bound == 0).all() and (true.lse_bound == 0).all()


def test_a_causal_mask_is_aligned_as_declared() -> None:
    """To the last key: row i sees keys to i + N - M; to the first: keys to i."""
    q, k = np.zeros((1, 2, 16)), np.zeros((1, 4, 16))
    v = np.eye(4, 16)[None]
    for causal, seen in (("last", [3, 4]), ("first", [1, 2])):
        declaration = Declaration(adapter="attention", dtype="fp32", causal=causal)
        o = truth(case_of(declaration, q=q, k=k, v=v, causal=True), declaration).o[0]
        assert (o > 0).sum(axis=1).tolist() == seen


def test_scores_are_products_over_the_root_of_d() -> None:
    """Or as they are, where the implementation declares so."""
    q, k, v = np.full((1, 1, 16), 1.0), np.full((1, 1, 16), 0.5), np.ones((1, 1, 16))
    for scale, score in (("sqrt", 2.0), ("one", 8.0)):
        declaration = Declaration(adapter="attention", dtype="fp32", scale=scale)
        assert truth(case_of(declaration, q=q, k=k, v=v), declaration).lse[0, 0] == pytest.approx(score)


@settings(max_examples=100)
@given(st.data())
def test_softmax_in_the_declared_format_is_within_the_bounds(data: st.DataObject) -> None:
    """Written out in fp32 with a sum in order, the bound must hold; else it would accuse what is right."""
    case = data.draw(cases(ROWS, Wanted()))
    true, x = truth(case, ROWS), case.scores()[0].astype(np.float32)
    maximum = x.max(axis=1, keepdims=True)
    with np.errstate(under="ignore"):
        p = np.exp(x - maximum)
        total = np.add.accumulate(p, axis=1)[:, -1:]
        assert (np.abs(p / total - true.o[0]) <= true.o_bound[0]).all()
        assert (np.abs(maximum + np.log(total) - true.lse[0, :, None]) <= true.lse_bound[0, :, None] + 1e-37).all()


def test_bounds_are_not_wide() -> None:
    """For a few moderate scores, a few dozen roundings of fp32 in the outputs, and of fp16 where it is declared."""
    for dtype, eps in (("fp32", 2.0**-23), ("fp64", 2.0**-51)):
        declaration = Declaration(adapter="softmax", dtype=dtype)
        true = truth(case_of(declaration, x=np.array([[0.0, 1.0, -1.0, 0.5]])), declaration)
        assert (true.o_bound <= 100 * eps * true.o + 1e-37).all()
        assert (true.lse_bound <= 100 * eps).all()


@pytest.mark.parametrize(
    ("coarser", "finer"),
    [
        ({"dtype": "fp16"}, {"dtype": "fp32"}),
        ({"dtype": "bf16"}, {"dtype": "fp16"}),
        ({"score_roundings": 1}, {}),
        ({"score_roundings": 2}, {"score_roundings": 1}),
        ({"products": "tf32", "dtype": "fp32"}, {"dtype": "fp32"}),
        ({"weights": "bf16"}, {}),
        ({"output_block": 16}, {}),
        ({"compute": "fp16"}, {}),
    ],
)
def test_a_declaration_of_coarser_arithmetic_widens_the_bound(
    coarser: dict[str, object], finer: dict[str, object]
) -> None:
    """A declaration that the bound does not look at would be a promise without use."""
    random = np.random.default_rng(0)
    arrays = {name: random.integers(-8, 8, (1, 64, 16)) / 4 for name in "qkv"}
    wide, narrow = (
        Declaration(**{"adapter": "attention", "dtype": "fp16", **declared})  # type: ignore[arg-type]
        for declared in (coarser, finer)
    )
    bounds = [truth(case_of(declaration, **arrays), declaration).o_bound for declaration in (wide, narrow)]
    assert (bounds[0] > bounds[1]).all()


def test_scores_that_are_too_coarse_leave_only_the_hull() -> None:
    """Scores of 10,000 in bf16 are off by 20: no output can be told, but it lies among the values, and LSE near."""
    declaration = Declaration(adapter="attention", dtype="bf16", score_roundings=1)
    q, k = np.full((1, 1, 16), 128.0), np.stack([np.full(16, 24.0), np.full(16, 24.5)])[None]
    true = truth(case_of(declaration, q=q, k=k, v=np.eye(2, 16)[None]), declaration)
    assert (true.o_bound[0, 0, :2] >= 1.0).all()
    assert (true.o_bound < 1.05).all()
    assert (true.o_bound[0, 0, 2:] < 1e-30).all()
    assert 30.0 < true.lse_bound[0, 0] < 300.0
    assert (true.rounding_bound < 0.05).all()


def test_hidden_keys_have_no_weight_beside_coarse_scores() -> None:
    """Scores of -1e7 in fp32 tell no weights, but those of keys at -inf: a mask of -1e6 would give them all."""
    declaration = Declaration(adapter="softmax", dtype="fp32")
    true = truth(case_of(declaration, x=np.array([[-1e7, -1e7, -np.inf]])), declaration)
    assert np.isinf(true.o_bound[0, 0, :2]).all()
    assert true.o_bound[0, 0, 2] < 1e-37
