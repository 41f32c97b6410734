"""Rows of launches as predictions have them, with times that a test chooses."""

from tilesight.simulator.prediction.kernel_row import KernelRow
from tilesight.simulator.prediction.kernels import KernelsPrediction
from tilesight.simulator.prediction.prediction import LaunchPrediction
from tilesight.simulator.traffic import Traffic


def row_of(time_s: float | None, label: str = "", name: str = "k", refused: str = "", spilled: int = 0) -> KernelRow:
    """A row. Args: time_s: None: it was refused, for the reason given [s]."""
    row = KernelRow(name=name, grid=(4, 1, 1), num_warps=4, num_stages=3, label=label, spilled_bytes_per_thread=spilled)
    if time_s is None:
        return KernelRow(
            name=name, grid=(4, 1, 1), num_warps=0, num_stages=0, label=label, refused=refused or "why not"
        )
    traffic = Traffic(time_s=time_s, cycles=time_s * 1e9, hbm_read_bytes=1 << 20)
    prediction = LaunchPrediction(
        name=name, grid=(4, 1, 1), traffic=traffic, clock_hz=1e9,
        sustained_clock_hz=1e9, overhead_s=0.0, causes={"hbm": 0.75, "wait": 0.25}, utilisation={"hbm": 0.75},
        kv_under_way_bytes=0, l2_fit="", ctas_per_sm=2, occupancy_fraction=0.5, occupancy_limit="registers",
        waves=0.1, tail_fraction=0.1, num_warps=4, num_stages=3, registers_per_thread=64, spilled_bytes_per_thread=0,
        smem_bytes_per_cta=1024, resources="compiled", cost="compiled", simulated_fraction=1.0,
    )  # fmt: skip
    return KernelRow(**{name: getattr(row, name) for name in KernelRow.__slots__} | {"prediction": prediction})


def prediction_of(row: KernelRow) -> KernelsPrediction:
    """The prediction of one launch."""
    return KernelsPrediction(device="h200", l2="cold", rows=(row,))
