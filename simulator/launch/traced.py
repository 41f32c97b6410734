"""How a program was found in machine code: which of its steps stand for which part of the code, class by class.

CTAs that go the same way, and take part in the same accesses, are a class; one of them is followed for all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Part of the code that a step of a traced program stands for.

    Args:
        step: its name; region: number of the code's region (`trace.paths`), -1: straight code outside of all.
        share: of what one execution of the region takes an SM, without the regions inside.
        spills: places of the code that move spilled registers, in order.
    """

    step: str
    region: int
    share: float
    spills: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mbarrier:
    """What an instruction does with mbarriers: with a ring of them, which warps go round one after the other.

    Args:
        ring: its number; ahead: how many phases before the first one a warp waits for, or arrives at.
        arrivals: warps that complete a phase together; arriving: bit i says that warp i arrives here.
    """

    ring: int
    ahead: int
    arrivals: int
    arriving: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedBarrier:
    """A ring of barriers that a BAR comes to, one after the other.

    Args:
        first: of them, by numbers of their own; count: of them; takes: warps, 0: all; coming: bit i: warp i does.
    """

    first: int
    count: int
    takes: int
    coming: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCode:
    """How a part of a traced program was found: CTAs that go the same way through the code.

    Args:
        cta: the one that was followed, whose costs stand for all; like: some of the others.
        paths: per warp of it the blocks of the code that it runs, in order.
        phases: of its steps; executed: step name -> executions in that CTA.
        in_l1: place of a load in the code -> share of its bytes that L1 serves;
        issued: float64 (instructions of the code,), how often all CTAs of the class issue each.
        scattered: place of an access each of whose lanes touches a sector of its own -> lanes of a warp that take part,
            in the mean, and bytes that each moves [B];
        box_bytes: place of a copy by TMA -> what the CTA moves there each time [B].
        mbarriers: place of an instruction on mbarriers -> its ring, of specialised warps; barriers: place of
            a BAR -> its barriers, where code computes them.
        loads: place of a load -> what it does to the threads that are followed, where given data tell addresses.
    """

    cta: int
    like: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]
    phases: tuple[Phase, ...]
    executed: Mapping[str, int]
    in_l1: Mapping[int, float]
    issued: np.ndarray = field(repr=False, compare=False)
    scattered: Mapping[int, tuple[float, int]] = field(default_factory=dict)
    box_bytes: Mapping[int, float] = field(default_factory=dict)
    mbarriers: Mapping[int, Mbarrier] = field(default_factory=dict)
    barriers: Mapping[int, NamedBarrier] = field(default_factory=dict)
    loads: Mapping[int, Callable[[Any, np.ndarray], None]] = field(default_factory=dict, repr=False, compare=False)
