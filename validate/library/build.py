"""Builds the library of kept kernels: compiles the common space, simulates an SM with each, writes the files.

    python -m tilesight.validate.library.build [--recorded FOLDER] [CAPABILITY ...]

The common space is what `explore` looks at for usual problems; beside it are kept the kernels of results files in a
folder, so that measured points can be predicted where there is no compiler.
Compiling takes hours on two cores the first time; it continues where it was stopped, since the compiler's answers
are kept (`compile.cache`), and takes nothing where only the simulator has changed. Needs torch and triton, no GPU.
"""

import random
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import triton

from ...kernels.compile.compile import compile_many
from ...kernels.compile.outcomes import Compiled, Outcome
from ...simulator.device.device import Device, catalogue, load_device
from ...simulator.display.files import write_whole
from ...simulator.jobs.pool import cores, run_all
from ...simulator.launch.program import Launch, Resources
from ...simulator.launch.walk import matmuls_of, steps
from ...simulator.library import keys, lookup
from ...simulator.library.files import Kernel, pack, unpack
from ...simulator.problems.attention import AttentionProblem
from ...simulator.schedules.config import Config
from ...simulator.schedules.contract import Schedule
from ...simulator.schedules.registry import written_schedules
from ..measure.results_file import read_results
from ..points.point import Point, runnable_schedules
from .kept_figures import difference, figures_on

ROOM = Path(lookup.__file__).parent
CAPABILITIES = (80, 90)
RECORDED_ON = 90
"""Architecture of the GPUs that results files are of."""
HEAD_DIMS = (64, 128)
LONG, RAGGED, ALIGNED = 4096, 4001, 4016
"""Lengths whose tiles are all whole; are not, with rows that are aligned, and that are not."""
SLABS = {"batch": 4, "heads": 32}
"""Enough CTAs for any GPU, several times over."""
ROW_LENGTHS = tuple(1 << power for power in range(6, 16))
ROW_SIXTEENTHS = (9, 12)
"""How far rows fill their tiles that do not fill them; and there are those that nearly do."""
ROW_ELEMENTS = (1 << 22, 1 << 27)
"""Elements of score matrices that L2 holds, and that it does not."""
SLICE = 100
"""Kernels that a process takes at a time."""


def attention_problems(head_dim: int) -> Iterator[tuple[AttentionProblem, tuple[str, ...]]]:
    """Problems that stand for all others in kernels that stream keys past queries, with the orders of CTAs for each."""
    for causal, orders in ((False, ("m-fast", "head-fast")), (True, ("m-fast", "longest-first"))):
        yield _problem(LONG, LONG, head_dim, causal=causal), orders
        yield _problem(RAGGED, RAGGED, head_dim, causal=causal), orders if causal else orders[:1]
    yield _problem(1, LONG, head_dim, batch=64), ("m-fast",)


def _problem(seqlen_q: int, seqlen_k: int, head_dim: int, **others: Any) -> AttentionProblem:
    return AttentionProblem(seqlen_q=seqlen_q, seqlen_k=seqlen_k, head_dim=head_dim, **(SLABS | others))


def wanted(device: Device) -> Iterator[Launch]:
    """Launches of the common space on a device, those first that are asked for most.

    The whole space of schedules that let CTAs be ordered, the matrix products of the baseline's, and the kernels
    between the products of every pipeline in its default configuration.
    """
    runnable = (written_schedules().get(name) for name in runnable_schedules())
    attention = [schedule for schedule in runnable if schedule and schedule.problem is AttentionProblem]
    for head_dim in HEAD_DIMS:
        for schedule in attention:
            if "cta_order" in schedule.options:
                for problem, orders in attention_problems(head_dim):
                    for config in _ordered(schedule, orders):
                        yield from _launches(schedule, problem, config, device)
        for length in (LONG, RAGGED, ALIGNED):
            problem = _problem(length, length, head_dim)
            for schedule in attention:
                for config in schedule.configs() if schedule.baseline else ():
                    yield from filter(matmuls_of, _launches(schedule, problem, config, device))
    for length, elements, causal in product(_row_lengths(), ROW_ELEMENTS, (False, True)):
        rows = min(length, LONG, elements // length)
        problem = _problem(rows, length, 64, batch=max(1, elements // (rows * length)), heads=1, causal=causal)
        for schedule in attention:
            launches = _launches(schedule, problem, schedule.default, device)
            yield from (launch for launch in launches if len(launches) > 1 and not matmuls_of(launch))


def _ordered(schedule: Schedule, orders: Sequence[str]) -> Iterator[Config]:
    """The space in each order of CTAs; and one stage, where the space has none, in the order that stands for others."""
    for config, order in product(schedule.configs(), orders):
        yield config.but(cta_order=order)
    if 1 not in schedule.space["num_stages"]:
        alone = (config for config in schedule.configs(num_stages=1) if not config.warp_specialize)
        yield from (config.but(cta_order="m-fast") for config in alone)


def recorded(folder: Path, device: Device) -> Iterator[tuple[Launch, Point]]:
    """Launches of the points that the results files of a folder hold, on a device, each with its point."""
    for path in sorted([*folder.rglob("*.jsonl"), *folder.rglob("*.jsonl.xz")]):
        for row in read_results(path)[1]:
            if row.resources:
                yield from ((launch, row.point) for launch in row.point.launches(device))


def _row_lengths() -> Iterator[int]:
    """Rows that fill their tiles; that fill half of them and more, aligned and not."""
    for length in ROW_LENGTHS:
        yield length
        parts = [length * sixteenths // 16 // keys.ALIGNED * keys.ALIGNED for sixteenths in ROW_SIXTEENTHS]
        yield from sorted({part for part in (*parts, length - keys.ALIGNED) if part > length // 2})
        yield from sorted({part + 1 for part in parts} | {length - 1})


def _launches(schedule: Schedule, problem: AttentionProblem, config: Config, device: Device) -> list[Launch]:
    try:
        return list(schedule.launches(problem, config, device))
    except ValueError:
        return []  # the device has no instruction for it


@cache
def groups(capability: int, folder: Path | None) -> tuple[tuple[tuple[str, str], tuple[Launch, ...]], ...]:
    """Kernels to keep: file and key, and the launches that each stands for, which have the same code.

    Args:
        folder: of results files; their launches count where no other stands in for them.
    """
    kept: dict[tuple[str, str], list[Launch]] = {}
    device = devices_of(capability)[0]
    for launch in wanted(device):
        key = keys.file_of(launch, capability), next(keys.keys_of(launch))
        kept.setdefault(key, []).append(launch)
    for launch, point in sorted(recorded(folder, device) if folder else (), key=_trips, reverse=True):
        names = [(keys.file_of(launch, capability), key) for key in keys.keys_of(launch)]
        if keys.by_length(launch):
            # The first half of its keys name the lengths, the second half stand for any.
            kept.setdefault(names[0], [launch])
            if names[len(names) // 2] not in kept:
                kept[names[len(names) // 2]] = [_repeating(launch, point, device)]
        elif not any(name in kept for name in names):
            kept[names[0]] = [launch]
    return tuple((key, tuple(group)) for key, group in kept.items())


def _trips(pair: tuple[Launch, Point]) -> tuple[int, int]:
    """Orders launches of the same code: the longest stands for the others, as a loop that runs once tells nothing."""
    lengths = pair[1].problem.seqlen_q, pair[1].problem.seqlen_k
    return min(lengths), max(lengths)


def _repeating(launch: Launch, point: Point, device: Device) -> Launch:
    """A launch whose loops all run more than once: that of the point, or of it with long lengths."""
    items = launch.program.items(np.arange(launch.program.period_items, dtype=np.int64))
    trips = dict(zip(launch.program.variables, items.max(axis=0).tolist(), strict=True))
    loops = {loop for _, around in steps(launch.program.body) for loop in around}
    if all((trips[loop.trips] if isinstance(loop.trips, str) else loop.trips) > 1 for loop in loops):
        return launch
    whole_m, whole_n = (launch.constants[name] for name in ("whole_m", "whole_n"))
    # Causal masks allow no more queries than keys.
    longer = point.problem.but(seqlen_q=LONG if whole_m else RAGGED, seqlen_k=LONG if whole_n else LONG + 1)
    launches = replace(point, problem=longer).launches(device)
    return next(other for other in launches if other.name == launch.name)


@cache
def devices_of(capability: int) -> tuple[Device, ...]:
    """Devices of the catalogue of an architecture."""
    return tuple(device for device in map(load_device, catalogue()) if device.capability == capability)


def build(capability: int, folder: Path | None, workers: int) -> None:
    """Write the files of an architecture. Args: folder: of results files, for what was measured there."""
    count = len(groups(capability, folder))
    firsts = range(0, count, SLICE)
    for first in firsts:
        some = groups(capability, folder)[first : first + SLICE]
        compile_many([launch for _, group in some for launch in group], devices_of(capability)[0], code=True)
        _say(f"sm_{capability}: {min(first + SLICE, count)} of {count} kernels compiled")
    kernels: dict[str, dict[str, Kernel]] = {}
    jobs = [(capability, folder, first) for first in firsts]
    for slice_ in run_all(kept_slice, jobs, workers, lambda done, total: _say(f"{done} of {total} slices simulated")):
        for (file, key), kernel in slice_.items():
            kernels.setdefault(file, {})[key] = kernel
    for file, kept in kernels.items():
        path = path_of(file)
        path.parent.mkdir(exist_ok=True)
        write_whole(path, pack(kept, made_here()))
        _say(f"wrote {file}: {len(kept)} kernels, {path.stat().st_size} B")


def made_here() -> dict[str, str]:
    """What the header of a file says of who made it."""
    return {"triton": triton.__version__}


def check(capability: int, folder: Path | None, count: int, seed: int) -> list[str]:
    """Make a sample of the kept kernels anew; those that are not kept yet are left to `add`.

    Args:
        folder: as in `build`; count: kernels of the sample; seed: of their choice.

    Returns:
        The kernels that come out otherwise than they are kept, a line each.
    """
    known = dict(groups(capability, folder))
    others = []
    kept = sorted((file, key) for file, key in known if key in kept_in(file))
    for file, key in random.Random(seed).sample(kept, min(count, len(kept))):
        if unlike := difference(kept_in(file).get(key), made_anew(capability, known[file, key])):
            others.append(f"{file}: {key}: {unlike}")
    return others


def add(capability: int, folder: Path | None, most: int) -> int:
    """Make a number of kernels that are not kept, so that a build goes on in parts. Returns: how many remain."""
    missing = [(name, group) for name, group in groups(capability, folder) if name[1] not in kept_in(name[0])]
    made: dict[str, dict[str, Kernel]] = {}
    for (file, key), group in missing[:most]:
        made.setdefault(file, {})[key] = made_anew(capability, group)
    for file, kernels in made.items():
        write_whole(path_of(file), pack({**kept_in(file), **kernels}, made_here()))
    return len(missing[most:])


def renew(capability: int, folder: Path | None, workers: int) -> list[str]:
    """Make every kept kernel anew, and keep those as they came out that differ; stamp all files as of today.

    Args:
        folder: as in `build`; kept kernels that it does not name stay as they are.

    Returns:
        What was kept of each that differs, a line each.
    """
    count = len(groups(capability, folder))
    contents = {file: dict(kept_in(file)) for (file, key), _ in groups(capability, folder) if key in kept_in(file)}
    jobs = [(capability, folder, first) for first in range(0, count, SLICE)]
    others = []
    for slice_ in run_all(renewed_slice, jobs, workers, lambda done, total: _say(f"{done} of {total} slices anew")):
        for (file, key), kernel in slice_.items():
            others.append(f"{file}: {key}: {difference(contents[file][key], kernel)}")
            contents[file][key] = kernel
    for file, kernels in contents.items():
        write_whole(path_of(file), pack(kernels, made_here()))
    return others


@cache
def kept_in(file: str) -> dict[str, Kernel]:
    """Kernels of a file of the library, by key; none where there is no such file. Args: file: as in `keys.file_of`."""
    return unpack(path_of(file).read_bytes())[0] if path_of(file).exists() else {}


def path_of(file: str) -> Path:
    """Where a file of the library lies. Args: file: as in `keys.file_of`."""
    return ROOM / (file + lookup.SUFFIX)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def kept_slice(job: tuple[int, Path | None, int]) -> dict[tuple[str, str], Kernel]:
    """Kernels of an architecture from one on. Args: job: capability, folder as in `groups`, number of the first."""
    capability, folder, first = job
    return {name: made_anew(capability, group) for name, group in groups(capability, folder)[first : first + SLICE]}


def renewed_slice(job: tuple[int, Path | None, int]) -> dict[tuple[str, str], Kernel]:
    """Those of a slice that are kept, and come out otherwise. Args: as of `kept_slice`."""
    capability, folder, first = job
    renewed = {}
    for (file, key), group in groups(capability, folder)[first : first + SLICE]:
        if key in kept_in(file) and difference(kept_in(file)[key], made := made_anew(capability, group)):
            renewed[file, key] = made
    return renewed


def made_anew(capability: int, group: Sequence[Launch]) -> Kernel:
    """A kernel as it is compiled and simulated here. Args: group: launches that it stands for."""
    devices = devices_of(capability)
    outcomes = compile_many(group, devices[0], code=True, workers=1)
    return kept_kernel(devices, list(zip(group, outcomes, strict=True)))


def kept_kernel(devices: Sequence[Device], group: Sequence[tuple[Launch, Outcome]]) -> Kernel:
    """What is kept of a kernel.

    Args:
        devices: of its architecture; group: launches that it stands for, with what the compiler made of them.
    """
    outcome = group[0][1]
    if not isinstance(outcome, Compiled):
        return Kernel(resources={}, reason=outcome.reason)
    made = [replace(launch, resources=outcome.resources) for launch, outcome in group if isinstance(outcome, Compiled)]
    try:
        figures = figures_on(made, devices)
    except ValueError as error:
        return Kernel(resources=_numbers(outcome.resources), reason=str(error))
    return Kernel(resources=_numbers(outcome.resources), figures=figures)


def _numbers(resources: Resources) -> Mapping[str, int]:
    names = ("registers_per_thread", "smem_bytes_per_cta", "spilled_bytes_per_thread", "warps_per_cta")
    return {name: getattr(resources, name) for name in names}


def main(arguments: Sequence[str]) -> None:
    """Build what the command line asks for."""
    parser = ArgumentParser(prog="build_library", description="Build the library of kept kernels.")
    parser.add_argument(
        "capability", nargs="*", type=int, choices=CAPABILITIES, help="e.g. 90; all where none is given"
    )
    parser.add_argument("--recorded", type=Path, metavar="FOLDER", help="of results files whose kernels are kept too")
    parser.add_argument("--check", type=int, metavar="N", help="make N kernels anew and compare, in place of all")
    parser.add_argument("--renew", action="store_true", help="make what is kept anew, and keep what differs")
    parser.add_argument("--add", type=int, metavar="N", help="make N of those that are not kept, in place of all")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of those")
    chosen = parser.parse_args(arguments)
    for capability in chosen.capability or CAPABILITIES:
        folder = chosen.recorded if capability == RECORDED_ON else None
        if chosen.renew:
            _say("\n".join(renew(capability, folder, cores())))
        elif chosen.add is not None:
            _say(f"sm_{capability}: {add(capability, folder, chosen.add)} kernels remain to be made")
        elif chosen.check is None:
            build(capability, folder, cores())
        elif others := check(capability, folder, chosen.check, chosen.seed):
            sys.exit("\n".join(["not as kept:", *others]))


if __name__ == "__main__":
    main(sys.argv[1:])
