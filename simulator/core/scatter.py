"""Numbers that lie apart like random ones: tensors are often powers of two apart."""

from .jit import inlined


@inlined
def scatter(number: int) -> int:
    """A number below 2^17 from one of any size (Fibonacci hashing, by the golden ratio)."""
    return ((number * 0x9E3779B1) & 0xFFFFFFFF) >> 15
