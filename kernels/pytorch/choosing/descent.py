"""`coordinate_descent_tuning`: configurations beyond those that Inductor lists, which it would find by a stopwatch.

torch's own search decides which are tried; each is predicted. It is cut short: each takes a compiler, and a second.
"""

from collections.abc import Callable, Sequence
from math import inf, prod
from typing import Any

from ....simulator.device.device import Device
from ...capture.recorded import RecordedLaunch
from .trials import Times

MOST_TRIED = 6
"""Configurations of a kernel that are tried beyond the listed ones."""
LEAST_S = 4e-6
"""Kernels that take less are not searched [s]: most of that is their launch and one trip to memory."""
CLOSE = 1.3
"""Nor are those that take up to so many times what their tensors take at HBM's bandwidth: little can be won."""


class Descent:
    """Searches. Args: device: that is spoken of; times: predicts launches; notes: of the recording."""

    def __init__(self, device: Device, times: Times, notes: dict[str, None]) -> None:
        self._device, self._times, self._notes = device, times, notes
        self._known: dict[Any, list[Any]] = {}

    def beyond(self, tuner: Any, capture: Callable[[Any], RecordedLaunch]) -> list[Any]:
        """Configurations of a kernel that were tried, in order; none where Inductor does not search.

        Args:
            tuner: Inductor's, of the kernel; capture: its launch in a configuration.
        """
        if not tuner.inductor_meta.get("coordinate_descent_tuning") or not _is_searched(tuner):
            return []
        if tuner not in self._known:
            self._known[tuner] = self._tried(tuner, tuner.configs, capture)
        return self._known[tuner]

    def _tried(self, tuner: Any, listed: Sequence[Any], capture: Callable[[Any], RecordedLaunch]) -> list[Any]:
        captures = [capture(config) for config in listed]
        times = [inf if time is None else time for time in self._times(captures)]
        best = min(range(len(listed)), key=lambda place: times[place])
        tensors = captures[0].tensors.values()
        moved = sum(min(prod(made.shape) * made.dtype.itemsize, made.storage_bytes) for made in tensors)
        if not max(LEAST_S, CLOSE * moved / self._device.hbm_peak_bytes_per_s) <= times[best] < inf:
            return []
        tried: list[Any] = []

        def timed(config: Any) -> float:
            if len(tried) == MOST_TRIED:
                self._notes[
                    f"coordinate_descent_tuning: of each kernel {MOST_TRIED} configurations are tried beyond the "
                    "listed ones; on a GPU the search may go on"
                ] = None
                return inf
            tried.append(config)
            (time_s,) = self._times([capture(config)])
            return inf if time_s is None else time_s

        tuner.coordesc_tuner.autotune(timed, listed[best], times[best])
        return tried


def _is_searched(tuner: Any) -> bool:
    return bool(getattr(tuner, "_should_coordesc_tune", True)) and hasattr(tuner, "coordesc_tuner")
