"""The prediction of one launch, from its exact counts and the engine's cycles: traffic, time, bottleneck."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np

from ..device.device import Device
from ..engine.clock import Activity, sustained_clock_hz
from ..engine.costed import CostedLaunch
from ..engine.engine import LaunchRun
from ..launch.program import Launch
from ..launch.walk import matmuls_of
from ..sm.step_cost import PIPES, StepCost
from ..sm.tensor_rate import peak_flop_per_cycle
from ..traffic import Traffic
from .bottleneck import LAUNCH, TAIL, causes_of
from .notes import kv_under_way_bytes, l2_fit_of
from .prediction import LaunchPrediction


def predict_launch(costed: CostedLaunch, run: LaunchRun, device: Device, overhead: str) -> LaunchPrediction:
    """Put a launch's exact counts and the engine's cycles and bytes together.

    Args:
        run: what the engine saw.
        overhead: `stream` or `graph`.
    """
    launch, costs, exact, residency = costed.launch, costed.costs, costed.tally, costed.residency
    clock_hz = costed.clocks.counted_hz
    cycles = run.cycles + device.launch_ramp_cycles
    kernel_s = cycles / clock_hz
    time_s = max(kernel_s, run.cycles / clock_hz + device.launch_graph_s)
    if overhead == "stream":
        time_s = max(time_s, device.launch_stream_s)

    traffic = replace(_traffic_of(costed, run), time_s=time_s, cycles=cycles)
    pipes = pipe_cycles(costs, exact.executions)
    utilisation = utilisation_of(traffic, pipes, clock_hz, device)
    spent_s = {name: share * kernel_s for name, share in utilisation.items()}
    spent_s |= {TAIL: run.idle_cycles / clock_hz, LAUNCH: time_s - run.cycles / clock_hz}
    places = device.sms * residency.ctas_per_sm
    waves = launch.cta_count / places
    kv_bytes = kv_under_way_bytes(launch, places)
    return LaunchPrediction(
        name=launch.name,
        grid=launch.grid,
        traffic=traffic,
        clock_hz=clock_hz,
        sustained_clock_hz=sustained_clock_hz(clock_hz, activity_of(traffic, launch, clock_hz, device), device),
        overhead_s=time_s - kernel_s,
        graph_cycles=run.cycles + device.graph_gap_s * clock_hz if device.graph_gap_s else 0.0,
        causes=causes_of(spent_s, time_s),
        utilisation=utilisation,
        global_smem_fraction=_global_smem_fraction(costs, exact.executions),
        kv_under_way_bytes=kv_bytes,
        l2_fit=l2_fit_of(launch, exact, kv_bytes, run.hbm_read_bytes, device),
        ctas_per_sm=residency.ctas_per_sm,
        occupancy_fraction=residency.occupancy_fraction,
        occupancy_limit=residency.limit,
        waves=waves,
        tail_fraction=waves % 1.0 or 1.0,
        num_warps=launch.warps_per_cta,
        num_stages=launch.num_stages,
        registers_per_thread=launch.resources.registers_per_thread,
        spilled_bytes_per_thread=launch.resources.spilled_bytes_per_thread,
        smem_bytes_per_cta=launch.resources.smem_bytes_per_cta,
        resources=launch.resources.origin,
        cost=costed.origin,
        simulated_fraction=run.simulated_fraction,
    )


def _traffic_of(costed: CostedLaunch, run: LaunchRun) -> Traffic:
    """Bytes and operations of a launch, whose time stays open."""
    costs, exact = costed.costs, costed.tally

    def total(field: str) -> int:
        return sum(getattr(costs[name], field) * count for name, count in exact.executions.items())

    executed_flop = total("executed_flop")
    return Traffic(
        hbm_read_bytes=run.hbm_read_bytes,
        hbm_write_bytes=run.hbm_write_bytes,
        l2_read_bytes=run.l2_read_bytes + total("local_read_bytes"),
        l2_write_bytes=sum(exact.store_bytes.values()) + total("local_write_bytes"),
        l2_hit_bytes=max(0, run.l2_read_bytes - run.hbm_read_bytes),
        fabric_bytes=run.fabric_bytes,
        smem_fill_bytes=sum(exact.load_bytes.values()) - run.l1_hit_bytes + total("local_read_bytes"),
        l1_hit_bytes=run.l1_hit_bytes,
        smem_read_bytes=total("smem_read_bytes"),
        smem_write_bytes=total("smem_write_bytes"),
        matmul_flop=matmuls_of(costed.launch) * costed.flop_per_matmul if costed.flop_per_matmul else executed_flop,
        executed_flop=executed_flop,
        other_flop=total("other_flop"),
        exp_count=total("exp_count"),
    )


def with_useful(launches: Sequence[LaunchPrediction], useful_flop: int) -> tuple[LaunchPrediction, ...]:
    """Launches of a pipeline that share its useful operations as they share those executed.

    Where only its code is known, it is unknown which products a launch was meant to compute, and which twice.

    Args:
        useful_flop: of all launches together; those executed count where they are fewer [FLOP].
    """
    executed = list(accumulate((launch.traffic.executed_flop for launch in launches), initial=0))
    shares = [flop if executed[-1] <= useful_flop else flop * useful_flop // executed[-1] for flop in executed]
    return tuple(
        replace(launch, traffic=replace(launch.traffic, matmul_flop=after - before))
        for launch, (before, after) in zip(launches, pairwise(shares), strict=True)
    )


def _global_smem_fraction(costs: Mapping[str, StepCost], executions: Mapping[str, int]) -> float:
    """Of the cycles of the pipe of L1 and shared memory, the share that accesses to global memory take."""
    smem = PIPES.index("smem")
    cycles = {name: costs[name].pipe_cycles[smem] * count for name, count in executions.items()}
    taken = sum(costs[name].global_smem_fraction * spent for name, spent in cycles.items())
    return taken / sum(cycles.values()) if taken else 0.0


def pipe_cycles(costs: Mapping[str, StepCost], executions: Mapping[str, int]) -> np.ndarray:
    """Cycles of use of each pipe, summed over SMs; float64 of shape (pipes,)."""
    cycles = [np.array(costs[name].pipe_cycles) * count for name, count in executions.items()]
    total: np.ndarray = np.array(cycles).sum(axis=0)
    return total


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
