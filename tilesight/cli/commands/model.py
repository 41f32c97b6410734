"""`tilesight model`: prefill and decode of a model, its attention and all of it, on one GPU or several."""

import typer

from ...simulator.models.catalogue import every_model, models
from ...simulator.problems.attention import KV_DTYPES
from ..given import given, refuse_unread
from ..groups import Group, argument, flag, option, spread
from ..limit import ALL_LIMIT_S, WorkersOptions, limit_of_all, seconds
from ..model.options import model_given
from ..options import HostOptions, MachinesOptions
from ..output import answer, bad_input, text_color, text_width
from ..parse import dtype_of


class ServingOptions(Group):
    """A model, and what it is asked to do."""

    name: str | None = argument("A model: name, or a path that ends in .json.", "[NAME|FILE]", None, models)
    tp: int = option(1, "GPUs of one host that share heads, MLPs and vocabulary.", "N", least=1)
    ep: int = option(1, "GPUs that share the experts.  [default: as --tp shares them]", "N", least=1)
    pp: int = option(1, "Stages that share the layers, each of as many GPUs.", "N", least=1)
    gpus: int | None = option(None, "Compare ways to share it among up to so many GPUs of one host.", "N", least=1)
    batch: int = option(16, "Sequences that are decoded together.")
    seqlen: int = option(8192, "Tokens of each.")
    kv_dtype: str = option(
        "",
        "Element type of the KV cache.  [default: the model's]",
        "|".join(KV_DTYPES),
        lambda typed: typed and dtype_of(*KV_DTYPES)(typed),  # it meets the default, too
    )
    json: bool = flag("Print JSON.")


class WorkOptions(WorkersOptions):
    """What the answer may take."""

    time_limit: float | None = seconds(
        "What prefill, and decode, may take for each kind of layers and device, in time that each worker's core"
        f" works.  [default: {ALL_LIMIT_S:g}]"
    )


@spread
def model(
    context: typer.Context, *, asked: ServingOptions, machine: MachinesOptions, joined: HostOptions, work: WorkOptions
) -> None:
    """List the models, or say what one costs, its attention and all of it: prefill, a decode step, KV cache, weights.

    Decode runs in CUDA graphs unless --overhead is given. Repeat --device to compare devices.
    """
    from ...simulator.explore.serving import Serving
    from ...simulator.report.model import models_dict, models_text, serving_dict, serving_text
    from ..model.serving import Asking, answer_of

    typed = given(context)
    if asked.name is None:
        refuse_unread(
            typed,
            [option for option in typed if option != "--json"],
            "without a model, e.g. tilesight model llama-3-8b",
        )
        known, refused = every_model()
        answer(asked, lambda: models_text(known, refused, text_width(), text_color()), lambda: models_dict(known))
        return
    gpus = max(asked.gpus or 0, max(asked.tp, asked.ep) * asked.pp)
    loaded, devices = model_given(asked.name), joined.devices(machine, gpus)
    with bad_input("tp", "ep", "pp", "gpus", "batch", "seqlen", "kv_dtype"):
        serving = Serving(
            model=loaded,
            tp=asked.tp,
            ep=asked.ep,
            pp=asked.pp,
            batch=asked.batch,
            seqlen=asked.seqlen,
            kv_dtype=asked.kv_dtype,
            gpus=asked.gpus or 0,
            most=min(device.host.most for device in devices.values()),
        )
        for kind in loaded.kinds:
            serving.prefill_problem(kind)
            serving.decode_problem(kind)
    asking = Asking(
        l2=machine.l2,
        overhead=machine.overhead,
        decode_overhead=machine.overhead if "--overhead" in typed else "graph",
        workers=work.processes,
        time_limit_s=limit_of_all(work.time_limit),
    )
    answers = [
        answer_of(serving, device, name, asking, machine.notes(name, device)) for name, device in devices.items()
    ]
    answer(asked, lambda: serving_text(answers, text_width(), text_color()), lambda: serving_dict(answers))
