"""The process that runs a user's step without a GPU, and tells what it launches in plain values.

Run as `python -m tilesight.kernels.pytorch.worker`; `file` starts and feeds it. Messages are lines of JSON; what the
user's code prints goes to stderr.
"""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ...simulator.device.device import Device, load_device
from ...simulator.device.what_if import override
from ...simulator.jobs.processes import Ask, serve_asking
from ...simulator.operations.operation import RecordedStep
from ...simulator.refusal import UserError
from ..capture.lowering import lower_or_refuse
from ..capture.recorded import RecordedLaunch
from ..capture.user_function import INPUTS, located, module_of, needs_arguments, raised_by, user_function
from ..compile.call import ValueTexts, to_plain
from ..kept.opened import FileAccessLog
from .recorder import DependsOnData
from .step import Session, recording


def answer(job: dict[str, Any], ask: Ask) -> dict[str, Any]:
    """Record a step.

    Args:
        job: file, function, device, settings (what-ifs of it, `key=value`), mode, train, indices, gpus, rank; asked_ns:
            when that was [ns]; aside: folders whose files do not count among what the step is made of.
        ask: told `calls` and their `values`, as below, it tells `times_s` of these: None where unknown.

    Returns:
        step: `RecordedStep` in plain values; calls: launches as `call.to_plain` has them, beside `values` that they
        share; witnesses: files that the step is made of, None: unknown. Or `unusable`: what is wrong with what was
        asked for, or `raised`: what the user's code raised; one line.
    """
    opened = FileAccessLog(job["asked_ns"], job["aside"])
    device = override(load_device(job["device"]), list(job["settings"]))
    path = Path(job["file"])
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # what is raised is told
    try:
        path = located(job["file"])
    except UserError as error:
        return {"unusable": str(error)}
    made = answered(
        lambda: recording(
            *(device, job["mode"], job["train"], job["indices"]),
            times=times_of(device, ask),
            gpus=job["gpus"],
            rank=job["rank"],
        ),
        lambda session: _run(session, path, job["function"]),
        device,
        path,
    )
    witnesses = opened.witnesses()
    return made | {"witnesses": None if witnesses is None else [asdict(witness) for witness in witnesses]}


def answered(
    begin: Callable[[], AbstractContextManager[Session]], run: Callable[[Session], Any], device: Device, path: Path
) -> dict[str, Any]:
    """What becomes of a step.

    Args:
        begin: a recording; run: runs the step there; device: that is spoken of; path: of the user's file.

    Returns:
        As `answer`.
    """
    try:
        with begin() as session:
            ended = _ended(lambda: run(session), path)
            step = replace(session.step(), ended=ended)
    except UserError as error:
        return {"unusable": str(error)}
    except (Exception, SystemExit) as error:
        return {"raised": _reason(error, path)}
    if ended and not step.operations:
        return {"raised": ended}
    return {"step": plain_step(step)} | _plain_calls(session.captures, device)


def _plain_calls(captures: Sequence[RecordedLaunch], device: Device) -> dict[str, Any]:
    values: ValueTexts = {}
    capability = device.capability
    return {"calls": [to_plain(lower_or_refuse(capture, capability), values) for capture in captures], "values": values}


def times_of(device: Device, ask: Ask) -> Callable[[Sequence[RecordedLaunch]], list[float | None]]:
    """What has launches predicted by whoever asked for the recording. Args: device: that is spoken of."""

    def times(captures: Sequence[RecordedLaunch]) -> list[float | None]:
        return list(ask(_plain_calls(captures, device))["times_s"])

    return times


def _ended(run: Callable[[], Any], path: Path) -> str:
    """What a step raised, in one line; empty: it ran to its end. Raises: UserError: it cannot be run."""
    try:
        run()
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        return _reason(error, path)
    return ""


def plain_step(step: RecordedStep) -> dict[str, Any]:
    """A step as JSON can hold it."""
    names = ("mode", "peak_bytes", "parameter_bytes", "graphed", "ended")
    return {name: getattr(step, name) for name in names} | {
        "notes": list(step.notes),
        "operations": [operation.to_dict() for operation in step.operations],
    }


def _run(session: Session, path: Path, name: str) -> None:
    """Call the function with what `inputs` of its file makes, if it takes something."""
    module = module_of(path)
    function, maker = getattr(module, name, None), _maker(module, name)
    make = getattr(module, maker, None)
    if not callable(function) or make is None or name == INPUTS or not inspect.signature(function).parameters:
        if callable(function) and (needed := needs_arguments(function)):
            raise UserError(
                f"{path.name}: {name} needs arguments ({needed}): write a function {INPUTS}(), or "
                f"{name}_{INPUTS}(), in the same file that returns them, as a tuple or a dict"
            )
        session.run(user_function(path, name))
        return
    args, options = _arguments(make())
    try:
        inspect.signature(function).bind(*args, **options)
    except TypeError as error:
        raise UserError(f"{path.name}: {name} does not take what {maker}() returns: {error}") from None
    session.run(function, args, options)


def _maker(module: Any, name: str) -> str:
    """What makes a step's inputs: for `vit_loss` the first that is there of vit_loss_inputs, vit_inputs, inputs."""
    words = name.split("_")
    names = ["_".join((*words[:count], INPUTS)) for count in range(len(words), 0, -1)]
    return next((maker for maker in names if callable(getattr(module, maker, None))), INPUTS)


def _arguments(made: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    if isinstance(made, dict):
        return (), made
    return (tuple(made) if isinstance(made, tuple | list) else (made,)), {}


def _reason(error: BaseException, path: Path) -> str:
    """What the user's code raised, in one line; below what torch's compiler makes of it."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, DependsOnData | UserError):
        cause = getattr(cause, "inner_exception", None) or cause.__cause__
    return str(cause) if cause is not None else raised_by(error, path)[:MOST_TEXT]


MOST_TEXT = 600
"""Characters of a reason: torch's compiler tells its environment, too."""

if __name__ == "__main__":
    serve_asking(answer)
