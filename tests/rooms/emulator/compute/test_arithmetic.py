"""Integer instructions, against arithmetic with numbers of any size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilesight.simulator.emulator.compute import arithmetic
from tilesight.simulator.emulator.compute.by_opcode import find_operation
from tilesight.simulator.emulator.thread_values import Array, truth, word

WORD = 1 << 32
WORDS = st.one_of(st.integers(0, WORD - 1), st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, WORD - 1]))
LONG = st.integers(0, WORD * WORD - 1)


def number(array: Array) -> int:
    """The one value of an array."""
    assert array.size == 1
    return int(array.flat[0])


def signed(value: int, bits: int = 32) -> int:
    """Two's complement."""
    return value - (1 << bits) if value >> (bits - 1) else value


def long(value: int) -> Array:
    """A pair of words as one number of 64 bits."""
    return np.array([[[signed(value, 64)]]], dtype=np.int64)


@given(WORDS, WORDS, WORDS, st.booleans(), st.booleans())
def test_a_sum_of_three_words_carries_as_often_as_it_wraps(a: int, b: int, c: int, x: bool, y: bool) -> None:
    """Addresses and counters of 64 bits, which are added in two steps, would lose a carry."""
    (total,), (once, twice) = arithmetic.add(("X",), [word(a), word(b), word(c), truth(x), truth(y)])
    exact = a + b + c + x + y
    assert (number(total), number(once), number(twice)) == (exact % WORD, exact >= WORD, exact >= 2 * WORD)


@given(WORDS, WORDS, LONG, st.booleans())
def test_a_wide_product_takes_two_words(a: int, b: int, c: int, unsigned: bool) -> None:
    """The division by an invariant, which keeps the upper word, would come out wrong."""
    modifiers = ("WIDE", "U32") if unsigned else ("WIDE",)
    (low, high), (carry,) = arithmetic.multiply_add(modifiers, [word(a), word(b), long(c)])
    product = (a * b if unsigned else signed(a) * signed(b)) % (WORD * WORD)
    exact = product + c
    assert number(low) + WORD * number(high) == exact % (WORD * WORD)
    assert bool(number(carry)) == (exact >= WORD * WORD)
    (upper,), _ = arithmetic.multiply_add((*modifiers[1:], "HI"), [word(a), word(b), long(c)])
    assert number(upper) == number(high)


@given(WORDS, WORDS, WORDS)
def test_a_narrow_product_keeps_the_lower_word(a: int, b: int, c: int) -> None:
    """Indices would be wrong."""
    (result,), _ = arithmetic.multiply_add((), [word(a), word(b), word(c)])
    assert number(result) == (a * b + c) % WORD


@given(WORDS, WORDS, WORDS, st.integers(0, 31))
def test_a_shifted_sum_may_take_its_bits_from_a_pair(a: int, b: int, c: int, shift: int) -> None:
    """Rounding towards zero before a division by a power of two, and addresses, would be wrong."""
    (low,), (carry,) = arithmetic.shifted_add((), [word(a), word(b), word(shift)])
    exact = (a << shift) % WORD + b
    assert (number(low), bool(number(carry))) == (exact % WORD, exact >= WORD)
    (high,), _ = arithmetic.shifted_add(("HI",), [word(a), word(b), word(c), word(shift)])
    assert number(high) == ((((c * WORD + a) << shift) >> 32) + b) % WORD
    (extended,), _ = arithmetic.shifted_add(("HI", "SX32"), [word(a), word(b), word(shift)])
    assert number(extended) == (((signed(a) << shift) >> 32) + b) % WORD
    (carried,), _ = arithmetic.shifted_add(("HI", "X"), [word(a), word(b), word(c), word(shift), truth(True)])
    assert number(carried) == (number(high) + 1) % WORD


@given(WORDS, st.integers(0, 31))
def test_taking_a_shifted_zero_away_carries(b: int, shift: int) -> None:
    """The first chunk of a 64-bit index would lie beyond the end: b - (0 << shift) borrows nothing."""
    (low,), (carry,) = arithmetic.shifted_add((), [np.array([WORD]), word(b), word(shift)])
    assert (number(low), bool(number(carry))) == (b, True)


@given(WORDS, WORDS, st.integers(0, 40))
def test_a_shift_moves_bits_between_the_words_of_a_pair(low: int, high: int, amount: int) -> None:
    """Tile numbers, which are shifted indices, would be wrong."""
    pair = high * WORD + low

    def shift(*modifiers: str) -> int:
        (result,), _ = arithmetic.shift(modifiers, [word(low), word(amount), word(high)])
        return number(result)

    clamped = min(amount, 32)
    assert shift("R", "U32", "HI") == high >> clamped
    assert shift("R", "S32", "HI") == (signed(high) >> clamped) % WORD
    assert shift("R", "U64") == (pair >> amount) % WORD
    assert shift("L", "U32") == (low << clamped) % WORD
    assert shift("L", "U64", "HI") == ((pair << amount) >> 32) % WORD


@given(WORDS, WORDS, WORDS, st.integers(0, 255))
def test_three_words_are_joined_by_a_truth_table(a: int, b: int, c: int, table: int) -> None:
    """Masks would be wrong, and so would predicates that say whether any bit is left."""
    (result,), (any_bit,) = arithmetic.logic(("LUT",), [word(a), word(b), word(c), word(table)])
    exact = sum((table >> (4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1)) & 1) << i for i in range(32))
    assert (number(result), bool(number(any_bit))) == (exact, exact != 0)


@given(LONG, LONG, st.sampled_from(["LT", "LE", "GT", "GE", "EQ", "NE"]), st.booleans(), st.booleans())
def test_numbers_of_two_words_are_compared_in_two_steps(
    a: int, b: int, relation: str, unsigned: bool, joined: bool
) -> None:
    """A loop whose counter has 64 bits would end too early or never."""
    kind = ("U32",) if unsigned else ()
    _, (low, _) = arithmetic.compare((relation, "U32", "AND"), [word(a % WORD), word(b % WORD), truth(True)])
    sources = [word(a // WORD), word(b // WORD), truth(joined), low]
    _, (holds, inverse) = arithmetic.compare((relation, *kind, "AND", "EX"), sources)
    left, right = (a, b) if unsigned else (signed(a, 64), signed(b, 64))
    exact = {
        "LT": left < right,
        "LE": left <= right,
        "GT": left > right,
        "GE": left >= right,
        "EQ": left == right,
        "NE": left != right,
    }[relation]
    assert (bool(number(holds)), bool(number(inverse))) == (exact and joined, not exact and joined)


@given(WORDS, WORDS, WORDS, st.booleans())
def test_the_smaller_or_the_larger_is_chosen(a: int, b: int, c: int, smaller: bool) -> None:
    """Trip counts that are clipped at the end of a head would be wrong."""
    choose = min if smaller else max
    (result,), _ = arithmetic.smaller_or_larger((), [word(a), word(b), truth(smaller)])
    assert signed(number(result)) == choose(signed(a), signed(b))
    (result,), _ = arithmetic.smaller_or_larger((), [word(a), word(b), word(c), truth(smaller)])
    assert signed(number(result)) == choose(signed((a + b) % WORD), signed(c))


@given(WORDS, st.integers(1, 32))
def test_the_lowest_bits_are_extended(value: int, width: int) -> None:
    """Warp numbers that are cut out of a thread's number would be wrong."""
    low = value % (1 << width)
    (unsigned,), _ = arithmetic.extend(("U32",), [word(value), word(width)])
    (result,), _ = arithmetic.extend((), [word(value), word(width)])
    assert (number(unsigned), signed(number(result))) == (low, signed(low, width))


@pytest.mark.parametrize("opcode", ["HFMA2", "LDG.E.128", "HGMMA.64x64x16.F32", "MUFU.RCP64H"])
def test_what_works_on_data_has_no_known_result(opcode: str) -> None:
    """A branch on data would be followed as if its data were known."""
    operation = find_operation(opcode)
    if operation:
        with pytest.raises(NotImplementedError):
            operation(tuple(opcode.split(".")[1:]), [word(1)])


def test_every_truth_table_gives_its_rows() -> None:
    """All 256 functions of three bits, each held against the table that names it."""
    rows = np.arange(8, dtype=np.int64).reshape(1, 1, 8)
    a, b, c = rows >> 2 & 1, rows >> 1 & 1, rows & 1
    for table in range(256):
        result = np.broadcast_to(arithmetic.looked_up(table, a, b, c, 1), (1, 1, 8))
        assert result.ravel().tolist() == [table >> row & 1 for row in range(8)]
