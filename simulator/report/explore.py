"""A ranked configuration space for people: the table, why the best is best, and what was left out."""

from collections import Counter
from collections.abc import Sequence
from statistics import median

from .. import units
from ..closed_form.roofline import roofline
from ..display.columns import rate_text as rate_text
from ..display.render import RESOURCES, ROOFS, bound_text, flop, percent, plural, table, times, wrapped
from ..explore.candidate import ERROR_FRACTIONS, Candidate
from ..explore.explore import Exploration
from ..explore.ranking import band_text as band_text
from ..explore.ranking import options_that_vary, ranking_columns, ranking_rows
from ..explore.ranking import short_text as short_option_text
from ..prediction.prediction import Prediction

AS_FAST = 1.02
"""Times closer than this are told as equal: the order within it is not reliable."""
MOST_CAUSES = 4
"""Causes that are named beside the one that binds."""


def explore_text(found: Exploration, top: int = 15, width: int = 120, color: bool = False) -> str:
    """What `tilesight explore` prints. Args: top: rows of the table; width: characters; color: whether to use bold."""
    ranked = found.ranked
    ranking = ["", ranking_table(found, ranked[:top], width, color), ""] if ranked else []
    rest = [*([*why_lines(found), "", *legend_lines(found)] if ranked else ()), *left_out_lines(found)]
    rest += [f"Note: {note}" for note in found.notes]
    return "\n".join([*wrapped([found.title], width), *ranking, *wrapped(rest, width)])


def ranking_table(found: Exploration, shown: Sequence[Candidate], width: int, color: bool = False) -> str:
    """One row a configuration, best first; options that are the same everywhere have no column."""
    return table(ranking_columns(shown, found.candidates), width, color)


def varying_options(found: Exploration) -> list[str]:
    """Options that take more than one value over all candidates."""
    return options_that_vary(found.candidates)


def short_text(found: Exploration, item: Candidate) -> str:
    """Schedule and configuration of a candidate, without options that are the same everywhere."""
    return short_option_text(found.candidates, item)


def explore_rows(found: Exploration) -> list[dict[str, object]]:
    """All candidates as rows for CSV: device, rank, schedule, options, figures."""
    return ranking_rows(found.device_name, found.candidates)


def band_lines(found: Exploration) -> list[str]:
    """What a band is, and how many cannot be told apart from the best; nothing where there are no bands."""
    like = sum(item.like_best for item in found.ranked)
    if not like:
        return []
    kinds = {
        launch.cost.split(":")[0] for item in found.ranked if item.prediction for launch in item.prediction.launches
    }
    texts = {
        "compiled": f"{percent(ERROR_FRACTIONS['compiled'])} where cycles come from machine code",
        "tiles": f"{percent(ERROR_FRACTIONS['tiles'])} where they are estimated from tile sizes",
    }
    text = ", ".join(texts[kind] for kind in sorted(kinds))
    told = f"~: within the error of the best ({like} of {len(found.ranked)}): the bands overlap; measure these."
    return [f"band: time +- mean error, {text}.", told]


def why_lines(found: Exploration) -> list[str]:
    """The best configuration, and why: against the baseline, the other configurations, and the roofline."""
    best = found.ranked[0]
    prediction = best.prediction
    assert prediction is not None
    total, launch = prediction.total, prediction.longest_launch
    multiplies = total.matmul_flop > 0
    rate = units.rate(total.matmul_flop_per_s) if multiplies else units.bandwidth(total.hbm_bytes_per_s)
    lines = [f"Best: {short_text(found, best)}: {units.duration(total.time_s)} ({rate})"]
    if found.baseline and best.schedule != found.baseline.schedule:
        lines.append(f"  - {_against_baseline(prediction, found.baseline)}")
    lines += [f"  - {text}" for text in _against_others(found, best)]
    if launch.ctas_per_sm > 1:
        lines.append(
            f"  - {launch.ctas_per_sm} CTAs share each SM: while one waits or computes exponentials,"
            f" another {'feeds the tensor cores' if multiplies else 'loads'}"
        )
    rest = sorted(launch.causes.items(), key=lambda item: -item[1])
    text = ", ".join(f"{name} {percent(share)}" for name, share in rest[1 : 1 + MOST_CAUSES])
    lines.append(f"  - bound by {bound_text(launch)} ({RESOURCES[launch.bottleneck]}); then {text}")
    bound = roofline(found.problem, found.device)
    lines.append(
        f"  - Roofline: {units.duration(bound.bound_s)} ({ROOFS[bound.bottleneck]});"
        f" this takes {times(total.time_s / bound.bound_s)}"
    )
    if prediction.spilled_bytes_per_thread:
        lines.append(
            f"  ! it spills {prediction.spilled_bytes_per_thread} B per thread; this prediction is less certain"
        )
    return lines


def legend_lines(found: Exploration) -> list[str]:
    """What the marks of the table mean, and how many there are."""
    marked = sum(item.pareto for item in found.ranked)
    text = f"P: * = Pareto-optimal in time, SRAM fill and HBM bytes ({marked} of {len(found.ranked)})."
    return [text, *band_lines(found)]


def _against_baseline(best: Prediction, baseline: Prediction) -> str:
    name, ratio = f"{baseline.schedule} {baseline.problem.KIND}", baseline.time_s / best.time_s
    if ratio < 1:
        return f"{name} is faster still: {units.duration(baseline.time_s)}"
    own, other = best.total.hbm_bytes, baseline.total.hbm_bytes
    text = f"{times(ratio)} as fast as {name}"
    if not baseline.fits:
        text += ", which does not fit into device memory"
    if other <= 1.1 * own:
        return f"{text}, though both move about {units.traffic(own)} at HBM"
    why = ", as S and P never leave the SMs" if len(best.launches) == 1 else ""
    less = f" ({times(other / own)} less)" if own else ""
    return f"{text}: {units.traffic(own)} at HBM instead of {units.traffic(other)}{less}{why}"


def _against_others(found: Exploration, best: Candidate) -> list[str]:
    """The runner-up, and where the best one's bytes stand among the others of its schedule."""
    others = [item.prediction for item in found.ranked[1:] if item.prediction]
    if not others or best.prediction is None:
        return []
    own = best.prediction.total
    as_fast = sum(one.time_s < own.time_s * AS_FAST for one in others)
    if as_fast:
        beside = f"{plural(as_fast, 'other')} {'are' if as_fast > 1 else 'is'} as fast, within {percent(AS_FAST - 1)}"
    else:
        slower = others[0].time_s / own.time_s - 1
        beside = f"the next, {short_text(found, found.ranked[1])}, takes {percent(slower)} longer"
    middle = median(one.time_s for one in [best.prediction, *others]) / own.time_s
    lines = [f"{beside}; the median of all takes {times(middle)}"]
    same = [one.total for one in others if one.schedule == best.schedule]
    if same:
        fill, hbm = [one.smem_fill_bytes for one in same], [one.hbm_bytes for one in same]
        lines.append(
            f"SRAM fill {units.traffic(own.smem_fill_bytes)} (others {_range(fill)}),"
            f" HBM {units.traffic(own.hbm_bytes)} (others {_range(hbm)})"
            + (f", for {flop(own.matmul_flop)}" if own.matmul_flop else "")
        )
    return lines


def _range(values: Sequence[int]) -> str:
    low, high = units.traffic(min(values)), units.traffic(max(values))
    return low if low == high else f"{low} to {high}"


def left_out_lines(found: Exploration) -> list[str]:
    """What does not fit and why, counted; and what spills."""
    lines = [f"Left out: schedule {name}: {reason}" for name, reason in found.left_out.items()]
    misfits = [item for item in found.candidates if not item.fits]
    if misfits:
        lines.append(f"Left out: {len(misfits)} of {plural(len(found.candidates), 'configuration')} do not fit:")
        kinds = Counter(item.reason.split(":")[0] for item in misfits)
        for kind, number in sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0])):
            one = next(item for item in misfits if item.reason.split(":")[0] == kind)
            lines.append(f"  {number:>4}  {kind}, e.g. {short_text(found, one)}: {one.reason}")
    spilling = sum(bool(item.prediction and item.prediction.spilled_bytes_per_thread) for item in found.ranked)
    if spilling:
        lines.append(f"{plural(spilling, 'configuration')} with register spills to local memory, which cost time.")
    return lines
