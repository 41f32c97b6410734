"""An exploration as one HTML file that opens offline: why the best is best, pictures, and all rows in a table."""

from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from math import inf
from operator import attrgetter

from .. import units
from ..display.columns import rate_text
from ..display.render import Column, bound_text, percent, times
from ..explore.candidate import Candidate, error_kinds
from ..explore.explore import Exploration
from ..explore.ranking import band_text, option_column, options_that_vary
from ..prediction.prediction import Prediction
from .explore import band_lines, left_out_lines, why_lines
from .figures import figures
from .page import Made, items, page, table_of

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
    return list(dict.fromkeys(COST_TEXTS[kind] for kind in (error_kinds(item.prediction) if item.prediction else ())))


def _table(exploration: Exploration) -> str:
    shown, ranked = exploration.candidates, exploration.ranked
    columns = [
        Column("#", [str(rank) for rank, _ in enumerate(shown, 1)]),
        Column("schedule", [item.schedule for item in shown], left=True),
        *(option_column(name, shown) for name in options_that_vary(shown)),
        *_figure_columns(shown, ranked[0].costs[0] if ranked else inf),
    ]
    if len(ranked) < len(shown):
        reasons = [item.reason for item in shown]
        columns.append(Column("why it does not fit", reasons, left=True, kinds=["wide"] * len(shown)))
    kinds = ["pareto" if item.pareto else "" if item.fits else "misfit" for item in shown]
    return (
        "<h2>All configurations</h2><p>Click a heading to sort. A blue edge marks what is Pareto-optimal"
        f" ({kinds.count('pareto')} of {len(ranked)}): no other configuration is better in time, SRAM fill"
        f" and HBM bytes together.</p>{table_of(columns, kinds)}"
    )


def _figure_columns(shown: Sequence[Candidate], best_s: float) -> list[Column]:
    """Every figure of configurations; nothing of those that are not predicted. Args: best_s: the best time [s]."""

    def column(
        title: str,
        text: Callable[[Candidate, Prediction], str],
        key: Callable[[Prediction], float] | None = None,
        left: bool = False,
    ) -> Column:
        cells = [text(item, item.prediction) if item.prediction else "" for item in shown]
        keys = [key(item.prediction) if item.prediction else None for item in shown] if key else ()
        return Column(title, cells, keys=keys, left=left)

    def moved(title: str, name: str) -> Column:
        bytes_of = attrgetter(f"total.{name}")
        return column(title, lambda _, made: units.traffic(bytes_of(made)), bytes_of)

    time_of, rate_of = attrgetter("total.time_s"), attrgetter("total.matmul_flop_per_s")
    hits_of, spilled_of = attrgetter("total.l2_hit_fraction"), attrgetter("spilled_bytes_per_thread")
    resident_of = attrgetter("longest_launch.occupancy_fraction")
    smem_of = attrgetter("longest_launch.smem_bytes_per_cta")
    return [
        column("time", lambda _, made: units.duration(time_of(made)), time_of),
        column("vs best", lambda _, made: times(time_of(made) / best_s), time_of),
        column("band", lambda item, _: band_text(item), time_of),
        column("~", lambda item, _: "~" if item.like_best else ""),
        column(
            "TFLOP/s",
            lambda _, made: rate_text(rate_of(made)) if rate_of(made) else "",
            lambda made: rate_of(made) or inf,
        ),
        moved("SRAM fill", "smem_fill_bytes"),
        moved("L2 read", "l2_read_bytes"),
        column("L2 hits", lambda _, made: percent(hits_of(made)), hits_of),
        moved("HBM", "hbm_bytes"),
        column("K, V in L2", lambda _, made: made.l2_fit, left=True),
        column("CTAs/SM", lambda _, made: str(made.longest_launch.ctas_per_sm)),
        column("occupancy", lambda _, made: percent(resident_of(made)), resident_of),
        column("registers", lambda _, made: str(made.longest_launch.registers_per_thread)),
        column("spill", lambda _, made: f"{spilled_of(made)} B", spilled_of),
        column("smem/CTA", lambda _, made: units.capacity(smem_of(made)), smem_of),
        column("bound by", lambda _, made: bound_text(made), left=True),
        column("cycles from", lambda item, _: " and ".join(_costs(item)), left=True),
        column("Pareto", lambda item, _: "yes" if item.pareto else ""),
    ]
