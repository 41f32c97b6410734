"""Configurations that fit: the nearest to what was asked for, and what is said where none does."""

import json

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.resolve import asked_config
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.registry import find_schedule, written_schedules
from tilesight.simulator.schedules.smaller import changes, shrunk_note, smaller
from tilesight.simulator.simulate import simulate

from tilesight.cli.main import main

FLASH2 = find_schedule("flash2")
TINY = ("--batch", "1", "--heads", "1", "--seqlen", "64")


def test_the_nearest_comes_first_and_all_are_smaller() -> None:
    """What was asked for, then what differs in one step."""
    asked = FLASH2.config(block_m=64, block_n=32, num_stages=2)
    configs = list(smaller(FLASH2, asked))
    assert configs[0] == asked
    assert {tuple(changes(asked, config)) for config in configs[1:4]} == {("num_stages",), ("block_n",), ("block_m",)}
    for config in configs[1:]:
        assert all(new < old for old, new in changes(asked, config).values())
    assert len(configs) == len(set(configs)) == 2 * 2 * 3


def test_what_is_kept_does_not_change() -> None:
    """A user's option is the user's."""
    asked = FLASH2.config(block_m=128, block_n=64)
    assert {config.block_m for config in smaller(FLASH2, asked, kept=["block_m"])} == {128}


def test_the_note_says_what_and_why() -> None:
    """In one line."""
    asked = FLASH2.config(block_m=128, block_n=64)
    note = shrunk_note(asked, FLASH2.config(block_m=128, block_n=16), "too much")
    assert note == "block_n 16 in place of 64, the default: too much"


ATTENTION = [name for name, item in written_schedules().items() if item.problem is AttentionProblem]


@pytest.mark.parametrize("schedule", ATTENTION)
@pytest.mark.parametrize(("head_dim", "dtype"), [(256, "fp16"), (192, "bf16"), (80, "fp16"), (256, "fp32")])
def test_a_default_fits_any_head_dim_and_type(schedule: str, head_dim: int, dtype: str) -> None:
    """It shrinks until it does; and a problem that a schedule refuses is none of its size."""
    problem = AttentionProblem(batch=1, heads=1, seqlen_q=64, seqlen_k=64, head_dim=head_dim, dtype=dtype)
    if find_schedule(schedule).why_not(problem) is not None:
        pytest.skip("the schedule cannot compute it")
    for device in ("h200", "rtx-4090"):
        try:
            prediction = simulate(problem, schedule=schedule, device=device, cost="tiles")
        except ValueError as error:
            assert "does not fit" not in str(error) and "shared memory" not in str(error), error
        else:
            default = asked_config(problem, find_schedule(schedule), Config(), load_device(device), "tiles")
            assert bool(changes(default, prediction.config)) == any("the default" in n for n in prediction.notes)


def test_a_misfit_names_what_was_given_and_ends_with_what_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    """And what it says to try does fit."""
    asked = ["simulate", *TINY, "--device", "rtx-4090", "--head-dim", "256", "--block-m", "256"]
    assert main(asked) == 2
    said = capsys.readouterr().err
    assert said.startswith("tilesight: --block-m 256: does not fit: ")
    before, _, advice = said.strip().rpartition("; try ")
    assert "--block-n" not in before
    words = advice.split()
    given = dict(zip(asked[1::2], asked[2::2], strict=True)) | dict(zip(words[::2], words[1::2], strict=True))
    assert main(["simulate", *(part for pair in given.items() for part in pair), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problem"]["head_dim"] == 256
