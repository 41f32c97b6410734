"""How far the change of a predicted time can be trusted: its band, and a word.

Two predictions of nearly the same kernel share most of their error, so the band is that of the ratio.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..simulator.device.device import Device, load_device

Band = tuple[float, float]
"""Half width of the band of a ratio's logarithm: at equal times, and for each unit of the logarithm itself."""
BAND: Band = (0.12, 0.08)
"""Of other code on the same device.

Source: pairs of configurations of one kernel at one shape, predicted and measured on an H100
(validate/lab/diff_pairs.py): nine of ten lie inside."""
EDIT_BAND: Band = (0.06, 0.10)
"""The same where only the source changed: grid, warps, stages and tiles are equal.

Source: edits of seven kernels, predicted blind and measured on an H100 (validate/lab/edits/band.py)."""
SAME_CODE_ELSEWHERE: Band = (0.07, 0.15)
"""Of the same code on another device. Source: the same configurations on an H100 and an H200."""
OTHER_CODE_ELSEWHERE: Band = (0.135, 0.06)
"""Of other code on another device. Source: a configuration on an H100, and another one of its cell on an H200."""
EXACT: Band = (0.0, 1.0)
"""Of the same code on the same device, whose time caches alone can change: by nothing, or by up to twice as much."""
SAME, FASTER, SLOWER, CANNOT_TELL = "same", "faster", "slower", "cannot tell"
LITTLE = 0.10
"""A change that is no larger wherever in the band it lies is told as such."""
WITHIN = f"within {100 * LITTLE:.0f} %"
MEASURED = ("h100-sxm", "h200")
"""Between these the same kernels were predicted and measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """What two sides are predicted for.

    Args:
        same: whether it is one device with the same numbers.
        same_code, edited, other_code: bands of launches of the same code, of other code that divides the work as
            before, and of other code.
        notes: one line each.
    """

    same: bool = True
    same_code: Band = EXACT
    edited: Band = EDIT_BAND
    other_code: Band = BAND
    notes: tuple[str, ...] = ()

    def band(self, same_code: bool, same_tiling: bool) -> Band:
        """Of a launch."""
        return self.same_code if same_code else self.edited if same_tiling else self.other_code


def half_width(ratio_log: float, band: Band = BAND) -> float:
    """Half width of the band around the logarithm of a predicted ratio."""
    return band[0] + band[1] * abs(ratio_log)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How a time changes.

    Args:
        old_s, new_s: predicted [s]; low, high: of the ratio of the true times, nine of ten lie between;
        at_least: whether a time is a lower bound, or something is missing, so that the band says nothing.
    """

    old_s: float
    new_s: float
    low: float
    high: float
    at_least: bool = False

    @property
    def ratio(self) -> float:
        """New time over old one."""
        return self.new_s / self.old_s

    @property
    def verdict(self) -> str:
        """Slower or faster where the whole band is; the same where there is no band and no change; else how little."""
        if self.at_least:
            return CANNOT_TELL
        if self.low == self.high == 1.0:
            return SAME
        if self.low > 1.0 or self.high < 1.0:
            return SLOWER if self.low > 1.0 else FASTER
        return WITHIN if self.low >= 1.0 / (1.0 + LITTLE) and self.high <= 1.0 + LITTLE else CANNOT_TELL

    def to_dict(self) -> dict[str, float]:
        """The change's object in JSON."""
        return {"old_s": self.old_s, "new_s": self.new_s, "ratio": self.ratio, "low": self.low, "high": self.high}


def change_of(old_s: float, new_s: float, band: Band = BAND, at_least: bool = False) -> Change:
    """The change of a launch. Args: old_s, new_s: predicted [s]; at_least: as of `Change`."""
    ratio_log = math.log(new_s / old_s)
    width = half_width(ratio_log, band)
    low, high = math.exp(ratio_log - width), math.exp(ratio_log + width)
    return Change(old_s=old_s, new_s=new_s, low=low, high=high, at_least=at_least)


def sum_of(changes: Sequence[Change], gone_s: float, added_s: float, at_least: bool, band: Band = BAND) -> Change:
    """The change of launches together; their errors are taken to point the same way.

    Args:
        gone_s, added_s: time of launches of which the other side has none [s].
        at_least: as of `Change`; band: of other code.
    """
    old_s = sum(change.old_s for change in changes) + gone_s
    new_s = sum(change.new_s for change in changes) + added_s
    low_s, high_s = (
        sum(change.old_s * edge for change, edge in zip(changes, edges, strict=True))
        for edges in ([change.low for change in changes], [change.high for change in changes])
    )
    # What stands on one side alone is off by as much as a launch is beside another of the same kernel.
    low = (low_s + added_s * math.exp(-band[0])) / (old_s - gone_s + gone_s * math.exp(band[0]))
    high = (high_s + added_s * math.exp(band[0])) / (old_s - gone_s + gone_s * math.exp(-band[0]))
    return Change(old_s=old_s, new_s=new_s, low=low, high=high, at_least=at_least)


def machines_of(old: Device, new: Device, one_compiler: bool = True) -> Machines:
    """How far a ratio between two devices can be trusted; a what-if of one side makes another device of it.

    Args:
        one_compiler: whether one Triton makes the code of both: another may change more of it than an edit does.
    """
    machines = _between(old, new)
    return machines if one_compiler else replace(machines, edited=machines.other_code)


def _between(old: Device, new: Device) -> Machines:
    """The same of one compiler."""
    if old == new:
        return Machines()
    if old.name == new.name:
        note = "what-if of one side: nothing is measured there; the band is that of other code on one device"
        return Machines(same=False, same_code=BAND, edited=BAND, notes=(note,))
    tested = all(device in [load_device(name) for name in MEASURED] for device in (old, new))
    note = "no kernel was measured on both devices: the band is that between an H100 and an H200, not tested here"
    return Machines(
        same=False,
        same_code=SAME_CODE_ELSEWHERE,
        edited=OTHER_CODE_ELSEWHERE,
        other_code=OTHER_CODE_ELSEWHERE,
        notes=() if tested else (note,),
    )
