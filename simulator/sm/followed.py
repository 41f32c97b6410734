"""The code of a launch as one of its CTAs runs it: all that the simulation of an SM needs, but for the rest of the GPU.

In: a launch with its machine code. Out: the table of its instructions, the control paths of its warps, and which
step each part of the code belongs to. Following code takes far longer than simulating it, so one `FollowedCode` serves
any number of devices whose SMs are alike, and any number of CTAs that share an SM.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..core.sm import instruction
from ..device.sm_numbers import SmNumbers, as_kept
from ..launch.program import Launch
from ..launch.traced import TracedCode
from ..sass.flow import Flow, flow_of
from ..trace.executions import paths as followed_blocks
from ..trace.paths import CtaPaths, find_paths
from .instructions import lowered_table
from .l1_hits import Spilled, find_spilled, spilled_by_phase
from .lane_addresses import with_lane_addresses, with_scattered
from .match_steps import Attribution, Part, few_items, find_cta, match_steps
from .mbarriers import (
    with_barriers,
    with_bulk_copy_sizes,
    with_bulk_store_sizes,
    with_channels,
    with_leaders,
    with_traced_sizes,
)

MOSTLY = 0.5
"""Share of a traced load's bytes from which on it counts as one that L1 serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedCode:
    """Code that has been followed through a CTA.

    Args:
        flow: the code.
        code: its instructions, records of `core.sm.instruction`, with loads that all come from L2.
        unknown: opcodes that no rule knows -> how often they stand in the code.
        cta: the CTA that was followed.
        executed: step name -> executions there.
        paths: of its warps.
        attributions: which steps each part of the code belongs to.
        touched: step name -> its spilled registers.
    """

    flow: Flow
    code: np.ndarray
    unknown: Counter[str]
    cta: int
    executed: Mapping[str, int]
    paths: CtaPaths
    attributions: Mapping[Part, Attribution]
    touched: Mapping[str, Spilled]


def follow(launch: Launch, capability: int, sm_numbers: SmNumbers) -> FollowedCode:
    """Follow one CTA of a launch through its code.

    Args:
        launch: with compiled resources, and the code in them.
        capability: of the architecture, e.g. 90.
        sm_numbers: of its SMs.

    Raises:
        ValueError: there is no code, or it cannot be followed; one line.
    """
    if launch.resources.code is None:
        raise ValueError(f"kernel {launch.name}: its machine code is not at hand")
    flow = flow_of(launch.resources.code.sass)
    if launch.traced:
        return _follow_traced(launch, launch.traced[0], flow, capability, sm_numbers)
    sm_numbers = as_kept(sm_numbers)
    widened, constants = few_items(launch, launch.resources.code.constants, capability)
    cta, executed = find_cta(widened)
    paths = find_paths(flow, followed_blocks(flow, widened, constants, cta))
    attributions = match_steps(launch, paths.regions, executed)
    code, unknown = make_code_table(widened, paths, attributions, executed, constants, capability, sm_numbers)
    return FollowedCode(
        flow=flow,
        code=code,
        unknown=unknown,
        cta=cta,
        executed=executed,
        paths=paths,
        attributions=attributions,
        touched=find_spilled(launch, paths, attributions),
    )


def make_code_table(
    launch: Launch,
    paths: CtaPaths,
    attributions: Mapping[Part, Attribution],
    executed: Mapping[str, int],
    constants: Mapping[int, int],
    capability: int,
    sm_numbers: SmNumbers,
) -> tuple[np.ndarray, Counter[str]]:
    """What each instruction of a launch is, takes and waits for, with loads that all come from L2.

    Each function takes a table and returns a new one. `l1_hits.with_l1_hits` adds what depends on how many CTAs share
    an SM.

    Args:
        launch: with the grid that `constants` tell of.
        paths: of one of its CTAs.
        attributions: which steps each part of the code belongs to.
        executed: step name -> executions in that CTA.
        constants: as in `program.Code`.
        capability: of the architecture, e.g. 90.
        sm_numbers: of its SMs.

    Returns:
        (records of `core.sm.instruction`, opcodes without a rule -> how often they stand in the code).

    Raises:
        ValueError: more rings of mbarriers than are followed; one line.
    """
    code, unknown = lowered_table(paths.flow, capability, sm_numbers)
    # What lanes touch; copies whose predicate is false everywhere are no copies from here on.
    code = with_lane_addresses(code, launch, paths, constants, sm_numbers)
    # Which warp copies for its CTA, on which mbarriers, and how many of the remaining copies each awaits.
    code = with_leaders(code, paths)
    code = with_barriers(with_channels(code, launch, paths), launch)
    # How much its leader moves each time.
    if launch.traced:
        return with_traced_sizes(code, launch.traced[0].box_bytes), unknown
    code = with_bulk_copy_sizes(code, launch, paths, attributions, executed)
    code = with_bulk_store_sizes(code, launch, paths, executed)
    return code, unknown


def _follow_traced(
    launch: Launch, traced: TracedCode, flow: Flow, capability: int, sm_numbers: SmNumbers
) -> FollowedCode:
    """The same of a class of CTAs whose control path is known, and with it which steps each part belongs to."""
    assert launch.resources.code is not None
    paths = find_paths(flow, traced.paths)
    attributions = {
        Part(phase.region, piece=number): Attribution(
            steps=(phase.step,), times=1.0, remainder=0.0, portion=phase.share
        )
        for number, phase in enumerate(traced.phases)
    }
    constants = launch.resources.code.constants
    code, unknown = make_code_table(launch, paths, attributions, traced.executed, constants, capability, sm_numbers)
    code = with_scattered(code, traced.scattered, sm_numbers)
    for place, share in traced.in_l1.items():
        row = code[place]  # a view: what is set here is set in the table
        if share > MOSTLY and row["kind"] == instruction.LOAD:
            row["kind"], row["spills"] = instruction.SHARED, 0
            row["smem_lines"] = max(row["smem_lines"], row["tag_lines"])
    return FollowedCode(
        flow=flow,
        code=code,
        unknown=unknown,
        cta=traced.cta,
        executed=traced.executed,
        paths=paths,
        attributions=attributions,
        touched=spilled_by_phase(launch, flow, traced.phases, len(paths.warps)),
    )
