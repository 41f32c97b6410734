"""Integer arithmetic that every layer needs: division that rounds up, the next power of two."""


def cdiv(dividend: int, divisor: int) -> int:
    """Quotient, rounded up."""
    return -(-dividend // divisor)


def next_power_of_two(value: int) -> int:
    """Smallest power of two that is not below a positive value."""
    return 1 << (value - 1).bit_length()
