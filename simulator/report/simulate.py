"""One prediction in words: every figure, what it means and what it is measured against."""

from collections.abc import Sequence
from textwrap import wrap

from .. import units
from ..closed_form.roofline import roofline
from ..device.device import Device
from ..display.render import RESOURCES, bar, bound_text, config_text, percent, plural, times
from ..prediction.bottleneck import LAUNCH, TAIL, WAIT
from ..prediction.prediction import LaunchPrediction, Prediction
from ..traffic import Traffic

WIDTH = 120
LIMITS = {
    "registers": "limited by registers",
    "smem": "limited by shared memory",
    "warps": "limited by warps per SM",
    "ctas": "limited by CTAs per SM",
    "barriers": "limited by named barriers",
}
COSTS = {
    "compiled": "simulated from its machine code",
    "tiles": "estimated from tile sizes",
}
"""Where the cycles of a step come from, in words."""


def simulate_text(prediction: Prediction, device: Device) -> str:
    """What `tilesight simulate` prints: each launch, then the total."""
    lines = [
        f"{prediction.schedule} on {prediction.device} ({device.name})",
        f"  Problem      {prediction.problem.text}",
        f"  Config       {config_text(prediction.config_dict())}",
        *note_lines(prediction.notes),
    ]
    count = len(prediction.launches)
    for number, launch in enumerate(prediction.launches, 1):
        grid = " x ".join(map(str, launch.grid))
        lines += ["", f"Launch {number} of {count}: {launch.name}, grid {grid}", *launch_lines(launch, device)]
    lines += ["", *total_lines(prediction, device)]
    return "\n".join(lines)


def note_lines(notes: Sequence[str]) -> list[str]:
    """Remarks under each other, broken where they are long."""
    texts = (wrap(f"  Note         {note}", WIDTH, subsequent_indent=" " * 15) for note in notes)
    return [line for lines in texts for line in lines]


def launch_lines(launch: LaunchPrediction, device: Device) -> list[str]:
    """All figures of a launch, one line a group."""
    traffic = launch.traffic
    kernel = f"{units.duration(traffic.time_s - launch.overhead_s)} kernel"
    kernel += f" ({units.count(traffic.cycles)} cycles at {units.clock(launch.clock_hz)})"
    overhead = f"{units.duration(launch.overhead_s)} launch overhead"
    places = f"{device.sms} SMs x {launch.ctas_per_sm}"
    last = f"the last {percent(launch.tail_fraction)} full" if launch.waves > 1 else "all CTAs run at once"
    limit = LIMITS.get(launch.occupancy_limit)
    simulated = launch.simulated_fraction
    spilled, slower = launch.spilled_bytes_per_thread, launch.sustained_clock_hz
    lines = [
        f"  Time         {units.duration(traffic.time_s)} = {kernel} + {overhead}",
        *([f"  Power        clock when repeated: {units.clock(slower)}"] if slower < 0.99 * launch.clock_hz else []),
        f"  Bound by     {bound_text(launch)}: {RESOURCES[launch.bottleneck]}; also {other_causes(launch)}",
        *traffic_lines(traffic, device),
        f"  Waves        {plural(_ctas(launch), 'CTA')} on {places} = {launch.waves:.2f} waves; {last}",
        f"  Occupancy    {percent(launch.occupancy_fraction)}: {plural(launch.ctas_per_sm, 'CTA')} of"
        f" {plural(launch.num_warps, 'warp')} per SM" + (f", {limit}" if limit else ""),
        f"  Resources    {launch.registers_per_thread} registers per thread,"
        f" {units.capacity(launch.smem_bytes_per_cta)} of shared memory per CTA ({launch.resources})"
        + (f"; {spilled} B per thread spilled" if spilled else ""),
    ]
    lines.append(f"  Cost         cycles {COSTS[launch.cost.split(':')[0]]}")
    if simulated < 1:
        lines.append(f"  Simulated    {percent(simulated)} of the work; the rest extrapolated from its steady state")
    label = "  Busy         "
    for name, share in sorted(launch.utilisation.items(), key=lambda item: (-item[1], item[0])):
        lines.append(f"{label}{name:<7}{bar(share)} {percent(share):>5}")
        label = " " * len(label)
    return lines


def other_causes(launch: LaunchPrediction) -> str:
    """What the time goes to that no resource is busy for, without what binds, e.g. `wait 12 %, launch 7.0 %`."""
    shares = {name: launch.causes[name] for name in (WAIT, TAIL, LAUNCH) if name != launch.bottleneck}
    return ", ".join(f"{name} {percent(share)}" for name, share in shares.items())


def _ctas(launch: LaunchPrediction) -> int:
    x, y, z = launch.grid
    return x * y * z


def traffic_lines(traffic: Traffic, device: Device) -> list[str]:
    """Where bytes and operations went: HBM, L2, fabric, SRAM, work."""
    achieved, peak = traffic.hbm_bytes_per_s, device.hbm_peak_bytes_per_s
    lines = [
        f"  HBM          {units.traffic(traffic.hbm_read_bytes)} read,"
        f" {units.traffic(traffic.hbm_write_bytes)} written;"
        f" {units.bandwidth(achieved)}, {percent(achieved / peak)} of peak",
        f"  L2           {units.traffic(traffic.l2_read_bytes)} read by SMs,"
        f" {percent(traffic.l2_hit_fraction)} hits; {units.traffic(traffic.l2_write_bytes)} written",
        f"  SRAM         {units.traffic(traffic.smem_fill_bytes)} filled from L2; shared memory:"
        f" {units.traffic(traffic.smem_read_bytes)} read, {units.traffic(traffic.smem_write_bytes)} written",
        f"  Work         {units.flop(traffic.matmul_flop)} of matrix products"
        f" ({units.rate(traffic.matmul_flop_per_s)});"
        f" {units.flop(traffic.executed_flop)} executed, with padding and masked scores",
        f"  Other work   {units.flop(traffic.other_flop)}, {units.count(traffic.exp_count)} exponentials",
    ]
    if device.l2_partitions > 1:
        lines.insert(2, f"  Fabric       {units.traffic(traffic.fabric_bytes)} between the L2 partitions")
    if traffic.l1_hit_bytes:
        lines.insert(-2, f"  L1           {units.traffic(traffic.l1_hit_bytes)} of loads served by L1")
    return lines


def total_lines(prediction: Prediction, device: Device) -> list[str]:
    """All launches together, beside the bytes that must move and the roofline."""
    total = prediction.total
    heading = "Total" if len(prediction.launches) == 1 else f"Total of {len(prediction.launches)} launches"
    lines = [heading, f"  Time         {prediction.time_text}, bound by {bound_text(prediction)}"]
    if len(prediction.launches) > 1:
        lines += traffic_lines(total, device)
    compulsory = prediction.problem.compulsory.total_bytes
    stayed = ", as the output is still in L2" if total.hbm_bytes < compulsory else ""
    lines.append(
        f"  Compulsory   {units.traffic(compulsory)} at HBM ({prediction.problem.MOVES});"
        f" this moves {times(total.hbm_bytes / compulsory)}{stayed}"
    )
    lines.append(f"  Roofline     {roofline_text(prediction, device)}")
    fits = "" if prediction.fits else "; DOES NOT FIT"
    lines.append(
        f"  Peak memory  {units.capacity(prediction.peak_memory_bytes)} of {units.capacity(device.hbm_bytes)}{fits}"
    )
    return lines


def roofline_text(prediction: Prediction, device: Device) -> str:
    """The least time of the problem on any schedule, and the prediction's over it."""
    bound = roofline(prediction.problem, device)
    least = f"{units.duration(bound.bound_s)} ({RESOURCES[bound.bottleneck]})"
    return f"{least}; this takes {times(prediction.time_s / bound.bound_s)}"
