"""`tilesight model`: attention of all layers of a model, prefill and decode, on one GPU or several."""

from typing import Annotated

import typer

from ...simulator.models.catalogue import every_model, models
from ...simulator.problems.attention import KV_DTYPES
from ..given import given as typed_options
from ..given import refuse_unread
from ..groups import spread
from ..limit import ALL_LIMIT_S, limit_of_all
from ..model.options import model_given
from ..options import MachinesOptions, Workers, workers_given
from ..output import bad_input, show, text_color, text_width
from ..parse import dtype_of, flag, number, option


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
    kv_dtype: Annotated[
        str,
        option(
            "--kv-dtype",
            "Element type of the KV cache.  [default: the model's]",
            "|".join(KV_DTYPES),
            lambda typed: typed and dtype_of(*KV_DTYPES)(typed),  # it meets the default, too
        ),
    ] = "",
    machine: MachinesOptions,
    workers: Workers = None,
    time_limit: Annotated[
        float | None,
        option(
            "--time-limit",
            "What prefill, and decode, may take for each kind of layers and device, in time that each worker's core"
            f" works.  [default: {ALL_LIMIT_S:g}]",
            "SECONDS",
            number,
        ),
    ] = None,
    json: Annotated[bool, flag("--json", "Print JSON.")] = False,
) -> None:
    """List the models, or say what attention of one costs: prefill, a decode step, and the KV cache beside the weights.

    Decode runs in CUDA graphs unless --overhead is given. Repeat --device to compare devices.
    """
    from ...simulator.display import render
    from ...simulator.report.model import models_dict, models_text, serving_text

    if name is None:
        typed = [typed for typed in typed_options(context) if typed != "--json"]
        refuse_unread(typed_options(context), typed, "without a model, e.g. tilesight model llama-3-8b")
        known, refused = every_model()
        show(render.to_json(models_dict(known)) if json else models_text(known, refused, text_width(), text_color()))
        return
    from ...simulator.explore.serving import Serving, serving_dict
    from ..model.serving import Asking, answer_of

    loaded, devices, processes = model_given(name), machine.build(), workers_given(workers)
    with bad_input("tp", "batch", "seqlen", "kv_dtype"):
        asked = Serving(model=loaded, tp=tp, batch=batch, seqlen=seqlen, kv_dtype=kv_dtype)
        for kind in loaded.kinds:
            asked.prefill_problem(kind)
            asked.decode_problem(kind)
    asking = Asking(
        l2=machine.l2,
        overhead=machine.overhead,
        decode_overhead=machine.overhead if "--overhead" in typed_options(context) else "graph",
        workers=processes,
        time_limit_s=limit_of_all(time_limit),
    )
    answers = [
        answer_of(asked, device, device_name, asking, machine.notes(device_name, device))
        for device_name, device in devices.items()
    ]
    show(render.to_json(serving_dict(answers)) if json else serving_text(answers, text_width(), text_color()))
