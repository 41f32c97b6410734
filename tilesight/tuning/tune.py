"""Ranks the configurations of recorded launches by predicted time: `tilesight.tune`, and the command's core."""

import ast
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..compiling import why_not
from ..predicting import row_of
from ..simulator.arguments import instance, optional_whole
from ..simulator.device.device import Device, found_device
from ..simulator.display.render import times
from ..simulator.jobs.stopping import LIMIT_S
from ..simulator.prediction.kernels import Request
from ..simulator.refusal import UserError
from ..simulator.store.store import Store, usual_store
from .answers import Predict, predict_all
from .screening import ALL, USUAL, Screening
from .tuning import ALIKE, Configured, TunedLaunch, Tuning, ranked

if TYPE_CHECKING:
    from ..kernels.capture.file import RecordedFunction
    from ..kernels.capture.recorded import Recording
    from ..kernels.compile.call import KernelLaunch

ALLOWED = "NAME=VALUE, NAME=VALUE with numbers, texts in quotes, True, False or None"
"""What a line of `--shapes` says."""


def tune(
    launches: "Recording",
    device: Device | str = "h200",
    *,
    store: str | PathLike[str] | None = None,
    executor: Executor | None = None,
    workers: int | None = 1,
    time_limit_s: float | None = LIMIT_S,
    screened: bool = True,
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
        screened: whether of each launch no more than a third of the configurations, and 16, are predicted, the best by
            a static rank of their tiles, without those that cannot come near the first eight; else all are.

    Raises:
        RuntimeError: torch or triton is missing, or workers are lost again and again (one line).
        ValueError: nothing was recorded that has several configurations; unknown device; a store that cannot be used.
    """
    gpu, name = found_device(device)
    optional_whole("workers", workers)
    if reason := why_not():
        raise RuntimeError(reason)
    from ..kernels.capture.file import RecordedFunction
    from ..kernels.capture.lowering import lower_all
    from ..kernels.capture.recorded import Recording

    instance("launches", launches, Recording, "`launches` of `with tilesight.capture() as launches:`")
    capability = gpu.capability
    recorded = RecordedFunction(
        calls=tuple(lower_all(launches, capability, launches.numbers)),
        notes=tuple(launches.notes),
        operations=launches.operations,
        ended=launches.ended,
        tuned=tuple(asdict(tuned) for tuned in launches.tuned),
    )
    kept = usual_store() if store is None else Store(Path(store))
    if store is not None and kept:
        kept.check()
    target = Request(device=gpu, name=name, limit_s=time_limit_s)
    how: dict[str, Any] = {"target": target, "store": kept, "executor": executor, "workers": workers}
    screening = Screening(device=gpu, portion=USUAL if screened else ALL)
    return tune_recorded("recorded launches", [recorded], name, partial(predict_all, **how), screening)


def tune_recorded(
    name: str, recorded: "Sequence[RecordedFunction]", device: str, predict: Predict, screening: Screening
) -> Tuning:
    """Rank the configurations of every launch that has several.

    Args:
        name: of the function.
        recorded: what it launches, at each shape.
        device: name of the one that `predict` is for.
        screening: which of many configurations are predicted; what runs untuned is, in any case.

    Raises:
        UserError: as its text says; LostWorkers: as `predict_all`.
    """
    from ..kernels.compile.call import KernelLaunch

    groups = [(function, tuned) for function in recorded for tuned in function.tuned]
    members = [[call for call in function.calls if call.tuned == tuned["number"]] for function, tuned in groups]
    if not any(len(calls) > 1 for calls in members):
        kernels = ", ".join(dict.fromkeys(call.name for function in recorded for call in function.calls))
        raise UserError(
            f"{name}: {kernels}: no configurations to choose from: @triton.autotune names some, or --space does"
        )
    usable = [[call for call in calls if isinstance(call, KernelLaunch)] for calls in members]
    untuned = [
        [call for call in calls if call.label in tuned["authors"][:1]]
        for calls, (_, tuned) in zip(usable, groups, strict=True)
    ]
    rows = screening.predicted(usable, [call for calls in untuned for call in calls], predict)
    launches = []
    for (function, tuned), calls in zip(groups, members, strict=True):
        configured = [
            Configured(
                values=call.configuration,
                row=rows[id(call)] if isinstance(call, KernelLaunch) else row_of(call),
                authors=call.label in tuned["authors"],
            )
            for call in calls
            if id(call) in rows or not isinstance(call, KernelLaunch)
        ]
        default = next((item.values for item in configured if item.row.label == (tuned["authors"] or ("",))[0]), {})
        left_out = [call for call in calls if isinstance(call, KernelLaunch) and id(call) not in rows]
        launches.append(
            TunedLaunch(
                kernel=tuned["kernel"],
                shape=function.arguments,
                key=tuned["key"],
                configured=ranked(configured),
                left_out=tuple(call.configuration for call in left_out),
                default=default,
                cache=tuned["cache"],
                cache_key=tuple(tuned["cache_key"]),
                arguments=_numbers([call for call in calls if isinstance(call, KernelLaunch)]),
            )
        )
    notes = dict.fromkeys([*(note for function in recorded for note in function.notes), *key_notes(launches)])
    return Tuning(target=name, device=device, launches=tuple(launches), notes=tuple(notes))


def _numbers(calls: "Sequence[KernelLaunch]") -> dict[str, int | float]:
    """Arguments of a launch that are no pointers. Args: calls: its configurations."""
    kinds = dict(calls[0].job["signature"]) if calls else {}
    return {
        name: value
        for call in calls[:1]
        for name, value in call.arguments.items()
        if kinds.get(name, "*")[0] not in "*t"
    }


def key_notes(launches: Sequence[TunedLaunch]) -> list[str]:
    """A line for each kernel that is slower for it at a shape: what that costs, and which arguments differ there.

    Args:
        launches: in the order in which Triton meets them.
    """
    first: dict[str, TunedLaunch] = {}
    worst: dict[str, tuple[float, str]] = {}
    for launch in launches:
        before = first.setdefault(repr((launch.kernel, launch.key)), launch)
        winners, others = ([item for item in met.predicted if item.authors] for met in (before, launch))
        if len(winners) < 2 or len(others) < 2:
            continue
        again = next((item for item in others if item.values == winners[0].values), others[0])
        loss = again.time_s / others[0].time_s
        if loss > max(1.0 + ALIKE, worst.get(launch.kernel, (0.0, ""))[0]):
            worst[launch.kernel] = loss, _line(before, launch, again, others[0])
    return [line for _, line in worst.values()]


def _line(before: TunedLaunch, launch: TunedLaunch, again: Configured, best: Configured) -> str:
    differing = [
        f"{name} ({before.arguments.get(name)}, {value})"
        for name, value in launch.arguments.items()
        if name not in launch.key and before.arguments.get(name) != value
    ]
    lacking = f"add one of {', '.join(differing)}" if differing else "no number among its arguments tells them apart"
    return (
        f"kernel {launch.kernel}: at {_shown(launch.shape)} it runs what was tuned at {_shown(before.shape)}, as both "
        f"have the key {_shown(launch.key) or '()'}: {_shown(again.values)} takes {times(again.time_s / best.time_s)} "
        f"the time of the best there, {_shown(best.values)}; {lacking} to key"
    )


def _shown(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def read_shapes(path: Path) -> tuple[dict[str, Any], ...]:
    """The shapes in a file. Raises: OSError; ValueError: a line is none, or there is none (one line)."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError("is no text") from None
    shapes: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        said = line.partition("#")[0].strip()
        if not said:
            continue
        shape = _shape(said, f"line {number}: {said!r}")
        if shape in shapes:
            raise ValueError(f"line {number}: {said!r}: stands there already; give it once")
        shapes.append(shape)
    if not shapes:
        raise ValueError(f"has no line such as {ALLOWED}")
    return tuple(shapes)


def _shape(text: str, where: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call) and not call.args
        names = [str(keyword.arg) for keyword in call.keywords if keyword.arg is not None]
        assert len(set(names)) == len(call.keywords)
        return {name: ast.literal_eval(keyword.value) for name, keyword in zip(names, call.keywords, strict=True)}
    except (SyntaxError, ValueError, AssertionError):
        raise ValueError(f"{where}: must be {ALLOWED}") from None
