"""Which schedules and configurations are looked at."""

import pytest
from support.made_up import A_PROBLEM
from tilesight.simulator.explore.space import configs_of, options_taken, schedules_named, those_able, unlike
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.attention_backward import AttentionBackwardProblem
from tilesight.simulator.schedules.registry import all_schedules, find_schedule

ATTENTION = [item for item in all_schedules().values() if item.problem is AttentionProblem]


def test_all_names_every_schedule_that_computes_attention() -> None:
    """And what else is named, once; of the backward pass, all that compute that."""
    assert schedules_named("all") == ATTENTION
    with pytest.raises(ValueError, match="schedule 'naive': is among `all` already; give one of the two"):
        schedules_named(["naive", "all"])
    backward = schedules_named("all", AttentionBackwardProblem)
    assert [item.name for item in backward] == ["flash_backward", "naive_backward"]
    both = schedules_named(["online_softmax", "all"])
    assert both == [item for item in all_schedules().values() if item in ATTENTION or item.name == "online_softmax"]


def test_schedules_that_do_not_do_the_same_work_are_told_apart() -> None:
    """In one line that names them and what they compute."""
    softmax = find_schedule("online_softmax")
    assert unlike(ATTENTION) == unlike([softmax]) == ""
    assert unlike([find_schedule("flash2"), softmax, find_schedule("naive")]) == (
        "not the same work: flash2, naive compute attention; online_softmax computes softmax"
    )


def test_a_name_counts_once() -> None:
    """In the order of first mention."""
    assert [item.name for item in schedules_named(["naive", "flash2", "naive"])] == ["naive", "flash2"]


def test_every_schedule_is_able_or_says_why_not() -> None:
    """Never neither."""
    chosen = list(all_schedules().values())
    able, left_out = those_able(chosen, A_PROBLEM)
    assert {item.name for item in able} | set(left_out) == set(all_schedules())
    assert all(left_out.values())


def test_nothing_fixed_gives_the_whole_space_in_its_own_order() -> None:
    """As the schedule itself lists it."""
    flash2 = find_schedule("flash2")
    assert list(configs_of(flash2, [flash2], {})) == list(flash2.configs())


def test_two_lists_give_their_product() -> None:
    """Every value of one with every value of the other."""
    flash2 = find_schedule("flash2")
    fixed = {"block_m": (64, 128), "block_n": (32, 64), "num_warps": 4, "num_stages": 2}
    pairs = [(config.block_m, config.block_n) for config in configs_of(flash2, [flash2], fixed)]
    assert sorted(set(pairs)) == [(64, 32), (64, 64), (128, 32), (128, 64)]


def test_what_does_not_go_together_is_left_out_of_lists() -> None:
    """64 rows with plain warps, 128 with both; 64 rows alone with specialised warps are refused."""
    tma = find_schedule("flash2_tma")
    fixed = {"block_m": (64, 128), "warp_specialize": (0, 1), "block_n": 64, "num_warps": 4, "num_stages": 2}
    pairs = [(config.block_m, config.warp_specialize) for config in configs_of(tma, [tma], fixed)]
    assert pairs == [(64, 0), (128, 0), (128, 1)]
    with pytest.raises(ValueError, match="block_m = 64: must be 128 or 256"):
        list(configs_of(tma, [tma], fixed | {"block_m": 64, "warp_specialize": 1}))


def test_an_option_of_another_schedule_is_passed_over() -> None:
    """It is meant for that one."""
    naive, flash2 = find_schedule("naive"), find_schedule("flash2")
    assert options_taken(naive, [naive, flash2], {"kv_order": "forward", "block_m": 64}) == {"block_m": 64}


def test_an_option_of_no_schedule_is_an_error() -> None:
    """A misspelt name must not go unnoticed."""
    naive = find_schedule("naive")
    with pytest.raises(ValueError, match="block_q: schedule naive does not take it"):
        options_taken(naive, [naive], {"block_q": 64})
