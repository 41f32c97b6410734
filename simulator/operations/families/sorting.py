"""`sort`, `topk`, `kthvalue`, `median`, `multinomial`.

Rows are sorted in a CTA each; one long row, or some together, by cub's radix sort of the whole device. `kthvalue` and
`median`: a CTA of 1,024 threads walks a row once for every two bits of its elements. `multinomial` of one sample, or of
several without replacement: quotients with exponential numbers, the largest; probabilities are checked before.
Source: `sort_stable_out` and ATen/native/cuda/Sort.cpp, Sort.cu, SortStable.cu, TensorTopK.cu, Sorting.cu,
SortingRadixSelect.cuh (RADIX_BITS = 2), ATen/native/Distributions.cpp, torch 2.11 to 2.13.
"""

from dataclasses import dataclass, replace
from math import ceil, hypot

from ..cost_model import SERIAL, KernelCostModel, memset, scratch
from ..operation import Operand, Operation
from ..priced import KernelEstimate, Kernels
from .elementwise import contiguous, copied, iterate, random_fill
from .reductions import LARGEST, MEAN, PLACED, SUM, WARP, reduced

SMALL_SORT = 4096
"""Longest row that torch sorts in one CTA (`should_use_small_sort`)."""
MANY_ROWS = 128
"""Longer rows from which on cub sorts segments (`launch_stable_sort_kernel`)."""
ROW_SORTS = {32: (16, 2), 128: (32, 4), 1024: (32, 32), 2048: (64, 32), 4096: (128, 32)}
"""Longest row -> threads of its CTA, and elements of each (`MediumRadixSort`)."""
RADIX_BITS = 8
TOPK_ROW = 1024
"""Most elements of a row that a CTA takes at once, one a thread."""
MULTI_BLOCK = ((20, 20000), (40, 10000), (80, 8000), (199, 5000), (799, 3000), (4000, 800))
"""Most rows -> shortest of which a row is shared by CTAs (`should_use_sbtopk`); of more rows LONG_ROW."""
LONG_ROW = 400
SELECT_THREADS, SELECT_BITS = 1024, 2
WALKED_TO_THE_END = "digits are walked to the last, though a row whose element is found earlier ends"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSort:
    """A CTA that sorts a row. Args: threads: of it; items: of a thread; passes: over the keys, of four bits."""

    threads: int
    items: int
    passes: int

    def instructions(self, gpu: KernelCostModel) -> float:
        """Of an element, by whole warps."""
        of_pass = gpu.cost("sort.row_pass_instructions") + gpu.cost("sort.row_pass_thread_instructions") / self.items
        return (gpu.cost("sort.row_instructions") + self.passes * of_pass) * max(WARP / self.threads, 1.0)

    def smem_bytes(self, item_bytes: int, gpu: KernelCostModel) -> float:
        """That shared memory moves for an element, with its index of 8 bytes [B]."""
        pair, thread = gpu.cost("sort.row_pass_bytes_factor"), gpu.cost("sort.row_pass_thread_bytes")
        return gpu.cost("sort.row_bytes") + self.passes * (pair * (item_bytes + 8) + thread / self.items)

    def cycles(self, gpu: KernelCostModel) -> float:
        """Until a lone CTA is done."""
        of_pass = gpu.cost("sort.row_pass_cycles") + gpu.cost("sort.row_pass_item_cycles") * self.items
        return gpu.cost("sort.row_cycles") + gpu.cost("sort.row_item_cycles") * self.items + self.passes * of_pass

    def waves(self, rows: int, gpu: KernelCostModel) -> float:
        """CTAs, in units of those that run at a time."""
        registers = gpu.cost("sort.row_registers") + gpu.cost("sort.row_item_registers") * self.items
        resident = gpu.device.registers_per_sm / (registers * max(self.threads, WARP))
        return max(rows / (min(resident, gpu.device.max_ctas_per_sm) * gpu.sms), 1.0)


def sort(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`sort`: a copy of the input, and its kernels."""
    source, (values, indices) = operation.inputs[0], operation.outputs[:2]
    row, rows = rows_of(operation)
    first = copied(source, values, gpu)
    if row <= SMALL_SORT:
        numbers = replace(indices, shape=(row,), strides=(1,))
        kernels = [first, gpu.kernel("arange", (), (numbers,)), iterate("copy", (numbers,), indices, gpu)]
        kernels.append(copied(source, values, gpu))
        stable = bool(operation.arguments.get("stable"))
        return [*kernels, sorted_rows((values, indices), row, rows, gpu, stable=stable)] if row > 1 else kernels
    if rows == 1:
        moved = radix_sorted(source, gpu, held_bytes=indices.bytes)
        return [first, gpu.kernel("fill_indices", (), (indices,)), memset(gpu), *moved]
    pairs, keys = scratch(indices, 0), scratch(source, 1)
    moved = [] if source.strides[operation.arguments.get("dim", -1)] == 1 else [iterate("copy", (source,), keys, gpu)]
    return [
        first,
        *moved,
        gpu.kernel("fill_index_and_segment", (), (pairs,)),
        memset(gpu),
        *radix_sorted(keys if moved else source, gpu, held_bytes=2 * pairs.bytes + keys.bytes),
        memset(gpu),
        *radix_sorted(pairs, gpu, bits=(rows - 1).bit_length(), carried_bytes=0),
        gpu.kernel(
            "sort_postprocess",
            (source, pairs),
            (values, indices),
            instructions=gpu.cost("index.scattered_instructions") * source.elements,
            chain=3,
            overlap=SERIAL,
        ),
    ]


def other_sort(operation: Operation) -> str:
    """Which sorts have no price, in words; empty: it has one."""
    row, rows = rows_of(operation)
    return "of 128 and more rows of over 4,096 elements" if row > SMALL_SORT and rows >= MANY_ROWS else ""


def rows_of(operation: Operation) -> tuple[int, int]:
    """Elements that are ordered together, and how often."""
    source = operation.inputs[0]
    row = source.shape[operation.arguments.get("dim", -1)] if source.shape else 1
    return row, source.elements // max(row, 1)


def sorted_rows(
    pairs: tuple[Operand, ...], row: int, rows: int, gpu: KernelCostModel, *, stable: bool = False
) -> KernelEstimate:
    """`bitonicSortKVInPlace` of up to 32 elements, unless equal ones keep their order, else `radixSortKVInPlace`."""
    if row <= WARP and not stable:
        waits = gpu.cost("sort.bitonic_s") + rows * gpu.cost("sort.bitonic_row_s") / gpu.sms
        return gpu.kernel("bitonic_sort", pairs[:1], pairs, latency_s=waits)
    item_bytes, device = pairs[0].item_bytes, gpu.device
    threads, items = ROW_SORTS[min(longest for longest in ROW_SORTS if row <= longest)]
    sorting = RowSort(threads=threads, items=items, passes=2 * item_bytes)
    elements = rows * threads * items
    smem_bytes_per_s = device.sms * device.smem_bytes_per_cycle * device.boost_clock_hz
    waits = gpu.cycles_s(sorting.cycles(gpu)) * sorting.waves(rows, gpu)
    moves = gpu.cost("sort.row_conflicts_factor") * elements * sorting.smem_bytes(item_bytes, gpu) / smem_bytes_per_s
    issued = elements * sorting.instructions(gpu)
    latency_s = hypot(waits, moves)
    return gpu.kernel("radix_sort_rows", pairs, pairs, instructions=issued, latency_s=latency_s, overlap=SERIAL)


def radix_sorted(
    keys: Operand, gpu: KernelCostModel, *, bits: int = 0, carried_bytes: int = 8, held_bytes: int = 0
) -> Kernels:
    """Kernels of cub's radix sort: eight bits of the keys a pass, a memset before each; to and fro between two places.

    Args:
        bits: that are sorted by, 0: all of the keys'; carried_bytes: that go with a key [B].
        held_bytes: that the operation has for itself beside what the sort takes [B].
    """
    passes = ceil((bits or keys.item_bytes * 8) / RADIX_BITS)
    issued = gpu.cost("sort.radix_histogram_instructions") * passes * keys.elements
    kernels = [
        memset(gpu),
        gpu.kernel("radix_histogram", (keys,), (), instructions=issued, chain=10, overlap=SERIAL),
        gpu.kernel("radix_sums", (), (), chain=3),
    ]
    held = held_bytes + keys.elements * (keys.item_bytes + carried_bytes)
    moved_s = keys.elements * (keys.item_bytes + carried_bytes) / gpu.cost("sort.radix_bytes_per_s")
    for _ in range(passes):
        waits = (
            gpu.cost("sort.radix_pass_s")
            + min(keys.elements / gpu.cost("sort.radix_keys_per_s"), gpu.cost("sort.radix_look_back_s"))
            + moved_s
        )
        kernels += [memset(gpu), gpu.kernel("radix_sort", (keys,), (keys,), latency_s=waits, scratch_bytes=held)]
    return kernels


def topk(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`topk`: a CTA, or several, find a row's largest elements; another one sorts them."""
    source = operation.inputs[0]
    row, rows = rows_of(operation)
    least = next((shortest for most, shortest in MULTI_BLOCK if rows <= most), LONG_ROW)
    if row >= least:
        kernels = _shared_rows(operation, gpu)
    else:
        waits = (
            gpu.cost("topk.row_s") * max(row / TOPK_ROW, 1.0)
            + rows * ceil(row / WARP) * gpu.cost("topk.warp_s") / gpu.sms
        )
        kernels = [gpu.kernel("gather_topk", (source,), operation.outputs, latency_s=waits)]
    if operation.arguments.get("sorted", True):
        taken = operation.outputs[0].elements // rows
        kernels.append(sorted_rows(operation.outputs[:2], taken, rows, gpu))
    return kernels


def _shared_rows(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`mbtopk`: eight bits of the elements a pass, counted, summed and compared; then the largest are gathered."""
    source = operation.inputs[0]
    kernels = [gpu.kernel("fill", (), ()), memset(gpu), memset(gpu)]
    for _ in range(source.item_bytes):
        issued = gpu.cost("topk.digit_instructions") * source.elements
        kernels += [
            gpu.kernel("topk_digit_counts", (source,), (), instructions=issued, chain=5, overlap=SERIAL),
            gpu.kernel("topk_digit_sums", (), (), chain=9),
            gpu.kernel("topk_within", (), (), chain=12),
        ]
    kernels.append(gpu.kernel("topk_kth_counts", (), (), chain=8))
    for _ in range(2):
        kernels += [gpu.kernel("scan_init", (), ()), gpu.kernel("scan_by_key", (), (), chain=17)]
    issued = gpu.cost("topk.gathered_instructions") * source.elements
    reads, writes = (source,), operation.outputs
    return [*kernels, gpu.kernel("gather_topk", reads, writes, instructions=issued, chain=8, overlap=SERIAL)]


def kthvalue(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`kthvalue` and `median` along a dimension; rows that L1 keeps come from there after the first pass."""
    source, outputs = operation.inputs[0], operation.outputs
    axis = int(operation.arguments.get("dim", -1)) if len(outputs) > 1 and source.shape else 0
    row = source.shape[axis] if len(outputs) > 1 and source.shape else source.elements
    rows = source.elements // max(row, 1)
    kernels, source = contiguous(source, 0, gpu)
    device = gpu.device
    threads = min(32 * ceil(row / 32), SELECT_THREADS)
    resident = min(device.max_warps_per_sm * 32 // threads, device.max_ctas_per_sm)
    waves = max(rows / (resident * gpu.sms), 1.0)
    passes, turns = 8 * source.item_bytes // SELECT_BITS, ceil(row / threads)
    kept = row * source.item_bytes * min(resident, ceil(rows / gpu.sms)) <= device.l1_bytes
    load_s = gpu.cycles_s(device.l1_latency_cycles if kept else device.l2_latency_cycles)
    waits = (
        waves
        * passes
        * (gpu.cost("topk.select_pass_s") + turns * (gpu.cycles_s(gpu.cost("topk.select_turn_cycles")) + load_s))
    )
    note = WALKED_TO_THE_END
    return [
        *kernels,
        gpu.kernel("radix_select", (source,), outputs, latency_s=waits, chain=turns * waves, overlap=SERIAL, note=note),
    ]


def multinomial(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Checks of the probabilities, a number for each, their quotients, and the places of the largest."""
    weights, output = operation.inputs[0], operation.outputs[0]
    rows = weights.shape[0] if len(weights.shape) > 1 else 1
    value, truth = scratch(weights, 0, shape=(1,)), scratch(weights, 1, shape=(1,), dtype="bool")
    sums, zeros = scratch(weights, 2, shape=(rows,)), scratch(weights, 3, shape=(rows,), dtype="bool")
    numbers, last = scratch(weights, 4), (len(weights.shape) - 1,)
    checked: Kernels = []
    for _ in ("least", "largest"):
        checked += [*reduced(weights, (value,), (), gpu, LARGEST), iterate("ge", (value,), truth, gpu)]
    kernels = [
        *checked,
        iterate("bitwise_and", (truth, truth), truth, gpu),
        gpu.kernel("assert_async", (truth,), (), chain=gpu.cost("search.assert_loads")),
        *reduced(weights, (sums,), last, gpu, SUM),
        iterate("eq", (sums,), zeros, gpu),
        *reduced(zeros, (truth,), (), gpu, MEAN),
        iterate("bitwise_not", (truth,), truth, gpu),
        gpu.kernel("assert_async", (truth,), (), chain=gpu.cost("search.assert_loads")),
        random_fill("exponential", (), (numbers,), gpu),
        iterate("div", (weights, numbers), numbers, gpu),
    ]
    if output.shape[-1] == 1:
        return [*kernels, *reduced(numbers, (output,), last, gpu, PLACED)]
    values = scratch(weights, 5, shape=output.shape)
    return [*kernels, *topk(replace(operation, name="topk", inputs=(numbers,), outputs=(values, output)), gpu)]


def other_draws(operation: Operation) -> str:
    """Which draws have no price, in words; empty: they have one."""
    several = operation.outputs[0].shape[-1] > 1
    return "of several samples with replacement" if several and operation.arguments.get("replacement") else ""
