"""TMA descriptors of a tensor as people write them: `tma:q,box=64x64,shape=8x256x128,strides=32768x128,swizzle=128`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ...simulator.arguments import shown
from ...simulator.limits import TMA_BLOCK, TMA_STRIDE_BYTES

EXTENTS = re.compile(r"\d+(x\d+)*")
SETTINGS = ("box", "shape", "strides", "swizzle")
SWIZZLES = {"none": 0, "32": 32, "64": 64, "128": 128}
"""Of a descriptor -> how wide the rows of a box may be [B]; 0: as wide as they like."""
MOST_AXES = 5
DESCRIPTOR_BYTES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A tensor as TMA is told of it, the outermost axis first.

    Args:
        tensor: its name.
        shape: [elements].
        box: [elements].
        strides: of each axis [elements], the last one 1.
        swizzle: one of `SWIZZLES`; no address in global memory depends on it.
    """

    tensor: str
    shape: tuple[int, ...]
    box: tuple[int, ...]
    strides: tuple[int, ...]
    swizzle: str = "none"


def described(tensor: str, shape: Sequence[int], element_bytes: int, said: Mapping[str, str]) -> Descriptor:
    """A descriptor. Raises: ValueError: the driver makes no such one; one line.

    Args:
        tensor: its name.
        shape: of the tensor [elements].
        element_bytes: of the tensor [B].
        said: settings, of which `box` must be one; strides are those of all axes but the innermost.
    """
    if bad := [key for key in said if key not in SETTINGS]:
        raise ValueError(f"{shown(bad[0])}: must be one of {', '.join(SETTINGS)}")
    if any(not EXTENTS.fullmatch(said.get(key, "" if key == "box" else "1")) for key in SETTINGS[:-1]):
        raise ValueError("must have a box such as box=64x64, outermost axis first")
    box = _extents(said["box"])
    seen = _extents(said["shape"]) if "shape" in said else _folded(shape, len(box))
    strides = tuple(prod(seen[axis + 1 :]) for axis in range(len(seen)))
    if "strides" in said:
        strides = (*_extents(said["strides"]), 1)
    made = Descriptor(tensor=tensor, shape=seen, box=box, strides=strides, swizzle=said.get("swizzle", "none"))
    if reason := _why_not(made, prod(shape), element_bytes):
        raise ValueError(reason)
    return made


def _extents(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split("x"))


def _folded(shape: Sequence[int], axes: int) -> tuple[int, ...]:
    """A shape of fewer axes, the outer ones as one; of more axes with ones before it."""
    if axes > len(shape):
        return (*(1,) * (axes - len(shape)), *shape)
    cut = len(shape) - axes + 1
    return (prod(shape[:cut]), *shape[cut:])


def _why_not(made: Descriptor, elements: int, element_bytes: int) -> str:
    """Why the driver makes no such descriptor; empty: it does. Source: CUDA driver API, cuTensorMapEncodeTiled.

    Args:
        elements: of the whole tensor; element_bytes: size of one [B].
    """
    shape, box, strides, swizzle = made.shape, made.box, made.strides, made.swizzle
    pitch_bytes, inner_bytes = [stride * element_bytes for stride in strides[:-1]], box[-1] * element_bytes
    if not len(shape) == len(box) == len(strides) or len(box) > MOST_AXES:
        axes = f"shape has {len(shape)} axes and box {len(box)}, strides {len(strides) - 1}"
        return f"{axes}: shape and box must have as many, at most {MOST_AXES}, and strides one fewer"
    if min(shape) < 1 or sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) >= elements:
        return f"shape has {prod(shape):,} elements, the tensor {elements:,}"
    if any(not 1 <= size <= TMA_BLOCK for size in box):
        return f"box has {'x'.join(map(str, box))} elements: must be 1 to {TMA_BLOCK} along each axis"
    if swizzle not in SWIZZLES:
        return f"swizzle = {shown(swizzle)}: must be one of {', '.join(SWIZZLES)}"
    if SWIZZLES[swizzle] and inner_bytes > SWIZZLES[swizzle]:
        return f"rows of the box have {inner_bytes} bytes: at most {swizzle} with swizzle={swizzle}"
    if inner_bytes % TMA_STRIDE_BYTES or any(pitch % TMA_STRIDE_BYTES for pitch in pitch_bytes):
        row_bytes = pitch_bytes[-1] if pitch_bytes else inner_bytes
        return f"rows have {row_bytes} bytes, of the box {inner_bytes}: must be multiples of {TMA_STRIDE_BYTES}"
    return ""
