"""`tilesight calibrate`: measure this GPU by microbenchmarks and write its device file."""

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from ..output import BadInput, Output, deliver, say, text_color, text_width
from ..parse import flag, option


def calibrate(
    output: Annotated[
        Path | None, option("--output", "Write the device file here; use it with --device FILE.toml.", "FILE.toml")
    ] = None,
    base: Annotated[
        str | None, option("--base", "Device to take all other numbers from.  [default: the nearest one]", "NAME|FILE")
    ] = None,
    only: Annotated[str | None, option("--only", "Groups to measure.  [default: all]", "GROUP,...")] = None,
    json: Annotated[bool, flag("--json", "Print JSON, with the record of every microbenchmark.")] = False,
) -> None:
    """Measure this GPU with microbenchmarks (under three minutes); print measured beside base, write a device file."""
    from ...simulator.device.device import load_device
    from ...simulator.display import render
    from ...validate.calibrate import calibrate as room
    from ...validate.calibrate import report
    from ...validate.calibrate.micro.compile import NoGpu
    from ...validate.calibrate.micro.gpu import Gpu

    groups = chosen_groups(only, room.GROUPS)
    if base is not None:
        try:
            load_device(base)
        except ValueError as error:
            raise BadInput(f"--base {base!r}: {error}") from None
    try:
        with Gpu() as gpu:
            facts = gpu.facts(date.today().isoformat())
            say(f"{facts.gpu}, driver {facts.driver or 'unknown'}: measuring {', '.join(groups)}")
            records, seconds = room.measure(gpu, groups, say)
    except NoGpu as error:
        say(str(error))
        raise typer.Exit(1) from None
    base_name = base or room.nearest_base(facts)
    calibration = room.settle(records, facts, load_device(base_name), groups, seconds)
    deliver(
        render.to_json(report.calibration_dict(calibration, base_name))
        if json
        else report.calibration_text(calibration, base_name, text_width(), text_color()),
        Output(option="--output", path=output, make=lambda: report.toml_text(calibration)),
    )


def chosen_groups(text: str | None, groups: tuple[str, ...]) -> list[str]:
    """Groups that `--only` names, in the order in which they are measured. Raises: BadInput: an unknown name."""
    if text is None:
        return list(groups)
    wanted = [name.strip() for name in text.split(",")]
    for name in wanted:
        if name not in groups:
            raise BadInput(f"--only {text!r}: {name!r} is unknown; allowed are {', '.join(groups)}")
    return [name for name in groups if name in wanted]
