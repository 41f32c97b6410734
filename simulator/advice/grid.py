"""Rules on the grid as it is launched: SMs without a CTA, a last wave that is not full, launches that are too short.

Gains are bounds from the launch's causes: what keeps its busiest resource busy stays. That of longer CTAs is the launch
simulated with CTAs that are handed out at once.
"""

from dataclasses import replace

from .. import units
from ..display.words import percent, plural
from ..prediction.bottleneck import LAUNCH, TAIL
from ..prediction.what_helps import Advice
from .case import Case, Change

LEAST_DISPATCH = 0.2
"""Share of the time that handing out all CTAs takes by itself, from which on it is simulated without."""
SHORT = 0.2
"""Share of the time before the first CTA and after the last from which on a launch is too short."""


def work_for_all(case: Case) -> Advice | None:
    """SMs that get no CTA."""
    idle = case.device.sms - case.ctas
    if idle <= 0:
        return None
    text = (
        f"work for all SMs: {plural(case.ctas, 'CTA')} leave {idle} of {case.device.sms} SMs without any;"
        " smaller tiles, or loops split over several CTAs"
    )
    return Advice(cause="idle SMs", text=text, gain=case.bound(case.prediction.causes[TAIL]))


def full_wave(case: Case) -> Advice | None:
    """SMs that have no CTA left while others compute."""
    if case.ctas < case.device.sms:
        return None
    idle, waves = case.prediction.causes[TAIL], case.prediction.waves
    held = case.device.sms * case.prediction.ctas_per_sm
    if waves > 1:
        where = f"{case.ctas:,} CTAs are {waves:.2f} waves of {held:,}"
    else:
        where = f"{case.ctas:,} CTAs on {case.device.sms} SMs are not the same number, or work, for each"
    text = (
        f"a full last wave: {where}, and SMs have nothing to do for {percent(idle)} of the time;"
        " smaller tiles, or the longest CTAs first"
    )
    return Advice(cause=TAIL, text=text, gain=case.bound(idle))


def longer_ctas(case: Case) -> Advice | None:
    """CTAs so short that handing them out to SMs takes longer than they do."""
    if case.device.cta_dispatch_cycles * case.ctas < LEAST_DISPATCH * case.prediction.traffic.cycles:
        return None
    gain = case.gain(Change(device=replace(case.device, cta_dispatch_cycles=0.0)))
    text = f"fewer, longer CTAs: {case.ctas:,} are handed out to SMs one by one; give each several tiles or rows"
    return Advice(cause="short CTAs", text=text, gain=gain)


def fewer_launches(case: Case) -> Advice | None:
    """Time before the first CTA and after the last."""
    share = case.prediction.causes[LAUNCH]
    if case.prediction.bottleneck != LAUNCH and share < SHORT:
        return None
    spent = units.duration(share * case.time_s)
    text = f"fewer launches, or more work in each: {spent} pass before its work and after it; fuse it with others"
    return Advice(cause=LAUNCH, text=text, gain=1.0 / max(1.0 - share, 0.1))
