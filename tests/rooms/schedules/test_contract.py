"""The contract's own parts: configurations and their space."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.contract import Schedule, frozen
from tilesight.simulator.schedules.options import BLOCK_M, CTA_ORDER, NUM_WARPS, declared, tiled
from tilesight.simulator.schedules.registry import all_options, find_schedule

TOY = Schedule(
    name="toy",
    summary="none",
    source="none",
    options=declared(tiled(BLOCK_M, 64, 16, 32, 64), tiled(NUM_WARPS, 8, 4, 8), CTA_ORDER),
    launches=lambda problem, config, device: (),
)

EVERY = replace(TOY, options=all_options())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("block_m", 48),
        ("block_m", 0),
        ("block_n", 2048),
        ("block_n", 8),
        ("num_warps", 3),
        ("num_warps", 64),
        ("num_stages", 0),
        ("num_stages", 9),
        ("persistent", -1),
        ("persistent", 33),
        ("cta_order", "random"),
        ("kv_order", "backward"),
        ("warp_split", "d"),
        ("softmax_variant", "fast"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field: str, value: int | str) -> None:
    """The message names field, value and what is allowed."""
    with pytest.raises(ValueError, match=f"^{field} = {value!r}: must be"):
        EVERY.asked(**{field: value})


def test_the_space_is_walked_last_option_fastest() -> None:
    """A stable order, with the default elsewhere."""
    seen = [(config.block_m, config.num_warps) for config in TOY.configs()]
    assert seen == [(16, 4), (16, 8), (32, 4), (32, 8), (64, 4), (64, 8)]
    assert {config.cta_order for config in TOY.configs()} == {"m-fast"}


def test_a_fixed_option_keeps_its_value() -> None:
    """Also one that the space does not vary, and a value that the space does not list."""
    assert [config.block_m for config in TOY.configs(num_warps=4)] == [16, 32, 64]
    assert [config.num_warps for config in TOY.configs(block_m=128)] == [4, 8]
    assert {config.cta_order for config in TOY.configs(cta_order="head-fast")} == {"head-fast"}


def test_chosen_options_replace_the_default() -> None:
    """The others stay."""
    assert TOY.config(block_m=16) == Config(block_m=16, num_warps=8, cta_order="m-fast")
    assert TOY.config() == TOY.default


def test_what_is_not_named_is_left_to_the_schedule() -> None:
    """A `Config` holds and shows what its user named; the schedule adds its own default, and only what it reads."""
    assert Config(block_m=16).named() == {"block_m": 16}
    assert repr(Config(block_m=16)) == "Config(block_m=16)"
    assert TOY.checked(Config()) == TOY.default == Config(block_m=64, num_warps=8, cta_order="m-fast")
    assert TOY.checked(Config(num_warps=4)).named() == {"block_m": 64, "num_warps": 4, "cta_order": "m-fast"}


@pytest.mark.parametrize(
    ("head_dim", "device", "taken"),
    [
        *((64, name, {"block_m": 128, "num_warps": 4}) for name in ("h200", "a100")),
        *((head_dim, name, {"block_m": 64, "num_warps": 4}) for head_dim in (80, 128) for name in ("h200", "b200")),
        (128, "a100", {"block_m": 128, "num_warps": 8}),
    ],
)
def test_the_default_follows_the_width_of_a_head(head_dim: int, device: str, taken: dict[str, int]) -> None:
    """Fewer rows where groups of warps multiply 64 of them, else more warps; what is named stays."""
    schedule, gpu = find_schedule("flash2"), load_device(device)
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=64, seqlen_k=64, head_dim=head_dim)
    assert schedule.completed({}, problem, gpu) == schedule.default.but(**taken)
    assert schedule.completed({"block_m": 256}, problem, gpu) == schedule.default.but(**taken | {"block_m": 256})


def test_a_default_that_does_not_go_with_what_is_named_is_not_taken() -> None:
    """Specialised warps need 128 rows: then these stay the default of wide heads too."""
    schedule = find_schedule("flash2_tma")
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=64, seqlen_k=64, head_dim=128)
    named = {"warp_specialize": 1, "num_stages": 2}
    assert schedule.completed(named, problem, load_device("h200")) == schedule.default.but(**named)


def test_launches_are_of_whole_configurations() -> None:
    """Also where a caller leaves options out."""
    seen = []
    watched = replace(TOY, launches=lambda problem, config, device: (seen.append(config), ())[1])
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=64, seqlen_k=64, head_dim=64)
    watched.launches(problem, Config(block_m=16), load_device("h200"))
    assert seen == [TOY.config(block_m=16)]


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("flash1", {"block_m": 64, "block_n": 128, "num_warps": 4, "num_stages": 2, "warp_split": "k"}),
        ("naive", {"block_m": 128, "block_n": 64, "num_warps": 4, "num_stages": 3}),
        ("online_softmax", {"block_m": 1, "block_n": 1024, "num_warps": 4, "softmax_variant": "online"}),
    ],
)
def test_a_default_names_what_its_schedule_reads(name: str, named: dict[str, int | str]) -> None:
    """All of it, and nothing else."""
    assert find_schedule(name).default.named() == named


@pytest.mark.parametrize("ask", [TOY.config, lambda **chosen: list(TOY.configs(**chosen)), TOY.check_options])
@pytest.mark.parametrize("option", ["block_n", "blockm"])
def test_an_option_that_the_schedule_does_not_take_is_refused(ask: Callable[..., object], option: str) -> None:
    """Whether another schedule takes it or nobody does."""
    with pytest.raises(ValueError, match=f"{option}: schedule toy does not take it; it takes block_m, num_warps"):
        ask(**{option: 16})


def test_blocks_of_fewer_rows_than_a_schedule_takes_are_refused() -> None:
    """Tile products take 16 or more, a row-wise kernel may take one."""
    for ask in (
        TOY.config,
        lambda **chosen: list(TOY.configs(**chosen)),
        lambda **chosen: TOY.checked(Config(**chosen)),
    ):
        with pytest.raises(ValueError, match=r"^block_m = 8: must be a power of two from 16 to 1024$"):
            ask(block_m=8)  # type: ignore[operator]
    assert find_schedule("online_softmax").config(block_m=1).block_m == 1


def test_constants_are_read_only() -> None:
    """A launch cannot be changed behind the launcher's back."""
    constants = frozen(block_m=64, scaled=True)
    assert dict(constants) == {"block_m": 64, "scaled": True}
    with pytest.raises(TypeError):
        constants["block_m"] = 32  # type: ignore[index]


def test_a_schedule_supports_every_problem_unless_it_says_otherwise() -> None:
    """None is no objection."""
    assert TOY.supports(None) is None  # type: ignore[arg-type]
