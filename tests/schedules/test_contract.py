"""The contract itself: each planted error is found."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from schedules import contract
from support.strategies import TOY, toys
from tilesight.simulator.launch.program import Launch, Loop, Step
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.registry import find_schedule

PROBLEM = AttentionProblem(batch=1, heads=4, kv_heads=2, seqlen_q=128, seqlen_k=256, head_dim=32)


def _launches(name: str) -> tuple[Launch, ...]:
    return find_schedule(name).launches(PROBLEM, find_schedule(name).config(block_m=64, block_n=32), toys(name)[0])


def _with_column(launch: Launch, name: str, value: str) -> Launch:
    """The launch with one item variable taking the values of another."""
    items, variables = launch.program.items, launch.program.variables

    def swapped(indices: np.ndarray) -> np.ndarray:
        table = items(indices)
        table[:, variables.index(name)] = items(indices)[:, variables.index(value)]
        return table

    return replace(launch, program=replace(launch.program, items=swapped))


def _check_table(name: str, launches: tuple[Launch, ...]) -> None:
    schedule = find_schedule(name)
    docstring = sys.modules[schedule.launches.__module__].__doc__ or ""
    contract.tally_matches_the_tables(launches, docstring, PROBLEM, schedule.config(block_m=64, block_n=32))


@pytest.mark.parametrize("name", ["flash1", "flash2", "flash2_tma", "naive", "online_softmax", "unfused"])
def test_a_tile_loaded_twice_is_found(name: str) -> None:
    """By the step that names it twice, and by the table of the docstring."""
    launches = _launches(name)
    _check_table(name, launches)

    def twice(step: Step) -> Step:
        return replace(step, loads=step.loads + step.loads[:1])

    planted = tuple(contract.edit_steps(launch, twice) for launch in launches)
    with pytest.raises(AssertionError, match="twice"):
        contract.no_step_loads_a_tile_twice(planted)
    with pytest.raises(AssertionError, match="times"):
        _check_table(name, planted)


def test_swapped_grid_axes_are_found() -> None:
    """Query and key tiles exchanged: part of S is never written."""
    scores, softmax, output = _launches("naive")
    items, variables = scores.program.items, scores.program.variables
    order = [variables.index({"q_tile": "k_tile", "k_tile": "q_tile"}.get(name, name)) for name in variables]
    swapped = replace(scores, program=replace(scores.program, items=lambda indices: items(indices)[:, order]))
    contract.every_element_is_written((scores, softmax, output))
    with pytest.raises(AssertionError, match="scratch S: written 0"):
        contract.every_element_is_written((swapped, softmax, output))


def test_swapped_head_and_query_axes_are_found() -> None:
    """The slab of one axis taken for the other leaves outputs unwritten."""
    (launch,) = _launches("flash2")
    with pytest.raises(AssertionError, match="output O: written 0"):
        contract.every_element_is_written((_with_column(launch, "slab", "q_tile"),))


def test_a_wrong_kv_head_is_found() -> None:
    """Queries that meet the keys of another group."""
    (launch,) = _launches("flash2")
    contract.every_query_meets_the_keys_it_sees((launch,), PROBLEM)
    with pytest.raises(AssertionError, match="never meets"):
        contract.every_query_meets_the_keys_it_sees((_with_column(launch, "kv_slab", "q_tile"),), PROBLEM)


def test_a_softmax_of_half_a_row_is_found() -> None:
    """The loop that sums forgets its last block."""
    (launch,) = _launches("online_softmax")
    contract.every_row_is_written_by_whom_it_was_read((launch,))
    summing, *rest = launch.program.body
    assert isinstance(summing, Loop) and isinstance(summing.trips, int)
    short = (replace(summing, trips=summing.trips - 1), *rest)
    planted = replace(launch, program=replace(launch.program, body=short))
    with pytest.raises(AssertionError, match="from part of a row"):
        contract.every_row_is_written_by_whom_it_was_read((planted,))


def test_a_wrong_order_of_launches_is_found() -> None:
    """The softmax cannot run before the scores."""
    scores, softmax, output = _launches("naive")
    contract.nothing_is_read_before_it_is_written((scores, softmax, output))
    with pytest.raises(AssertionError, match="before it is written"):
        contract.nothing_is_read_before_it_is_written((softmax, scores, output))


def test_a_forgotten_initialisation_is_found() -> None:
    """FlashAttention-1 without its prologue reads an O that nobody wrote."""
    (launch,) = _launches("flash1")
    contract.nothing_is_read_before_it_is_written((launch,))
    planted = replace(launch, program=replace(launch.program, body=launch.program.body[1:]))
    with pytest.raises(AssertionError, match="before it is written"):
        contract.nothing_is_read_before_it_is_written((planted,))


def test_a_period_that_is_too_short_is_found() -> None:
    """The ragged last tile differs from the others, so a period of one item is wrong, and so is its tally."""
    ragged = replace(PROBLEM, seqlen_q=96)
    (launch,) = find_schedule("flash2").launches(ragged, find_schedule("flash2").config(block_m=64), TOY)
    planted = replace(launch, program=replace(launch.program, period_items=1))
    with pytest.raises(AssertionError, match="breaks the period"):
        contract.items_repeat_with_the_period((planted,))
    with pytest.raises(AssertionError, match="load Q"):
        contract.tally_equals_the_sum_of_accesses((planted,))


def test_a_tile_out_of_bounds_is_found() -> None:
    """A slab that does not exist."""
    (launch,) = _launches("flash2")
    beyond = tuple(replace(tensor, slabs=2) if tensor.name == "Q" else tensor for tensor in launch.program.tensors)
    with pytest.raises(AssertionError, match="tensor='Q'"):
        contract.accesses_stay_inside((replace(launch, program=replace(launch.program, tensors=beyond)),))
