"""How fast the tensor cores of a device are, where machine code alone would say how fast those of its architecture are.

The table of opcodes (`sass.opcodes`) has one interval for an architecture, but products of an architecture differ:
GeForce cards sum products in 32 bits at half the rate of their workstation relatives. A device file has the rates of
its own, and these decide. Where both say nearly the same, the interval of the table stays: it was measured on code.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..device.device import INSTRUCTIONS, Device
from ..dtypes import DTYPES
from ..launch.program import Launch, Matmul
from ..launch.walk import steps
from ..limits import SUB_CORES
from ..residency.registers_and_smem import MMA_ROWS, WGMMA_ROWS
from ..sass.decode import Instruction
from ..sass.flow import flow_of
from ..sass.matrix import TENSOR_MEMORY_ROWS, MatmulShape, matmul_shape_of, tensor_cycles
from ..sass.opcodes import Rule, find_rule, interval_cycles, rules
from .step_cost import MMA_COLUMNS

LIKE = 0.1
"""Difference up to which a rate counts as the same: microbenchmarks and datasheets differ by as much."""


def alike(rate: float, other: float) -> bool:
    """Whether two rates count as the same."""
    return abs(rate - other) <= LIKE * max(rate, other)


def rates_of(instruction: Instruction, table: Mapping[str, Rule], device: Device) -> tuple[float, float]:
    """What an SM makes of an instruction's matmuls at most, per cycle [FLOP]; 0 of instructions that make none.

    Args:
        table: of opcodes, of the device's architecture.

    Returns:
        (by the device and the table together, by the table alone).
    """
    matmul = matmul_shape_of(instruction)
    rule = find_rule(instruction, table) if matmul else None
    if matmul is None or rule is None:
        return 0.0, 0.0
    usual = _usual_flop_per_cycle(instruction, matmul, rule)
    device_rate = device.matmul_flop_per_cycle(matmul.instruction, matmul.kind)
    return (usual if not device_rate or alike(device_rate, usual) else device_rate), usual


def issued_matmuls(launch: Launch) -> Iterator[tuple[Instruction, MatmulShape, float]]:
    """Matrix instructions of a traced launch, and how often each is issued: all warps that do so together as one."""
    if launch.traced and launch.resources.code is not None:
        issued = np.sum([code.issued for code in launch.traced], axis=0)
        for instruction, times in zip(flow_of(launch.resources.code.sass).instructions, issued, strict=True):
            if times and (matmul := matmul_shape_of(instruction)):
                yield instruction, matmul, float(times) / matmul.warps


def peak_flop_per_cycle(launch: Launch, device: Device) -> float:
    """What an SM makes of a launch's matmuls at most, per cycle; 0: it has none for them [FLOP].

    Of a traced launch each matmul counts at the fastest rate that the device has for its operands and sums.
    """
    table = rules(device.capability)
    flop = cycles = 0.0
    for instruction, matmul, times in issued_matmuls(launch):
        fastest = max(device.fastest_of_kind(matmul.kind), rates_of(instruction, table, device)[0])
        if fastest:
            flop += times * matmul.flop
            cycles += times * matmul.flop / fastest
    return flop / cycles if cycles else device.fastest_flop_per_cycle(launch.dtype)


def with_tensor_rates(
    code: np.ndarray, instructions: Sequence[Instruction], table: Mapping[str, Rule], device: Device
) -> np.ndarray:
    """A table of code (`core.sm.instruction`) whose matmuls take as long as the device's tensor cores need.

    Args:
        instructions: that the rows stand for; table: of opcodes, of the device's architecture.
    """
    rates = np.array([rates_of(instruction, table, device) for instruction in instructions])
    slower = np.divide(rates[:, 1], rates[:, 0], out=np.ones(len(rates)), where=rates[:, 0] > 0.0)
    slowed = code.copy()
    slowed["interval_cycles"] *= slower
    slowed["tensor_cycles"] *= slower
    return slowed


def tensor_cycles_of(launch: Launch, executions: Mapping[str, int], device: Device) -> tuple[float, float]:
    """Time that the matmuls of a schedule's launch take the tensor cores, summed over SMs [cycles].

    Args:
        executions: step name -> how often it runs in the launch.

    Returns:
        (least: at the fastest rate of the device, most: by its slowest instructions, repeated by warps that find no
        rows of their own).
    """
    least = most = 0.0
    for step, _ in steps(launch.program.body):
        for matmul in step.work.matmuls:
            cycles = executions[step.name] * matmul.flop / device.fastest_flop_per_cycle(launch.dtype)
            least += cycles
            most += cycles * _slowest(matmul, launch, device)
    return least, most


def _slowest(matmul: Matmul, launch: Launch, device: Device) -> float:
    """How many times as long as at the fastest rate a tile's matmul can take the tensor cores."""
    repeated = max(1.0, launch.compute_warps * MMA_ROWS / matmul.m)
    rates = [rate for kind in INSTRUCTIONS if (rate := device.tensor_flop_per_cycle(kind, launch.dtype))]
    slower = max(rates) / min(rates)
    # Narrow ones of a warpgroup take their turn at reading A.
    narrow = MatmulShape(
        m=WGMMA_ROWS,
        n=max(MMA_COLUMNS, int(matmul.n / repeated)),
        k=matmul.k,
        bits=DTYPES[launch.dtype].bits,
        instruction="wgmma",
        a_in_smem=True,
        kind="",
    )
    return repeated * max(slower, tensor_cycles(narrow, 1.0) / (narrow.n / 2))


def _usual_flop_per_cycle(instruction: Instruction, matmul: MatmulShape, rule: Rule) -> float:
    """The same by the table alone; of matmuls larger than a warp's the full rate, which small ones do not reach."""
    if matmul.instruction == "tcgen05":
        return matmul.flop / tensor_cycles(matmul, rule.interval_cycles) * TENSOR_MEMORY_ROWS / matmul.m
    if matmul.warps > 1:
        return matmul.flop / (matmul.n / 2)
    return SUB_CORES * matmul.flop / interval_cycles(instruction, rule)
