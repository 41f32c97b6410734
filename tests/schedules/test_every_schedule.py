"""What every schedule keeps to; a new file in `simulator/schedules/` is held to it unasked."""

import sys
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedules import contract
from support.strategies import (
    TOY_WGMMA,
    choices_of,
    configs,
    devices,
    divisible_problems,
    dtypes_of,
    long_row_problems,
    problems,
    read_by,
    toys,
    windows_of,
)
from tilesight.simulator.launch.program import Launch
from tilesight.simulator.launch.walk import matmuls_of, steps
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.contract import Schedule
from tilesight.simulator.schedules.registry import all_options, written_schedules

INPUT_AND_OUTPUT = {"attention": ("Q", "O"), "softmax": ("X", "Y")}
TYPICAL = AttentionProblem(batch=2, heads=4, kv_heads=2, seqlen_q=300, seqlen_k=520, head_dim=64, causal=True)

every_schedule = pytest.mark.parametrize("schedule", written_schedules().values(), ids=lambda schedule: schedule.name)
examples = settings(max_examples=40)


@st.composite
def cases(draw: st.DrawFn, schedule: Schedule) -> tuple[AttentionProblem, Config, tuple[Launch, ...]]:
    """A small problem that the schedule supports, a configuration, and the launches; one in four has long rows."""
    long_rows = draw(st.integers(0, 3)) == 3
    config = draw(configs(schedule))
    dtypes = dtypes_of(config)
    windows = windows_of(schedule)
    problem = read_by(
        schedule, draw(long_row_problems(dtypes=dtypes) if long_rows else problems(dtypes=dtypes, windows=windows))
    )
    if long_rows:
        config = config.but(block_n=1024)
    return problem, config, schedule.launches(problem, config, draw(devices(schedule)))


@every_schedule
@examples
@given(data=st.data())
def test_tally_is_the_sum_over_all_accesses(schedule: Schedule, data: st.DataObject) -> None:
    """Closed counting over a period gives exactly what walking every item gives."""
    contract.tally_equals_the_sum_of_accesses(data.draw(cases(schedule))[2])


@every_schedule
@examples
@given(data=st.data())
def test_no_access_leaves_its_tensor(schedule: Schedule, data: st.DataObject) -> None:
    """Clipped tiles lie inside their slab."""
    contract.accesses_stay_inside(data.draw(cases(schedule))[2])


@every_schedule
@examples
@given(data=st.data())
def test_every_output_and_scratch_element_is_written(schedule: Schedule, data: st.DataObject) -> None:
    """Exactly once, but for FlashAttention-1's running output; inputs are never written."""
    launches = data.draw(cases(schedule))[2]
    contract.every_element_is_written(launches, schedule.rewritten)


@every_schedule
@examples
@given(data=st.data())
def test_every_input_element_is_read_where_nothing_is_masked(schedule: Schedule, data: st.DataObject) -> None:
    """Without a causal mask no part of an input is left out."""
    problem, config, _ = data.draw(cases(schedule))
    contract.every_input_is_read(
        schedule.launches(replace(problem, causal=False, window=0), config, toys(schedule.name)[0])
    )


@every_schedule
@examples
@given(data=st.data())
def test_nothing_is_read_before_it_is_written(schedule: Schedule, data: st.DataObject) -> None:
    """Scratch and outputs are read only after an earlier launch, or the same item, wrote them."""
    contract.nothing_is_read_before_it_is_written(data.draw(cases(schedule))[2])


@every_schedule
@examples
@given(data=st.data())
def test_every_output_meets_what_it_depends_on(schedule: Schedule, data: st.DataObject) -> None:
    """Each query the keys that it sees, of its group's KV head; each element of a softmax its whole row."""
    problem, _, launches = data.draw(cases(schedule))
    contract.nothing_needed_is_left_out(launches, problem, schedule.problem)


@every_schedule
@examples
@given(data=st.data())
def test_items_a_period_apart_do_equal_work(schedule: Schedule, data: st.DataObject) -> None:
    """Executions and bytes of item i and of item i + period are equal."""
    contract.items_repeat_with_the_period(data.draw(cases(schedule))[2])


@every_schedule
@given(data=st.data())
def test_tile_products_cover_the_useful_ones(schedule: Schedule, data: st.DataObject) -> None:
    """Tiles compute at least what the formula asks for."""
    problem, _, launches = data.draw(cases(schedule))
    assert contract.executed_flop(launches) >= schedule.problem.of(problem).matmul_flop


@every_schedule
@given(data=st.data())
def test_launches_share_the_two_products_of_attention(schedule: Schedule, data: st.DataObject) -> None:
    """Useful operations are counted by products, so that none is counted twice or left out."""
    _, _, launches = data.draw(cases(schedule))
    assert sum(map(matmuls_of, launches)) == (2 if schedule.problem is AttentionProblem else 0)


@every_schedule
@given(data=st.data())
def test_divisible_problems_are_computed_without_waste(schedule: Schedule, data: st.DataObject) -> None:
    """Where tiles cover the problem exactly and nothing is masked, tile products are the useful ones."""
    config = data.draw(configs(schedule))
    problem = data.draw(divisible_problems(config))
    useful = schedule.problem.of(problem).matmul_flop
    assert contract.executed_flop(schedule.launches(problem, config, toys(schedule.name)[0])) == useful


@every_schedule
@given(data=st.data())
def test_the_tally_table_of_the_docstring_is_true(schedule: Schedule, data: st.DataObject) -> None:
    """Bytes of each tensor are its size times the expression in the table."""
    config = data.draw(configs(schedule))
    problem = data.draw(divisible_problems(config))
    launches = schedule.launches(problem, config, toys(schedule.name)[0])
    contract.tally_matches_the_tables(launches, _docstring(schedule), problem, config)


@every_schedule
def test_the_tally_table_holds_for_long_rows(schedule: Schedule) -> None:
    """Also where a row does not fit in registers."""
    problem = AttentionProblem(batch=1, heads=2, seqlen_q=256, seqlen_k=20480, head_dim=32)
    launches = schedule.launches(problem, schedule.default, toys(schedule.name)[0])
    contract.tally_matches_the_tables(launches, _docstring(schedule), problem, schedule.default)


@every_schedule
@given(data=st.data())
def test_launches_are_deterministic(schedule: Schedule, data: st.DataObject) -> None:
    """The same question gets the same launches."""
    config, device = data.draw(configs(schedule)), data.draw(devices(schedule))
    problem = read_by(schedule, data.draw(problems(dtypes=dtypes_of(config))))
    once, again = (contract.fingerprint(schedule.launches(problem, config, device)) for _ in range(2))
    assert once == again


@every_schedule
@given(data=st.data())
def test_no_cta_is_without_an_item(schedule: Schedule, data: st.DataObject) -> None:
    """A grid has one CTA or more, and never more than items."""
    for launch in data.draw(cases(schedule))[2]:
        assert 1 <= launch.cta_count <= launch.program.item_count


@every_schedule
@given(data=st.data())
def test_names_are_unique_and_tensors_agree(schedule: Schedule, data: st.DataObject) -> None:
    """Costs are kept by step, bytes by tensor, and tables by launch."""
    launches = data.draw(cases(schedule))[2]
    contract.names_are_unique(launches)
    contract.no_step_loads_a_tile_twice(launches)


@every_schedule
@given(data=st.data())
def test_the_output_has_the_shape_of_the_input(schedule: Schedule, data: st.DataObject) -> None:
    """O is B * H slabs of M rows in the working dtype, as Q is; Y as X is."""
    problem, _, launches = data.draw(cases(schedule))
    tensors = contract.tensors_of(launches)
    source, result = (tensors[name] for name in INPUT_AND_OUTPUT[schedule.problem.KIND])
    assert result == replace(source, name=result.name, role="output")
    assert (result.slabs, result.rows) == (problem.batch * problem.heads, problem.seqlen_q)


@every_schedule
@given(data=st.data())
def test_registers_and_shared_memory_are_sane(schedule: Schedule, data: st.DataObject) -> None:
    """One CTA's registers fit an SM; shared memory holds what is copied into it, and no more than all tiles."""
    config, device = data.draw(configs(schedule)), data.draw(devices(schedule))
    problem = read_by(schedule, data.draw(problems(dtypes=dtypes_of(config))))
    for launch in schedule.launches(problem, config, device):
        registers = launch.resources.registers_per_thread
        assert 16 <= registers <= device.max_registers_per_thread
        assert registers * launch.threads_per_cta <= device.registers_per_sm
        assert launch.resources.spilled_bytes_per_thread >= 0
        tiles = {tile for step, _ in steps(launch.program.body) for tile in (*step.loads, *step.stores)}
        element = {tensor.name: tensor.element_bytes for tensor in launch.program.tensors}
        copies = [tile.rows * tile.cols * element[tile.tensor] for tile in tiles if tile.path != "plain"]
        # Without stages, tiles take turns.
        copied = sum(copies) if launch.num_stages > 1 else max(copies, default=0)
        all_fp32 = sum(tile.rows * tile.cols * 4 for tile in tiles)
        most = (launch.num_stages + launch.warps_per_cta) * all_fp32
        assert copied <= launch.resources.smem_bytes_per_cta <= most


@every_schedule
@pytest.mark.parametrize("option", all_options())
def test_an_option_changes_the_launches_where_the_schedule_takes_it(schedule: Schedule, option: str) -> None:
    """Options are honoured or refused, never ignored."""
    values, typical = choices_of(all_options()[option])[-2:], read_by(schedule, TYPICAL)
    if option not in schedule.options:
        for refuse in (
            schedule.config,
            lambda **chosen: schedule.launches(typical, Config(**chosen), TOY_WGMMA),
        ):
            with pytest.raises(ValueError, match=option):
                refuse(**{option: values[-1]})  # type: ignore[operator]
        return
    stages = {"num_stages": 2} if "num_stages" in schedule.options else {}
    configs = [schedule.default.but(**(stages | {option: value})) for value in values]
    seen = [contract.fingerprint(schedule.launches(typical, config, TOY_WGMMA)) for config in configs]
    assert seen[0] != seen[1]


@every_schedule
def test_the_whole_space_can_be_launched(schedule: Schedule) -> None:
    """`explore` meets no configuration that the schedule refuses, and leaves out none but those in conflict."""
    assert set(schedule.space) <= set(schedule.options)
    seen = list(schedule.configs())
    chosen = (dict(zip(schedule.space, values, strict=True)) for values in product(*schedule.space.values()))
    every = [schedule.default.but(**options) for options in chosen]  # type: ignore[arg-type]
    assert seen == [config for config in every if schedule.conflict(config) is None]
    assert seen
    for config in seen:
        assert schedule.launches(read_by(schedule, TYPICAL), config, TOY_WGMMA)


@every_schedule
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "fp8"])
def test_a_schedule_says_in_one_line_what_it_cannot_do(schedule: Schedule, dtype: str) -> None:
    """`supports` gives None or a reason; fp32, fp16 and bf16 are always supported."""
    reason = schedule.supports(schedule.problem.of(replace(read_by(schedule, TYPICAL), dtype=dtype)))
    assert reason is None or (dtype == "fp8" and "fp8" in reason and "\n" not in reason)


def _docstring(schedule: Schedule) -> str:
    return sys.modules[schedule.launches.__module__].__doc__ or ""
