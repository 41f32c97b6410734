"""The library of compiled kernels: what stands for a launch, what is kept, and what answers come of it."""

from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from tilesight.simulator.launch.program import Figures, Launch
from tilesight.simulator.library.files import Kernel, pack, unpack
from tilesight.simulator.library.keys import file_of, keys_of
from tilesight.simulator.library.lookup import find_kernel, made_by, origin_text, resources_of
from tilesight.simulator.residency.residency import residency_of
from tilesight.simulator.schedules.registry import find_schedule
from tilesight.simulator.simulate import launches_of
from tilesight.simulator.sm.kept import kept_costs

from tilesight import AttentionProblem, Config, DoesNotFit, explore, load_device, simulate

LLAMA = AttentionProblem(batch=1, heads=64, kv_heads=8, seqlen_q=8192, seqlen_k=8192, head_dim=128, causal=True)
MOST_BYTES = 12 << 20
FOLDER = files("tilesight.simulator.library")


def launch_of(problem: AttentionProblem = LLAMA, schedule: str = "flash2", **options: int | str) -> Launch:
    config = find_schedule(schedule).config(**options)
    return launches_of(problem, schedule, config, load_device("h200"))[0]


def kept_files() -> list:
    folders = [folder for folder in FOLDER.iterdir() if folder.name.startswith("sm_")]
    return [file for folder in folders for file in folder.iterdir() if file.name.endswith(".xz")]


def kernel(residents: int = 3, steps: int = 2) -> Kernel:
    shape = (2, residents, steps, 16)
    values = np.arange(np.prod(shape), dtype=float).reshape(shape) * 1.3 - 40.0
    slowdown = np.linspace(0.5, 1.5, 2 * residents * steps * residents).reshape(2, residents, steps, residents)
    names = tuple(f"step {number}" for number in range(steps))
    figures = Figures(
        steps=names,
        conditions=np.array([[280.0, 0.0, 1.0], [291.0, 250.0, 0.75]]),
        values=values,
        slowdown_by_age=slowdown,
    )
    return Kernel(resources={"registers_per_thread": 168}, figures=figures)


def test_what_is_packed_comes_back_to_a_sixteenth_of_a_cycle():
    """Kernels of several shapes, one that the compiler refuses, and one without figures."""
    refused = Kernel(resources={}, reason="Triton refuses: why")
    given = {
        "a": kernel(),
        "b": kernel(residents=1, steps=4),
        "c": refused,
        "d": Kernel(resources={"x": 1}, reason="r"),
    }
    unpacked, made = unpack(pack(given, {"triton": "3.6.0"}))
    assert made == {"triton": "3.6.0"}
    assert {key: (entry.resources, entry.reason) for key, entry in unpacked.items()} == {
        key: (entry.resources, entry.reason) for key, entry in given.items()
    }
    for key in ("a", "b"):
        packed, other = given[key].figures, unpacked[key].figures
        assert packed is not None and other is not None
        assert packed.steps == other.steps
        assert np.array_equal(packed.conditions, other.conditions)
        assert np.abs(packed.values - other.values).max() <= 0.5 / 16
        assert np.abs(packed.slowdown_by_age - other.slowdown_by_age).max() <= 0.5 / 4096


def test_fp16_and_bf16_share_a_kernel_and_fp32_has_its_own():
    """Their code differs in types alone."""
    half, brain, single = (next(keys_of(launch_of(replace(LLAMA, dtype=dtype)))) for dtype in ("fp16", "bf16", "fp32"))
    assert half == brain != single


@pytest.mark.parametrize("other", [{"heads": 32, "kv_heads": 32}, {"seqlen_q": 4096, "seqlen_k": 4096}, {"batch": 7}])
def test_sizes_that_leave_tiles_whole_share_a_kernel(other):
    """Lengths and heads are arguments of the same code."""
    assert next(keys_of(launch_of())) == next(keys_of(launch_of(replace(LLAMA, **other))))


@pytest.mark.parametrize(
    "other", [{"head_dim": 64}, {"causal": False}, {"seqlen_q": 8191, "seqlen_k": 8191}, {"dtype": "fp8"}]
)
def test_what_changes_the_code_changes_the_key(other):
    """Head dim is in the name of the file, all else in the key."""
    launch, changed = launch_of(), launch_of(replace(LLAMA, **other))
    assert (file_of(launch, 90), next(keys_of(launch))) != (file_of(changed, 90), next(keys_of(changed)))


def test_an_order_of_ctas_that_is_not_kept_is_stood_for_by_its_nearest():
    """m-reversed walks as longest-first does, head by head."""
    order = [key.split("cta_order=")[1].split()[0] for key in keys_of(launch_of(cta_order="m-reversed"))]
    assert list(dict.fromkeys(order)) == ["m-reversed", "longest-first", "m-fast"]


@pytest.mark.parametrize("device", ["h200", "h100-sxm", "h100-pcie", "a100-sxm-80gb", "a100-sxm-40gb"])
@pytest.mark.parametrize("schedule", ["flash2", "flash2_tma", "naive", "unfused"])
def test_the_common_space_is_kept_whole(device, schedule):
    """Both masks, both usual head dims, whole and ragged lengths, decode: every kernel of every configuration."""
    if schedule == "flash2_tma" and device.startswith("a100"):
        pytest.skip("an A100 has no TMA")
    gpu = load_device(device)
    for head_dim in (64, 128):
        for lengths in ((4096, 4096), (1000, 1000), (197, 197), (4096, 77), (1, 32768)):
            for causal in (False, True):
                if causal and lengths[0] > lengths[1]:
                    continue
                problem = AttentionProblem(
                    batch=2, heads=16, seqlen_q=lengths[0], seqlen_k=lengths[1], head_dim=head_dim, causal=causal
                )
                for config in find_schedule(schedule).configs(block_m=(64, 128), num_stages=2):
                    for launch in launches_of(problem, schedule, config, gpu):
                        assert find_kernel(launch, gpu) is not None, (launch.name, problem, config)


@pytest.mark.parametrize("problem", [{}, {"seqlen_q": 1000, "seqlen_k": 1000}, {"causal": True}])
@pytest.mark.parametrize("order", ["m-fast", "head-fast"])
def test_one_stage_by_tma_is_kept_though_explore_does_not_try_it(problem, order):
    """Estimates from tiles were 20 % off there, machine code 7 %."""
    asked = AttentionProblem(
        **({"batch": 2, "heads": 16, "seqlen_q": 4096, "seqlen_k": 4096, "head_dim": 64} | problem)
    )
    config = find_schedule("flash2_tma").config(num_stages=1, cta_order=order)
    assert simulate(asked, schedule="flash2_tma", config=config, device="h200").launches[0].cost == "compiled"


def test_an_answer_comes_from_machine_code_without_a_compiler():
    """The default of `simulate`: registers and cycles as compiled, and no note of doubt."""
    prediction = simulate(LLAMA, config=Config(block_m=64, block_n=64, num_stages=3), device="h100-sxm")
    (launch,) = prediction.launches
    assert (launch.cost, launch.resources) == ("compiled", "compiled")
    assert prediction.notes == ()


def test_what_is_not_kept_is_estimated_and_says_so():
    """No kernel of head dim 72 is kept."""
    prediction = simulate(replace(LLAMA, head_dim=72), device="h200")
    assert prediction.launches[0].resources == "estimated"
    assert "library of compiled kernels does not hold flash2" in prediction.notes[0]


def test_an_l2_as_slow_as_none_that_is_kept_is_no_secret():
    """A what-if of the latency would else be ignored in silence."""
    slow = replace(load_device("h200"), l2_latency_cycles=500)
    prediction = simulate(LLAMA, device=slow)
    assert prediction.launches[0].resources == "compiled"
    assert prediction.launches[0].cost.startswith("tiles: costs are kept for L2 latencies of")
    assert "l2_latency_cycles is 500" in prediction.notes[0]


def test_tiles_are_asked_for_by_name_or_by_resources():
    """What-ifs stay what they were."""
    for chosen in ({"cost": "tiles"}, {"registers": 128}):
        prediction = simulate(LLAMA, device="h200", **chosen)
        assert prediction.launches[0].cost == "tiles"
        assert prediction.notes == ()


def test_a_kernel_that_takes_too_much_does_not_fit():
    """256 x 256 with four stages of K and V takes more shared memory than an SM has."""
    with pytest.raises(DoesNotFit, match="shared memory: a CTA needs"):
        simulate(LLAMA, config=Config(block_m=256, block_n=256, num_warps=8, num_stages=4), device="h100-sxm")


def test_costs_of_few_ctas_are_those_of_few_that_share_an_sm():
    """Two CTAs on 132 SMs have an SM each, whose CTAs nobody slows down."""
    few = replace(LLAMA, batch=1, heads=1, kv_heads=1, seqlen_q=128, seqlen_k=8192, causal=False)
    config = Config(block_m=64, block_n=64, num_stages=3)
    (launch,) = launches_of(few, "flash2", config, load_device("h200"))
    resources = resources_of(launch, load_device("h200"))
    figures = resources.figures
    lone, full = figures.values[0, 0, 1, 6], figures.values[0, -1, 1, 6]
    assert lone > 1.2 * full, "the cycles of a full SM are shared by its CTAs"


def test_whole_tiles_walked_back_and_forth_cost_what_tiles_walked_forward_do():
    """Code of ragged ones masks every tile, in a loop that whole tiles do not run: its other loop costs nothing."""
    problem = AttentionProblem(batch=1, heads=24, seqlen_q=8192, seqlen_k=8192, head_dim=64)
    config = Config(block_m=128, block_n=128, num_stages=4, cta_order="longest-first", persistent=1)
    forward, sawtooth = (
        simulate(problem, config=config.but(kv_order=order), device="h200") for order in ("forward", "sawtooth")
    )
    assert sawtooth.time_s == pytest.approx(forward.time_s, rel=0.1)


def test_a_row_costs_by_how_much_of_its_tile_it_fills():
    """Rows of 1000 and of 700 numbers have the same code, of 1024 columns: the costs of both lie between those kept."""
    device, cycles = load_device("h200"), {}
    for length in (577, 700, 769, 1000, 1023):
        problem = AttentionProblem(batch=2, heads=16, seqlen_q=length, seqlen_k=length, head_dim=64)
        (launch,) = (kept for kept in launches_of(problem, "naive", None, device) if kept.name == "softmax")
        kernel = find_kernel(launch, device)
        known = replace(launch, resources=replace(launch.resources, figures=kernel.figures))
        (cost,) = kept_costs(known, residency_of(known, device), device).values()
        cycles[length] = cost.pipe_cycles[-1]
    assert sorted(cycles.values()) == list(cycles.values())
    assert cycles[577] < 0.97 * cycles[700] < 0.94 * cycles[1000]


def test_the_best_of_a_large_model_does_not_spill():
    """Llama-3-70B prefill on an H100: tiles alone would choose a tile whose scores alone fill all registers."""
    exploration = explore(
        LLAMA, device="h100-sxm", num_warps=4, num_stages=(1, 3), block_m=(64, 128), block_n=(64, 256)
    )
    best = exploration.ranked[0]
    assert (best.config.block_m, best.config.block_n, best.config.num_stages) == (64, 64, 3)
    assert best.prediction.longest_launch.spilled_bytes_per_thread == 0
    spilling = next(
        candidate
        for candidate in exploration.ranked
        if (candidate.config.block_m, candidate.config.block_n) == (128, 256)
    )
    assert spilling.prediction.time_s > 3 * best.prediction.time_s


def test_what_spills_by_its_own_estimate_is_never_first():
    """Tiles do not know what a spill costs."""
    exploration = explore(LLAMA, device="h100-sxm", cost="tiles", num_warps=4, num_stages=1, block_m=(64, 128))
    spills = [candidate.prediction.longest_launch.spilled_bytes_per_thread > 0 for candidate in exploration.ranked]
    assert any(spills) and spills == sorted(spills)


def test_the_library_is_made_by_one_triton():
    """Of which the answer says that its numbers come."""
    assert {made_by(file)["triton"] for file in kept_files()} == {"3.6.0"}


@pytest.mark.parametrize("schedule", ["flash1", "flash2"])
def test_kernels_whose_warps_divide_keys_are_not_kept(schedule):
    """Triton gives every warp rows of its own: code of such a kernel would be said to be of another one."""
    rows, keys = (launch_of(schedule=schedule, block_m=64, block_n=64, num_warps=4, warp_split=split) for split in "qk")
    assert find_kernel(rows, load_device("h200")) is not None
    assert find_kernel(keys, load_device("h200")) is None


def test_the_library_is_small_enough_for_a_wheel():
    """At most 12 MiB in all."""
    assert 1 << 18 < sum(len(file.read_bytes()) for file in kept_files()) < MOST_BYTES


def test_who_compiled_is_said_where_something_is_kept():
    """And nothing is said of an architecture without kernels."""
    assert "compiled by Triton 3.6.0 for sm_90" in origin_text(load_device("h200"))
    assert origin_text(replace(load_device("h200"), compute_capability="7.0")) == ""
