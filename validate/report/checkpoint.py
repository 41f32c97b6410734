"""`validate --checkpoint` for people: text, a picture of memory and time over length, and a page that holds both."""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from ...simulator import units
from ...simulator.display.render import Column, percent, table, times, wrapped
from ...simulator.prediction.bottleneck import largest
from ...simulator.problems.attention import MAX_SEQLEN
from ...simulator.report.page import Made, page
from ...simulator.report.series import axis_text
from ...simulator.report.series import color as color_of
from ..experiments.checkpoint import OUT_OF_MEMORY
from ..experiments.checkpoint_values import SPEEDUP_LENGTHS, STANDARD, TILED, Beside, Checkpoint, Grown

NAMES = {STANDARD: f"standard attention ({STANDARD})", TILED: f"tiled attention ({TILED})"}
NO_VALUE = "-"
UNMEASURED = "Predictions only; on a machine with a GPU, torch and triton the same command also measures"


def checkpoint_text(found: Checkpoint, width: int = 120, color: bool = False) -> str:
    """What `tilesight validate --checkpoint` prints; p: predicted, m: measured, where something was."""
    lines = [_title(found), f"{_sides(found)}; warm L2, kernel times with the gap between launches", ""]
    lines += [f"{name:<58} {value}" for name, value in _answers(found)]
    lines += ["", "Memory and time over length", _lengths_table(found, width, color)]
    lines += ["", "Speedup of the tiled kernel, and what it is bound by, over batch and length"]
    lines += [_map_table(found, width, color)]
    lost = {f"{one.schedule} at B={one.batch} N={one.seqlen}: {one.reason}" for one in _all(found) if _was_lost(one)}
    lines += [f"Not measured: {line}" for line in (*found.notes, *sorted(lost))]
    if not found.measured:
        lines += ["", UNMEASURED + (f": {found.unmeasured}" if found.unmeasured else "")]
    return "\n".join(piece for line in lines for piece in (wrapped([line], width) if "\n" not in line else [line]))


def checkpoint_png(found: Checkpoint) -> bytes:
    """Time and memory over length, both logarithmic: quadratic against linear. Returns: a PNG file."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

    from ...simulator.report.draw import STYLE, draw_capacity, png

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(13, 5.8), layout="constrained")
        figure.suptitle(_title(found), x=0.01, ha="left", fontsize=13)
        panels: list[tuple[Any, str, str, Callable[[Grown], Beside], Callable[[float], str]]] = []
        left, right = figure.subplots(1, 2)
        panels.append((left, "Time", "time", lambda one: one.time_s, units.duration))
        panels.append((right, "Peak device memory", "bytes held at once", lambda one: one.memory_bytes, units.capacity))
        ticks = sorted({one.seqlen for one in found.lengths})
        for ax, title, label, value, text in panels:
            base = 16 if ax is right else 10  # capacities have round numbers at powers of two
            for schedule in (STANDARD, TILED):
                _draw(ax, [one for one in found.lengths if one.schedule == schedule], schedule, value)
            ax.set_xscale("log", base=2)
            ax.set_yscale("log", base=base)
            ax.set_xticks(ticks, [f"{length:,}" for length in ticks], rotation=30, ha="right")
            ax.xaxis.set_minor_locator(NullLocator())
            ax.yaxis.set_major_formatter(FuncFormatter(lambda amount, _, text=text: axis_text(text(amount))))
            ax.yaxis.set_minor_formatter(NullFormatter())
            ax.grid(which="major")
            ax.set_xlabel("sequence length N (queries and keys)")
            ax.set_ylabel(f"{label} (logarithmic)")
            ax.set_title(f"{title} ({'lines: predicted, dots: measured' if found.measured else 'predicted'})")
            ax.legend(loc="upper left")
        capacity = found.memory_bytes.measured or found.memory_bytes.predicted
        if capacity:
            draw_capacity(right, capacity)
        return png(figure)


def checkpoint_html(found: Checkpoint, made: Made) -> str:
    """One page that opens offline: the picture and the text. Args: made: what its foot tells.

    Returns:
        The text of an HTML file.
    """
    picture = b64encode(checkpoint_png(found)).decode()
    sections = [
        f"<h1>{escape(_title(found))}</h1>",
        '<div class="scroll"><img class="wide" alt="Time and memory over length"'
        f' src="data:image/png;base64,{picture}"></div>',
        f'<div class="scroll"><pre>{escape(checkpoint_text(found, width=160))}</pre></div>',
    ]
    facts = [("device", found.gpu or found.device.name), ("figures", _sides(found))]
    return page(f"Tilesight: {_title(found)}", sections, made, facts)


def _draw(ax: Any, points: Sequence[Grown], schedule: str, value: Callable[[Grown], Beside]) -> None:
    """A line through what is predicted, and a dot where something was measured."""
    line = [(one.seqlen, value(one).predicted) for one in points if value(one).predicted is not None]
    dots = [(one.seqlen, value(one).measured) for one in points if value(one).measured is not None]
    if line:
        ax.plot(*zip(*line, strict=True), color=color_of(schedule), lw=2, label=NAMES[schedule])
    if dots:
        ax.plot(*zip(*dots, strict=True), ls="", marker="o", color=color_of(schedule), mec="white", ms=7, zorder=3)


def _title(found: Checkpoint) -> str:
    shape = found.problem.text.replace(f"M=N={found.problem.seqlen_q} ", "")
    return f"{shape} on {found.gpu or found.device.name}"


def _sides(found: Checkpoint) -> str:
    return "p: predicted, m: measured" if found.measured else "predicted"


def _answers(found: Checkpoint) -> list[tuple[str, str]]:
    standard, tiled = found.longest[STANDARD], found.longest[TILED]
    answers = [
        ("Device memory available to a process", _both(found, found.memory_bytes, units.capacity)),
        (f"{NAMES[STANDARD].capitalize()} runs out of memory beyond", _both(found, standard, _length)),
        (f"Longest sequence of {NAMES[TILED]}", _both(found, tiled, _length)),
    ]
    for length in SPEEDUP_LENGTHS:
        answers.append((f"Speedup at N = {length}", _both(found, found.speedup(found.problem.batch, length), times)))
    if found.measured:
        worst = found.worst_memory_error
        answers.append(("Worst error of peak memory", NO_VALUE if worst is None else f"{worst:.2%}"))
    return answers


def _length(length: float) -> str:
    return f"N = {length:,.0f}" + (" (the longest allowed)" if length >= MAX_SEQLEN else "")


def _both(found: Checkpoint, value: Beside, text: Callable[[float], str]) -> str:
    if not found.measured:
        return _cell(value.predicted, text)
    told = [NO_VALUE if one is None else text(one) for one in (value.predicted, value.measured)]
    error = value.relative_error
    return f"p {told[0]}   m {told[1]}" + ("" if error is None else f"   ({error:+.1%})")


def _lengths_table(found: Checkpoint, width: int, color: bool) -> str:
    lengths = sorted({one.seqlen for one in found.lengths})
    columns = [Column(title="N", cells=[f"{length:,}" for length in lengths])]
    for schedule in (STANDARD, TILED):
        own = {one.seqlen: one for one in found.lengths if one.schedule == schedule}
        columns += _pair(found, f"{schedule} memory", [own[length].memory_bytes for length in lengths], units.capacity)
        times_s = _pair(found, f"{schedule} time", [own[length].time_s for length in lengths], units.duration)
        lost = [own[length].reason == OUT_OF_MEMORY for length in lengths]
        cells = [OUT_OF_MEMORY if out else cell for out, cell in zip(lost, times_s[0].cells, strict=True)]
        columns += [replace(times_s[0], cells=cells), *times_s[1:]]
    columns += _pair(found, "speedup", [found.speedup(found.problem.batch, length) for length in lengths], times)
    return table(columns, width, color)


def _pair(found: Checkpoint, title: str, figures: Sequence[Beside], text: Callable[[float], str]) -> list[Column]:
    cells = ([_cell(value, text) for value in values]
             for values in ([each.predicted for each in figures], [each.measured for each in figures]))  # fmt: skip
    return _beside(found, title, *cells)


def _beside(found: Checkpoint, title: str, predicted: Sequence[str], measured: Sequence[str]) -> list[Column]:
    """Two columns, or that of predictions alone where nothing was measured."""
    if not found.measured:
        return [Column(title=title, cells=list(predicted))]
    return [Column(title=f"{title} p", cells=list(predicted)), Column(title="m", cells=list(measured))]


def _map_table(found: Checkpoint, width: int, color: bool) -> str:
    cells = {(one.batch, one.seqlen): one for one in found.tiled_cells}
    batches, lengths = (sorted({key[place] for key in cells}) for place in range(2))
    columns = [Column(title="N", cells=[f"{length:,}" for length in lengths])]
    for batch in batches:
        own = [(cells[batch, length], found.speedup(batch, length)) for length in lengths]
        columns += _beside(
            found,
            f"B={batch}",
            [_gain(gain.predicted, one.causes) for one, gain in own],
            [_gain(gain.measured, one.measured_causes) for one, gain in own],
        )
    return table(columns, width, color)


def _gain(speedup: float | None, causes: Mapping[str, float]) -> str:
    """A speed-up and what binds the tiled kernel, e.g. `4.2x issue 95 %`."""
    bound = f" {largest(causes)} {percent(causes[largest(causes)])}" if causes else ""
    return _cell(speedup, times) + bound


def _cell(value: float | None, text: Callable[[float], str]) -> str:
    return NO_VALUE if value is None else text(value)


def _all(found: Checkpoint) -> tuple[Grown, ...]:
    return (*found.lengths, *found.cells)


def _was_lost(one: Grown) -> bool:
    return bool(one.reason) and one.reason != OUT_OF_MEMORY
