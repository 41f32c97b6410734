"""`tilesight validate` beside points: a user's function on this GPU, and public tables, predicted and measured."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from .gpu import MeasureOptions, Named, device_named, need_gpu
from .groups import Group, option, word
from .kernels import Function, users_code
from .limit import LimitOptions
from .options import device_given, device_notes
from .output import Asked, BadInput, answer, bad_input, progress, say, text_color, text_width, write_file
from .parse import read_option
from .points import PointsOptions

if TYPE_CHECKING:
    from ..simulator.predict_kernels import SimulatedKernels
    from ..validate.functions.measured import MeasuredFunction

TABLE_OPTIONS = {
    *("--table", "--kind", "--sample", "--part", "--only", "--seed", "--device", "--set"),
    *("--results", "--json", "--json-file"),
}
"""Options that are read with --table."""


class TableOptions(Group):
    """Which rows of public tables are held against predictions."""

    table: Path | None = option(
        None, "Hold predictions against the measured tables of this wheel (aiconfigurator-core), or its folder.", "FILE"
    )
    kind: str = word(
        "gemm",
        "Kind of rows of a table: products, attention of prompts or of one token, collectives of NCCL.",
        "gemm",
        "prefill",
        "decode",
        "collective",
    )
    sample: int = option(200, "Rows drawn of a table for each device; 0: all.", least=0)
    part: str = word("all", "Part of a table: constants may be fitted on `fit` alone.", "all", "fit", "check", "test")


def validate_function(target: str, l2: str, how: MeasureOptions, limit: LimitOptions, asked: Asked) -> None:
    """Predict, measure and compare. Raises: typer.Exit: nothing could be compared."""
    from ..validate.functions.measured import read_measured

    kept = read_option("--read", how.read, read_measured, named=True) if how.read else None
    if not kept:
        need_gpu()
    named = device_named(how.device or (kept.device if kept else None), how.set_)
    l2 = kept.l2 if kept else l2
    function = Function(target, named.name, named.device, how.set_, limit, l2=l2, command="validate")
    outcome = function.simulated()
    measured = kept or _measured(function, outcome, named, how)
    if how.results:
        from ..simulator.display import render

        write_file(how.results, render.to_json(measured.to_dict()))
    from ..validate.functions.compare import compare_function
    from ..validate.report.functions import function_dict, function_text

    notes = (*device_notes(named.name, named.device, how.set_), *outcome.prediction.notes)
    try:
        comparison = compare_function(replace(outcome.prediction, notes=notes), measured)
    except ValueError as error:
        raise BadInput(f"--read {str(how.read)!r}: {error}" if how.read else str(error)) from None
    answer(asked, lambda: function_text(comparison, text_width(), text_color()), lambda: function_dict(comparison))
    if not comparison.launches:
        raise typer.Exit(1)


def _measured(function: Function, outcome: "SimulatedKernels", named: Named, how: MeasureOptions) -> "MeasuredFunction":
    from ..validate.functions.measured import job_of, measure_function
    from ..validate.measure.gpus import visible_gpus

    rows = zip(outcome.numbers, outcome.prediction.rows, strict=True)
    numbers = [number for number, row in rows if row.prediction]
    say(f"measuring {len(numbers)} launches, each by itself ...")
    with users_code():
        return measure_function(
            function.target,
            job_of(function.target, outcome.asked, numbers, function.l2),
            gpu=visible_gpus()[0],
            device=named.device,
            name=named.name,
            counted=not how.no_counters,
            time_limit_s=function.limit.code_s,
        )


def validate_table(chosen: TableOptions, points: PointsOptions, how: MeasureOptions, asked: Asked) -> None:
    """Draw rows, predict them, print errors. Raises: BadInput: nothing can be read or drawn."""
    from ..validate.report.tables import row_dict, tables_dict, tables_text
    from ..validate.tables.predicting import predict_row
    from ..validate.tables.rows import KINDS, read_rows, sampled
    from ..validate.tables.scores import scores

    assert chosen.table
    if not how.device:
        raise BadInput("--table: name the devices, e.g. --device a100-sxm-80gb,l40s,b200")
    known = dict(device_given(name.strip(), how.set_) for name in how.device.split(","))
    kind = next(name for name in KINDS if name == chosen.kind)
    with bad_input(before="--table "):
        read = read_rows(chosen.table, kind, list(known))
    rows = sampled(read, chosen.sample, points.seed, part=chosen.part, only=points.only or ())
    if not rows:
        raise BadInput(
            f"--only {' '.join(points.only or ())}: matches none of {len(read)} rows, as `vllm* bfloat16` does"
        )
    predicted = []
    with progress("rows") as tick:
        for number, row in enumerate(rows, 1):
            predicted.append(predict_row(row, known[row.device]))
            tick(number, len(rows))
    scored = scores(predicted)
    part = "all parts" if chosen.part == "all" else f"part {chosen.part}"
    said = f"{chosen.table.name}, {kind}, {part}, {chosen.sample or 'all'} rows a GPU, seed {points.seed}"
    if how.results:
        lines = [tables_dict(scored, said), *map(row_dict, predicted)]
        write_file(how.results, "".join(f"{json.dumps(line)}\n" for line in lines))
    answer(
        asked,
        lambda: tables_text(scored, predicted, said, text_width(), text_color()),
        lambda: tables_dict(scored, said),
    )
