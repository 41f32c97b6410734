"""An exploration as one HTML file that opens offline: why the best is best, pictures, and a table to sort."""

from html import escape

from . import units
from .candidate import Candidate
from .explore import Exploration
from .report import bound_text, percent, problem_text, times
from .report_explore import (
    TITLES,
    WORDS,
    band_lines,
    band_text,
    left_out_lines,
    rate_text,
    short_text,
    varying_options,
    why_lines,
)
from .report_figures import figures

STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 1280px; padding: 32px 28px 64px; background: #fff; color: #1f2328;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 40px 0 8px; }
p { margin: 0 0 12px; max-width: 860px; } .muted { color: #57606a; }
ul { margin: 0 0 12px; padding-left: 20px; max-width: 980px; }
.row { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 12px 28px; }
@media (max-width: 900px) { .row { grid-template-columns: minmax(0, 1fr); } }
.scroll { max-height: 640px; overflow: auto; border: 1px solid #d8dee4; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th { position: sticky; top: 0; background: #f6f8fa; text-align: right; padding: 6px 8px; cursor: pointer;
  white-space: nowrap; border-bottom: 1px solid #d8dee4; user-select: none; }
th[aria-sort=ascending]::after { content: " \\25B2"; } th[aria-sort=descending]::after { content: " \\25BC"; }
td { text-align: right; padding: 4px 8px; white-space: nowrap; border-bottom: 1px solid #eef1f4; }
.left { text-align: left; } tr.misfit td { color: #8c959f; } td.reason { white-space: normal; min-width: 260px; }
tr.pareto td:first-child { box-shadow: inset 3px 0 #0072B2; }
"""

FIT = "K, V in L2"
FIGURES = (
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
    "Pareto",
)
"""Columns of the table behind those of time."""

SORT = """
document.querySelectorAll("table").forEach(table => table.querySelectorAll("th").forEach((head, column) => {
  const sort = () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = table.querySelector("tbody");
    const key = row => row.cells[column].dataset.key ?? row.cells[column].textContent;
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return up ? order : -order;
    });
    body.append(...rows);
  };
  head.tabIndex = 0;
  head.addEventListener("click", sort);
  head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
}));
"""


def explore_html(found: Exploration) -> str:
    """The page, with plotly's code inside. Returns: the text of an HTML file."""
    from plotly.offline import get_plotlyjs

    title = f"{problem_text(found.problem)} on {found.device.name}"
    return "\n".join(
        (
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Tilesight: {escape(title)}</title>",
            f"<style>{STYLE}</style>",
            f"<script>{get_plotlyjs()}</script></head><body>",
            f"<h1>{escape(title)}</h1>",
            f'<p class="muted">{len(found.candidates)} configurations simulated, {len(found.ranked)} fit.'
            " Predicted by Tilesight, without a GPU.</p>",
            _why(found),
            *([f"<h2>Notes</h2>{_items(list(found.notes))}"] if found.notes else []),
            *figures(found),
            _table(found),
            _left_out(found),
            f"<script>{SORT}</script></body></html>\n",
        )
    )


def _why(found: Exploration) -> str:
    if not found.ranked:
        return f"<h2>Nothing fits</h2>{_items(left_out_lines(found))}"
    first, *others = (line.strip() for line in why_lines(found) if line)
    reasons = [line.removeprefix("- ") for line in others]
    bands = "".join(f"<p>{escape(line)}</p>" for line in band_lines(found))
    return f"<h2>{escape(first.removesuffix(', because'))}</h2><p>Because:</p>{_items(reasons)}{bands}"


def _left_out(found: Exploration) -> str:
    lines = left_out_lines(found) if found.ranked else []
    return f"<h2>What was left out</h2>{_items([line.strip() for line in lines])}" if lines else ""


def _items(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _cell(text: str, key: object = None, classes: str = "") -> str:
    sort_key = "" if key is None else f' data-key="{escape(str(key))}"'
    return f"<td{sort_key}{classes and f' class={chr(34)}{classes}{chr(34)}'}>{escape(text)}</td>"


def _table(found: Exploration) -> str:
    options = [name for name in TITLES if name in varying_options(found)]
    heads = ["#", "schedule", *(TITLES[name] for name in options), "time", "vs best", *_bands(found), *FIGURES]
    if len(found.ranked) < len(found.candidates):
        heads.append("why it does not fit")
    left = {"schedule", FIT, "bound by", "why it does not fit", *(TITLES[name] for name in WORDS)}
    head = "".join(f'<th scope="col"{" class=left" if name in left else ""}>{escape(name)}</th>' for name in heads)
    rows = "\n".join(_row(found, rank, item, options) for rank, item in enumerate(found.candidates, 1))
    return (
        "<h2>All configurations</h2><p>Click a heading to sort. A blue edge marks the Pareto front: no other"
        " configuration is better in time, SRAM fill and HBM bytes together.</p>"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>'
    )


def _bands(found: Exploration) -> tuple[str, ...]:
    """Columns on how sure a time is, where that is known."""
    return ("band", "~") if any(item.band_s for item in found.candidates) else ()


def _row(found: Exploration, rank: int, item: Candidate, options: list[str]) -> str:
    cells = [_cell(str(rank)), _cell(item.schedule, classes="left")]
    for name in options:
        cells.append(_cell(str(item.config_dict().get(name, "")), classes="left" if name in WORDS else ""))
    if item.prediction is None:
        cells += [_cell("")] * (2 + len(_bands(found)) + len(FIGURES))
    else:
        total, launch = item.prediction.total, item.prediction.longest_launch
        best_s = found.ranked[0].costs[0] if found.ranked else total.time_s
        cells += [
            _cell(units.duration(total.time_s), total.time_s),
            _cell(times(total.time_s / best_s), total.time_s),
            *[_cell(band_text(item), item.costs[0]), _cell("~" if item.like_best else "")][: len(_bands(found))],
            _cell(rate_text(total.matmul_flop_per_s), total.matmul_flop_per_s),
            _cell(units.traffic(total.smem_fill_bytes), total.smem_fill_bytes),
            _cell(units.traffic(total.l2_read_bytes), total.l2_read_bytes),
            _cell(percent(total.l2_hit_fraction), total.l2_hit_fraction),
            _cell(units.traffic(total.hbm_bytes), total.hbm_bytes),
            _cell(item.prediction.l2_fit, classes="left"),
            _cell(str(launch.ctas_per_sm)),
            _cell(percent(launch.occupancy_fraction), launch.occupancy_fraction),
            _cell(str(launch.registers_per_thread)),
            _cell(f"{item.prediction.spilled_bytes_per_thread} B", item.prediction.spilled_bytes_per_thread),
            _cell(units.capacity(launch.smem_bytes_per_cta), launch.smem_bytes_per_cta),
            _cell(bound_text(item.prediction), classes="left"),
            _cell("yes" if item.pareto else ""),
        ]
    if len(found.ranked) < len(found.candidates):
        cells.append(_cell(item.reason, classes="left reason"))
    kind = "pareto" if item.pareto else "" if item.fits else "misfit"
    return f'<tr class="{kind}" title="{escape(short_text(found, item))}">{"".join(cells)}</tr>'
