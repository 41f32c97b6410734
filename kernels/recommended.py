"""Configurations to begin with on Hopper (sm_90), fp16 and bf16: one row for each schedule, head dimension and mask.

The fastest measured at long sequences (docs/kernel-speed.md); short causal ones are faster `longest-first`.
A test compiles every row: no kernel of them spills, and every tile product runs on wgmma.
"""

from types import MappingProxyType

from ..simulator.schedules.config import Config

RECOMMENDED = MappingProxyType(
    {
        # (schedule, head_dim, causal)
        ("flash2", 64, False): Config(block_m=64, block_n=64, num_warps=4, num_stages=3),
        ("flash2", 64, True): Config(block_m=64, block_n=64, num_warps=4, num_stages=3, cta_order="m-reversed"),
        ("flash2", 128, False): Config(block_m=64, block_n=64, num_warps=4, num_stages=3),
        ("flash2", 128, True): Config(block_m=64, block_n=64, num_warps=4, num_stages=3, cta_order="m-reversed"),
        ("flash2_tma", 64, False): Config(block_m=64, block_n=128, num_warps=4, num_stages=2),
        ("flash2_tma", 64, True): Config(block_m=64, block_n=128, num_warps=4, num_stages=2, cta_order="m-reversed"),
        ("flash2_tma", 128, False): Config(block_m=128, block_n=128, num_warps=4, num_stages=2, warp_specialize=1),
        ("flash2_tma", 128, True): Config(
            block_m=128, block_n=128, num_warps=4, num_stages=2, cta_order="m-reversed", warp_specialize=1
        ),
        ("naive", 64, False): Config(block_m=128, block_n=128, num_warps=8, num_stages=3),
        ("naive", 64, True): Config(block_m=128, block_n=128, num_warps=8, num_stages=3),
        ("naive", 128, False): Config(block_m=128, block_n=64, num_warps=4, num_stages=4),
        ("naive", 128, True): Config(block_m=128, block_n=64, num_warps=4, num_stages=4),
    }
)
