"""Predictions made up for tests of what is done with them; no engine runs."""

from dataclasses import replace

from tilesight.simulator.prediction.prediction import LaunchPrediction, Prediction
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.traffic import Traffic

A_PROBLEM = AttentionProblem(batch=2, heads=4, seqlen_q=1024, seqlen_k=1024, head_dim=64)
SOME_TRAFFIC = Traffic(
    time_s=1e-3,
    cycles=1.5e6,
    hbm_read_bytes=3_000_000,
    hbm_write_bytes=1_000_000,
    l2_read_bytes=20_000_000,
    l2_write_bytes=1_000_000,
    l2_hit_bytes=17_000_000,
    fabric_bytes=4_000_000,
    smem_fill_bytes=21_000_000,
    smem_read_bytes=60_000_000,
    smem_write_bytes=20_000_000,
    matmul_flop=2_000_000_000,
    executed_flop=2_500_000_000,
    other_flop=40_000_000,
    exp_count=8_000_000,
)


def a_launch(
    *,
    time_s: float | None = None,
    traffic: Traffic = SOME_TRAFFIC,
    overhead_s: float = 1e-6,
    bottleneck: str = "tensor",
    spilled_bytes: int = 0,
    l2_fit: str = "",
) -> LaunchPrediction:
    """One launch, with what the test is about chosen."""
    return LaunchPrediction(
        name="kernel",
        grid=(64, 1, 1),
        traffic=traffic if time_s is None else replace(traffic, time_s=time_s),
        clock_hz=1.5e9,
        sustained_clock_hz=1.4e9,
        overhead_s=overhead_s,
        causes={bottleneck: 0.6, "tail": 0.1, "launch": 0.1, "wait": 0.2} | {bottleneck: 0.6},
        utilisation={"tensor": 0.6, "mufu": 0.5, "hbm": 0.04},
        kv_under_way_bytes=1 << 20,
        l2_fit=l2_fit,
        ctas_per_sm=2,
        occupancy_fraction=0.125,
        occupancy_limit="registers",
        waves=0.24,
        tail_fraction=0.24,
        num_warps=4,
        num_stages=2,
        registers_per_thread=200,
        spilled_bytes_per_thread=spilled_bytes,
        smem_bytes_per_cta=49152,
        resources="estimated",
        cost="tiles",
        simulated_fraction=1.0,
    )


def a_prediction(
    *launches: LaunchPrediction,
    schedule: str = "flash2",
    config: Config | None = None,
    options: tuple[str, ...] = ("block_m", "block_n", "num_warps", "num_stages"),
    peak_memory_bytes: int = 1 << 24,
    fits: bool = True,
) -> Prediction:
    """A prediction of these launches, or of one."""
    return Prediction(
        device="h200",
        schedule=schedule,
        problem=A_PROBLEM,
        config=config or Config(block_m=128, block_n=64, num_warps=4, num_stages=2),
        options=options,
        launches=launches or (a_launch(),),
        peak_memory_bytes=peak_memory_bytes,
        fits=fits,
    )
