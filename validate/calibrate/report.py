"""What `tilesight calibrate` prints: measured beside base as a table, or everything as JSON."""

import json
from collections.abc import Sequence

from ...simulator.device.device import TEXTS, Device, number_fields
from ...simulator.device.numbers import Provenance
from ...simulator.device.sm_numbers import PARTS, SM_TABLE, architecture_of, architectures, load_sm, sm_fields
from ...simulator.device.torch_kernels import TORCH_TABLE
from ...simulator.display import render
from ...simulator.report import devices
from .calibrate import Calibration
from .fit import Finding

SCHEMA = "tilesight.calibration/1"
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


def _keys() -> set[str]:
    return {item.name for item in number_fields()} | set(sm_fields())


def _base_value(calibration: Calibration, finding: Finding) -> float | None:
    """What the base has in place of a finding; None where it has no such number."""
    if finding.key not in _keys():
        return None
    base = calibration.base
    value: float = getattr(base.sm if finding.key in sm_fields() else base, finding.key)
    return value


def constants(calibration: Calibration) -> list[Finding]:
    """Findings that a device file has no key for."""
    return [finding for finding in calibration.findings if finding.key not in _keys()]


def toml_text(calibration: Calibration) -> str:
    """The device file of a calibration."""
    return device_toml(calibration.device, constants(calibration))


def calibration_dict(calibration: Calibration, base_name: str) -> dict[str, object]:
    """The object that `calibrate --json` prints: findings, refusals, and the records to derive them from again."""

    def entry(finding: Finding) -> dict[str, object]:
        base = _base_value(calibration, finding)
        return {"key": finding.key, "value": finding.value, "base": base, "how": finding.how}

    return {
        "schema": SCHEMA,
        "base": base_name,
        "facts": calibration.facts.to_dict(),
        "seconds": calibration.seconds,
        "findings": [entry(finding) for finding in calibration.findings],
        "refused": [entry(finding) | {"reason": reason} for finding, reason in calibration.refused],
        "records": calibration.records,
    }


def calibration_text(calibration: Calibration, base_name: str, width: int, color: bool = False) -> str:
    """The findings as a table: value, the base's value and their ratio, how measured; below it, what was refused."""
    keys = _keys()
    rows = [finding for finding in calibration.findings if finding.key in keys] + constants(calibration)
    bases = [(finding, _base_value(calibration, finding) or 0.0) for finding in rows]
    lines = [
        render.table(
            [
                render.Column(title="number", cells=[finding.key for finding in rows], left=True),
                render.Column(
                    title="measured", cells=[devices.value_text(finding.key, finding.value) for finding in rows]
                ),
                render.Column(
                    title=base_name, cells=[devices.value_text(row.key, base) if base else "" for row, base in bases]
                ),
                render.Column(title="ratio", cells=[f"{row.value / base:.3f}" if base else "" for row, base in bases]),
                render.Column(title="how", cells=[finding.how for finding in rows], rank=1, left=True),
            ],
            width,
            color,
        )
    ]
    lines += [f"refused: {reason} ({finding.how})" for finding, reason in calibration.refused]
    return "\n".join(lines)


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
