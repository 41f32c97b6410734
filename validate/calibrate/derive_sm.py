"""From records of microbenchmarks to numbers of the SM: tensor instructions, pipes, both at once; launches; clocks."""

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
