"""Recorded launches, compiled: the machine code of whatever kernel a user has, through the door that the twins take."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

from ...simulator.device.device import Device
from ...simulator.emulator.storage import Storage
from ...simulator.emulator.tma.descriptor import image_of
from ...simulator.jobs.attempts import internal
from ...simulator.refusal import Refusal
from ...simulator.trace.cta.traced_kernel import CompiledKernel
from ..interpreter import Interpreter
from .call import KernelLaunch
from .diagnosis import specialisation_note
from .made_by import call_key
from .outcomes import answers_of, code_of, outcome_of
from .pool import Pool
from .worker import WORKSPACE

DESCRIPTOR = "tensordesc<"
ELEMENT_BYTES = {
    "i8": 1, "u8": 1, "fp8e4nv": 1, "fp8e5": 1, "fp8e4b8": 1, "fp8e5b16": 1, "fp8e4b15": 1,
    "i16": 2, "u16": 2, "fp16": 2, "bf16": 2, "i32": 4, "u32": 4, "fp32": 4, "i64": 8, "u64": 8, "fp64": 8,
}  # fmt: skip
"""Element type as Triton writes it -> size [B]."""
UNTOLD = re.compile(r"%(\w+): i(?:32|64) loc")
"""An integer parameter in the first IR, of which Triton was told no divisor."""
WORKSPACE_NUMBER = 1 << 20
"""Number of the storage that is the workspace of each launch: the allocator gives one after the other the same."""


def compile_calls(
    calls: Sequence[KernelLaunch],
    device: Device,
    *,
    workers: int | None = None,
    limit_s: float | None = None,
    on_progress: Callable[[int], None] = lambda number: None,
    interpreter: Interpreter | None = None,
) -> list[CompiledKernel | Refusal]:
    """Compile recorded launches for a device; results are kept on disk.

    Args:
        calls: lowered for the device's compute capability; workers: compiler processes, one per core where None;
        limit_s: that the compiler may take for each, None: as long as any kernel here takes [s];
        on_progress: called with the number of each launch that is waited for, from 0.
        interpreter: whose Triton compiles, None: that of this environment.

    Returns:
        Each launch as the tracer takes it, or why there is no code, in order.
    """
    keys = [call_key(call.job, interpreter.triton if interpreter else "") for call in calls]
    jobs = {key: dict(call.job) | {"code": True} for key, call in zip(keys, calls, strict=True)}
    first: dict[str, int] = {}
    for number, key in enumerate(keys):
        first.setdefault(key, number)
    following = dict(pairwise(first))
    if calls:
        on_progress(0)
    pool = Pool(interpreter) if interpreter else None
    try:
        answers = answers_of(
            jobs, workers, lambda key: on_progress(first[following[key]]) if key in following else None, limit_s, pool
        )
    finally:
        if pool:
            pool.close()
    outcomes: list[CompiledKernel | Refusal] = []
    for key, call in zip(keys, calls, strict=True):
        try:
            outcomes.append(_outcome(call, answers[key], device))
        except Exception as error:  # one launch that fails does not take the others along
            outcomes.append(Refusal("does not fit", f"kernel {call.name}: {internal(error, 'compile')}"))
    return outcomes


def _outcome(call: KernelLaunch, answer: dict[str, Any], device: Device) -> CompiledKernel | Refusal:
    outcome = outcome_of(answer, device)
    if isinstance(outcome, Refusal):
        return Refusal(outcome.kind, f"kernel {call.name}: {outcome.reason}")
    call = _with_workspace(call, int(answer["workspace_bytes"]))
    arguments = {**call.arguments, **_descriptors(call, answer["boxes"])}
    code = code_of(answer, call.job, arguments, call.grid, outcome.resources)
    note = specialisation_note(call.job, call.num_warps, outcome.resources.warps_per_cta)
    untold = UNTOLD.findall(call.job.get("ttir", ""))
    offsets = [(parameter["name"], parameter["address"]) for parameter in answer["code"]["parameters"]]
    return CompiledKernel(
        name=call.name,
        grid=call.grid,
        num_warps=call.num_warps,
        num_stages=call.num_stages,
        resources=replace(outcome.resources, code=code),
        storages=call.storages,
        notes=(f"kernel {call.name}: {note}",) if note else (),
        untold={name: (address, int(call.arguments[name])) for name, address in offsets if name in untold},
    )


def _with_workspace(call: KernelLaunch, bytes_per_cta: int) -> KernelLaunch:
    """The call with the memory that the compiler has it be given, where it does [B]."""
    if not bytes_per_cta:
        return call
    storage = Storage(number=WORKSPACE_NUMBER, size_bytes=bytes_per_cta * prod(call.grid), name="workspace")
    arguments = {**call.arguments, WORKSPACE: storage.address}
    return replace(call, storages=(*call.storages, storage), arguments=arguments)


def _descriptors(call: KernelLaunch, boxes: Sequence[Sequence[int]]) -> dict[str, int]:
    """Parameter -> the descriptor that the host would make of it, as a number. Args: boxes: of each, in order."""
    types = {name: kind for name, kind in call.job["signature"] if kind.startswith(DESCRIPTOR)}
    descriptors = {}
    for (name, kind), box in zip(types.items(), boxes, strict=False):
        shape, strides = (
            [int(call.arguments[f"{name}.{what}[{axis}]"]) for axis in range(len(box))] for what in ("shape", "stride")
        )
        size = ELEMENT_BYTES[kind[len(DESCRIPTOR) : kind.index("[")]]
        image = image_of(int(call.arguments[name]), shape, strides, box, size)
        descriptors[name] = int.from_bytes(image, "little")
    return descriptors
