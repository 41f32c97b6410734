"""A copy of known size, to be run under ncu: if its bytes are counted wrongly, no other count can be trusted.

Run as `python -m tilesight.validate.counters.self_check BYTES`, as `ncu.doubt` does, or by a program that counts more.
"""

import sys

import torch

from ..timing.profiler import between_marks


def copy(size_bytes: int) -> None:
    """Copy bytes once, by a kernel (a copy engine would not be counted), between the profiler's marks."""
    source = torch.ones(size_bytes // 4, dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    between_marks(lambda: torch.neg(source, out=target))


if __name__ == "__main__":
    copy(int(sys.argv[1]))
