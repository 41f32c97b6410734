"""What a target cannot do, seen in Triton's first IR: refused with the line of the user's source.

Source: PTX ISA 8.8, `cp.async.bulk.tensor`: `.tile::gather4` and `.tile::scatter4` need sm_100 or newer.
"""

import re

from ..compile.ttir import line_of

GATHERS = re.compile(r"tt\.descriptor_(gather|scatter)\b.*loc\((#loc\d*)\)")
GATHER_CAPABILITY = 100


def refusal_of(name: str, ir: str, capability: int) -> str:
    """Why a kernel cannot be compiled for a target, in one line; empty where nothing is known against it.

    Args:
        name: of the kernel; ir: Triton's first IR as text; capability: of the target, e.g. 90.
    """
    match = GATHERS.search(ir)
    if match is None or capability >= GATHER_CAPABILITY:
        return ""
    return (
        f"kernel {name}: line {line_of(match[2], ir)}: {match[1]} through a tensor descriptor needs "
        f"sm_{GATHER_CAPABILITY} or newer, the target is sm_{capability}: take pointers"
    )
