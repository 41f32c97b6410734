"""How busy a launch keeps the GPU: utilisation of each resource, and the activity that draws power."""

import numpy as np

from ..device.device import Device
from ..engine.clock import Activity
from ..launch.program import Launch
from ..sm.step_cost import PIPES
from ..sm.tensor_rate import peak_flop_per_cycle
from ..traffic import Traffic


def activity_of(traffic: Traffic, launch: Launch, clock_hz: float, device: Device) -> Activity:
    """The activity that draws power. A matrix product counts by the FLOP of its tiles, not by its time."""
    if not traffic.executed_flop:
        return Activity(0.0, 0.0, 0.0)
    time_s = traffic.cycles / clock_hz
    return Activity(
        tensor=traffic.executed_flop / (traffic.cycles * device.sms * peak_flop_per_cycle(launch, device)),
        fill=traffic.smem_fill_bytes / (traffic.cycles * device.sms * device.sm_fill_bytes_per_cycle),
        hbm=(traffic.hbm_read_bytes + traffic.hbm_write_bytes) / (device.hbm_peak_bytes_per_s * time_s),
    )


def utilisation_of(traffic: Traffic, pipe_cycles: np.ndarray, clock_hz: float, device: Device) -> dict[str, float]:
    """Busy share of each resource, of the kernel's cycles.

    `fma` covers the FP32 and the ALU pipe, `smem` the one of L1 and shared memory, `l2` L2 and its links to the SMs,
    `fabric` the link between the partitions of L2.

    Args:
        pipe_cycles: cycles of use of each pipe, summed over SMs; float64 (pipes,).
    """
    # Compiled costs have one pipe more, which stands for how the others hinder each other.
    pipes = dict(zip(PIPES, pipe_cycles[: len(PIPES)] / (traffic.cycles * device.sms), strict=True))
    pipes["fma"] = max(pipes["fma"], pipes.pop("alu"))
    time_s = traffic.cycles / clock_hz
    l2 = (traffic.l2_read_bytes + traffic.l2_write_bytes) / device.l2_bytes_per_s
    fabric = traffic.fabric_bytes / device.fabric_bytes_per_s
    port = traffic.smem_fill_bytes / (device.sm_fill_bytes_per_cycle * device.sms * clock_hz)
    hbm = traffic.hbm_read_bytes / device.hbm_read_bytes_per_s + traffic.hbm_write_bytes / device.hbm_write_bytes_per_s
    return {name: float(share) for name, share in pipes.items()} | {
        # The last stores may still be on their way when the launch ends.
        "l2": min(1.0, max(l2, port) / time_s),
        "fabric": min(1.0, fabric / time_s),
        "hbm": hbm / time_s,
    }
