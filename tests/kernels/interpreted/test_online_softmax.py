"""Row softmax, naive, safe and online: judged row by row against fp64; where naive fails, and what is no number."""

import warnings
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.interpreted.inputs import INPUTS
from tilesight.kernels.launch.launch import TORCH_DTYPES
from tilesight.kernels.online_softmax import online_softmax
from tilesight.kernels.reference import judge_softmax, softmax
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.online_softmax import SOFTMAX_VARIANT

variants = pytest.mark.parametrize("variant", SOFTMAX_VARIANT.values)
DTYPES = ("fp32", "fp16", "bf16")
SAFE = ("safe", "online")
SMALL = Config(block_m=4, block_n=32)
MINUS_INFINITY = float("-inf")
# exp(88.72) is the largest fp32 number.
OVERFLOWS_ABOVE = 88.0


@pytest.fixture(autouse=True)
def _numpy_may_overflow() -> Any:
    """The interpreter computes with numpy, which warns of what a GPU does silently."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def draw(shape: tuple[int, int, int, int], kind: str, dtype: str, seed: int = 0) -> torch.Tensor:
    """Scores: those of `INPUTS`, four times wider, so that "huge logits" are some hundreds."""
    return (4.0 * INPUTS[kind](shape, torch.Generator().manual_seed(seed))).to(TORCH_DTYPES[dtype])


def right(x: torch.Tensor, variant: str, config: Config = SMALL) -> None:
    y = online_softmax(x, variant=variant, config=config)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    verdict = judge_softmax(y, x, block_n=config.block_n, safe=variant != "naive")
    assert verdict.right, verdict.text


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """Rows shorter and longer than a block, at its edge, of one element; strips full and ragged."""
    lengths = st.one_of(st.integers(1, 150), st.sampled_from((16, 31, 32, 33, 64, 65, 128)))
    return draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 9)), draw(lengths)


@variants
@settings(max_examples=20)
@given(
    shape=shapes(),
    kind=st.sampled_from(sorted(INPUTS)),
    dtype=st.sampled_from(DTYPES),
    block_m=st.sampled_from((1, 2, 16)),
    block_n=st.sampled_from((16, 32, 64)),
    seed=st.integers(0, 99),
)
def test_output_is_right_for_every_shape_and_block(
    variant: str, shape: tuple[int, int, int, int], kind: str, dtype: str, block_m: int, block_n: int, seed: int
) -> None:
    """All dtypes and kinds of input, those aside that naive cannot take."""
    x = draw(shape, kind, dtype, seed)
    if variant == "naive":
        # Neither sums that overflow nor rows that underflow.
        x = x.clamp(-80.0, 80.0)
    right(x, variant, Config(block_m=block_m, block_n=block_n))


@pytest.mark.parametrize("variant", SAFE)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", INPUTS)
def test_hard_inputs_are_computed_rightly(variant: str, dtype: str, kind: str) -> None:
    """Several blocks and strips, and each kind of input once for certain."""
    right(draw((1, 2, 10, 200), kind, dtype), variant)


@pytest.mark.parametrize("dtype", DTYPES)
def test_naive_overflows_where_the_others_do_not(dtype: str) -> None:
    """That is what the maximum is for: NaN where an element is above 88, 0 beside it, and the judge sees it."""
    x = draw((1, 2, 10, 200), "huge logits", dtype)
    y = online_softmax(x, variant="naive", config=SMALL)
    above = x.float() > OVERFLOWS_ABOVE + 1
    assert above.any() and torch.isnan(y[above]).all()
    beside = above.any(dim=-1, keepdim=True) & (x.float() < OVERFLOWS_ABOVE)
    assert beside.any() and (y[beside] == 0).all()
    assert not judge_softmax(y, x, block_n=32, safe=False).right
    for variant in SAFE:
        right(x, variant)


def test_naive_underflows_where_the_others_do_not() -> None:
    """A row of -200 has exponentials of 0 alone."""
    x = torch.full((1, 1, 2, 50), -200.0)
    assert (online_softmax(x, variant="naive", config=SMALL) == 0).all()
    for variant in SAFE:
        assert torch.allclose(online_softmax(x, variant=variant, config=SMALL), torch.full_like(x, 1 / 50))


@variants
@pytest.mark.parametrize("dtype", DTYPES)
def test_masked_rows_are_zero_and_masked_elements_too(variant: str, dtype: str) -> None:
    """Rows of -inf alone, in a strip with others; rows whose first or last blocks are masked."""
    x = draw((1, 2, 9, 150), "random", dtype).clamp(-80.0, 80.0)
    x[0, 0, 1] = x[0, 1, 4:] = MINUS_INFINITY
    x[0, 0, 2, :100] = x[0, 0, 3, 40:] = MINUS_INFINITY
    y = online_softmax(x, variant=variant, config=SMALL)
    assert (y[x == MINUS_INFINITY] == 0).all()
    assert (y[0, 0, 1] == 0).all() and (y[0, 0, 2] != 0).any()
    right(x, variant)


@pytest.mark.parametrize("variant", SAFE)
def test_the_largest_numbers_there_are_do_not_overflow(variant: str) -> None:
    """Both ends of fp32, and differences beyond it."""
    end = torch.finfo(torch.float32).max
    x = torch.zeros((1, 1, 4, 40))
    x[0, 0, 0, 3], x[0, 0, 1], x[0, 0, 2], x[0, 0, 3, ::2] = end, -end, end, -end
    assert torch.equal(online_softmax(x, variant=variant, config=SMALL), torch.softmax(x, -1))


@variants
def test_a_nan_or_an_infinity_makes_its_whole_row_nan(variant: str) -> None:
    """As in torch, and no other row; naive, without a maximum, keeps an infinity to itself."""
    x = draw((1, 1, 6, 100), "random", "fp32").clamp(-80.0, 80.0)
    x[0, 0, 1, 7], x[0, 0, 2, 90], x[0, 0, 3] = float("nan"), float("inf"), float("nan")
    spoilt = torch.isnan(online_softmax(x, variant=variant, config=SMALL))[0, 0].sum(dim=-1).tolist()
    assert torch.isnan(torch.softmax(x, -1))[0, 0].sum(dim=-1).tolist() == [0, 100, 100, 100, 0, 0]
    assert spoilt == [0, 100, 1 if variant == "naive" else 100, 100, 0, 0]


def test_a_sum_is_rescaled_whenever_its_maximum_grows() -> None:
    """Rising rows: every block has a larger maximum than all before it; falling rows: none."""
    rising = torch.linspace(-300.0, 300.0, 200).expand(1, 1, 4, 200).contiguous()
    right(rising, "online")
    right(rising.flip(-1).contiguous(), "online")


def test_the_judge_sees_a_wrong_element() -> None:
    """One percent of a row's largest element, a row that is not normalised, a NaN."""
    x = draw((1, 1, 4, 100), "random", "fp32")
    y = softmax(x, working=True)
    assert judge_softmax(y, x, block_n=32).right
    for wrong in (y * 1.01, y + 0.01 * y.amax(), y.masked_fill(y == y.max(), float("nan"))):
        assert not judge_softmax(wrong, x, block_n=32).right


def test_the_configuration_names_the_variant_unless_it_is_named_beside_it() -> None:
    """An overflow tells which of them ran."""
    x = torch.full((1, 1, 1, 40), 100.0)
    naive = SMALL.but(softmax_variant="naive")
    assert torch.isnan(online_softmax(x, config=naive)).all()
    assert not torch.isnan(online_softmax(x, variant="safe", config=naive)).any()
    assert not torch.isnan(online_softmax(x)).any()


X = torch.zeros((1, 1, 8, 32))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x": [1.0]}, "x is a list: must be a torch.Tensor"),
        ({"x": X[0]}, "x has shape (1, 8, 32): must be (batch, heads, M, N)"),
        ({"x": X.double()}, "x has dtype float64: must be one of float32, float16, bfloat16"),
        ({"x": X.to(TORCH_DTYPES["fp8"])}, "schedule online_softmax: fp8 cannot hold most elements"),
        ({"x": X.transpose(2, 3)}, "x is not contiguous: pass x.contiguous()"),
        ({"x": X[..., :0].contiguous()}, "seqlen_k = 0: must be an integer of 1 or more"),
        ({"variant": "fast"}, "softmax_variant = 'fast': must be one of naive, safe, online"),
        ({"device": "h300"}, "device 'h300' is unknown"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(arguments: dict[str, Any], text: str) -> None:
    """Type, rank, dtype, layout, emptiness, variant, device."""
    with pytest.raises(ValueError) as caught:
        online_softmax(**{"x": X} | arguments)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
