"""What a row of collectives should take: the price of `torch.distributed`'s call, alone on the links of its GPUs."""

from ...simulator.device.device import Device
from ...simulator.operations.families.collectives import RANKS
from ...simulator.operations.operation import Operand, Operation
from .rows import COLLECTIVE_ITEM_BYTES, TableRow

OPERATIONS = {
    "all_reduce": "c10d::allreduce_",
    "all_gather": "c10d::_allgather_base_",
    "reduce_scatter": "c10d::_reduce_scatter_base_",
    "alltoall": "c10d::alltoall_base_",
}
"""Operation of the table -> torch's."""
DATA, RESULT = 1, 2
"""Storages."""


def collective_call(row: TableRow) -> list[Operation]:
    """The call; none: its operation has no price."""
    name, (elements, gpus) = OPERATIONS.get(row.source), row.sizes.values()
    if not name:
        return []
    read = elements // (gpus if row.source == "all_gather" else 1)
    written = elements // (gpus if row.source == "reduce_scatter" else 1)
    given, made = (_data(*data, row.dtype) for data in ((DATA, read), (RESULT, written)))
    said = {RANKS: gpus}
    return [Operation(kind="torch", name=name, inputs=(given,), outputs=(made,), arguments=said)]


def least_collective_s(row: TableRow, device: Device) -> float:
    """What a GPU sends at least, at its links' peak: all-reduces may be added up by a switch [s]."""
    elements, gpus = row.sizes.values()
    share = 1.0 if row.source == "all_reduce" else (gpus - 1) / gpus
    return elements * COLLECTIVE_ITEM_BYTES[row.dtype] * share / device.link_bytes_per_s


def _data(storage: int, elements: int, dtype: str) -> Operand:
    name = {"half": "float16"}.get(dtype, dtype)
    size = elements * COLLECTIVE_ITEM_BYTES[dtype]
    return Operand(storage=storage, storage_bytes=size, shape=(elements,), strides=(1,), dtype=name)
