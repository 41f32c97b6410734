"""What is typed twice or in vain is refused, in one line that names it."""

import json
from pathlib import Path

import pytest

from tilesight.cli.main import main

TINY = "--batch 1 --heads 1 --seqlen 64 --head-dim 64"


def _refused(capsys: pytest.CaptureFixture[str], arguments: str) -> str:
    assert main(arguments.split()) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.count("\n") == 1
    return output.err.removeprefix("tilesight: ").rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("simulate --batch 1 --batch 2", "--batch: is given as '1' and as '2'; give one"),
        ("simulate --batch=2 --batch 2", "--batch: is given as '2' and as '2'; give one"),
        ("simulate --causal --causal", "--causal: is given twice; give it once"),
        ("simulate --device h200 --device h100", "--device: is given as 'h200' and as 'h100'; give one"),
        ("simulate --set sms=2 --set sms=3", "--set: is given as 'sms=2' and as 'sms=3'; give one"),
        ("explore --schedule flash2 --schedule flash2", "--schedule: is given as 'flash2' and as 'flash2'; give one"),
        ("explore --device h200 --device H200", "--device H200: is h200, which is given already; give it once"),
        ("simulate --device h200,a100", "--device 'h200,a100': must be one device here; try explore or compare"),
        ("explore --device h200 --device h100 --html x", "--html 'x': shows one device, not h200, h100-sxm"),
        ("compare --device h200 --device h100 --plot x", "--plot 'x': shows one device, not h200, h100-sxm"),
        ("explore --block-n 64,64", "--block-n '64,64': has 64 twice; give it once"),
        ("explore --cta-order m-fast,m-fast", "--cta-order 'm-fast,m-fast': has m-fast twice; give it once"),
        ("compare --seqlens 512,1024,512", "--seqlens '512,1024,512': has 512 twice; give it once"),
        ("check-softmax x:y --seed 1 --seed 2", "--seed: is given as '1' and as '2'; give one"),
        ("validate --problem seqlen=1 --problem seqlen=2", "--problem: is given as 'seqlen=1' and as 'seqlen=2'"),
    ],
)
def test_what_is_given_twice_is_an_error(capsys: pytest.CaptureFixture[str], arguments: str, said: str) -> None:
    """The last one must not win in silence."""
    assert _refused(capsys, arguments).startswith(said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("simulate --schedule online_softmax --head-dim 32", "--head-dim 32: changes nothing for schedule online_soft"),
        ("explore --schedule online_softmax --kv-heads 1", "--kv-heads 1: changes nothing for schedule online_softmax"),
        ("simulate --schedule flash2 --dropout 0.1", "--dropout 0.1: cannot be given with schedule flash2; "),
        ("compare --schedule flash2 --schedule naive --dropout 0.1", "--dropout 0.1: cannot be given with schedules"),
        (
            "simulate --schedule flash2 --head-dim-v 64",
            "--head-dim-v 64: cannot be given with schedule flash2; ",
        ),
        ("simulate --window 64 --causal", "--causal: changes nothing with --window, which includes it; leave it out"),
        ("explore --window 64 --causal", "--causal: changes nothing with --window, which includes it; leave it out"),
        ("simulate --seqlen 64 --seqlen-q 1 --seqlen-k 64", "--seqlen 64: changes nothing beside --seqlen-q and"),
        ("simulate --cost tiles --compiled", "--cost tiles and --compiled: kernels that are compiled give the cycles"),
        ("explore --cost tiles --registers 64", "--cost tiles: changes nothing with --registers"),
        ("explore --json --top 3 --csv x --html x", "--html 'x': is the file of --csv already"),
        ("devices --set sms=2", "--set 'sms=2': name the device that it changes"),
        ("validate --seed 3", "--seed 3: changes nothing without --full"),
        ("check-softmax x:y --dtype fp16 --declare dtype=fp32", "--dtype fp16 and --declare dtype=fp32: give one"),
    ],
)
def test_what_changes_nothing_is_an_error(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: str,
    said: str,
) -> None:
    """Before any work, and no file is written."""
    monkeypatch.chdir(tmp_path)
    assert _refused(capsys, arguments).startswith(said)
    assert list(tmp_path.iterdir()) == []


def test_doctor_says_that_it_asks_nothing_of_a_problem_without_a_gpu(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is about the machine all the same."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(["doctor", "--seqlen", "128", "--json"]) == 1
    output = capsys.readouterr()
    assert json.loads(output.out)["schema"] == "tilesight.doctor/1"
    assert output.err == "tilesight: --seqlen: changes nothing here: a problem is asked about where there is a GPU\n"


def test_what_changes_something_for_one_schedule_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    """Dropout is for `unfused`; the others are left out and say why."""
    asked = "compare --batch 1 --heads 1 --head-dim 64 --seqlens 64 --schedule unfused --schedule flash2 --dropout 0.1"
    assert main([*asked.split(), "--block-m", "64", "--block-n", "64", "--num-warps", "4", "--num-stages", "2",
                 "--cta-order", "m-fast", "--kv-order", "forward", "--warp-split", "q", "--json"]) == 0  # fmt: skip
    document = json.loads(capsys.readouterr().out)
    assert [point["schedule"] for point in document["points"]] == ["unfused"]
    assert document["left_out"] == {"flash2": "dropout = 0.1: this schedule has none"}
