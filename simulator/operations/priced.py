"""A kernel that a step launches, and what it takes: what `price` gives, and what a profile shows."""

from dataclasses import dataclass
from typing import Literal

Source = Literal["simulated", "matmul", "attention", "bytes", "collective", "stated", "refused"]
"""Where a time comes from: machine code; a model of the vendor's matrix products or attention; bytes and rates of
torch's other kernels; a model of NCCL's protocols; what a person states; or nowhere: the kernel is not priced, and
stands outside the total."""
SOURCES: tuple[Source, ...] = ("simulated", "matmul", "attention", "bytes", "collective", "stated", "refused")


class NoPrice(Exception):
    """A price does not know operands as it is given them; the text says what they are, e.g. `of complex numbers`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelEstimate:
    """One kernel.

    Args:
        name: kind of the kernel that torch launches (`vectorized_elementwise`, `gemm`), or a Triton kernel's.
        source: where its time comes from.
        time_s: that it takes; of a refused kernel the least that its bytes take, which is no part of the total [s].
        bound_by: what it waits for: `HBM`, `L2`, `tensor cores`, `instructions`, `latency`; of
            collectives `NVLink` or `PCIe`; `what is stated`.
        hbm_read_bytes, hbm_write_bytes: from and to HBM [B]; l2_bytes: asked of L2, both ways [B].
        scratch_bytes: memory that its operation has for itself meanwhile, beside its tensors [B].
        reason: why it is not priced, one line; empty: it is.
        note: what is guessed in its time, one line; empty: nothing.
        one_shape: numbers in its time that were read off one shape each, by key (`device/torch_kernels`).
    """

    name: str
    source: Source
    time_s: float
    bound_by: str
    hbm_read_bytes: float = 0.0
    hbm_write_bytes: float = 0.0
    l2_bytes: float = 0.0
    scratch_bytes: int = 0
    reason: str = ""
    note: str = ""
    one_shape: tuple[str, ...] = ()


Kernels = list[KernelEstimate]
"""What an operation launches, in order."""
