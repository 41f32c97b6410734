"""Devices as tables: the catalogue in one, or every number of one with its unit, kind and source."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass
from typing import Any

from .. import units
from ..closed_form.roofline import tensor_peak_flop_per_s
from ..device.device import Device, number_fields
from ..device.numbers import Provenance
from ..device.sm_numbers import SmNumbers, sm_fields, sm_parts
from ..device.what_if import SET
from ..display.render import Column, table, wrapped

LIST_SCHEMA = "tilesight.devices/1"
DEVICE_SCHEMA = "tilesight.device/1"
UNITS = (
    ("_flop_per_cycle", "FLOP/cycle"),
    ("_bytes_per_cycle", "B/cycle"),
    ("_cycles_per_line", "cycles"),
    ("_per_cycle", "1/cycle"),
    ("_bytes_per_s", "B/s"),
    ("_bytes", "B"),
    ("_cycles", "cycles"),
    ("_hz", "Hz"),
    ("_s", "s"),
    ("_w", "W"),
    ("_instructions", "instructions"),
    ("_loads", "loads"),
)
"""Ending of a key -> unit; the first that matches."""
MAIN = (
    *("sms", "boost_clock_hz", "tensor_boost_clock_hz", "tensor_clock_hz", "power_limit_w"),
    *("registers_per_sm", "max_warps_per_sm", "max_ctas_per_sm", "smem_per_sm_bytes", "smem_per_cta_bytes", "l1_bytes"),
    *("l2_bytes", "l2_partitions", "l2_bytes_per_s", "l2_write_bytes_per_s", "l2_latency_cycles", "fabric_bytes_per_s"),
    *("hbm_bytes", "hbm_peak_bytes_per_s", "hbm_read_bytes_per_s", "hbm_write_bytes_per_s", "hbm_latency_s"),
    *("mma_fp16_flop_per_cycle", "wgmma_fp16_flop_per_cycle", "tcgen05_fp16_flop_per_cycle"),
    *("fma_per_cycle", "mufu_per_cycle", "issue_per_cycle", "smem_bytes_per_cycle"),
    *("launch_stream_s", "launch_graph_s", "graph_gap_s"),
)
"""Numbers that a page shows: those that datasheets have, and the rates and latencies that most predictions lean on."""
WIDEST_VALUE = 20
"""Columns of a value that others are aligned with; a list of numbers takes what it takes."""


def unit(key: str) -> str:
    """The unit of a device number, from the end of its key; empty for a plain count."""
    return next((text for ending, text in UNITS if key.endswith(ending)), "")


def value_text(key: str, value: float | tuple[float, ...]) -> str:
    """A device number for people, in the unit that its key names; a list as it is."""
    if isinstance(value, tuple):
        return ", ".join(f"{single:g}" for single in value)
    name = unit(key)
    if name == "B":
        return units.capacity(value)
    if name == "B/s":
        return units.bandwidth(value)
    if name == "Hz":
        return units.clock(value)
    if name == "s":
        return units.duration(value)
    return f"{value:,g} {name}".rstrip() if abs(value) < 1e6 else f"{value:,.0f} {name}".rstrip()


def devices_dict(devices: Mapping[str, Device]) -> dict[str, object]:
    """The object that `devices --json` prints. Args: devices: catalogue name -> device."""
    return {
        "schema": LIST_SCHEMA,
        "devices": [
            {"device": name, "name": device.name, "compute_capability": device.compute_capability, "sms": device.sms}
            | {key: getattr(device, key) for key in ("boost_clock_hz", "l2_bytes", "hbm_bytes", "hbm_peak_bytes_per_s")}
            | {"tensor_fp16_flop_per_s": tensor_peak_flop_per_s(device, "fp16"), "checked_by": list(checks(device))}
            for name, device in devices.items()
        ],
    }


def devices_text(devices: Mapping[str, Device], width: int, color: bool = False) -> str:
    """The catalogue as a table, and what its peak is. Args: devices: catalogue name -> device."""
    all_devices = list(devices.values())

    drawn = table(
        [
            Column("device", list(devices), left=True),
            Column("name", [device.name for device in all_devices], 1, left=True),
            Column("cc", [device.compute_capability for device in all_devices], 3),
            Column("checked by", [", ".join(checks(device)) or "nothing" for device in all_devices], left=True),
            Column("SMs", [str(device.sms) for device in all_devices]),
            Column("boost", [units.clock(device.boost_clock_hz) for device in all_devices], 2),
            Column("L2", [units.capacity(device.l2_bytes) for device in all_devices]),
            Column("memory", [units.capacity(device.hbm_bytes) for device in all_devices]),
            Column("bandwidth", [units.bandwidth(device.hbm_peak_bytes_per_s) for device in all_devices]),
            Column("fp16 at boost", [units.rate(tensor_peak_flop_per_s(device, "fp16")) for device in all_devices]),
        ],
        width,
        color,
    )
    peak = "fp16 at boost: of all tensor cores, dense, fp32 sums, at tensor_boost_clock_hz; vendors take other clocks."
    return "\n".join([drawn, "", *wrapped([peak], width)])


def checks(device: Device) -> dict[str, str]:
    """How predictions for it were checked: way -> where, or which."""
    ways = {"own counters": device.held_against, "public tables": device.public_tables}
    return {way: where for way, where in ways.items() if where}


def device_dict(name: str, device: Device) -> dict[str, object]:
    """The object that `devices NAME --json` prints. Args: name: as the user gave it."""
    return {
        "schema": DEVICE_SCHEMA,
        "device": name,
        "name": device.name,
        "compute_capability": device.compute_capability,
        "checked_by": checks(device),
        "numbers": {row.key: row.to_dict() for row in _of_device(device)},
        "sm": {row.key: row.to_dict() for rows in _of_sm(device).values() for row in rows},
        "torch_kernels": {row.key: row.to_dict() for rows in _of_kernels(device).values() for row in rows},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A number of a device. Args: shapes: how many shapes it was read off; 0: it is not said."""

    key: str
    value: Any
    doc: str
    origin: Provenance
    shapes: int = 0

    def to_dict(self) -> dict[str, object]:
        """Its object in `devices NAME --json`."""
        made = {"value": self.value, "unit": unit(self.key), "kind": self.origin.kind, "source": self.origin.source}
        return made | {"meaning": self.doc} | ({"shapes": self.shapes} if self.shapes else {})


def _row(item: Field[Any], holder: Device | SmNumbers) -> _Row:
    origin = holder.provenance.get(item.name, Provenance("", ""))
    return _Row(key=item.name, value=getattr(holder, item.name), doc=item.metadata["doc"], origin=origin)


def _of_device(device: Device) -> list[_Row]:
    """The numbers that the device has."""
    rows = [_row(item, device) for item in number_fields()]
    return [row for row in rows if row.key in device.provenance or row.value]


def _of_sm(device: Device) -> dict[str, list[_Row]]:
    """Those of its SM, by the part of the model that reads them."""
    rows, parts = defaultdict[str, list[_Row]](list), sm_parts()
    for key, item in sm_fields().items():
        rows[parts[key]].append(_row(item, device.sm))
    return rows


def _of_kernels(device: Device) -> dict[str, list[_Row]]:
    """Those of kernels of torch and its libraries, by family."""
    rows: dict[str, list[_Row]] = defaultdict(list)
    for key, number in device.torch_kernels.numbers().items():
        row = _Row(key=key, value=number.value, doc=number.doc, origin=number.origin, shapes=number.shapes)
        rows[key.partition(".")[0]].append(row)
    return rows


def device_text(name: str, device: Device, width: int, every: bool = False) -> str:
    """The main numbers of a device, and those that a what-if has set.

    Args:
        every: all of them with their sources, then those of its SM, by the part of the model that reads them, and those
            of kernels of torch and its libraries, by family.
    """
    checked = "; ".join(f"{way}: {where}" for way, where in checks(device).items()) or "nothing"
    said = wrapped([f"Checked by {checked}."], width)
    lines = [f"{name}: {device.name}, compute capability {device.compute_capability}", *said, ""]
    main, sm, kernels = _of_device(device), _of_sm(device), _of_kernels(device)
    if not every:
        replaced = [row for rows in (*sm.values(), *kernels.values()) for row in rows if row.origin == SET]
        shown = [row for row in main if row.key in MAIN or row.origin == SET] + replaced
        counts = f"{sum(map(len, sm.values()))} of its SM, {sum(map(len, kernels.values()))} of kernels of torch"
        others = len(main) - len(shown) + len(replaced)
        more = f"{others} more numbers, {counts}, and the source of each: --all, or --json."
        return "\n".join([*lines, *_rows(shown, width, sources=False), "", *wrapped([more], width)])
    lines += _rows(main, width)
    for part, rows in sm.items():
        lines += ["", f"Its SM, {part}:", "", *_rows(rows, width)]
    for family, rows in kernels.items():
        lines += ["", f"Kernels of torch and its libraries, {family}:", "", *_rows(rows, width)]
    return "\n".join(lines)


def _rows(rows: Sequence[_Row], width: int, sources: bool = True) -> list[str]:
    """Value, kind and meaning of each number, and its source below. Args: sources: whether it is shown."""
    key_width = max(len(row.key) for row in rows)
    values = {row.key: value_text(row.key, row.value) for row in rows}
    value_width = max((len(text) for text in values.values() if len(text) <= WIDEST_VALUE), default=0)
    kind_width = max(len(row.origin.kind) for row in rows)
    lines = []
    for row in rows:
        mark = " (read off one shape)" if row.shapes == 1 else ""
        value, kind = f"{values[row.key]:>{value_width}}", f"{row.origin.kind:<{kind_width}}"
        lines.append(f"{row.key:<{key_width}}  {value}  {kind}  {row.doc}{mark}")
        lines += _wrapped(row.origin.source if sources else "", " " * (key_width + value_width + 4), width)
    return lines


def _wrapped(text: str, indent: str, width: int) -> list[str]:
    from textwrap import wrap

    return wrap(text, max(width, len(indent) + 30), initial_indent=indent, subsequent_indent=indent)
