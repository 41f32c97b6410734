"""What integer and predicate instructions compute.

Each function takes an opcode's modifiers and its sources, in the order in which they are printed.
A source with a minus comes as 2^32 less its value, so that sums carry as those of the adder.

Source: NVIDIA, "CUDA Binary Utilities", instruction set tables; the meaning of operands was inferred from PTX and the
SASS that ptxas makes of it, and is held against executed instructions that were counted on a GPU.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..thread_values import SHAPE, WORD_MASK, Array, Results, signed, sum_of

COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
}
HALVES = frozenset({"U16x2", "S16x2"})
STRICT = {"LT": "LT", "LE": "LT", "GT": "GT", "GE": "GT"}


def add(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """IADD3, VIADD: sum of up to three words and carries; the carries out count how often the sum wraps."""
    numbers = [source for source in sources if source.dtype != np.bool_]
    if "64" in modifiers:
        return _words(sum_of(numbers)), ()
    carries = [source.astype(np.int64) for source in sources if source.dtype == np.bool_] if "X" in modifiers else []
    total = sum_of(numbers + carries)
    return (total & WORD_MASK,), carries_of(total, 2)


def carries_of(total: Array, times: int = 1) -> Iterator[Array]:
    """Whether a sum wraps once, and whether it wraps that number of times."""
    return (total >= wraps << 32 for wraps in range(1, times + 1))


def multiply_add(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """IMAD: a * b + c; c is a pair of words where the product is wide, or its upper half is wanted."""
    a, b, c = sources[:3]
    unsigned = "U32" in modifiers
    if "WIDE" in modifiers or "HI" in modifiers:
        product = _bits(a if unsigned else signed(a)) * _bits(b if unsigned else signed(b))
        plain = total = product + _bits(c)
        if "X" in modifiers:
            total = plain + _bits(sources[3].astype(np.int64))
        high = (total >> np.uint64(32)).view(np.int64)
        words = (high,) if "HI" in modifiers else ((total & np.uint64(WORD_MASK)).view(np.int64), high)
        return words, _carried(product, plain, total)
    # What is above 32 bits, the signs of the factors included, does not count.
    carries = sources[3:4] if "X" in modifiers else []
    return (sum_of([a * b, c, *carries]) & WORD_MASK,), ()


def _carried(product: Array, plain: Array, total: Array) -> Iterator[Array]:
    """Whether a sum of 64 bits wraps. Args: product, plain, total: before the last source, and before its carry."""
    yield (plain < product) | (total < plain)


def _bits(value: Array) -> Array:
    return value.astype(np.int64, copy=False).view(np.uint64)


def shifted_add(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """LEA: (a << shift) + b; with HI the upper word of the pair (c, a), shifted, + b."""
    carries = []
    if "X" in modifiers:
        *sources, carried = sources
        carries = [carried.astype(np.int64)]
    if "HI" not in modifiers:
        a, b, shift = sources[:3]
        # Minus zero carries, however far it is shifted.
        moved = a << (shift & 31) & WORD_MASK
        total = sum_of([np.where(a > WORD_MASK, a, moved) if (a > WORD_MASK).any() else moved, b, *carries])
        return (total & WORD_MASK,), carries_of(total)
    if "SX32" in modifiers:
        a, b, shift = sources[:3]
        c = signed(a) >> 31
    else:
        a, b, c, shift = sources[:4]
    pair = (c & WORD_MASK) << 32 | a
    shift = shift & 31
    upper = (pair << shift) >> 32 & WORD_MASK
    total = sum_of([upper, b, *carries])
    return (total & WORD_MASK,), carries_of(total)


def shift(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """SHF: a pair (high, low) shifted; its low or, with HI, its high word."""
    low, amount, high = sources[:3]
    wide = "U64" in modifiers or "S64" in modifiers
    most = 64 if wide else 32
    amount = amount & (most - 1) if "W" in modifiers else np.minimum(amount, most)
    within, none_left = np.minimum(amount, 63), (amount >= 64).any()
    if modifiers[0] == "L":
        # Bits that leave a 32-bit shift's low word enter the high one.
        moved = (high << 32 | low) << within
    elif "S32" in modifiers or "S64" in modifiers:
        moved, none_left = (signed(high) << 32 | low) >> within, False
    else:
        moved = (_bits(high << 32 | low) >> _bits(within)).view(np.int64)
    moved = np.where(amount >= 64, 0, moved) if none_left else moved
    return ((moved >> 32 if "HI" in modifiers else moved) & WORD_MASK,), ()


def logic(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """LOP3: any function of three bits, by its truth table; whether it is not 0, or (PAND: and) a predicate holds."""
    a, b, c, table = sources[:4]
    result = looked_up(int(table.flat[0]), a, b, c, WORD_MASK)
    holds = result != 0
    for joined in sources[4:5]:
        holds = holds & joined if "PAND" in modifiers else holds | joined
    return (result,), (holds,)


def predicate_logic(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """PLOP3: two functions of three predicates."""
    a, b, c = (source.astype(np.int64) for source in sources[:3])
    return (), (looked_up(int(table.flat[0]), a, b, c, 1) != 0 for table in sources[3:5])


def looked_up(table: int, a: Array, b: Array, c: Array, mask: int) -> Array:
    """Bits of three words through a truth table. Args: mask: bits that there are."""
    result = _function(table, (a, b, c), mask)
    return np.full(SHAPE, result, dtype=np.int64) if isinstance(result, int) else result & mask


def _function(table: int, words: Sequence[Array], mask: int) -> Array | int:
    """The same of any number of words: what it is where the first has 0, and whether a 1 there turns it round."""
    if not words:
        return mask if table else 0
    rows = 1 << len(words) - 1
    clear, turned = table & (1 << rows) - 1, (table ^ table >> rows) & (1 << rows) - 1
    without = _function(clear, words[1:], mask)
    if not turned:
        return without
    where = _function(turned, words[1:], mask)
    turning = words[0] if isinstance(where, int) else words[0] & where
    return turning ^ without


def compare(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """ISETP: a against b, joined with a predicate; with EX the upper words of a comparison begun on the lower ones."""
    relation = modifiers[0]
    a, b, joined = sources[:3]
    if "U32" not in modifiers and "U64" not in modifiers and "S64" not in modifiers:
        a, b = signed(a), signed(b)
    elif "U64" in modifiers:
        a, b = _bits(a), _bits(b)
    holds = COMPARE[relation](a, b)
    if "EX" in modifiers:
        lower = sources[3]
        if relation in STRICT:
            holds = COMPARE[STRICT[relation]](a, b) | ((a == b) & lower)
        else:
            holds = holds & lower if relation == "EQ" else holds | lower
    join = np.bitwise_or if "OR" in modifiers else np.bitwise_xor if "XOR" in modifiers else np.bitwise_and
    return (), (join(~holds if turned else holds, joined) for turned in (False, True))


def smaller_or_larger(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """IMNMX, VIADDMNMX: the smaller where the predicate holds, else the larger."""
    *numbers, smaller = sources
    if (
        smaller.dtype != np.bool_
        or any(number.dtype == np.bool_ for number in numbers)
        or HALVES.intersection(modifiers)
    ):
        raise NotImplementedError
    if len(numbers) == 3:
        numbers = [numbers[0] + numbers[1] & WORD_MASK, numbers[2]]
    a, b = numbers if "U32" in modifiers else (signed(number) for number in numbers)
    return (np.where(smaller, np.minimum(a, b), np.maximum(a, b)) & WORD_MASK,), ()


def select(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """SEL and FSEL: one of two words."""
    a, b, first = sources[:3]
    return (np.where(first, a, b),), ()


def move(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """MOV."""
    if "64" in modifiers:
        return _words(sources[0]), ()
    return (sources[0] & WORD_MASK,), ()


def absolute(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """IABS."""
    return (np.abs(signed(sources[0])),), ()


def extend(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """SGXT: the lowest bits of a word, with or without their sign."""
    a, width = sources[:2]
    width = np.clip(width, 1, 32)
    bits = a & (np.int64(1) << width) - 1
    if "U32" in modifiers:
        return (bits,), ()
    sign = np.int64(1) << (width - 1)
    return ((bits ^ sign) - sign & WORD_MASK,), ()


def _words(value: Array) -> tuple[Array, Array]:
    return value & WORD_MASK, value >> 32 & WORD_MASK
