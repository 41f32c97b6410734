"""Streamed attention: query tiles outside, keys and values in an order of the schedule's own.

    for each item (head, q_tile), one CTA each:
        load Q
        for j in key tiles, in the order of `walk`:     pipelined num_stages deep
            load K[j], V[j];  S = Q K^T;  online softmax;  O = O * alpha + P V
        O = O / l;  store O, LSE

| tensor | times read | times written |
|---|---|---|
| Q | 1 | 0 |
| K | q_tiles * group | 0 |
| V | q_tiles * group | 0 |
| O | 0 | 1 |
| LSE | 0 | 1 |

(q_tiles = ceil(M / block_m), group = H / G.)

Source: none; a schedule that tests plant.
"""

from ..device.device import Device
from ..launch.program import Launch, Path
from ..problems.attention import AttentionProblem
from .config import Config
from .contract import Schedule
from .flash2 import launch_of, resources_of
from .options import BLOCK_M, BLOCK_N, NUM_STAGES, NUM_WARPS, declared, tiled, word

ORDERS = {"straight": "forward", "zigzag": "sawtooth"}
WALK = word("walk", "Order of key tiles: each query tile the same, or every other one backwards.", tuple(ORDERS))


def launches(problem: AttentionProblem, config: Config, device: Device) -> tuple[Launch, ...]:
    """The one launch."""
    path: Path = "async" if config.num_stages > 1 else "plain"
    with_all_options = config.but(cta_order="m-fast", kv_order=ORDERS[config.walk], persistent=0, warp_split="q")
    resources = resources_of(problem, with_all_options, device, num_warps=config.num_warps)
    return (launch_of("streamed", problem, with_all_options, device, path=path, resources=resources),)


SCHEDULE = Schedule(
    name="streamed",
    summary="a planted schedule: keys and values in an order of its own",
    source="none",
    options=declared(
        tiled(BLOCK_M, 64, 64, 128),
        tiled(BLOCK_N, 64, 32, 64),
        tiled(NUM_WARPS, 4, 4),
        tiled(NUM_STAGES, 2, 1, 2),
        WALK,
    ),
    launches=launches,
    reads=("causal",),
)
