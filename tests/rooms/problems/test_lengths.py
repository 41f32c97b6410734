"""Lengths of sequences, in a line of text."""

import pytest
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.lengths import lengths_of

SHAPE = {"heads": 8, "kv_heads": 2, "seqlen_q": 1, "head_dim": 64}


def test_lengths_are_listed_or_drawn() -> None:
    """One line or several; a seed draws the same again."""
    assert lengths_of("8192,1024x3") == lengths_of("8192\n1024x3\n") == (8192, 1024, 1024, 1024)
    drawn = lengths_of("uniform:10-20x50:3")
    assert drawn == lengths_of("uniform:10-20x50:3") != lengths_of("uniform:10-20x50:4")
    assert len(drawn) == 50
    assert set(drawn) <= set(range(10, 21))


@pytest.mark.parametrize("text", ["", "0", "12,-3", "5x0", "uniform:20-10x3", "uniform:1-2x0", "many"])
def test_what_is_no_length_is_refused_with_what_is(text: str) -> None:
    """One line."""
    with pytest.raises(ValueError, match="lengths such as 8192,1024x15, or uniform:LOW-HIGHxCOUNT:SEED"):
        lengths_of(text)


def test_bytes_and_operations_are_those_of_each_sequence() -> None:
    """K and V of 100 + 28 keys of two heads of 64, in bytes where they are stored so; 4 D operations a score."""
    problem = AttentionProblem(batch=2, seqlen_k=100, lengths=(100, 28), **SHAPE)
    assert problem.compulsory.read_bytes == (2 * 2 * 128 * 64 + 2 * 8 * 64) * 2
    assert problem.but(kv_dtype="fp8").compulsory.read_bytes == 2 * 2 * 128 * 64 + 2 * 8 * 64 * 2
    assert problem.matmul_flop == 4 * 64 * 8 * 128
    assert problem.but(causal=True, seqlen_q=2).scores == 8 * (99 + 100 + 27 + 28)


def test_a_cache_that_cannot_be_is_refused_in_one_line() -> None:
    """Lengths that do not add up, pages of less than a key, an order without pages, a type that goes with no Q."""
    for wrong, text in (
        ({"lengths": (100,)}, "lengths: has 1: must have batch = 2"),
        ({"lengths": (90, 28)}, "lengths: the longest is 90: must be seqlen_k = 100"),
        ({"page": -1}, "page = -1"),
        ({"page_order": "sequential"}, "page_order = 'sequential': needs pages"),
        ({"kv_dtype": "fp4"}, "kv_dtype = 'fp4': must be one of fp8, i8"),
        ({"kv_dtype": "i8", "dtype": "fp32"}, "kv_dtype = 'i8': goes with dtype fp16 or bf16"),
    ):
        with pytest.raises(ValueError, match=text):
            AttentionProblem(batch=2, seqlen_k=100, **(SHAPE | wrong))
