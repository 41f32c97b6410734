"""How far the devices and compilers of two sides let a ratio of their times be trusted, and what is said of it."""

from dataclasses import dataclass, replace

from ..simulator.device.device import Device, load_device
from .verdict import BAND, EDIT_BAND, EXACT, OTHER_CODE_ELSEWHERE, SAME_CODE_ELSEWHERE, Band

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
