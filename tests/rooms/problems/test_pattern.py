"""Masks with a pattern, held against their definitions, and texts that name none."""

import pytest
from hypothesis import given
from support.mask_definitions import masked_lengths, seen_by_definition
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.pattern import pattern_of

SHAPE = {"batch": 2, "heads": 4, "kv_heads": 2, "head_dim": 16}
FRAGMENT = {"seqlen_q": 512, "seqlen_k": 512, **SHAPE}


@given(case=masked_lengths())
def test_what_is_seen_is_what_the_definition_says(case: tuple[str, int, int, bool, int]) -> None:
    """Scores are counted exactly, and of a pattern the queries and keys that any score has."""
    pattern, m, n, causal, window = case
    problem = AttentionProblem(seqlen_q=m, seqlen_k=n, causal=causal, window=window, mask=pattern, **SHAPE)
    expected = seen_by_definition(pattern, m, n, causal=causal, window=window)
    assert problem.scores == 2 * 4 * expected.sum()
    if pattern:
        queries, keys = expected.any(axis=1).sum(), expected.any(axis=0).sum()
        assert problem.compulsory.read_bytes == 2 * (4 * queries + 2 * 2 * keys) * 16 * 2
        assert problem.compulsory.write_bytes == 2 * 4 * m * 16 * 2


def test_texts_of_one_mask_make_one_problem() -> None:
    """Lines or slashes, commas or none; lengths listed or counted."""
    blocks = [AttentionProblem(mask=f"blocks:{text}", **FRAGMENT) for text in ("10/11", "1 0\n1 1\n", "1,0/1,1")]
    documents = [AttentionProblem(mask=f"documents:{text}", **FRAGMENT) for text in ("128x4", "128,128,128,128")]
    assert len(set(blocks)) == len(set(documents)) == 1
    assert blocks[0].mask == "blocks:10/11"
    assert blocks[0].key != documents[0].key != AttentionProblem(**FRAGMENT).key
    assert blocks[0].text.endswith("fp16 2 x 2 blocks, 75 % of them")


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"mask": "diagonal"}, r"mask = 'diagonal': must be prefix:KEYS, documents:LENGTHS, blocks:ROWS"),
        ({"mask": "prefix:0"}, r"mask = 'prefix:0': must be prefix: a number of keys of 1 or more"),
        ({"mask": "documents:500,13"}, r"2 documents have 513 queries and keys together: must be seqlen_q = 512"),
        ({"mask": "documents:a"}, r"mask = 'documents:a': lengths: 'a': must be lengths such as"),
        ({"mask": "documents:512", "seqlen_q": 1}, r"must be seqlen_q = 1 and seqlen_k = 512"),
        ({"mask": "blocks:10/110"}, r"row 2 has 3 blocks: must have 2"),
        ({"mask": "blocks:masks.txt"}, r"row 1 is 'masks.txt': must be of 0 and 1"),
        ({"mask": "blocks:101/111"}, r"2 rows and 3 columns of blocks: must divide seqlen_q = 512 and seqlen_k = 512"),
        ({"mask": "band:9", "causal": True}, r"mask = 'band:9': reaches to both sides"),
        ({"mask": "first:4", "causal": True}, r"mask = 'first:4': stands beside a window"),
        ({"mask": "prefix:9", "lengths": (512, 9)}, r"mask = 'prefix:9': goes with sequences of one length"),
        ({"mask": 5}, r"mask = 5: must be a text"),
        ({"softcap": -1.0}, r"softcap = -1.0: must be above 0, or 0"),
        ({"sinks": 1}, r"sinks = 1: must be True or False"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused_in_one_line(asked: dict[str, object], text: str) -> None:
    """By field and value, with what is allowed."""
    with pytest.raises(ValueError, match=text) as error:
        AttentionProblem(**FRAGMENT | asked)
    assert "\n" not in str(error.value)


def test_a_pattern_is_named_by_its_text() -> None:
    """So a problem of JSON is the problem that was written."""
    for text in ("", "prefix:512", "first:4", "band:128", "documents:300,212", "blocks:10/11"):
        assert pattern_of(text).name == text
