"""Ways to share sequences among GPUs for people: time, communication, bytes, memory, and which is best."""

from itertools import pairwise

from ... import units
from ...display.render import Column, percent, plural, table, times, wrapped
from ...explore.sharing import Shared, Sharing


def sharing_text(sharing: Sharing, width: int, color: bool = False) -> str:
    """What `tilesight compare --gpus` prints of a device."""
    problem, rows = sharing.problem, sharing.shared
    alike = problem.seqlen_q == problem.seqlen_k
    shape = problem.text.replace(f"M=N={problem.seqlen_q} " if alike else f" N={problem.seqlen_k}", "")
    how = "simulated attention, NCCL's collectives, and the host ahead"
    lines = [f"{shape} on GPUs of one host, {sharing.device_name} ({sharing.device.name}): {how}"]
    best = {(it.seqlen, it.gpus): sharing.best(it.seqlen, it.gpus) for it in rows}
    columns = [
        Column(title="N", cells=[f"{it.seqlen:,}" for it in rows]),
        Column(title="GPUs", cells=[str(it.gpus) for it in rows]),
        Column(title="way", cells=[it.way for it in rows], left=True),
        Column(title="time", cells=[units.duration(it.time_s) if it.step else "-" for it in rows]),
        Column(title="vs best", cells=[_against(it, best[it.seqlen, it.gpus]) for it in rows]),
        Column(title="communication", cells=[_of(it, "communication_s") for it in rows], rank=1),
        Column(title="exposed", cells=[_of(it, "exposed_s") for it in rows]),
        *(
            Column(
                title=title,
                cells=[units.traffic(getattr(it.step, name)) if it.step else "-" for it in rows],
                rank=rank,
            )
            for title, name, rank in (("links", "link_bytes", 0), ("HBM", "hbm_bytes", 2), ("L2", "l2_bytes", 3))
        ),
        Column(title="memory", cells=[units.capacity(it.step.peak_bytes) if it.step else "-" for it in rows]),
    ]
    left_out = [f"Left out: {text}" for text in dict.fromkeys(_left_out(it) for it in rows if it.reason)]
    left_out += [f"Left out: schedule {name}: {reason}" for name, reason in sharing.left_out.items()]
    said = [_verdict(sharing, gpus) for gpus in dict.fromkeys(it.gpus for it in rows if it.gpus > 1)]
    lines = [*wrapped([*lines, *sharing.notes], width), "", table(columns, width, color)]
    return "\n".join([*lines, *wrapped([*said, *left_out], width)])


def _against(shared: Shared, best: Shared | None) -> str:
    return times(shared.time_s / best.time_s) if best and shared.step else "-"


def _of(shared: Shared, name: str) -> str:
    """A part of its time, and its share."""
    if shared.step is None:
        return "-"
    part_s = getattr(shared.step.timeline, name)
    return f"{units.duration(part_s)} {percent(part_s / shared.time_s):>5}"


def _left_out(shared: Shared) -> str:
    where = f"N = {shared.seqlen:,}, " if shared.reason.startswith("out of memory") else ""
    return f"{where}{shared.way} on {plural(shared.gpus, 'GPU')}: {shared.reason}"


def _verdict(sharing: Sharing, gpus: int) -> str:
    """Which way is fastest, from which length on."""
    lengths = dict.fromkeys(it.seqlen for it in sharing.shared)
    best = [it for seqlen in lengths if (it := sharing.best(seqlen, gpus))]
    if not best:
        return f"Fastest on {gpus} GPUs: none runs"
    changes = [best[0], *(after for before, after in pairwise(best) if before.way != after.way)]
    words = [f"{it.way} from N = {it.seqlen:,} on" if len(changes) > 1 else it.way for it in changes]
    alone = [(it, sharing.best(it.seqlen, 1)) for it in best]
    gains = [f"{times(single.time_s / it.time_s)} of one GPU at {it.seqlen:,}" for it, single in alone[-1:] if single]
    return "; ".join([f"Fastest on {gpus} GPUs: {', '.join(words)}", *gains])
