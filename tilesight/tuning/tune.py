"""`tilesight tune` without its command line: recorded launches in, configurations ranked by predicted time out."""

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from ..predicting import refused_row
from ..store.store import Store
from .answers import Progress, TargetDevice, predict_all
from .tuning import Configured, TunedLaunch, Tuning, ranked

if TYPE_CHECKING:
    from ..kernels.capture.file import RecordedFunction


class NothingToTune(ValueError):
    """No launch has more than one configuration; the text is one line."""


def tune_recorded(
    name: str,
    recorded: "Sequence[RecordedFunction]",
    target: TargetDevice,
    *,
    store: Store | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Rank the configurations of every launch that has several.

    Args:
        name: of the function; recorded: what it launches, at each shape; the rest as `answers.predict_all`.

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
    rows = dict(zip(map(id, asked), predict_all(
        asked, target, store=store, executor=executor, workers=workers, progress=progress
    ), strict=True))  # fmt: skip
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
    return Tuning(target=name, device=target.name, launches=tuple(launches), notes=tuple(notes))
