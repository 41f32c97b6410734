"""A ranked configuration space for people: the table, why the best is best, and what was left out."""

from collections import Counter
from collections.abc import Sequence
from math import ceil
from statistics import median

from .. import units
from ..display.render import RESOURCES, bound_text, fitting, percent, plural, table, times, wrapped
from ..explore.candidate import ERROR_FRACTIONS, Candidate, error_kinds
from ..explore.explore import Exploration
from ..explore.ranking import ranking_columns, short_text
from ..prediction.prediction import Prediction
from ..schedules.registry import find_schedule
from .simulate import roofline_text

AS_FAST = 1.02
"""Times closer than this are told as equal: the order within it is not reliable."""
MOST_CAUSES = 4
"""Causes that are named beside the one that binds."""


def explore_text(exploration: Exploration, top: int = 15, width: int = 120, color: bool = False) -> str:
    """What `tilesight explore` prints. Args: top: rows of the table; width: characters; color: whether to use bold."""
    ranked = exploration.simulated
    ranking = ["", table(ranking_columns(ranked[:top], exploration.candidates), width, color), ""] if ranked else []
    rest = [
        *([*why_lines(exploration), "", *legend_lines(exploration, ranked[:top], width)] if ranked else ()),
        *left_out_lines(exploration),
    ]
    rest += [f"Note: {note}" for note in exploration.notes_on(top)]
    return "\n".join([*wrapped([exploration.title], width), *ranking, *wrapped(rest, width)])


def band_lines(exploration: Exploration) -> list[str]:
    """What a band is, and how many cannot be told apart from the best; nothing where there are no bands."""
    like = sum(item.like_best for item in exploration.simulated)
    if not like:
        return []
    kinds = {kind for item in exploration.ranked if item.prediction for kind in error_kinds(item.prediction)}
    texts = {
        "compiled": f"{percent(ERROR_FRACTIONS['compiled'])} where cycles come from machine code",
        "tiles": f"{percent(ERROR_FRACTIONS['tiles'])} where they are estimated from tile sizes",
    }
    text = ", ".join(texts[kind] for kind in sorted(kinds))
    like_text = (
        f"~: within the error of the best ({like} of {len(exploration.simulated)}): the bands overlap; measure these."
    )
    return [f"band: time +- mean error, {text}.", like_text]


def why_lines(exploration: Exploration) -> list[str]:
    """The best configuration, and why: against the baseline, the other configurations, and the roofline."""
    best = exploration.ranked[0]
    prediction = best.prediction
    assert prediction is not None
    total, launch = prediction.total, prediction.longest_launch
    multiplies = total.matmul_flop > 0
    rate = units.rate(total.matmul_flop_per_s) if multiplies else units.bandwidth(total.hbm_bytes_per_s)
    rate = f"at most {rate}" if prediction.lower_bound else rate
    lines = [f"Best: {short_text(exploration.candidates, best)}: {prediction.time_text} ({rate})"]
    if exploration.baseline and best.schedule != exploration.baseline.schedule:
        lines.append(f"  - {_against_baseline(prediction, exploration.baseline)}")
    lines += [f"  - {text}" for text in _against_others(exploration, best)]
    resident = min(launch.ctas_per_sm, ceil(launch.waves * launch.ctas_per_sm))
    if resident > 1:
        lines.append(
            f"  - {resident} CTAs share each SM: while one waits or computes exponentials,"
            f" another {'feeds the tensor cores' if multiplies else 'loads'}"
        )
    rest = sorted(launch.causes.items(), key=lambda item: -item[1])
    text = ", ".join(f"{name} {percent(share)}" for name, share in rest[1 : 1 + MOST_CAUSES])
    lines.append(f"  - bound by {bound_text(launch)} ({RESOURCES[launch.bottleneck]}); then {text}")
    lines.append(f"  - Roofline: {roofline_text(prediction, exploration.device)}")
    if prediction.spilled_bytes_per_thread:
        lines.append(
            f"  ! it spills {prediction.spilled_bytes_per_thread} B per thread; this prediction is less certain"
        )
    return lines


def legend_lines(exploration: Exploration, rows: Sequence[Candidate], width: int) -> list[str]:
    """What the columns of a table mean, and how many are marked; nothing of one that does not fit the width."""
    titles = {column.title for column in fitting(ranking_columns(rows, exploration.candidates), width)}
    marked, simulated = sum(item.pareto for item in exploration.simulated), len(exploration.simulated)
    text = f"P: * = Pareto-optimal in time, SRAM fill and HBM bytes ({marked} of {simulated})."
    return [line for line in (text, *band_lines(exploration)) if line.partition(":")[0] in titles]


def _against_baseline(best: Prediction, baseline: Prediction) -> str:
    name, ratio = f"{baseline.schedule} {baseline.problem.KIND}", baseline.time_s / best.time_s
    name += " in its default configuration" if find_schedule(baseline.schedule).outlined else ""
    if ratio < 1:
        return f"{name} is faster still: {units.duration(baseline.time_s)}"
    hbm_bytes, baseline_bytes = best.total.hbm_bytes, baseline.total.hbm_bytes
    text = f"{'at most ' if best.lower_bound else ''}{times(ratio)} as fast as {name}"
    if not baseline.fits:
        text += ", which does not fit into device memory"
    if baseline_bytes <= 1.1 * hbm_bytes:
        return f"{text}, though both move about {units.traffic(hbm_bytes)} at HBM"
    why = ", as S and P never leave the SMs" if len(best.launches) == 1 else ""
    less = f" ({times(baseline_bytes / hbm_bytes)} less)" if hbm_bytes else ""
    return f"{text}: {units.traffic(hbm_bytes)} at HBM instead of {units.traffic(baseline_bytes)}{less}{why}"


def _against_others(exploration: Exploration, best: Candidate) -> list[str]:
    """The runner-up, and where the best one's bytes stand among the others of its schedule."""
    others = [item.prediction for item in exploration.ranked[1:] if item.prediction]
    if not others or best.prediction is None:
        return []
    total = best.prediction.total
    as_fast = sum(other.time_s < total.time_s * AS_FAST for other in others)
    if as_fast:
        beside = f"{plural(as_fast, 'other')} {'are' if as_fast > 1 else 'is'} as fast, within {percent(AS_FAST - 1)}"
    else:
        slower = others[0].time_s / total.time_s - 1
        beside = (
            f"the next, {short_text(exploration.candidates, exploration.ranked[1])}, takes {percent(slower)} longer"
        )
    least = "at least " if len(others) + 1 < len(exploration.ranked) else ""
    middle = median(item.costs[0] for item in exploration.ranked) / total.time_s
    lines = [f"{beside}; the median of all takes {least}{times(middle)}"]
    beyond = f"the next {len(others)}:" if least else "others"
    same = [other.total for other in others if other.schedule == best.schedule]
    if same:
        fill, hbm = [traffic.smem_fill_bytes for traffic in same], [traffic.hbm_bytes for traffic in same]
        lines.append(
            f"SRAM fill {units.traffic(total.smem_fill_bytes)} ({beyond} {_range(fill)}),"
            f" HBM {units.traffic(total.hbm_bytes)} ({beyond} {_range(hbm)})"
            + (f", for {units.flop(total.matmul_flop)}" if total.matmul_flop else "")
        )
    return lines


def _range(values: Sequence[int]) -> str:
    low, high = units.traffic(min(values)), units.traffic(max(values))
    return low if low == high else f"{low} to {high}"


def left_out_lines(exploration: Exploration) -> list[str]:
    """What does not fit and why, counted; and what spills."""
    lines = [f"Left out: schedule {name}: {reason}" for name, reason in exploration.left_out.items()]
    misfits = [item for item in exploration.candidates if not item.fits]
    if misfits:
        count = plural(len(exploration.candidates), "configuration")
        why = "" if any(item.is_unanswered for item in misfits) else " do not fit"
        lines.append(f"Left out: {len(misfits)} of {count}{why}:")
        kinds = Counter(item.reason.split(":")[0] for item in misfits)
        for kind, number in sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0])):
            example = next(item for item in misfits if item.reason.split(":")[0] == kind)
            lines.append(f"  {number:>4}  {kind}, e.g. {short_text(exploration.candidates, example)}: {example.reason}")
    slower = len(exploration.ranked) - len(exploration.simulated)
    if slower and exploration.simulated:
        text = f"Not simulated: {plural(slower, 'configuration')}, whose busiest pipe alone takes longer"
        lines.append(f"{text} than the last row; --csv FILE simulates all.")
    spilling = sum(bool(item.prediction and item.prediction.spilled_bytes_per_thread) for item in exploration.ranked)
    if spilling:
        lines.append(f"{plural(spilling, 'configuration')} with register spills to local memory, which cost time.")
    return lines
