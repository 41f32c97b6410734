"""Real registers and shared memory of a launch, without a GPU: ahead-of-time compilation, cached on disk.

Each launch is compiled for its device's architecture exactly as the JIT would on that device,
in a process of its own: a configuration that kills the compiler becomes a `Refusal` like one that it refuses.
Results are kept in `$TILESIGHT_CACHE_DIR` (else `$XDG_CACHE_HOME/tilesight`, else `~/.cache/tilesight`),
keyed by the kernel's source, its arguments and options, the target, the version of Triton and the worker's source.
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import triton

from ...simulator.device.device import Device
from ...simulator.launch.outline import is_outline, storage_of
from ...simulator.launch.program import Launch, Resources
from ...simulator.refusal import Refusal
from ..launch.launch import interpreted, options_of, parameter_names, torch_dtype
from ..launch.registry import find_twin
from .made_by import made_by
from .outcomes import Compiled, Outcome, answers_of, code_of, outcome_of

KERNELS = Path(__file__).parents[1]
"""Folder of the kernels' source files."""


def with_resources(launch: Launch, outcome: Outcome) -> Launch:
    """The launch with compiled resources in the place of its own; unchanged where compilation failed."""
    return replace(launch, resources=outcome.resources) if isinstance(outcome, Compiled) else launch


def compile_many(
    launches: Iterable[Launch],
    device: Device,
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    code: bool = False,
) -> list[Outcome]:
    """Compile launches for a device, several at a time.

    Args:
        device: gives architecture and limits.
        workers: compiler processes; as many as there are cores where None.
        progress: called with (done, total) after each kernel, in the caller's thread.
        code: keep the machine code; results with and without it are kept apart on disk.

    Returns:
        One outcome per launch, in order.

    Raises:
        RuntimeError: triton was imported with TRITON_INTERPRET=1, and cannot compile in the same process.
    """
    if interpreted():
        raise RuntimeError("TRITON_INTERPRET is set: kernels are interpreted in this process, and cannot be compiled")
    jobs: dict[str, dict[str, Any]] = {}
    keys: list[tuple[str, Launch, dict[str, Any]] | Refusal] = []
    for launch in launches:
        try:
            job = job_of(launch, device)
        except ValueError as error:
            keys.append(Refusal("does not fit", str(error)))
        else:
            if code:
                job["code"] = True
            key = key_of(job)
            jobs[key] = job
            keys.append((key, launch, job))
    launches_of = Counter(keyed[0] for keyed in keys if not isinstance(keyed, Refusal))
    done = len(keys) - launches_of.total()

    def answered(key: str) -> None:
        nonlocal done
        done += launches_of[key]
        if progress:
            progress(done, len(keys))

    answers = answers_of(jobs, workers, answered)
    return [keyed if isinstance(keyed, Refusal) else _outcome(answers[keyed[0]], *keyed[1:], device) for keyed in keys]


def compile_pipelines(
    pipelines: Iterable[tuple[Launch, ...]],
    device: Device,
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[tuple[Resources, ...] | Refusal]:
    """Compiled resources of pipelines of launches, with code: what `simulator.explore` asks of its `resources_of`.

    Args:
        pipelines: launches that run one after the other; the rest as in `compile_many`.

    Returns:
        For each pipeline the resources of its launches, or why one of them cannot run.

    Raises:
        RuntimeError: as `compile_many`.
    """
    chains = list(pipelines)
    launches = [launch for chain in chains for launch in chain]
    outcomes = iter(compile_many(launches, device, workers=workers, progress=progress, code=True))
    return [_resources([next(outcomes) for _ in chain]) for chain in chains]


def _resources(outcomes: list[Outcome]) -> tuple[Resources, ...] | Refusal:
    for outcome in outcomes:
        if isinstance(outcome, Refusal):
            return outcome
    return tuple(outcome.resources for outcome in outcomes if isinstance(outcome, Compiled))


def _outcome(answer: dict[str, Any], launch: Launch, job: dict[str, Any], device: Device) -> Outcome:
    outcome = outcome_of(answer, device)
    if isinstance(outcome, Refusal) or "code" not in answer:
        return outcome
    code = code_of(answer, job, {**job["arguments"], **_addresses(launch, job)}, launch.grid, outcome.resources)
    # Copies of this project share answers on disk: the files are those of the copy that runs.
    lines = tuple((address, str(KERNELS / Path(file).name), line) for address, file, line in code.lines)
    return replace(outcome, resources=replace(outcome.resources, code=replace(code, lines=lines)))


def _addresses(launch: Launch, job: dict[str, Any]) -> dict[str, int]:
    """Parameter -> address of its tensor, of an outline, whose code is followed; nothing of any other launch."""
    if not is_outline(launch):
        return {}
    names = zip(job["pointers"], launch.program.tensors, strict=True)
    return {name: storage_of(tensor).address for name, tensor in names}


def compiler_text(device: Device) -> str:
    """Who compiles, and for what: e.g. `Triton 3.6.0 for sm_90`."""
    return f"Triton {triton.__version__} for sm_{device.capability}"


def job_of(launch: Launch, device: Device) -> dict[str, Any]:
    """What a compiler process needs to know of a launch. Raises: ValueError: no kernel can follow the launch."""
    twin = find_twin(launch)
    names = parameter_names(twin, launch)
    return {
        "module": twin.function.fn.__module__,
        "name": twin.function.fn.__name__,
        "source": twin.function.cache_key,
        "arguments": dict(twin.arguments),
        "pointers": {names[tensor.name]: str(torch_dtype(tensor)) for tensor in launch.program.tensors},
        "blocks": {names[name]: block for name, block in twin.blocks.items()},
        "capability": device.capability,
        "options": options_of(launch),
    }


def key_of(job: dict[str, Any]) -> str:
    """Name of a job's result in the cache.

    Run-time numbers count only as far as the compiler sees them: whether they are 1, or multiples of 16.
    """
    annotations = find_annotations(job)
    seen = {
        name: value if annotations.get(name) == "constexpr" or isinstance(value, bool) else _specialised(value)
        for name, value in job["arguments"].items()
    }
    text = json.dumps({**job, "arguments": seen, "made_by": made_by()}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def find_annotations(job: dict[str, Any]) -> dict[str, str]:
    """Which parameters of a job's kernel are compile-time constants: name -> `constexpr`."""
    function = getattr(sys.modules[job["module"]], job["name"])
    return {parameter.name: "constexpr" for parameter in function.params if parameter.is_constexpr}


def _specialised(value: float | str) -> str:
    if isinstance(value, int):
        wide = value >= 1 << 31
        return "one" if value == 1 else f"i{64 if wide else 32}{'x16' if value % 16 == 0 else ''}"
    return type(value).__name__
