"""How `validate` covers a schedule with measured points: those of the short list, and its share of the drawn ones.

A point of the short list is a shape (a name in `validate.points.sets.SHAPES`) and the options that differ from the
default. The lists here are by loop nest; a schedule names the one that is made for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .options import Value

ListedPoint = tuple[str, Mapping[str, Value]]


def listed(shape: str, **options: Value) -> ListedPoint:
    """A point of the short list. Args: shape: its name; options: what differs from the default."""
    return shape, options


TILED = (
    listed("base"),
    listed("base", cta_order="head-fast"),
    listed("base", block_m=64, block_n=32, num_stages=2),
    listed("causal"),
    listed("causal", cta_order="longest-first", block_n=128),
    listed("grouped", num_warps=8),
    listed("small"),
    listed("short", block_m=64),
    listed("long", num_warps=8, block_n=128, num_stages=2),
    listed("long", num_warps=8, cta_order="head-fast"),
)
"""Query tiles outside, in any order of CTAs."""
LONG_ROWS = (listed("knee"), listed("huge", num_warps=8), listed("few", num_warps=8))
"""K and V that just fit into L2, or do not."""
SLOW = (
    listed("base", block_m=32, block_n=32),
    listed("base", num_stages=1),
    listed("middle", block_m=256, block_n=64),
)
"""Configurations that nobody would choose."""
SPECIALISED = (
    listed("base", warp_specialize=1, block_n=128, num_stages=2),
    listed("grouped", warp_specialize=1, block_n=128, num_stages=2),
)
"""Warps that only load."""
KEYS_OUTSIDE = (
    listed("middle"),
    listed("short"),
    listed("middle", num_stages=1),
    listed("small", block_n=64),
)
"""One CTA a head, keys outside."""
DECODE = (
    listed("served", splits=2),
    listed("served", splits=8, block_n=128),
    listed("alone", splits=32),
    listed("alone", splits=8, num_warps=8),
    listed("alone"),
    listed("speculative", splits=4),
    listed("ragged", splits=4),
    listed("ragged", split_rule="sglang"),
    listed("ragged", split_rule="flashinfer"),
    listed("paged", splits=4),
    listed("narrow", splits=4),
)
"""Few queries over long caches."""
BACKWARD = (
    listed("middle"),
    listed("causal"),
    listed("small"),
    listed("grouped", num_stages=2, block_m=64, block_n=64, num_warps=4),
    listed("short"),
    listed("middle", block_m=64, block_n=128, num_warps=8),
)
"""Gradients."""
MASKED = (
    listed("middle"),
    listed("causal"),
    listed("small"),
    listed("documents", block_m=64),
    listed("narrow values", block_n=32, num_warps=8),
)
"""Lists of key tiles."""
PIPELINE = (
    listed("middle"),
    listed("small"),
    listed("scores"),
    listed("scores", block_m=64, block_n=128, num_warps=8),
)
"""Several kernels, with scores in device memory."""
ROWS = (
    listed("middle"),
    listed("small"),
    listed("middle", softmax_variant="safe"),
    listed("small", softmax_variant="safe", block_n=256),
)
"""Scores alone: no mask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How often a schedule is measured.

    Args:
        points: its part of the short list.
        weight: its share of the points drawn for the long list is this over the sum of all schedules' weights.
        shapes: of the long list: as many queries as keys, more or fewer (`prefill`), or under masks of all kinds
            (`masked`); a chunk of queries over a cache (`chunk`); a step of decoding (`decode`), or one over latents
            (`latent`).
    """

    points: tuple[ListedPoint, ...] = (listed("middle"), listed("causal"), listed("small"))
    weight: int = 1
    shapes: Literal["prefill", "masked", "chunk", "decode", "latent"] = "prefill"


USUAL_COVERAGE = Coverage()
"""Of a schedule that says nothing."""
