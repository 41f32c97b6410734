"""What `tilesight calibrate` prints: measured beside base as a table, or everything as JSON."""

from ...simulator.device.device import Device, number_fields
from ...simulator.device.sm_numbers import sm_fields
from ...simulator.display import render
from ...simulator.report import devices
from .calibrate import Calibration
from .finding import Finding
from .toml import device_toml

SCHEMA = "tilesight.calibration/1"


def _keys() -> set[str]:
    return {item.name for item in number_fields()} | set(sm_fields())


def _value(device: Device, key: str) -> float:
    value: float = getattr(device.sm if key in sm_fields() else device, key)
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
        base = _value(calibration.base, finding.key) if finding.key in _keys() else None
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

    def base_cell(finding: Finding) -> str:
        value = _value(calibration.base, finding.key) if finding.key in keys else 0
        return devices.value_text(finding.key, value) if value else ""

    def ratio_cell(finding: Finding) -> str:
        value = _value(calibration.base, finding.key) if finding.key in keys else 0
        return f"{finding.value / value:.3f}" if value else ""

    lines = [
        render.table(
            [
                render.Column(title="number", cells=[finding.key for finding in rows], left=True),
                render.Column(
                    title="measured", cells=[devices.value_text(finding.key, finding.value) for finding in rows]
                ),
                render.Column(title=base_name, cells=[base_cell(finding) for finding in rows]),
                render.Column(title="ratio", cells=[ratio_cell(finding) for finding in rows]),
                render.Column(title="how", cells=[finding.how for finding in rows], rank=1, left=True),
            ],
            width,
            color,
        )
    ]
    lines += [f"refused: {reason} ({finding.how})" for finding, reason in calibration.refused]
    return "\n".join(lines)
