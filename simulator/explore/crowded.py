"""Where the best configuration reads K and V from HBM more than once: the fastest one that keeps them in L2."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from .. import units
from ..device.device import Device
from ..display.render import config_text
from ..prediction.notes import l2_notes
from ..schedules.options import CTA_ORDER
from .candidate import Candidate

WORTH_NAMING = ("block_m", "block_n", "num_warps", "num_stages", "cta_order")
FEWER = 0.5
"""A configuration avoids it where HBM reads at most this share of what it reads in the crowded one."""


def crowded_notes(
    ranked: Sequence[Candidate], device: Device, tried: Callable[[Sequence[Candidate]], list[Candidate]]
) -> tuple[int, tuple[str, ...]]:
    """The row of the first configuration where K and V overflow L2, and why they do, and the fastest that avoids it.

    Args:
        ranked: those that fit, best first; tried: simulates others.
    """
    beyond = [row for row, item in enumerate(ranked) if item.prediction and item.prediction.l2_fit]
    first = ranked[beyond[0]] if beyond else None
    if first is None or first.prediction is None:
        return 0, ()
    row = beyond[0] + 1
    why = l2_notes(first.prediction.launches, device)
    read_bytes = first.prediction.total.hbm_read_bytes
    others = [*ranked, *tried(_other_orders(first, ranked))]
    ways = [
        (item.prediction.time_s, number, item.prediction.total.hbm_read_bytes, item)
        for number, item in enumerate(others)
        if item.prediction and item.fits and item.prediction.total.hbm_read_bytes <= FEWER * read_bytes
    ]
    if not ways:
        return row, (*why, "no other configuration or CTA order halves what HBM reads")
    time_s, _, less_bytes, item = min(ways)
    return row, (
        *why,
        f"{item.schedule} {config_text(_worth_naming(item))} reads {units.traffic(less_bytes)} from HBM"
        f" and takes {units.duration(time_s)}",
    )


def _worth_naming(item: Candidate) -> dict[str, object]:
    """The options that matter here, with their values."""
    return {name: value for name, value in item.config_dict().items() if name in WORTH_NAMING}


def _other_orders(first: Candidate, ranked: Sequence[Candidate]) -> list[Candidate]:
    """The configuration in the CTA orders that nobody has looked at."""
    seen = {item.config.named().get("cta_order") for item in ranked}
    if "cta_order" not in first.options:
        return []
    return [
        replace(first, config=first.config.but(cta_order=order), prediction=None)
        for order in CTA_ORDER.values
        if order not in seen
    ]
