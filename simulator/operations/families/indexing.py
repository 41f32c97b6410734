"""Operations at places of an index: `embedding`, `index`, `gather`, `index_put`, `index_add`, `scatter`.

`searchsorted` and `bucketize` find places: a thread halves a row of boundaries until it has its value's; lanes of a
warp look different boundaries up, which L1 gives word by word. Source: `searchsorted_cuda_kernel`,
ATen/native/cuda/Bucketization.cu, torch 2.11.
"""

from math import ceil, exp, log2, prod

from ..cost_model import LANES, SERIAL, KernelCostModel, memset, part, scratch
from ..operation import Operand, Operation
from ..priced import KernelEstimate, Kernels
from .elementwise import copied, iterate
from .sorting import radix_sorted

SMALL_INDEX = 3072
"""Most indices that an embedding's gradient adds without sorting them (`embedding_dense_backward_cuda`)."""
VECTOR_BYTES, GATHER_THREADS, WARP = 16, 256, 32
"""That a thread gathers of a row [B], and most threads of a CTA. Source: `vectorized_gather_kernel_launch`,
ATen/native/cuda/IndexKernelUtils.cu, torch 2.7 to 2.13."""
GATHERED = 8
"""Elements that a thread gathers one after the other (`_scatter_gather_elementwise_kernel<128, 8>`); INDEXED_ELEMENTS:
of `index_elementwise_kernel<128, 4>`."""
INDEXED_ELEMENTS = 4
SLICES = 4
"""Indices of a CTA that adds slices of up to a warp's width (`indices_per_block`)."""


def gather(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`embedding`, `index_select`, `index`, `gather`: rows as wide loads, or elements, from L1 if they fit."""
    output, source = operation.outputs[0], operation.inputs[0]
    indices = [operand for operand in operation.inputs if operand.dtype in ("int64", "int32", "bool")]
    row = prod(source.shape[1:]) * source.item_bytes
    rows = operation.name != "gather" and len(indices) == 1 and row % VECTOR_BYTES == 0 and source.is_dense
    if rows and len(source.shape) > 1 and output.elements == indices[0].elements * prod(source.shape[1:]):
        return [_rows_gathered(source, indices[0], output, row, gpu)]
    casts: Kernels = []
    if "index" in operation.name and operation.name != "index_select":
        indices, casts = _as_long(indices, gpu)
    is_gather = operation.name == "gather"
    elements = GATHERED if is_gather else INDEXED_ELEMENTS
    sectors = output.elements * gpu.device.sector_bytes if source.bytes > gpu.device.smem_per_sm_bytes else source.bytes
    taken = part(source, min(sectors, source.bytes))
    return [
        *casts,
        gpu.kernel(
            "gather",
            (taken, *indices),
            (output,),
            instructions=(gpu.cost("elementwise.indexed_instructions" if is_gather else "index.scattered_instructions"))
            * output.elements,
            chain=2 * elements,
            latency_s=elements * gpu.cost("kernel.first_miss_s") if source.bytes > gpu.cache.capacity_bytes else 0.0,
            l2_s=sectors / gpu.device.l2_bytes_per_s,
            overlap=SERIAL,
        ),
    ]


def _as_long(indices: list[Operand], gpu: KernelCostModel) -> tuple[list[Operand], Kernels]:
    """Indices of 64 bits, as `index` wants them (`make_info`, ATen/native/TensorAdvancedIndexing.cpp), and casts."""
    wide = [scratch(operand, 0, dtype="int64") if operand.dtype == "int32" else operand for operand in indices]
    casts = [copied(old, new, gpu) for old, new in zip(indices, wide, strict=True) if old is not new]
    return wide, casts


def _rows_gathered(
    source: Operand, indices: Operand, output: Operand, row_bytes: int, gpu: KernelCostModel
) -> KernelEstimate:
    """`vectorized_gather_kernel`: CTAs of their own for each row load its index, and then 16 bytes a thread.

    Rows come in any order: each once from HBM as far as there are as many, and again where L2 has lost it since.
    """
    parts = ceil(row_bytes / (GATHER_THREADS * VECTOR_BYTES))
    warps = min(ceil(row_bytes / VECTOR_BYTES / WARP), GATHER_THREADS // WARP)
    ctas = indices.elements * parts
    device = gpu.device
    waves = max(ctas / (min(device.max_warps_per_sm // warps, device.max_ctas_per_sm) * gpu.sms), 1.0)
    taken = part(source, min(output.bytes, source.bytes))
    missed = output.bytes * (1.0 - found_again(taken.bytes, gpu.cache.capacity_bytes))
    return gpu.kernel(
        "vectorized_gather",
        (taken, indices),
        (output,),
        ctas=ctas,
        chain=2 * waves,
        latency_s=gpu.cost("kernel.first_miss_s") * waves,
        l2_s=(output.bytes - taken.bytes) / device.l2_bytes_per_s,
        read_again=max(missed - taken.bytes, 0.0),
        overlap=SERIAL,
    )


def found_again(size_bytes: float, capacity_bytes: float) -> float:
    """Share of reads that find what they ask for in a cache that forgets what is oldest, while as much is written.

    Args:
        size_bytes: of what is read, at random places [B]; capacity_bytes: of the cache [B].

    Source: H. Che, Y. Tung, Z. Wang, "Hierarchical Web caching systems", IEEE JSAC 20 (2002): a byte stays until as
    many others have come as the cache holds.
    """
    low, high = 0.0, capacity_bytes / size_bytes
    for _ in range(40):
        age = (low + high) / 2  # bytes that are read while one stays, in units of the size; as many are written
        low, high = (age, high) if 1.0 - exp(-age) + age < capacity_bytes / size_bytes else (low, age)
    return 1.0 - exp(-low)


def scatter(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`index_put_`, `index_add_`, `scatter_`, `scatter_add_`, `index_copy_`.

    Out of place a copy comes first; where `index_put_` adds, a sort of its indices. Gradients of `index` add in place
    to zeros, though the recorder's tensors, which are no plain ones, have autograd ask for a new one. Elements that
    `scatter` puts at random fill few sectors of a tensor beyond L2, which HBM sends and takes.
    """
    output, target = operation.outputs[0], operation.inputs[0]
    values = max(operation.inputs[1:], key=lambda operand: (operand.dtype not in ("int64", "bool"), operand.elements))
    is_sorted = bool(operation.arguments.get("accumulate"))
    adds = "add" in operation.name or is_sorted
    kernels: Kernels = []
    if not operation.name.endswith("_") and not (is_sorted and operation.phase == "backward"):
        kernels.append(iterate("copy", (target,), output, gpu))
    if is_sorted:
        kernels += _places_sorted(operation.inputs[1], output.shape[0], gpu)
    touched = part(output, min(values.elements * output.item_bytes, output.bytes))
    filled = 0.0
    if operation.name in ("scatter", "scatter_") and output.bytes > gpu.cache.dirty_bytes:
        elements = max(operand.elements for operand in operation.inputs[1:])
        places = output.bytes / gpu.device.sector_bytes
        touched = part(output, int(output.bytes * (1.0 - exp(-elements / places))))
        filled = float(touched.bytes)
    added = (
        gpu.cost("index.added_float32_instructions")
        if operation.name.startswith("index_add") and values.dtype == "float32"
        else gpu.cost("index.added_instructions")
    )
    repeated = 0.0
    if is_sorted and prod(output.shape[1:]) <= WARP:
        repeated = _repeats_walked(operation.inputs[1].elements, output.shape[0], gpu)
    kernels.append(
        gpu.kernel(
            "indexing_backward" if is_sorted else "index_add" if adds else "index_put",
            (*operation.inputs[1:], *((touched,) if adds else ())),
            (touched,),
            instructions=(
                gpu.cost("index.sorted_added_instructions")
                if is_sorted
                else added
                if adds
                else gpu.cost("index.scattered_instructions")
            )
            * values.elements,
            chain=max(repeated, 8),
            read_again=filled,
            overlap=SERIAL,
        )
    )
    return kernels


def _repeats_walked(indices: int, places: int, gpu: KernelCostModel) -> float:
    """Latencies of `indexing_backward_kernel_small_stride`: the first warp of equal indices counts and adds them all.

    Its CTA of four stays meanwhile; the others end at once. Source: ATen/native/cuda/Indexing.cu, torch 2.11.
    """
    repeats = indices / (places * (1.0 - exp(-indices / places)))
    working = indices * min(1.0 / repeats, 1.0 / SLICES)
    slots = gpu.device.max_warps_per_sm // SLICES * gpu.sms
    return gpu.cost("index.repeated_loads") * repeats * max(working / slots, 1.0) + (indices / SLICES - working) / slots


def _places_sorted(indices: Operand, places: int, gpu: KernelCostModel) -> Kernels:
    """Indices wrapped, made places, numbered and sorted by as many bits as places have (Indexing.cu)."""
    wrapped, numbers = scratch(indices, 0), scratch(indices, 1)
    return [
        iterate("remainder", (indices,), wrapped, gpu),
        iterate("mul", (wrapped,), wrapped, gpu),
        iterate("div", (wrapped,), wrapped, gpu),
        gpu.kernel("arange", (), (numbers,)),
        memset(gpu),
        *radix_sorted(wrapped, gpu, bits=places.bit_length()),
    ]


def embedding_backward(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Gradient of an embedding: zeros, and rows added; many indices are sorted first."""
    gradient, indices = operation.inputs[:2]
    output = operation.outputs[0]
    filled = iterate("fill", (), output, gpu)
    issued = gpu.cost("index.added_instructions") * gradient.elements
    touched = part(output, min(gradient.bytes, output.bytes))
    if indices.elements <= SMALL_INDEX:
        add = gpu.kernel("embedding_backward", (gradient, indices), (touched,), instructions=issued, chain=8)
        return [filled, add]
    sums = scratch(gradient, 0, dtype="float32")
    return [
        gpu.kernel("arange", (), (indices,)),
        memset(gpu),
        *radix_sorted(indices, gpu),
        filled,
        *(gpu.kernel(name, (indices,), (), chain=2) for name in ("compact_init", "unique_by_key", "partials")),
        *(gpu.kernel(name, (), (), chain=2) for name in ("scan_init", "scan", "count_partials", "partial_offsets")),
        gpu.kernel("compute_grad_weight", (gradient, indices), (sums,), instructions=issued, overlap=SERIAL),
        gpu.kernel("sum_and_scatter", (sums, indices), (touched,), instructions=issued, overlap=SERIAL),
    ]


def searchsorted(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """The one kernel of a search."""
    first, second = operation.inputs[:2]
    values, bounds = (first, second) if operation.name == "bucketize" else (second, first)
    output = operation.outputs[0]
    row = bounds.shape[-1] if bounds.shape else 1
    steps = ceil(log2(max(row, 2))) + 1
    cycles = gpu.cost("search.look_up_cycles") * steps * values.elements / LANES / gpu.sms
    reads = (values, bounds, *operation.inputs[2:])
    return [gpu.kernel("searchsorted", reads, (output,), latency_s=gpu.cycles_s(cycles), chain=steps, overlap=SERIAL)]
