"""From records of microbenchmarks to numbers: keys of `Device` where it has one, other constants beside them.

Here: memory. `derive_sm` reads what was measured of the SM, of launches and of clocks.
What is not in a record was not measured, and has no finding.
"""

from collections.abc import Callable
from statistics import median

from . import fit
from .derive_sm import derive_beside, derive_clock, derive_launch, derive_pipes, derive_tensor
from .fit import Finding, Record, finding
from .micro.gpu import Facts


def derive_hbm(record: Record, facts: Facts) -> list[Finding]:
    """Bandwidth of large streams: the best number of CTAs, its median launch."""
    size = record["bytes"]

    def best(kind: str) -> float:
        return float(size / min(median(seconds) for seconds in record[kind].values()))

    return [
        finding("hbm_read_bytes_per_s", best("read"), f"reading {size / 1e9:.1f} GB, median of the best grid"),
        finding("hbm_write_bytes_per_s", best("write"), f"writing {size / 1e9:.1f} GB, median of the best grid"),
        finding("hbm_copy_bytes_per_s", 2 * best("copy"), f"copying {size / 1e9:.1f} GB, bytes read and written"),
    ]


L2_SETS = {
    "scattered": "the same in random order",
    "shared": "all SMs read the same set, each from its own start: neighbours that ask together are served once",
    "shared_scattered": "all SMs read the same set, each in a random order of its own",
    "near": "all SMs read lines at home on their side",
    "copied": "all SMs read near copies of far lines",
}
"""Set that stays in L2 -> how it is read."""


def derive_l2(record: Record, facts: Facts) -> list[Finding]:
    """Bandwidth into the SMs, of few SMs, and between the partitions."""

    def rate(resident: Record) -> float:
        return float(resident["bytes"] / median(resident["seconds"]))

    l2 = record["l2"]
    rates = {int(size): rate(resident) for size, resident in l2["private"].items()}
    sets = f"sets of {min(rates) / 1e6:.0f} to {max(rates) / 1e6:.0f} MB"
    how = f"each SM reads a slice of its own past L1, so that no two ask for the same; {sets}"
    findings = [finding("l2_bytes_per_s", median(rates.values()), how)]
    findings += [finding(f"l2_{name}_bytes_per_s", rate(l2[name]), how) for name, how in L2_SETS.items() if name in l2]
    for sms, few in l2.get("fill", {}).items():
        per_cycle = few["bytes"] / median(few["cycles"])
        if sms == "1":
            findings.append(finding("sm_fill_bytes_per_cycle", per_cycle, "one SM alone reads 128 KiB from L2"))
        else:
            findings.append(
                finding(f"sm_fill_of_{sms}_bytes_per_cycle", per_cycle, f"each of the first {sms} SMs does")
            )
    crossed = f"; {100 * l2['far_fraction']:.0f} % of sampled lines crossed" if "far_fraction" in l2 else ""
    for key, name, how in (
        ("fabric_bytes_per_s", "across", "both sides read far lines for the first time"),
        ("fabric_one_way_bytes_per_s", "one_way", "one side reads far lines for the first time"),
    ):
        if name in l2:
            cycles = fit.slope({float(size): spent for size, spent in l2[name].items()})
            findings.append(finding(key, facts.clock_hz / cycles, f"{how}; slope over sizes{crossed}"))
    sides = record["sides"]
    partitions, _, _ = fit.split_sides(sides["first"], sides["second"])
    findings.append(finding("l2_partitions", len(partitions), "whether first loads of lines read by one SM are slow"))
    return findings


TILE_WAYS = {"tile_copies": "ldgsts", "bulk_copies": "bulk"}
LOADED_BYTES_PER_CYCLE = 16.0
"""Load at which tiles under load are looked at: about half of what L2 gives."""


def derive_latency(record: Record, facts: Facts) -> list[Finding]:
    """Pointer chases, first loads from device memory, tiles under load."""
    latency, sides = record["latency"], record["sides"]
    _, threshold, crossing = fit.split_sides(sides["first"], sides["second"])
    how = "first loads of far lines less second loads, median"
    findings = [finding("fabric_latency_cycles", crossing, how)]
    if "chase" in latency:
        chase = latency["chase"]
        l1, l2, smem = (median(chase[name]) / chase["loads"] for name in ("l1", "l2", "smem"))
        findings += [
            finding("l1_latency_cycles", l1, "pointer chase by a thread, ld.global.ca, 16 KiB, median of SMs"),
            finding("l2_latency_cycles", l2, "pointer chase by a thread, ld.global.cg, 2 MiB, median of SMs"),
            finding("smem_latency_cycles", smem, "pointer chase by one thread, ld.shared"),
        ]
    if "misses" in latency:
        findings += _misses(latency["misses"], threshold, facts)
    for way, by_ctas in latency.get("tiles", {"ways": {}})["ways"].items():
        name, tile = TILE_WAYS[way], latency["tiles"]["tile_bytes"]
        idle = min(waited for waited, _ in by_ctas["0"].values())
        waited, spent = min(by_ctas["2"].values(), key=lambda pair: abs(2 * tile / pair[1] - LOADED_BYTES_PER_CYCLE))
        load = f"two CTAs on every SM, {2 * tile / spent:.0f} B per cycle and SM"
        most = max(int(ctas) * tile / spent for ctas, pairs in by_ctas.items() for _, spent in pairs.values())
        findings += [
            finding(f"{name}_tile_cycles", idle, "a 16 KiB tile from L2 to shared memory, one CTA alone"),
            finding(f"{name}_loaded_tile_cycles", waited, f"the same, {load}"),
            finding(f"{name}_most_bytes_per_cycle", most, "the same, as fast as they come, per SM, up to 4 CTAs"),
        ]
    return findings


def _misses(misses: Record, threshold_cycles: float, facts: Facts) -> list[Finding]:
    """What device memory adds to a load: by lines at home on the reader's side, so that nothing crosses."""
    extra = [first - second for first, second in zip(misses["first"], misses["second"], strict=True)]
    if "other_first" in misses:
        other = zip(misses["other_first"], misses["other_second"], strict=True)
        at_home = [first - second > threshold_cycles for first, second in other]
    else:
        at_home = [True] * len(extra)
    near = median(cycles for cycles, mine in zip(extra, at_home, strict=True) if mine)
    translated = median(misses["touch"]) - median(misses["first"])
    how = "lines that nobody has touched, at home on the reader's side: first load less second, median;"
    findings = [
        finding("hbm_latency_s", near / facts.clock_hz, f"{how} translations known"),
        finding("page_touch_extra_cycles", translated, "first load in a 2 MiB page, less the next ones in it"),
    ]
    if not all(at_home):
        far = median(cycles for cycles, mine in zip(extra, at_home, strict=True) if not mine)
        findings.append(
            finding("hbm_far_extra_cycles", far - near, "what a miss of a line at home across takes longer")
        )
    return findings


def derive_knees(record: Record, facts: Facts) -> list[Finding]:
    """What L2 holds, from what stays of buffers that are too large, and what it holds on to when flushed."""
    sides, knees = record["sides"], record["knees"]
    partitions, _, crossing = fit.split_sides(sides["first"], sides["second"])
    hit = median(cycles for row in sides["second"] for cycles in row)
    misses = record.get("latency", {}).get("misses")
    if len(partitions) > 1:
        beyond = crossing
    elif misses:
        beyond = median(misses["first"]) - hit
    else:
        return []
    limit = hit + beyond / 2
    findings = []
    shared, private = (fit.held_bytes(knees[kind], limit) for kind in ("shared", "private"))
    kept = "of buffers a little too large"
    if shared:
        value = shared * len(partitions)
        how = f"what stays {kept} that all SMs sweep, x partitions"
        findings += [
            finding("l2_bytes", facts.l2_bytes, f"CUDA device properties, l2CacheSize; {value / 1e6:.1f} MB is {how}"),
            finding("l2_shared_held_bytes", value, how),
        ]
    if private:
        how = f"what stays {kept} of which each SM sweeps its own part"
        findings.append(finding("l2_private_held_bytes", private, how))
    for case, seen in knees.get("flush", {}).items():
        way, times = case.split("_")
        how = f"of {facts.l2_bytes / 4e6:.0f} MB read {times} times, what a flush ('{way}') leaves in L2"
        findings.append(finding(f"l2_left_by_{way}_after_{times}_fraction", fit.share_below(seen, limit), how))
    return findings


DERIVE: dict[str, Callable[[Record, Facts], list[Finding]]] = {
    "hbm": derive_hbm,
    "l2": derive_l2,
    "latency": derive_latency,
    "knees": derive_knees,
    "tensor": derive_tensor,
    "pipes": derive_pipes,
    "beside": derive_beside,
    "launch": derive_launch,
    "clock": derive_clock,
}
"""Group -> how its record is read; in the order in which groups are measured."""
