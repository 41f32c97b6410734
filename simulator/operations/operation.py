"""What a step of PyTorch does on its GPU, in order: operations of torch, and kernels that its compiler made of them.

`kernels.pytorch` records a step in these values; `price` says which kernels each launches, and how long they take.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from math import prod
from typing import Any, Literal

Kind = Literal["torch", "triton"]
"""An operation of torch, which launches kernels of torch's or a vendor's; or a Triton kernel, as machine code."""
Mode = Literal["auto", "eager", "compiled", "max-autotune"]
"""How a step runs: `torch.compile` where the code asks for it, nowhere, around all of it, or with all choices tried."""
MODES: tuple[Mode, ...] = ("auto", "eager", "compiled", "max-autotune")
Phase = Literal["forward", "backward", "optimizer"]
ITEM_BYTES: Mapping[str, int] = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "complex32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
"""torch's names of element types -> size of an element [B]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A tensor as an operation sees it.

    Args:
        storage: number of its storage in the recording; views of one tensor share it.
        storage_bytes: of the whole storage [B]; offset_bytes: where the tensor begins there [B].
        shape, strides: in elements; dtype: torch's name (`ITEM_BYTES`).
    """

    storage: int
    storage_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    offset_bytes: int = 0

    @property
    def elements(self) -> int:
        """How many elements it has, broadcast ones as often as they are seen."""
        return prod(self.shape)

    @property
    def item_bytes(self) -> int:
        """Size of an element [B]."""
        return ITEM_BYTES[self.dtype]

    @property
    def bytes(self) -> int:
        """Of distinct elements: dimensions of stride 0 count once [B]."""
        return self.item_bytes * prod(
            size if stride else min(size, 1) for size, stride in zip(self.shape, self.strides, strict=True)
        )

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements follow each other in the order of its dimensions."""
        dims = [(stride, size) for stride, size in zip(self.strides, self.shape, strict=True) if size != 1]
        return self.is_dense and all(a[0] >= b[0] for a, b in pairwise(dims))

    @property
    def is_dense(self) -> bool:
        """Whether its elements fill one run of memory, in whatever order of dimensions."""
        run = 1
        for stride, size in sorted((t, s) for t, s in zip(self.strides, self.shape, strict=True) if s != 1):
            if stride != run:
                return False
            run *= size
        return True


def contiguous(storage: int, shape: tuple[int, ...], dtype: str) -> Operand:
    """A tensor that fills a storage. Args: storage: its number; dtype: torch's name."""
    strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
    size = prod(shape) * ITEM_BYTES[dtype]
    return Operand(storage=storage, storage_bytes=size, shape=shape, strides=strides, dtype=dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation, or one launch of a Triton kernel.

    Args:
        kind: which of both; name: of torch as its dispatcher has it (`mm`, `_softmax`, `copy_`), or of the kernel;
        overload: of torch's operation, e.g. `Tensor`.
        inputs, outputs: tensors; an operation that writes in place has the tensor in both.
        arguments: other arguments, by torch's names; plain values.
        module: path of the module that was at it, e.g. `layers.0.mlp`; where: line of the user's code, `model.py:17`.
        phase: of the step.
        parts: operations that a Triton kernel holds, e.g. `("add", "gelu")`.
        calls: of a Triton kernel: numbers of its launches in the recording, one for each candidate configuration.
        live_bytes: of all storages that are alive after it [B].
        stream: on which it runs, empty: the default one; waits: numbers of operations that end before it begins.
    """

    kind: Kind
    name: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    overload: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    module: str = ""
    where: str = ""
    phase: Phase = "forward"
    parts: tuple[str, ...] = ()
    calls: tuple[int, ...] = ()
    live_bytes: int = 0
    stream: str = ""
    waits: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for another process."""
        made = {name: getattr(self, name) for name in self.__slots__ if name not in ("inputs", "outputs")}
        return made | {
            "arguments": dict(self.arguments),
            "inputs": [asdict(operand) for operand in self.inputs],
            "outputs": [asdict(operand) for operand in self.outputs],
        }

    @classmethod
    def from_dict(cls, made: Mapping[str, Any]) -> "Operation":
        """The operation of `to_dict`, after JSON too."""
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in made.items()}
        plain |= {name: tuple(map(_operand, made[name])) for name in ("inputs", "outputs")}
        arguments = {name: tuple(x) if isinstance(x, list) else x for name, x in made["arguments"].items()}
        return cls(**plain | {"arguments": arguments})


def _operand(made: Mapping[str, Any]) -> Operand:
    return Operand(**(dict(made) | {name: tuple(made[name]) for name in ("shape", "strides")}))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """All that a step does.

    Args:
        operations: in the order in which they are enqueued.
        mode: as the code runs: `eager` (torch's operations), `compiled` (`torch.compile`), or `max-autotune` (the
            same, where it tries choices).
        peak_bytes: most that all storages take at a time, inputs and parameters included [B].
        parameter_bytes: of these, parameters and buffers [B].
        notes: what is to be said of the answer: graph breaks, guesses, lost gradients; one line each.
        graphed: whether torch.compile replays it as CUDA graphs.
        ended: what the code raised after its last operation, in one line; empty: it ran to its end.
    """

    operations: tuple[Operation, ...]
    mode: Literal["eager", "compiled", "max-autotune"]
    peak_bytes: int
    parameter_bytes: int = 0
    notes: tuple[str, ...] = ()
    graphed: bool = False
    ended: str = ""
