"""What stores move: how many lanes of single elements really store, and how much a bulk copy takes along.

Rows that are no power of two long leave lanes without an element, and warps without any; what a kernel stores is known.
"""

from collections.abc import Mapping

import numpy as np

from .core import sm_tables as sm
from .program import Launch
from .sm_code import SHARED_LINE_BYTES
from .sm_way import Ways
from .walk import steps

WARP_THREADS = 32
WIDTHS = {"U16": 2, "S16": 2, "U8": 1, "S8": 1}
"""Bytes of a narrow store."""


def fill_stores(launch: Launch, ways: Ways, executed: Mapping[str, int], code: np.ndarray, rates: np.ndarray) -> None:
    """Shorten narrow stores by the lanes that have nothing to store, and fill bulk stores.

    Args:
        executed: step name -> executions in the CTA whose ways these are.
    """
    wanted = 0
    for step, _ in steps(launch.program.body):
        for tile in step.stores:
            tensor = launch.program.tensor(tile.tensor)
            elements = min(tile.rows, tensor.rows) * min(tile.cols, tensor.cols)
            wanted += executed[step.name] * elements * tensor.element_bytes
    bulk = _bulk_stores(ways, code)
    if bulk:
        rates[code[:, sm.KIND] == sm.BULK_WRITE, sm.SMEM] = wanted / bulk / SHARED_LINE_BYTES
        return
    widths = {
        place: next(WIDTHS[word] for word in one.modifiers if word in WIDTHS)
        for place, one in enumerate(ways.flow.instructions)
        if one.family == "STG" and not WIDTHS.keys().isdisjoint(one.modifiers)
    }
    issued = 0
    for warp in range(len(ways.warps)) if widths else ():
        for number, _ in ways.executed(warp):
            block = ways.flow.blocks[number]
            issued += sum(WARP_THREADS * width for place, width in widths.items() if block.first <= place < block.stop)
    for place in widths:
        for column in (sm.INTERVAL, sm.SMEM):
            rates[place, column] *= min(1.0, wanted / issued) if issued else 1.0


def _bulk_stores(ways: Ways, code: np.ndarray) -> int:
    """How many bulk stores the CTA runs."""
    places = np.flatnonzero(code[:, sm.KIND] == sm.BULK_WRITE)
    runs = 0
    for place in places:
        leader = int(code[place, sm.LEADER])
        block = next(number for number, one in enumerate(ways.flow.blocks) if one.first <= place < one.stop)
        runs += sum(number == block for number, _ in ways.executed(leader)) if leader >= 0 else 0
    return runs
