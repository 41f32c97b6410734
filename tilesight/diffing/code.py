"""Digests of launches: equal where machine code, grid and arguments are.

Two comments, names or places of a file make no difference; an order of two instructions does, and how long one waits.
"""

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ..simulator.emulator.storage import STORAGE_SHIFT
from ..simulator.refusal import CannotFollow
from ..simulator.sass.decode import decode
from ..simulator.trace.cta.traced_kernel import CompiledKernel

if TYPE_CHECKING:
    from ..kernels.compile.call import KernelLaunch

NAMED = re.compile(r"[\w.$]*\$[\w.$]+|`\([^)]*\)")
"""Symbols in operands, which hold the kernel's name."""
TENSOR = re.compile(r"tensor<((?:\d+x)+)")
"""Shape of a tensor in a kernel's first IR, e.g. `tensor<128x64x`."""


def code_of(kernel: CompiledKernel | None, call: "KernelLaunch") -> str:
    """Digest of a launch: of its instructions, resources, grid and arguments; empty where it has no code."""
    if kernel is None or kernel.resources.code is None:
        return ""
    try:
        instructions = decode(kernel.resources.code.sass)
    except CannotFollow:
        return ""
    listing = [
        [
            item.predicate,
            item.opcode,
            [NAMED.sub("", text) for text in item.printed],
            [item.stall_cycles, item.yields, item.write_barrier, item.read_barrier, item.wait_mask, item.reuse],
        ]
        for item in instructions
    ]
    arguments, sizes = _memory(call)
    asked = [call.grid, call.num_warps, call.cooperative, list(arguments.values()), sizes]
    return _digest([listing, kernel.resources.to_dict(), asked])


def shape_of(call: "KernelLaunch") -> str:
    """Arguments that are numbers, and sizes of memory, as text."""
    arguments, sizes = _memory(call)
    return json.dumps([{name: value for name, value in arguments.items() if not isinstance(value, list)}, sizes])


def tiling_of(call: "KernelLaunch") -> str:
    """Grid, warps, stages and shapes of tiles, as text: equal where an edit left alone how the work is divided."""
    shapes = {
        tuple(size for size in shape.split("x") if size not in ("", "1"))
        for shape in TENSOR.findall(call.job.get("ttir", ""))
    }
    return json.dumps([call.grid, call.num_warps, call.num_stages, call.num_ctas, sorted(shapes)])


def flow_of(calls: "Sequence[KernelLaunch]", codes: Sequence[str]) -> str:
    """Digest of launches that follow each other, and of which memory each shares with which; empty where one has none.

    Args:
        codes: digest of each.
    """
    if not all(codes):
        return ""
    first: dict[int, int] = {}
    shared = [[first.setdefault(storage.number, len(first)) for storage in call.storages] for call in calls]
    groups: dict[int, int] = {}
    tuned = [groups.setdefault(call.tuned, len(groups)) if call.tuned >= 0 else -1 for call in calls]
    return _digest([list(codes), shared, tuned])


def _memory(call: "KernelLaunch") -> tuple[dict[str, Any], list[Any]]:
    """Arguments, pointers as places in storages that are counted from 0, and what each storage is."""
    places = {storage.number: place for place, storage in enumerate(call.storages)}
    arguments: dict[str, Any] = {}
    for name, value in call.arguments.items():
        number = (value >> STORAGE_SHIFT) - 1 if isinstance(value, int) else -1
        is_pointer = isinstance(value, int) and number in places
        arguments[name] = [places[number], value - (number + 1 << STORAGE_SHIFT)] if is_pointer else value
    sizes = [
        [
            storage.size_bytes,
            storage.whole,
            sha256(storage.values or storage.fill).hexdigest() if storage.is_known else None,
        ]
        for storage in call.storages
    ]
    return arguments, sizes


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]
