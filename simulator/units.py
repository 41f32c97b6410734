"""Base units inside, human units at the edge.

Every number in Tilesight is in a base unit that its name ends with (`_bytes`, `_s`, `_hz`, `_flop`, ...).
This room turns them into text for people, and text from people into base units.
Capacities print in KiB/MiB/GiB (powers of 1024), traffic and bandwidth in kB/MB/GB (powers of 1000).
"""

import re

_NUMBER = r"[-+]?[0-9][0-9_]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?"
_DECIMAL = ("", "k", "M", "G", "T", "P")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_MULTIPLIER = {prefix: 1000**power for power, prefix in enumerate(_DECIMAL)}
_MULTIPLIER |= {prefix: 1024**power for power, prefix in enumerate(_BINARY)}
_QUANTITY = re.compile(rf"({_NUMBER})\s*([kMGTP]|[KMGTP]i)?(?:B|Hz|W|s|FLOP)?(?:/s)?")
_DURATION = re.compile(rf"({_NUMBER})\s*([mun]?)s")
_PART_OF_SECOND = {"": 1.0, "m": 1e3, "u": 1e6, "n": 1e9}


def _scaled(value: float, base: int, prefixes: tuple[str, ...], unit: str) -> str:
    power = 0
    # 999.5 is the largest value that still prints with three digits before the next prefix is due.
    while abs(value) >= base * 0.9995 and power < len(prefixes) - 1:
        value /= base
        power += 1
    if power == 0 and float(value).is_integer():
        return f"{int(value)} {unit}"
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f} {prefixes[power]}{unit}"


def capacity(value_bytes: float) -> str:
    """Text of a capacity, e.g. `60.0 MiB`. Args: value_bytes [B]."""
    return _scaled(value_bytes, 1024, _BINARY, "B")


def traffic(value_bytes: float) -> str:
    """Text of an amount of traffic, e.g. `8.59 GB`. Args: value_bytes [B]."""
    return _scaled(value_bytes, 1000, _DECIMAL, "B")


def bandwidth(value_bytes_per_s: float) -> str:
    """Text of a bandwidth, e.g. `4.80 TB/s`. Args: value_bytes_per_s [B/s]."""
    return _scaled(value_bytes_per_s, 1000, _DECIMAL, "B/s")


def rate(value_flop_per_s: float) -> str:
    """Text of a rate of arithmetic, e.g. `762 TFLOP/s`. Args: value_flop_per_s [FLOP/s]."""
    return _scaled(value_flop_per_s, 1000, _DECIMAL, "FLOP/s")


def flop(value_flop: float) -> str:
    """Text of an amount of arithmetic, e.g. `137 GFLOP`. Args: value_flop [FLOP]."""
    return rate(value_flop).removesuffix("/s")


def count(value: float) -> str:
    """Text of a count of operations, e.g. `137 G`. Args: value [1]."""
    return _scaled(value, 1000, _DECIMAL, "").rstrip()


def clock(value_hz: float) -> str:
    """Text of a frequency, e.g. `1.98 GHz`. Args: value_hz [Hz]."""
    return _scaled(value_hz, 1000, _DECIMAL, "Hz")


def duration(value_s: float) -> str:
    """Text of a time, e.g. `1.46 ms`. Args: value_s [s]."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if abs(value_s) * factor >= 0.9995:
            value = value_s * factor
            digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
            return f"{value:.{digits}f} {unit}"
    return f"{value_s * 1e9:.0f} ns"


def parse_quantity(text: str) -> float:
    """Read a number with an optional prefix and unit, as a person types it.

    Args:
        text: e.g. `62914560`, `60MiB`, `4.8TB/s`, `1.98GHz`, `6e-6`.

    Returns:
        The value in base units.

    Raises:
        ValueError: the text is no number with an optional prefix (k, M, G, T, P or Ki, Mi, Gi, Ti, Pi).
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no number such as 62914560, 60MiB, 4.8TB/s or 1.98GHz")
    return float(match[1]) * float(_MULTIPLIER[match[2] or ""])


def parse_duration(text: str) -> float:
    """Read a time as `duration` prints it, e.g. `120 us` or `1.5ms` [s]. Raises: ValueError: the text is none."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no time such as 120us, 1.5ms or 2s")
    return float(match[1]) / _PART_OF_SECOND[match[2]]
