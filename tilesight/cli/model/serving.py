"""Asks for prefill and decode of a model's layers on a device: what is known from the store, the rest on all cores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...compiling import why_not
from ...simulator import units
from ...simulator.device.device import Device
from ...simulator.explore.explore import SHOWN, Exploration, explore
from ...simulator.explore.serving import Serving, ServingAnswer, decode_schedules, prefill_schedules, serve
from ...simulator.problems.attention import AttentionProblem
from ...simulator.schedules.registry import DEFAULT_SCHEDULE
from ...simulator.store.pipelines import answers
from ..compiled import CostOptions
from ..limit import limit_of
from ..output import announce_compiler, progress, say

DECODE_FIXED = ("num_warps", "num_stages")
"""Options that decode leaves as its schedule has them, as each of their values is a kernel more to compile."""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """How to ask."""

    l2: str
    overhead: str
    """Of prefill."""
    decode_overhead: str
    workers: int
    """Threads."""
    time_limit_s: float


def answer_of(
    asked: Serving, device: Device, device_name: str, asking: Asking, notes: tuple[str, ...]
) -> ServingAnswer:
    """A model on a device; on stderr each time as it is known.

    Of prefill, what the library of compiled kernels lacks is estimated, and the best compiled where torch and triton
    are installed; elsewhere narrow values are padded, and decode is a lower bound, as a note says.
    """

    def ranked(
        problem: AttentionProblem, schedules: Sequence[str], overhead: str, compiles: bool, **fixed: Any
    ) -> Exploration:
        resources_of, _ = CostOptions().source(device, asking.workers)
        with answers(announce_compiler), progress(f"configurations on {device_name}") as tick:
            return explore(
                problem,
                schedule=schedules,
                device=device,
                l2=asking.l2,
                overhead=overhead,
                resources_of=resources_of if compiles else None,
                workers=asking.workers,
                progress=tick,
                time_limit_s=asking.time_limit_s,
                each_limit_s=limit_of(None),
                with_baseline=False,
                best=SHOWN,
                **fixed,
            )

    def with_word(name: str, problem: AttentionProblem, exploration: Exploration) -> Exploration:
        time = f"{units.duration(exploration.ranked[0].costs[0])} a layer" if exploration.ranked else "not predicted"
        say(f"{device_name}, {name} of {problem.text}: {time}")
        return exploration

    def prefill(problem: AttentionProblem) -> Exploration:
        return with_word("prefill", problem, best_prefill(problem))

    def best_prefill(problem: AttentionProblem) -> Exploration:
        able = [schedule.name for schedule in prefill_schedules(problem)]
        in_library = able == [DEFAULT_SCHEDULE]
        exploration = ranked(problem, able, asking.overhead, not in_library)
        if lack or not in_library or not exploration.ranked or not exploration.ranked[0].is_estimated:
            return exploration
        best = exploration.ranked[0].config_dict()
        compiled = ranked(problem, [DEFAULT_SCHEDULE], asking.overhead, True, **best)
        return compiled if compiled.ranked else exploration

    def decode(problem: AttentionProblem) -> Exploration | None:
        able = decode_schedules(problem)
        if lack or not able:
            return None
        fixed = {name: able[0].options[name].default for name in DECODE_FIXED}
        names = [schedule.name for schedule in able]
        return with_word("decode", problem, ranked(problem, names, asking.decode_overhead, True, **fixed))

    lack = why_not()
    lacks = (f"decode is a lower bound: to predict it, {lack}",) if lack else ()
    asked = replace(asked, padded=bool(lack))
    return serve(asked, device, device_name, prefill, decode, asking.l2, asking.overhead, (*notes, *lacks))
