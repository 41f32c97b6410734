"""Compiled kernels: their machine code is read, known, and runs as many instructions as a GPU counted."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import launches_of

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

from support.compiling import compile_launch
from tilesight.kernels.compile.compile import with_resources
from tilesight.kernels.compile.outcomes import Compiled
from tilesight.simulator.sass.decode import decode
from tilesight.simulator.sass.flow import find_flow
from tilesight.simulator.sass.opcodes import find_rule, rules
from tilesight.simulator.trace.executions import executed_instructions, executions, paths

COUNTED = json.loads((Path(__file__).parents[1] / "recorded" / "instructions-h200.json").read_text("utf-8"))
# One device for each table of opcodes.
DEVICES = ("a100-sxm-80gb", "a40", "l40s", "h200", "b200", "rtx-5090")
PROBLEM = AttentionProblem(batch=2, heads=4, seqlen_q=500, seqlen_k=500, head_dim=64, causal=True)
LINE = re.compile(r"^ ?/\*([0-9a-f]{4,})\*/ (.*);")


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch_module: pytest.MonkeyPatch) -> Path:
    """A cache of this run's own: what is tested is compiled."""
    folder = tmp_path_factory.mktemp("compiled")
    monkeypatch_module.setenv("TILESIGHT_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(scope="module")
def monkeypatch_module() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def compiled(schedule: str, problem: AttentionProblem, device_name: str, name: str = "", **options: Any) -> Any:
    """A launch of a schedule, with the resources and the code of its kernel."""
    device = load_device(device_name)
    chosen = find_schedule(schedule)
    fixed = {"warp_split": "q"} if "warp_split" in chosen.options else {}
    launches = launches_of(problem, schedule, chosen.config(**{**fixed, **options}), device)
    launch = next(candidate for candidate in launches if candidate.name == (name or schedule))
    outcome = compile_launch(launch, device, code=True)
    assert isinstance(outcome, Compiled) and outcome.code, outcome
    return with_resources(launch, outcome), outcome.code


@pytest.mark.parametrize("record", COUNTED, ids=lambda record: f"{record['launch']}-{record['inst_executed']}")
def test_instructions_are_as_many_as_an_h200_counted(record: dict[str, Any]) -> None:
    """A loop, a role of warps or a branch would be counted too often or too seldom; waits that poll count for 0.1 %."""
    problem = AttentionProblem(**record["problem"])
    launch, code = compiled(record["schedule"], problem, "h200", record["launch"], **record["config"])
    executed = executed_instructions(find_flow(decode(code.sass)), launch, code.constants)
    assert executed == pytest.approx(record["inst_executed"], rel=1e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("schedule", ["flash1", "flash2", "flash2_tma", "naive", "unfused"])
def test_kernels_can_be_followed_on_every_architecture(schedule: str, device: str) -> None:
    """A branch, a jump or a barrier of an architecture would not be understood, or an opcode have no rule."""
    if schedule == "flash2_tma" and load_device(device).compute_capability < "9":
        pytest.skip("no TMA")
    name = "output" if schedule in ("naive", "unfused") else ""
    launch, code = compiled(schedule, PROBLEM, device, name)
    flow = find_flow(decode(code.sass))
    table = rules(load_device(device).capability)
    assert all(find_rule(instruction, table) for instruction in flow.instructions)
    run = executions(flow, launch, code.constants)
    ways = paths(flow, launch, code.constants)
    counted = run.counts[0]
    for warp, way in enumerate(ways):
        assert [way.count(block) for block in range(len(flow.blocks))] == counted[warp].tolist()
        assert flow.code(way[-1])[-1].family == "EXIT"


def test_control_bits_are_those_that_cuobjdump_prints_for_blackwell() -> None:
    """Where the tool prints them as text, every instruction's must be equal to what is read from its encoding."""
    _, code = compiled("flash2", PROBLEM, "rtx-5090")
    instructions = {instruction.address: instruction for instruction in decode(code.sass)}
    seen = 0
    for line in code.sass.splitlines():
        if not (match := LINE.match(line)):
            continue
        instruction, text = instructions[int(match[1], 16)], match[2]
        for barrier, shown in ((instruction.write_barrier, "wr"), (instruction.read_barrier, "rd")):
            printed = re.search(rf"&{shown}=0x(\d)", text)
            assert barrier == (int(printed[1]) if printed else -1), line
        printed = re.search(r"&req=\{([\d,]+)\}", text)
        assert instruction.wait_mask == sum(
            1 << int(number) for number in (printed[1].split(",") if printed else ())
        ), line
        if printed := re.search(r"\?(trans|WAIT)(\d+)(_END_GROUP)?", text):
            assert (instruction.stall_cycles, instruction.yields) == (int(printed[2]), bool(printed[3])), line
            seen += 1
    assert seen > len(instructions) / 2


def test_code_is_kept_beside_resources_and_not_instead() -> None:
    """Asking for the code would change what is known of a launch, or return one launch's arguments for another's."""
    device = load_device("h200")
    (launch,) = launches_of(PROBLEM, "flash2", find_schedule("flash2").config(warp_split="q"), device)
    plain, kept = compile_launch(launch, device), compile_launch(launch, device, code=True)
    assert isinstance(plain, Compiled) and isinstance(kept, Compiled) and kept.code
    assert plain.code is None
    assert (plain.resources, plain.instructions) == (kept.resources, kept.instructions)
    assert 500 in kept.code.constants.values()
