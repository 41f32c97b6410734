"""`validate --checkpoint` for people: text, a picture of memory and time over length, and a page that holds both."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from operator import attrgetter
from typing import Any

from ...simulator import units
from ...simulator.display.render import Column, percent, table, times, wrapped
from ...simulator.prediction.bottleneck import largest
from ...simulator.problems.attention import MAX_SEQLEN
from ...simulator.report.page import Made, page
from ...simulator.report.series import axis_text
from ...simulator.report.series import color as color_of
from ..compare.quantities import Compared
from ..experiments.checkpoint_values import SPEEDUP_LENGTHS, Checkpoint, Grown
from ..measurement import OUT_OF_MEMORY

NO_VALUE = "-"
UNMEASURED = "Predictions only; on a machine with a GPU, torch and triton the same command also measures"


def checkpoint_text(checkpoint: Checkpoint, width: int = 120, color: bool = False) -> str:
    """What `tilesight validate --checkpoint` prints; p: predicted, m: measured, where something was."""
    lines = [_title(checkpoint), f"{_sides(checkpoint)}; warm L2, kernel times with the gap between launches", ""]
    answers = _answers(checkpoint)
    longest = max(len(name) for name, _ in answers)
    lines += [f"{name:<{longest}} {value}" for name, value in answers]
    lines += ["", "Memory and time over length", _lengths_table(checkpoint, width, color)]
    bound = ", and what it is bound by," if any(cell.causes for cell in checkpoint.tiled_cells) else ""
    lines += ["", f"Speedup of the tiled kernel{bound} over batch and length"]
    lines += [_map_table(checkpoint, width, color)]
    fitting = [cell for cell in checkpoint.cells.values() if cell.reason != OUT_OF_MEMORY]
    unpredicted = _reason_lines((cell, cell.unpredicted) for cell in fitting)
    lost = _reason_lines((cell, cell.reason) for cell in fitting)
    lines += [f"Not predicted: {line}" for line in unpredicted]
    lines += [f"Not measured: {line}" for line in (*checkpoint.notes, *lost)]
    if not checkpoint.measured:
        lines += ["", UNMEASURED + (f": {checkpoint.unmeasured}" if checkpoint.unmeasured else "")]
    return "\n".join(piece for line in lines for piece in (wrapped([line], width) if "\n" not in line else [line]))


def checkpoint_png(checkpoint: Checkpoint) -> bytes:
    """Time and memory over length, both logarithmic: quadratic against linear. Returns: a PNG file."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

    from ...simulator.report.draw import STYLE, draw_capacity, png

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(13, 5.8), layout="constrained")
        figure.suptitle(_title(checkpoint), x=0.01, ha="left", fontsize=13)
        left, right = figure.subplots(1, 2)
        # Capacities have round numbers at powers of two.
        panels: tuple[tuple[Any, int, str, str, str, Callable[[float], str]], ...] = (
            (left, 10, "Time", "time", "time_s", units.duration),
            (right, 16, "Peak device memory", "bytes held at once", "memory_bytes", units.capacity),
        )
        ticks = checkpoint.plotted
        for ax, base, title, label, field, text in panels:
            for schedule, name in _names(checkpoint).items():
                _draw(ax, [cell for cell in checkpoint.lengths if cell.schedule == schedule], name, attrgetter(field))
            ax.set_xscale("log", base=2)
            ax.set_yscale("log", base=base)
            ax.set_xticks(ticks, [f"{length:,}" for length in ticks], rotation=30, ha="right")
            ax.xaxis.set_minor_locator(NullLocator())
            ax.yaxis.set_major_formatter(FuncFormatter(lambda amount, _, text=text: axis_text(text(amount))))
            ax.yaxis.set_minor_formatter(NullFormatter())
            ax.grid(which="major")
            ax.set_xlabel("sequence length N (queries and keys)")
            ax.set_ylabel(f"{label} (logarithmic)")
            ax.set_title(f"{title} ({'lines: predicted, dots: measured' if checkpoint.measured else 'predicted'})")
            ax.legend(loc="upper left")
        capacity = checkpoint.memory_bytes.measured or checkpoint.memory_bytes.predicted
        if capacity:
            draw_capacity(right, capacity)
        return png(figure)


def checkpoint_html(checkpoint: Checkpoint, made: Made) -> str:
    """One page that opens offline: the picture and the text. Args: made: what its foot tells.

    Returns:
        The text of an HTML file.
    """
    picture = b64encode(checkpoint_png(checkpoint)).decode()
    sections = [
        f"<h1>{escape(_title(checkpoint))}</h1>",
        '<div class="scroll"><img class="wide" alt="Time and memory over length"'
        f' src="data:image/png;base64,{picture}"></div>',
        f'<div class="scroll"><pre>{escape(checkpoint_text(checkpoint, width=160))}</pre></div>',
    ]
    facts = [("device", checkpoint.gpu or checkpoint.device.name), ("figures", _sides(checkpoint))]
    return page(f"Tilesight: {_title(checkpoint)}", sections, made, facts)


def _names(checkpoint: Checkpoint) -> dict[str, str]:
    """The schedules, and what they are called."""
    standard, tiled = checkpoint.standard, checkpoint.tiled
    return {standard: f"standard attention ({standard})", tiled: f"tiled attention ({tiled})"}


def _draw(ax: Any, points: Sequence[Grown], name: str, value: Callable[[Grown], Compared]) -> None:
    """A line through what is predicted, and a dot where something was measured."""
    color = color_of(points[0].schedule.split(" + ")[0])
    line = [(cell.seqlen, value(cell).predicted) for cell in points if value(cell).predicted is not None]
    dots = [(cell.seqlen, value(cell).measured) for cell in points if value(cell).measured is not None]
    if line:
        ax.plot(*zip(*line, strict=True), color=color, lw=2, label=name)
    if dots:
        ax.plot(*zip(*dots, strict=True), ls="", marker="o", color=color, mec="white", ms=7, zorder=3)


def _title(checkpoint: Checkpoint) -> str:
    shape = checkpoint.problem.text.replace(f"M=N={checkpoint.problem.seqlen_q} ", "")
    shape += f", {checkpoint.passes}" if checkpoint.passes else ""
    return f"{shape} on {checkpoint.gpu or checkpoint.device.name}"


def _sides(checkpoint: Checkpoint) -> str:
    return "p: predicted, m: measured" if checkpoint.measured else "predicted"


def _answers(checkpoint: Checkpoint) -> list[tuple[str, str]]:
    names = _names(checkpoint)
    standard, tiled = (checkpoint.longest[name] for name in names)
    standard_name, tiled_name = names.values()
    answers = [
        ("Device memory available to a process", _both(checkpoint, checkpoint.memory_bytes, units.capacity)),
        (f"{standard_name.capitalize()} runs out of memory beyond", _both(checkpoint, standard, _length)),
        (f"Longest sequence of {tiled_name}", _both(checkpoint, tiled, _length)),
    ]
    for length in SPEEDUP_LENGTHS:
        answers.append(
            (f"Speedup at N = {length}", _both(checkpoint, checkpoint.speedup(checkpoint.problem.batch, length), times))
        )
    if checkpoint.measured:
        worst = checkpoint.worst_memory_error
        answers.append(("Worst error of peak memory", NO_VALUE if worst is None else f"{worst:.2%}"))
    return answers


def _length(length: float) -> str:
    return f"N = {length:,.0f}" + (" (the longest allowed)" if length >= MAX_SEQLEN else "")


def _both(checkpoint: Checkpoint, value: Compared, text: Callable[[float], str]) -> str:
    if not checkpoint.measured:
        return _cell(value.predicted, text)
    texts = [NO_VALUE if figure is None else text(figure) for figure in (value.predicted, value.measured)]
    error = value.relative_error
    return f"p {texts[0]}   m {texts[1]}" + ("" if error is None else f"   ({error:+.1%})")


def _lengths_table(checkpoint: Checkpoint, width: int, color: bool) -> str:
    lengths = sorted({cell.seqlen for cell in checkpoint.lengths})
    columns = [Column(title="N", cells=[f"{length:,}" for length in lengths])]
    for schedule in (checkpoint.standard, checkpoint.tiled):
        cells_by_length = {cell.seqlen: cell for cell in checkpoint.lengths if cell.schedule == schedule}
        columns += _pair(
            checkpoint,
            f"{schedule} memory",
            [cells_by_length[length].memory_bytes for length in lengths],
            units.capacity,
        )
        times_s = _pair(
            checkpoint, f"{schedule} time", [cells_by_length[length].time_s for length in lengths], units.duration
        )
        lost = [cells_by_length[length].reason == OUT_OF_MEMORY for length in lengths]
        cells = [OUT_OF_MEMORY if out else cell for out, cell in zip(lost, times_s[0].cells, strict=True)]
        columns += [replace(times_s[0], cells=cells), *times_s[1:]]
    columns += _pair(
        checkpoint, "speedup", [checkpoint.speedup(checkpoint.problem.batch, length) for length in lengths], times
    )
    return table(columns, width, color)


def _pair(
    checkpoint: Checkpoint, title: str, figures: Sequence[Compared], text: Callable[[float], str]
) -> list[Column]:
    predicted = [_cell(figure.predicted, text) for figure in figures]
    measured = [_cell(figure.measured, text) for figure in figures]
    return _beside(checkpoint, title, predicted, measured)


def _beside(checkpoint: Checkpoint, title: str, predicted: Sequence[str], measured: Sequence[str]) -> list[Column]:
    """Two columns, or that of predictions alone where nothing was measured."""
    if not checkpoint.measured:
        return [Column(title=title, cells=list(predicted))]
    return [Column(title=f"{title} p", cells=list(predicted)), Column(title="m", cells=list(measured))]


def _map_table(checkpoint: Checkpoint, width: int, color: bool) -> str:
    cells = {(cell.batch, cell.seqlen): cell for cell in checkpoint.tiled_cells}
    batches, lengths = (sorted({key[place] for key in cells}) for place in range(2))
    columns = [Column(title="N", cells=[f"{length:,}" for length in lengths])]
    for batch in batches:
        gains = [(cells[batch, length], checkpoint.speedup(batch, length)) for length in lengths]
        columns += _beside(
            checkpoint,
            f"B={batch}",
            [_gain(gain.predicted, cell.causes) for cell, gain in gains],
            [_gain(gain.measured, cell.measured_causes) for cell, gain in gains],
        )
    return table(columns, width, color)


def _gain(speedup: float | None, causes: Mapping[str, float]) -> str:
    """A speed-up and what binds the tiled kernel, e.g. `4.2x issue 95 %`."""
    bound = f" {largest(causes)} {percent(causes[largest(causes)])}" if causes else ""
    return _cell(speedup, times) + bound


def _cell(value: float | None, text: Callable[[float], str]) -> str:
    return NO_VALUE if value is None else text(value)


def _reason_lines(reasons: Iterable[tuple[Grown, str]]) -> list[str]:
    """A line for every shape that has a reason, once."""
    lines = (f"{cell.schedule} at B={cell.batch} N={cell.seqlen}: {reason}" for cell, reason in reasons if reason)
    return list(dict.fromkeys(lines))
