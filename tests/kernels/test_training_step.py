"""`--pass both` of `simulate`, `explore` and `compare`: each pass as it is by itself, and their sum."""

import json

import pytest
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

SHAPE = ("--batch", "1", "--heads", "2", "--head-dim", "64")
TILES = ("--block-m", "64", "--block-n", "64", "--num-warps", "4", "--num-stages", "3")


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    """The JSON of a command that succeeds."""
    assert main([*arguments, *SHAPE, *TILES, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("command", ["simulate", "explore"])
def test_both_passes_are_what_each_is_alone(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With options that one of them takes going to that one; the step takes their sum."""
    shape = ("--seqlen", "256", "--causal")
    options = ("--cta-order", "m-reversed", "--kv-order", "forward", "--persistent", "0", "--form", "two_kernels")
    both = answered(capsys, command, *shape, "--pass", "both", *options)
    forward = answered(capsys, command, *shape, "--pass", "forward", *options[:-2])
    backward = answered(capsys, command, *shape, "--pass", "backward", *options[-2:])
    assert (both["forward"], both["backward"]) == (forward, backward)
    (step,) = both["steps"]
    times = [
        part["configs"][0]["time_s"] if command == "explore" else part["total"]["time_s"]
        for part in (forward, backward)
    ]
    assert step["time_s"] == sum(times)
    assert step["schedules"] == ["flash2", "flash_backward"]
    # Q, K, V, O and dO, dQ, dK, dV in fp16, LSE and delta in fp32.
    assert (step["kept_bytes"], step["peak_memory_bytes"]) == (2 * 256 * (4 * 128 + 4), 2 * 256 * (8 * 128 + 8))


def test_compare_pairs_the_passes_of_each_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    """A step of standard attention holds P from one pass to the other, a step of flash none; both in one table."""
    schedules = ("--schedule", "naive", "--schedule", "flash2")
    both = answered(capsys, "compare", "--pass", "both", *schedules, "--seqlens", "256", "--recomputed", "0")
    steps = {tuple(step["schedules"]): step for step in both["steps"]}
    assert list(steps) == [("naive", "naive_backward"), ("flash2", "flash_backward")]
    passes = {point["schedule"]: point["time_s"] for half in ("forward", "backward") for point in both[half]["points"]}
    assert all(step["time_s"] == sum(passes[name] for name in names) for names, step in steps.items())
    kept = [step["kept_bytes"] for step in steps.values()]
    assert kept[0] - kept[1] == 2 * 256 * (256 * 2 - 4)
