"""The links that all SMs share, and device memory. A link is a server: requests queue, in order of time.

Device memory is several servers, its *channels*. Data that lie together come from a few channels and queue there
behind other requests. Short pieces of rows cost more than whole ones, and so do reads mixed with writes.
"""

from typing import NamedTuple

import numpy as np

from ...limits import LINE_BYTES
from ..jit import inlined

HBM_READ, HBM_WRITE, L2_READ, L2_WRITE, FABRIC, L1_HIT, STEPS, TOUCHED, FIRST = range(9)
"""Elements of `counter`: bytes at each level; steps executed; bytes that the launch reads from L2 for the first time,
and those of them that come from HBM."""
COUNTERS = FIRST + 1
RECENT_READ_BYTES, RECENT_WRITE_BYTES, WRITING, WRITING_AT = range(COUNTERS, COUNTERS + 4)
"""Behind the counters: bytes that HBM has read and written recently, which fade over `hbm_mixing_bytes`; the share of
the recent time in which it has been writing, which fades over `hbm_writing_cycles`, and up to when that is known."""
COUNTER_ELEMENTS = COUNTERS + 4
FABRIC_LINK, DISPATCH, TRANSLATIONS, FIRST_L2 = 0, 1, 2, 3
"""Elements of `free`: what all share, the ports of L2 for loads, a partition each, and those for stores, a read and a
write port per SM, the channels of HBM."""
MOST_PIECES = 1 << 16
"""Pieces of something that is read, more than there are."""
GOLDEN = 0x9E3779B9
"""Added to what is mixed, since zero stays zero: 2^32 over the golden ratio."""


class Rates(NamedTuple):
    """Cycles per byte of the links, cycles of latency, and geometry of the GPU.

    Args:
        partitions: of L2.
        interleaved: whether lines of a granule lie in all partitions.
        sms: SMs.
        coalescer_sms: SMs that share a coalescer.
        l2_read_cycles_per_byte, l2_write_cycles_per_byte: of the ports of one partition, for loads and for stores.
        l2_request_share: of a load's time at its port, that its request takes at the port for stores.
        turn_bytes: that a slice of L2 could give or take in the time that a piece takes at least [B].
        part_turn_share: of a sector's time, that each access takes by which stores in part exceed one a sector.
        given_back_cycles_per_byte: of the read port, of what atomics give back.
        add_sector_cycles, add_part_cycles: that an addition takes a slice of L2, for each sector: a whole one, a part.
        add_again_cycles: at least, where it is to the same place as the one before.
        add_far_cycles: that a sector from the other partition takes the slice of its own that it comes through.
        slice_block_bits: of memory that lie together in a slice of L2 [bits of an address, for all three].
        slice_group_bits: that lie in two slices, block by block in turns.
        slice_stretch_bits: in which no slice comes twice.
        request_cycles: that a request for a line takes a slice.
        request_most_bytes: of a granule beyond which the port takes longer than the slices [B].
        tlb_entry_bytes, tlb_miss_cycles: see `translations`.
        fabric_cycles_per_byte: between partitions.
        hbm_read_cycles_per_byte, hbm_write_cycles_per_byte: of all channels.
        hbm_channels: servers that share the bandwidth of HBM.
        hbm_channel_bytes: that lie together in one of them [B].
        hbm_mixing_bytes: traffic within which reads and writes count as mixed [B].
        hbm_mixing_full: share of the rarer direction from which mixing costs all that it can cost.
        hbm_writing_cycles: over which the share of the time spent writing fades.
        hbm_mixing_cost: what mixing adds to a transfer's time at most, as a share of it.
        hbm_part_line_cost: the same for reads of less than a line of a row; hbm_single_line_cost: of less than two.
        hbm_piece_write_bytes: bytes by which a piece of a row takes longer to write [B].
        hbm_fetch_bytes: that come for a piece that lies alone, at least; hbm_lone_write_bytes: that could be written
            in the time that such a piece takes [B].
        sm_fill_cycles_per_byte: of an SM's port.
        l1_bytes: room of L1 [B].
        l1_curve: share of loads that L1 serves (see `l1`).
        l1_latency, l2_latency: of a hit.
        fabric_latency: beyond that, of what is homed in another partition.
        hbm_latency: beyond L2.
        hbm_late: by which a place comes later than the mean at most, or sooner.
        hbm_turn: that a read waits where HBM is writing.
        hbm_turn_share: of that, what a single place waits in the mean.
        hbm_place_bytes: of a tile that come from a place [B].
        cta_dispatch: from one CTA's start to the next one's.
        cta_place: from a CTA's start to the next one's in the same place, at least.
        after_begin: the time next to the launch's begin: what was read earlier, the launch has not touched.
        spilled_first: granule of the first slot's spilled registers.
        spilled_granules: of each slot.
        spilled_bytes: of each granule [B].
    """

    partitions: int
    interleaved: bool
    sms: int
    coalescer_sms: int
    l2_read_cycles_per_byte: float
    l2_write_cycles_per_byte: float
    l2_request_share: float
    turn_bytes: int
    part_turn_share: float
    given_back_cycles_per_byte: float
    add_sector_cycles: float
    add_part_cycles: float
    add_again_cycles: float
    add_far_cycles: float
    slice_block_bits: int
    slice_group_bits: int
    slice_stretch_bits: int
    request_cycles: float
    request_most_bytes: float
    tlb_entry_bytes: int
    tlb_miss_cycles: float
    fabric_cycles_per_byte: float
    hbm_read_cycles_per_byte: float
    hbm_write_cycles_per_byte: float
    hbm_channels: int
    hbm_channel_bytes: int
    hbm_mixing_bytes: float
    hbm_mixing_full: float
    hbm_writing_cycles: float
    hbm_mixing_cost: float
    hbm_part_line_cost: float
    hbm_single_line_cost: float
    hbm_piece_write_bytes: float
    hbm_fetch_bytes: int
    hbm_lone_write_bytes: float
    sm_fill_cycles_per_byte: float
    l1_bytes: float
    l1_curve: np.ndarray
    l1_latency: float
    l2_latency: float
    fabric_latency: float
    hbm_latency: float
    hbm_late: float
    hbm_turn: float
    hbm_turn_share: float
    hbm_place_bytes: float
    cta_dispatch: float
    cta_place: float
    after_begin: float
    spilled_first: int
    spilled_granules: int
    spilled_bytes: int


@inlined
def first_channel(partitions: int, sms: int) -> int:
    """The element of `free` that the channels of HBM begin with."""
    return FIRST_L2 + 2 * partitions + 2 * sms


@inlined
def serve(free: np.ndarray, which: int, time: float, cycles: float) -> float:
    """A link is busy for `cycles` from `time` or from when it is free. Returns: when it is done."""
    start = free[which]
    if start < time:
        start = time
    free[which] = start + cycles
    return start + cycles


@inlined
def mixed(number: int) -> int:
    """A number below 2^32 that looks random (the finalizer of MurmurHash3, Austin Appleby)."""
    number = (number ^ number >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    number = (number ^ number >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return number ^ number >> 16


@inlined
def _hbm_cycles(counter: np.ndarray, rates: Rates, size: int, write: bool, cost: float) -> float:
    """Cycles of all of HBM for `size` bytes, `cost` times as long as in one long row; they are counted."""
    kept = max(0.0, 1.0 - size / rates.hbm_mixing_bytes)
    reads, writes = counter[RECENT_READ_BYTES] * kept, counter[RECENT_WRITE_BYTES] * kept
    if write:
        counter[HBM_WRITE] += size
        writes += size
        cost *= size * rates.hbm_write_cycles_per_byte
    else:
        counter[HBM_READ] += size
        reads += size
        cost *= size * rates.hbm_read_cycles_per_byte
    counter[RECENT_READ_BYTES], counter[RECENT_WRITE_BYTES] = reads, writes
    mixed = min(1.0, min(reads, writes) / ((reads + writes) * rates.hbm_mixing_full))
    return cost * (1.0 + mixed * rates.hbm_mixing_cost)


@inlined
def _writing(counter: np.ndarray, rates: Rates, time: float) -> float:
    """Share of the recent time in which HBM has been writing."""
    share: float = counter[WRITING] * np.exp(min(0.0, counter[WRITING_AT] - time) / rates.hbm_writing_cycles)
    return share


class Reading(NamedTuple):
    """How HBM gives a tile.

    Args:
        cost: how many times as long as in one long row it takes.
        places: that it comes from, apart from each other, in a granule.
        alone: 1 where it waits for the last of single places, 0 where many lie together and come as the mean does.
        turn: that it waits in the mean where HBM writes all the time [cycles].
        grown: how many times as many bytes as are asked for come; passing: L2 drops it before all else.
    """

    cost: float
    places: float
    alone: float
    turn: float
    grown: float
    passing: bool


@inlined
def reading_of(
    rates: Rates, cost: float, size: int, pieces: float, grown: float, passing: bool
) -> Reading:  # fmt: skip
    """How HBM gives so many bytes. Args: pieces: that lie apart, in a granule; 0 where all lie together."""
    if pieces > 0:
        return Reading(cost, pieces, 1.0, rates.hbm_turn * rates.hbm_turn_share, grown, passing)
    together = max(1.0, size / rates.hbm_place_bytes)
    turn = rates.hbm_turn * min(1.0, together * rates.hbm_turn_share)
    return Reading(cost, 1.0, max(0.0, 2.0 - together), turn, grown, passing)


@inlined
def hbm_latency(
    counter: np.ndarray, rates: Rates, granule: int, apart: int, how: Reading, time: float
) -> float:  # fmt: skip
    """How long HBM takes from when it has served a read until the last of it is there [cycles].

    Each place is nearer or farther than the mean, as if drawn at random, evenly; a read waits for its last one.

    Args:
        apart: granules that this one stands for; how: HBM gives them.
    """
    place = granule if rates.interleaved else granule * LINE_BYTES // int(rates.hbm_place_bytes)
    drawn = mixed(place * MOST_PIECES + GOLDEN) / 4294967296.0
    places = apart * how.places
    if places > 1:
        drawn **= 1.0 / places
    turn = how.turn * min(1.0, _writing(counter, rates, time))
    return rates.hbm_latency + turn + (2.0 * drawn - 1.0) * how.alone * (rates.hbm_late + turn)


@inlined
def read_hbm(
    free: np.ndarray, counter: np.ndarray, rates: Rates, place: int, size: int, apart: int, cost: float, time: float
) -> float:  # fmt: skip
    """HBM reads from channels that follow, as if at random, from the place of the data.

    Args:
        place: a number that no other place has.
        size: bytes of all places [B].
        apart: places of equal size that lie apart; what lies together comes by `hbm_channel_bytes`.
        cost: how many times as long as in one long row it takes.

    Returns:
        When it is done; `hbm_latency` later it is there.
    """
    together = apart * rates.hbm_channel_bytes
    pieces = apart * ((size + together - 1) // together)
    cycles = _hbm_cycles(counter, rates, size, False, cost) * rates.hbm_channels / pieces
    first, done = first_channel(rates.partitions, rates.sms), time
    for piece in range(pieces):
        channel = mixed(place * MOST_PIECES + piece) * rates.hbm_channels >> 32
        done = max(done, serve(free, first + channel, time, cycles))
    return done


@inlined
def write_hbm(free: np.ndarray, counter: np.ndarray, rates: Rates, size: int, cost: float, time: float) -> None:
    """Write to HBM. No CTA stalls on it: data leave L2 when a channel is idle; reads queue behind runs of writes."""
    pieces = (size + rates.hbm_channel_bytes - 1) // rates.hbm_channel_bytes
    whole = _hbm_cycles(counter, rates, size, True, cost)
    counter[WRITING] = _writing(counter, rates, time) + whole / rates.hbm_writing_cycles
    counter[WRITING_AT] = max(time, counter[WRITING_AT])
    cycles = whole * rates.hbm_channels / pieces
    first = first_channel(rates.partitions, rates.sms)
    for _ in range(pieces):
        freest, soonest = first, free[first]
        for channel in range(first + 1, first + rates.hbm_channels):
            if free[channel] < soonest:
                freest, soonest = channel, free[channel]
        serve(free, freest, time, cycles)
