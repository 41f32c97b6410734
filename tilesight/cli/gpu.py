"""What commands share that run kernels on this machine's GPUs: is there one, its device, a compiler for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..simulator.device.device import Device
from .groups import Group, flag, option
from .options import DEVICE, SETTING, device_given
from .output import BadInput, progress

if TYPE_CHECKING:
    from ..simulator.launch.program import Launch, Resources
    from ..simulator.refusal import Refusal
    from ..validate.compare.campaign import Compiler

DOCTOR = "`tilesight doctor` says what is missing, and how to get it"


class MeasureOptions(Group):
    """On which GPUs is measured, what is compared, and where measurements are kept."""

    device: str | None = option(None, "Predict with this device.  [default: by the GPU's name]", DEVICE)
    set_: list[str] | None = option(None, "Change a number of the device; repeatable.", SETTING)
    gpus: str = option("1", "GPUs to spread the points over.", "all|N")
    no_counters: bool = flag("Compare times only; do not run ncu.")
    results: Path | None = option(None, "Write the measurements here; a second run resumes the file.", "FILE")
    read: Path | None = option(None, "Compare the measurements of a results file; needs no GPU.", "FILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A device and what it was made from. Args: device; name: catalogue name or file; settings: of `--set`."""

    device: Device
    name: str
    settings: tuple[str, ...] = ()

    @property
    def job(self) -> dict[str, object]:
        """The device as jobs name it."""
        return {"name": self.name, "set": list(self.settings)}

    @property
    def notes(self) -> tuple[str, ...]:
        """A remark on every number that `--set` replaced."""
        return tuple(f"device changed by --set {setting}" for setting in self.settings)


def need_gpu() -> None:
    """Raises: BadInput: no kernel can run here."""
    from ..kernels.launch.availability import missing_gpu

    if reason := missing_gpu():
        raise BadInput(f"{reason}; {DOCTOR}")


def device_named(name: str | None, settings: Sequence[str] | None) -> Named:
    """The device of that name; where it is None, the one of this machine's GPU.

    Raises:
        BadInput: it is unknown, or there is no GPU or no device file for it.
    """
    if name is None:
        need_gpu()
        import torch

        from ..simulator.device.device import device_of_product

        product = torch.cuda.get_device_name()
        name = device_of_product(product)
        if name is None:
            raise BadInput(f"--device: none is known for {product!r}; name one, or make one with `tilesight calibrate`")
    full_name, device = device_given(name, settings)
    return Named(device=device, name=full_name, settings=tuple(settings or ()))


def compiler(device: Device, workers: int) -> "Compiler":
    """What compiles launches ahead of time, and shows how far it is."""

    def compiled(wanted: "Sequence[Launch]") -> "list[Resources | Refusal]":
        from ..kernels.compile.compile import compile_many
        from ..kernels.compile.outcomes import Compiled

        with progress("kernels compiled") as tick:
            outcomes = compile_many(wanted, device, workers=workers, progress=tick)
        return [outcome.resources if isinstance(outcome, Compiled) else outcome for outcome in outcomes]

    return compiled
