"""What a target cannot do, seen in Triton's first IR: refused with the line of the user's source.

Source: PTX ISA 8.8, `cp.async.bulk.tensor`: `.tile::gather4` and `.tile::scatter4` need sm_100 or newer.
"""

import re

GATHERS = re.compile(r"tt\.descriptor_(gather|scatter)\b.*loc\((#loc\d*)\)")
GATHER_CAPABILITY = 100
PLACE = re.compile(r'"[^"]*":(\d+):\d+')
NAMED = re.compile(r"#loc\d*\b")


def refusal_of(name: str, ir: str, capability: int) -> str:
    """Why a kernel cannot be compiled for a target, in one line; empty where nothing is known against it.

    Args:
        name: of the kernel; ir: Triton's first IR as text; capability: of the target, e.g. 90.
    """
    match = GATHERS.search(ir)
    if match is None or capability >= GATHER_CAPABILITY:
        return ""
    return (
        f"kernel {name}: line {_line(match[2], ir)}: {match[1]} through a tensor descriptor needs "
        f"sm_{GATHER_CAPABILITY} or newer, the target is sm_{capability}: take pointers"
    )


def _line(location: str, ir: str) -> int:
    """Line of the source that a location of the IR leads to; 0 where it leads nowhere."""
    places = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", ir, re.M))
    while (text := places.pop(location, None)) is not None:
        if match := PLACE.search(text):
            return int(match[1])
        if inner := NAMED.search(text):
            location = inner[0]
    return 0
