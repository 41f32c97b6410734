"""Operations far above what bytes and FLOP take, and what a library copies. In: a step, prices; out: hints."""

from collections.abc import Iterator, Sequence
from math import prod

from ...device.device import Device
from ..groups import time_of
from ..operation import Operation
from ..priced import PricedKernel
from .hint import Hint, places_text, time_at

FAR = 4.0
"""Times the floor from which on an operation is named."""
SHORT_S = 10e-6
"""Operations that take less are no matter of bytes [s]."""
ANOTHER_LAYOUT = ("nchw_to_nhwc", "nhwc_to_nchw")


def far_from_floor(operations: Sequence[Operation], costs_s: Sequence[float], device: Device) -> Iterator[Hint]:
    """What has a known cure, and takes over `FAR` times as long as its bytes at HBM and its FLOP at their peaks."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for place, operation in enumerate(operations):
        least_s = _floor_s(operation, device)
        if costs_s[place] > max(FAR * least_s, SHORT_S) and (cure := _cure(operation)):
            found.setdefault((operation.name, cure), {})[place] = least_s
    for (name, cure), least_s in found.items():
        cost_s, floor_s = time_at(least_s, costs_s), sum(least_s.values())
        wheres = places_text([operations[place] for place in least_s])
        text = f"{name} takes {cost_s / floor_s:.0f} times as long as its bytes or FLOP{wheres}"
        yield Hint(name=name, text=text, cure=cure, time_s=cost_s - floor_s)


def _floor_s(operation: Operation, device: Device) -> float:
    """The longer of its bytes at HBM's peak, and a convolution's FLOP at the tensor cores' [s]."""
    operands = {(operand.storage, operand.offset_bytes): operand.bytes for operand in operation.inputs}
    operands |= {(operand.storage, operand.offset_bytes): operand.bytes for operand in operation.outputs}
    flop = 0.0
    if operation.name == "convolution":
        flop = 2.0 * operation.outputs[0].elements * prod(operation.inputs[1].shape[1:])
    rate = device.fastest_flop_per_cycle("bf16") * device.sms * device.tensor_boost_clock_hz
    return max(sum(operands.values()) / device.hbm_peak_bytes_per_s, flop / rate)


def _cure(operation: Operation) -> str:
    """What would take less; empty: nothing is known."""
    name = operation.name.strip("_")
    shape, axis = operation.inputs[0].shape if operation.inputs else (), operation.arguments.get("dim", -1)
    along_outer = bool(shape) and isinstance(axis, int) and prod(shape[axis % len(shape) + 1 :]) > 1
    if name in ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin") and along_outer:
        return "have the dimension that is added up along innermost (a transposed copy before), or scan it in chunks"
    if name in ("softmax", "log_softmax") and along_outer:
        return "have the dimension of the softmax innermost"
    if _is_of_patches(operation):
        return "patches do not overlap: unfold or reshape the input, and a Linear of the same weights"
    return ""


def _is_of_patches(operation: Operation) -> bool:
    """Whether it is a convolution that steps by its filters' size."""
    kernel = operation.inputs[1].shape[2:] if operation.name == "convolution" else ()
    return prod(kernel) > 1 and tuple(operation.arguments.get("stride") or ()) == kernel


def reordered(operations: Sequence[Operation], priced: Sequence[Sequence[PricedKernel]]) -> Iterator[Hint]:
    """Copies that a library makes between NCHW and NHWC, around kernels that no other hint is about."""
    lost_s = {
        place: sum(time_of(kernel) for kernel in kernels if kernel.name in ANOTHER_LAYOUT)
        for place, kernels in enumerate(priced)
        if not _is_of_patches(operations[place])
    }
    if any(lost_s.values()):
        wheres = places_text([operations[place] for place, time_s in lost_s.items() if time_s])
        yield Hint(
            name="layout",
            text=f"convolutions copy between NCHW and NHWC{wheres}",
            cure="model and inputs in torch.channels_last; profile that, too: group norms then copy instead",
            time_s=sum(lost_s.values()),
        )
