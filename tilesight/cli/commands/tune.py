"""`tilesight tune`: the fastest configurations of the kernels that a function launches, without running them."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...simulator.device.device import Device
from ..given import Given, given, made
from ..groups import Group, argument, flag, option, spread, word
from ..kernels import SWEEP, TARGET, need_compiler, swept, users_code
from ..limit import LimitOptions, WorkersOptions, limit_of, stages
from ..line.files import spare
from ..options import DeviceOptions, device_given
from ..output import (
    PAGE,
    BadInput,
    Failed,
    announce_compiler,
    answer,
    bad_input,
    progress,
    say,
    text_color,
    text_width,
    write_file,
)
from ..parse import read_option
from ..tuning.layers import FORMATS as ENGINES
from ..tuning.layers import LayerOptions, deliver_layer, layer_file

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ...kernels.compile.call import KernelLaunch
    from ...kernels.configurations.space import Space
    from ...simulator.prediction.kernel_row import KernelRow
    from ...simulator.store.store import Store
    from ...tuning.screening import KeepFraction
    from ...tuning.tuning import Tuning
    from ...tuning.workers import Processes

FILED = ("triton-cache", *ENGINES)
FORMATS = ("triton-config", *FILED)


class TuneOptions(DeviceOptions):
    """What is tuned, which configurations are tried, and what is shown and written of them."""

    target: str | None = argument(*TARGET, default=None)
    shapes: Path | None = option(None, "Values of the function's arguments, a line each, e.g. `M=512, N=4096`.", "FILE")
    space: Path | None = option(
        None, "Values to try beside the code's own, e.g. `BLOCK_M = [64, 128]`; TOML.", "FILE.toml"
    )
    sweep: list[str] | None = option(None, *SWEEP)
    screen: str | None = option(
        None,
        "Configurations of a launch to predict, the best by a static rank of work and bytes: a share, a number, "
        "or `off`: all.  [default: a third, or 16, without those that cannot come near the first 8; of an engine's "
        "file 15%, 24 at least]",
        "PERCENT%|N|off",
    )
    top: int = option(10, "Configurations to show of each launch; files hold all.", least=1)
    format: str | None = word(
        None,
        "Print the best as `triton.Config(...)`, or write what TRITON_CACHE_AUTOTUNING=1 reads, or an engine's "
        "tuning file: its target is that kernel, FILE.py:KERNEL, or what is installed.",
        *FORMATS,
    )
    to: Path | None = option(None, "Folder for the files of --format.", "FOLDER")
    store: Path | None = option(
        None, "Keep predictions in this file as they come; the same command goes on from it.", "FILE"
    )
    json: bool = flag("Print JSON.")
    csv: Path | None = option(None, "Write all configurations as CSV.", "FILE")
    html: Path | None = option(None, PAGE, "FILE")

    def check_formats(self, layer: LayerOptions, typed: Given) -> None:
        """Raises: BadInput: options that do not go together. Args: typed: options that the user gave."""
        if self.format in FILED and self.to is None:
            raise BadInput(f"--format {self.format}: writes files; name a folder for them by --to")
        if self.to is not None and self.format not in FILED:
            raise BadInput(f"--to {str(self.to)!r}: is for the files of --format {' or '.join(FILED)}")
        if self.format not in ENGINES:
            layer.refuse(typed, self.format)
            if self.target is None:
                raise BadInput("tune: name a function, FILE.py:FUNCTION")
        elif self.shapes or self.html:
            name = "--shapes" if self.shapes else "--html"
            raise BadInput(f"{name}: not with --format {self.format}; --layer has the sizes")

    def portion(self) -> "KeepFraction | None":
        """Which configurations are predicted; None: as usual. Raises: BadInput: no such portion."""
        from ...tuning.screening import ALL, KeepFraction

        if (text := self.screen) is None:
            return None
        number = text.removesuffix("%")
        try:
            if text == "off":
                return ALL
            if text.endswith("%") and 0 < float(number) <= 100:
                return KeepFraction(share=float(number) / 100)
            if int(text) > 0:
                return KeepFraction(share=0.0, least=int(text))
        except ValueError:
            pass
        raise BadInput(f"--screen {text!r}: must be a share above 0%, such as 10%, a number of 1 or more, or off")

    def values(self) -> "Space":
        """Those to try beside the code's own. Raises: BadInput: they are none, or are given twice."""
        from ...kernels.configurations.space import read_space

        if self.space and self.sweep:
            raise BadInput(f"--sweep {self.sweep[0]!r}: is given beside --space; write its values into {self.space}")
        return read_option("--space", self.space, read_space) if self.space else swept(self.sweep)


class ClusterOptions(Group):
    """Where predictions are made, if not here."""

    dask: str | None = option(None, "Predict on the workers of this Dask cluster.", "ADDRESS")
    ray: str | None = option(None, "Predict on the workers of this Ray cluster.", "ADDRESS")

    def check(self) -> None:
        """Raises: BadInput: an option says what another one says already."""
        if self.dask and self.ray:
            raise BadInput(f"--ray {self.ray!r}: is given beside --dask; name one cluster")

    @contextmanager
    def executor(self, most: int) -> "Iterator[Executor | Processes]":
        """What predicts: the workers of a cluster, or processes of this machine. Args: most: of these."""
        if not (address := self.dask or self.ray):
            from ...tuning.workers import Processes

            processes = Processes(most)
            try:
                yield processes
            finally:
                processes.end()
            return
        from ...tuning.clusters import CLUSTERS, NoCluster

        name = "--dask" if self.dask else "--ray"
        try:
            with CLUSTERS[name](address) as executor, redirect_stdout(sys.stderr):  # Ray prints what it meets
                yield executor
        except NoCluster as error:
            raise BadInput(f"{name} {error}") from None


class WorkOptions(LimitOptions, WorkersOptions, ClusterOptions):
    """Where predictions are made, and what they may take."""


@spread
def tune(context: typer.Context, *, asked: TuneOptions, layer: LayerOptions, work: WorkOptions) -> None:
    """Rank the configurations of every kernel that a function launches, by predicted time, without running them.

    Configurations are those of @triton.autotune, and those that --space and --sweep add, of kernels that are not
    autotuned as well. With --shapes the function takes arguments, and is called once for each line.
    """
    asked.check_formats(layer, given(context))
    name, gpu = device_given(asked.device, asked.set_)
    limit_s, portion = limit_of(work.time_limit), asked.portion()
    need_compiler("tune")
    from ...simulator.prediction.kernels import Request

    wanted = Request(device=gpu, name=name, compile_limit_s=work.code_s, limit_s=limit_s)
    how: dict[str, Any] = {"target": wanted, "store": _store(asked.store), "workers": work.processes}
    remarks = asked.notes(name, gpu)
    if asked.format in ENGINES:
        _tune_layer(context, asked, layer, work, portion, how)
        return
    tuning, complete = _tuned(asked, work, portion, how)
    _deliver(context, replace(tuning, notes=(*remarks, *tuning.notes)), gpu, asked)
    if not (tuning.complete and complete):
        raise typer.Exit(1)


def _tune_layer(
    context: typer.Context,
    asked: TuneOptions,
    layer: LayerOptions,
    work: WorkOptions,
    portion: "KeepFraction | None",
    how: Mapping[str, Any],
) -> None:
    """Tune the kernels of a layer, and write the engine's file."""
    from ...tuning.answers import predict_all
    from ...tuning.engines.tune import tune_layer

    target, folder = how["target"], asked.to or Path()
    settings = tuple(asked.set_ or ())
    question = layer.question(str(asked.format), asked.target or "", target.name, asked.values(), settings, work.code_s)
    question = replace(question, portion=portion or question.portion)
    file = layer_file(question, target.name)
    spare(context, "--to", folder / file)
    with _one_line(), work.executor(work.processes) as executor, progress("launches") as tick:
        answered = tune_layer(question, target, partial(predict_all, **how, executor=executor, progress=tick))
    notes = (*asked.notes(target.name, target.device), *answered.notes)
    deliver_layer(question, replace(answered, notes=notes), folder, file, asked)


def _tuned(
    asked: TuneOptions, work: WorkOptions, portion: "KeepFraction | None", how: Mapping[str, Any]
) -> "tuple[Tuning, bool]":
    """The launches of the function, tuned, and whether it came to its end."""
    from ...kernels.capture.file import Asked, capture_calls
    from ...tuning.answers import predict_all
    from ...tuning.screening import USUAL, Screening
    from ...tuning.tune import read_shapes, tune_recorded

    target, of = str(asked.target), how["target"]
    question = Asked(
        device=of.name,
        settings=asked.set_ or (),
        shapes=read_option("--shapes", asked.shapes, read_shapes) if asked.shapes else ({},),
        space=asked.values(),
        triton_cache=asked.format == "triton-cache",
        timeout_s=work.code_s,
    )
    with _one_line():
        with stages() as on_progress:
            on_progress(f"{target}: function")
            recorded = capture_calls(target, question)
        ended = [function.ended for function in recorded if function.ended]
        for error in ended:
            say(f"{target}: ended in an error, launches before it are tuned: {error}")
        announce = cache(announce_compiler)
        with work.executor(work.processes) as executor:

            def predicted(calls: "Sequence[KernelLaunch]") -> "list[KernelRow]":
                with progress("configurations") as tick:

                    def under_way(done: int, total: int) -> None:
                        if done < total:  # answers that are kept load no engine
                            announce()
                        tick(done, total)

                    return predict_all(calls, **how, executor=executor, progress=under_way)

            screening = Screening(device=of.device, portion=portion or USUAL)
            return tune_recorded(target, recorded, of.name, predicted, screening), not ended


def _deliver(context: typer.Context, tuning: "Tuning", gpu: Device, asked: TuneOptions) -> None:
    """Print the answer, and write its files."""
    from ...tuning import formats
    from ...tuning.report import tuning_text

    def page() -> str:
        from ...tuning.html import tuning_html  # loads what draws

        return tuning_html(tuning, made(context))

    as_configs = asked.format == "triton-config"
    answer(
        replace(asked, json=asked.json and not as_configs),
        lambda: (
            formats.triton_configs(tuning, asked.top)
            if as_configs
            else tuning_text(tuning, asked.top, text_width(), text_color())
        ),
        tuning.to_dict,
        csv=tuning.flat_rows,
        html=page,
    )
    if asked.format != "triton-cache" or asked.to is None:
        return
    files = {path: text for launch in tuning.launches for path, text in formats.triton_cache(launch).items()}
    if not files:
        raise Failed("--format triton-cache: no kernel has an autotuner that keeps its timings (a key, no pre_hook)")
    say(
        f"--format triton-cache: Triton reads these files on every GPU of sm_{gpu.capability}, whichever of them they "
        f"are predicted for: here {tuning.device}"
    )
    for path, text in files.items():
        spare(context, "--to", asked.to / path)
        (asked.to / path).parent.mkdir(parents=True, exist_ok=True)
        write_file(asked.to / path, text, "TRITON_CACHE_AUTOTUNING=1 reads it, with the folder as TRITON_CACHE_DIR")


@contextmanager
def _one_line() -> Iterator[None]:
    """Errors of capture and prediction as those of the command line."""
    from ...tuning.workers import LostWorkers

    try:
        with users_code():
            yield
    except LostWorkers as error:
        raise Failed(str(error)) from None


def _store(file: Path | None) -> "Store | None":
    from ...simulator.store.store import Store, usual_store

    if file is None:
        return usual_store()
    with bad_input(before="--store "):
        Store(file).check()
    return Store(file)
