"""Pages of a cache: drawn, in order, shared, listed; and which keys lie in them once."""

from itertools import chain

import numpy as np
import pytest
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.pages import distinct_keys, pages_of
from tilesight.simulator.schedules.tiles import cache_tensors

LENGTHS = (100, 64, 30)
DECODE = AttentionProblem(batch=3, heads=8, kv_heads=2, seqlen_q=1, seqlen_k=128, head_dim=64, page=32)


def lists(order: str) -> list[list[int]]:
    return [numbers.tolist() for numbers in pages_of(order, LENGTHS, 32)]


def test_pages_in_order_are_dealt_out_one_after_the_other() -> None:
    """Four, two and one, the last of each partly filled."""
    assert lists("sequential") == [[0, 1, 2, 3], [4, 5], [6]]


def test_pages_that_are_drawn_are_a_permutation_and_a_seed_names_it() -> None:
    """Seed 0 where there is none."""
    assert sorted(chain.from_iterable(lists("random"))) == list(range(7))
    assert lists("random") == lists("random:0") != lists("random:1")


def test_sequences_that_share_their_first_keys_have_pages_of_their_own_for_the_rest() -> None:
    """64 of 128 keys of three sequences: two pages of all, two of each, a pool of eight."""
    pages = [numbers.tolist() for numbers in pages_of("shared:64", (128,) * 3, 32)]
    assert pages[0][:2] == pages[1][:2] == pages[2][:2]
    assert sorted(pages[0] + pages[1][2:] + pages[2][2:]) == list(range(8))
    assert distinct_keys("shared:64", (128,) * 3, 32) == 64 + 3 * 64


def test_keys_of_a_page_that_is_listed_for_several_count_once() -> None:
    """The last page of the first sequence has four keys, the second's first has 32: the page has 32."""
    order = "5 0 9 3/3 1/0"
    assert lists(order) == [[5, 0, 9, 3], [3, 1], [0]]
    assert lists("5,0,9,3\n3,1\n0\n") == lists(order)
    assert distinct_keys(order, LENGTHS, 32) == 32 + 32 + 32 + 32 + 32
    assert distinct_keys("sequential", LENGTHS, 32) == sum(LENGTHS)


def test_a_shared_prefix_lies_in_the_pool_once_and_need_be_read_once() -> None:
    """The pool has the largest number that is listed, and the table the pages of each."""
    alone, shared = DECODE, DECODE.but(page_order="shared:64")
    assert alone.compulsory.read_bytes - shared.compulsory.read_bytes == 2 * 2 * (2 * 64) * 64 * 2
    keys, _, table = cache_tensors(shared)
    assert keys.slabs == 8
    numbers = np.frombuffer(table.values or b"", dtype=np.int32).reshape(3, 5)
    assert numbers[:, 0].tolist() == [128, 128, 128]
    assert (numbers[0, 1:3] == numbers[1:, 1:3]).all()
    listed = DECODE.but(page_order="0 1 2 3/4 5 6 7/8 9 10 99")
    assert cache_tensors(listed)[0].slabs == 100


def test_problems_with_other_pages_have_other_keys() -> None:
    """Also those whose pages are listed."""
    orders = ("random", "random:1", "sequential", "shared:64", "0 1 2 3/4 5 6 7/8 9 10 11", "0 1 2 3/4 5 6 7/8 9 10 12")
    assert len({DECODE.but(page_order=order).key for order in orders}) == len(orders)
    assert DECODE.but(page_order=orders[-1]).text.endswith("pages of 32, listed")


@pytest.mark.parametrize(
    ("order", "text"),
    [
        ("reversed", "page_order = 'reversed': must be random"),
        ("shared:65", "page_order: shared:65: must be whole pages of 32 keys"),
        ("shared:160", "page_order: shared:160: the shortest sequence has 128 keys"),
        ("0 1 2 3", "page_order: lists pages of 1 sequences: must be 3"),
        ("0 1 2/3 4 5 6/7 8 9 10", "page_order: lists 3 pages of sequence 0: must be 4, for 128 keys in pages of 32"),
        ("0 1 2 2/3 4 5 6/7 8 9 10", "page_order: lists a page of sequence 0 twice"),
        ("0 1 2 16777216/3 4 5 6/7 8 9 10", "page_order: lists page 16777216: must be at most 16777215"),
    ],
)
def test_pages_that_fit_no_cache_are_refused_in_one_line(order: str, text: str) -> None:
    """What is listed, and how many there must be."""
    with pytest.raises(ValueError, match=text) as caught:
        DECODE.but(page_order=order)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("order", ["sequential", "random", "3 0 9/1 2"])
def test_a_pool_has_room_for_every_head_of_its_last_page(order: str) -> None:
    """As vLLM keeps it, (pages, page, G, D): a page as many rows as it has keys times heads, up to the last number."""
    problem = AttentionProblem(
        batch=2, heads=8, kv_heads=2, seqlen_q=1, seqlen_k=96, lengths=(96, 64), head_dim=64, page=32, page_order=order
    )
    last = max(int(numbers.max()) for numbers in pages_of(order, (96, 64), 32))
    for tensor in cache_tensors(problem)[:2]:
        assert (tensor.slabs, tensor.rows, tensor.cols) == (last + 1, 32 * 2, 64)
        assert tensor.size_bytes == (last + 1) * 32 * 2 * 64 * 2


def test_pages_that_are_full_hold_what_a_cache_in_one_piece_does() -> None:
    """Whatever the page: batch x keys x heads x head dim, twice."""
    contiguous = DECODE.but(page=0, lengths=())
    whole = [tensor.size_bytes for tensor in cache_tensors(contiguous)[:2]]
    for page in (16, 32, 64):
        assert [tensor.size_bytes for tensor in cache_tensors(DECODE.but(page=page))[:2]] == whole
