"""Operations that choose or count elements: `topk`, histograms.

Source: ATen/native/cuda/TensorTopK.cu, SummaryOps.cu, torch 2.11 to 2.13. In a histogram a thread takes an element, and
adds by comparing and swapping until none has come between: threads of a CTA that meet in a bin follow each other.
"""

from math import ceil

from ..gpu import SERIAL, Gpu, memset
from ..operation import Operation
from ..priced import PricedKernel
from .elementwise import iterate
from .reductions import LARGEST, WARP, reduced
from .sorting import rows_of, sorted_rows

ROW = 1024
"""Most elements of a row that a CTA takes at once, one a thread."""
MULTI_BLOCK = ((20, 20000), (40, 10000), (80, 8000), (199, 5000), (799, 3000), (4000, 800))
"""Most rows -> shortest of which a row is shared by CTAs (`should_use_sbtopk`); of more rows LONG_ROW."""
LONG_ROW = 400
COUNTING_THREADS, COUNTING_CTAS_PER_SM = 512, 4
SMEM_BYTES = 48 << 10
"""Shared memory of a CTA that asks for no more than any may have (`sharedMemPerBlock`)."""
EVEN = "elements are taken to fall into all bins alike"


def topk(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """`topk`: a CTA, or several, find a row's largest elements; another one sorts them."""
    source = operation.inputs[0]
    row, rows = rows_of(operation)
    least = next((shortest for most, shortest in MULTI_BLOCK if rows <= most), LONG_ROW)
    if row >= least:
        kernels = _shared_rows(operation, gpu)
    else:
        waits = (
            gpu.cost("topk.row_s") * max(row / ROW, 1.0) + rows * ceil(row / WARP) * gpu.cost("topk.warp_s") / gpu.sms
        )
        kernels = [gpu.kernel("gather_topk", (source,), operation.outputs, latency_s=waits)]
    if operation.arguments.get("sorted", True):
        taken = operation.outputs[0].elements // rows
        kernels.append(sorted_rows(operation.outputs[:2], taken, rows, gpu))
    return kernels


def _shared_rows(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
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


def histogram(operation: Operation, gpu: Gpu) -> list[PricedKernel]:
    """Kernels of `histc` and `bincount`: zeros, and the additions; of `bincount` the ends of its range before."""
    source, output = operation.inputs[0], operation.outputs[0]
    kernels = []
    if operation.name == "bincount":
        for _ in ("min", "max"):
            kernels += [*reduced(source, (output,), (), gpu, LARGEST), gpu.kernel("Memcpy DtoH", (), ())]
    ctas = ceil(source.elements / COUNTING_THREADS)
    met = min(source.elements, COUNTING_THREADS) / output.elements
    waves = max(ctas / (COUNTING_CTAS_PER_SM * gpu.sms), 1.0)
    added = gpu.kernel(
        "histogram",
        operation.inputs,
        (output,),
        instructions=(
            gpu.cost(
                "histogram.counted_wide_instructions" if source.item_bytes == 8 else "histogram.counted_instructions"
            )
        )
        * source.elements,
        ctas=ctas,
        chain=2,
        latency_s=gpu.cycles_s(gpu.cost("histogram.spin_cycles") * met) * waves,
        overlap=SERIAL,
        note=EVEN,
    )
    return [*kernels, iterate("fill", (), output, gpu), added]


def other_histogram(operation: Operation) -> str:
    """Which histograms have no price, in words; empty: it has one."""
    if operation.name == "histc" and operation.arguments.get("min", 0) == operation.arguments.get("max", 0):
        return "without its range, which the host asks the device for,"
    return "of more bins than shared memory holds" if operation.outputs[0].bytes + 8 >= SMEM_BYTES else ""
