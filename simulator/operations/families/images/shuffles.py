"""`pixel_shuffle`, `pixel_unshuffle`, `channel_shuffle`, `rot90`: copies of elements in another order."""

from ...gpu import SERIAL, Gpu
from ...operation import Operation
from ...priced import PricedKernel
from ..elementwise import copied
from ..movement import spread
from .planes import in_order

SHUFFLED = 93.0
"""Instructions of `elementwise_kernel` for an element, with index arithmetic of three to six dimensions; lanes of a
warp still share their lines. Kind: fitted, 16 x 64 images of 112 x 112 in bf16 and fp32 on one H200."""


def shuffled(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """The copy that reorders channels and pixels."""
    source, output = operation.inputs[0], operation.outputs[0]
    in_order(source, output)
    issued = SHUFFLED * output.elements
    return [gpu.kernel("elementwise", (source,), (output,), instructions=issued, chain=8, overlap=SERIAL)]


def turned(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`rot90`: a flip, of which a quarter of a turn has another view; of whole turns a copy."""
    if int(operation.arguments.get("k", 1)) % 4 == 0:
        return [copied(operation.inputs[0], operation.outputs[0], gpu)]
    return spread(operation, gpu)
