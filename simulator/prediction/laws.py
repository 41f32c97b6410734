"""Laws of a prediction: no launch does more than its device can in its time, none reads less than it must.

Work is counted a second time here, from what does not depend on the costs of steps: FLOP from the tile program of a
schedule, or from the matrix instructions that traced machine code issues; bytes from the program. A figure beyond what
the device can do is a fault of the model, and no answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from math import ceil

from ..device.device import Device
from ..launch.program import Launch
from ..limits import SUB_CORES
from ..sass import matrix
from ..sass.opcodes import rules
from ..sm.tensor_rate import LIKE, issued_matmuls, rates_of, tensor_cycles_of
from .compulsory import compulsory_read_bytes
from .prediction import LaunchPrediction

ROUNDING = 0.01
"""How far figures may be beyond a limit that their device keeps exactly: extrapolated grids are that exact, and figures
of the library are rounded."""


@dataclass(frozen=True, slots=True)
class Law:
    """One law of one launch.

    Args:
        name: what may not be more than what, in words.
        figure, limit: of the launch, and what the device, or the code, allows; in `unit`.
        unit: of both.
        tolerance: part of the limit by which the figure may be beyond it.
    """

    name: str
    figure: float
    limit: float
    unit: str
    tolerance: float = ROUNDING

    @property
    def broken(self) -> bool:
        """Whether the figure is beyond the limit."""
        return self.figure > (1.0 + self.tolerance) * self.limit


def laws_of(
    launch: Launch, executions: Mapping[str, int], prediction: LaunchPrediction, device: Device, *, cold: bool
) -> tuple[Law, ...]:
    """The laws that a launch's prediction has to keep.

    Args:
        launch: with its program, and the code where it is traced.
        executions: step name -> how often it runs in the launch.
        prediction: of the launch on the device.
        cold: whether nothing of what it reads was in L2 before.
    """
    traffic = prediction.traffic
    cycles = traffic.cycles - device.launch_ramp_cycles
    time_s = traffic.cycles / prediction.clock_hz
    sms = sms_in_use(launch, device)
    # A warp has the pipes of its own sub-core alone.
    warps = launch.warps_per_cta * min(prediction.ctas_per_sm, ceil(launch.cta_count / device.sms))
    sub_cores = min(SUB_CORES, warps) / SUB_CORES
    available, whole_cycles = cycles * sms, traffic.cycles * device.sms
    used = {name: share * whole_cycles for name, share in prediction.utilisation.items()}
    tensor, most_tensor = tensor_cycles(launch, executions, device)
    exps = traffic.exp_count / device.mufu_per_cycle
    limit_bytes = device.sm_fill_bytes_per_cycle * available
    laws = [
        Law("useful FLOP are part of those executed", traffic.matmul_flop, traffic.executed_flop, "FLOP"),
        Law("matmuls take their time on the tensor cores", tensor, available * sub_cores, "SM cycles", LIKE),
        Law("steps take the time of their matmuls", tensor, used["tensor"], "SM cycles", LIKE),
        Law("steps take no longer than the slowest matmuls", used["tensor"], most_tensor, "SM cycles", LIKE),
        Law("exponentials take their time on the MUFU pipes", exps, available * sub_cores, "SM cycles"),
        Law("loads pass the ports of the SMs", traffic.smem_fill_bytes, limit_bytes, "bytes"),
        Law("loads pass L2", traffic.l2_read_bytes, device.l2_bytes_per_s * time_s, "bytes"),
        Law("reads and writes pass device memory", traffic.hbm_bytes, device.hbm_peak_bytes_per_s * time_s, "bytes"),
    ]
    for pipe in ("tensor", "mufu", "fma", "issue", "smem"):
        share = 1.0 if pipe == "smem" else sub_cores
        laws.append(Law(f"the {pipe} pipes have one user at a time", used[pipe], available * share, "SM cycles"))
    if launch.traced:
        issued = float(sum(code.issued.sum() for code in launch.traced)) / device.issue_per_cycle
        laws.append(Law("instructions take their issue slots", issued, available * sub_cores, "SM cycles"))
    if cold:
        least = compulsory_read_bytes(launch)
        laws.append(Law("what is read first comes from device memory", least, traffic.hbm_read_bytes, "bytes", LIKE))
    return tuple(laws)


def broken_law(
    launch: Launch, executions: Mapping[str, int], prediction: LaunchPrediction, device: Device, *, cold: bool
) -> str:
    """The first law that a launch's prediction breaks, with what to report, in one line; empty where it keeps all."""
    laws = laws_of(launch, executions, prediction, device, cold=cold)
    law = next((law for law in laws if law.broken), None)
    if law is None:
        return ""
    grid = " x ".join(map(str, launch.grid))
    constants = "".join(f", {name} = {value}" for name, value in sorted(launch.constants.items()))
    return (
        f"internal: kernel {launch.name} breaks a law of {device.name}: {law.name}: {law.figure:.4g} {law.unit} are "
        f"more than {law.limit:.4g}; this is a fault of tilesight {_version()}: report this line, and what was asked "
        f"(grid {grid}, {launch.num_warps} warps, {launch.num_stages} stages, {launch.dtype}{constants}, "
        f"cycles: {prediction.cost})"
    )


def sms_in_use(launch: Launch, device: Device) -> float:
    """SMs that a launch can keep busy, in the mean over its time.

    Where all CTAs do the same work, the SMs that get one more than others take as long as all.
    """
    if launch.program.period_items == 1 and launch.cta_count == launch.program.item_count:
        return launch.cta_count / ceil(launch.cta_count / device.sms)
    return min(device.sms, launch.cta_count)


def tensor_cycles(launch: Launch, executions: Mapping[str, int], device: Device) -> tuple[float, float]:
    """Time that the matmuls of a launch take at the rates of the device: least and most, summed over SMs [cycles].

    Args:
        executions: step name -> how often it runs; of a traced launch its matrix instructions are counted instead.
    """
    if not launch.traced or launch.resources.code is None:
        return tensor_cycles_of(launch, executions, device)
    table = rules(device.capability)
    least = most = 0.0
    for instruction, matmul, times in issued_matmuls(launch):
        rate, usual = rates_of(instruction, table, device)
        if rate:
            cycles = matmul.flop / rate
            least += times * cycles
            if matmul.instruction != "mma":
                # Short ones of a warpgroup wait for A from shared memory, or for their sums; in tensor memory those
                # of few rows leave lanes idle.
                least_cycles = device.sm.wgmma_registers_least_cycles if matmul.instruction == "wgmma" else 0.0
                cycles = max(cycles, max(matrix.tensor_cycles(matmul, 1.0), least_cycles) * usual / rate)
            most += times * cycles
    return least, most


def _version() -> str:
    try:
        return version("tilesight")
    except PackageNotFoundError:
        return "of this tree"
