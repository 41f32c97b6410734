"""Memory beside tensors, which torch's allocator counts: workspaces of products, and what operations have meanwhile.

Each thread that multiplies has one, from its first product on: that of the code, and that of autograd's engine.
Source: `parseChosenWorkspaceSize` in ATen/cuda/CublasHandlePool.cpp, torch 2.11 to 2.13; kind: measured as well, peaks
of 60 functions on one H100 (torch 2.11): 32, 33, 64 and 65 MiB beside what tensors take.
"""

from collections.abc import Iterable, Sequence

from ..device.device import Device
from .families.convolutions.convolution import held_bytes
from .operation import Operation, RecordedStep
from .priced import KernelEstimate

HOPPER_BYTES = 32 << 20
"""From compute capability 9.0 on [B]; of older GPUs OLDER_BYTES."""
OLDER_BYTES = (8 << 20) + (128 << 10)
FUSED_BYTES = 1 << 20
"""Of products that add a bias, beside it [B]."""
FUSED = frozenset({"addmm", "_addmm_activation"})
PRODUCTS = FUSED | {"mm", "bmm", "baddbmm", "linear", "mv", "addmv", "_scaled_mm", "_int_mm"}


CONVOLUTIONS = frozenset({"convolution", "cudnn_convolution", "convolution_backward"})


def peak_bytes(step: RecordedStep, priced: Sequence[Sequence[KernelEstimate]], device: Device) -> int:
    """Most memory that a step takes at a time [B]. Args: priced: of each operation its kernels."""
    most = max(map(_meanwhile_bytes, step.operations, priced), default=0)
    return max(step.peak_bytes, most) + workspace_bytes(step.operations, device)


def _meanwhile_bytes(operation: Operation, kernels: Sequence[KernelEstimate]) -> int:
    """All that is alive while an operation runs."""
    if operation.name in CONVOLUTIONS:
        return operation.live_bytes + held_bytes(operation)
    return operation.live_bytes + max((kernel.scratch_bytes for kernel in kernels), default=0)


def workspace_bytes(operations: Iterable[Operation], device: Device) -> int:
    """What the products of a step keep [B]."""
    made = [operation for operation in operations if operation.kind == "torch" and operation.name in PRODUCTS]
    threads = {operation.phase == "backward" for operation in made}
    adds = any(operation.name in FUSED for operation in made)
    thread_bytes = HOPPER_BYTES if device.capability >= 90 else OLDER_BYTES
    return len(threads) * thread_bytes + (FUSED_BYTES if adds else 0)
