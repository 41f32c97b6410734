"""One table: which hardware counters say what, and how their units become ours.

The names of counters differ between architectures, so each field lists alternatives,
and `resolve` takes the first that the installed ncu offers for the GPU.
A field that no alternative covers has no value: a GPU whose L2 is one piece has no fabric to count.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .ncu_output import CountedLaunch, NcuFailed

Metrics = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counter:
    """A field of ours and the counters that hold it.

    Args:
        field: as in `Traffic`, where it has a prediction.
        dimension: of the value: byte, cycle, second, instruction or count.
        alternatives: the metrics to add up, by preference; all metrics of an alternative must be on offer.
        doc: what is counted.
    """

    field: str
    dimension: str
    alternatives: tuple[Metrics, ...]
    doc: str


COUNTERS = (
    Counter(
        "hbm_read_bytes",
        "byte",
        (("dram__bytes_read.sum",), ("dram__bytes_op_read.sum",), ("dram__sectors_read.sum",)),
        "bytes that device memory gave",
    ),
    Counter(
        "hbm_write_bytes",
        "byte",
        (("dram__bytes_write.sum",), ("dram__bytes_op_write.sum",), ("dram__sectors_write.sum",)),
        "bytes that device memory took",
    ),
    Counter(
        "smem_fill_bytes",
        "byte",
        (("l1tex__m_xbar2l1tex_read_bytes.sum",), ("l1tex__m_xbar2l1tex_read_sectors.sum",)),
        "bytes that arrived at SMs over the crossbar",
    ),
    Counter(
        "l2_read_bytes",
        "byte",
        (("lts__t_sectors_srcunit_tex_op_read.sum",),),
        "sectors that SMs read from L2, after the request coalescer",
    ),
    Counter("l2_write_bytes", "byte", (("lts__t_sectors_srcunit_tex_op_write.sum",),), "sectors that SMs wrote to L2"),
    Counter(
        "fabric_bytes",
        "byte",
        (("lts__t_sectors_srcunit_ltcfabric.sum",), ("lts__t_sectors_srcnode_fbp.sum",)),
        "sectors between the L2 partitions",
    ),
    Counter(
        "l1_hit_bytes",
        "byte",
        (("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",),),
        "sectors of plain loads that L1 served",
    ),
    Counter(
        "spill_bytes",
        "byte",
        (("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"),),
        "sectors of local memory read and written: spilled registers",
    ),
    Counter("cycles", "cycle", (("sm__cycles_elapsed.max",),), "SM cycles from the launch's start to its end"),
    Counter(
        "time_s",
        "second",
        (("gpu__time_duration.sum",), ("gpu__time_duration_measured_wallclock.sum",)),
        "time from the launch's start to its end, no launch overhead",
    ),
    Counter(
        "instructions",
        "instruction",
        (("smsp__inst_executed.sum",), ("sm__inst_executed.sum",)),
        "warp instructions executed",
    ),
    Counter(
        "registers_per_thread", "register", (("launch__registers_per_thread",),), "registers of a thread, as allocated"
    ),
    Counter(
        "smem_bytes_per_cta",
        "byte",
        (("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"),),
        "shared memory of a CTA, without what the system keeps",
    ),
)
"""What is counted of every launch."""

UNITS: Mapping[str, tuple[str, float]] = {
    "byte": ("byte", 1.0),
    "Kbyte": ("byte", 1e3),
    "Mbyte": ("byte", 1e6),
    "Gbyte": ("byte", 1e9),
    "byte/block": ("byte", 1.0),
    "Kbyte/block": ("byte", 1e3),
    "sector": ("byte", 32.0),
    "cycle": ("cycle", 1.0),
    "s": ("second", 1.0),
    "second": ("second", 1.0),
    "ms": ("second", 1e-3),
    "msecond": ("second", 1e-3),
    "us": ("second", 1e-6),
    "usecond": ("second", 1e-6),
    "ns": ("second", 1e-9),
    "nsecond": ("second", 1e-9),
    "inst": ("instruction", 1.0),
    "register/thread": ("register", 1.0),
}
"""Unit as ncu writes it (sizes in powers of 1000, a sector is 32 B) -> dimension, and how many of our unit it is."""

ALWAYS_OFFERED = "launch__"
"""Prefix of facts about a launch that ncu knows without counting, and does not list."""


def resolve(names: Collection[str]) -> dict[str, Metrics]:
    """Which metrics hold each field here. Args: names: base names on offer. Returns: field -> metrics to add up."""

    def on_offer(metric: str) -> bool:
        return metric.startswith(ALWAYS_OFFERED) or metric.split(".")[0] in names

    metrics = {}
    for counter in COUNTERS:
        for alternative in counter.alternatives:
            if all(map(on_offer, alternative)):
                metrics[counter.field] = alternative
                break
    return metrics


def fields_of(counted: CountedLaunch, metrics: Mapping[str, Metrics]) -> dict[str, float]:
    """A launch's counters in our fields and units; fields whose metrics have no value here are left out.

    Args:
        metrics: as `resolve` returned.

    Raises:
        NcuFailed: a unit is unknown, or is not one of the field's dimension.
    """
    values = {}
    for counter in COUNTERS:
        wanted = metrics.get(counter.field, ())
        if wanted and all(metric in counted.metrics for metric in wanted):
            values[counter.field] = sum(_converted(counter, metric, *counted.metrics[metric]) for metric in wanted)
    return values


def metric_names(metrics: Mapping[str, Metrics]) -> tuple[str, ...]:
    """All metrics to ask ncu for, each once."""
    return tuple(dict.fromkeys(name for names in metrics.values() for name in names))


def _converted(counter: Counter, metric: str, value: float, unit: str) -> float:
    dimension, factor = UNITS.get(unit, ("", 0.0))
    if dimension != counter.dimension:
        raise NcuFailed(f"{metric} has unit {unit!r}: {counter.field} needs one of {_units(counter.dimension)}")
    return value * factor


def _units(dimension: str) -> str:
    return ", ".join(unit for unit, (measure, _) in UNITS.items() if measure == dimension)
