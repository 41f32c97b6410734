"""`_cudnn_rnn`: layers of an LSTM, a GRU or a plain recurrent network, whole.

Gates of the inputs of all steps are one product; then each step is a product of the state before with the weights of
all gates, and a kernel that makes the next state of both. Of several layers the first products are of eight steps at a
time. Short states of float32 stay in one kernel for all steps.

Source: names and numbers of kernels of 16 layers on one H200 (cuDNN 9.19, 2026-11-28), `_cudnn_rnn` in
ATen/native/cudnn/RNN.cpp, torch 2.11.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..cost_model import SERIAL, KernelCostModel, part, scratch
from ..operation import Operand, Operation
from ..priced import Kernels
from .elementwise import copied, iterate, random_fill
from .products.matmul import multiplied
from .products.tensor_tiles import Product

CELLS = ("relu", "tanh", "lstm", "gru")
"""cuDNN's modes by name."""
CHUNK_STEPS = 8
"""Steps of a product of the inputs where layers follow each other. Kind: measured, two layers of 50 steps: seven
products each, one of them smaller."""
SHORT_STATE = 128
"""Units of float32 up to which one kernel keeps a layer's state over all steps. Kind: measured, 128 and not 256."""
FOLLOWING = "layers and directions are priced one after the other; cuDNN may run them beside each other"


def recurrent_cell(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """`_thnn_fused_gru_cell`, `_thnn_fused_lstm_cell`: gates of both products and their biases, an element a thread."""
    issued = gpu.cost("recurrent.cell_instructions") * operation.outputs[0].elements
    reads, writes = operation.inputs, operation.outputs
    note = "instructions of a recurrent cell are assumed"
    return [gpu.kernel("recurrent_cell", reads, writes, instructions=issued, chain=4, overlap=SERIAL, note=note)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """What an operation runs: args are sizes, `source` has its steps first."""

    mode: int
    steps: int
    rows: int
    units: int
    layers: int
    directions: int
    source: Operand
    weights: tuple[Operand, ...]
    biased: bool

    def passes(self) -> Iterator[tuple[Operand, Operand, int]]:
        """Weights of inputs and of states, and how wide inputs are, of each layer and direction."""
        apart = 4 if self.biased else 2
        for number in range(self.layers * self.directions):
            first, second = self.weights[apart * number : apart * number + 2]
            yield first, second, first.shape[1]


def cudnn_rnn(operation: Operation, gpu: KernelCostModel) -> Kernels:
    """Kernels of whole layers, and torch's copies before: inputs with steps first, weights that lie apart."""
    layers = _layers(operation)
    kernels: Kernels = []
    if operation.arguments.get("batch_first"):
        turned = scratch(layers.source, 0, shape=layers.source.shape)
        kernels.append(iterate("copy", (layers.source,), turned, gpu))
        layers = replace(layers, source=turned)
    kernels += _gathered_weights(layers, gpu)
    output, read = operation.outputs[0], layers.source
    chunk = CHUNK_STEPS if layers.layers > 1 else layers.steps
    for number, (inputs, states, width) in enumerate(layers.passes()):
        if number and float(operation.arguments.get("dropout", 0.0)) and operation.arguments.get("train"):
            kernels.append(random_fill("dropout", (read,), (read,), gpu))
        gates = scratch(output, 1, shape=(layers.steps * layers.rows, inputs.shape[0]))
        short = layers.source.dtype == "float32" and layers.units <= SHORT_STATE and layers.layers == 1
        for steps in _chunks(layers.steps, chunk):
            rows = layers.rows * steps
            kernels += _product(rows, inputs.shape[0], width, (read, inputs), gates, gpu)
        read = output
        if short:
            kernels += _kept(layers, states, gates, output, gpu)
        else:
            kernels += _stepped(layers, states, gates, output, gpu)
    note = FOLLOWING if layers.layers * layers.directions > 1 else ""
    return [replace(kernel, note=kernel.note or note) for kernel in kernels]


def other_rnn(operation: Operation) -> str:
    """Which layers have no price, in words; empty: they have one."""
    source = operation.inputs[0]
    if source.dtype not in ("bfloat16", "float32"):
        return f"of {source.dtype}"
    if operation.arguments.get("proj_size"):
        return "with projections"
    return "of packed sequences" if operation.arguments.get("batch_sizes") else ""


def _layers(operation: Operation) -> Layers:
    source, arguments = operation.inputs[0], operation.arguments
    if arguments.get("batch_first"):
        shape, strides = source.shape, source.strides
        source = replace(source, shape=(shape[1], shape[0], shape[2]), strides=(strides[1], strides[0], strides[2]))
    apart, directions = int(arguments["weight_stride0"]), 2 if arguments.get("bidirectional") else 1
    layers = int(arguments["num_layers"])
    return Layers(
        mode=int(arguments["mode"]),
        steps=source.shape[0],
        rows=source.shape[1],
        units=int(arguments["hidden_size"]),
        layers=layers,
        directions=directions,
        source=source,
        weights=operation.inputs[1 : 1 + apart * layers * directions],
        biased=apart == 4,
    )


def _gathered_weights(layers: Layers, gpu: KernelCostModel) -> Kernels:
    """Weights of bf16 are copied to one place in every call: `flatten_parameters` leaves them where they are.

    Source: `CUDNN_TENSOR_DTYPES` of torch.backends.cudnn, which lacks bf16, and `_cudnn_rnn`.
    """
    if layers.source.dtype != "bfloat16":
        return []
    place = scratch(layers.weights[0], 2, shape=(sum(weight.elements for weight in layers.weights),))
    return [iterate("fill", (), place, gpu), *(copied(weight, scratch(weight, 3), gpu) for weight in layers.weights)]


def _chunks(steps: int, chunk: int) -> Sequence[int]:
    return [min(chunk, steps - begun) for begun in range(0, steps, chunk)]


def _product(
    rows: int, columns: int, depth: int, reads: tuple[Operand, ...], writes: Operand, gpu: KernelCostModel
) -> Kernels:
    dtype = reads[0].dtype if reads[0].dtype == "bfloat16" else "tf32"
    product = Product(batch=1, m=rows, n=columns, k=depth, dtype=dtype, along_k=True)
    return multiplied(product, reads, (writes,), gpu)


def _stepped(layers: Layers, states: Operand, gates: Operand, output: Operand, gpu: KernelCostModel) -> Kernels:
    """A product and a cell for each step; from the second one on all steps are alike."""
    first = _step(layers, states, gates, output, gpu)
    return first + (_step(layers, states, gates, output, gpu) * (layers.steps - 1) if layers.steps > 1 else [])


def _step(layers: Layers, states: Operand, gates: Operand, output: Operand, gpu: KernelCostModel) -> Kernels:
    """The product of a step, and its cell, which leaves a row of the output."""
    before = scratch(output, 4, shape=(layers.rows, layers.units))
    made = scratch(output, 5, shape=(layers.rows, states.shape[0]))
    step, *more = _product(layers.rows, states.shape[0], layers.units, (before, states), made, gpu)
    if layers.source.dtype == "float32":
        step = replace(step, time_s=step.time_s + gpu.cost("recurrent.float32_step_s"))
    given, left = part(gates, gates.bytes // layers.steps), part(output, output.bytes // layers.steps)
    loads = gpu.cost(f"recurrent.{CELLS[layers.mode]}_loads")
    cell = gpu.kernel("recurrent_cell", (made, given), (before, left), chain=loads, overlap=SERIAL)
    return [step, *more, cell]


def _kept(layers: Layers, states: Operand, gates: Operand, output: Operand, gpu: KernelCostModel) -> Kernels:
    """One kernel for all steps, whose CTAs keep weights if these fit an SM; a GRU's biases are added before."""
    fill = gpu.device.sm_fill_bytes_per_cycle
    fits = states.bytes <= gpu.device.smem_per_cta_bytes
    cycles = gpu.cost("recurrent.short_step_cycles") + (0.0 if fits else states.bytes / fill)
    first = [iterate("add", (gates,), gates, gpu)] if layers.mode == 3 and layers.biased else []
    waits = gpu.cycles_s(cycles * layers.steps)
    return [*first, gpu.kernel("recurrent_steps", (gates, states), (output,), latency_s=waits, overlap=SERIAL)]
