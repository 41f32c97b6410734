"""What instructions make of the bits and bytes of a word: counts, masks, bytes chosen out of two words.

Source: PTX ISA 8.5, sections 9.7.1 (popc, clz, bfind, brev, bmsk) and 9.7.9.7 (prmt).
"""

from collections.abc import Callable, Sequence

import numpy as np

from ..thread_values import SHAPE, WORD_MASK, Array, Results, signed

BITS, BYTES = 32, 4
CHOICES: dict[str, Callable[[Array, int], Array]] = {
    "F4E": lambda first, place: first + place & 7,
    "B4E": lambda first, place: first - place & 7,
    "RC8": lambda first, place: first,
    "ECL": lambda first, place: np.maximum(first, place),
    "ECR": lambda first, place: np.minimum(first, place),
    "RC16": lambda first, place: (first & 1) * 2 + place % 2,
}
"""Which byte of two words goes to a place, by the lowest two bits of the selector."""
CONVERTED = {"U8": (0, 255), "S8": (-128, 127), "U16": (0, 65535), "S16": (-32768, 32767)}


def permute(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """PRMT: four bytes chosen out of eight, each by itself, or all by a mode."""
    a, selector, b = sources[:3]
    choose = CHOICES[modifiers[0]] if modifiers and modifiers[0] in CHOICES else None
    if modifiers and choose is None:
        raise NotImplementedError
    result = np.zeros(SHAPE, dtype=np.int64)
    for place in range(BYTES):
        choice = selector >> 4 * place & 15 if choose is None else choose(selector & 3, place)
        byte = np.where(choice & 4, b >> 8 * (choice & 3), a >> 8 * (choice & 3)) & 255
        result = result | np.where(choice & 8, np.where(byte & 128, 255, 0), byte) << 8 * place
    return (result,), ()


def count(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """POPC: bits that are set."""
    return (np.bitwise_count(sources[0] & WORD_MASK).astype(np.int64),), ()


def leading(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """FLO: place of the highest bit that is set, or of the highest unlike the sign; with SH from the top."""
    word = sources[0] & WORD_MASK
    if "U32" not in modifiers:
        word = np.where(signed(word) < 0, word ^ WORD_MASK, word)
    # A word has an exponent of its own in 64 bits, so that nothing is rounded.
    place = np.frexp(word.astype(np.float64))[1].astype(np.int64) - 1
    place = BITS - 1 - place if "SH" in modifiers else place
    return (np.where(word == 0, WORD_MASK, place),), ()


def reverse(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """BREV: the lowest bit becomes the highest."""
    word, result = sources[0] & WORD_MASK, np.zeros(SHAPE, dtype=np.int64)
    for place in range(BITS):
        result = result | (word >> place & 1) << (BITS - 1 - place)
    return (result,), ()


def mask(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """BMSK: a number of bits from a place on; both wrap at 32 with W."""
    begin, width = (source & WORD_MASK for source in sources[:2])
    if "W" in modifiers:
        begin, width = begin & (BITS - 1), width & (BITS - 1)
    ones = (np.int64(1) << np.minimum(width, BITS)) - 1
    return (np.where(begin < BITS, ones << np.minimum(begin, BITS), 0) & WORD_MASK,), ()


def convert(modifiers: tuple[str, ...], sources: Sequence[Array]) -> Results:
    """I2I: a word as a narrower number, cut to it with SAT."""
    kinds = [word for word in modifiers if word in CONVERTED]
    if not kinds:
        raise NotImplementedError
    low, high = CONVERTED[kinds[0]]
    number = sources[0] if "U32" in modifiers else signed(sources[0])
    if "SAT" in modifiers:
        return (np.clip(number, low, high) & WORD_MASK,), ()
    bits = number & (high - low)
    return (np.where((bits > high), bits - (high - low + 1), bits) & WORD_MASK,), ()
