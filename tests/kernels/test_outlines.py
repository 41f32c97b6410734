"""Outlines: launches whose programs are found in the machine code of their kernels."""

from dataclasses import replace

import numpy as np
import pytest
from schedules import contract
from support.outlines import followed
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator.device.device import load_device
from tilesight.simulator.launch.outline import storage_of
from tilesight.simulator.launch.walk import accesses, tally
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.report.explore import explore_text
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import all_schedules
from tilesight.simulator.schedules.tiles import cache_tensors
from tilesight.simulator.simulate import simulate, simulate_with_timeline

import tilesight

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

H200 = load_device("h200")
SMALL = AttentionProblem(batch=2, heads=8, kv_heads=2, seqlen_q=1, seqlen_k=1000, head_dim=64)
LONG = replace(SMALL, batch=16, heads=64, kv_heads=8, seqlen_k=32768, head_dim=128, dtype="bf16")
"""Llama-3-70B, 16 sequences of 32k keys: 2.1 GB of K and V."""


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("problem", [SMALL, replace(SMALL, seqlen_q=5, causal=True)], ids=["one query", "five"])
def test_traced_splits_keep_the_contract_of_schedules(problem: AttentionProblem, splits: int) -> None:
    """Inside their tensors, all that is written is written once, all inputs are read, nothing before it is written."""
    launches = followed(problem, "flash_decode", splits=splits, block_n=64)
    contract.accesses_stay_inside(launches)
    contract.every_element_is_written(launches)
    contract.every_input_is_read(launches)
    contract.nothing_is_read_before_it_is_written(launches)


@pytest.mark.parametrize("splits", [1, 4])
def test_keys_and_values_are_read_once_whatever_the_group(splits: int) -> None:
    """Four heads share them; Q once a split; the merge reads each part once."""
    launches = followed(SMALL, "flash_decode", splits=splits)
    exact = tally(launches[0].program).load_bytes
    assert exact["K"] == exact["V"] == 2 * 2 * 1000 * 64 * 2
    assert exact["Q"] == splits * 2 * 8 * 64 * 2
    if splits > 1:
        assert tally(launches[1].program).load_bytes["O_parts"] == splits * 2 * 8 * 64 * 4


def test_a_window_leaves_the_keys_before_it_alone() -> None:
    """100 keys before the end are in two tiles of 64 of the last 16; so many bytes and no more are read."""
    launches = followed(replace(SMALL, window=100), "flash_decode", splits=2, block_n=64)
    exact = tally(launches[0].program).load_bytes
    assert exact["K"] == exact["V"] == 2 * 2 * (1000 - 896) * 64 * 2


@pytest.mark.parametrize(("splits", "stages"), [(8, 1), (8, 2), (8, 4), (3, 2), (4, 3), (2, 2)])
def test_pages_are_those_of_the_table(splits: int, stages: int) -> None:
    """In random order each split of each head reads its own pages and no others, of K and of V, two or eight."""
    page, problem = 64, replace(SMALL, seqlen_k=1024, head_dim=128, page=64)
    program = followed(problem, "flash_decode", splits=splits, block_n=page, num_stages=stages)[0].program
    (table,) = (tensor.values for tensor in cache_tensors(problem) if tensor.name == "TABLE")
    numbers = np.frombuffer(table or b"", dtype=np.int32).reshape(2, -1)[:, 1:]
    rows = page * 2 * 256 // program.tensor("K").cols
    parts = np.array_split(np.arange(16), splits) if 16 % splits == 0 else [range(0, 5), range(5, 10), range(10, 16)]
    for item in range(program.item_count):
        read: dict[str, set[int]] = {"K": set(), "V": set()}
        for access in accesses(program, item):
            if access.tensor in read and access.kind == "load":
                read[access.tensor] |= set(range(access.row // rows, (access.row + access.rows - 1) // rows + 1))
        slab, split = divmod(item, splits)
        wanted = set(numbers[slab // 2, list(parts[split])].tolist())
        assert read == {"K": wanted, "V": wanted}, item


def test_a_prefix_that_all_share_is_read_by_all_and_comes_from_device_memory_once() -> None:
    """1,792 of 2,048 keys of eight sequences: SMs read them eight times, HBM gives them once, as L2 holds them."""
    problem = replace(SMALL, batch=8, seqlen_k=2048, head_dim=128, page=64, page_order="shared:1792")
    resources_of = tilesight.compiler(problem, "h200", workers=1)
    config = Config(splits=4, block_n=64, num_stages=2)
    total = simulate(problem, schedule="flash_decode", config=config, resources_of=resources_of).total
    cache_bytes = 2 * 8 * 2 * 2048 * 128 * 2
    assert problem.compulsory.read_bytes < 0.25 * cache_bytes
    assert problem.compulsory.read_bytes <= total.hbm_read_bytes <= 1.02 * problem.compulsory.read_bytes
    assert total.l2_read_bytes >= cache_bytes


def test_decode_of_a_long_cache_is_near_its_roofline() -> None:
    """Never below what HBM takes for the bytes of K and V, and no more than a tenth above; 1.99 ms by a tile a head."""
    resources_of = tilesight.compiler(LONG, "h200", workers=1)
    config = Config(splits=6, block_n=128, num_stages=2)
    prediction = simulate(LONG, schedule="flash_decode", config=config, resources_of=resources_of, overhead="graph")
    kv_bytes = 2 * 16 * 8 * 32768 * 128 * 2
    least_s = kv_bytes / H200.hbm_read_bytes_per_s
    assert kv_bytes <= prediction.total.hbm_read_bytes <= 1.01 * kv_bytes
    assert least_s < prediction.time_s < 1.1 * least_s
    assert prediction.peak_memory_bytes >= kv_bytes


def test_a_recorded_run_is_the_run_that_is_not_recorded() -> None:
    """The timeline changes no figure, and knows every CTA."""
    resources_of = tilesight.compiler(SMALL, "h200", workers=1)
    asked = {"schedule": "flash_decode", "config": Config(splits=2), "resources_of": resources_of}
    prediction, timeline = simulate_with_timeline(SMALL, **asked)
    assert prediction == simulate(SMALL, **asked)
    assert [len(launch.cta) for launch in timeline.launches] == [8, 16]


def test_without_a_compiler_an_outline_is_refused_in_one_line() -> None:
    """By name, with what to do; and `explore` of all leaves it out with the same reason."""
    with pytest.raises(ValueError, match=r"^kernel flash_decode: what it does is found in its machine code.*doctor"):
        simulate(SMALL, schedule="flash_decode")
    with pytest.raises(ValueError, match=r"^schedule flash_decode: what it does is found in its machine code"):
        tilesight.explore(SMALL, schedule="flash_decode")
    assert "flash_decode" in tilesight.explore(SMALL, schedule="all", block_n=64).left_out


def test_tensors_of_all_outlines_have_numbers_of_their_own() -> None:
    """Names decide them, so names that share one would share memory."""
    names = {
        tensor.name: storage_of(tensor).number
        for schedule in all_schedules().values()
        if schedule.outlined and schedule.problem is AttentionProblem
        for options in ({}, {"splits": 2})
        if options.keys() <= schedule.options.keys()
        for launch in schedule.launches(replace(SMALL, sinks=True), Config(**options), H200)
        for tensor in launch.program.tensors
    }
    assert len(names) > 5
    assert len(set(names.values())) == len(names)


def test_explore_says_what_the_rules_of_other_programs_cost() -> None:
    """SGLang's cap of eight leaves most SMs without a CTA, so it cannot be near the best of one sequence."""
    problem = replace(LONG, batch=1)
    chosen = {"block_n": 128, "num_stages": 2, "splits": (8, 32)}
    explored = tilesight.explore(
        problem, schedule="flash_decode", resources_of=tilesight.compiler(problem), overhead="graph", **chosen
    )
    (note,) = (note for note in explored.notes if note.startswith("by the rules of other programs"))
    slower = float(note.partition("SGLang Triton splits 8 (")[2].partition("x)")[0])
    times = {item.config.splits: item.prediction.time_s for item in explored.ranked if item.prediction}
    assert explored.ranked[0].config.splits == 32
    assert slower == round(times[8] / times[32], 2) > 1.3
    assert all(rule in note for rule in ("FlashAttention-3", "vLLM Triton", "FlashInfer"))
    text = explore_text(explored, 15, 200, color=False)
    assert "5.0 % where cycles come from machine code" in text
    assert "2 CTAs share each SM" in text  # 256 CTAs on 132 SMs, of which each would hold three
