"""What kernels before a pipeline have left in L2: they went through storages, some of which its launches touch too."""

from typing import NamedTuple

import numpy as np

from ..core.engine.copies import leave
from ..core.engine.lru import Lru
from ..device.device import Device
from ..integers import cdiv
from ..launch.before import Before
from ..launch.program import Launch
from .lower import LoweredTensors

OTHERS_BYTES = 1 << 14
"""A granule of storages that no launch of the pipeline touches [B]."""


class Run(NamedTuple):
    """Granules of a storage. Args: first: number of the first; granules: of them; bytes: of all [B]."""

    first: int
    granules: int
    bytes: float


class Past:
    """Kernels before a pipeline, and granules for what they touched.

    Args:
        before: the kernels; launches, tensors: of the pipeline; first: the first number of a granule that is free.

    Attributes:
        granules: numbers in all, those below `first` with them; largest_bytes: of a granule from `first` on [B].
    """

    def __init__(self, before: Before, launches: tuple[Launch, ...], tensors: LoweredTensors, first: int) -> None:
        runs = _runs_of(launches, tensors)
        sizes: dict[int, float] = {}
        for use in (use for kernel in before for use in kernel if use.number not in runs):
            sizes[use.number] = max(sizes.get(use.number, 0.0), use.bytes)
        self.granules, self.largest_bytes = first, OTHERS_BYTES if sizes else 0
        for number, size in sizes.items():
            count = max(cdiv(round(size), OTHERS_BYTES), 1)
            runs[number] = Run(self.granules, count, count * OTHERS_BYTES)
            self.granules += count
        self._kernels = [
            np.array([_stream(runs[use.number], use.bytes, use.written) for use in kernel], dtype=np.int64)
            for kernel in before
            if kernel
        ]

    def replay(self, l2: Lru, device: Device, interleaved: bool) -> None:
        """Leave in L2 what they left. Args: interleaved: whether granules are homed in all partitions."""
        for streams in self._kernels:
            leave(l2, device.l2_partitions, interleaved, streams)


def _runs_of(launches: tuple[Launch, ...], tensors: LoweredTensors) -> dict[int, Run]:
    """Granules of the pipeline's own storages; numbers that stand for several granules are as others' storages."""
    runs: dict[int, Run] = {}
    for tensor in (tensor for launch in launches for tensor in launch.program.tensors):
        row = tensors.table[tensors.index[tensor.name]]
        if tensor.storage >= 0 and not row["folded"]:
            runs[tensor.storage] = Run(int(row["base"]), int(row["fold"]), tensor.size_bytes)
    return runs


def _stream(run: Run, used: float, written: bool) -> tuple[int, int, int, int]:
    """The first granules of a run as `leave` has them. Args: used: bytes of it [B]."""
    part = min(max(round(run.granules * used / run.bytes), 1), run.granules)
    return run.first, part, int(run.bytes // run.granules), int(written)
