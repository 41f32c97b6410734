"""A profile for people: what is missing, the total and where it is from, the longest kernels, and what is unlucky."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence, Sized

from ... import units
from ...display.render import Column, percent, plural, table, wrapped
from ...operations.gaps import StreamTimeline
from ...operations.groups import NO_MODULE, NUMBERED, Group, Key, group_of, joined_modules, operation_text
from ...operations.profile import Profile, ProfileRow
from ...prediction.what_helps import Advice

FIGURE = re.compile(r"(\d) (%|[num]?s\b|[kMG]i?B\b)")
NO_BREAK = "\u00a0"
MOST_NAMED = 2
"""Kernels that a note names."""
MOST_REASONS = 3
"""Kinds of refused kernels that the first line names."""
LOST = 1e-3
"""Share of a step that is said to be lost where kernels run beside each other."""
LONGEST_NAME = 40
"""Characters of an operation that a table shows: fused kernels hold many."""
FUSED = re.compile(r"(triton_[a-z]+)_fused_.*")
"""Inductor's names hold all that a kernel fuses, behind its kind."""


def profile_text(profile: Profile, width: int, color: bool, by: Key | None, top: int) -> str:
    """All that is printed of a profile.

    Args:
        width: characters at most; color: whether the header is bold.
        by: what a line of the table is, None: kernels that are alike; top: lines at most, the longest first.
    """
    lines = [head_text(profile, width), ""]
    columns, others = group_table(profile.by(by), by, top) if by else kernel_table(profile, top)
    if profile.rows:
        lines += [table(columns, width, color), *([others] if others else []), ""]
    return "\n".join([*lines, *_wrapped(remarks(profile), width)]).rstrip()


def head_text(profile: Profile, width: int) -> str:
    """What stands above the table. Args: width: characters at most."""
    return "\n".join(_wrapped(head_lines(profile), width))


def short_text(profile: Profile, width: int) -> str:
    """The profile without its kernels: the head, and every note. Args: width: characters at most."""
    return "\n".join(_wrapped([*head_lines(profile), *note_lines(profile)], width))


def _wrapped(lines: Sequence[str], width: int) -> list[str]:
    """Lines broken at spaces, but for those before units."""
    whole = [FIGURE.sub(rf"\1{NO_BREAK}\2", line) for line in lines]
    return [line.replace(NO_BREAK, " ") for line in wrapped(whole, width)]


def head_lines(profile: Profile) -> list[str]:
    """What is missing first; then time and sources, idle time, and memory."""
    return [
        *([ended_line(profile)] if profile.ended else []),
        *([missing_line(profile)] if profile.refused else []),
        f"{profile.subject} on {profile.device}, {profile.mode}: {time_text(profile)}{sources_text(profile)}",
        idle_text(profile),
        *([communication_text(profile)] if profile.queued.communication_s else []),
        *(
            [f"As do_bench shows it: {units.duration(profile.step_s)} between events"]
            if profile.timing != "single"
            else []
        ),
        memory_text(profile),
    ]


def ended_line(profile: Profile) -> str:
    """What ended the step before its end."""
    return f"Incomplete: the step ended in an error, and what follows is missing: {profile.ended}"


def missing_line(profile: Profile) -> str:
    """Which kernels have no price, and why."""
    reasons = Counter((operation_text(row.operation), row.kernel.reason) for row in profile.refused)
    named = [f"{count} x {name} ({reason})" for (name, reason), count in reasons.most_common(MOST_REASONS)]
    others = len(reasons) - MOST_REASONS
    more = f" and {others} more" if others > 0 else ""
    of = f"{len(profile.refused)} of {plural(len(profile.rows), 'kernel')}"
    return f"Incomplete: {of} without a price, missing from the time: {'; '.join(named)}{more}"


def time_text(profile: Profile) -> str:
    """The time of the kernels with a price, e.g. `3.48 ms in 38 kernels`."""
    priced = len(profile.rows) - len(profile.refused)
    return f"{units.duration(profile.time_s)} in {plural(priced, 'kernel')}" if priced else "no kernels with a price"


def sources_text(profile: Profile) -> str:
    """How much of the time each source answers for."""
    shares = [f"{percent(group.share)} {group.name}" for group in profile.by("source") if group.time_s]
    return f"; of the time {', '.join(shares)}" if shares else ""


def idle_text(profile: Profile) -> str:
    """How long the GPU runs no kernel, in a stream and in a CUDA graph."""
    waits = " (bound by launches)" if profile.stream.launch_bound else ""
    stream, graph = (f"{units.duration(queue.idle_s)} of {units.duration(queue.end_s)}" for queue in _queues(profile))
    return f"GPU idle {stream} in a stream{waits}, {graph} in a CUDA graph"


def communication_text(profile: Profile) -> str:
    """How long collectives run, how much of that beside nothing, and what other kernels lose beside them."""
    ran = profile.queued
    taken, alone = (
        f"{units.duration(time_s)}, {percent(time_s / ran.end_s)}" for time_s in (ran.communication_s, ran.exposed_s)
    )
    lost_s = sum(row.end_s - row.start_s - row.time_s for row in profile.rows)
    slowed = f"; kernels beside each other take {units.duration(lost_s)} longer" if lost_s > LOST * ran.end_s else ""
    return f"Step {units.duration(ran.end_s)}: communication {taken}, of which nothing hides {alone}{slowed}"


def _queues(profile: Profile) -> tuple[StreamTimeline, StreamTimeline]:
    return profile.stream, profile.graph


def memory_text(profile: Profile) -> str:
    """The most that tensors take, and whether it fits."""
    held = f" ({units.capacity(profile.parameter_bytes)} parameters)" if profile.parameter_bytes else ""
    over_bytes = profile.peak_bytes - profile.hbm_bytes
    verdict = "fits" if profile.fits else f"does not fit: {units.capacity(over_bytes)} too much"
    return f"Peak memory {units.capacity(profile.peak_bytes)}{held} of {units.capacity(profile.hbm_bytes)}: {verdict}"


def kernel_table(profile: Profile, top: int) -> tuple[list[Column], str]:
    """Kernels that are alike in one line, the longest first, and a line about those that are left out."""
    alike: dict[tuple[str, ...], list[ProfileRow]] = defaultdict(list)
    for row, module in zip(profile.rows, joined_modules(profile.rows), strict=True):
        kernel = row.kernel
        name = NUMBERED.sub("", kernel.name) if row.operation.kind == "triton" else kernel.name
        alike[module, operation_text(row.operation), name, kernel.source, row.operation.phase].append(row)
    groups = [(key, group_of(key[2], rows, profile.time_s)) for key, rows in alike.items()]
    groups.sort(key=lambda item: -item[1].time_s)
    shown = groups[:top]
    figures = [group for _, group in shown]
    keys = [key for key, _ in shown]
    columns = [
        *([_left("module", [key[0] or NO_MODULE for key in keys])] if any(key[0] for key in keys) else []),
        _left("operation", [_short(key[1]) for key in keys]),
        _left("kernel", [kernel_text(key[2]) for key in keys], rank=2),
        _left("source", [key[3] for key in keys]),
        *([_left("phase", [key[4] for key in keys], rank=1)] if len({key[4] for key, _ in groups}) > 1 else []),
        *figure_columns(figures),
    ]
    return columns, _others([group for _, group in groups[top:]])


def group_table(groups: Sequence[Group], by: Key, top: int) -> tuple[list[Column], str]:
    """A line for each group, the longest first, and a line about those that are left out."""
    shown = groups[:top]
    modules = [str(group.modules) for group in shown]
    columns = [
        _left(by, [_short(group.name) for group in shown]),
        *([Column("modules", modules, rank=2)] if any(group.modules > 1 for group in shown) else []),
        *figure_columns(shown),
    ]
    return columns, _others(groups[top:])


def figure_columns(groups: Sequence[Group]) -> list[Column]:
    """Figures of groups: how many kernels, time, share, bytes, and what binds."""
    return [
        Column("kernels", [f"x {group.kernels}" for group in groups], rank=1),
        Column("time", ["no price" if _unpriced(group) else units.duration(group.time_s) for group in groups]),
        Column("share", ["-" if _unpriced(group) else percent(group.share) for group in groups]),
        Column("HBM", [units.traffic(group.hbm_bytes) for group in groups], rank=3),
        _left("bound by", [group.bound_by or "-" for group in groups]),
    ]


def _unpriced(group: Group) -> bool:
    return group.refused == group.kernels


def _left(title: str, cells: Sequence[str], rank: int = 0) -> Column:
    return Column(title, cells, rank=rank, left=True)


def kernel_text(name: str) -> str:
    """A kernel's name, e.g. `triton_poi` of `triton_poi_fused_add_gelu_3`."""
    return _short(FUSED.sub(r"\1", name))


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..."


def _others(groups: Sequence[Group]) -> str:
    """Lines that a table leaves out."""
    if not groups:
        return ""
    share = percent(sum(group.share for group in groups))
    return f"... and {plural(len(groups), 'other line')}: {share} of the time; --top shows more"


def remarks(profile: Profile) -> list[str]:
    """What stands below the table: what the time waits for, what is unlucky, and every note."""
    binding: dict[str, float] = defaultdict(float)
    for row in profile.rows:
        binding[row.kernel.bound_by] += row.time_s
    parts = sorted(((time_s, name) for name, time_s in binding.items() if time_s), reverse=True)
    shares = [f"{percent(time_s / profile.time_s)} {name}" for time_s, name in parts]
    return [
        *([f"Bound by {', '.join(shares)}"] if shares else []),
        *(f"Unlucky  {hint_text(hint)}" for hint in profile.hints),
        *note_lines(profile),
    ]


def note_lines(profile: Profile) -> list[str]:
    """Every note of the recording, and what is guessed in prices."""
    guessed: dict[str, dict[str, None]] = defaultdict(dict)
    for row in profile.rows:
        if row.kernel.note:
            guessed[row.kernel.note][kernel_text(row.kernel.name)] = None
    return [
        *(f"Note     {note}" for note in profile.notes),
        *(f"Note     {', '.join([*names][:MOST_NAMED])}{_more(names)}: {note}" for note, names in guessed.items()),
    ]


def _more(names: Sized) -> str:
    others = len(names) - MOST_NAMED
    return f" and {others} more" if others > 0 else ""


def hint_text(hint: Advice) -> str:
    """What is unlucky, what it costs, and what cures it, in a line."""
    return f"{hint.text}: {units.duration(hint.time_s)}, {percent(hint.share)} of the step; cure: {hint.cure}"
