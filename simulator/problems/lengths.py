"""Lengths of the sequences of a batch, in a line of text: `8192,1024x15`, or `uniform:1024-32768x64:7`.

The first lists them, `LENGTHxCOUNT` for several alike; the second draws so many, evenly between two, from a seed.
"""

import re
from random import Random

UNIFORM = re.compile(r"uniform:(\d+)-(\d+)x(\d+)(?::(\d+))?")
SOME = re.compile(r"(\d+)(?:x(\d+))?")
MAX_SEQUENCES = 1 << 20
"""Of a batch; as many as it may have heads, all sequences together."""
ALLOWED = "lengths such as 8192,1024x15, or uniform:LOW-HIGHxCOUNT:SEED"


def lengths_of(text: str) -> tuple[int, ...]:
    """The lengths that a text names, in order. Raises: ValueError: it names none; one line."""
    compact = re.sub(r"\s+", ",", text.strip())
    if match := UNIFORM.fullmatch(compact):
        low, high, count = (int(match[place]) for place in (1, 2, 3))
        if not 1 <= low <= high or not count:
            raise ValueError(f"lengths = {compact!r}: must be {ALLOWED}, LOW from 1 to HIGH")
        _check_count(count)
        draw = Random(int(match[4] or 0))
        return tuple(draw.randint(low, high) for _ in range(count))
    lengths: list[int] = []
    for part in filter(None, compact.split(",")):
        match = SOME.fullmatch(part)
        if match is None or not int(match[1]) or match[2] == "0":
            raise ValueError(f"lengths: {part!r}: must be {ALLOWED}, each 1 or more")
        count = int(match[2] or 1)
        _check_count(len(lengths) + count)
        lengths += [int(match[1])] * count
    if not lengths:
        raise ValueError(f"lengths = {text!r}: must be {ALLOWED}")
    return tuple(lengths)


def _check_count(count: int) -> None:
    if count > MAX_SEQUENCES:
        raise ValueError(f"lengths: names {count} sequences: must be at most {MAX_SEQUENCES} (2^20)")


def words(lengths: tuple[int, ...]) -> str:
    """E.g. `1024 to 32768 (mean 16000)`."""
    mean = sum(lengths) / len(lengths)
    return f"{min(lengths)} to {max(lengths)} (mean {mean:.0f})"
