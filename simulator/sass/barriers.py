"""How many named barriers of an SM a CTA takes, from its machine code.

The compiler writes the number into the flags of the code's section (bits 20 to 26), from where the driver takes it.
It is that of the highest barrier that the code names, and all there are where a register holds the number: so of
all kernels in tests/recorded/cubins.json.xz.
"""

import re
from functools import lru_cache

from .flow import FLOWS_KEPT

BARRIERS = 16
"""Named barriers of a CTA (PTX ISA, bar)."""
USE = re.compile(r"\bBAR\.(?!SYNCALL)[A-Z_.]+ +([^\s,;]+)")


@lru_cache(maxsize=FLOWS_KEPT)
def barriers_taken(sass: str) -> int:
    """Named barriers that a CTA takes of its SM; 0: it has none. Args: sass: a kernel's listing."""
    names = USE.findall(sass)
    if any(not name.startswith("0x") for name in names):
        return BARRIERS
    return max((int(name, 16) + 1 for name in names), default=0)
