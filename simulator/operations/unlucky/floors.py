"""Operations far above what bytes and FLOP take, and what a library copies. In: a step, prices; out: hints."""

from collections.abc import Iterator, Sequence
from math import prod

from ...device.device import Device
from ...prediction.what_helps import Advice
from ..groups import time_of
from ..operation import Operation
from ..priced import KernelEstimate
from .hint import places_text, time_at

FAR, SHORT_S = 4.0, 10e-6
"""Times the floor from which on an operation is named; time below which it is no matter of bytes [s]."""
ANOTHER_LAYOUT = ("nchw_to_nhwc", "nhwc_to_nchw")
SCANS = ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin")
INNERMOST = "have the dimension that it goes along innermost (a transposed copy before)"
CURES = {
    **dict.fromkeys(SCANS, f"{INNERMOST}, or scan it in chunks"),
    **dict.fromkeys(("_softmax", "_log_softmax"), INNERMOST),
}
"""Of operations along a dimension that is not the innermost."""
PATCHES = "patches do not overlap: unfold or reshape the input, and a Linear of the same weights"


def far_from_floor(operations: Sequence[Operation], costs_s: Sequence[float], device: Device) -> Iterator[Advice]:
    """What has a known cure, and takes over `FAR` times as long as its bytes at HBM and its FLOP at their peaks."""
    floors: dict[tuple[str, str], dict[int, float]] = {}
    for place, operation in enumerate(operations):
        cure = PATCHES if _is_of_patches(operation) else CURES.get(operation.name, "") if _is_outer(operation) else ""
        if cure and costs_s[place] > max(FAR * (least_s := _floor_s(operation, device)), SHORT_S):
            floors.setdefault((operation.name, cure), {})[place] = least_s
    for (name, cure), least in floors.items():
        cost_s, floor_s = time_at(least, costs_s), sum(least.values())
        wheres = places_text([operations[place] for place in least])
        text = f"{name} takes {cost_s / floor_s:.0f} times as long as its bytes or FLOP{wheres}"
        yield Advice(cause=name, text=text, cure=cure, time_s=cost_s - floor_s)


def _floor_s(operation: Operation, device: Device) -> float:
    """The longer of its bytes at HBM's peak, and a convolution's FLOP at the tensor cores' [s]."""
    size = sum(operand.bytes for operand in {*operation.inputs, *operation.outputs})
    patch = prod(operation.inputs[1].shape[1:]) if operation.name == "convolution" else 0
    rate = device.fastest_flop_per_cycle("bf16") * device.sms * device.tensor_boost_clock_hz
    return max(size / device.hbm_peak_bytes_per_s, 2.0 * operation.outputs[0].elements * patch / rate)


def _is_outer(operation: Operation) -> bool:
    shape, axis = operation.inputs[0].shape if operation.inputs else (), operation.arguments.get("dim")
    return bool(shape) and isinstance(axis, int) and prod(shape[axis % len(shape) + 1 :]) > 1


def _is_of_patches(operation: Operation) -> bool:
    """Whether it is a convolution that steps by its filters' size."""
    kernel = operation.inputs[1].shape[2:] if operation.name == "convolution" else ()
    return prod(kernel) > 1 and tuple(operation.arguments.get("stride") or ()) == kernel


def reordered(operations: Sequence[Operation], priced: Sequence[Sequence[KernelEstimate]]) -> Iterator[Advice]:
    """Copies that a library makes between NCHW and NHWC, around kernels that no other hint is about."""
    copied = [
        (operation, time_of(kernel))
        for operation, kernels in zip(operations, priced, strict=True)
        for kernel in kernels
        if kernel.name in ANOTHER_LAYOUT and not _is_of_patches(operation)
    ]
    cure = "model and inputs in torch.channels_last; profile that, too: group norms then copy instead"
    if copied:
        text = f"convolutions copy between NCHW and NHWC{places_text([operation for operation, _ in copied])}"
        yield Advice(cause="layout", text=text, cure=cure, time_s=sum(time_s for _, time_s in copied))
