"""Element types: how large they are, what products of them run as, and in what type a result of them is stored."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Dtype:
    """An element type.

    Args:
        name: as on the command line, and in device files and libraries.
        bits: of an element in memory.
        tensor_rate: the rate at which tensor cores multiply it, as device files name it; empty where they cannot.
        result: name of the type in which an output computed from it is stored.
    """

    name: str
    bits: int
    tensor_rate: str = ""
    result: str = ""

    @property
    def size_bytes(self) -> int:
        """Size of an element [B]."""
        return self.bits // 8


_EVERY = (
    Dtype(name="fp32", bits=32, tensor_rate="tf32", result="fp32"),
    Dtype(name="fp16", bits=16, tensor_rate="fp16", result="fp16"),
    Dtype(name="bf16", bits=16, tensor_rate="fp16", result="bf16"),
    # e4m3; FlashAttention-3 stores O of fp8 operands as bf16
    Dtype(name="fp8", bits=8, tensor_rate="fp8", result="bf16"),
    Dtype(name="u8", bits=8),
    Dtype(name="i8", bits=8, tensor_rate="int8"),
    Dtype(name="i32", bits=32),
    Dtype(name="fp64", bits=64, tensor_rate="fp64"),
)
DTYPES: Mapping[str, Dtype] = {dtype.name: dtype for dtype in _EVERY}
"""All element types by name."""
OPERANDS = tuple(dtype.name for dtype in _EVERY if dtype.result)
"""Names of those that the problems of schedules are computed with."""
TORCH_NAMES: Mapping[str, str] = {
    "float64": "fp64", "double": "fp64", "float32": "fp32", "float": "fp32", "float16": "fp16", "half": "fp16",
    "bfloat16": "bf16", "float8_e4m3fn": "fp8", "int8": "i8", "int32": "i32",
}  # fmt: skip
"""What torch calls them, with and without `torch.` before it."""


def dtype_name(text: str) -> str:
    """The name here of an element type, by torch's name too; the text itself where it is none of torch's."""
    return TORCH_NAMES.get(text.removeprefix("torch."), text)
