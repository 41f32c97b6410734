"""Bits and bytes of words, against Python's numbers of any size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.emulator.compute import bit_fields
from tilesight.simulator.emulator.thread_values import Array, word

WORD = 1 << 32
WORDS = st.one_of(st.integers(0, WORD - 1), st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, WORD - 1]))


def number(array: Array) -> int:
    """The one value of an array."""
    assert array.size == 1
    return int(array.flat[0])


@given(WORDS, WORDS, st.integers(0, 0xFFFF))
def test_bytes_are_permuted(a: int, b: int, selector: int) -> None:
    """Words that are packed of two halves would be wrong."""
    (result,), _ = bit_fields.permute((), [word(a), word(selector), word(b)])
    source = a.to_bytes(4, "little") + b.to_bytes(4, "little")
    chosen = [selector >> 4 * i & 15 for i in range(4)]
    exact = bytes(
        255 * (source[selector_bits & 7] >> 7) if selector_bits & 8 else source[selector_bits]
        for selector_bits in chosen
    )
    assert number(result).to_bytes(4, "little") == exact


@pytest.mark.parametrize(
    ("mode", "first", "bytes_"),
    [
        ("F4E", 3, [3, 4, 5, 6]),
        ("B4E", 1, [1, 0, 7, 6]),
        ("RC8", 2, [2, 2, 2, 2]),
        ("ECL", 2, [2, 2, 2, 3]),
        ("ECR", 2, [0, 1, 2, 2]),
        ("RC16", 1, [2, 3, 2, 3]),
    ],
)
def test_bytes_are_chosen_by_modes(mode: str, first: int, bytes_: list[int]) -> None:
    """As the table of modes in the PTX manual has them, lowest byte first."""
    (result,), _ = bit_fields.permute((mode,), [word(0x03020100), word(first), word(0x07060504)])
    assert list(number(result).to_bytes(4, "little")) == bytes_


@given(WORDS)
def test_bits_are_counted_found_and_turned_round(value: int) -> None:
    """Ranks that are counted from votes would be wrong."""
    (ones,), _ = bit_fields.count((), [word(value)])
    (highest,), _ = bit_fields.leading(("U32",), [word(value)])
    (zeros,), _ = bit_fields.leading(("U32", "SH"), [word(value)])
    (turned,), _ = bit_fields.reverse((), [word(value)])
    assert number(ones) == value.bit_count()
    assert number(highest) == (value.bit_length() - 1) % WORD
    assert number(zeros) == (32 - value.bit_length() if value else WORD - 1)
    assert number(turned) == int(f"{value:032b}"[::-1], 2)


@given(st.integers(0, 40), st.integers(0, 40))
def test_a_mask_has_so_many_bits_from_a_place_on(begin: int, width: int) -> None:
    """Votes of some lanes alone would be wrong."""
    (clamped,), _ = bit_fields.mask((), [word(begin), word(width)])
    assert number(clamped) == ((1 << width) - 1 << begin) % WORD
    (wrapped,), _ = bit_fields.mask(("W",), [word(begin), word(width)])
    assert number(wrapped) == ((1 << width % 32) - 1 << begin % 32) % WORD


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_a_word_becomes_a_narrower_number(value: int) -> None:
    """With SAT it is cut to the range, else its lowest bits are taken."""
    (cut,), _ = bit_fields.convert(("S8", "S32", "SAT"), [word(value)])
    (taken,), _ = bit_fields.convert(("S16", "S32"), [word(value)])
    assert number(cut) == max(-128, min(127, value)) % WORD
    assert number(taken) == int(np.int64(value).astype(np.int16)) % WORD
