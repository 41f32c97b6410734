"""Where cycles go: steps add up to the launch, loops and lines to the time of all warps, in words and JSON."""

import json
from dataclasses import replace
from functools import cache

import pytest
from support.made_code import CODE, CODE_CONFIG, CODE_PROBLEM, CODE_RESOURCES
from tilesight.simulator.device.device import load_device
from tilesight.simulator.display.render import to_json
from tilesight.simulator.explain import explain
from tilesight.simulator.launch.code import NOWHERE
from tilesight.simulator.launch.program import Code
from tilesight.simulator.prediction.explanation import OUTSIDE, REASONS, Explanation, LaunchExplanation
from tilesight.simulator.prediction.kernel_row import KernelRow
from tilesight.simulator.prediction.kernels import KernelsPrediction
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.refusal import granted
from tilesight.simulator.report.explain import HOTTEST, explain_text
from tilesight.simulator.resolve import Sources, resolve
from tilesight.simulator.simulate import predict
from tilesight.simulator.sm.stall_reasons import STALLS

H200 = load_device("h200")
ITERATIONS = 64 * 16
"""CTAs, and key tiles of each."""
FIRST, SECOND = (64, __file__, 1), (4096, __file__, 3)
"""Where lines of this file are said to begin in the code, for the code has lost its own."""


def explained_with(code: Code, problem: AttentionProblem = CODE_PROBLEM) -> Explanation:
    resources = (replace(CODE_RESOURCES, code=code),)
    runs = granted(resolve(problem, "flash2", CODE_CONFIG, H200, Sources(resources=resources)))
    return explain(predict(runs, H200), runs.launches, H200)


@cache
def explained() -> Explanation:
    return explained_with(CODE)


def only(explanation: Explanation | None = None) -> LaunchExplanation:
    (launch,) = (explanation or explained()).launches
    assert launch is not None
    return launch


def test_every_reason_to_wait_has_a_name() -> None:
    """Waits of the simulation would be missing from the tables, or counted under another name."""
    assert [stall.number for stall in STALLS] == list(range(len(STALLS)))
    assert len({stall.name for stall in STALLS}) == len(STALLS)


def test_steps_on_all_sms_take_most_of_a_launch_that_computes() -> None:
    """Executions, cycles or SMs would be counted wrongly."""
    steps = {step.name: step for step in only().steps}
    assert steps["inner"].executions == ITERATIONS
    assert steps["inner"].full_cycles <= steps["inner"].alone_cycles
    assert 0.5 < steps["inner"].cycles_fraction < 1.0
    assert sum(step.cycles_fraction for step in steps.values()) <= 1.01


def test_steps_of_few_ctas_are_held_against_the_cycles_of_their_own_sms() -> None:
    """Eight CTAs leave SMs idle that tick 10 % faster: a tenth of the launch would look as if nobody computed."""
    few = replace(CODE_PROBLEM, heads=1, kv_heads=1, seqlen_q=512)
    launch = only(explained_with(CODE, few))
    assert launch.prediction.clock_hz == H200.boost_clock_hz
    computed = sum(step.executions * step.alone_cycles for step in launch.steps) / (few.seqlen_q // CODE_CONFIG.block_m)
    share = computed * H200.boost_clock_hz / H200.tensor_boost_clock_hz / launch.prediction.traffic.cycles
    assert sum(step.cycles_fraction for step in launch.steps) == pytest.approx(share, rel=0.02)


def test_a_pipe_is_never_busier_than_the_step_is_long() -> None:
    """A share above one has no meaning."""
    assert all(0.0 <= share <= 1.0 for step in only().steps for share in step.pipes.values())


def test_instructions_are_counted_as_the_arguments_say() -> None:
    """Four warps run every product once an iteration."""
    launch = only()
    assert launch.counted
    products = [line for line in launch.code.lines if line.instruction.family == "HGMMA"]
    assert {line.executed for line in products} == {4 * ITERATIONS}
    assert {line.depth for line in products} == {1}


def test_the_loop_has_nearly_all_the_time() -> None:
    """Sixteen iterations stand against one beginning and one end."""
    launch = only()
    times = {number: part.warp_cycles for number, part in launch.loops.items()}
    assert set(times) >= {OUTSIDE, 0}
    assert times[0] > 0.8 * launch.code.warp_cycles
    assert sum(times.values()) == pytest.approx(launch.code.warp_cycles)


def test_warps_wait_for_products_where_they_ask_for_their_end() -> None:
    """Waits would stand beside the wrong instruction, or under the wrong reason."""
    waits = [line for line in only().code.lines if line.instruction.opcode == "WARPGROUP.DEPBAR.LE"]
    assert waits
    assert all(max(line.cycles, key=lambda reason: line.cycles[reason]) == "matmuls" for line in waits if line.depth)


def test_the_time_of_warps_fits_into_the_launch() -> None:
    """Warps that wait for more cycles than there are would be shown."""
    launch = only()
    places = min(launch.resident, 64 / H200.sms)
    assert launch.code.warp_cycles / (64 * 4) < 1.5 * launch.prediction.traffic.cycles / max(1.0, places)


def test_code_that_gives_no_cost_is_still_listed_with_the_reason() -> None:
    """A launch would vanish, or its table be that of an estimate."""
    explanation = explained_with(replace(CODE, constants={}))
    launch = only(explanation)
    assert not launch.counted and "estimated from tile sizes" in explanation.prediction.notes[0]
    text = explain_text(explanation, H200, sass=True)
    assert "HGMMA" in text and "not known before the launch" in text


def test_of_a_function_the_longest_launch_is_told_in_full_and_one_without_a_cost_in_a_line() -> None:
    """Though it is the only other; steps are not told, as those of traced launches bear no names."""
    launches = (only(), only(explained_with(replace(CODE, constants={}), replace(CODE_PROBLEM, seqlen_k=128))))
    rows = [
        KernelRow(name="f", grid=(1, 1, 1), num_warps=4, num_stages=1, prediction=launch.prediction)
        for launch in launches
    ]
    prediction = KernelsPrediction(device="h200", l2="cold", rows=tuple(rows))
    text = explain_text(Explanation(prediction=prediction, launches=launches), H200, sass=False)
    assert "Launch 1 of 2: flash2, the longest: " in text and "prologue" not in text
    assert text.endswith("not simulated") and "Launch 2 of 2" not in text


def test_an_opcode_without_a_rule_is_named() -> None:
    """Its cycles would be missing without a word."""
    odd = explained_with(replace(CODE, sass=CODE.sass.replace("FMNMX", "NEWOP")))
    assert sum(only(odd).unknown.values()) == CODE.sass.count("FMNMX")
    assert "NEWOP" in explain_text(odd, H200, sass=False)


@pytest.mark.parametrize("width", [100, 120])
def test_the_words_say_steps_loops_and_reasons(width: int) -> None:
    """What the command is for; no line wraps in a terminal, and code is not shown unless it is asked for."""
    text = explain_text(explained(), H200, sass=False, width=width)
    assert max(map(len, text.splitlines())) <= width
    for words in ("prologue", "inner", "epilogue", "full SM", "no loop", "loop 0x", "scoreboard", "of all warps' time"):
        assert words in text
    assert "HGMMA" not in text


def test_instructions_count_at_the_line_that_they_come_from() -> None:
    """All of them, those in front of the first line as well, and their waits by reason."""
    launch = only(explained_with(replace(CODE, lines=(FIRST, SECOND))))
    assert [(place, len(part.lines)) for place, part in launch.sources.items()][:2] == [(NOWHERE, 4), (FIRST[1:], 252)]
    for total in ("executed", "warp_cycles", "others_wait_cycles"):
        parts = sum(getattr(part, total) for part in launch.sources.values())
        assert parts == pytest.approx(getattr(launch.code, total))
    by_reason = launch.sources[SECOND[1:]].cycles_by_reason
    assert sum(by_reason.values()) == pytest.approx(launch.sources[SECOND[1:]].warp_cycles)
    assert launch.to_dict(sass=False)["lines"][2]["source"] == "import json"


def test_lines_of_source_have_a_legend_where_their_reasons_are_shown() -> None:
    """In a narrow terminal both are left out; loops, whose names are addresses, are told beside the code."""
    explanation = explained_with(replace(CODE, lines=(FIRST, SECOND)))
    wide, narrow = (explain_text(explanation, H200, sass=False, width=width) for width in (200, 60))
    assert "mostly" in wide and "\nfixed: waits out" in wide and "by line of test_explain.py" in wide
    assert "mostly" not in narrow and "fixed" not in narrow
    assert "loop 0x" not in wide and "loop 0x" in explain_text(explanation, H200, sass=True)


def test_the_listing_shows_every_instruction_and_marks_the_hottest() -> None:
    """As a profiler does."""
    lines = explain_text(explained(), H200, sass=True).split("Code of flash2")[1].splitlines()
    assert sum(line.startswith(">") for line in lines) == HOTTEST
    assert len([line for line in lines if " HGMMA." in line]) == CODE.sass.count("HGMMA.")
    hottest = max(only().code.lines, key=lambda line: line.warp_cycles)
    (hottest_line,) = [line for line in lines if line[1:].strip().startswith(f"{hottest.instruction.address:04x} ")]
    assert hottest_line.startswith(">") and hottest.instruction.opcode in hottest_line


def test_json_holds_the_same_and_the_code_on_request() -> None:
    """Programs read what people read."""
    document = json.loads(to_json(explained().to_dict(sass=False)))
    (launch,) = document["launches"]
    assert document["schema"] == "tilesight.explain/1"
    assert launch["executed_instructions"] == only().code.executed
    assert set(launch["loops"][0]["warp_cycles"]) == set(REASONS)
    assert "code" not in launch
    (launch,) = json.loads(to_json(explained().to_dict(sass=True)))["launches"]
    assert len(launch["code"]) == len(only().code.lines)
