"""`tilesight tune`: the fastest configurations of the kernels that a function launches, without running them."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...simulator.device.device import catalogue
from ..given import given, made
from ..groups import spread
from ..kernels import TARGET, Sweep, swept, users_code
from ..limit import USERS_CODE_S, TimeLimit, limit_of, stages
from ..line.files import spare
from ..options import DEFAULT_DEVICE, DEVICE_DOC, Settings, Workers, device_given, device_notes, workers_given
from ..output import (
    BadInput,
    Failed,
    Output,
    announce_compiler,
    deliver,
    progress,
    say,
    text_color,
    text_width,
    write_file,
)
from ..parse import flag, one_of, option, read_option
from ..tuning.deliver import deliver_layer, layer_file
from ..tuning.layers import FORMATS as ENGINES
from ..tuning.layers import LayerOptions

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ...kernels.compile.call import KernelCall
    from ...kernels.configurations.space import Space
    from ...simulator.device.device import Device
    from ...simulator.prediction.kernel_row import KernelRow
    from ...simulator.screening.static_time import StaticWork
    from ...simulator.store.store import Store
    from ...tuning.screening import Portion
    from ...tuning.tuning import Tuning

FILED = ("triton-cache", *ENGINES)
FORMATS = ("triton-config", *FILED)
TOP = 10


@spread
def tune(
    context: typer.Context,
    *,
    target: Annotated[str | None, TARGET] = None,
    device: Annotated[str, option("--device", DEVICE_DOC, "NAME|FILE", words=catalogue)] = DEFAULT_DEVICE,
    set_: Settings = None,
    shapes: Annotated[
        Path | None,
        option("--shapes", "Values of the function's arguments, a line each, e.g. `M=512, N=4096`.", "FILE"),
    ] = None,
    space: Annotated[
        Path | None,
        option("--space", "Values to try beside the code's own, e.g. `BLOCK_M = [64, 128]`; TOML.", "FILE.toml"),
    ] = None,
    sweep: Sweep = None,
    screen: Annotated[
        str | None,
        option(
            "--screen",
            "Configurations of a launch to predict, the best by a static rank of work and bytes: a share, a number, "
            "or `off`: all.  [default: a third, 16 at least; of an engine's file 15%, 24 at least]",
            "PERCENT%|N|off",
        ),
    ] = None,
    top: Annotated[int, option("--top", "Configurations to show of each launch; files hold all.")] = TOP,
    format: Annotated[
        str | None,
        option(
            "--format",
            "Print the best as `triton.Config(...)`, or write what TRITON_CACHE_AUTOTUNING=1 reads, or an engine's "
            "tuning file: its target is that kernel, FILE.py:KERNEL, or what is installed.",
            "|".join(FORMATS),
            one_of(*FORMATS),
        ),
    ] = None,
    to: Annotated[Path | None, option("--to", "Folder for the files of --format.", "FOLDER")] = None,
    layer: LayerOptions,
    store: Annotated[
        Path | None,
        option("--store", "Keep predictions in this file as they come; the same command goes on from it.", "FILE"),
    ] = None,
    dask: Annotated[str | None, option("--dask", "Predict on the workers of this Dask cluster.", "ADDRESS")] = None,
    ray: Annotated[str | None, option("--ray", "Predict on the workers of this Ray cluster.", "ADDRESS")] = None,
    workers: Workers = None,
    time_limit: TimeLimit = None,
    json: Annotated[bool, flag("--json", "Print JSON.")] = False,
    csv: Annotated[Path | None, option("--csv", "Write all configurations as CSV.", "FILE")] = None,
    html: Annotated[Path | None, option("--html", "Write a report for the browser; it opens offline.", "FILE")] = None,
) -> None:
    """Rank the configurations of every kernel that a function launches, by predicted time, without running them.

    Configurations are those of @triton.autotune, and those that --space and --sweep add, of kernels that are not
    autotuned as well. With --shapes the function takes arguments, and is called once for each line.
    """
    if top < 1:
        raise BadInput(f"--top = {top}: must be an integer of 1 or more")
    if format in FILED and to is None:
        raise BadInput(f"--format {format}: writes files; name a folder for them by --to")
    if to is not None and format not in FILED:
        raise BadInput(f"--to {str(to)!r}: is for the files of --format {' or '.join(FILED)}")
    if format not in ENGINES:
        layer.refuse(given(context), format)
        if target is None:
            raise BadInput("tune: name a function, FILE.py:FUNCTION")
    elif shapes or html:
        raise BadInput(f"{'--shapes' if shapes else '--html'}: not with --format {format}; --layer has the sizes")
    elsewhere = {name: address for name, address in (("--dask", dask), ("--ray", ray)) if address}
    if len(elsewhere) > 1:
        raise BadInput(f"--ray {ray!r}: is given beside --dask; name one cluster")
    name, gpu = device_given(device, set_)
    processes, limit_s, portion = workers_given(workers), limit_of(time_limit), _portion(screen)
    from ...compiling import why_not

    if reason := why_not():
        raise BadInput(f"tune: {reason}")
    from ...kernels.capture.file import Asked, capture_calls
    from ...tuning.answers import predict_all, screen_all
    from ...tuning.engines.tune import tune_layer
    from ...tuning.screening import USUAL, Screening
    from ...tuning.tune import tune_recorded
    from ...tuning.workers import TargetDevice

    wanted = TargetDevice(device=gpu, name=name, compile_limit_s=time_limit or USERS_CODE_S, limit_s=limit_s)
    remarks = device_notes(name, gpu, set_)
    how: dict[str, Any] = {"target": wanted, "store": _store(store), "workers": processes}

    if format in ENGINES:
        seconds = time_limit or USERS_CODE_S
        question = layer.question(format, target or "", name, _space(space, sweep), tuple(set_ or ()), seconds)
        question = replace(question, portion=portion or question.portion)
        folder, file = to or Path(), layer_file(question, name)
        spare(context, "--to", folder / file)
        with _one_line(), _executor(elsewhere) as executor, progress("launches") as tick:
            answer = tune_layer(question, wanted, partial(predict_all, **how, executor=executor, progress=tick))
        deliver_layer(question, replace(answer, notes=(*remarks, *answer.notes)), folder, file, json, csv)
        return
    assert target
    asked = Asked(
        device=name,
        settings=set_ or (),
        shapes=_shapes(shapes),
        space=_space(space, sweep),
        triton_cache=format == "triton-cache",
        timeout_s=time_limit or USERS_CODE_S,
    )
    with _one_line():
        with stages() as tell:
            tell(f"{target}: function")
            recorded = capture_calls(target, asked)
        for function in recorded:
            if function.ended:
                say(f"{target}: ended in an error, launches before it are tuned: {function.ended}")
        announce = cache(announce_compiler)
        with _executor(elsewhere) as executor:

            def screened(calls: "Sequence[KernelCall]") -> "list[StaticWork | None]":
                with progress("configurations compiled, to be screened") as tick:
                    return screen_all(calls, **how, executor=executor, progress=tick)

            def predicted(calls: "Sequence[KernelCall]") -> "list[KernelRow]":
                with progress("configurations") as tick:

                    def under_way(done: int, total: int) -> None:
                        if done < total:  # answers that are kept load no engine
                            announce()
                        tick(done, total)

                    return predict_all(calls, **how, executor=executor, progress=under_way)

            screening = Screening(screen=screened, device=gpu, portion=portion or USUAL)
            tuning = tune_recorded(target, recorded, name, predicted, screening)
    tuning = replace(tuning, notes=(*remarks, *tuning.notes))
    _deliver(context, tuning, gpu, top, format, to, json, csv, html)
    if not tuning.complete or any(function.ended for function in recorded):
        raise typer.Exit(1)


def _deliver(
    context: typer.Context,
    tuning: "Tuning",
    gpu: "Device",
    top: int,
    form: str | None,
    to: Path | None,
    json: bool,
    csv: Path | None,
    html: Path | None,
) -> None:
    """Print the answer, and write its files."""
    from ...simulator.display import render
    from ...tuning import formats
    from ...tuning.html import tuning_html
    from ...tuning.report import tuning_text

    if form == "triton-config":
        answer = formats.triton_configs(tuning, top)
    elif json:
        answer = render.to_json(tuning.to_dict())
    else:
        answer = tuning_text(tuning, top, text_width(), text_color())
    deliver(
        answer,
        Output(option="--csv", path=csv, make=lambda: render.to_csv(tuning.flat_rows())),
        Output(option="--html", path=html, make=lambda: tuning_html(tuning, made(context))),
    )
    if form == "triton-cache" and to is not None:
        files = {path: text for launch in tuning.launches for path, text in formats.triton_cache(launch).items()}
        if not files:
            raise Failed(
                "--format triton-cache: no kernel has an autotuner that keeps its timings (a key, no pre_hook)"
            )
        sm = gpu.compute_capability.replace(".", "")
        say(
            f"--format triton-cache: Triton reads these files on every GPU of sm_{sm}, whichever of them they are "
            f"predicted for: here {tuning.device}"
        )
        for path, text in files.items():
            spare(context, "--to", to / path)
            (to / path).parent.mkdir(parents=True, exist_ok=True)
            write_file(to / path, text, "TRITON_CACHE_AUTOTUNING=1 reads it, with the folder as TRITON_CACHE_DIR")


@contextmanager
def _one_line() -> Iterator[None]:
    """Errors of capture and prediction as those of the command line."""
    from ...tuning.tune import NothingToTune
    from ...tuning.workers import LostWorkers

    try:
        with users_code():
            yield
    except NothingToTune as error:
        raise BadInput(str(error)) from None
    except LostWorkers as error:
        raise Failed(str(error)) from None


def _shapes(file: Path | None) -> Sequence[dict[str, Any]]:
    from ...tuning.shapes import read_shapes

    return ({},) if file is None else read_option("--shapes", file, read_shapes)


def _space(file: Path | None, texts: Sequence[str] | None) -> "Space":
    from ...kernels.configurations.space import read_space

    if file and texts:
        raise BadInput(f"--sweep {texts[0]!r}: is given beside --space; write its values into {file}")
    return read_option("--space", file, read_space) if file else swept(texts)


def _portion(text: str | None) -> "Portion | None":
    """Which configurations are predicted; None: as usual."""
    from ...tuning.screening import ALL, Portion

    if text is None:
        return None
    number = text.removesuffix("%")
    try:
        if text == "off":
            return ALL
        if text.endswith("%") and 0 < float(number) <= 100:
            return Portion(share=float(number) / 100)
        if int(text) > 0:
            return Portion(share=0.0, least=int(text))
    except ValueError:
        pass
    raise BadInput(f"--screen {text!r}: must be a share above 0%, such as 10%, a number of 1 or more, or off")


def _store(file: Path | None) -> "Store | None":
    from ...simulator.store.database import Unusable
    from ...simulator.store.store import Store, usual_store

    if file is None:
        return usual_store()
    try:
        Store(file).check()
    except Unusable as error:
        raise BadInput(f"--store {error}") from None
    return Store(file)


@contextmanager
def _executor(elsewhere: dict[str, str]) -> "Iterator[Executor | None]":
    """What predicts: the workers of a cluster, by option and address, or None: processes of this machine."""
    if not elsewhere:
        yield None
        return
    from ...tuning.clusters import CLUSTERS, NoCluster

    ((option_name, address),) = elsewhere.items()
    try:
        with CLUSTERS[option_name](address) as executor, redirect_stdout(sys.stderr):  # Ray prints what it meets
            yield executor
    except NoCluster as error:
        raise BadInput(f"{option_name} {error}") from None
