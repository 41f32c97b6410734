"""`tilesight compare`: schedules over sequence lengths."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from .cli_options import (
    CONFIG_OPTIONS,
    ConfigOptions,
    MachineOptions,
    ProblemOptions,
    Schedules,
    Workers,
    flag,
    option,
    spread,
    workers_given,
)
from .cli_output import (
    BadInput,
    announce_compiler,
    bad_input,
    check_outputs,
    progress,
    show,
    text_color,
    text_width,
    write_file,
)
from .simulator.problem import MAX_SEQLEN

DEFAULT_SEQLENS = "512,1024,2048,4096,8192"


@spread
def compare(
    *,
    schedule: Schedules = None,
    seqlens: Annotated[str, option("--seqlens", "Lengths of queries and keys.", "INT,...")] = DEFAULT_SEQLENS,
    problem: ProblemOptions,
    config: ConfigOptions,
    machine: MachineOptions,
    workers: Workers = None,
    json: Annotated[bool, flag("--json", "Print JSON.")] = False,
    csv: Annotated[Path | None, option("--csv", "Write all points as CSV.", "FILE")] = None,
    plot: Annotated[Path | None, option("--plot", "Write a picture: time and memory over length.", "FILE.png")] = None,
) -> None:
    """Hold schedules against each other over sequence lengths: time, speed-up, bytes, peak memory, out of memory.

    Each schedule runs in its default configuration, or with the options given here that it takes.
    """
    check_outputs(csv=csv, plot=plot)
    lengths = _lengths(seqlens, problem)
    asked, device = replace(problem, seqlen=lengths[0]).build(), machine.build()
    chosen: dict[str, Any] = {**config.chosen()}
    processes, schedules = workers_given(workers), schedule or ["all"]
    from .simulator import report, scaling
    from .simulator.report_compare import compare_rows, compare_text

    with bad_input("schedule", *CONFIG_OPTIONS):
        scaling.plan(asked, schedules, chosen)
    announce_compiler()
    with progress("points") as tick:
        found = scaling.compare(
            asked,
            lengths,
            schedule=schedules,
            device=device,
            l2=machine.l2,
            overhead=machine.overhead,
            workers=processes,
            progress=tick,
            **chosen,
        )
    found = replace(found, device_name=machine.device, notes=(*machine.notes(), *found.notes))
    if csv:
        write_file(csv, report.to_csv(compare_rows(found)))
    if plot:
        from .simulator.report_plots import compare_png

        write_file(plot, compare_png(found))
    show(report.to_json(found.to_dict()) if json else compare_text(found, text_width(), text_color()))


def _lengths(text: str, problem: ProblemOptions) -> list[int]:
    if problem.seqlen_q is not None or problem.seqlen_k is not None:
        raise BadInput("--seqlen-q, --seqlen-k: compare sets both lengths; use --seqlens 512,1024,...")
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"--seqlens = {text!r}: must be whole numbers, separated by commas") from None
    for length in lengths:
        if not 1 <= length <= MAX_SEQLEN:
            raise BadInput(f"--seqlens = {length}: must be from 1 to {MAX_SEQLEN}")
    return lengths
