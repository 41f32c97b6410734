"""The code of a launch as one of its CTAs runs it: all that the simulation of an SM needs, but for the rest of the GPU.

In: a launch with its machine code. Out: its flow, the tables of its instructions, the ways of its warps, and which
step pays for which part. Following code takes far longer than simulating it, so one `Followed` serves any number of
devices whose SMs are alike, and of CTAs that share an SM.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..core.sm import tables as sm
from ..device.sm_numbers import SmNumbers
from ..launch.program import Launch
from ..launch.traced import TracedCode
from ..sass.decode import decode
from ..sass.flow import Flow, find_flow
from ..trace.executions import paths
from ..trace.ways import Ways, find_ways
from .instructions import lower_code
from .l1_hits import Spilled, find_spilled
from .lane_addresses import enter_accesses
from .match_steps import Part, Share, few_items, find_cta, match_steps
from .mbarriers import fill_bulk_copies, fill_bulk_stores, join_mbarriers

MOSTLY = 0.5
"""Share of a traced load's bytes from which on it counts as one that L1 serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Code that has been followed through a CTA.

    Args:
        flow: the code; code, rates: its instructions, as in `core.sm`, with loads that all come from L2.
        unknown: opcodes that no rule knows -> how often they stand in the code.
        cta: the CTA that was followed; executed: step name -> executions there.
        ways: of its warps; shares: which steps pay for which part of the code.
        touched: step name -> its spilled registers.
    """

    flow: Flow
    code: np.ndarray
    rates: np.ndarray
    unknown: Counter[str]
    cta: int
    executed: Mapping[str, int]
    ways: Ways
    shares: Mapping[Part, Share]
    touched: Mapping[str, Spilled]


def follow(launch: Launch, capability: int, sm_numbers: SmNumbers) -> Followed:
    """Follow one CTA of a launch through its code.

    Args:
        launch: with compiled resources, and the code in them; capability: e.g. 90; sm_numbers: of its SMs.

    Raises:
        ValueError: there is no code, or it cannot be followed; one line.
    """
    if launch.resources.code is None:
        raise ValueError(f"kernel {launch.name}: its machine code is not at hand")
    flow = find_flow(decode(launch.resources.code.sass))
    code, rates, unknown = lower_code(flow.instructions, capability, sm_numbers)
    if launch.traced:
        return _follow_traced(launch, launch.traced[0], flow, code, rates, unknown, sm_numbers)
    followed, constants = few_items(launch, launch.resources.code.constants, capability)
    cta, executed = find_cta(followed)
    ways = find_ways(flow, paths(flow, followed, constants, cta))
    shares = match_steps(launch, ways.regions, executed)
    enter_accesses(followed, ways, constants, code, rates, sm_numbers)
    join_mbarriers(launch, ways, code)
    fill_bulk_copies(launch, ways, shares, executed, code, rates)
    fill_bulk_stores(launch, ways, executed, code, rates)
    return Followed(
        flow=flow,
        code=code,
        rates=rates,
        unknown=unknown,
        cta=cta,
        executed=executed,
        ways=ways,
        shares=shares,
        touched=find_spilled(launch, ways, shares),
    )


def _follow_traced(
    launch: Launch,
    traced: TracedCode,
    flow: Flow,
    code: np.ndarray,
    rates: np.ndarray,
    unknown: Counter[str],
    sm_numbers: SmNumbers,
) -> Followed:
    """The same of a class of CTAs whose way through the code is known, and with it who pays for which part."""
    ways = find_ways(flow, traced.paths)
    shares = {
        Part(phase.region, piece=number): Share(steps=(phase.step,), times=1.0, left=0.0, portion=phase.share)
        for number, phase in enumerate(traced.phases)
    }
    assert launch.resources.code is not None
    enter_accesses(launch, ways, launch.resources.code.constants, code, rates, sm_numbers, ctas=traced.like)
    for place, share in traced.in_l1.items():
        if share > MOSTLY and code[place, sm.KIND] == sm.LOAD:
            code[place, sm.KIND], code[place, sm.ARGUMENT] = sm.SHARED, 0
            rates[place, sm.SMEM] = max(rates[place, sm.SMEM], rates[place, sm.TAGS])
    join_mbarriers(launch, ways, code)
    fill_bulk_copies(launch, ways, shares, traced.executed, code, rates)
    fill_bulk_stores(launch, ways, traced.executed, code, rates)
    return Followed(
        flow=flow,
        code=code,
        rates=rates,
        unknown=unknown,
        cta=traced.cta,
        executed=traced.executed,
        ways=ways,
        shares=shares,
        touched=find_spilled(launch, ways, shares),
    )
