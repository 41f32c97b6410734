"""What-ifs: a device with numbers replaced, as `--set key=value` does."""

from dataclasses import replace
from typing import Any

from .. import units
from ..names import unknown
from .device import DEVICE_KEYS, Device, number_fields
from .host import LINKS, Host
from .numbers import Provenance, is_whole
from .sm_numbers import SM_TABLE, sm_fields
from .torch_kernels import kernel_field

SET = Provenance("set", "--set")
"""Origin of a number that a what-if has replaced."""


def with_number(device: Device, key: str, value: float, origin: Provenance) -> Device:
    """A device with one number replaced: its own, its SM's or its kernels'. Raises: ValueError: no GPU can have it."""
    if "." in key:
        return replace(device, torch_kernels=device.torch_kernels.with_number(key, value, origin))
    changed: dict[str, Any] = {key: value}
    if key in sm_fields():
        return replace(device, sm=replace(device.sm, provenance=device.sm.provenance | {key: origin}, **changed))
    return replace(device, provenance=device.provenance | {key: origin}, **changed)


def on_host(device: Device, host: Host) -> Device:
    """A device on a host: its links are the host's, unless a what-if has set them."""
    changed = {key: getattr(host, key) for key in LINKS if device.provenance.get(key) != SET}
    origins = {key: host.provenance[key] for key in changed if key in host.provenance}
    return replace(device, host=host, provenance=device.provenance | origins, **changed)


def override(device: Device, settings: list[str]) -> Device:
    """What-if: a device with some numbers replaced.

    Args:
        settings: texts `key=value`, the value as `units.parse_quantity` reads it.

    Raises:
        ValueError: unknown key, or a value that is no number or out of range.
    """
    known = {item.name: item for item in number_fields()} | sm_fields()
    for setting in settings:
        key, separator, text = setting.partition("=")
        if not separator:
            raise ValueError(
                f"--set {setting!r}: must be key=value, such as l2_bytes=30MiB; {DEVICE_KEYS} lists all keys"
            )
        if "." in key:
            known |= {name: kernel_field(name) for name in device.torch_kernels.numbers()}
        if key not in known:
            raise ValueError(f"--set {setting!r}: key {unknown(key, known, DEVICE_KEYS)}")
        if known[key].metadata["count"]:
            raise ValueError(f"--set {key}: is a list of numbers; give it in a table [{SM_TABLE}] of a device file")
        try:
            value: float = units.parse_quantity(text)
            if is_whole(known[key]) and value.is_integer():
                value = int(value)
            device = with_number(device, key, value, SET)
        except ValueError as error:
            raise ValueError(f"--set {key}: {error}") from None
    return device
