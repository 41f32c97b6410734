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
    gpus: str | None = option(
        None, "Ways to share each sequence among so many GPUs of one host, e.g. 2,4,8; 1: on one.", "INT,..."
    )
    seqlen_q: int | None = option(
        None, "With --gpus: queries, where they are fewer than keys; 1: a step of decoding.", least=1
    )
    json: bool = flag("Print JSON.")
    csv: Path | None = option(None, "Write all points as CSV.", "FILE")
    plot: Path | None = option(None, "Write a picture: time and memory over length.", "FILE.png")

    @property
    def lengths(self) -> list[int]:
        """Of `--seqlens`. Raises: BadInput: one is not allowed, or is there twice."""
        return _numbers("--seqlens", self.seqlens, MAX_SEQLEN)


def _numbers(name: str, text: str, most: int) -> list[int]:
    """Of a list. Raises: BadInput: one is not allowed, or is there twice."""
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(f"{name} = {text!r}: must be whole numbers, separated by commas") from None
    for number in numbers:
        if not 1 <= number <= most:
            raise BadInput(f"{name} = {number}: must be from 1 to {most}")
    return list(each_once(name, text, numbers))


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
    if asked.gpus is not None:
        refuse_unread(given(context), ["--plot", "--overhead"], "with --gpus")
        _share(context, asked, model, problem, config, machine, limit)
        return
    refuse_unread(given(context), ["--seqlen-q"], "without --gpus")
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
    source = CostOptions().source(device, limit.processes)[0] if outlined else None
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


def _share(
    context: typer.Context,
    asked: CompareOptions,
    model: ModelOptions,
    shape: ShapeOptions,
    config: ConfigOptions,
    machine: MachinesOptions,
    limit: SimulationsLimit,
) -> None:
    """Ways to share the sequences among GPUs. Raises: BadInput: as `compare`, or they are not shared evenly."""
    from ...simulator.arguments import Settings
    from ...simulator.explore.serving import decode_schedules
    from ...simulator.explore.sharing import share
    from ...simulator.explore.trial import TrialSettings
    from ...simulator.operations.families.collectives import HOST_GPUS
    from ...simulator.operations.sequence_step import UNSHARED
    from ...simulator.problems.attention import AttentionProblem
    from ...simulator.report.operations.splits import sharing_text
    from ...simulator.store.pipelines import answers

    counts, lengths = _numbers("--gpus", asked.gpus or "", HOST_GPUS), asked.lengths
    rows = asked.seqlen_q
    if rows and rows >= min(lengths):
        raise BadInput(f"--seqlen-q = {rows}: must be below --seqlens, of which {min(lengths)} is the shortest")
    parts = shape.passes(asked.schedule)
    if rows and not asked.schedule:
        few = decode_schedules(parts[0][0].of_lengths(AttentionProblem, rows, lengths[0]))
        parts = shape.passes([schedule.name for schedule in few[:1]])
    posed = pose(
        parts[:1],
        lambda part, kind: part.of_lengths(kind, rows or lengths[0], lengths[0]),
        *(model, config, given(context)),
    )[0]
    if len(parts) > 1 or type(posed.problem) is not AttentionProblem:
        raise BadInput("--gpus: shares attention's forward pass alone")
    sharings = []
    for name, device in machine.build().items():
        settings = TrialSettings(
            device=device,
            simulation=Settings(l2=machine.l2),
            resources_of=CostOptions().source(device, limit.processes)[0],
            workers=limit.processes,
            limit_s=limit_of(limit.time_limit),
        )
        named = bad_input("schedule", "seqlens", "gpus", *UNSHARED, *all_options())
        with named, answers(announce_compiler), progress(f"simulations for {name}") as tick:
            sharing = share(
                *(posed.problem, lengths, counts, settings), schedule=posed.names, progress=tick, **posed.options
            )
        notes = (*posed.notes, *machine.notes(name, device), *sharing.notes)
        sharings.append(replace(sharing, device_name=name, notes=notes))
    answer(
        asked,
        lambda: "\n\n".join(sharing_text(it, text_width(), text_color()) for it in sharings),
        lambda: sharings[0].to_dict() if len(sharings) == 1 else {"devices": [it.to_dict() for it in sharings]},
        csv=lambda: [{"device": it.device_name} | row.to_dict() for it in sharings for row in it.shared],
    )
