"""A device as the text of a device file: the layout of the catalogue, the same text for the same numbers."""

import json
from collections.abc import Sequence

from ...simulator.device.device import TEXTS, Device, number_fields
from ...simulator.device.numbers import Provenance
from ...simulator.device.sm_numbers import (
    PARTS,
    SM_TABLE,
    architecture_of,
    architectures,
    load_sm,
    sm_fields,
)
from ...simulator.device.torch_kernels import TORCH_TABLE
from .finding import Finding

SECTIONS = {
    "sms": "",
    "registers_per_sm": "# SM: what fits",
    "l2_bytes": "# L2",
    "hbm_bytes": "# Device memory",
    "mma_fp16_flop_per_cycle": "# Rates per SM and SM clock cycle",
    "launch_ramp_cycles": "# Launch",
    "nvlink_bytes_per_s": "# Links",
}
"""First key of a section -> its heading."""


def device_toml(device: Device, constants: Sequence[Finding] = ()) -> str:
    """The text of a device file.

    Args:
        constants: findings that `Device` has no key for; they become comments at the end.
    """
    lines = [f"{key} = {_text(text)}" for key in TEXTS if (text := getattr(device, key))]
    for item in number_fields():
        origin = device.provenance.get(item.name)
        if item.name in SECTIONS:
            lines += ["", SECTIONS[item.name]] if SECTIONS[item.name] else [""]
        if origin is None:
            continue
        lines.append(_line(item.name, _number(getattr(device, item.name)), origin))
    lines += [*_sm_lines(device), *_kernel_lines(device)]
    if constants:
        lines += ["", "# Measured as well; the simulator has no key for these"]
        lines += [f"# {finding.key} = {_number(finding.value)}  ({finding.how})" for finding in constants]
    return "\n".join(lines) + "\n"


def _sm_lines(device: Device) -> list[str]:
    """The table of what an SM has of its own: numbers that are not its architecture's, or not from there."""
    architecture = architecture_of(device.compute_capability)
    has_file = architecture in architectures()
    # Of a GPU whose architecture has no file, the one with most numbers in common is named.
    base = (
        architecture
        if has_file
        else min(architectures(), key=lambda name: len(device.sm.changed(load_sm(name), *PARTS.values())))
    )
    sm = load_sm(base)
    changed = device.sm.changed(sm, *PARTS.values())
    lines = [] if has_file else [f"base = {_text(base)}"]
    for key in sm_fields():
        origin = device.sm.provenance[key]
        if key in changed or (has_file and origin != sm.provenance[key]):
            value = getattr(device.sm, key)
            text = f"[{', '.join(map(_number, value))}]" if isinstance(value, tuple) else _number(value)
            lines.append(_line(key, text, origin))
    return ["", f"[{SM_TABLE}]", *lines] if lines else []


def _kernel_lines(device: Device) -> list[str]:
    """Tables of what kernels of torch and its libraries cost, where that is not its architecture's."""
    lines: dict[str, list[str]] = {}
    for key, number in device.torch_kernels.replaced.items():
        family, _, name = key.partition(".")
        lines.setdefault(family, []).append(_line(name, _number(number.value), number.origin))
    return [line for family, rows in lines.items() for line in ("", f"[{TORCH_TABLE}.{family}]", *rows)]


def _line(key: str, value: str, origin: Provenance) -> str:
    return f"{key} = {{ value = {value}, kind = {_text(origin.kind)}, source = {_text(origin.source)} }}"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(value: float) -> str:
    """A number as people write it: whole ones without a point, large and small ones with an exponent."""
    if isinstance(value, int):
        return str(value)
    if 1e-3 <= abs(value) < 1e6 or value == 0:
        return f"{value:.6g}" if abs(value) < 1e4 else f"{value:.0f}"
    mantissa, exponent = f"{value:.12e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
