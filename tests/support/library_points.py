"""Random points of what `explore` looks at whose kernels the library keeps, answered by it and by the compiler.

Left out is what is known to be answered further off: strips of few tiles (`keys.is_rough`), kernels that spill (where
bytes of spills and their share of L1 depend on the launch), and rows that fill less of their tiles than those kept.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tilesight.simulator.device.device import load_device
from tilesight.simulator.explore.space import configs_of
from tilesight.simulator.launch.program import Launch, Resources
from tilesight.simulator.library.keys import is_rough
from tilesight.simulator.library.lookup import resources_of_all
from tilesight.simulator.prediction.launch import LaunchPrediction
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.refusal import Refusal
from tilesight.simulator.resolve import attempt_launches
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import simulate
from tilesight.validate.library.build import ROW_SIXTEENTHS

from tilesight.compiling import compiler

LEAST, MOST, MOST_STORED = 1024, 8192, 2048
"""Lengths at least (costs of loops of ten iterations are 6 % off), at most, and at most where scores are stored."""
WHOLE = 256
"""Half of the lengths are multiples of all tiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A question that the library answers."""

    problem: AttentionProblem
    schedule: str
    config: Config
    device: str

    def answers(self) -> tuple[tuple[LaunchPrediction, LaunchPrediction], ...]:
        """Each launch as the library, and as the compiler has it."""
        compiled = compiler(self.problem, self.device, everything=True, workers=1)
        kept, made = (
            simulate(
                self.problem, schedule=self.schedule, config=self.config, device=self.device, resources_of=resources_of
            )
            for resources_of in (None, compiled)
        )
        return tuple(zip(kept.launches, made.launches, strict=True))


def points(schedule: str, device: str, seed: int) -> Iterator[Point]:
    """Points without end: problems of usual head dims, lengths as they come, a configuration of the space each."""
    draw = random.Random(f"{schedule} {device} {seed}")
    chosen, gpu = find_schedule(schedule), load_device(device)
    configs = list(configs_of(chosen, [chosen], {}, "compiled"))
    longest = MOST_STORED if chosen.baseline or schedule == "unfused" else MOST
    while True:
        queries, keys = sorted(_length(draw, longest) for _ in "MN")
        if draw.random() < 0.7:
            queries = keys
        problem = AttentionProblem(
            batch=draw.choice((1, 2, 4)),
            heads=draw.choice((8, 16, 32)),
            seqlen_q=queries,
            seqlen_k=keys,
            head_dim=draw.choice((64, 128)),
            dtype=draw.choice(("fp16", "bf16")),
            causal=draw.random() < 0.5,
        )
        config = draw.choice(configs)
        launches = attempt_launches(problem, schedule, config, gpu)
        if isinstance(launches, Refusal):
            continue
        resources = resources_of_all(launches, gpu)
        if isinstance(resources, tuple) and not any(map(_known_to_be_off, launches, resources)):
            yield Point(problem=problem, schedule=schedule, config=config, device=device)


def _known_to_be_off(launch: Launch, resources: Resources) -> bool:
    tile = int(launch.constants.get("block_cols", 0))
    unfilled = tile and 16 * launch.arguments["seqlen_k"] < ROW_SIXTEENTHS[0] * tile
    return bool(is_rough(launch) or resources.spilled_bytes_per_thread or unfilled)


def _length(draw: random.Random, longest: int) -> int:
    length = round(LEAST * (longest / LEAST) ** draw.random())
    return -(-length // WHOLE) * WHOLE if draw.random() < 0.5 else length
