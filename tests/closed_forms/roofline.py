"""Bounds that no schedule beats, of single launches; and the intensity where the roof bends."""

from typing import Literal

from tilesight.simulator.closed_form.roofline import Roofline, bounds, compulsory_bytes, tensor_peak_flop_per_s
from tilesight.simulator.device.device import Device
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.launch.walk import steps, tally


def ridge_flop_per_byte(device: Device, dtype: str, clock_hz: float = 0.0) -> float:
    """Intensity at which tensor cores and device-memory reads take equally long (Williams et al. 2009)."""
    return tensor_peak_flop_per_s(device, dtype, clock_hz) / device.hbm_read_bytes_per_s


def launch_roofline(launch: Launch, device: Device, *, l2: Literal["cold", "warm"] = "warm") -> Roofline:
    """Bounds for one kernel launch, whatever its tiles and order.

    Each tensor counts once in each direction, or less where the launch asks for less of it, and not as read where the
    launch stores it first; operations are those that tiles execute, padding and masked parts included.

    Args:
        l2: `warm`, as the launch before may have left its output in L2; `cold` for a first launch.
    """
    totals = tally(launch.program)
    work = [(step.work, totals.executions[step.name]) for step, _ in steps(launch.program.body)]
    read, written = (sum(sizes.values()) for sizes in compulsory_bytes(launch.program, totals))
    return bounds(
        device,
        launch.dtype,
        (max(0, read - (device.l2_bytes if l2 == "warm" else 0)), written),
        sum(times * matmul.flop for of_step, times in work for matmul in of_step.matmuls),
        sum(times * of_step.exp_count for of_step, times in work),
    )
