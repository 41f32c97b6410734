"""The points that `validate` runs unless told otherwise: a short list that is written out, and a long one.

The long one is the short one, and more, drawn by a seeded generator over schedules x shapes x configurations,
good and bad: half of them in groups of configurations of one shape (so that rankings can be judged), half one by one.
"""

import random
from collections.abc import Sequence
from typing import Any

from ...simulator.device.device import Device
from ...simulator.launch.program import Launch
from ...simulator.problems.attention_backward import AttentionBackwardProblem
from ...simulator.problems.problem import Problem
from ...simulator.refusal import Refusal
from ...simulator.residency.occupancy import occupancy
from ...simulator.schedules.config import Config
from ...simulator.schedules.registry import find_schedule
from .draws import drawn_problems
from .point import Point, runnable_config
from .shapes import SHAPES, problem_for

DRAWN_POINTS = 320
GROUP = 11
"""Configurations of one shape, where a shape has a group."""
GROUP_S = {"prefill": 3e-4, "masked": 3e-4, "chunk": 1e-4, "decode": 3e-5, "latent": 3e-5}
"""Shortest estimated run of a shape that gets a group: rankings of launch overheads say nothing [s]."""
PASS_S = 0.05
"""Longest estimated time of one run of all launches of a drawn point; measuring takes some tens of runs [s]."""
TRIES = 200
"""Draws without a point that can be measured after which a schedule gets no more."""
MEMORY_SHARE = 0.6
"""Most of the device memory that the tensors of a drawn point take together."""
REFERENCE_MATRICES = 8
"""Score matrices of a head, in fp64, that the reference of gradients holds at once."""
GOOD = {"block_m": (64, 128), "block_n": (32, 64, 128), "num_stages": (2, 3, 4)}
ORDERS = {
    "cta_order": ("m-fast", "m-reversed", "head-fast", "longest-first"),
    "kv_order": ("forward", "forward", "forward", "sawtooth"),
    "persistent": (0, 0, 0, 0, 1, 2),
    "recomputed": (0, 1),
    "deterministic": (0, 0, 0, 1),
}
"""Options that schedules leave out of their spaces; a value that stands twice is drawn twice as often."""
SLOWEST_FLOP_PER_S, USUAL_FLOP_PER_S = 4e13, 2e14
"""Rates of products with fewer than 64 rows or no stages, and of the others; a low guess."""
BYTES_PER_S = 2.5e12


def default_points(schedules: Sequence[str], l2: str = "cold") -> list[Point]:
    """The short list: what the `coverage` of each of these schedules says."""
    points = []
    for schedule in schedules:
        for shape, options in find_schedule(schedule).coverage.points:
            problem = problem_for(find_schedule(schedule), SHAPES[shape])
            points.append(Point(schedule=schedule, problem=problem, config=runnable_config(schedule, **options), l2=l2))
    return list(dict.fromkeys(points))


def full_points(
    schedules: Sequence[str], device: Device, seed: int = 0, l2: str = "cold", drawn_points: int = DRAWN_POINTS
) -> list[Point]:
    """The long list: the short one, and points drawn for a device.

    Args:
        schedules: shares of what is drawn go by the weights of their `coverage`.
        seed: of the generator; the same seed, schedules, device and number give the same list.
        drawn_points: how many are drawn.
    """
    generator = random.Random(seed)
    weights = {name: find_schedule(name).coverage.weight for name in schedules}
    points = dict.fromkeys(default_points(schedules, l2))
    for schedule, weight in weights.items():
        wanted = -(-drawn_points * weight // sum(weights.values()))
        drawn: dict[Point, None] = {}
        groups = max(1, wanted // (2 * GROUP))
        for number in range(wanted - groups * (GROUP - 1)):
            size = GROUP if number < groups else 1
            if not any(_add(drawn, schedule, size, device, generator, l2) for _ in range(TRIES)):
                break
        points |= drawn
    return list(points)


def _add(taken: dict[Point, None], schedule: str, size: int, device: Device, generator: random.Random, l2: str) -> bool:
    """Draw a shape and a number of configurations of it that fit; whether that could be done."""
    shapes = find_schedule(schedule).coverage.shapes
    problem = _problem(schedule, device, generator, GROUP_S[shapes] if size > 1 else 0.0)
    if problem is None:
        return False
    drawn: dict[Point, None] = {}
    for _ in range(20 * size):
        config = _config(schedule, generator)
        point = Point(schedule=schedule, problem=problem, config=config, l2=l2) if config else None
        if point and point not in taken and measurable_pass_s(point, device) is not None:
            drawn[point] = None
        if len(drawn) == size:
            taken |= drawn
            return True
    return False


def _problem(schedule: str, device: Device, generator: random.Random, least_s: float) -> Problem | None:
    """A shape that the default configuration can run in time; None where the lengths drawn allow none."""
    able = []
    for problem in drawn_problems(find_schedule(schedule), generator):
        point = Point(schedule=schedule, problem=problem, config=runnable_config(schedule))
        pass_s = measurable_pass_s(point, device)
        if pass_s is not None and pass_s >= least_s:
            able.append(problem)
    return generator.choice(able) if able else None


def _config(schedule: str, generator: random.Random) -> Config | None:
    """A configuration, from the whole space or the part that is good for most shapes; None where options clash."""
    declared = find_schedule(schedule)
    good = generator.random() < 0.6
    chosen: dict[str, Any] = {}
    for name, values in {**ORDERS, **declared.space}.items():
        if name in declared.options:
            kept = [value for value in values if not good or value in GOOD.get(name, values)]
            chosen[name] = generator.choice(kept or list(values))
    try:
        return runnable_config(schedule, **chosen)
    except ValueError:
        return None


def measurable_pass_s(point: Point, device: Device) -> float | None:
    """How long all launches of a point take once, as `longest_pass_s` guesses [s]; None where it cannot be measured.

    It can where the schedule can do it, a CTA fits by the estimates, all tensors fit, and a pass is short enough.
    """
    launches = point.attempt(device)
    if isinstance(launches, Refusal):
        return None
    if any(isinstance(occupancy(launch.resources, launch.warps_per_cta, device), Refusal) for launch in launches):
        return None
    pass_s, needed_bytes = longest_pass_s(point, launches, device), held_bytes(launches)
    if isinstance(point.problem, AttentionBackwardProblem):
        needed_bytes += REFERENCE_MATRICES * 8 * point.problem.seqlen_q * point.problem.seqlen_k
    return pass_s if needed_bytes <= MEMORY_SHARE * device.hbm_bytes and pass_s <= PASS_S else None


def held_bytes(launches: Sequence[Launch]) -> int:
    """Device memory for all tensors of a pipeline at once [B]."""
    return sum({tensor.name: tensor.size_bytes for launch in launches for tensor in launch.program.tensors}.values())


def longest_pass_s(point: Point, launches: Sequence[Launch], device: Device) -> float:
    """A guess, rather too high, at how long all launches of a point take once [s]."""
    problem, config, named = point.problem, point.config, point.config.named()
    slow = named.get("block_m", 64) < 64 or named.get("num_stages") == 1 or config.num_warps % 4
    total_s = held_bytes(launches) * 3 / BYTES_PER_S
    parallel = min(1.0, min(launch.cta_count for launch in launches) / device.sms)
    share = 0.25 if find_schedule(point.schedule).rewritten else 1.0
    rate = (SLOWEST_FLOP_PER_S if slow else USUAL_FLOP_PER_S) * parallel * share
    return total_s + problem.matmul_flop / rate
