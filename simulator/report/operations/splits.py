"""Ways to share a whole model, or sequences, among GPUs, for people: parts of a step, memory, and which is best."""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise

from ... import units
from ...display.render import Column, percent, plural, table, times, wrapped
from ...explore.sharing import Shared, Sharing
from ...explore.splits import SplitAnswer, best
from ...operations.families.collectives import HOST_GPUS
from ...operations.model_step import PARTS, Split

OVER_NICS = "Over NICs communication has NCCL's latencies and the NICs' bandwidths, which was not measured"
ASSUMED = "in CUDA graphs, vendors' products and attention, NCCL's collectives beside nothing"


def whole_text(answers: Mapping[str, SplitAnswer], width: int, color: bool = False) -> str:
    """The parts of prefill and of a step of decoding on each GPU. Args: answers: one a device."""
    able = {name: answer for name, answer in answers.items() if not answer.reason}
    lines = [f"{name}: no time of the whole model: {item.reason}" for name, item in answers.items() if item.reason]
    if not able:
        return "\n".join(wrapped(lines, width))
    steps = [
        (name, words, step)
        for name, answer in able.items()
        for words, step in (("prefill", answer.prefill), ("decode", answer.decode))
    ]
    shown = [place for place, _ in enumerate(PARTS) if any(step.parts_s[place] for _, _, step in steps)]
    columns = [
        Column("device", [name for name, _, _ in steps], left=True),
        Column("step", [words for _, words, _ in steps], left=True),
        Column("time", [units.duration(step.time_s) for _, _, step in steps]),
        Column("tokens/s", [f"{step.tokens_per_s:,.0f}" for _, _, step in steps]),
        *(
            Column(PARTS[place], [units.duration(step.parts_s[place]) for _, _, step in steps], rank=1)
            for place in shown
        ),
        Column("gaps", [units.duration(step.gaps_s) for _, _, step in steps], rank=2),
    ]
    split = next(iter(able.values())).split
    lines += [OVER_NICS] if _over_nics(split) else []
    title = f"The whole model{f' on {split.gpus} GPUs ({split.text})' if split.gpus > 1 else ''}: {ASSUMED}"
    return "\n".join([*wrapped([title], width), table(columns, width, color), *wrapped(lines, width)])


def splits_text(answers: Sequence[SplitAnswer], device: str, width: int, color: bool = False) -> str:
    """Ways to share a model among GPUs of one device, and the best ones of each number of GPUs."""
    if reason := next((answer.reason for answer in answers if answer.reason), ""):
        return "\n".join(wrapped([f"{device}: ways to share are not compared: {reason}"], width))
    columns = [
        Column("GPUs", [str(answer.split.gpus) for answer in answers]),
        Column("shared by", [answer.split.text for answer in answers], left=True),
        Column("sequences, at most", [_fit(answer) for answer in answers], rank=2),
        Column("first token", [units.duration(answer.prefill.time_s) for answer in answers]),
        Column("tokens/s", [f"{answer.prefill.tokens_per_s:,.0f}" for answer in answers]),
        Column("next token", [units.duration(answer.decode.time_s) for answer in answers]),
        Column("tokens/s", [f"{answer.decode.tokens_per_s:,.0f}" for answer in answers]),
        Column("communication", [_share(answer) for answer in answers], rank=1),
    ]
    lines = []
    for gpus, group in groupby(answers, key=lambda answer: answer.split.gpus):
        best_ways = best(list(group))
        words = "; ".join(f"{what} {answer.split.text}" for what, answer in best_ways.items())
        lines.append(f"Best on {plural(gpus, 'GPU')}: {words or 'nothing fits'}")
    lines += [OVER_NICS] if any(_over_nics(answer.split) for answer in answers) else []
    batch = plural(answers[0].decode.tokens, "sequence")
    title = f"Ways to share it on {device}, {batch} in all: prefill of one in each group, a decode step of all"
    return "\n".join([*wrapped([title], width), table(columns, width, color), *wrapped(lines, width)])


def _over_nics(split: Split) -> bool:
    """Whether GPUs of several hosts share a copy."""
    return split.gpus // split.replicas > HOST_GPUS


def _fit(answer: SplitAnswer) -> str:
    if answer.sequences is None:
        return "-"
    return f"{answer.sequences:,}" + ("" if answer.fits else ": too few")


def _share(answer: SplitAnswer) -> str:
    """Of prefill, and of decode."""
    shares = (step.communication_s / step.time_s for step in (answer.prefill, answer.decode))
    return ", ".join(f"{100 * share:.0f} %" for share in shares)


def sharing_text(sharing: Sharing, width: int, color: bool = False) -> str:
    """What `tilesight compare --gpus` prints of a device."""
    problem, rows = sharing.problem, sharing.shared
    alike = problem.seqlen_q == problem.seqlen_k
    shape = problem.text.replace(f"M=N={problem.seqlen_q} " if alike else f" N={problem.seqlen_k}", "")
    how = "simulated attention, NCCL's collectives, and the host ahead"
    lines = [f"{shape} on GPUs of one host, {sharing.device_name} ({sharing.device.name}): {how}"]
    best = {(it.seqlen, it.gpus): sharing.best(it.seqlen, it.gpus) for it in rows}
    columns = [
        Column("N", [f"{it.seqlen:,}" for it in rows]),
        Column("GPUs", [str(it.gpus) for it in rows]),
        Column("way", [it.way for it in rows], left=True),
        Column("time", [units.duration(it.time_s) if it.step else "-" for it in rows]),
        Column("vs best", [_against(it, best[it.seqlen, it.gpus]) for it in rows]),
        Column("communication", [_of(it, "communication_s") for it in rows], rank=1),
        Column("exposed", [_of(it, "exposed_s") for it in rows]),
        *(
            Column(title, [units.traffic(getattr(it.step, name)) if it.step else "-" for it in rows], rank=rank)
            for title, name, rank in (("links", "link_bytes", 0), ("HBM", "hbm_bytes", 2), ("L2", "l2_bytes", 3))
        ),
        Column("memory", [units.capacity(it.step.peak_bytes) if it.step else "-" for it in rows]),
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
