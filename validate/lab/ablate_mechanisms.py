"""The mechanisms that `ablate.py` switches off one by one, and how: numbers that do nothing, or code that is replaced.

Names of mechanisms are those of `ablation.md`, which was made on commit 27ddec2; modules and functions are today's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
from tilesight.simulator.core.jit import inlined
from tilesight.simulator.core.sm import instruction
from tilesight.simulator.core.sm.latencies import Latencies
from tilesight.simulator.core.sm.state import State
from tilesight.simulator.device.device import Device
from tilesight.simulator.device.sm_numbers import CODE, sm_fields
from tilesight.simulator.sm.step_cost import StepCost

ROOM = "tilesight.simulator."
Costs = dict[str, StepCost]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """One of them, and how to switch it off.

    Args:
        name: what it is; where: its constant or function.
        sm, device: numbers of the SM and of the device that make it do nothing; latencies: the same, as `core.sm` takes
            them; costs: fields of every step's cost.
        patches: `module:name` -> what takes its place, before numba compiles anything.
        costly: whether costs of steps change with it, so that they are simulated anew.
    """

    name: str
    where: str
    sm: Mapping[str, Any] = field(default_factory=dict)
    device: Mapping[str, Any] = field(default_factory=dict)
    latencies: Mapping[str, Any] = field(default_factory=dict)
    costs: Mapping[str, Any] = field(default_factory=dict)
    patches: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    costly: bool = False

    def apply(self) -> None:
        """Replace code. To be called once, by a process that has compiled nothing."""
        for place, made in self.patches.items():
            module, name = place.split(":")
            owner = import_module(ROOM + module)
            setattr(owner, name, made(getattr(owner, name)))
        if self.latencies:
            owner = import_module(ROOM + "sm.from_code")
            before = owner.latencies_of
            owner.latencies_of = lambda *given: before(*given)._replace(**self.latencies)

    def without(self, device: Device) -> Device:
        """The GPU that lacks it."""
        return replace(device, **self.device, sm=replace(device.sm, **self.sm))

    @property
    def in_engine(self) -> bool:
        """Whether the engine itself changes, whatever steps cost."""
        parts = {sm_fields()[name].metadata["part"] for name in self.sm}
        return bool(self.device or parts - {CODE} or any(place.startswith("engine") for place in self.patches))

    @property
    def recompiles(self) -> bool:
        """Whether numba compiles other code."""
        return any(place.startswith("core") for place in self.patches)

    def of(self, costs: Costs) -> Costs:
        """Costs of a launch's steps that lack it."""
        return {name: replace(cost, **self.costs) for name, cost in costs.items()} if self.costs else costs


def instead(value: Any) -> Callable[[Any], Any]:
    """A patch that forgets what was there."""
    return lambda _: value


@inlined
def _oldest_first(state: State, warp: int, other: int, core: int, queues: bool) -> bool:
    last = state.latest[core]
    return other != last and (warp == last or state.age[warp] < state.age[other])


@inlined
def _nothing(state: State, code: np.ndarray, width: int, latencies: Latencies) -> None:
    pass


def _loads_as_first(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Loads of what a warp has loaded are loads like others."""

    def first_loads(*arguments: Any) -> np.ndarray:
        code = function(*arguments)
        again = code["kind"] == instruction.REUSED_LOAD
        code["kind"][again] = instruction.LOAD
        code["tag_lines"][again] = code["smem_lines"][again]
        return code

    return first_loads


STEP = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.001), (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0)
"""L1 that has all of what lies within its room, and nothing else."""

ENGINE = (
    Mechanism(name="launch ramp", where="launch_ramp_cycles", device={"launch_ramp_cycles": 0.0}),
    Mechanism(name="CTAs start one after the other", where="cta_dispatch_cycles", device={"cta_dispatch_cycles": 0.0}),
    Mechanism(name="clusters of SMs tick apart", where="gpc_clock_spread", device={"gpc_clock_spread": 0.0}),
    Mechanism(name="idle SMs count at the boost clock", where="clock_free_clusters_ctas",
              sm={"clock_free_clusters_ctas": 0}),
    Mechanism(name="clock of lone CTAs rises in pauses", where="clock_lone_ctas", sm={"clock_lone_ctas": 0}),
    Mechanism(name="restart after a short pause costs less", where="clock_restart_short_fraction",
              sm={"clock_restart_short_fraction": 1.0}, costly=True),
    Mechanism(name="first CTAs go round the partitions", where="launch_state._sm_order",
              patches={"engine.launch_state:_sm_order": instead(lambda device: np.arange(device.sms))}),
    Mechanism(name="reads wait for turns of writes", where="hbm_turn_s", device={"hbm_turn_s": 0.0}, costly=True),
    Mechanism(name="HBM is slower reading and writing", where="hbm_mixed_fraction",
              device={"hbm_mixed_fraction": 1.0}),
    Mechanism(name="a third of the other direction mixes in full", where="hbm_mixing_full_fraction",
              sm={"hbm_mixing_full_fraction": 0.5}),
    Mechanism(name="channels of HBM", where="hbm_channels", device={"hbm_channels": 1}),
    Mechanism(name="HBM reads less than a line more slowly", where="hbm_part_line_fraction",
              device={"hbm_part_line_fraction": 1.0}),
    Mechanism(name="HBM writes pieces of rows more slowly", where="hbm_piece_write_bytes",
              device={"hbm_piece_write_bytes": 0.0}),
    Mechanism(name="tiles of pieces come later", where="hbm_piece_latency_s", device={"hbm_piece_latency_s": 0.0}),
    Mechanism(name="sets of L2 fill unevenly", where="l2_set_spread", device={"l2_set_spread": 0.0}),
    Mechanism(name="part of L2 may be dirty", where="l2_dirty_fraction", device={"l2_dirty_fraction": 1.0}),
    Mechanism(name="coalescer", where="coalescer_sms", device={"coalescer_sms": 1}),
    Mechanism(name="fabric takes time", where="fabric_bytes_per_s, fabric_latency_cycles",
              device={"fabric_bytes_per_s": 1e15, "fabric_latency_cycles": 0.0}),
    Mechanism(name="L2 takes writes at half its rate", where="l2_write_bytes_per_s",
              device={"l2_write_bytes_per_s": 9.23e12}),
    Mechanism(name="L1 forgets by and by", where="l1_hit_fractions",
              sm={"l1_reach_fractions": STEP[0], "l1_whole_reach_fractions": STEP[0],
                  "l1_hit_fractions": STEP[1]}, costly=True),
    Mechanism(name="older CTAs are slowed less", where="StepCost.slowdown_by_age",
              costs={"slowdown_by_age": ()}),
    Mechanism(name="slack of what is loaded ahead", where="StepCost.slack_cycles", costs={"slack_cycles": 0.0}),
    Mechanism(name="waits for tiles one by one", where="StepCost.waits", costs={"waits": 1}),
    Mechanism(name="spilled registers take room in L2", where="StepCost.local_bytes",
              costs={"local_bytes": 0, "local_kept_bytes": 0}),
)  # fmt: skip

SM = (
    Mechanism(name="products last unevenly (jitter)", where="wgmma_length_jitter_fraction",
              sm={"wgmma_length_jitter_fraction": 0.0}, costly=True),
    Mechanism(name="products that fill shared memory: others wait for their ends", where="wgmma_smem_all_fraction",
              latencies={"matmul_smem_all": 2.0}, costly=True),
    Mechanism(name="each line delays such a product", where="wgmma_smem_line_hold_cycles",
              sm={"wgmma_smem_line_hold_cycles": 0.0}, costly=True),
    Mechanism(name="products take more from reads", where="wgmma_smem_from_reads_fraction",
              sm={"wgmma_smem_from_reads_fraction": 0.0}, costly=True),
    Mechanism(name="a product delays lines that wait", where="memory_pipe.delay_for_matmul",
              patches={"core.sm.issue:delay_for_matmul": instead(_nothing)}, costly=True),
    Mechanism(name="loads come late where shared memory is busy", where="memory_pipe.BEGUN_CYCLES",
              patches={"core.sm.memory_pipe:BEGUN_CYCLES": instead(1e18)}, costly=True),
    Mechanism(name="register port beside products", where="wgmma_port_instruction_cycles",
              sm={"wgmma_port_instruction_cycles": 1.0}, costly=True),
    Mechanism(name="a few instructions need not wait for the port", where="wgmma_port_slack_instructions",
              sm={"wgmma_port_slack_instructions": 0.0}, costly=True),
    Mechanism(name="rows of instructions hold products up", where="wgmma_port_run_instructions",
              sm={"wgmma_port_run_instructions": 1000}, costly=True),
    Mechanism(name="MUFU takes the port twice", where="mufu_port_reads", sm={"mufu_port_reads": 1.0}, costly=True),
    Mechanism(name="SHFL passes shared memory twice", where="shfl_smem_passes", sm={"shfl_smem_passes": 1.0},
              costly=True),
    Mechanism(name="few products wait in front of the tensor cores", where="wgmma_queue_products",
              sm={"wgmma_queue_products": 32}, costly=True),
    Mechanism(name="stores of parts of sectors take longer", where="l2_write_part_sector_factor",
              sm={"l2_write_part_sector_factor": 1.0}, costly=True),
    Mechanism(name="more narrow stores wait behind L1", where="l2_write_queue_narrow_lines",
              sm={"l2_write_queue_narrow_lines": 52.0}, costly=True),
    Mechanism(name="narrow accesses touch a sector a lane", where="instructions.NARROW",
              patches={"sm.instructions:NARROW": instead({})}, costly=True),
    Mechanism(name="few SMs write faster", where="l2_write_lone_cycles_per_line",
              sm={"l2_write_lone_cycles_per_line": 6.26}, costly=True),
    Mechanism(name="the way out holds no more than a queue", where="l2_write_queue_lines",
              sm={"l2_write_queue_lines": 1e4, "l2_write_queue_narrow_lines": 1e4}, costly=True),
    Mechanism(name="queue in front of L1", where="lsu_queue_instructions", sm={"lsu_queue_instructions": 63},
              costly=True),
    Mechanism(name="warps take turns in front of that queue", where="issue._goes_first",
              patches={"core.sm.issue:_goes_first": instead(_oldest_first)}, costly=True),
    Mechanism(name="TMA loads wait for stores to leave", where="tma_load_after_store_cycles",
              sm={"tma_load_after_store_cycles": 0.0}, costly=True),
    Mechanism(name="LDGSTS takes a turn at L1", where="ldgsts_smem_turn_fraction",
              sm={"ldgsts_smem_turn_fraction": 0.0}, costly=True),
    Mechanism(name="STS reads registers word by word", where="smem_store_word_read_cycles",
              sm={"smem_store_word_read_cycles": 0.0}, costly=True),
    Mechanism(name="end of a divergent branch (BSYNC)", where="bsync_cycles", sm={"bsync_cycles": 0}, costly=True),
    Mechanism(name="fences wait for what was stored", where="instructions.FENCES",
              patches={"sm.instructions:FENCES": instead(frozenset())}, costly=True),
    Mechanism(name="L1 forgets spilled registers by and by", where="spill_l1_kept_fraction",
              sm={"spill_l1_kept_fraction": 0.999, "spill_l1_lost_fraction": 1.0}, costly=True),
    Mechanism(name="loads of what a warp has loaded hit", where="lane_addresses: REUSED_LOAD",
              patches={"sm.followed:with_lane_addresses": _loads_as_first}, costly=True),
    Mechanism(name="copies are looked for in two iterations", where="lane_addresses._blocks_of_warps",
              patches={"sm.lane_addresses:_blocks_of_warps": lambda blocks: lambda paths, most: blocks(paths, 1)},
              costly=True),
    Mechanism(name="row kernels wait for HBM together", where="latency_slack.hbm_extra_latency_cycles",
              patches={"sm.from_code:hbm_extra_latency_cycles": instead(lambda launch, device: 0.0)}, costly=True),
    Mechanism(name="more rounds of code without loops", where="full_sm.STRAIGHT_ROUNDS",
              patches={"sm.full_sm:STRAIGHT_ROUNDS": instead(4)}, costly=True),
    Mechanism(name="mean over three spans of starts", where="full_sm.APART",
              patches={"sm.full_sm:APART": instead((1.0,))}, costly=True),
    Mechanism(name="longer runs until a pace has settled", where="full_sm.LONGER",
              patches={"sm.full_sm:LONGER": instead((1,))}, costly=True),
    Mechanism(name="peeled iterations belong to their loop", where="match_steps.PEELED",
              patches={"sm.match_steps:PEELED": instead(-1)}, costly=True),
)  # fmt: skip

MECHANISMS = (*ENGINE, *SM)
