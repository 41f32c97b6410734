"""Prices that a person states, as text, of operations that have none: custom kernels, collectives."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from ..units import parse_duration, parse_quantity
from .cost_model import KernelCostModel
from .operation import Operand, Operation, RecordedStep
from .priced import KernelEstimate

COLLECTIVES = frozenset({"_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "c10d"})
"""Namespaces of operations in which several GPUs take part."""
TRANSFERS = ("send", "recv", "isend", "irecv")
"""Collectives of these in which a GPU only sends, or only receives."""
WAITS = "wait_tensor"
"""A collective of these that launches nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserEstimate:
    """What is stated of an operation.

    Args:
        name: of the operation, with its namespace or without, underscores left away or not; text: as it was given.
        time_s: that it takes, 0: not stated [s]; bytes_per_s: at which its bytes move, 0: not stated [B/s].
    """

    name: str
    text: str
    time_s: float = 0.0
    bytes_per_s: float = 0.0

    def is_of(self, operation: Operation) -> bool:
        """Whether it is stated of an operation."""
        plain, meant = _plain(operation.name), _plain(self.name)
        return plain == meant if "::" in meant else plain.rpartition("::")[2] == meant


def parse_prices(given: Mapping[str, str]) -> tuple[UserEstimate, ...]:
    """Prices by the names of their operations: times (`12us`) or bandwidths (`450GB/s`).

    Raises:
        ValueError: a name is empty, or a text is neither, or not above 0 (one line).
    """
    return tuple(_parsed(name, text) for name, text in given.items())


def split_prices(texts: Iterable[str]) -> dict[str, str]:
    """Texts `NAME=PRICE` as pairs. Raises: ValueError: there is no `=`, or a name twice (one line)."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, price = text.rpartition("=")
        if not equals:
            raise ValueError(f"{text!r}: must be NAME=TIME or NAME=BANDWIDTH, e.g. mylib::op=12us, all_reduce=450GB/s")
        if name in pairs:
            raise ValueError(f"{text!r}: {name} has the price {pairs[name]} already; give one")
        pairs[name] = price
    return pairs


def stated_kernel(operation: Operation, prices: Sequence[UserEstimate], gpu: KernelCostModel) -> KernelEstimate | None:
    """What is stated of an operation; None: nothing. L2 is touched by its tensors, for the operations that follow."""
    price = next((price for price in prices if price.is_of(operation)), None)
    if price is None:
        return None
    least = gpu.kernel(operation.name, operation.inputs, operation.outputs)
    time = price.time_s or moved_bytes(operation) / price.bytes_per_s
    return KernelEstimate(
        name=operation.name,
        source="stated",
        time_s=time,
        bound_by="what is stated",
        hbm_read_bytes=least.hbm_read_bytes,
        hbm_write_bytes=least.hbm_write_bytes,
        l2_bytes=least.l2_bytes,
    )


def moved_bytes(operation: Operation) -> int:
    """Bytes that a bandwidth is meant for [B].

    All that is read and written; of a collective the larger of both, as NCCL's tests count them (`algbw`). What it
    writes may be among its inputs too. Where torch does not say what a collective writes, both are among its inputs,
    as large as each other.
    """
    read, written = _bytes_of(operation.inputs), _bytes_of(operation.outputs)
    if is_collective(operation):
        if not written and operation.name.rpartition("::")[2].strip("_") not in TRANSFERS:
            return read // 2
        made = {operand.storage for operand in operation.outputs}
        return max(_bytes_of([operand for operand in operation.inputs if operand.storage not in made]), written)
    return read + written


def is_collective(operation: Operation) -> bool:
    """Whether several GPUs take part."""
    return operation.name.partition("::")[0] in COLLECTIVES


def unused_notes(prices: Sequence[UserEstimate], step: RecordedStep) -> tuple[str, ...]:
    """A line for each price of an operation that the step does not have."""
    unused = [price for price in prices if not any(price.is_of(operation) for operation in step.operations)]
    return tuple(f"the price {price.name}={price.text} is not used: the step has no such operation" for price in unused)


def _parsed(name: str, text: str) -> UserEstimate:
    try:
        speed = parse_quantity(text) if text.strip().endswith("B/s") else 0.0
        time = 0.0 if speed else parse_duration(text)
    except ValueError:
        speed = time = 0.0
    if not (name and isfinite(speed + time) and speed + time > 0.0):
        raise ValueError(f"{name}={text}: must be a time such as 12us, or a bandwidth such as 450GB/s, above 0")
    return UserEstimate(name=name, text=text, time_s=time, bytes_per_s=speed)


def _plain(name: str) -> str:
    """A name as it is compared: without underscores, and `::` before the operation."""
    return name.replace("_", "").replace(".", "::")


def _bytes_of(operands: Iterable[Operand]) -> int:
    return sum({(operand.storage, operand.offset_bytes): operand.bytes for operand in operands}.values())
