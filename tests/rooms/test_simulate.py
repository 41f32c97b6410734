"""The whole flow: what goes in is checked, what comes out is put together from exact counts and the engine's."""

import json
from dataclasses import replace

import pytest
from closed_forms import papers
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import TOY, TOY_WGMMA, configs, dtypes_of, problems, read_by, toys
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.program import Resources
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.residency.device_memory import allocated_bytes
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import written_schedules
from tilesight.simulator.simulate import DoesNotFit, launches_of, peak_memory_bytes, simulate, simulate_with_timeline

H200 = load_device("h200")
SMALL = AttentionProblem(batch=1, heads=4, seqlen_q=512, seqlen_k=512, head_dim=64)
ONE_CTA_AN_SM = AttentionProblem(batch=1, heads=132, seqlen_q=64, seqlen_k=2048, head_dim=64)
LARGE = AttentionProblem(batch=4, heads=32, seqlen_q=4096, seqlen_k=4096, head_dim=64)
SCORES = replace(LARGE, batch=1, heads=16, kv_heads=16)
"""Half a GiB of scores, ten times what L2 holds: what writes them is as busy as with all heads, and soon predicted."""
every_schedule = pytest.mark.parametrize("schedule", written_schedules())


@every_schedule
def test_a_prediction_names_what_was_asked(schedule: str) -> None:
    """Device, schedule, problem, the configuration that was used, and one entry per launch."""
    seen = simulate(SMALL, schedule=schedule)
    chosen = written_schedules()[schedule]
    default = chosen.config(**chosen.in_triton)
    assert (seen.device, seen.schedule, seen.problem, seen.config) == (
        "h200",
        schedule,
        chosen.problem.of(SMALL),
        default,
    )
    names = [launch.name for launch in launches_of(SMALL, schedule, None, H200)]
    assert [launch.name for launch in seen.launches] == names


def test_a_device_may_be_a_value() -> None:
    """A what-if gives what the same figures under a name give, but for the name."""
    by_name, by_value = simulate(SMALL, device="h200"), simulate(SMALL, device=H200)
    assert by_name.launches == by_value.launches
    assert (by_name.device, by_value.device) == ("h200", H200.name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"l2": "hot"}, "l2 = 'hot': must be one of cold, warm"),
        ({"resolution": "byte"}, "resolution = 'byte': must be one of chunk, line"),
        ({"overhead": "none"}, "overhead = 'none': must be one of stream, graph"),
        ({"device": "h2000"}, "device 'h2000' is unknown"),
        ({"schedule": "flash9"}, "flash9"),
    ],
)
def test_unknown_names_are_refused_in_one_line(options: dict[str, str], said: str) -> None:
    """With what is allowed."""
    with pytest.raises(ValueError, match=said) as caught:
        simulate(SMALL, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_dtype_without_tensor_instruction_is_refused() -> None:
    """The toy has no fp8."""
    with pytest.raises(ValueError, match="dtype = 'fp8'"):
        simulate(replace(SMALL, dtype="fp8"), device=TOY)


def test_what_does_not_fit_an_sm_is_an_error_of_its_own() -> None:
    """More shared memory than a CTA may have."""
    with pytest.raises(DoesNotFit, match="shared memory"):
        simulate(SMALL, config=Config(block_m=256, block_n=256, num_stages=4))


def test_a_problem_larger_than_the_device_is_an_answer() -> None:
    """The prediction says that it does not fit."""
    device = replace(H200, hbm_bytes=1 << 28)
    seen = simulate(replace(SMALL, heads=256), schedule="naive", device=device)
    assert seen.peak_memory_bytes > device.hbm_bytes
    assert not seen.fits
    assert simulate(replace(SMALL, heads=256), schedule="flash2", device=device).fits


@pytest.mark.parametrize("name", ["mufu_per_cycle", "issue_per_cycle", "wgmma_fp16_flop_per_cycle"])
def test_a_what_if_that_machine_code_does_not_ask_about_is_answered_from_tiles(name: str) -> None:
    """And a note says which number it is; a tenth is what datasheet and measurement may differ by."""
    value = getattr(H200, name)
    seen = simulate(LARGE, device=replace(H200, **{name: value / 2}))
    assert seen.launches[0].cost.startswith("tiles: ")
    assert any(f"{name} = {value:g}, not {value / 2:g}" in note for note in seen.notes)
    assert simulate(LARGE, device=replace(H200, **{name: 0.95 * value})).launches[0].cost == "compiled"


def test_given_resources_replace_the_estimates() -> None:
    """And are marked; fewer registers let more CTAs in."""
    estimated, given_ = simulate(LARGE, cost="tiles"), simulate(LARGE, registers=96, smem_bytes=40000)
    assert estimated.launches[0].resources == "estimated"
    assert (given_.launches[0].resources, given_.launches[0].registers_per_thread) == ("given", 96)
    assert given_.launches[0].smem_bytes_per_cta == 40000
    assert given_.launches[0].ctas_per_sm > estimated.launches[0].ctas_per_sm
    only_registers = simulate(LARGE, registers=96).launches[0]
    assert only_registers.smem_bytes_per_cta == launches_of(LARGE, "flash2", None, H200)[0].resources.smem_bytes_per_cta


@every_schedule
@settings(max_examples=40)
@given(data=st.data())
def test_peak_memory_is_that_of_the_closed_form(schedule: str, data: st.DataObject) -> None:
    """What launches keep alive, against the formula, to the byte; specialised warps take some beside."""
    config = data.draw(configs(written_schedules()[schedule]))
    problem = read_by(written_schedules()[schedule], data.draw(problems(dtypes=dtypes_of(config))))
    if schedule == "unfused":
        problem = replace(problem, causal=True, dropout=0.1)
    device = toys(schedule)[0]
    beside = allocated_bytes([launches_of(problem, schedule, config, device)[-1].workspace_bytes])
    peak_bytes = peak_memory_bytes(problem, schedule, config, device)
    assert peak_bytes == papers.peak_memory_bytes(problem, schedule) + beside


def test_the_clock_lies_between_tensor_and_boost() -> None:
    """A kernel of tile products runs slower than one that moves bytes."""
    attention = simulate(LARGE).launches[0].clock_hz
    softmax = simulate(SMALL, schedule="naive").launches[1].clock_hz
    assert attention == H200.tensor_boost_clock_hz
    assert softmax == H200.boost_clock_hz


@pytest.mark.parametrize(("heads", "clock_hz"), [(12, H200.boost_clock_hz), (13, H200.tensor_boost_clock_hz)])
def test_few_ctas_leave_sms_at_the_boost_clock_that_count_the_cycles(heads: int, clock_hz: float) -> None:
    """As on an H200, where twelve do and sixteen do not; the time is as long, since those that compute are as slow."""
    problem = AttentionProblem(batch=1, heads=heads, seqlen_q=64, seqlen_k=8192, head_dim=64)
    (launch,) = simulate(problem, config=Config(block_m=64)).launches
    (more,) = simulate(replace(problem, heads=14, kv_heads=14), config=Config(block_m=64)).launches
    assert launch.clock_hz == clock_hz
    assert launch.traffic.time_s == pytest.approx(more.traffic.time_s, rel=0.05)


def test_power_lowers_the_clock_of_what_is_repeated() -> None:
    """Sustained, between the clocks of full load and of a burst; what has no products is as fast as ever."""
    both = simulate(LARGE)
    attention, (_, softmax, _) = both.launches[0], simulate(SCORES, schedule="naive").launches
    assert H200.mixed_clock_hz < attention.sustained_clock_hz < attention.clock_hz
    assert softmax.sustained_clock_hz == softmax.clock_hz
    assert both.sustained_time_s / both.time_s == pytest.approx(
        attention.clock_hz / attention.sustained_clock_hz, rel=1e-6
    )


def test_time_is_cycles_over_the_clock_and_overhead() -> None:
    """For every launch; the total adds up."""
    seen = simulate(SCORES, schedule="naive", config=Config(block_m=128, block_n=128))
    for launch in seen.launches:
        assert launch.traffic.time_s == pytest.approx(launch.traffic.cycles / launch.clock_hz + launch.overhead_s)
    assert seen.time_s == pytest.approx(sum(launch.traffic.time_s for launch in seen.launches))


@every_schedule
def test_useful_operations_are_those_of_the_problem(schedule: str) -> None:
    """Whatever tiles execute beyond them: rows and keys that pad a tile, and what the mask hides."""
    solved = written_schedules()[schedule].problem
    for asked in (SMALL, replace(SMALL, seqlen_q=1), replace(SMALL, seqlen_q=300, causal=True, head_dim=72)):
        problem = read_by(written_schedules()[schedule], asked)
        total = simulate(problem, schedule=schedule).total
        assert total.matmul_flop == solved.of(problem).matmul_flop
        assert total.executed_flop >= total.matmul_flop
        assert total.matmul_flop_per_s == total.matmul_flop / total.time_s


def test_padded_work_is_executed_and_not_useful() -> None:
    """One query in a tile of 64 rows: 64 times the operations, at a 64th of the rate."""
    seen = simulate(replace(SMALL, seqlen_q=1), config=Config(block_m=64, block_n=64)).total
    assert seen.matmul_flop == 4 * 4 * 1 * 512 * 64
    assert seen.executed_flop == 4 * 4 * 64 * 512 * 64


@every_schedule
def test_shares_of_time_lie_between_nothing_and_all(schedule: str) -> None:
    """No resource is busier than the launch is long; what binds is the largest of all causes."""
    for launch in simulate(SCORES, schedule=schedule, config=Config(block_m=64)).launches:
        shares = launch.utilisation
        assert set(shares) == {"tensor", "mufu", "fma", "issue", "smem", "l2", "fabric", "hbm"}
        assert all(0 <= share <= 1.001 for share in shares.values())
        assert set(launch.causes) == {*shares, "wait", "tail", "launch"}
        assert all(0 <= share <= 1 for share in launch.causes.values())
        assert launch.bottleneck_share == max(launch.causes.values()) == launch.causes[launch.bottleneck]


@pytest.mark.parametrize(
    ("device", "problem", "options", "bottleneck"),
    [
        (H200, SCORES, {"schedule": "naive"}, "hbm"),
        (replace(H200, wgmma_fp16_flop_per_cycle=100), LARGE, {}, "tensor"),
        (replace(H200, mufu_per_cycle=1), LARGE, {}, "mufu"),
        (replace(H200, fma_per_cycle=4), LARGE, {}, "fma"),
        (replace(H200, smem_bytes_per_cycle=8), LARGE, {}, "smem"),
        (replace(H200, l2_bytes_per_s=2e11), LARGE, {}, "l2"),
        (replace(H200, issue_per_cycle=1), LARGE, {}, "issue"),
        (replace(H200, launch_ramp_cycles=0), replace(SMALL, seqlen_k=64), {}, "launch"),
        (H200, replace(SMALL, seqlen_k=65536), {}, "tail"),
        (H200, ONE_CTA_AN_SM, {"config": Config(block_m=64, block_n=64, num_stages=1)}, "wait"),
    ],
)
def test_the_slowest_resource_is_the_bottleneck(
    device: object, problem: AttentionProblem, options: dict[str, str], bottleneck: str
) -> None:
    """Each one, when a what-if makes it scarce; what machine code takes of an SM is not asked of the device."""
    assert simulate(problem, device=device, cost="tiles", **options).bottleneck == bottleneck  # type: ignore[arg-type]


def test_a_prediction_prints_as_json() -> None:
    """Plain numbers and texts all through."""
    seen = simulate(SMALL, schedule="unfused", device=TOY_WGMMA)
    assert json.loads(json.dumps(seen.to_dict()))["total"]["hbm_read_bytes"] == seen.total.hbm_read_bytes


def test_a_timeline_belongs_to_the_same_prediction() -> None:
    """Recording steps through everything and changes nothing else."""
    problem = replace(SMALL, heads=16)
    prediction, timeline = simulate_with_timeline(problem, schedule="naive")
    assert prediction == simulate(problem, schedule="naive", steady_state=False)
    assert [entry.name for entry in timeline.launches] == [launch.name for launch in prediction.launches]


def test_resources_replace_the_estimate_of_each_launch() -> None:
    """In order; a figure that is given for all launches counts more."""
    compiled = tuple(
        Resources(registers_per_thread=number, smem_bytes_per_cta=64 * number, origin="compiled")
        for number in (40, 50, 60)
    )
    seen = simulate(SMALL, schedule="naive", resources=compiled)
    assert [launch.registers_per_thread for launch in seen.launches] == [40, 50, 60]
    assert [launch.smem_bytes_per_cta for launch in seen.launches] == [2560, 3200, 3840]
    assert {launch.resources for launch in seen.launches} == {"compiled"}
    both = simulate(SMALL, schedule="naive", resources=compiled, registers=70)
    assert [(launch.registers_per_thread, launch.resources) for launch in both.launches] == [(70, "given")] * 3
    assert [launch.smem_bytes_per_cta for launch in both.launches] == [2560, 3200, 3840]


def test_resources_are_one_for_each_launch() -> None:
    """One too few would leave a launch with an estimate, unseen."""
    with pytest.raises(ValueError, match="has 1: must have 3, one for each launch"):
        simulate(SMALL, schedule="naive", resources=(Resources(registers_per_thread=40, smem_bytes_per_cta=0),))


def test_warps_that_the_compiler_adds_take_their_place() -> None:
    """Twelve warps of 168 registers fill the register file that four leave two thirds empty."""
    asked = Resources(registers_per_thread=168, smem_bytes_per_cta=1024, origin="compiled")
    (four,) = simulate(SMALL, resources=(asked,)).launches
    (twelve,) = simulate(SMALL, resources=(replace(asked, warps_per_cta=12),)).launches
    assert (four.num_warps, four.ctas_per_sm) == (4, 3)
    assert (twelve.num_warps, twelve.ctas_per_sm, twelve.occupancy_limit) == (12, 1, "registers")
    assert twelve.occupancy_fraction == 12 / 64


@pytest.mark.parametrize("schedule", ["flash2", "flash2_tma"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries", [1, 2048])
def test_the_default_of_wide_heads_spills_nothing(schedule: str, causal: bool, queries: int) -> None:
    """128 rows of four warps did, and took 1.1 to 2.2 times as long."""
    problem = AttentionProblem(
        batch=4, heads=16, kv_heads=4, seqlen_q=queries, seqlen_k=2048, head_dim=128, causal=causal
    )
    prediction = simulate(problem, schedule=schedule)
    assert prediction.spilled_bytes_per_thread == 0
    assert prediction.time_s < simulate(problem, schedule=schedule, config=Config(block_m=128)).time_s
