"""`tilesight validate`: run the kernels that were simulated, and hold what was measured against what was predicted."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import bench
from ..bench import Wanted
from ..functions import Measuring, validate_function
from ..given import Given, made, refuse_unread
from ..given import given as typed_options
from ..gpu import DOCTOR, Named, compiler, device_named, need_gpu
from ..kernels import TARGET
from ..limit import TimeLimit
from ..options import Workers, workers_given
from ..output import (
    BadInput,
    Output,
    announce_compiler,
    bad_input,
    progress,
    say,
    text_color,
    text_width,
)
from ..parse import flag, one_of, option
from ..points import LongSet, asked_points, selected
from ..shapes import FORWARD, PASS

if TYPE_CHECKING:
    from ...simulator.report.page import Made
    from ...validate.compare.campaign import Validation
    from ...validate.experiments.peer_rows import PeerRow
    from ...validate.measure.results_file import Header, Row
    from ...validate.points.point import Point


MODES = {
    "--checkpoint": {"--problem", "--pass", "--device", "--set", "--workers", "--json", "--json-file", "--html"},
    "--launches": {"--problem", "--device", "--set", "--workers", "--json", "--json-file"},
    "--read": {
        *("--schedule", "--config", "--only", "--device", "--set", "--fail-on"),
        *("--json", "--json-file", "--html", "--page", "--workers"),
    },
}
TARGET_OPTIONS = {
    *("--device", "--set", "--l2", "--no-counters", "--results", "--read", "--time-limit", "--json", "--json-file"),
}
"""Options that are read with FILE.py:FUNCTION."""
"""What replaces the default work -> the other options that it reads."""


def validate(
    context: typer.Context,
    target: Annotated[str | None, TARGET] = None,
    *,
    schedule: Annotated[
        list[str] | None, option("--schedule", "Only this schedule; repeatable.  [default: all of the pass]", "NAME")
    ] = None,
    pass_: PASS = None,
    problem: Annotated[
        list[str] | None,
        option(
            "--problem", "Run this problem, not the default set; repeatable: seqlen=4096, causal=true, ...", "KEY=VALUE"
        ),
    ] = None,
    config: Annotated[
        list[str] | None, option("--config", "Fix an option of the configurations; repeatable.", "KEY=VALUE")
    ] = None,
    only: Annotated[
        list[str] | None, option("--only", "Only points whose key matches (* and ?); repeatable.", "PATTERN")
    ] = None,
    full: Annotated[bool, flag("--full", "Run the long set: hundreds of points.")] = False,
    seed: Annotated[int, option("--seed", "Seed of the long set.")] = 0,
    draw: Annotated[
        int | None, option("--draw", "Points that the long set draws beside the short one.  [default: 320]", "N")
    ] = None,
    l2: Annotated[
        str, option("--l2", "L2 cache before the first launch.", "cold|warm", one_of("cold", "warm"))
    ] = "cold",
    device: Annotated[
        str | None, option("--device", "Predict with this device.  [default: by the GPU's name]", "NAME|FILE")
    ] = None,
    set_: Annotated[
        list[str] | None, option("--set", "Change a number of the device; repeatable.", "KEY=VALUE")
    ] = None,
    gpus: Annotated[str, option("--gpus", "GPUs to spread the points over.", "all|N")] = "1",
    no_counters: Annotated[bool, flag("--no-counters", "Compare times only; do not run ncu.")] = False,
    results: Annotated[
        Path | None, option("--results", "Write the measurements here; a second run resumes the file.", "FILE")
    ] = None,
    read: Annotated[
        Path | None, option("--read", "Compare the measurements of a results file; needs no GPU.", "FILE")
    ] = None,
    fail_on: Annotated[
        str | None, option("--fail-on", "Exit 1 where an error is larger: hbm_read_bytes=0.1,time=0.2", "NAME=SIZE,...")
    ] = None,
    peers: Annotated[bool, flag("--peers", "Also time SDPA's backends, flash-attn and eager attention.")] = False,
    checkpoint: Annotated[
        bool,
        flag(
            "--checkpoint",
            "Compare standard and tiled attention over lengths and batches; without a GPU, predictions only.",
        ),
    ] = False,
    launches: Annotated[
        bool, flag("--launches", "Show which kernels each implementation launches; nothing else.")
    ] = False,
    json: Annotated[bool, flag("--json", "Print JSON, not tables.")] = False,
    json_file: Annotated[Path | None, option("--json-file", "Also write JSON.", "FILE")] = None,
    html: Annotated[Path | None, option("--html", "Write a report for the browser; it opens offline.", "FILE")] = None,
    page: Annotated[Path | None, option("--page", "Write the tables as a Markdown page.", "FILE.md")] = None,
    workers: Workers = None,
    time_limit: TimeLimit = None,
) -> None:
    """Run the Triton kernels on this GPU and print predicted beside measured: bytes, cycles, clock, time.

    With FILE.py:FUNCTION the kernels that it launches are run, each by itself, on tensors with data.
    The default set takes less than five minutes. Without ncu, or the permission to use it, only times are compared.
    """
    limits, processes = limits_given(fail_on), workers_given(workers)
    wanted = Wanted(printed=json, file=json_file)
    if target is not None:
        typed = typed_options(context)
        refuse_unread(typed, sorted(set(typed) - TARGET_OPTIONS), f"with {target}")
        if read:
            refuse_unread(typed, ["--l2", "--results", "--no-counters"], "with --read")
        measuring = Measuring(time_limit_s=time_limit, counted=not no_counters, results=results, read=read)
        validate_function(target, device, set_, l2, measuring, wanted)
        return
    check_modes(typed_options(context))
    refuse_unread(typed_options(context), ["--time-limit"], "without FILE.py:FUNCTION")
    if checkpoint:
        named = device_named(device, set_, without_gpu=bench.WITHOUT_GPU)
        bench.checkpoint(problem or [], pass_ or FORWARD, named, processes, wanted, html, made(context))
        return
    if launches:
        bench.launches(problem or [], device_named(device, set_), processes, wanted)
        return
    notes: tuple[str, ...] = ()
    if read:
        header, rows, notes = rows_of(read)
        chosen = device_named(device or header.device, set_)
        points = set(selected([row.point for row in rows], schedule or [], config, only))
        rows = [row for row in rows if row.point in points]
    else:
        chosen = device_named(device, set_)
        long_set = LongSet(seed=seed, points=draw) if full else None
        asked, notes = asked_points(schedule, problem, config, only, long_set, l2, chosen.device, pass_ or FORWARD)
        header, rows = measured(asked, chosen, gpus, not no_counters, results, processes)
    others = bench.peers_of([row.point for row in rows], chosen) if peers else []
    validation = compared(header, rows, chosen, processes, notes)
    from ...validate.report.page import page_text

    tell_all(
        validation,
        rows,
        others,
        wanted,
        Output(option="--html", path=html, make=lambda: _html(validation, made(context))),
        Output(option="--page", path=page, make=lambda: page_text(validation, read or results)),
    )
    if results:
        say(f"wrote {results}")
    judge(validation, limits)


def _html(validation: "Validation", maker: "Made") -> str:
    from ...validate.report.html import validate_html

    return validate_html(validation, maker)


def check_modes(typed: Given) -> None:
    """Options that do not go together. Raises: BadInput: two modes, or an option that a mode does not read."""
    modes = [mode for mode in MODES if mode in typed]
    if len(modes) > 1:
        raise BadInput(f"{modes[0]} and {modes[1]}: do not go together; give one")
    for mode in modes:
        refuse_unread(typed, sorted(set(typed) - MODES[mode] - {mode}), f"with {mode}")
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

    try:
        (header, rows), cut = read_results(path), cut_line(path)
    except OSError as error:
        raise BadInput(f"--read {str(path)!r}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise BadInput(f"--read {error}") from None
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
    points: Sequence["Point"], device: Named, gpus: str, counted: bool, results: Path | None, workers: int
) -> tuple["Header", list["Row"]]:
    """Measure points on this machine's GPUs. Raises: BadInput: it cannot be done here."""
    need_gpu()
    from ...simulator.jobs.processes import Died
    from ...validate.compare.campaign import measure_points
    from ...validate.measure.gpus import chosen_gpus, open_sessions, visible_gpus
    from ...validate.measure.results_file import Header, appending

    with bad_input("gpus"):
        chosen = chosen_gpus(gpus, visible_gpus())
    try:
        sessions, machine = open_sessions(chosen, device.device, device.job, counted)
    except Died as death:
        raise BadInput(f"{death}; {DOCTOR}") from None
    header = Header(machine=machine, device=device.name)
    with ExitStack() as stack:
        for session in sessions:
            stack.callback(session.close)
        known: list[Row] = []
        dropped: list[Row] = []
        keep: Callable[[Row], None] = dropped.append
        if results:
            try:
                known, keep = stack.enter_context(appending(results, header))
            except ValueError as error:
                raise BadInput(f"--results {error}") from None
            if known:
                say(f"{results} holds {len(known)} rows already; what is in it is not measured again")
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


def tell_all(
    validation: "Validation", rows: Sequence["Row"], others: "Sequence[PeerRow]", wanted: Wanted, *outputs: Output
) -> None:
    """Print the tables, and where there are peers, ours among them; or JSON. Write the files."""
    from ...validate.experiments.peer_rows import ours, peers_dict, peers_text
    from ...validate.report.text import validate_text

    beside = [*ours(rows), *others] if others else []
    document = validation.to_dict() | ({"peers": peers_dict(beside)} if others else {})

    def text() -> str:
        table = validate_text(validation, text_width(), text_color())
        return f"{table}\n{peers_text(beside, text_width(), text_color())}" if others else table

    bench.tell(document, wanted, text, *outputs)


def judge(validation: "Validation", limits: dict[str, float]) -> None:
    """Exit code 1 where a limit is broken, or nothing could be compared."""
    from ...validate.compare.verdict import failures

    broken = failures(validation.comparisons, limits)
    for line in broken:
        say(f"--fail-on: {line}")
    if broken or not validation.trusted:
        raise typer.Exit(1)
