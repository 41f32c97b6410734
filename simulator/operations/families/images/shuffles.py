"""`pixel_shuffle`, `pixel_unshuffle`, `channel_shuffle`, `rot90`: copies of elements in another order."""

from ...gpu import SERIAL, Gpu
from ...operation import Operation
from ...priced import PricedKernel
from ..elementwise import copied
from ..movement import spread
from .planes import in_order


def shuffled(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """The copy that reorders channels and pixels."""
    source, output = operation.inputs[0], operation.outputs[0]
    in_order(source, output)
    issued = gpu.cost("elementwise.shuffle_instructions") * output.elements
    return [gpu.kernel("elementwise", (source,), (output,), instructions=issued, chain=8, overlap=SERIAL)]


def turned(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`rot90`: a flip, of which a quarter of a turn has another view; of whole turns a copy."""
    if int(operation.arguments.get("k", 1)) % 4 == 0:
        return [copied(operation.inputs[0], operation.outputs[0], gpu)]
    return spread(operation, gpu)
