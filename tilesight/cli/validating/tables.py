"""`tilesight validate --table`: public measured tables beside predictions; no GPU."""

import json
from pathlib import Path

from ..gpu import MeasureOptions
from ..groups import Group, option, word
from ..options import device_given
from ..output import Asked, BadInput, answer, bad_input, progress, text_color, text_width, write_file
from ..points import PointsOptions

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


def validate_table(chosen: TableOptions, points: PointsOptions, how: MeasureOptions, asked: Asked) -> None:
    """Draw rows, predict them, print errors. Raises: BadInput: nothing can be read or drawn."""
    from ...validate.report.tables import row_dict, tables_dict, tables_text
    from ...validate.tables.predicting import predict_row
    from ...validate.tables.rows import KINDS, read_rows, sampled
    from ...validate.tables.scores import scores

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
