"""What a row of a table should take: its kernels' prices, called as whoever measured it called them.

Products were measured in CUDA graphs of several calls, each with weights of its own, so that L2 keeps these only where
all of them fit: six calls by vLLM and SGLang (which has inputs of its own, too), as many as fill L2, up to five, by
TensorRT-LLM. A call's time is that from its first kernel to the next call's, gaps between kernels in a graph included.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from ...simulator.device.device import Device
from ...simulator.operations.cost_model import KernelCostModel
from ...simulator.operations.operation import ITEM_BYTES, Operand, Operation
from ...simulator.operations.price import price
from ...simulator.operations.priced import KernelEstimate
from ..compare.quantities import Pair
from .calls import attention_bounds, attention_call, collective_call, least_collective_s
from .rows import TableRow

CALLS = 6
LINEAR = {
    **dict.fromkeys(("torch.nn.functional.linear", "vllm_default", "sglang_torch_linear", "gemm", "sglang"), CALLS),
    "torch_flow": 5,
}
"""Kernel source of bf16 products, all of which are `torch.nn.functional.linear` -> calls in a graph."""
FP8 = "CutlassFP8ScaledMMLinearKernel"
"""vLLM's product in fp8: a kernel converts the activations by a scale that is known, then comes the product."""
LASTING_S = 1e-3
"""Time at the peak from which on a product is under the power limit's control, though it runs a few dozen times."""
OUTPUT, INPUT, QUANTIZED, WEIGHTS = 1, 2, 3, 16
"""Storages: weights from the last one on, inputs of calls behind them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedRow:
    """A row beside its prediction.

    Args:
        row: of the table; predicted_s: of a call; 0: none [s].
        roofline_s: its FLOP, or bytes of operands and results, at the peaks of the datasheet [s].
        least_s: that no GPU of that kind goes below [s].
        reason: why there is no prediction, one line; empty: there is.
    """

    row: TableRow
    predicted_s: float
    roofline_s: float
    least_s: float
    reason: str = ""

    @property
    def impossible(self) -> bool:
        """Whether it was measured faster than the peaks allow."""
        return self.row.time_s < self.least_s

    @property
    def pair(self) -> Pair:
        """Its time."""
        return Pair(self.predicted_s, self.row.time_s)


def predict_row(row: TableRow, device: Device) -> PredictedRow:
    """Price a row. Args: device: the row's."""
    if row.kind == "gemm":
        calls, graph, roofline_s, least_s, flop_s = _products(row, device)
        device = _unthrottled(device) if flop_s < LASTING_S else device
    elif row.kind == "collective":
        calls, graph = 1, collective_call(row)
        roofline_s = least_s = least_collective_s(row, device) if graph and device.link_bytes_per_s else 0.0
    else:
        calls, graph = 1, attention_call(row)
        roofline_s, least_s = attention_bounds(row, device)
    if not graph:
        reason = f"{row.source} of {row.dtype} has no price"
        return PredictedRow(row=row, predicted_s=0.0, roofline_s=roofline_s, least_s=least_s, reason=reason)
    kernels = second_round(graph, device)
    reason = next((kernel.reason for kernel in kernels if kernel.source == "refused"), "")
    # Collectives follow each other in a stream, whose host is ahead: what lies between them is in their prices.
    gap_s = 0.0 if row.kind == "collective" else device.launch_graph_s
    time_s = sum(kernel.time_s + gap_s for kernel in kernels) / calls
    return PredictedRow(row=row, predicted_s=time_s, roofline_s=roofline_s, least_s=least_s, reason=reason)


def _products(row: TableRow, device: Device) -> tuple[int, list[Operation], float, float, float]:
    """Calls of a graph, its operations, and what `PredictedRow` has as bounds; FLOP alone [s]."""
    m, n, k = (row.sizes[name] for name in ("m", "n", "k"))
    is_fp8 = row.source == FP8
    calls = CALLS if is_fp8 else LINEAR.get(row.source, 0) if row.dtype == "bfloat16" else 0
    item = 1 if is_fp8 else 2
    if row.source == "torch_flow":
        calls = min(calls, ceil(device.l2_bytes / (item * n * k)))
    rate = device.fastest_of_kind("fp8" if is_fp8 else "fp16") * device.sms * device.boost_clock_hz
    flop_s = 2.0 * m * n * k / rate
    least = (max(calls, 1) * item * n * k - device.l2_bytes) / max(calls, 1)
    roofline_s = max(flop_s, (item * k * (m + n) + 2 * m * n) / device.hbm_peak_bytes_per_s)
    least_s = max(flop_s, least / device.hbm_peak_bytes_per_s) if calls else 0.0
    own_inputs = row.framework.startswith("sglang")
    graph = [call for number in range(calls) for call in _linear(m, n, k, number, is_fp8, own_inputs)]
    return calls, graph, roofline_s, least_s, flop_s


def _unthrottled(device: Device) -> Device:
    """A device whose power limit has not yet lowered its clock."""
    short = device.torch_kernels["matmul.short_factor"]
    return replace(
        device, torch_kernels=device.torch_kernels.with_number("matmul.lasting_factor", short.value, short.origin)
    )


def _linear(m: int, n: int, k: int, number: int, is_fp8: bool, own_inputs: bool) -> list[Operation]:
    """A call of a linear layer. Args: number: of its weights; own_inputs: whether no other call reads what it does."""
    inputs = _matrix(WEIGHTS + CALLS + number if own_inputs else INPUT, m, k, "bfloat16")
    output = _matrix(OUTPUT, m, n, "bfloat16")
    if not is_fp8:
        weights = _matrix(WEIGHTS + number, n, k, "bfloat16")
        return [Operation(kind="torch", name="linear", inputs=(inputs, weights), outputs=(output,))]
    quantized = _matrix(QUANTIZED, m, k, "float8_e4m3fn")
    weights = _matrix(WEIGHTS + number, k, n, "float8_e4m3fn", strides=(1, k))
    return [
        Operation(kind="torch", name="_C::static_scaled_fp8_quant", inputs=(inputs,), outputs=(quantized,)),
        Operation(kind="torch", name="_C::cutlass_scaled_mm", inputs=(quantized, weights), outputs=(output,)),
    ]


def _matrix(storage: int, rows: int, columns: int, dtype: str, strides: tuple[int, int] | None = None) -> Operand:
    return Operand(
        storage=storage,
        storage_bytes=rows * columns * ITEM_BYTES[dtype],
        shape=(rows, columns),
        strides=strides or (columns, 1),
        dtype=dtype,
    )


def second_round(operations: Sequence[Operation], device: Device) -> list[KernelEstimate]:
    """Kernels of a graph that is replayed: L2 holds what its last replay left."""
    gpu = KernelCostModel(device)
    for _ in range(2):
        kernels = [kernel for operation in operations for kernel in price(operation, gpu)]
    return kernels
