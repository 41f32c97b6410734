"""The numbers of a GPU that belong to its architecture: how its SMs issue, wait and load, tick, and share HBM.

`sm/sm_90.toml` holds those of compute capability 9.0, one line a number, as a device file does. A file may begin with
`base = "sm_90"`: what it does not say itself is carried over from there. A device file may replace single numbers in a
table `[sm]`, and `base` there names the architecture to take the others from, where the GPU's own has no file.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, replace
from functools import cache
from typing import Any

from ..names import unknown
from .numbers import Provenance, check_keys, check_number, names_in, number, numbers_of, read_entry, text_in

SM_TABLE, BASE = "sm", "base"
CARRIED_OVER = "carried over from "
"""How the source of a number of another architecture begins; its kind is `assumed`."""
CODE, TILES, L1, CLOCK, HBM, CTAS = "machine code", "tiles", "L1", "clock", "device memory", "CTAs"
"""Parts of the model that read numbers: cycles of a step from machine code, or from tile sizes; and the engine."""
PARTS = {
    "ldgsts_extra_cycles": CODE,
    "tiles_mma_latency_cycles": TILES,
    "l1_reach_fractions": L1,
    "clock_free_clusters_ctas": CLOCK,
    "cta_place_cycles": CTAS,
    "hbm_channel_bytes": HBM,
}
"""The first number of each part -> the part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmNumbers:
    """Numbers of an architecture. Cycles are SM clock cycles.

    Raises:
        ValueError: a number is out of its physical range; the text names field, value and range.
    """

    ldgsts_extra_cycles: float = number(0, 1e4, "LDGSTS beyond the latency of an L2 hit")
    tma_load_extra_cycles: float = number(0, 1e4, "a TMA load beyond the latency of an L2 hit")
    tma_load_after_store_cycles: float = number(
        0, 1e4, "a TMA load sets out so much later than stores before it have left"
    )
    l2_read_cycles_per_line: float = number(0.1, 100, "each 128 B on the way from L2 into an SM")
    l2_write_cycles_per_line: float = number(0.1, 100, "each 128 B on the way to L2, all SMs writing")
    l2_write_lone_cycles_per_line: float = number(0.1, 100, "the same at least, however few SMs write")
    l2_write_part_sector_factor: float = number(1, 10, "a store of single elements of a sector, over one of all of it")
    l2_write_queue_lines: float = number(1, 1e4, "lines behind L1 that wait to leave an SM")
    l2_write_queue_narrow_lines: float = number(1, 1e4, "the same, of stores of single elements")
    lsu_interval_cycles: float = number(1, 100, "between two memory instructions of a sub-core")
    lsu_queue_instructions: int = number(1, 63, "memory instructions of a sub-core that wait in front of L1")
    memory_operand_read_cycles: float = number(0, 1000, "until a memory instruction has read registers")
    smem_store_word_read_cycles: float = number(0, 1000, "more for each further word that STS reads")
    shfl_smem_passes: float = number(1, 10, "how often SHFL passes shared memory beside wgmma")
    ldgsts_smem_turn_fraction: float = number(0, 1, "LDGSTS's turn at L1, over the lines it writes")
    uniform_interval_cycles: float = number(0, 100, "between two instructions of the uniform datapath")
    imad_wide_pair_cycles: int = number(0, 100, "that IMAD.WIDE of two registers and a pair holds its warp longer")
    bsync_cycles: int = number(0, 1000, "from the end of a divergent branch to what follows")
    membar_gpu_cycles: int = number(0, 1e5, "MEMBAR for all SMs, behind a store: at least")
    atomic_extra_cycles: float = number(0, 1e4, "what an atomic gives back, beyond an L2 hit")
    barrier_arrival_cycles: float = number(0, 1000, "bar.sync: for each warp that arrives")
    barrier_release_cycles: float = number(0, 1000, "bar.sync: from the last arrival to the release")
    fetch_core_bytes: float = number(128, 1e9, "code that a sub-core has at hand")
    fetch_sm_bytes: float = number(128, 1e9, "code that an SM has at hand")
    fetch_turn_cycles: float = number(0, 1000, "from warp to warp that a sub-core gives 128 B of code")
    fetch_sm_cycles: float = number(0, 1e4, "that a warp waits for 128 B of code from the SM's cache")
    fetch_l2_cycles: float = number(0, 1e4, "the same, from L2")
    fetch_l2_line_cycles: float = number(0, 1e4, "from 128 B of code that L2 gives an SM to the next")
    cta_replacement_cycles: float = number(0, 1e5, "from a CTA's end to the start of the next in its place")
    wgmma_wait_release_cycles: float = number(0, 1e4, "from the end of wgmma to who waits for it, A in registers")
    wgmma_queue_products: int = number(1, 32, "products of a warpgroup issued, not started")
    wgmma_registers_least_cycles: float = number(1, 1e4, "a product with A in registers, at least")
    wgmma_length_jitter_fraction: float = number(0, 0.9, "by which part a product is longer or shorter")
    wgmma_port_wait_cycles: float = number(0, 100, "beside wgmma, that an instruction waits for the register port")
    wgmma_port_left_fraction: float = number(0, 1, "of the register port that wgmma does not need")
    wgmma_port_slack_instructions: float = number(0, 1000, "beyond that share before wgmma takes longer")
    busy_pipe_turns: int = number(0, 1, "1: warps take turns at a busy pipe; 0: the oldest goes first")
    wgmma_smem_most_fraction: float = number(0, 0.999, "of shared memory that wgmma takes from others, at most")
    wgmma_smem_from_reads_fraction: float = number(0, 0.999, "that it takes from reads, at least")
    wgmma_smem_all_fraction: float = number(0, 1, "from which on others wait for wgmma to end")
    wgmma_smem_line_hold_cycles: float = number(0, 100, "by which each of their lines delays the next")
    spill_l1_kept_fraction: float = number(0, 10, "L1 has spilled registers up to so much of its room later")
    spill_l1_lost_fraction: float = number(0, 10, "and none of them from so much of its room on")
    clock_restart_short_fraction: float = number(0, 1, "cost of a restart after the shortest pause")
    clock_restart_full_cycles: float = number(1, 1e6, "pause beyond the rest that costs a whole one")

    tiles_mma_latency_cycles: float = number(0, 1e4, "from the last mma.sync to a use of its result")
    tiles_wgmma_latency_cycles: float = number(0, 1e4, "from the end of wgmma to a use of its result")
    tiles_tcgen05_latency_cycles: float = number(0, 1e4, "the same of tcgen05")
    tiles_shuffle_cycles: float = number(0, 1e4, "a shuffle, of which a row reduction takes two")
    tiles_mufu_latency_cycles: float = number(0, 1e4, "from an exponential to a use of it")
    tiles_barrier_cycles: float = number(0, 1e4, "a barrier, the wait for it included")
    tiles_wgmma_extra_issue_slots: float = number(0, 100, "that an arithmetic instruction takes beside wgmma")

    l1_reach_fractions: tuple[float, ...] = number(0, 4, "what was moved since a use of L1, over its room", count=7)
    l1_whole_reach_fractions: tuple[float, ...] = number(
        0, 4, "the same where shared memory leaves nearly all of L1", count=7
    )
    l1_room_fractions: tuple[float, ...] = number(
        0, 1, "of L1 up to which the first of these holds, and from which on the second does", count=2
    )
    l1_hit_fractions: tuple[float, ...] = number(0, 1, "share of a load that then hits", count=7)

    clock_free_clusters_ctas: int = number(
        0, 1024, "CTAs up to which some cluster of SMs is idle and keeps the boost clock"
    )
    clock_lone_ctas: int = number(0, 1024, "CTAs up to which each has a cluster of SMs")
    clock_power_exponent: float = number(1, 10, "power goes with this power of the clock")
    clock_fill_power_fraction: float = number(0, 10, "power of full traffic from L2, over that of all tensor cores")
    clock_mixed_tensor_fraction: float = number(0.01, 1, "of the tensor cores, in the mixed load")
    clock_mixed_hbm_fraction: float = number(0.01, 1, "of the bandwidth of HBM, in the mixed load")
    clock_cluster_ranks: tuple[int, ...] = number(0, 7, "rank of each cluster of SMs by its clock", count=8)

    cta_place_cycles: float = number(0, 1e5, "that a CTA takes a place of an SM at least, besides warps")
    cta_place_warp_cycles: float = number(0, 1000, "more for each of its warps")

    hbm_channel_bytes: int = number(32, 1 << 24, "that lie in one channel")
    hbm_mixing_window_bytes: float = number(1, 1e12, "over which reads and writes count as mixed")
    hbm_mixing_full_fraction: float = number(0.001, 1, "of the rarer direction that costs all of mixing")
    hbm_writing_window_cycles: float = number(1, 1e9, "over which the share of time spent writing fades")
    hbm_turn_single_fraction: float = number(0, 1, "of `hbm_turn_s`, what a single place waits in the mean")
    hbm_fetch_bytes: int = number(32, 1024, "that L2 fetches for a piece alone, at least")
    hbm_lone_write_bytes: int = number(0, 1024, "that HBM writes in the time that it takes for a piece alone")
    tlb_reach_bytes: int = number(0, 1 << 50, "that the last TLB translates; 0: all")
    tlb_entry_bytes: int = number(4096, 1 << 40, "that an entry of it covers")
    tlb_miss_s: float = number(0, 1e-6, "from one translation that it lacks to the next")
    hbm_turn_place_bytes: int = number(32, 1 << 24, "of a tile that come from such a place")
    l2_turn_bytes: int = number(0, 1024, "that L2 moves in the time that it takes for any piece")
    l2_part_turn_fraction: float = number(
        0, 2, "of a sector's time at L2, for each access beyond one that stores to parts of sectors make"
    )
    l2_request_fraction: float = number(0, 1, "of a load's time at L2, that its request takes where stores go")

    l2_request_s: float = number(0, 1e-6, "that a slice of L2 takes for a request of a warp, of one line")
    l2_driven_out_fraction: float = number(
        0, 1, "of what comes into L2, that drives out data of earlier kernels not yet written back"
    )

    provenance: dict[str, Provenance] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for item in numbers_of(SmNumbers):
            check_number(item, getattr(self, item.name))
        for small, large in _ORDERED:
            if getattr(self, small) >= getattr(self, large):
                raise ValueError(
                    f"{small} = {getattr(self, small):g}: must be below {large} = {getattr(self, large):g}"
                )
        for name in ("l1_reach_fractions", "l1_whole_reach_fractions", "l1_room_fractions"):
            values = list(getattr(self, name))
            if values != sorted(set(values)):
                raise ValueError(f"{name} = {values}: must rise")

    def changed(self, other: "SmNumbers", *parts: str) -> list[str]:
        """Names of the numbers, of some parts of the model, that are not those of another SM."""
        part_of = sm_parts()
        return [
            item.name
            for item in numbers_of(SmNumbers)
            if part_of[item.name] in parts and getattr(self, item.name) != getattr(other, item.name)
        ]


_ORDERED = (("spill_l1_kept_fraction", "spill_l1_lost_fraction"),)


def as_kept(sm: SmNumbers) -> SmNumbers:
    """An SM as kept costs of schedules were simulated on: it has all code at hand, and reads four registers at once."""
    return replace(sm, fetch_core_bytes=1e9, imad_wide_pair_cycles=0)


def sm_fields() -> dict[str, Field[Any]]:
    """Key -> field of `SmNumbers`, in order; `metadata` holds the arguments of `numbers.number`."""
    return {item.name: item for item in numbers_of(SmNumbers)}


@cache
def sm_parts() -> dict[str, str]:
    """Key -> the part of the model that reads the number."""
    parts, part = {}, ""
    for key in sm_fields():
        parts[key] = part = PARTS.get(key, part)
    return parts


def architectures() -> list[str]:
    """Names of the files that there are, sorted: sm_80, ..."""
    return names_in(SM_TABLE)


def architecture_of(compute_capability: str) -> str:
    """Name of the file of a compute capability: sm_90 of 9.0."""
    return f"sm_{compute_capability.replace('.', '')}"


@cache
def load_sm(architecture: str) -> SmNumbers:
    """The numbers of an architecture. Args: architecture: e.g. sm_90.

    Raises:
        ValueError: there is no file for it, or it is not as it should be; the text names file and key.
    """
    if architecture not in architectures():
        raise ValueError(f"architecture {unknown(architecture, architectures(), '`simulator/device/sm/`')}")
    return parse_sm(text_in(SM_TABLE, architecture), f"sm/{architecture}.toml")


def parse_sm(text: str, file: str) -> SmNumbers:
    """Numbers from TOML text. Args: file: name for messages. Raises: ValueError as `load_sm`."""
    try:
        table = tomllib.loads(text)
        return _numbers(table, _base(table[BASE]) if BASE in table else None)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def sm_of(compute_capability: str, table: Mapping[str, Any]) -> SmNumbers:
    """Numbers of a device: those of its architecture, and what its file says itself.

    Args:
        table: `[sm]` of the device's file.

    Raises:
        ValueError: no file is of this architecture and the table names no base; or as `load_sm`.
    """
    if not isinstance(table, Mapping):
        raise ValueError(f"{SM_TABLE} = {table!r}: must be a table [{SM_TABLE}] with numbers of the architecture")
    architecture = architecture_of(compute_capability)
    if BASE not in table and architecture not in architectures():
        raise ValueError(
            f"compute_capability = {compute_capability!r}: no numbers of {architecture}'s SMs are known; "
            f'name those to take in a table [{SM_TABLE}], such as base = "{architectures()[-1]}"'
        )
    try:
        base = load_sm(architecture) if BASE not in table else _base(table[BASE])
        return _numbers(table, base) if table else base
    except ValueError as error:
        raise ValueError(f"[{SM_TABLE}] {error}") from None


def carried_over(origin: Provenance, name: str) -> Provenance:
    """Where a number is from that an architecture has of another. Args: name: of the other."""
    if origin.source.startswith(CARRIED_OVER):
        return origin
    return Provenance("assumed", f"{CARRIED_OVER}{name} ({origin.kind}: {origin.source})")


def _base(name: object) -> SmNumbers:
    """Numbers of another architecture, which say so."""
    sm = load_sm(name if isinstance(name, str) else repr(name))
    carried = {key: carried_over(origin, str(name)) for key, origin in sm.provenance.items()}
    return SmNumbers(**{key: getattr(sm, key) for key in sm_fields()}, provenance=carried)


def _numbers(table: Mapping[str, Any], base: SmNumbers | None) -> SmNumbers:
    known = sm_fields()
    check_keys(table, {BASE: None, **known}, f"`simulator/device/sm/{architecture_of('9.0')}.toml`")
    values: dict[str, Any] = {}
    provenance: dict[str, Provenance] = {}
    for key, item in known.items():
        if key in table:
            value, provenance[key] = read_entry(key, table[key])
            values[key] = tuple(value) if isinstance(value, list) and item.metadata["count"] else value
        elif base is not None:
            values[key], provenance[key] = getattr(base, key), base.provenance[key]
        else:
            raise ValueError(f"key {key!r} is missing ({item.metadata['doc']})")
    return SmNumbers(**values, provenance=provenance)
