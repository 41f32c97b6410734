"""The points at which the kernels are held against the oracle on a GPU: shape x mask x dtype x configuration.

Shapes come in few compile-time classes (whole or ragged blocks, lengths that are multiples of 16 or not),
so that thousands of points need only some hundreds of compilations.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilesight.kernels.launch.registry import twinned
from tilesight.simulator.device.device import Device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule

HEADS = ((1, 16, 16), (2, 8, 2), (4, 4, 1), (16, 1, 1), (2, 16, 4), (4, 8, 8))
"""(B, H, G): head counts of 16 and 32, without groups, with groups, and with one K/V head for all."""
WHOLE = ((256, 256), (256, 512), (512, 256), (512, 512), (768, 1024), (1024, 512))
RAGGED = ((77, 133), (250, 100), (1, 301), (513, 259), (301, 1025), (129, 129))
"""(M, N): multiples of every block, and of none; shorter and longer than the keys."""
WINDOWED, WINDOWS = ((2, 512), (2, 513), (4, 301)), (1, 64, 200)
"""(B, M) of the shapes that are tried under window masks too, and the windows."""
OTHER_DIMS = {"fp16": (16, 32, 80, 128, 256)}
"""Head dimensions besides 64, tried at a few shapes; 128 for the other dtypes."""
CONFIGS: dict[str, tuple[dict[str, Any], ...]] = {
    "naive": (
        {"block_m": 64, "block_n": 64},
        {"block_m": 128, "block_n": 128, "num_warps": 8, "num_stages": 3},
        {"block_m": 32, "block_n": 64, "num_stages": 1},
        {"block_m": 16, "block_n": 32, "num_warps": 2},
    ),
    "unfused": ({"block_m": 64, "block_n": 64}, {"block_m": 128, "block_n": 64, "num_warps": 8, "num_stages": 3}),
    "flash1": (
        {"block_m": 64, "block_n": 64, "warp_split": "q"},
        {"block_m": 128, "block_n": 64, "num_warps": 8, "warp_split": "q"},
        {"block_m": 32, "block_n": 128, "num_stages": 1, "warp_split": "q"},
    ),
    "flash2": (
        {"block_m": 64, "block_n": 64, "num_stages": 3, "cta_order": "m-reversed"},
        {"block_m": 128, "block_n": 128, "num_stages": 2, "cta_order": "head-fast"},
        {"block_m": 128, "block_n": 64, "num_warps": 8, "cta_order": "longest-first"},
        {"block_m": 64, "block_n": 32, "num_stages": 4, "kv_order": "sawtooth"},
        {"block_m": 128, "block_n": 32, "persistent": 1},
        {"block_m": 32, "block_n": 64, "num_stages": 1},
        {"block_m": 16, "block_n": 16, "num_warps": 1, "num_stages": 2},
        {"block_m": 256, "block_n": 64, "num_warps": 8, "kv_order": "sawtooth", "persistent": 2},
    ),
    "flash2_tma": (
        {"block_m": 64, "block_n": 64, "num_stages": 3},
        {"block_m": 128, "block_n": 128, "num_stages": 2, "cta_order": "head-fast"},
        {"block_m": 128, "block_n": 64, "num_warps": 8, "cta_order": "longest-first"},
        {"block_m": 64, "block_n": 32, "num_stages": 4, "kv_order": "sawtooth"},
        {"block_m": 128, "block_n": 64, "persistent": 1},
        {"block_m": 128, "block_n": 128, "num_stages": 2, "warp_specialize": 1},
        {"block_m": 256, "block_n": 64, "num_stages": 2, "warp_specialize": 1, "cta_order": "m-reversed"},
        {"block_m": 128, "block_n": 64, "num_stages": 2, "warp_specialize": 1, "persistent": 1},
    ),
}


@dataclass(frozen=True, slots=True)
class Point:
    """One problem and one configuration of a schedule, with the launches that follow."""

    schedule: str
    problem: AttentionProblem
    config: Config
    launches: tuple[Launch, ...]

    def __str__(self) -> str:
        """Enough to repeat it."""
        return f"{self.schedule} {self.problem} {self.config}"


def schedules() -> list[str]:
    """The schedules that compute attention of any number of queries, and have kernels."""
    every = [find_schedule(name) for name in twinned()]
    return [item.name for item in every if item.problem is AttentionProblem and not item.outlined]


def _problems(dtype: str) -> Iterator[tuple[AttentionProblem, bool]]:
    """Problems of a dtype; and whether they are of the kind that all configurations are tried on."""
    for causal in (False, True):
        for batch, heads, kv_heads in HEADS:
            for rows, keys in WHOLE + RAGGED:
                made = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "seqlen_q": rows, "seqlen_k": keys}
                yield AttentionProblem(**made, head_dim=64, dtype=dtype, causal=causal), True
                if causal and (batch, rows) in WINDOWED:
                    yield from (
                        (AttentionProblem(**made, head_dim=64, dtype=dtype, window=window), True) for window in WINDOWS
                    )
                if (batch, rows) in ((2, 256), (4, 301), (2, 513)):
                    for dim in OTHER_DIMS.get(dtype, (128,)):
                        yield AttentionProblem(**made, head_dim=dim, dtype=dtype, causal=causal), False


def points(schedule: str, dtype: str, device: Device) -> Iterator[Point]:
    """The points of a schedule and dtype; combinations that the schedule declines are left out."""
    chosen = find_schedule(schedule)
    configs = CONFIGS.get(schedule, ()) if dtype == "fp16" else CONFIGS.get(schedule, ())[:1]
    for problem, all_configs in _problems(dtype):
        if chosen.why_not(problem) is not None:
            continue
        for options in configs if all_configs else configs[:1]:
            try:
                config = chosen.config(**options)
                yield Point(schedule, problem, config, chosen.launches(problem, config, device))
            except ValueError:
                continue
