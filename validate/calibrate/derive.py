"""From records of microbenchmarks to numbers: keys of `Device` where it has one, other constants beside them.

First memory, then the SM: tensor instructions, pipes, both at once; launches; clocks.
What is not in a record was not measured, and has no finding.
"""

from collections.abc import Callable
from statistics import median

from . import fit
from .fit import Finding, Record, finding
from .micro.gpu import Facts

MMA_KEYS = {"mma_f16": "mma_fp16", "mma_bf16": "mma_bf16", "mma_tf32": "mma_tf32", "mma_e4m3": "mma_fp8"}
WGMMA_KEYS = {"f16": ("fp16", 16), "bf16": ("bf16", 16), "tf32": ("tf32", 8), "e4m3": ("fp8", 32)}
"""Type -> key and k of an instruction."""
NARROWEST, RELEASED = "f16_n16_registers", (4, "n128_registers")
"""The stream that says what a product takes at least, and the wait that says when who waits is released."""
TURN_CYCLES = 14
"""Of a turn of products and their wait, what its own instructions take: counted in the kernel's machine code."""
LANES = 128
"""Threads that an SM's four sub-cores issue for at a time."""
RATES = {
    "ffma": ("fma", "FFMA"),
    "lop3": ("alu", "LOP3"),
    "ex2": ("mufu", "MUFU.EX2"),
    "fmul": ("fmul", "FMUL"),
    "fmnmx": ("fmnmx", "FMNMX"),
    "imad": ("imad", "IMAD"),
    "shuffle": ("shuffle", "SHFL"),
    "pack": ("pack", "F2FP"),
}
"""Kernel, before `_rate` -> key, before `_per_cycle`, and instruction."""


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


def derive_tensor(record: Record, facts: Facts) -> list[Finding]:
    """Rates per instruction class, waits."""
    findings = []
    for name, key in MMA_KEYS.items():
        if name in record:
            warps, rate = max(record[name].items(), key=lambda item: item[1])
            findings.append(finding(f"{key}_flop_per_cycle", rate, f"mma.sync on registers, {warps} warps of one SM"))
    if "mma_latency" in record:
        findings.append(finding("mma_latency_cycles", record["mma_latency"], "dependent mma.sync m16n8k16 of one warp"))
    streams = {name: min(by_warps.values()) for name, by_warps in record.get("wgmma", {}).items()}
    for name, cycles in streams.items():
        kind, columns, source = name.split("_")
        key, k = WGMMA_KEYS[kind]
        if (columns, source) == ("n128", "smem"):
            how = "m64n128 products, A from shared memory"
            findings.append(finding(f"wgmma_{key}_flop_per_cycle", 2 * 64 * 128 * k / cycles, how))
        if kind == "f16":
            findings.append(finding(f"wgmma_{columns}_{source}_cycles", cycles, "stream of m64nNk16 products, one SM"))
        if name == NARROWEST:
            findings.append(finding("wgmma_registers_least_cycles", cycles, "stream of m64n16k16, A from registers"))
    for name, turns in record.get("waits", {}).items():
        for count, turn in zip((1, 4), turns, strict=True):
            if f"f16_{name}" in streams:
                wait = turn - count * streams[f"f16_{name}"]
                how = f"a turn of {count} products and their wait, less {count} intervals of the stream"
                findings.append(finding(f"wgmma_wait_{count}_{name}_cycles", wait, how))
                if (count, name) == RELEASED:
                    how = f"a turn of four m64n128k16, A from registers, less the products and {TURN_CYCLES} of its own"
                    findings.append(finding("wgmma_wait_release_cycles", wait - TURN_CYCLES, how))
    return findings


def derive_pipes(record: Record, facts: Facts) -> list[Finding]:
    """Rates per SM, latencies."""
    many = "as 8 chains a thread, the best of 4 to 32 warps on one SM"
    findings = []
    for name, (key, instruction) in RATES.items():
        if f"{name}_rate" in record:
            rate = LANES / min(record[f"{name}_rate"].values())
            findings.append(finding(f"{key}_per_cycle", rate, f"{instruction} {many}"))
    if "issue_rate" in record:
        rate = 4 / min(record["issue_rate"].values())
        findings.append(finding("issue_per_cycle", rate, f"two FFMA to one LOP3 {many}"))
    if "smem" in record:
        how = "16 B a thread, the best of 4 to 32 warps"
        findings.append(finding("smem_bytes_per_cycle", max(record["smem"].values()), how))
    for name in ("ffma", "lop3", "ex2", "shuffle"):
        if f"{name}_latency" in record:
            cycles = record[f"{name}_latency"]["1"]
            findings.append(finding(f"{name}_latency_cycles", cycles, f"dependent {name} of one warp"))
    barriers = {float(warps): cycles for warps, cycles in record.get("barrier", {}).items()}
    for warps, cycles in barriers.items():
        findings.append(finding(f"barrier_{warps:g}_warps_cycles", cycles, "bar.sync after bar.sync"))
    if len(barriers) > 1:
        arrival = fit.slope({warps: [cycles] for warps, cycles in barriers.items()})
        release = median(cycles - arrival * warps for warps, cycles in barriers.items())
        findings.append(finding("barrier_arrival_cycles", arrival, "bar.sync after bar.sync, slope over warps"))
        findings.append(finding("barrier_release_cycles", release, "bar.sync after bar.sync, without its arrivals"))
    return findings


def derive_beside(record: Record, facts: Facts) -> list[Finding]:
    """What instructions and a wgmma stream take from each other where both go on as fast as they can."""
    findings = []
    for name, (alone, beside, products, slowed) in record.items():
        # Of the `beside` cycles of an instruction, the stream lost the share by which it was slower.
        taken = beside * (1 - products / slowed)
        how = f"per instruction of a sub-core: {alone:.2f} cycles alone, {beside:.2f} beside products at {slowed:.1f}"
        findings.append(finding(f"beside_{name}_extra_cycles", beside - alone, how))
        findings.append(finding(f"beside_{name}_taken_cycles", taken, "tensor cycles that it takes from the stream"))
    return findings


def derive_launch(record: Record, facts: Facts) -> list[Finding]:
    """From kernel to kernel, from CTA to CTA."""
    launches = record["launches"]
    stream, graph = (median(record[name]) / launches for name in ("stream", "graph"))
    per_cta = fit.slope({float(count): spent for count, spent in record["ctas"].items()})
    turnover = median(record["turnover"])
    findings = [
        finding("cta_dispatch_cycles", per_cta * facts.clock_hz, "kernels without work, slope over CTAs"),
        finding("launch_driver_s", stream, "kernels of one CTA without work in a stream, by the driver from Python"),
        finding("launch_bare_graph_s", graph, "kernels of one CTA without work, back to back in a replayed graph"),
        finding("cta_replacement_cycles", turnover, "end of a CTA to begin of the next on its SM"),
    ]
    if "triton" in record:
        stream, graph = (median(record["triton"][name]) / launches for name in ("stream", "graph"))
        work = "Triton kernels without work, a CTA for each SM, back to back"
        findings += [
            finding("launch_stream_s", stream, f"{work} in a stream"),
            finding("launch_graph_s", graph, f"{work} in a replayed graph"),
        ]
    return findings


def derive_clock(record: Record, facts: Facts) -> list[Finding]:
    """Sustained clocks: medians of the second half of a load's launches."""
    findings = []
    for name, launches in record.items():
        rows = launches[len(launches) // 2 :]
        clock, busy, traffic, power = (median(row[i] for row in rows) for i in range(4))
        how = f"load '{name}': tensor pipe busy {100 * busy:.0f} %, {traffic / 1e12:.2f} TB/s, {power:.0f} W"
        findings.append(finding("tensor_clock_hz" if name == "tensor" else f"{name}_clock_hz", clock, how))
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
