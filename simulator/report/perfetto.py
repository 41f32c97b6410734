"""A timeline of CTAs on SMs, and of bytes moved meanwhile, in the trace format of Chrome and Perfetto."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..prediction.timeline import LaunchTimeline, Timeline

MOST_BYTES = 20_000_000
"""Size of a trace, as text, that fewer SMs are shown for: Perfetto opens such at once [B]."""
MOST_POINTS = 1000
"""Times of a launch at which resident CTAs are counted, at most."""
MOST_RATES = 200
"""Intervals of a launch that rates are the means of, at most: shorter ones tell bursts, not rates."""
GPU, LAUNCHES, FIRST_SM = 1, 1, 2
"""Numbers of the process of counters, of its thread of launches, and of the process of SM 0. Perfetto takes process 0
and thread 0 for the idle ones of Linux."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A trace file. Args: text: JSON; sms: how many SMs have CTAs; shown: of how many the CTAs are in it."""

    text: str
    sms: int
    shown: int


def trace_of(timeline: Timeline, sms: int | None = None) -> Trace:
    """The trace: a process per SM, a thread per CTA slot, a slice per CTA; counters of the whole GPU before them.

    Args:
        sms: show the CTAs of so many SMs; where None, of as many as keep the text below `MOST_BYTES`, but of one.

    Source: Trace Event Format (Chromium project): complete (`X`), counter (`C`) and metadata (`M`) events; times in
    microseconds, which Perfetto reads in whole nanoseconds.
    """
    busy = sorted({int(sm) for launch in timeline.launches for sm in np.unique(launch.sm)})
    lines = list(_gpu(timeline))
    room = MOST_BYTES - sum(len(line) + 2 for line in lines) - 1000
    shown = 0
    for sm in busy[:sms]:
        slices = list(_sm(timeline, sm))
        room -= sum(len(line) + 2 for line in slices)
        if sms is None and shown and room < 0:
            break
        lines += slices
        shown += 1
    head = {"displayTimeUnit": "ns", "otherData": {"SMs shown": f"{shown} of {len(busy)}"}}
    text = json.dumps(head)[:-1] + ', "traceEvents": [\n' + ",\n".join(lines) + "\n]}\n"
    return Trace(text=text, sms=len(busy), shown=shown)


def _named(pid: int, name: str, order: int) -> Iterator[str]:
    yield json.dumps({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}})
    yield json.dumps({"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": order}})


def _thread(pid: int, tid: int, name: str) -> Iterator[str]:
    yield json.dumps({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}})
    yield json.dumps({"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}})


def _slice(pid: int, tid: int, name: str, start_s: float, end_s: float, args: dict[str, object]) -> str:
    """A slice of whole nanoseconds, one shorter than the time it takes: readers that round must not see it overlap."""
    start_ns, end_ns = round(start_s * 1e9), round(end_s * 1e9)
    dur_ns = max(0, end_ns - start_ns - 1)
    event = {"ph": "X", "pid": pid, "tid": tid, "ts": start_ns / 1e3, "dur": dur_ns / 1e3, "name": name, "args": args}
    return json.dumps(event, separators=(",", ":"))


def _gpu(timeline: Timeline) -> Iterator[str]:
    """The launches, and counters of the whole GPU."""
    yield from _named(GPU, f"GPU ({timeline.sms} SMs)", 0)
    yield from _thread(GPU, LAUNCHES, "launches")
    for launch in timeline.launches:
        args: dict[str, object] = {"CTAs": len(launch.cta)}
        yield _slice(GPU, LAUNCHES, launch.name, launch.begin_s, launch.end_s, args)
    for name, values in (("HBM bytes/s", "hbm_bytes"), ("L2 bytes/s", "l2_bytes")):
        for launch in timeline.launches:
            yield from _counter(name, *rates(launch.sample_s, getattr(launch, values)))
    for launch in timeline.launches:
        yield from _counter("resident CTAs", *residents(launch))


def _counter(name: str, times_s: np.ndarray, values: Sequence[int]) -> Iterator[str]:
    """Values from each time on until the next."""
    for time_s, value in zip(times_s.tolist(), values, strict=True):
        event = {"ph": "C", "pid": GPU, "ts": round(time_s * 1e9) / 1e3, "name": name, "args": {"value": value}}
        yield json.dumps(event, separators=(",", ":"))


def rates(times_s: np.ndarray, moved_bytes: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Times, and mean bytes per second from each until the next, rounded; nothing after the last.

    Args:
        times_s: float64 (samples,), ascending; moved_bytes: float64 (samples,), until then.
    """
    shortest_s = (times_s[-1] - times_s[0]) / MOST_RATES
    kept = [0]
    for number, time_s in enumerate(times_s):
        if time_s - times_s[kept[-1]] >= shortest_s and times_s[-1] - time_s >= shortest_s:
            kept.append(number)
    kept.append(len(times_s) - 1)
    per_s = np.diff(moved_bytes[kept]) / np.diff(times_s[kept])
    return times_s[kept], [*np.rint(per_s).astype(np.int64).tolist(), 0]


def residents(launch: LaunchTimeline) -> tuple[np.ndarray, list[int]]:
    """When the number of resident CTAs changes, or some of these times where they are many, and the number then."""
    starts, ends = np.sort(launch.cta_start_s), np.sort(launch.cta_end_s)
    times_s = np.unique(np.concatenate((starts, ends)))
    if len(times_s) > MOST_POINTS:
        times_s = times_s[np.linspace(0, len(times_s) - 1, MOST_POINTS).astype(np.int64)]
    counts = np.searchsorted(starts, times_s, side="right") - np.searchsorted(ends, times_s, side="right")
    return times_s, counts.tolist()


def _sm(timeline: Timeline, sm: int) -> Iterator[str]:
    """The slots of an SM, and what ran in them."""
    pid = FIRST_SM + sm
    yield from _named(pid, f"SM {sm}", 1 + sm)
    slots = {int(slot) for launch in timeline.launches for slot in np.unique(launch.slot[launch.sm == sm])}
    for slot in sorted(slots):
        yield from _thread(pid, 1 + slot, f"slot {slot}")
    for launch in timeline.launches:
        for at in np.flatnonzero(launch.sm == sm).tolist():
            args = {"kernel": launch.name, "CTA": int(launch.cta[at])}
            times_s = float(launch.cta_start_s[at]), float(launch.cta_end_s[at])
            yield _slice(pid, 1 + int(launch.slot[at]), launch.work[at], *times_s, args)
