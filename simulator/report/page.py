"""A report as one HTML file that opens offline: the frame of the page, tables that sort, and text that is escaped."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from math import isfinite
from time import time

from ..display.columns import Column

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2328; --muted: #57606a; --edge: #8c959f; --line: #dfe3e8;
  --empty: #f0f2f4; --head: #f6f8fa; --good: #1a7f37; --bad: #b42318; --accent: #0072b2; --hot: #e69f00; }
@media (prefers-color-scheme: dark) { :root { --paper: #0d1117; --ink: #e6edf3; --muted: #9da7b3; --edge: #6e7681;
  --line: #30363d; --empty: #1c2128; --head: #161b22; --good: #3fb950; --bad: #ff7b72; --accent: #58a6ff;
  --hot: #c77700; } }
body { margin: 0 auto; max-width: 1320px; padding: 32px 28px 64px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 4px; } h2 { font-size: 18px; margin: 40px 0 8px; }
h1, h2, h3, p, li, dd { overflow-wrap: anywhere; } p { margin: 0 0 12px; max-width: 860px; }
.muted, footer { color: var(--muted); }
ul, ol { margin: 0 0 12px; padding-left: 20px; max-width: 980px; } ol { font-size: 12px; }
footer { margin-top: 48px; border-top: 1px solid var(--line); padding-top: 12px; font-size: 13px; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 2px 16px; margin: 0; }
dd { margin: 0; } pre { margin: 12px; }
img.wide { display: block; width: 100%; min-width: 700px; }
code, pre { font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace; }
.row { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px 28px;
  margin-bottom: 16px; }
.picture { overflow-x: auto; }
.picture svg { display: block; width: 100%; min-width: 360px; max-width: 760px; height: auto; }
.row > .picture:only-child { grid-column: 1 / -1; } .row > .picture:only-child svg { max-width: none; }
.picture text { pointer-events: none; }
[data-tip]:hover { filter: brightness(1.15); stroke: var(--ink) !important; stroke-width: 1.2px; }
#tip { position: fixed; z-index: 2; display: none; max-width: min(360px, 90vw); padding: 6px 10px; font-size: 13px;
  white-space: pre-line; pointer-events: none; background: var(--paper); border: 1px solid var(--edge);
  border-radius: 6px; box-shadow: 0 2px 8px #0004; }
#tip::first-line { font-weight: 600; }
.scroll { max-height: 640px; overflow: auto; border: 1px solid var(--line); border-radius: 6px; margin-bottom: 12px; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: 13px;
  font-variant-numeric: tabular-nums; }
th { position: sticky; top: 0; background: var(--head); text-align: right; padding: 6px 8px; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
td { text-align: right; padding: 4px 8px; white-space: nowrap; border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; } tbody tr:hover td { background: var(--head); }
.sorts th { cursor: pointer; user-select: none; }
th[aria-sort=ascending]::after { content: " \\25B2"; } th[aria-sort=descending]::after { content: " \\25BC"; }
.left { text-align: left; } tr.misfit td { color: var(--muted); }
td.edited, td.added, td.gone { font-weight: 600; box-shadow: inset 3px 0 currentcolor; }
td.edited { color: var(--accent); } td.added, .fewer { color: var(--good); } td.gone, .more { color: var(--bad); }
.fewer, .more { font-weight: 600; } .beside .scroll { max-height: 1300px; } tr.filler td { background: var(--empty); }
details { margin: 12px 0; } summary { cursor: pointer; } summary h3 { display: inline; }
td.wide { white-space: normal; min-width: 420px; overflow-wrap: anywhere; }
tr.pareto td:first-child { box-shadow: inset 3px 0 var(--accent); }
td code { display: block; max-width: 820px; overflow: hidden; text-overflow: ellipsis; white-space: pre; }
td.heat { background: color-mix(in srgb, var(--hot) calc(10% + .75 * var(--heat)), transparent); }
h3 { font-size: 15px; margin: 4px 0; } select { max-width: 100%; margin: 8px 0; font: inherit; }
.bar { display: flex; align-items: center; gap: 6px; height: 19px; margin-right: 70px; font-size: 12px;
  white-space: nowrap; }
.bar i { height: 15px; min-width: 1px; } .bar span { width: 0; }
.missed { color: var(--bad); font-weight: 600; } .good { color: var(--good); }
@media (max-width: 900px) { .row { grid-template-columns: minmax(0, 1fr); } body { padding: 20px 14px 40px; }
  h1 { font-size: 21px; } tr.filler { display: none; }
  dl { grid-template-columns: minmax(0, 1fr); } dd { margin-bottom: 6px; } }
@media print { .scroll { max-height: none; } }
"""

SCRIPT = """
document.querySelectorAll("table.sorts").forEach(table => table.querySelectorAll("th").forEach((head, column) => {
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
document.querySelectorAll(".beside").forEach(row => {
  const boxes = row.querySelectorAll(".scroll");
  boxes.forEach(box => box.addEventListener("scroll", () => boxes.forEach(other => other.scrollTop = box.scrollTop)));
});
const tip = document.getElementById("tip");
document.addEventListener("pointermove", event => {
  const mark = event.target.closest?.("[data-tip]");
  tip.style.display = mark ? "block" : "none";
  if (!mark) return;
  tip.textContent = mark.dataset.tip;
  const right = document.documentElement.clientWidth - tip.offsetWidth - 4;
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, right)) + "px";
  const above = event.clientY + 18 + tip.offsetHeight > window.innerHeight;
  tip.style.top = (above ? event.clientY - tip.offsetHeight - 12 : event.clientY + 18) + "px";
});
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What made a report.

    Args:
        command: the command line, quoted for a shell; version: Tilesight's; date: in UTC, as ISO 8601 writes it.
    """

    command: str
    version: str
    date: str


def made_now(command: str) -> Made:
    """What makes a report now; or at the time that SOURCE_DATE_EPOCH tells, as of builds [s]."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(epoch) if epoch.isdecimal() else int(time()), UTC)
    return Made(command=command, version=version("tilesight"), date=now.isoformat())


def page(title: str, sections: Iterable[str], made: Made, facts: Sequence[tuple[str, str]]) -> str:
    """The page. Args: title: text; sections: HTML; facts: what to know of the figures, name and text, for the foot."""
    foot = [*facts, ("version", f"Tilesight {made.version}"), ("date", made.date)]
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in foot)
    return "\n".join(
        (
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style></head><body>",
            *(section for section in sections if section),
            f"<footer><dl><dt>command</dt><dd><code>{escape(made.command)}</code></dd>{rows}</dl></footer>",
            f'<div id="tip" role="status"></div><script>{SCRIPT}</script></body></html>\n',
        )
    )


def items(lines: Sequence[str]) -> str:
    """Lines of text as a list; nothing where there are none."""
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>" if lines else ""


def cell(text: str, key: float | None = None, kind: str = "") -> str:
    """A cell of a table. Args: key: what it sorts by in place of its text; kind: classes of the style sheet."""
    sort_key = "" if key is None or not isfinite(key) else f' data-key="{key:.7g}"'
    return f"<td{sort_key}{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{escape(text)}</td>"


def table_of(columns: Sequence[Column], kinds: Sequence[str] = ()) -> str:
    """Columns as a table of the page. Args: kinds: classes of the rows, if any."""
    rows = zip(*map(_cells, columns), strict=True)
    left = tuple(column.title for column in columns if column.left)
    return table([column.title for column in columns], list(rows), left, kinds)


def _cells(column: Column) -> list[str]:
    keys = column.keys or [None] * len(column.cells)
    kinds = column.kinds or [""] * len(column.cells)
    kinds = [f"left {kind}".strip() if column.left else kind for kind in kinds]
    return [cell(text, key, kind) for text, key, kind in zip(column.cells, keys, kinds, strict=True)]


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Sequence[str] = (),
    kinds: Sequence[str] = (),
    sorts: bool = True,
) -> str:
    """A table in a box of its own.

    Args:
        heads: texts; rows: finished cells; left: headings of columns of words; kinds: classes of the rows, if any.
        sorts: whether it does by its headings.
    """
    head = "".join(f'<th scope="col"{" class=left" if name in left else ""}>{escape(name)}</th>' for name in heads)
    lines = []
    for kind, row in zip(kinds or [""] * len(rows), rows, strict=True):
        lines.append(f"<tr{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{''.join(row)}</tr>")
    body, kind = "\n".join(lines), ' class="sorts"' if sorts else ""
    return f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'
