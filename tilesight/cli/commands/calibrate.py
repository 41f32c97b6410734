"""`tilesight calibrate`: measure this GPU by microbenchmarks and write its device file."""

from datetime import date
from pathlib import Path

import typer

from ..groups import Group, flag, option, spread
from ..options import DEVICE
from ..output import BadInput, answer, bad_input, say, text_color, text_width


class CalibrateOptions(Group):
    """What is measured, and where it is written."""

    output: Path | None = option(None, "Write the device file here; use it with --device FILE.toml.", "FILE.toml")
    base: str | None = option(None, "Device to take all other numbers from.  [default: the nearest one]", DEVICE)
    only: str | None = option(None, "Groups to measure.  [default: all]", "GROUP,...")
    json: bool = flag("Print JSON, with the record of every microbenchmark.")


@spread
def calibrate(*, asked: CalibrateOptions) -> None:
    """Measure this GPU with microbenchmarks (under three minutes); print measured beside base, write a device file."""
    from ...simulator.device.device import load_device
    from ...validate.calibrate import calibrate as room
    from ...validate.calibrate import report
    from ...validate.calibrate.micro.compile import NoGpu
    from ...validate.calibrate.micro.gpu import Gpu

    groups = chosen_groups(asked.only, room.GROUPS)
    if asked.base is not None:
        with bad_input(before=f"--base {asked.base!r}: "):
            load_device(asked.base)
    try:
        with Gpu() as gpu:
            facts = gpu.facts(date.today().isoformat())
            say(f"{facts.gpu}, driver {facts.driver or 'unknown'}: measuring {', '.join(groups)}")
            records, seconds = room.measure(gpu, groups, say)
    except NoGpu as error:
        say(str(error))
        raise typer.Exit(1) from None
    base_name = asked.base or room.nearest_base(facts)
    calibration = room.settle(records, facts, load_device(base_name), groups, seconds)
    answer(
        asked,
        lambda: report.calibration_text(calibration, base_name, text_width(), text_color()),
        lambda: report.calibration_dict(calibration, base_name),
        output=lambda: report.toml_text(calibration),
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
