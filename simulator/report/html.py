"""An exploration as one HTML file that opens offline: why the best is best, pictures, and all rows in a table."""

from collections import Counter
from html import escape

from .. import units
from ..display.render import bound_text, percent, times
from ..explore.candidate import Candidate
from ..explore.explore import Exploration
from ..schedules.registry import all_options
from .explore import band_lines, band_text, left_out_lines, rate_text, varying_options, why_lines
from .figures import figures
from .page import Made, cell, items, page, table

FIT, REASON = "K, V in L2", "why it does not fit"
FIGURES = (
    "time",
    "vs best",
    "band",
    "~",
    "TFLOP/s",
    "SRAM fill",
    "L2 read",
    "L2 hits",
    "HBM",
    FIT,
    "CTAs/SM",
    "occupancy",
    "registers",
    "spill",
    "smem/CTA",
    "bound by",
    "cycles from",
    "Pareto",
)
"""Columns of the table behind those of the configuration."""
COST_TEXTS = {"compiled": "machine code", "tiles": "estimates from tiles"}
"""Where the cycles of a step come from, in words."""


def explore_html(exploration: Exploration, made: Made) -> str:
    """The page. Args: made: what its foot tells. Returns: the text of an HTML file."""
    title = f"{exploration.problem.text} on {exploration.device.name}"
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="muted">{exploration.count_text}. Predicted by Tilesight, without a GPU.</p>',
        _why(exploration),
        *figures(exploration),
        _table(exploration),
        _notes(exploration),
    ]
    facts = [
        ("device", f"{exploration.device_name} ({exploration.device.name})"),
        ("cycles from", _sources(exploration)),
    ]
    return page(f"Tilesight: {title}", sections, made, facts)


def _why(exploration: Exploration) -> str:
    if not exploration.ranked:
        return f"<h2>Nothing fits</h2>{items(left_out_lines(exploration))}"
    first, *others = (line.strip() for line in why_lines(exploration) if line)
    reasons = [line.removeprefix("- ").removeprefix("! ") for line in others]
    return f"<h2>{escape(first)}</h2>{items(reasons)}"


def _notes(exploration: Exploration) -> str:
    """What the terminal tells under its table; what a page says of nothing that fits stands above."""
    left_out: list[str] = []
    for line in left_out_lines(exploration) if exploration.ranked else ():
        counted = " ".join(line.split())
        if line.startswith(" "):  # of the line before, which the terminal lists below it
            left_out[-1] += f"{'' if left_out[-1].endswith(':') else ';'} {counted}"
        else:
            left_out.append(counted)
    lines = [*band_lines(exploration), *left_out, *exploration.notes]
    return f"<h2>Notes</h2>{items(lines)}" if lines else ""


def _sources(exploration: Exploration) -> str:
    """Of how many configurations the cycles come from machine code, and of how many from estimates."""
    counted = Counter(text for item in exploration.ranked for text in _costs(item))
    return (
        "; ".join(f"{text} ({count} of {len(exploration.ranked)})" for text, count in counted.items()) or "nothing fits"
    )


def _costs(item: Candidate) -> list[str]:
    """Where the cycles of a candidate's launches come from, each source once."""
    launches = item.prediction.launches if item.prediction else ()
    return list(dict.fromkeys(COST_TEXTS[launch.cost.split(":")[0]] for launch in launches))


def _table(exploration: Exploration) -> str:
    options = [name for name in all_options() if name in varying_options(exploration)]
    misfits = len(exploration.ranked) < len(exploration.candidates)
    heads = ["#", "schedule", *(all_options()[name].title for name in options), *FIGURES]
    heads += [REASON] if misfits else []
    words = {option.title for option in all_options().values() if not option.is_number}
    left = {"schedule", FIT, "bound by", "cycles from", REASON, *words}
    rows = [_row(exploration, rank, item, options, misfits) for rank, item in enumerate(exploration.candidates, 1)]
    kinds = ["pareto" if item.pareto else "" if item.fits else "misfit" for item in exploration.candidates]
    return (
        "<h2>All configurations</h2><p>Click a heading to sort. A blue edge marks what is Pareto-optimal"
        f" ({kinds.count('pareto')} of {len(exploration.ranked)}): no other configuration is better in time, SRAM fill"
        f" and HBM bytes together.</p>{table(heads, rows, tuple(left), kinds)}"
    )


def _row(exploration: Exploration, rank: int, item: Candidate, options: list[str], misfits: bool) -> list[str]:
    cells = [cell(str(rank)), cell(item.schedule, kind="left")]
    for name in options:
        cells.append(cell(str(item.config_dict().get(name, "")), kind="" if all_options()[name].is_number else "left"))
    if item.prediction is None:
        cells += [cell("")] * len(FIGURES)
    else:
        total, launch = item.prediction.total, item.prediction.longest_launch
        best_s = exploration.ranked[0].costs[0] if exploration.ranked else total.time_s
        rate = rate_text(total.matmul_flop_per_s) if total.matmul_flop else ""
        cells += [
            cell(units.duration(total.time_s), total.time_s),
            cell(times(total.time_s / best_s), total.time_s),
            cell(band_text(item), total.time_s),
            cell("~" if item.like_best else ""),
            cell(rate, total.matmul_flop_per_s if rate else None),
            cell(units.traffic(total.smem_fill_bytes), total.smem_fill_bytes),
            cell(units.traffic(total.l2_read_bytes), total.l2_read_bytes),
            cell(percent(total.l2_hit_fraction), total.l2_hit_fraction),
            cell(units.traffic(total.hbm_bytes), total.hbm_bytes),
            cell(item.prediction.l2_fit, kind="left"),
            cell(str(launch.ctas_per_sm)),
            cell(percent(launch.occupancy_fraction), launch.occupancy_fraction),
            cell(str(launch.registers_per_thread)),
            cell(f"{item.prediction.spilled_bytes_per_thread} B", item.prediction.spilled_bytes_per_thread),
            cell(units.capacity(launch.smem_bytes_per_cta), launch.smem_bytes_per_cta),
            cell(bound_text(item.prediction), kind="left"),
            cell(" and ".join(_costs(item)), kind="left"),
            cell("yes" if item.pareto else ""),
        ]
    return [*cells, cell(item.reason, kind="left wide")] if misfits else cells
