"""Operations of torch that run beside a user's kernels, and are not predicted."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .. import units

MOST_NAMED = 5
"""Kinds of operations that a line names."""
PLURALS = {"softmax": "softmaxes", "copy": "copies"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchOperation:
    """All operations of one kind. Args: name: e.g. `matmul`; count: of them; flop, bytes: of all inputs and outputs."""

    name: str
    count: int
    flop: int
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """The object in `predict --json`."""
        return asdict(self)


def torch_text(operations: Sequence[TorchOperation]) -> str:
    """Operations in words, e.g. `4 matmuls of torch (8.6 TFLOP, 6.4 GB)`. Args: operations: most important first."""
    named = [_text(operation) for operation in operations[:MOST_NAMED]]
    if others := sum(operation.count for operation in operations[MOST_NAMED:]):
        named.append(f"{others} {'other' if others == 1 else 'others'}")
    words = f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else named[0]
    total = sum(operation.flop for operation in operations)
    moved = units.traffic(sum(operation.bytes for operation in operations))
    return f"{words} of torch ({f'{units.flop(total)}, ' if total else ''}{moved})"


def torch_note(operations: Sequence[TorchOperation]) -> str:
    """That operations run, and what a prediction of launches beside them lacks."""
    count = sum(operation.count for operation in operations)
    runs, them = ("runs", "it") if count == 1 else ("run", "them")
    is_not = "is not" if count == 1 else "are not"
    return f"{torch_text(operations)} {runs} beside these launches and {is_not} predicted; L2 does not know of {them}"


def _text(operation: TorchOperation) -> str:
    if operation.count == 1:
        return f"1 {operation.name}"
    return f"{operation.count} {PLURALS.get(operation.name, f'{operation.name}s')}"
