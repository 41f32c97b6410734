"""Rules on what an SM has in flight: one more CTA on it, one more stage of a pipelined loop.

Gains are those of the launch simulated with the change; of a larger grid, and of loops that are not pipelined yet,
bounds from the share of the time that warps wait.
"""

from dataclasses import replace

from .. import units
from ..launch.program import ASYNCHRONOUS, Launch, Loop, Step, TileProgram
from ..launch.walk import matmuls_of, moved_bytes
from ..prediction.bottleneck import WAIT
from ..prediction.what_helps import Advice
from ..residency.residency import residency_of
from ..sm.what_if.changed_code import further_ahead
from .case import Case, Change

LEAST_WAIT = 0.05
"""Share of the time that warps must wait for data before more of them in flight is tried."""
STEP = 8
"""Registers and bytes of shared memory are taken away in steps of 8 registers, which a thread is given [1]."""
SMEM_STEP_BYTES = 1024


def more_ctas(case: Case) -> Advice | None:
    """One CTA more on an SM, where the grid has it and registers or shared memory keep it off; or a larger grid."""
    launch, held = case.prediction, case.prediction.ctas_per_sm
    if launch.causes[WAIT] < LEAST_WAIT:
        return None
    if case.ctas <= case.device.sms * held:
        return _larger_grid(case)
    resources = case.launch.resources
    if launch.occupancy_limit == "registers":
        sizes = range(resources.registers_per_thread - 1 - (resources.registers_per_thread - 1) % STEP, 0, -STEP)
        candidates = [replace(resources, registers_per_thread=size) for size in sizes]
        now = f"registers allow {held} ({resources.registers_per_thread} each)"
    elif launch.occupancy_limit == "smem":
        sizes = range((resources.smem_bytes_per_cta - 1) // SMEM_STEP_BYTES * SMEM_STEP_BYTES, 0, -SMEM_STEP_BYTES)
        candidates = [replace(resources, smem_bytes_per_cta=size) for size in sizes]
        stage = _ahead_bytes(case.launch.program, case.launch.program.body)
        of_stages = f", {units.capacity(stage)} of it a stage" if stage else ""
        now = f"shared memory allows {held} ({units.capacity(resources.smem_bytes_per_cta)} each{of_stages})"
    else:
        return None
    for smaller in candidates:
        changed = replace(case.launch, resources=smaller)
        if residency_of(changed, case.device).ctas_per_sm > held:
            break
    else:
        return None
    at = (
        str(smaller.registers_per_thread)
        if launch.occupancy_limit == "registers"
        else units.capacity(smaller.smem_bytes_per_cta)
    )
    more = residency_of(changed, case.device).ctas_per_sm
    gain = case.gain(Change(launch=lambda whole: replace(whole, resources=smaller)))
    return Advice(cause="occupancy", text=f"more CTAs per SM: {now}; at {at} it would be {more}", gain=gain)


def _larger_grid(case: Case) -> Advice | None:
    """More CTAs in the grid, where an SM holds more than it is given; twice as many wait half as long."""
    given, held = case.ctas / case.device.sms, case.prediction.ctas_per_sm
    if not 1.0 <= given <= held - 1:
        return None
    text = (
        f"more CTAs per SM: {case.ctas:,} CTAs give each of {case.device.sms} SMs {given:.2g}, where {held} fit;"
        f" {case.device.sms * held:,} of less work each hide each other's waits"
    )
    return Advice(cause="small grid", text=text, gain=case.bound(case.prediction.causes[WAIT] * (1.0 - given / held)))


def more_stages(case: Case) -> Advice | None:
    """One stage more of pipelined loops, with the shared memory that it takes; pipelining where there is none yet."""
    stages = case.launch.num_stages
    if case.prediction.causes[WAIT] < LEAST_WAIT:
        return None
    if not is_pipelined(case.launch):
        if stages > 1 or not matmuls_of(case.launch):
            return None
        how = "num_stages 3 in place of 1" if stages else "cp.async or TMA into a ring of 3 stages"
        text = f"loads that run ahead: {how} pipelines its loop"
        return Advice(cause="stages", text=text, gain=case.bound(case.prediction.causes[WAIT]))
    gain = case.gain(Change(code=further_ahead, launch=with_a_stage_more))
    how = f"num_stages {stages + 1} in place of {stages}" if stages else "a stage more in the ring of its loop"
    return Advice(cause="stages", text=f"more loads in flight: {how}", gain=gain)


def is_pipelined(launch: Launch) -> bool:
    """Whether a launch has a loop whose loads run ahead of it."""
    return bool(_ahead_bytes(launch.program, launch.program.body))


def with_a_stage_more(launch: Launch) -> Launch:
    """A launch whose pipelined loops ask for data an iteration earlier, into one buffer more."""
    program, resources = launch.program, launch.resources
    smem_bytes = resources.smem_bytes_per_cta + _ahead_bytes(program, program.body)
    return replace(
        launch,
        num_stages=launch.num_stages + 1,
        program=replace(program, body=_deeper(program.body)),
        resources=replace(resources, smem_bytes_per_cta=smem_bytes),
    )


def _deeper(body: tuple[Step | Loop, ...]) -> tuple[Step | Loop, ...]:
    return tuple(
        replace(node, body=_deeper(node.body), stages=node.stages + (node.stages > 1))
        if isinstance(node, Loop)
        else node
        for node in body
    )


def _ahead_bytes(program: TileProgram, body: tuple[Step | Loop, ...]) -> int:
    """What an iteration of a pipelined loop loads ahead; the most of several loops [B]."""
    most = 0
    for node in body:
        if isinstance(node, Loop):
            most = max(most, _ahead_bytes(program, node.body))
            if node.stages > 1:
                loads = [tile for step in node.body if isinstance(step, Step) for tile in step.loads]
                ahead = [tile for tile in loads if tile.path in ASYNCHRONOUS]
                most = max(most, sum(moved_bytes(program.tensor(tile.tensor), tile.rows, tile.cols) for tile in ahead))
    return most
