"""`tilesight compare`: schedules over sequence lengths, and devices."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...simulator.problems.attention import MAX_SEQLEN
from ...simulator.schedules.registry import all_options
from ..compiled import CostOptions
from ..configs import ConfigOptions, Posed, pose
from ..given import given, refuse_unread
from ..groups import flag, option, spread
from ..limit import SimulationsLimit, limit_of
from ..model.options import ModelOptions
from ..options import MachinesOptions, SchedulesOptions, one_device
from ..output import BadInput, announce_compiler, answer, bad_input, progress, text_color, text_width
from ..parse import each_once
from ..shapes import BOTH, ShapeOptions

if TYPE_CHECKING:
    from ...simulator.device.device import Device
    from ...simulator.explore.lengths import Scaling


class CompareOptions(SchedulesOptions):
    """What `compare` alone takes."""

    seqlens: str = option("512,1024,2048", "Lengths of queries and keys.", "INT,...")
    json: bool = flag("Print JSON.")
    csv: Path | None = option(None, "Write all points as CSV.", "FILE")
    plot: Path | None = option(None, "Write a picture: time and memory over length.", "FILE.png")

    @property
    def lengths(self) -> list[int]:
        """Of `--seqlens`. Raises: BadInput: one is not allowed, or is there twice."""
        try:
            lengths = [int(part) for part in self.seqlens.split(",")]
        except ValueError:
            raise BadInput(f"--seqlens = {self.seqlens!r}: must be whole numbers, separated by commas") from None
        for length in lengths:
            if not 1 <= length <= MAX_SEQLEN:
                raise BadInput(f"--seqlens = {length}: must be from 1 to {MAX_SEQLEN}")
        return list(each_once("--seqlens", self.seqlens, lengths))


@spread
def compare(
    context: typer.Context,
    *,
    asked: CompareOptions,
    model: ModelOptions,
    problem: ShapeOptions,
    config: ConfigOptions,
    machine: MachinesOptions,
    limit: SimulationsLimit,
) -> None:
    """Compare schedules over sequence lengths: time, speedup, bytes, peak memory, out of memory.

    Each schedule runs in its fastest configuration, found by trying all at one short length and the best of them at
    each; options that you give are fixed.
    """
    lengths, devices = asked.lengths, machine.build()
    one_device(devices, plot=asked.plot)
    parts = problem.passes(asked.schedule or ["all"])
    if len(parts) > 1:
        refuse_unread(given(context), ["--plot"], f"with --pass {BOTH}: each is of one pass")
    from ...simulator.display.files import written_by
    from ...simulator.explore.fastest import plan
    from ...simulator.explore.training_lengths import along_lengths
    from ...simulator.report.lengths import compare_dict, compare_rows, compare_text
    from ...simulator.report.training import step_scaling_text, step_scalings_dict

    posed = pose(
        parts,
        lambda shape, kind: shape.of_lengths(kind, lengths[0], lengths[0]),
        *(model, config, given(context)),
        usual=["all"],
    )
    with bad_input("schedule", *all_options()):
        for item in posed:
            plan(item.problem, item.names, item.options, compiles=CostOptions().compiles)
    counted = "simulations for {}" if len(devices) > 1 else "simulations"
    scalings = [
        [_compared(item, lengths, device, machine, limit, counted) for device in devices.items()] for item in posed
    ]
    texts = [compare_text(*some, width=text_width(), color=text_color()) for some in scalings]
    values = [compare_dict(*some) for some in scalings]
    if len(parts) > 1:
        steps = [along_lengths(*passes) for passes in zip(*scalings, strict=True)]
        texts += [step_scaling_text(step, text_width(), text_color()) for step in steps]
        values = [step_scalings_dict(steps, *values)]
    answer(
        asked,
        lambda: "\n\n".join(texts),
        lambda: values[0],
        csv=lambda: [row for some in scalings for row in compare_rows(*some)],
        plot=lambda: written_by("png", "compare_png")(scalings[0][0]),
    )


def _compared(
    posed: Posed,
    lengths: list[int],
    named: "tuple[str, Device]",
    machine: MachinesOptions,
    limit: SimulationsLimit,
    counted: str,
) -> "Scaling":
    """The schedules of a pass on a device.

    Args:
        posed: the pass.
        lengths: of its sequences.
        named: name of the device, and it.
        machine: how to run it.
        limit: what a configuration may take, and how many processes.
        counted: what progress counts, with a place for the name.
    """
    from ...simulator.explore.lengths import compare as compare_schedules
    from ...simulator.store.pipelines import answers

    name, device = named
    outlined = any(item.outlined and item.why_not(posed.problem) is None for item in posed.schedules)
    source = CostOptions().source(posed.problem, device, limit.processes)[0] if outlined else None
    with answers(announce_compiler), progress(counted.format(name)) as tick:
        scaling = compare_schedules(
            posed.problem,
            lengths,
            schedule=posed.names,
            device=device,
            l2=machine.l2,
            overhead=machine.overhead,
            resources_of=source,
            workers=limit.processes,
            progress=tick,
            time_limit_s=limit_of(limit.time_limit),
            **posed.options,
        )
    return replace(scaling, device_name=name, notes=(*posed.notes, *machine.notes(name, device), *scaling.notes))
