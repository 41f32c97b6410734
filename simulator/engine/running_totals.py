"""Exact work of any range of items: the difference of two running totals, taken over one period of the program."""

from dataclasses import dataclass

import numpy as np

from ..launch.program import TileProgram
from ..launch.walk import ITEMS_AT_ONCE, item_totals
from .extrapolate import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTotals:
    """Totals of a period's items before each of them, and of all of them.

    Args:
        executions: step name -> how often it runs; int64 (period + 1,).
        loaded_bytes, stored_bytes: asked for by CTAs; int64 (period + 1,) [B].
    """

    executions: dict[str, np.ndarray]
    loaded_bytes: np.ndarray
    stored_bytes: np.ndarray

    def work(self, start: int, stop: int) -> Work:
        """Steps, and what is loaded and stored, of the items start .. stop - 1."""

        def between(totals: np.ndarray) -> int:
            # An item does what the one a period before it does.
            period = len(totals) - 1
            return sum(
                sign * (item // period * int(totals[-1]) + int(totals[item % period]))
                for sign, item in ((1, stop), (-1, start))
            )

        return Work(
            items=stop - start,
            executions={name: between(totals) for name, totals in self.executions.items()},
            loaded_bytes=between(self.loaded_bytes),
            stored_bytes=between(self.stored_bytes),
        )


def running_totals(program: TileProgram) -> RunningTotals:
    """Look through one period of a program."""
    period = program.period_items
    parts = [
        item_totals(program, begin, min(begin + ITEMS_AT_ONCE, period)) for begin in range(0, period, ITEMS_AT_ONCE)
    ]

    def running(pieces: list[np.ndarray]) -> np.ndarray:
        return np.concatenate(([0], np.cumsum(np.concatenate(pieces)))).astype(np.int64)

    def together(moved: dict[str, np.ndarray], items: int) -> np.ndarray:
        return sum(moved.values(), start=np.zeros(items, dtype=np.int64))

    sizes = [len(next(iter(executions.values()))) for executions, _, _ in parts]
    return RunningTotals(
        executions={name: running([executions[name] for executions, _, _ in parts]) for name in parts[0][0]},
        loaded_bytes=running([together(loads, size) for (_, loads, _), size in zip(parts, sizes, strict=True)]),
        stored_bytes=running([together(stores, size) for (_, _, stores), size in zip(parts, sizes, strict=True)]),
    )
