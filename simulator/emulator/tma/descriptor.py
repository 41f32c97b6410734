"""The 128 bytes that describe a tensor to TMA, written and read.

| at | what |
|---|---|
| 0x00 | address of the tensor, 8 bytes |
| 0x08 | bits 4 to 6: axes less one; bits 7 to 10: type of the elements |
| 0x0c | strides of all axes but the innermost in units of 16 B, a word each; 4 bits more of each in the word at 0x1c |
| 0x20 | sizes less one, a word each, the innermost axis first |
| 0x37 | sizes of a box less one, a byte each, the innermost axis first |

Source: what ptxas 12.9 makes of each `tensormap.replace` for sm_90: it changes exactly these bits of a copy in shared
memory. Numbers of the element types: PTX ISA 8.8, section 9.7.9.28 (`tensormap.replace`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..thread_values import Array, Value, both, word

WORDS = 32
"""Of a descriptor."""
STRIDE_SHIFT = 4
"""Strides are multiples of 16 B (log2 of bytes)."""
AXES_SHIFT, AXES_MASK = 4, 7
TYPE_SHIFT, TYPE_MASK = 7, 15
FLAGS_AT, STRIDES_AT, STRIDES_MORE_AT, SIZES_AT, BOX_AT = 0x08, 0x0C, 0x1C, 0x20, 0x37
ELEMENT_BYTES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 4, 9: 8, 10: 2, 11: 4, 12: 4}
"""Type of the elements -> size of one [B]."""
WHOLE_TYPES = {1: 0, 2: 1, 4: 2, 8: 4}
"""Size of an element [B] -> the unsigned type of that size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A tensor as TMA knows it, in each of some CTAs; axes from the innermost on.

    Args:
        address: of the tensor, int64 (CTAs, 1, 1); sizes: of each axis [elements], as address;
        strides: of each axis, the same in all CTAs [B]; box: of each axis [elements];
        element_bytes: size of an element.
    """

    address: Array
    sizes: tuple[Array, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_bytes: int

    @property
    def box_rows(self) -> int:
        """Rows of a whole box."""
        return int(np.prod(self.box[1:]))

    @property
    def box_bytes(self) -> int:
        """What a whole box takes of shared memory [B]."""
        return int(np.prod(self.box)) * self.element_bytes


def image_of(
    address: int, shape: Sequence[int], strides: Sequence[int], box: Sequence[int], element_bytes: int
) -> bytes:
    """The descriptor that the host would make.

    Args:
        shape, box: [elements]; strides: [elements]; of each axis, the outermost first.
    """
    axes = len(shape)
    image = bytearray(4 * WORDS)
    image[0:8] = address.to_bytes(8, "little")
    flags = axes - 1 << AXES_SHIFT | WHOLE_TYPES[element_bytes] << TYPE_SHIFT
    image[FLAGS_AT : FLAGS_AT + 4] = flags.to_bytes(4, "little")
    more = 0
    for axis, stride in enumerate(reversed(strides[:-1])):
        units = stride * element_bytes >> STRIDE_SHIFT
        image[STRIDES_AT + 4 * axis : STRIDES_AT + 4 * axis + 4] = (units & 0xFFFFFFFF).to_bytes(4, "little")
        more |= (units >> 32 & 15) << 4 * axis
    image[STRIDES_MORE_AT : STRIDES_MORE_AT + 4] = more.to_bytes(4, "little")
    for axis, (size, extent) in enumerate(zip(reversed(shape), reversed(box), strict=True)):
        image[SIZES_AT + 4 * axis : SIZES_AT + 4 * axis + 4] = (size - 1 & 0xFFFFFFFF).to_bytes(4, "little")
        image[BOX_AT + axis] = extent - 1
    return bytes(image)


def descriptor_of(words: Sequence[Value]) -> Descriptor | None:
    """What 32 words describe, each of (CTAs, 1, 1).

    None where one that counts is not known, or CTAs differ in more
    than address and sizes.
    """

    def number(at: int) -> Value:
        return words[at // 4]

    flags, known = number(FLAGS_AT)
    if not np.all(known):
        return None
    kinds = np.unique(flags >> TYPE_SHIFT & TYPE_MASK)
    counts = np.unique(flags >> AXES_SHIFT & AXES_MASK)
    if len(kinds) > 1 or len(counts) > 1 or int(kinds[0]) not in ELEMENT_BYTES:
        return None
    axes, element_bytes = int(counts[0]) + 1, ELEMENT_BYTES[int(kinds[0])]
    low, high, more = number(0), number(4), number(STRIDES_MORE_AT) if axes > 1 else (word(0), True)
    sure = both(both(both(low[1], high[1]), more[1]), known)
    strides = [element_bytes]
    sizes, box = [], []
    for axis in range(axes):
        if axis:
            units, units_known = number(STRIDES_AT + 4 * (axis - 1))
            pitches = np.unique((units | (more[0] >> 4 * (axis - 1) & 15) << 32) << STRIDE_SHIFT)
            if len(pitches) > 1:
                return None
            strides.append(int(pitches[0]))
            sure = both(sure, units_known)
        size, size_known = number(SIZES_AT + 4 * axis)
        extent, extent_known = number(BOX_AT + axis & ~3)
        extents = np.unique((extent >> 8 * (BOX_AT + axis & 3) & 255) + 1)
        if len(extents) > 1:
            return None
        sure = both(both(sure, size_known), extent_known)
        sizes.append(size + 1)
        box.append(int(extents[0]))
    if not np.all(sure):
        return None
    return Descriptor(
        address=low[0] | high[0] << 32,
        sizes=tuple(sizes),
        strides=tuple(strides),
        box=tuple(box),
        element_bytes=element_bytes,
    )
