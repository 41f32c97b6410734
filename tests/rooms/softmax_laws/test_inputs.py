"""What is drawn: legal, hard, and printable as an expression that makes it again."""

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from tilesight.softmax_laws.declare.case import Case
from tilesight.softmax_laws.declare.declaration import Declaration
from tilesight.softmax_laws.declare.formats import FORMATS, rounded
from tilesight.softmax_laws.draw import arrays
from tilesight.softmax_laws.draw.inputs import EDGES, Ease, Wanted, cases

ADAPTERS = ("softmax", "attention", "merge", "streaming")
QUICK = settings(database=None, max_examples=5000, phases=[Phase.generate])


def _declaration(adapter: str, dtype: str = "fp32", **declared: object) -> Declaration:
    causal = "last" if adapter == "attention" else "none"
    return Declaration(**{"adapter": adapter, "dtype": dtype, "causal": causal, **declared})  # type: ignore[arg-type]


@settings(max_examples=200)
@given(st.data(), st.sampled_from(ADAPTERS), st.sampled_from(["fp64", "fp32", "fp16", "bf16"]), st.sampled_from(Ease))
def test_a_case_is_legal(data: st.DataObject, adapter: str, dtype: str, ease: Ease) -> None:
    """Numbers of the format, V finite, scores no larger than declared, and every row sees a key."""
    if adapter == "merge" and dtype in ("fp16", "bf16"):
        dtype = "fp32"
    declaration = _declaration(adapter, dtype)
    case = data.draw(cases(declaration, Wanted(ease=ease)))
    scores = case.scores()
    assert (scores > -np.inf).any(axis=-1).all()
    assert np.abs(scores[scores > -np.inf]).max() <= declaration.farthest_score
    for array in (case.x, case.q, case.k, case.v):
        if array is not None:
            assert np.array_equal(rounded(array, dtype), array)
            assert array is case.x or np.abs(array).max() <= FORMATS[dtype].largest
    assert (case.v is None) == (adapter == "softmax")
    assert all(0 < cut < case.keys for cut in case.cuts)


@settings(max_examples=200)
@given(st.data(), st.sampled_from(ADAPTERS))
def test_the_code_of_a_case_makes_its_arrays_again(data: st.DataObject, adapter: str) -> None:
    """A printed counter-example that makes another input shows nothing."""
    declaration = _declaration(adapter)
    case = data.draw(cases(declaration, Wanted()))
    known = {"np": np, **arrays.FUNCTIONS}
    for name, code in case.code.items():
        made = rounded(np.asarray(eval(code, known), np.float64), "fp32")
        assert np.array_equal(made, getattr(case, name)), code


def _some(case: Case) -> np.ndarray:
    scores = case.scores()
    return scores[scores > -np.inf]


HARD = {
    "one key": lambda case: case.keys == 1,
    "a block and one": lambda case: case.keys == 65,
    "the longest block": lambda case: case.keys >= max(EDGES) - 2,
    "-inf": lambda case: (case.scores() == -np.inf).any() and not case.causal,
    "-0": lambda case: case.x is not None and (np.signbit(case.x) & (case.x == 0)).any(),
    "the largest score": lambda case: _some(case).max() == 1e7,
    "the lowest score": lambda case: _some(case).min() == -1e7,
    "all below a mask of -1e6": lambda case: case.keys > 1 and _some(case).max() < -1e6,
    "exp overflows": lambda case: 88.0 < _some(case).max() < 90.0,
    "exp underflows": lambda case: -105.0 < _some(case).max() < -87.0,
    "a subnormal": lambda case: ((_some(case) != 0) & (np.abs(_some(case)) < 1e-38)).any(),
    "repeated keys": lambda case: case.keys > 4 and len(np.unique(_some(case))) == 1,
    "rising scores": lambda case: case.keys > 8 and (case.scores()[0, 0, 1:] > case.scores()[0, 0, :-1]).all(),
    "falling scores": lambda case: case.keys > 8 and (case.scores()[0, 0, 1:] < case.scores()[0, 0, :-1]).all(),
    "a far offset": lambda case: case.keys > 8 and _some(case).min() > 900 and len(np.unique(_some(case))) > 4,
    "outliers": lambda case: any("outliers" in code for code in case.code.values()),
    "values that overflow fp16 in sums": lambda case: case.v is None or np.abs(case.v).max() > 32000,
}


@pytest.mark.parametrize("what", HARD)
def test_hard_inputs_are_drawn(what: str) -> None:
    """Each kind that breaks kernels is within reach of a search; one that is not would be no test."""
    case = find(cases(_declaration("streaming"), Wanted()), HARD[what], settings=QUICK)
    assert HARD[what](case)


def test_masks_and_shapes_of_attention_are_drawn() -> None:
    """Causal and not, more queries than keys and fewer, blind rows where they are wanted and only there."""
    declaration = _declaration("attention")
    for what in (
        lambda case: case.causal and case.rows < case.keys,
        lambda case: not case.causal and case.rows > case.keys,
        lambda case: case.causal and case.rows == case.keys > 64,
        lambda case: len(case.q) == 2,
    ):
        find(cases(declaration, Wanted()), what, settings=QUICK)
    blind = find(cases(declaration, Wanted(causal=True, blind_rows=True)), lambda case: True, settings=QUICK)
    assert not blind.visible()[0].any()


def test_shapes_can_be_pinned() -> None:
    """A compiler is spared what a declaration does not name."""
    declaration = _declaration("attention", shapes=((2, 3), (4, 4)), head_dims=(32,))

    @settings(database=None, max_examples=30)
    @given(cases(declaration, Wanted(causal=False)))
    def pinned(case: Case) -> None:
        assert (case.rows, case.keys) in declaration.shapes
        assert case.q is not None and case.q.shape[0] == 2 and case.q.shape[2] == 32

    pinned()


def test_counter_examples_shrink_to_few_keys_and_round_numbers() -> None:
    """Of all rows with two scores a thousand apart, the shortest has two keys."""
    case = find(
        cases(_declaration("softmax"), Wanted(ease=Ease.FEW)),
        lambda case: np.ptp(case.scores()[0, 0][case.scores()[0, 0] > -np.inf]) >= 1000.0,
        settings=settings(database=None, max_examples=5000),
    )
    assert case.x is not None and case.x.shape == (1, 2)
    assert sorted(np.abs(case.x[0])) == [0.0, 1000.0]


@pytest.mark.parametrize(("ease", "keys"), [(Ease.FEW, 8), (Ease.PLAIN, 257)])
def test_plain_inputs_are_of_round_numbers(ease: Ease, keys: int) -> None:
    """What counter-examples are looked for among, once there is one: nothing by a seed, few keys or any number."""

    @settings(database=None, max_examples=60)
    @given(cases(_declaration("attention"), Wanted(ease=ease)))
    def plain(case: Case) -> None:
        assert case.keys <= keys
        assert not any(name in code for name in ("normal", "outliers", "rising") for code in case.code.values())

    plain()
    find(cases(_declaration("attention"), Wanted(ease=ease)), lambda case: case.keys == keys, settings=QUICK)


@pytest.mark.parametrize("adapter", ["softmax", "attention", "streaming"])
def test_low_rows_end_at_plain_ones_where_those_will_do(adapter: str) -> None:
    """A counter-example of a low score would accuse a mask that has nothing to do with it."""
    case = find(
        cases(_declaration(adapter), Wanted(ease=Ease.FEW)),
        lambda case: case.keys > 1,
        settings=settings(database=None, max_examples=2000),
    )
    assert np.abs(_some(case)).max() == 0.0


@pytest.mark.parametrize(("dtype", "farthest"), [("fp32", 1e7), ("fp16", 65504.0 * 64)])
def test_scores_of_attention_go_beyond_finite_masks(dtype: str, farthest: float) -> None:
    """In fp16, too, whose products are summed in fp32: queries are longer there."""
    low = find(
        cases(_declaration("attention", dtype), Wanted(low=True)),
        lambda case: case.scores().max() < -1e6,
        settings=QUICK,
    )
    assert _some(low).min() >= -farthest
    declared = _declaration("attention", dtype, largest_score=100.0)

    @settings(database=None, max_examples=30)
    @given(cases(declared, Wanted(low=True)))
    def as_declared(case: Case) -> None:
        assert np.abs(_some(case)).max() <= 100.0

    as_declared()


def test_the_same_search_finds_the_same_case() -> None:
    """Arrays come from seeds that are drawn, never from numpy's own state."""
    made = [arrays.made("normal", 3, 4, 2.0, 1.0) for _ in range(2)]
    assert np.array_equal(made[0].array, made[1].array)
    assert made[0].code == "normal(3, 4, 2.0, 1.0)"
