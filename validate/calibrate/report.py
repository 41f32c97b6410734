"""What `tilesight calibrate` prints: measured beside base as a table, or everything as JSON."""

from ...simulator.device.device import number_fields
from ...simulator.device.sm_numbers import sm_fields
from ...simulator.display import render
from ...simulator.report import devices
from .calibrate import Calibration
from .finding import Finding
from .toml import device_toml

SCHEMA = "tilesight.calibration/1"


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
