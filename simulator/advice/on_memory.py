"""Rules on what a launch does to device memory: atomics that meet, threads without work, sectors of little use.

Gains of atomics and of coalesced accesses are those of the launch simulated with the change, that of idle threads a
bound: as many times as fast as threads are idle, as far as HBM allows; so is that of data that are read once alone.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .. import units
from ..display.words import percent
from ..launch.lists import Lists
from ..launch.program import Tile
from ..launch.walk import tally
from ..limits import SECTOR_BYTES
from ..prediction.compulsory import stored_bytes
from ..prediction.what_helps import Advice
from ..sass.memory_instructions import ATOMICS, GLOBAL_LOADS
from ..sm.what_if.changed_code import LaunchChange, coalesced, is_in_l1
from .accesses import SMALL, Access, thread_share, useful_share, worst
from .case import Case, Change, with_tiles

IDLE = 0.25
"""Share of threads with something of their own to move, below which the others are said to be idle."""
LEAST_OF_HBM, READ_AGAIN = 0.3, 1.3
"""Share of the time for which HBM is busy, and how often it gives the same, from which on that is worth a remark."""
WASTED = 0.8
"""Useful share of the sectors that are touched, below which accesses are said to be uncoalesced."""
BY_SIDE = "CTAs that share data should run side by side (grouped order), or larger tiles"
SCATTERED = 0.5
"""Useful share of the sectors of one access, below which it is looked at by itself."""
ONCE = 1.1
"""What a line of source loads of a tensor, over its size, up to which it reads it once."""


def atomics(case: Case) -> Advice | None:
    """Additions at L2, which queue where many meet at few lines."""
    adding = [access for access in case.accesses if access.family in ATOMICS]
    if not adding:
        return None
    added = sum(access.asked_bytes for access in adding)
    size = sum(stored_bytes(case.launch, name) for name in {case.tensor_of(access.storage) for access in adding})
    most = max(adding, key=lambda access: access.asked_bytes)
    free = replace(case.device, l2_add_sector_s=0.0, l2_add_part_s=0.0, l2_add_again_s=0.0, l2_add_far_s=0.0)
    text = (
        f"fewer atomics: {units.traffic(added)} are added to {units.traffic(size)}{case.at(most.place)};"
        " add up in the CTA over more rows first, or leave partial sums to a second kernel"
    )
    return Advice(cause="atomics", text=text, gain=case.gain(Change(device=free)))


def locks(case: Case) -> Advice | None:
    """Waits of CTAs for each other through memory, which the time leaves out."""
    if not case.traced.lower_bound:
        return None
    text = (
        "no waits of CTAs for each other: they come on top of this time; partial results of each CTA, which a second"
        " kernel adds up, need none"
    )
    return Advice(cause="locks", text=text)


def idle_threads(case: Case) -> Advice | None:
    """Threads that move nothing, or the same as others."""
    share = thread_share(case.accesses)
    asked = sum((*case.tally.load_bytes.values(), *case.tally.store_bytes.values()))
    # Where copies by TMA move nearly all, the few accesses of threads say nothing of how many have work.
    if share >= IDLE or sum(access.touched_bytes for access in case.accesses) < SMALL * asked:
        return None
    least = case.prediction.causes.get("hbm", 0.0)
    threads = case.launch.threads_per_cta
    busy = max(1, round(share * threads))
    text = f"more elements for each program: there is work for {busy} of its {threads} threads; give it a tile"
    return Advice(cause="idle threads", text=text, gain=1.0 / max(share, least, 1e-3))


def read_again(case: Case) -> Advice | None:
    """Data that come from HBM more often than once, as L2 does not keep them until the next CTA asks."""
    traffic, share = case.prediction.traffic, case.prediction.causes["hbm"]
    exact, tensors = case.tally, {tensor.name: tensor for tensor in case.launch.program.tensors}
    once = sum(min(tensors[name].size_bytes, asked) for name, asked in exact.load_bytes.items())
    if case.l2 != "cold" or share < LEAST_OF_HBM or traffic.hbm_read_bytes < READ_AGAIN * once:
        return None
    saved = share * (traffic.hbm_read_bytes - once) / (traffic.hbm_read_bytes + traffic.hbm_write_bytes)
    text = (
        f"fewer reads of the same data: {units.traffic(traffic.hbm_read_bytes)} come from HBM, of tensors of"
        f" {units.traffic(once)}; {_passes(case) or BY_SIDE}"
    )
    return Advice(cause="read again", text=text, gain=case.bound(saved, without=("hbm", "fabric")))


def _passes(case: Case) -> str:
    """What to do where several lines read a tensor, each of them once; empty where CTAs read what others read."""
    sizes = {tensor.name: tensor.size_bytes for tensor in case.launch.program.tensors}
    read: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for access in case.accesses:
        if access.family in GLOBAL_LOADS:
            read[case.tensor_of(access.storage)][case.at(access.place)] += access.useful_bytes
    name = max(read, key=lambda tensor: sum(read[tensor].values()), default="")
    lines = [at.removeprefix(" at line ") for at, size in read[name].items() if size > WASTED * sizes.get(name, 0)]
    if len(lines) < 2 or max(read[name].values()) > ONCE * sizes.get(name, 0):
        return ""
    return f"{name} is read whole at lines {' and '.join(lines)}: compute in one pass, or keep it in the SM in between"


def uncoalesced(case: Case) -> Advice | None:
    """Warps that touch more sectors than they use."""
    accesses = case.accesses
    where = worst(accesses)
    if useful_share(accesses) >= WASTED:
        # Few bytes may be many lines. Where L1 serves the rest of a sector later, neighbours would come from L2 anew.
        seen = case.code.followed[0] if case.code else None
        where = worst([access for access in accesses if seen and not is_in_l1(seen, access.place)], SCATTERED)
    if where is None or thread_share(accesses) < IDLE:
        return None
    used = SECTOR_BYTES * where.useful_bytes / where.touched_bytes
    line = case.at(where.place) or " where they use least"
    text = (
        f"coalesced accesses: {used:.2g} of each {SECTOR_BYTES} B that a warp touches{line} are used,"
        f" {percent(useful_share(accesses))} of all; neighbouring threads should have neighbouring elements"
    )
    alone, shared = _packed_shares(case, accesses)
    gain = case.gain(Change(code=coalesced, launch=_packed(alone | shared)))
    # What others ask for of a sector comes from HBM all the same.
    if shared and case.prediction.causes["hbm"] > 0.0:
        gain = min(gain, max(1.0, 1.0 / case.prediction.causes["hbm"]))
    return Advice(cause="uncoalesced", text=text, gain=gain)


def _packed_shares(case: Case, accesses: Sequence[Access]) -> tuple[dict[str, float], dict[str, float]]:
    """Tensor -> what its accesses would move over what they do, if neighbouring threads had neighbouring elements.

    Returns:
        Of tensors whose sectors nobody else asks for the rest of, and of others.
    """
    asked: defaultdict[str, float] = defaultdict(float)
    touched: defaultdict[str, float] = defaultdict(float)
    for access in accesses:
        asked[case.tensor_of(access.storage)] += access.useful_bytes
        touched[case.tensor_of(access.storage)] += access.touched_bytes
    exact = tally(case.launch.program)
    alone: dict[str, float] = {}
    shared: dict[str, float] = {}
    for tensor in case.launch.program.tensors:
        name = tensor.name
        moved = min(tensor.size_bytes, exact.load_bytes.get(name, 0) + exact.store_bytes.get(name, 0))
        if moved and asked[name] < WASTED * moved:
            alone[name] = asked[name] / moved
        elif moved and asked[name] < WASTED * touched[name]:
            shared[name] = asked[name] / touched[name]
    return alone, shared


def _packed(shares: Mapping[str, float]) -> LaunchChange:
    """A launch with tiles of the bytes that are asked for alone. Args: shares: tensor -> these over all."""

    def packed(tile: Tile) -> Tile:
        share = shares.get(tile.tensor)
        if share is None:
            return tile
        if tile.lists is not None:
            shorter = tile.lists.shortened(share)
            share *= _pieces(tile.lists) / _pieces(shorter)
            tile = replace(tile, lists=shorter)
            if share > WASTED:
                return tile
        touched = tile.rows * -(-tile.cols // SECTOR_BYTES) * SECTOR_BYTES
        cols = max(SECTOR_BYTES, round(tile.cols * share / SECTOR_BYTES) * SECTOR_BYTES)
        return replace(tile, cols=cols, rows=max(1, round(share * touched / cols)))

    return lambda launch: with_tiles(launch, packed)


def _pieces(lists: Lists) -> int:
    """Pieces of all its lists."""
    return int(lists.spans[:, 1].sum())
