"""`scatter_reduce`, `index_reduce`, `masked_scatter`, `index_fill`, `segment_reduce` and bags of embeddings.

Additions are single instructions of L2's; all else loads, compares and swaps until nobody has come between. A thread
walks the rows of a segment or a bag, one column of them. Source: ATen/native/cuda/ScatterGatherKernel.cu, Indexing.cu,
SegmentReduce.cu, EmbeddingBag.cu, torch 2.11.
"""

from math import ceil, exp, prod

from ..cost_model import SERIAL, KernelCostModel, part, scratch
from ..operation import Operand, Operation
from ..priced import KernelEstimate, Kernels, NoPrice
from .elementwise import copied, iterate
from .indexing import embedding_backward

EVEN_PLACES = "places are taken to be drawn alike: values that meet at one wait for each other"
BAG_THREADS, WARP = 256, 32
BAG_CTAS = 1024
"""Of `EmbeddingBag_updateOutputKernel_sum_mean`, whose warps go around bags and 32 columns of them."""
ROWS_OF_PART = 10
"""Equal indices whose gradients are added in one piece (`NROWS_PER_THREAD`)."""
EVEN_SEGMENTS = "segments are taken to be of one length"


def scatter_reduce(operation: Operation, gpu: KernelCostModel) -> Kernels:
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


def index_reduce(operation: Operation, gpu: KernelCostModel) -> Kernels:
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


def _copies(operation: Operation, source: Operand, output: Operand, times: int, gpu: KernelCostModel) -> Kernels:
    """Of the input, unless it is combined with in place."""
    return [] if operation.name.endswith("_") else [copied(source, output, gpu) for _ in range(times)]


def _combined(
    name: str, reads: tuple[Operand, ...], output: Operand, issued: float, gpu: KernelCostModel
) -> KernelEstimate:
    """A kernel that combines what it reads with an output at places of an index, as many as there can be."""
    touched = part(output, min(max(read.elements for read in reads) * output.item_bytes, output.bytes))
    return gpu.kernel(
        name, (*reads, touched), (touched,), instructions=issued, chain=8, overlap=SERIAL, note=EVEN_PLACES
    )


def _counted(index: Operand, values: Operand, output: Operand, issued: float, gpu: KernelCostModel) -> Kernels:
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


def masked_scatter(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """A copy of the input, running sums of the mask, a check of sizes, the elements."""
    source, mask, values = operation.inputs[:3]
    output = operation.outputs[0]
    places = scratch(output, 0, dtype="int64", shape=output.shape)
    kernels = [] if operation.name.endswith("_") else [copied(source, output, gpu)]
    issued = gpu.cost("index.mask_scan_instructions") * mask.elements
    return [
        *kernels,
        gpu.kernel("scan_init", (), ()),
        gpu.kernel(
            "scan", (mask,), (places,), instructions=issued, chain=gpu.cost("scan.look_back_loads"), overlap=SERIAL
        ),
        gpu.kernel("masked_scatter_size_check", (), ()),
        iterate("add", (output, scratch(output, 0, dtype=output.dtype), values), output, gpu),
    ]


def index_fill(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """A copy of the input, and one value at rows of an index."""
    source, index = operation.inputs[0], next(x for x in operation.inputs[1:] if x.dtype in ("int64", "int32"))
    output, axis = operation.outputs[0], int(operation.arguments.get("dim", 0))
    row = prod(output.shape) // max(output.shape[axis] if output.shape else 1, 1)
    kernels = [] if operation.name.endswith("_") else [copied(source, output, gpu)]
    filled = index.elements * row
    touched = part(output, min(filled * output.item_bytes, output.bytes))
    put = gpu.kernel(
        "index_fill",
        (index,),
        (touched,),
        instructions=gpu.cost("index.scattered_instructions") * filled,
        chain=2,
        overlap=SERIAL,
    )
    return [*kernels, put]


def segment_reduce(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`segment_reduce`: where segments begin, as running sums of lengths; the walk over each.

    Raises:
        NoPrice: lengths are not given, but where segments begin.
    """
    source, lengths = operation.inputs[:2]
    output = operation.outputs[0]
    if operation.arguments.get("axis", 0) or lengths.elements != output.shape[0]:
        raise NoPrice("of segments that are given by where they begin")
    begins = scratch(lengths, 0, shape=(lengths.elements + 1,))
    waves = max(output.elements / (gpu.device.max_warps_per_sm * WARP * gpu.sms), 1.0)
    values = source.shape[0] / max(lengths.elements, 1)
    return [
        iterate("fill", (), part(begins, begins.item_bytes), gpu),
        gpu.kernel("cat", (lengths,), (begins,), chain=2),
        gpu.kernel("scan_init", (), ()),
        gpu.kernel("scan", (begins,), (begins,), chain=gpu.cost("scan.look_back_loads"), overlap=SERIAL),
        gpu.kernel(
            *("segment_reduce", (source, begins), (output,)),
            chain=gpu.cost("segment.value_loads") * values * waves,
            overlap=SERIAL,
            note=EVEN_SEGMENTS,
        ),
    ]


def embedding_bag(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`_embedding_bag` and `_embedding_bag_forward_only`: rows of a table, added up bag by bag."""
    table, indices = operation.inputs[:2]
    output = operation.outputs[0]
    bags, width = max(output.shape[0], 1), prod(output.shape[1:])
    turns = max(bags * ceil(width / WARP) / (BAG_CTAS * BAG_THREADS / WARP), 1.0)
    waves = max(BAG_CTAS * BAG_THREADS / (gpu.device.max_warps_per_sm * WARP * gpu.sms), 1.0)
    taken = part(table, min(indices.elements * width * table.item_bytes, table.bytes))
    missed = 1.0 - min(gpu.cache.readable_bytes(table.storage) / max(taken.bytes, 1), 1.0)
    rows_s = missed * gpu.device.hbm_latency_s * indices.elements / bags
    again = max(indices.elements * width * table.item_bytes - taken.bytes, 0)
    return [
        gpu.kernel(
            *("embedding_bag", (taken, *operation.inputs[1:]), operation.outputs),
            latency_s=turns
            * waves
            * (
                gpu.chain_s(
                    gpu.cost("segment.bag_row_loads") * indices.elements / bags + gpu.cost("segment.bag_loads"), 0.0
                )
                + rows_s
            ),
            l2_s=again / gpu.device.l2_bytes_per_s,
            overlap=SERIAL,
            note=EVEN_SEGMENTS,
        )
    ]


def embedding_bag_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Its gradient: as an embedding's whose indices are many; equal ones are added in pieces before they are put."""
    gradient, indices = operation.inputs[:2]
    output = operation.outputs[0]
    width = prod(output.shape[1:])
    wide = scratch(gradient, 0, shape=(indices.elements, width), strides=(0, 1))
    alike = Operation(kind="torch", name="embedding_dense_backward", inputs=(wide, indices), outputs=(output,))
    kernels = embedding_backward(alike, gpu)
    repeats = indices.elements / output.shape[0]
    places = output.shape[0] * (1.0 - exp(-repeats))
    pieces = places * max(ceil(indices.elements / max(places, 1.0) / ROWS_OF_PART), 1)
    touched = part(output, min(int(places) * width * output.item_bytes, output.bytes))
    issued = gpu.cost("index.added_instructions") * min(pieces, indices.elements) * width
    last = gpu.kernel("sum_and_scatter", (indices,), (touched,), instructions=issued, overlap=SERIAL)
    return [*kernels[:-1], last]
