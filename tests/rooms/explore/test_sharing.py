"""Ways to share sequences among GPUs over lengths: which is best, what it says, and what it refuses."""

import json

import pytest
from tilesight.simulator.device.device import load_device
from tilesight.simulator.device.what_if import override
from tilesight.simulator.explore.sharing import share
from tilesight.simulator.explore.trial import TrialSettings
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.report.operations.splits import sharing_text
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.simulate import simulate

from tilesight.cli.main import main

SMALL = AttentionProblem(batch=1, heads=4, seqlen_q=512, seqlen_k=512, head_dim=64, causal=True)
FIXED = {"block_m": 128, "block_n": 64, "num_warps": 4, "num_stages": 2}
ON = TrialSettings(device=load_device("h200"))


def test_one_gpu_takes_what_simulate_says() -> None:
    """But for what a launch costs around it; no communication; bytes of HBM are those of its kernel."""
    (alone,) = share(SMALL, [1024], [1], ON, **FIXED).shared
    asked = simulate(SMALL.but(seqlen_q=1024, seqlen_k=1024), schedule="flash2", config=Config(**FIXED), device="h200")
    assert alone.step is not None and alone.step.link_bytes == 0
    assert alone.step.hbm_bytes == asked.total.hbm_read_bytes + asked.total.hbm_write_bytes
    assert 0.5 * asked.time_s < alone.time_s < asked.time_s


def test_the_fastest_is_named_from_its_length_on() -> None:
    """Of each number of GPUs; way and length come from the rows, which CSV and JSON have too."""
    sharing = share(SMALL, [512, 2048], [1, 4, 8], ON, **FIXED)
    assert [it.way for it in sharing.shared if it.seqlen == 512] == ["alone", *["ring", "gather", "heads"] * 2]
    best = sharing.best(2048, 4)
    assert best is not None and best.time_s == min(
        it.time_s for it in sharing.shared if (it.seqlen, it.gpus) == (2048, 4)
    )
    text = sharing_text(sharing, 120)
    assert f"Fastest on 4 GPUs: {best.way}" in text and "x of one GPU at 2,048" in text
    assert text.count("Left out: heads on 8 GPUs: 4 heads are not shared evenly by 8 GPUs") == 1
    heads = [it for it in sharing.shared if (it.way, it.gpus) == ("heads", 8)]
    assert heads[0].to_dict()["time_s"] is None and json.loads(json.dumps(sharing.to_dict()))["schema"]


def test_what_does_not_fit_is_out_of_memory() -> None:
    """All keys, gathered and put into their order, take 256 MiB; what a ring has of them at a time is less."""
    device = override(load_device("h200"), ["hbm_bytes=256MiB"])
    sharing = share(SMALL.but(causal=False), [131072], [4], TrialSettings(device=device), **FIXED)
    assert [it.reason for it in sharing.shared] == ["", "out of memory", ""]
    assert "Left out: N = 131,072, gather on 4 GPUs: out of memory" in sharing_text(sharing, 120)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--gpus 16", "--gpus = 16: must be from 1 to 8"),
        ("--gpus 2,x", "--gpus = '2,x': must be whole numbers"),
        ("--gpus 8 --causal --seqlens 1000", "--seqlens = 1000: must be a multiple of 16"),
        ("--gpus 2 --window 64", "--window = 64: must be left out: sequences that GPUs share"),
        ("--gpus 2 --pass both", "--gpus: shares attention's forward pass alone"),
        ("--gpus 2 --pass backward", "--gpus: shares attention's forward pass alone"),
        ("--gpus 2 --plot a.png", "--plot"),
        ("--gpus 2 --seqlen-q 4096 --seqlens 1024", "--seqlen-q = 4096: must be below --seqlens"),
        ("--seqlen-q 1", "--seqlen-q 1: changes nothing without --gpus"),
    ],
)
def test_what_cannot_be_shared_is_one_line(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Option, value and what is allowed; exit code 2."""
    assert main(["compare", "--device", "h200", *arguments.split()]) == 2
    printed = capsys.readouterr()
    assert not printed.out and printed.err.count("\n") == 1 and said in printed.err
