"""`tilesight validate`: run the kernels that were simulated, and hold what was measured against what was predicted."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..given import Given, given, made, refuse_unread
from ..gpu import DOCTOR, MeasureOptions, Named, compiler, device_named, need_gpu
from ..groups import Group, argument, flag, option, spread
from ..kernels import TARGET
from ..limit import LimitOptions, WorkersOptions
from ..output import PAGE, BadInput, announce_compiler, answer, bad_input, progress, say, text_color, text_width
from ..parse import read_option
from ..points import PointsOptions
from ..validating import TABLE_OPTIONS, TableOptions, validate_function, validate_table

if TYPE_CHECKING:
    from ...validate.compare.campaign import Validation
    from ...validate.measure.results_file import Header, Row
    from ...validate.points.point import Point


READ_OPTIONS = {
    *("--read", "--schedule", "--config", "--only", "--device", "--set", "--fail-on"),
    *("--json", "--json-file", "--html", "--page", "--workers"),
}
"""Options that are read with `--read`."""
TARGET_OPTIONS = {
    *("--device", "--set", "--l2", "--no-counters", "--results", "--read", "--time-limit", "--json", "--json-file"),
}
"""Options that are read with FILE.py:FUNCTION."""


class ValidateOptions(Group):
    """What is run in place of points, and what is printed and written."""

    target: str | None = argument(*TARGET, default=None)
    fail_on: str | None = option(None, "Exit 1 where an error is larger: hbm_read_bytes=0.1,time=0.2", "NAME=SIZE,...")
    json: bool = flag("Print JSON, not tables.")
    json_file: Path | None = option(None, "Also write JSON.", "FILE")
    html: Path | None = option(None, PAGE, "FILE")
    page: Path | None = option(None, "Write the tables as a Markdown page.", "FILE.md")


@spread
def validate(
    context: typer.Context,
    *,
    points: PointsOptions,
    how: MeasureOptions,
    asked: ValidateOptions,
    chosen: TableOptions,
    workers: WorkersOptions,
    limit: LimitOptions,
) -> None:
    """Run the Triton kernels on this GPU and print predicted beside measured: bytes, cycles, clock, time.

    With FILE.py:FUNCTION the kernels that it launches are run, each by itself, on tensors with data.
    The default set takes less than five minutes. Without ncu, or the permission to use it, only times are compared.
    """
    limits, typed = limits_given(asked.fail_on), given(context)
    if asked.target is not None:
        refuse_unread(typed, sorted(set(typed) - TARGET_OPTIONS), f"with {asked.target}")
        if how.read:
            refuse_unread(typed, ["--l2", "--results", "--no-counters"], "with --read")
        validate_function(asked.target, points.l2, how, limit, asked)
        return
    if chosen.table is not None:
        refuse_unread(typed, sorted(set(typed) - TABLE_OPTIONS), "with --table")
        validate_table(chosen, points, how, asked)
        return
    refuse_unread(typed, ["--kind", "--sample", "--part"], "without --table")
    refuse_what_does_not_go_together(typed)
    refuse_unread(typed, ["--time-limit"], "without FILE.py:FUNCTION")
    if how.read:
        header, rows, notes = rows_of(how.read)
        device = device_named(how.device or header.device, how.set_)
        left = set(points.selected([row.point for row in rows]))
        rows = [row for row in rows if row.point in left]
    else:
        device = device_named(how.device, how.set_)
        wanted, notes = points.points(device.device)
        header, rows = measured(wanted, device, how, workers.processes)
    validation = compared(header, rows, device, workers.processes, notes)
    tell(context, validation, asked, how.read or how.results)
    if how.results:
        say(f"wrote {how.results}")
    judge(validation, limits)


def refuse_what_does_not_go_together(typed: Given) -> None:
    """Raises: BadInput: an option that another one makes void."""
    if "--read" in typed:
        refuse_unread(typed, sorted(set(typed) - READ_OPTIONS), "with --read")
    if "--schedule" in typed:
        refuse_unread(typed, ["--pass"], "with --schedule, which says it")
    if "--problem" in typed and "--full" in typed:
        raise BadInput("--problem and --full: do not go together; give one")
    if "--full" not in typed:
        refuse_unread(typed, ["--seed", "--draw"], "without --full, whose points are drawn")


def limits_given(text: str | None) -> dict[str, float]:
    """What `--fail-on` says: quantity -> largest size of its error. Raises: BadInput: a name or size is not allowed."""
    from ...validate.compare.compare import QUANTITIES

    short = {name.removesuffix("_bytes").removesuffix("_hz").removesuffix("_s"): name for name in QUANTITIES}
    limits = {}
    for part in (text or "").split(",") if text is not None else []:
        key, _, value = (side.strip() for side in part.partition("="))
        name = key if key in QUANTITIES else short.get(key)
        if name is None:
            raise BadInput(f"--fail-on {part!r}: must be NAME=SIZE with a name of {', '.join(QUANTITIES)}")
        try:
            limits[name] = float(value)
        except ValueError:
            raise BadInput(f"--fail-on {part!r}: the size must be a number, e.g. 0.1 for 10 %") from None
        if not limits[name] >= 0:
            raise BadInput(f"--fail-on {part!r}: the size must be 0 or more")
    return limits


def rows_of(path: Path) -> tuple["Header", list["Row"], tuple[str, ...]]:
    """Header and rows of a results file, and what is left out of them. Raises: BadInput: it holds none."""
    from ...validate.measure.results_file import cut_line, read_results

    header, rows = read_option("--read", path, read_results, named=True)
    cut = cut_line(path)
    if header is None or not rows:
        raise BadInput(f"--read {str(path)!r}: holds no results")
    if cut is None:
        return header, rows, ()
    note = (
        f"{path}: line {cut} is cut off, as by a run that was stopped, and is left out; "
        f"`tilesight validate --results {path}` measures its point again"
    )
    say(note)
    return header, rows, (note,)


def measured(
    points: Sequence["Point"], device: Named, how: MeasureOptions, workers: int
) -> tuple["Header", list["Row"]]:
    """Measure points on this machine's GPUs. Raises: BadInput: it cannot be done here."""
    need_gpu()
    from ...simulator.jobs.processes import WorkerDied
    from ...validate.compare.campaign import measure_points
    from ...validate.measure.gpus import chosen_gpus, open_sessions, visible_gpus
    from ...validate.measure.results_file import Header, appending

    with bad_input("gpus"):
        chosen = chosen_gpus(how.gpus, visible_gpus())
    try:
        sessions, machine = open_sessions(chosen, device.device, device.job, not how.no_counters)
    except WorkerDied as death:
        raise BadInput(f"{death}; {DOCTOR}") from None
    header = Header(machine=machine, device=device.name)
    with ExitStack() as stack:
        for session in sessions:
            stack.callback(session.close)
        known: list[Row] = []
        dropped: list[Row] = []
        keep: Callable[[Row], None] = dropped.append
        if how.results:
            with bad_input(before="--results "):
                known, keep = stack.enter_context(appending(how.results, header))
            if known:
                say(f"{how.results} holds {len(known)} rows already; what is in it is not measured again")
        tick = stack.enter_context(progress("points"))
        compiled = compiler(device.device, workers)
        return header, measure_points(points, device.device, sessions, compiled, known=known, keep=keep, progress=tick)


def compared(
    header: "Header", rows: Sequence["Row"], device: Named, workers: int, notes: tuple[str, ...]
) -> "Validation":
    """Predict what was measured, and hold both against each other."""
    from ...validate.compare.campaign import Validation, compare_rows
    from ...validate.compare.recompile import with_code

    with progress("kernels compiled") as tick:
        rows, remark = with_code(rows, device.device, header.machine.triton, tick)
    announce_compiler()
    with progress("predictions") as tick:
        comparisons = compare_rows(rows, device.device, workers=workers, progress=tick)
    notes = (*device.notes, *notes, remark)
    return Validation(header=header, device=device.device, comparisons=comparisons, notes=notes)


def tell(context: typer.Context, validation: "Validation", asked: ValidateOptions, measurements: Path | None) -> None:
    """Print the tables, or JSON; write the files.

    Args:
        context: of the command.
        validation: what is told.
        asked: which files are written.
        measurements: the file that holds them.
    """
    from ...validate.report.page import page_text
    from ...validate.report.text import validate_text

    def html() -> str:
        from ...validate.report.html import validate_html  # loads matplotlib

        return validate_html(validation, made(context))

    answer(
        asked,
        lambda: validate_text(validation, text_width(), text_color()),
        validation.to_dict,
        html=html,
        page=lambda: page_text(validation, measurements),
    )


def judge(validation: "Validation", limits: dict[str, float]) -> None:
    """Exit code 1 where a limit is broken, or nothing could be compared."""
    from ...validate.compare.verdict import failures

    broken = failures(validation.comparisons, limits)
    for line in broken:
        say(f"--fail-on: {line}")
    if broken or not validation.trusted:
        raise typer.Exit(1)
