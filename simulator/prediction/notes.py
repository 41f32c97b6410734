"""Remarks that explain a prediction which looks wrong: padded tiles, idle SMs, a working set beyond the L2.

In: launches and their predictions. Out: one line each; nothing is simulated here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from .. import units
from ..device.device import Device
from ..launch.program import Launch
from ..launch.walk import Tally, matmuls_of, steps
from ..problems.problem import Problem
from ..sass.local_memory import indexes_in_a_loop
from ..schedules.registry import all_schedules
from ..traffic import Traffic
from .bottleneck import TAIL, WAIT
from .prediction import LaunchPrediction

NEAR, BEYOND = "near", "beyond"
"""K and V of the heads in flight nearly fill a partition of L2, or exceed it; no remark where they fit or are read
once."""
NEAR_FRACTION = 0.75
"""Share of a partition from which on they count as near it: what else passes through L2 takes the rest."""
LEAST_EXCESS = 1.1
"""Where HBM reads less than so many times what the launch must read, L2 has held what it had to."""
BAND = (
    "HBM reads are uncertain here: measured on an H200, predictions were 22 % too low to 17 % too high"
    " (89 % too high with one query head), times within 4 %"
)
"""128 x 64, 8 warps, 3 stages, causal, D = 128, one KV head: reads at N = 64k, 96k and 128k are off by -5, -22 and
+17 %, times by +3.5, +1.9 and -0.7 %; one query head at 128k by +89 %."""
WAY_OUT = "CTA order longest-first or m-reversed (under a causal mask) and a larger block_m keep CTAs closer together"
KEYS_AND_VALUES = ("K", "V")
MASKED = 1.9
"""Operations that are executed over those that a causal mask leaves, from which on no tile is skipped: twice as many,
but for the diagonal."""
KNEE, AGAIN = (0.6, 0.8), 2.0
"""Shares of an L2 of two partitions that what a launch touches fills, and how often it goes through that, where the
knee is softer than predicted: 0.53 and 0.67 of an H200's took 4 and 20 % longer than predicted."""
HALF, NEIGHBOURS = 0.5, 3
RING = "ring of barriers"
"""In what is said of costs that could not be simulated (`sm.machine`)."""
WRITTEN = 0.2
"""Share of what HBM moves from which on writes matter to the time."""


def kv_under_way_bytes(launch: Launch, places: int) -> int:
    """K and V of all heads that the CTAs which run at a time read [B]; 0 where a launch reads neither.

    Args:
        places: CTAs that run at a time; their first items stand for all.
    """
    program = launch.program
    items = program.items(np.arange(min(places, program.item_count), dtype=np.int64))
    slabs = {tile.tensor: tile.slab for step, _ in steps(program.body) for tile in step.loads}
    return sum(
        len(np.unique(items[:, program.variables.index(slabs[name])])) * tensor.rows * tensor.row_bytes
        for name in KEYS_AND_VALUES
        if name in slabs
        for tensor in (program.tensor(name),)
    )


def l2_fit_of(launch: Launch, exact: Tally, in_flight_bytes: int, hbm_read_bytes: int, device: Device) -> str:
    """`near` or `beyond`: K and V of the heads in flight nearly fill or exceed a partition of L2, and are read again.

    What all SMs read has a copy in every partition, so that one partition is the room that there is for it.

    Args:
        exact: what the launch loads.
        in_flight_bytes: K and V of all heads that running CTAs read [B].
        hbm_read_bytes: predicted [B].
    """
    sizes = {name: launch.program.tensor(name).size_bytes for name in exact.load_bytes}
    if all(exact.load_bytes[name] <= sizes[name] for name in KEYS_AND_VALUES if name in sizes):
        return ""
    must_bytes = sum(min(asked, sizes[name]) for name, asked in exact.load_bytes.items())
    fraction = in_flight_bytes / (device.l2_bytes / device.l2_partitions)
    if fraction < NEAR_FRACTION or hbm_read_bytes < LEAST_EXCESS * must_bytes:
        return ""
    return BEYOND if fraction > 1.0 else NEAR


def few_lines_notes(launch: Launch, prediction: LaunchPrediction, device: Device) -> tuple[str, ...]:
    """Sums whose time depends on where the tensor begins in memory; one line, or none where they do not limit."""
    program, block, stretch = launch.program, device.l2_slice_block_bytes, device.l2_slice_stretch_bytes
    sums = {tile.tensor for step, _ in steps(program.body) for tile in step.stores if tile.path == "atomic"}
    few = sorted(name for name in sums if block < program.tensor(name).size_bytes <= stretch)
    if not few or prediction.bottleneck != WAIT:
        return ()
    return (
        f"atomics add to {', '.join(few)}: which slices of L2 hold so few lines depends on where they begin,"
        " which is not known; the time may be twice as long, or half",
    )


def tile_notes(launches: Sequence[Launch], device: Device, problem: Problem) -> tuple[str, ...]:
    """Tiles with more rows than there are queries, and too few CTAs because there are few queries; one line each.

    Args:
        problem: that the launches solve.
    """
    notes: dict[str, None] = {}
    for launch in launches:
        rows, keys = (int(launch.constants.get(name, 0)) for name in ("block_m", "block_n"))
        seqlen_q, seqlen_k = (int(launch.arguments.get(name, 0)) for name in ("seqlen_q", "seqlen_k"))
        if matmuls_of(launch) and seqlen_q < rows:
            queries = "1 query" if seqlen_q == 1 else f"{seqlen_q} queries"
            share = f"{100 * seqlen_q / rows:.2g} %"
            text = f"tiles of {rows} rows hold {queries}: {share} of the rows do useful work, the rest is padding"
            notes[text] = None
            group = int(launch.constants.get("head_group", 1))
            if group > 1:
                packed = f"{min(100.0, 100 * group * seqlen_q / rows):.2g} %"
                notes[
                    f"GQA packing{_by(problem)} puts the {group} query heads that share K and V into one tile:"
                    f" {packed} of its rows, and K and V are loaded once in place of {group} times"
                ] = None
        few = launch.cta_count < device.sms and seqlen_q < seqlen_k
        if few and matmuls_of(launch) == 2 and seqlen_k > keys:
            idle = device.sms - launch.cta_count
            inputs = sum(tensor.size_bytes for tensor in launch.program.tensors if tensor.role == "input")
            least = units.duration(inputs / device.hbm_read_bytes_per_s)
            notes[
                f"{launch.cta_count} CTAs leave {idle} of {device.sms} SMs idle: split the keys of a query tile over"
                f" CTAs{_by(problem)}; HBM could deliver all inputs in {least}"
            ] = None
    return tuple(notes)


def _by(problem: Problem) -> str:
    """Which schedules split keys and pack heads for a problem, in words, e.g. ` (--schedule x)`; empty: none does."""
    able = [item.name for item in all_schedules().values() if "splits" in item.options and not item.why_not(problem)]
    return f" (--schedule {', '.join(able)})" if able else ""


def l2_notes(predicted: Sequence[LaunchPrediction], device: Device) -> tuple[str, ...]:
    """Why HBM reads are high: K and V of the heads in flight do not stay in L2; and how uncertain the figure is.

    Returns: a line for each launch where they do not, and one on how sure that is; nothing where they do.
    """
    room = units.capacity(device.l2_bytes // device.l2_partitions)
    where = "a partition of L2" if device.l2_partitions > 1 else "L2"
    fit = {NEAR: f"nearly fill {where}", BEYOND: f"exceed {where}"}
    notes = tuple(
        f"K and V of the heads in flight ({units.capacity(launch.kv_under_way_bytes)}) {fit[launch.l2_fit]} ({room}):"
        " CTAs drift apart, and late ones read again from HBM what early ones had in L2:"
        f" {units.traffic(launch.traffic.hbm_read_bytes)} in total"
        for launch in predicted
        if launch.l2_fit
    )
    return (*notes, BAND) if notes else ()


def mask_notes(predicted: Sequence[LaunchPrediction], problem: Problem) -> tuple[str, ...]:
    """Why a causal mask saves no time, where it saves none; one line."""
    total = sum((launch.traffic for launch in predicted), Traffic())
    if not getattr(problem, "causal", False) or not total.matmul_flop:
        return ()
    if total.executed_flop >= MASKED * total.matmul_flop:
        return ("the causal mask saves no time here: tiles that it hides are computed all the same, and masked",)
    longest = max(predicted, key=lambda launch: launch.traffic.time_s)
    if longest.waves > 1.0 or longest.bottleneck != TAIL:
        return ()
    return (
        "the causal mask saves little time here: all CTAs run at once, and the one that sees all keys takes as long as"
        " without the mask",
    )


def warm_notes(l2: str, predicted: Sequence[LaunchPrediction]) -> tuple[str, ...]:
    """Why a run may take longer on what the one before left in L2 than on an empty one; one line."""
    total = sum((launch.traffic for launch in predicted), Traffic())
    if l2 != "warm" or total.hbm_write_bytes < WRITTEN * total.hbm_bytes:
        return ()
    return (
        f"HBM writes {units.traffic(total.hbm_write_bytes)}, also what the run before has left in L2; on an empty L2"
        " (cold) a run ends before its own last output is written back, and may take less time",
    )


def not_modelled_notes(launch: Launch, predicted: LaunchPrediction, device: Device) -> tuple[str, ...]:
    """What was measured beyond a prediction and is in no rule of the model; one line each (docs/model.md)."""
    notes, traffic = [], predicted.traffic
    size = sum(tensor.size_bytes for tensor in launch.program.tensors)
    held, copied = size / device.l2_bytes, min(traffic.l2_read_bytes, traffic.l2_write_bytes)
    if device.l2_partitions > 1 and KNEE[0] <= held <= KNEE[1] and copied >= AGAIN * size:
        notes.append(
            f"not modelled: how soon L2 runs over where a kernel copies again and again what fills {held:.0%} of it:"
            " on an H200 20 MiB to 20 MiB took 178 us, 148 predicted, and moved 1.7 times the HBM bytes"
        )
    every = [step for step, _ in steps(launch.program.body)]
    read = [max(Counter(tile.tensor for tile in step.loads).values(), default=0) for step in every]
    parts = (tile for step in every for tile in step.stores if tile.part_fraction > 0)
    if max(read, default=0) >= NEIGHBOURS and any(tile.cols >= device.line_bytes for tile in parts):
        notes.append(
            "not modelled: what loads of neighbours cost beside stores that begin within sectors: stencils of 268 MB"
            " took an H200 181 and 184 us (tiles of 1 x 1024 and of 32 x 32), 150 and 227 predicted"
        )
    local = launch.resources.spilled_bytes_per_thread > 0 and traffic.l2_write_bytes >= AGAIN * size
    if local and traffic.l2_write_bytes >= HALF * device.l2_write_bytes_per_s * traffic.time_s:
        notes.append(
            "not modelled: that L2 takes stores to local memory slower where that is read in between: on an H200"
            " at 3.4 to 3.9 TB/s, not 4.75; sin of 1e7 took 2,075 to 2,230 us, 1,590 predicted"
        )
    stacks = launch.resources.spilled_bytes_per_thread * launch.threads_per_cta * predicted.ctas_per_sm * device.sms
    code = launch.resources.code
    if stacks > device.l2_bytes and code and indexes_in_a_loop(code.sass):
        notes.append(
            "not modelled: which place of an array in local memory a pass touches: each is taken to touch the next,"
            f" and the arrays of all threads, {units.traffic(stacks)}, do not fit in L2: HBM bytes may be other ones"
        )
    if RING in predicted.cost and len(launch.traced) > 1:
        notes.append(
            "not modelled: how warps of a hand-made ring of barriers run ahead of each other where CTAs have loops of"
            " unlike lengths: K and V of a causal attention came out 6.8 % too few"
        )
    return tuple(f"kernel {launch.name}: {note}" for note in notes)


def cost_notes(origins: Iterable[str]) -> tuple[str, ...]:
    """A line for every reason why code was of no use.

    Args:
        origins: of launches, as `sm.choose.costs_of` returns them.
    """
    reasons = dict.fromkeys(origin.removeprefix("tiles: ") for origin in origins if origin.startswith("tiles: "))
    return tuple(f"cycles estimated from tile sizes, not from machine code: {reason}" for reason in reasons)
