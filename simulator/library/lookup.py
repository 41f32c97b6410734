"""Resources of launches from the library: what the compiler made of them, and the costs of their steps."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from ..device.device import Device
from ..launch.program import Launch, Resources
from ..refusal import Refusal
from .files import Kernel, unpack
from .keys import file_of, keys_of

SUFFIX = ".xz"


def find_kernel(launch: Launch, device: Device) -> Kernel | None:
    """The kept kernel that stands for a launch on a device; None where there is none."""
    if launch.warp_split != "q":
        return None  # no Triton kernel divides keys among warps
    kernels = _kernels(file_of(launch, device.capability))
    return next((kernels[key] for key in keys_of(launch) if key in kernels), None)


def resources_of(launch: Launch, device: Device) -> Resources | Refusal | None:
    """Resources of a launch, why the compiler refuses it, or None where the library does not know it."""
    kernel = find_kernel(launch, device)
    if kernel is None:
        return None
    if not kernel.resources:
        return Refusal("does not fit", kernel.reason)
    return Resources(**kernel.resources, origin="compiled", figures=kernel.figures)  # type: ignore[arg-type]


def resources_of_all(launches: Sequence[Launch], device: Device) -> tuple[Resources, ...] | Refusal | None:
    """The same for launches that run one after the other; None where one of them is not known."""
    known: list[Resources] = []
    for launch in launches:
        answer = resources_of(launch, device)
        if not isinstance(answer, Resources):
            return answer
        known.append(answer)
    return tuple(known)


def origin_text(device: Device) -> str:
    """Who made the kernels that are kept for a device, in one line; empty where there are none."""
    folder = files(__package__).joinpath(f"sm_{device.capability}")
    if not folder.is_dir():
        return ""
    triton = made_by(next(folder.iterdir()))["triton"]
    return f"registers, shared memory and cycles come from machine code compiled by Triton {triton} for {folder.name}"


def made_by(file: Traversable) -> dict[str, str]:
    """What made a file of the library."""
    return unpack(file.read_bytes())[1]


@cache
def _kernels(name: str) -> dict[str, Kernel]:
    path = files(__package__).joinpath(name + SUFFIX)
    return unpack(path.read_bytes())[0] if path.is_file() else {}
