"""`tilesight model`: attention of all layers of a model, prefill and decode, on one GPU or several."""

from typing import Annotated

import typer

from ...simulator.models.catalogue import every_model, models
from ..given import given as typed_options
from ..given import refuse_unread
from ..groups import spread
from ..limit import ALL_LIMIT_S, limit_of, limit_of_all
from ..model.options import model_given
from ..options import MachinesOptions, Workers, workers_given
from ..output import announce_compiler, bad_input, progress, show, text_color, text_width
from ..parse import flag, number, option


def _names(incomplete: str) -> list[str]:
    return [name for name in models() if name.startswith(incomplete)]


@spread
def model(
    context: typer.Context,
    *,
    name: Annotated[
        str | None,
        typer.Argument(
            help="A model: name, or a path that ends in .json.", metavar="[NAME|FILE]", autocompletion=_names
        ),
    ] = None,
    tp: Annotated[int, option("--tp", "GPUs that share the heads.", "N")] = 1,
    batch: Annotated[int, option("--batch", "Sequences that are decoded together.")] = 16,
    seqlen: Annotated[int, option("--seqlen", "Tokens of each.")] = 8192,
    machine: MachinesOptions,
    workers: Workers = None,
    time_limit: Annotated[
        float | None,
        option(
            "--time-limit",
            f"What the prefill of each kind of layers may take on each device.  [default: {ALL_LIMIT_S:g}]",
            "SECONDS",
            number,
        ),
    ] = None,
    json: Annotated[bool, flag("--json", "Print JSON.")] = False,
) -> None:
    """List the models, or say what attention of one costs: prefill, a decode step, and the KV cache beside the weights.

    Repeat --device to compare devices.
    """
    from ...simulator.display import render
    from ...simulator.report.model import models_dict, models_text, serving_text

    if name is None:
        typed = [typed for typed in typed_options(context) if typed != "--json"]
        refuse_unread(typed_options(context), typed, "without a model, e.g. tilesight model llama-3-8b")
        known, refused = every_model()
        show(render.to_json(models_dict(known)) if json else models_text(known, refused, text_width(), text_color()))
        return
    from ...simulator.explore.explore import Exploration, explore
    from ...simulator.explore.serving import Serving, serve, serving_dict
    from ...simulator.problems.attention import AttentionProblem
    from ...simulator.store.pipelines import answers

    loaded, devices, processes = model_given(name), machine.build(), workers_given(workers)
    with bad_input("tp", "batch", "seqlen"):
        asked = Serving(model=loaded, tp=tp, batch=batch, seqlen=seqlen)
        for kind in loaded.kinds:
            asked.prefill_problem(kind)
    served = {}
    for device_name, device in devices.items():

        def explored(problem: AttentionProblem, device: object = device, where: str = device_name) -> Exploration:
            with answers(announce_compiler), progress(f"configurations on {where}") as tick:
                return explore(
                    problem,
                    device=device,  # type: ignore[arg-type]
                    l2=machine.l2,
                    overhead=machine.overhead,
                    workers=processes,
                    progress=tick,
                    time_limit_s=limit_of_all(time_limit),
                    each_limit_s=limit_of(None),
                )

        served[device_name] = serve(asked, device, device_name, explored, machine.l2, machine.overhead, machine.notes())
    show(
        render.to_json(serving_dict(served))
        if json
        else serving_text(list(served.values()), text_width(), text_color())
    )
