"""Recorded launches in, their configurations ranked by predicted time out: `tilesight.tune`, and the command's core."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from ..compiling import why_not
from ..predicting import refused_row
from ..simulator.arguments import instance, optional_whole
from ..simulator.device.device import Device, found_device
from ..simulator.jobs.stopping import LIMIT_S
from ..store.store import Store, usual_store
from .answers import Predict, TargetDevice, predict_all
from .tuning import Configured, TunedLaunch, Tuning, ranked

if TYPE_CHECKING:
    from ..kernels.capture.file import RecordedFunction
    from ..kernels.capture.recorded import Recording


class NothingToTune(ValueError):
    """No launch has more than one configuration; the text is one line."""


def tune(
    launches: "Recording",
    device: Device | str = "h200",
    *,
    store: str | PathLike[str] | None = None,
    executor: Executor | None = None,
    workers: int | None = 1,
    time_limit_s: float | None = LIMIT_S,
) -> Tuning:
    """Rank the configurations of every launch that has several, by predicted time, each by itself on empty caches.

    Args:
        launches: as `with tilesight.capture() as launches:` records them, of autotuned kernels, or with a `space`.
        device: a name, a path to a TOML file, or the device itself.
        store: file that answers are kept in as they come; None: beside those of all other predictions.
        executor: `concurrent.futures.Executor` that runs the work; its workers have this package, torch and triton.
        workers: processes of this machine where there is no executor; 1: all is done in this one; None: one per core,
            of a script with an `if __name__ == "__main__":` guard.
        time_limit_s: that each prediction may take once it is compiled; None: as long as it likes [s].

    Raises:
        RuntimeError: torch or triton is missing, or workers are lost again and again (one line).
        ValueError: nothing was recorded that has several configurations; unknown device; a store that cannot be used.
    """
    gpu, name = found_device(device)
    optional_whole("workers", workers)
    if reason := why_not():
        raise RuntimeError(reason)
    from ..kernels.capture.file import RecordedFunction
    from ..kernels.capture.lowering import lower_or_refuse
    from ..kernels.capture.recorded import Recording

    instance("launches", launches, Recording, "`launches` of `with tilesight.capture() as launches:`")
    capability = int(gpu.compute_capability.replace(".", ""))
    recorded = RecordedFunction(
        calls=tuple(lower_or_refuse(launch, capability) for launch in launches),
        notes=tuple(launches.notes),
        operations=launches.operations,
        ended=launches.ended,
        tuned=tuple(asdict(tuned) for tuned in launches.tuned),
    )
    kept = usual_store() if store is None else Store(Path(store))
    if store is not None and kept:
        kept.check()
    target = TargetDevice(device=gpu, name=name, limit_s=time_limit_s)
    predict = partial(predict_all, target=target, store=kept, executor=executor, workers=workers)
    return tune_recorded("recorded launches", [recorded], name, predict)


def tune_recorded(name: str, recorded: "Sequence[RecordedFunction]", device: str, predict: Predict) -> Tuning:
    """Rank the configurations of every launch that has several.

    Args:
        name: of the function; recorded: what it launches, at each shape; device: its name, that `predict` is for.

    Raises:
        NothingToTune: as its text says; LostWorkers: as `predict_all`.
    """
    from ..kernels.compile.call import KernelCall

    groups = [(function, tuned) for function in recorded for tuned in function.tuned]
    members = [[call for call in function.calls if call.tuned == tuned["number"]] for function, tuned in groups]
    if not any(len(calls) > 1 for calls in members):
        kernels = ", ".join(dict.fromkeys(call.name for function in recorded for call in function.calls))
        raise NothingToTune(
            f"{name}: {kernels}: has no configurations to choose from: @triton.autotune names some, or --space does"
        )
    asked = [call for calls in members for call in calls if isinstance(call, KernelCall)]
    rows = dict(zip(map(id, asked), predict(asked), strict=True))
    launches = []
    for (function, tuned), calls in zip(groups, members, strict=True):
        configured = [
            Configured(
                values=call.configuration,
                row=rows[id(call)] if isinstance(call, KernelCall) else refused_row(call),
                authors=call.label in tuned["authors"],
            )
            for call in calls
        ]
        default = next((item.values for item in configured if item.row.label == (tuned["authors"] or ("",))[0]), {})
        launches.append(
            TunedLaunch(
                kernel=tuned["kernel"],
                shape=function.arguments,
                key=tuned["key"],
                configured=ranked(configured),
                default=default,
                cache=tuned["cache"],
                cache_key=tuple(tuned["cache_key"]),
            )
        )
    notes = dict.fromkeys(note for function in recorded for note in function.notes)
    return Tuning(target=name, device=device, launches=tuple(launches), notes=tuple(notes))
