"""`tilesight calibrate`: this GPU's numbers by microbenchmarks, beside those of a base device, as a device file.

A group of microbenchmarks makes a record; `derive` makes findings of it; those that are physically possible
replace the base's numbers. Records are kept, so that findings can be derived again without a GPU.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite, log
from time import monotonic
from typing import Any

from ...simulator.device.device import Device, catalogue, load_device, number_fields
from ...simulator.device.numbers import Provenance, is_whole
from ...simulator.device.sm_numbers import architecture_of, architectures, load_sm, sm_fields
from ...simulator.device.what_if import with_number
from . import fit
from .derive import DERIVE
from .fit import Finding
from .micro.compile import GpuFault
from .micro.gpu import Facts, Gpu, attempt
from .micro.l2 import measure_homes, measure_l2, measure_sides
from .micro.latency import measure_chases, measure_misses, measure_tiles
from .micro.launch import measure_clock, measure_launch
from .micro.memory import measure_hbm, measure_knees
from .micro.pipes import measure_beside, measure_pipes, measure_tensor

Records = dict[str, Any]
OnProgress = Callable[[str], None]
ENDINGS = (
    ("_flop_per_cycle", 32.0, 65536.0),
    ("_bytes_per_cycle", 1.0, 1024.0),
    ("_per_cycle", 0.5, 512.0),
    ("_bytes_per_s", 1e10, 1e14),
    ("_bytes", 1e5, 1e12),
    ("_cycles", -20.0, 1e5),
    ("_hz", 2e8, 4e9),
    ("_s", 1e-9, 1e-3),
    ("_partitions", 1, 2),
    ("_fraction", 0.0, 1.0),
)
"""Ending of a key -> range; the first that matches."""
KEYS = {
    "issue_per_cycle": (0.9, 4.1),
    "smem_bytes_per_cycle": (16.0, 132.0),
    "sm_fill_bytes_per_cycle": (8.0, 132.0),
    "l1_latency_cycles": (10.0, 100.0),
    "l2_latency_cycles": (80.0, 1000.0),
    "fabric_latency_cycles": (0.0, 1000.0),
    "hbm_latency_s": (2e-8, 2e-6),
    "cta_dispatch_cycles": (0.05, 100.0),
}
"""Keys with a range of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What came out.

    Args:
        facts: of the GPU; base: device whose other numbers are carried over; records: group -> record.
        findings: numbers taken over; refused: numbers that no GPU can have, with the reason.
        seconds: group -> time that it took [s]; device: the base with the findings in place.
    """

    facts: Facts
    base: Device
    records: Records
    findings: tuple[Finding, ...]
    refused: tuple[tuple[Finding, str], ...]
    seconds: dict[str, float]
    device: Device


def nearest_base(facts: Facts) -> str:
    """The catalogue device most like this GPU: compute capability, SMs, memory."""

    def distance(name: str) -> tuple[bool, int, float]:
        device = load_device(name)
        memory = abs(log(device.hbm_bytes / facts.hbm_bytes))
        return device.compute_capability != facts.capability, abs(device.sms - facts.sms), memory

    return min(catalogue(), key=distance)


STEADY_CLOCK_FRACTION = 0.98
"""An SM clock that falls below this share of itself during a group is told of."""
WARM_UP_S = 0.05


def measure(gpu: Gpu, only: Sequence[str], on_progress: OnProgress) -> tuple[Records, dict[str, float]]:
    """Run groups of microbenchmarks; what fails is told of and left out, the rest goes on.

    Before each group the GPU spins until it has left its idle clock. The record `clocks` holds the SM clock before
    and after each group [Hz].

    Returns:
        Group -> record, and group -> time that it took [s].
    """
    records: Records = {"clocks": {}}
    seconds: dict[str, float] = {}

    def need_sides() -> Any:
        if "sides" not in records:
            records["sides"] = measure_sides(gpu)
        sides, threshold, _ = fit.split_sides(records["sides"]["first"], records["sides"]["second"])
        return sides, threshold

    def l2() -> Any:
        sides, threshold = need_sides()
        records["homes"], homes = measure_homes(gpu, sides, threshold)
        return measure_l2(gpu, sides, threshold, homes)

    def latency() -> Any:
        sides, _ = need_sides()
        record: Records = {}
        attempt(record, "chase", lambda: measure_chases(gpu))
        attempt(record, "misses", lambda: measure_misses(gpu, sides))
        attempt(record, "tiles", lambda: measure_tiles(gpu))
        return record

    measures: dict[str, Callable[[], Any]] = {
        "hbm": lambda: measure_hbm(gpu),
        "l2": l2,
        "latency": latency,
        "knees": lambda: measure_knees(gpu, need_sides()[0]),
        "tensor": lambda: measure_tensor(gpu),
        "pipes": lambda: measure_pipes(gpu),
        "beside": lambda: measure_beside(gpu),
        "launch": lambda: measure_launch(gpu),
        "clock": lambda: measure_clock(gpu),
    }
    for name in only:
        begin = monotonic()
        try:
            before_hz = gpu.spin_clock_hz(WARM_UP_S)
            records[name] = measures[name]()
            after_hz = gpu.spin_clock_hz(0.0)
        except GpuFault as fault:
            on_progress(f"{name}: failed and is left out ({fault})")
            gpu.revive()
            continue
        for what, why in records[name].pop("failed", {}).items():
            on_progress(f"{name}: {what} failed and is left out ({why})")
        records["clocks"][name] = [before_hz, after_hz]
        seconds[name] = monotonic() - begin
        on_progress(f"{name}: {seconds[name]:.1f} s")
        if name != "clock" and after_hz < STEADY_CLOCK_FRACTION * before_hz:
            on_progress(f"{name}: the SM clock fell from {before_hz / 1e9:.2f} to {after_hz / 1e9:.2f} GHz meanwhile")
    return records, seconds


SHARED_RECORDS = {"l2", "knees", "latency"}
"""Groups that read records which several groups share."""


def derive(records: Records, facts: Facts, only: Sequence[str]) -> list[Finding]:
    """Findings of all groups that have a record, with the SM clock that there was while a group ran."""
    findings: list[Finding] = []
    for name in only:
        if name in records:
            clocks = records.get("clocks", {}).get(name, [facts.clock_hz])
            then = replace(facts, clock_hz=sum(clocks) / len(clocks))
            findings += DERIVE[name](records if name in SHARED_RECORDS else records[name], then)
    return findings


def settle(records: Records, facts: Facts, base: Device, only: Sequence[str], seconds: dict[str, float]) -> Calibration:
    """Put what was found into the base device, except what is not possible. Returns: the calibration."""
    findings, refused = [], []
    origin = f"one {facts.gpu}, driver {facts.driver or 'unknown'}, CUDA {facts.cuda}, "
    origin += f"{'triton ' + facts.triton + ', ' if facts.triton else ''}{facts.date}, tilesight calibrate: "
    known = {item.name: item for item in number_fields()} | sm_fields()
    # The numbers of an SM are those of its architecture, where that is another than the base's and has some.
    other = facts.capability != base.compute_capability and architecture_of(facts.capability) in architectures()
    sm = load_sm(architecture_of(facts.capability)) if other else base.sm
    device = replace(base, name=facts.gpu, compute_capability=facts.capability, product=facts.gpu, sm=sm)
    for finding in derive(records, facts, only):
        reason = refusal(finding, base)
        if not reason and finding.key in known:
            value = round(finding.value) if is_whole(known[finding.key]) else rounded(finding.value)
            try:
                device = with_number(device, finding.key, value, Provenance("measured", origin + finding.how))
            except ValueError as error:
                reason = str(error)
        if reason:
            refused.append((finding, reason))
        else:
            findings.append(finding)
    return Calibration(
        facts=facts,
        base=base,
        records=records,
        findings=tuple(findings),
        refused=tuple(refused),
        seconds=seconds,
        device=device,
    )


def rounded(value: float) -> float:
    """Four significant digits: more than any of these numbers repeats to."""
    return float(f"{value:.4g}")


GROUPS = tuple(DERIVE)


def refusal(finding: Finding, base: Device) -> str:
    """Why a finding cannot be true; empty where it can.

    Args:
        base: the device that it would be put into; its datasheet numbers are limits.
    """
    low, high = KEYS.get(finding.key) or next(
        ((low, high) for ending, low, high in ENDINGS if finding.key.endswith(ending)), (-1e30, 1e30)
    )
    if finding.key.startswith("hbm_") and finding.key.endswith("_bytes_per_s"):
        high = min(high, base.hbm_peak_bytes_per_s)
    if finding.key == "tensor_clock_hz":
        high = min(high, base.boost_clock_hz)
    if not isfinite(finding.value) or not low <= finding.value <= high:
        return f"{finding.key} = {finding.value:g}: must be from {low:g} to {high:g}"
    return ""
