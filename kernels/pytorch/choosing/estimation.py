"""Times of operations, in milliseconds, for a pass of torch's compiler that asks for those of its graph's nodes.

torch._inductor.config.aten_distributed_optimizations.custom_runtime_estimation = tilesight.runtime_estimation("h200")
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg

from ....simulator.device.device import Device
from ....simulator.operations.operation import Operation, RecordedStep
from ....simulator.operations.price import price_step
from ..recorder import name_of, plain_arguments
from ..storages import Storages, tensors_in

MS_PER_S = 1e3


def estimation(gpu: Device) -> Callable[[Node, int | None], float | None]:
    """A function of a node, and of a size that is to be assumed: time [ms]; None: there is no price."""

    def estimate(node: Node, size: int | None = None) -> float | None:
        operation = _operation_of(node) if size is None else None
        if operation is None:
            return None
        (kernels,) = price_step(RecordedStep(operations=(operation,), mode="eager", peak_bytes=0), gpu, {})
        if any(kernel.source == "refused" for kernel in kernels):
            return None
        return MS_PER_S * sum(kernel.time_s for kernel in kernels)

    return estimate


def _operation_of(node: Node) -> Operation | None:
    """An operation of torch as its node has it; None: it is none, or its tensors are not known."""
    target: Any = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    args, options = map_arg((node.args, node.kwargs), lambda other: other.meta.get("val"))
    made, given = tensors_in(node.meta.get("val")), tensors_in((args, options))
    if not made or any(not isinstance(size, int) for tensor in (*made, *given) for size in tensor.shape):
        return None
    storages = Storages()
    return Operation(
        kind="torch",
        name=name_of(target),
        overload=target._overloadname,
        inputs=tuple(map(storages.operand, given)),
        outputs=tuple(map(storages.operand, made)),
        arguments=plain_arguments(target._schema, args, options),
    )
