"""`segment_reduce` and bags of embeddings: a thread walks the rows of a segment, one column of them.

Source: ATen/native/cuda/SegmentReduce.cu, EmbeddingBag.cu, torch 2.11.
"""

from math import ceil, exp, prod

from ...gpu import SERIAL, Gpu, part, scratch
from ...operation import Operation
from ...priced import NoPrice, PricedKernel
from ..elementwise import iterate
from ..movement import embedding_backward

THREADS, WARP = 256, 32
BAG_CTAS = 1024
"""Of `EmbeddingBag_updateOutputKernel_sum_mean`, whose warps go around bags and 32 columns of them."""
ROWS_OF_PART = 10
"""Equal indices whose gradients are added in one piece (`NROWS_PER_THREAD`)."""
EVEN = "segments are taken to be of one length"


def segment_reduce(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
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
            note=EVEN,
        ),
    ]


def embedding_bag(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`_embedding_bag` and `_embedding_bag_forward_only`: rows of a table, added up bag by bag."""
    table, indices = operation.inputs[:2]
    output = operation.outputs[0]
    bags, width = max(output.shape[0], 1), prod(output.shape[1:])
    turns = max(bags * ceil(width / WARP) / (BAG_CTAS * THREADS / WARP), 1.0)
    waves = max(BAG_CTAS * THREADS / (gpu.device.max_warps_per_sm * WARP * gpu.sms), 1.0)
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
            note=EVEN,
        )
    ]


def embedding_bag_backward(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
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
