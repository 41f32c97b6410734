"""Recorded launches, compiled: the machine code of whatever kernel a user has, through the door that the twins take."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import triton

from ...simulator.device.device import Device
from ...simulator.launch.program import Code, Resources
from ...simulator.sass.constants import Parameter, constant_bank
from . import ttir, worker
from .call import KernelCall
from .outcomes import Failure, answers_of, outcome_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCall:
    """A recorded launch and its machine code.

    Args:
        call: the launch; resources: of a CTA, with the code in them;
        lines: (address [B], file, line) where instructions of another line of the user's code begin.
    """

    call: KernelCall
    resources: Resources
    lines: tuple[tuple[int, str, int], ...]


def compile_calls(
    calls: Sequence[KernelCall], device: Device, *, workers: int | None = None
) -> list[CompiledCall | Failure]:
    """Compile recorded launches for a device; results are kept on disk.

    Args:
        calls: lowered for the device's compute capability; workers: compiler processes, one per core where None.

    Returns:
        One outcome per launch, in order.
    """
    jobs = {call_key(call.job): dict(call.job) | {"code": True} for call in calls}
    with answers_of(jobs, workers) as answer:
        return [_outcome(call, answer(call_key(call.job)), device) for call in calls]


def call_key(job: Mapping[str, Any]) -> str:
    """Name of a job's result in the cache: the IR holds all that the compiler sees of a launch."""
    made_by = [triton.__version__, *(Path(str(one.__file__)).read_text(encoding="utf-8") for one in (worker, ttir))]
    text = json.dumps([dict(job), made_by], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _outcome(call: KernelCall, answer: dict[str, Any], device: Device) -> CompiledCall | Failure:
    outcome = outcome_of(answer, device)
    if isinstance(outcome, Failure):
        return Failure(reason=f"kernel {call.name}: {outcome.reason}", resources=outcome.resources)
    code = answer["code"]
    bank = constant_bank(
        int(call.job["capability"]),
        [Parameter(**told) for told in code["parameters"]],
        call.arguments,
        grid=call.grid,
        warps=outcome.resources.warps_per_cta,
    )
    return CompiledCall(
        call=call,
        resources=replace(outcome.resources, code=Code(sass=code["sass"], constants=bank)),
        lines=tuple((address, file, line) for address, file, line in code["lines"]),
    )
