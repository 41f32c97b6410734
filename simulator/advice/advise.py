"""The door to advice: a launch that was predicted in, causes that make it slow out, with what removing each brings.

Every cause has a rule, which looks at what the simulation knows, and where the model can run the change has it run.
A cause that brings less than `LEAST_GAIN` is not named, but for the one that binds, which always is.
"""

from collections.abc import Callable
from dataclasses import replace

from ..display.words import percent
from ..jobs.stopping import OutOfTime
from ..prediction.bottleneck import LAUNCH, TAIL, WAIT
from ..prediction.what_helps import Advice, binding_advice
from ..refusal import DoesNotFit
from .case import Case
from .grid import fewer_launches, full_wave, longer_ctas, work_for_all
from .in_code import bank_conflicts, barriers, dependent_loads, spills
from .in_flight import is_pipelined, more_ctas, more_stages
from .on_memory import atomics, idle_threads, locks, read_again, uncoalesced

RULES: tuple[Callable[[Case], Advice | None], ...] = (
    idle_threads,
    locks,
    read_again,
    work_for_all,
    full_wave,
    fewer_launches,
    spills,
    atomics,
    uncoalesced,
    bank_conflicts,
    dependent_loads,
    barriers,
    more_ctas,
    more_stages,
    longer_ctas,
)
"""Those that simulate nothing come first: what time there is, they take none of it."""
ENOUGH = 8.0
"""Gain from which on nothing else is looked at: the launch does something that no launch should."""
LEAST_GAIN = 1.05
"""Gain from which on a cause is named: below, the change would hardly be seen in a measurement."""
COVERED = {TAIL: frozenset({TAIL, "idle SMs"}), "hbm": frozenset({"read again"})}
"""What binds -> causes that say so already; waits have all others as their causes."""
BOUNDED = frozenset({TAIL, LAUNCH, "idle SMs", "idle threads", "read again", "small grid", "barriers"})
"""Causes whose gain is a bound that no change may reach."""
LARGE_GAIN = 1.1
"""Gain from which on these are named before what binds."""
LEAST_AWAITED = 0.2
"""Share of the warps' time that they wait for a line's results, from which on it is named."""
MOST_LINES = 3
"""Causes that are named beside what binds."""


def advise(case: Case) -> tuple[tuple[Advice, ...], tuple[str, ...]]:
    """What would help a launch: what brings most first, then what binds it, then bounds that are small.

    And causes that no time was left to look at.

    Spills that are most of the bytes into the SMs come first whatever they bring, and waits of CTAs for each other, of
    which no time is known: both hide what else there is.
    """
    named: list[Advice] = []
    late: list[str] = []
    for rule in RULES:
        try:
            advice = _by(rule, case)
        except OutOfTime:
            late.append(rule.__name__.replace("_", " "))
            continue
        if advice and (advice.gain is None or advice.gain >= LEAST_GAIN):
            named.append(advice)
        if advice and (advice.gain or 0.0) >= ENOUGH:
            break

    def order(advice: Advice) -> tuple[bool, float]:
        spilling = advice.cause == "spills" and case.local_bytes > case.prediction.traffic.smem_fill_bytes
        return (not spilling and advice.cause != "locks", -(advice.gain or 0.0))

    named = sorted(named, key=order)[:MOST_LINES]
    binding = _binding(case)
    covers = COVERED.get(binding.cause, frozenset({binding.cause}))
    if any(advice.cause in covers for advice in named) or (named and binding.cause == WAIT):
        return tuple(named), tuple(late)
    after = [advice for advice in named if advice.cause in BOUNDED and (advice.gain or LARGE_GAIN) < LARGE_GAIN]
    return (*(advice for advice in named if advice not in after), binding, *after), tuple(late)


def _binding(case: Case) -> Advice:
    """What would help against what binds; where that is waiting, with the line that is waited for most."""
    binding = binding_advice(case.prediction, is_pipelined(case.launch))
    try:
        if binding.cause != WAIT or case.warps is None:
            return binding
    except OutOfTime:
        return binding
    place = int(case.warps.awaited_shares.argmax())
    share, line = float(case.warps.awaited_shares[place]), case.at(place)
    if not line or share < LEAST_AWAITED:
        return binding
    where = f"; warps spend {percent(share)} of their time waiting for what is loaded or computed{line}"
    return replace(binding, text=binding.text + where)


def _by(rule: Callable[[Case], Advice | None], case: Case) -> Advice | None:
    """What a rule says; nothing where its change cannot be simulated."""
    try:
        return rule(case)
    except (ValueError, DoesNotFit):
        return None
