"""What to say of a name that nothing has: the nearest that exist, or all of them where they are few."""

from collections.abc import Collection
from difflib import get_close_matches

FEW = 8
"""Names that are listed at most; of more, a reader looks for one himself."""


def unknown(name: str, known: Collection[str], where: str = "") -> str:
    """The end of a message about an unknown name, e.g. `'h20' is unknown: did you mean h200, h100-sxm?`.

    Args:
        known: names that exist; where: what lists them all, said where none is near and they are many.
    """
    by_lower = {candidate.lower(): candidate for candidate in known}
    near = [by_lower[lowered] for lowered in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)]
    if near:
        return f"{name!r} is unknown: did you mean {', '.join(near)}?"
    if not known:
        return f"{name!r} is unknown; there are none"
    if len(known) <= FEW or not where:
        return f"{name!r} is unknown; known are {', '.join(known)}"
    return f"{name!r} is unknown; {where} lists all"
