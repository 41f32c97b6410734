"""`--buckets` of `tilesight profile`: sizes of decode steps that others are padded to."""

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from ..output import BadInput
from ..parse import each_once

if TYPE_CHECKING:
    from ...simulator.report.operations.buckets import Size

BUCKET = re.compile(r"([1-9]\d*)(?:x([1-9]\d*))?")


def bucket_sizes(text: str | None, decode: str | None, modes: int) -> "tuple[Size, ...]":
    """The sizes of a list, in order; none where nothing is asked for.

    Args:
        text: as typed, e.g. `1,2,4` or `32x1024,32x8192`; decode: `BxHELD`, whose HELD is that of entries without one.
        modes: in which the step is run.

    Raises:
        BadInput: an entry is no size, or smaller than the one before; or there is no decode step.
    """
    if text is None:
        return ()
    if decode is None:
        raise BadInput(f"--buckets {text}: is for --decode BxHELD of hf:config.json")
    if modes > 1:
        raise BadInput(f"--buckets {text}: shows one mode, not {modes}; run once with each")
    from ...simulator.report.operations.buckets import Size  # loads the prices of operations, which only this needs

    sizes = []
    for entry in text.split(","):
        match = BUCKET.fullmatch(entry.strip())
        if match is None:
            raise BadInput(f"--buckets {text!r}: {entry!r} must be sequences, or sequences x tokens held: 8, 32x1024")
        sizes.append(Size(batch=int(match[1]), held=int(match[2] or decode.partition("x")[2] or 1)))
    for before, size in pairwise(sizes):
        if (size.batch, size.held) < (before.batch, before.held):
            raise BadInput(f"--buckets {text!r}: {size} comes after {before}; give the smaller first")
    return each_once("--buckets", text, sizes)
