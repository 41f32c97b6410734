"""`scatter_reduce`, `index_reduce`: values meet what is at places of an index: sums, products, extremes.

Additions are single instructions of L2's; all else loads, compares and swaps until nobody has come between. Source:
ATen/native/cuda/ScatterGatherKernel.cu, Indexing.cu, torch 2.11.
"""

from ...gpu import SERIAL, Gpu, part, scratch
from ...operation import Operand, Operation
from ...priced import PricedKernel
from ..elementwise import copied, iterate

EVEN = "places are taken to be drawn alike: values that meet at one wait for each other"


def scatter_reduce(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`scatter_reduce`: the input copied twice, values combined; of means all counted and divided."""
    source, index, values = operation.inputs[:3]
    output, how = operation.outputs[0], str(operation.arguments.get("reduce", "sum"))
    kernels = _copies(operation, source, output, 2, gpu)
    if not operation.arguments.get("include_self", True):
        kernels.append(
            _combined("scatter", (index,), output, gpu.cost("index.reduced_instructions") * values.elements, gpu)
        )
    issued = (
        gpu.cost("index.reduced_instructions" if how in ("sum", "mean") else "index.swapped_instructions")
    ) * values.elements
    kernels.append(_combined("scatter_reduce", (index, values), output, issued, gpu))
    if how == "mean":
        kernels += _counted(index, values, output, gpu.cost("index.reduced_instructions") * values.elements, gpu)
    return kernels


def index_reduce(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`index_reduce`: whole rows, by an index of one dimension."""
    source, index, values = operation.inputs[:3]
    output, how = operation.outputs[0], str(operation.arguments.get("reduce", "prod"))
    issued = gpu.cost("index.index_reduced_instructions") * values.elements
    kernels = _copies(operation, source, output, 1, gpu)
    if not operation.arguments.get("include_self", True):
        kernels.append(
            _combined("index_fill", (index,), output, gpu.cost("index.reduced_instructions") * values.elements, gpu)
        )
    kernels.append(_combined("index_reduce", (index, values), output, issued, gpu))
    return [*kernels, *(_counted(index, values, output, issued, gpu) if how == "mean" else [])]


def _copies(operation: Operation, source: Operand, output: Operand, times: int, gpu: Gpu) -> list[PricedKernel]:
    """Of the input, unless it is combined with in place."""
    return [] if operation.name.endswith("_") else [copied(source, output, gpu) for _ in range(times)]


def _combined(name: str, reads: tuple[Operand, ...], output: Operand, issued: float, gpu: Gpu) -> PricedKernel:
    """A kernel that combines what it reads with an output at places of an index, as many as there can be."""
    touched = part(output, min(max(read.elements for read in reads) * output.item_bytes, output.bytes))
    return gpu.kernel(name, (*reads, touched), (touched,), instructions=issued, chain=8, overlap=SERIAL, note=EVEN)


def _counted(index: Operand, values: Operand, output: Operand, issued: float, gpu: Gpu) -> list[PricedKernel]:
    """Ones added up at the same places, at least one at each, and the division."""
    ones, counts = scratch(values, 0), scratch(output, 1)
    none = scratch(output, 2, dtype="bool")
    return [
        iterate("fill", (), ones, gpu),
        iterate("fill", (), counts, gpu),
        _combined("scatter_add", (index, ones), counts, issued, gpu),
        iterate("eq", (counts,), none, gpu),
        iterate("masked_fill", (counts, none), counts, gpu),
        iterate("div", (output, counts), output, gpu),
    ]
