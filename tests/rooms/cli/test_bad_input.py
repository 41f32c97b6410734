"""Mistakes on the command line: each is answered by one line on stderr that names it, and exit code 2."""

import re
from pathlib import Path

import pytest

from tilesight.cli.main import main

ROOT = Path(__file__).resolve().parents[3]


def _error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that bad input must give, on stderr alone."""
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith("tilesight: ")
    return output.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("simulate --batch 0", "--batch = 0: must be"),
        ("simulate --heads -4", "--heads = -4: must be"),
        ("simulate --kv-heads 0", "--kv-heads = 0: must be"),
        ("simulate --seqlen 0", "--seqlen = 0: must be"),
        ("simulate --seqlen-q 0", "--seqlen-q = 0: must be"),
        ("simulate --head-dim 63", "--head-dim = 63: must be a multiple of 8"),
        ("simulate --heads 32 --kv-heads 5", "--kv-heads = 5: must divide heads = 32"),
        ("simulate --dtype int8", "'--dtype': 'int8' must be one of fp32, fp16"),
        (
            "simulate --schedule flash_decode --lengths 1x1000000000",
            "--lengths: names 1000000000 sequences: must be at",
        ),
        ("simulate --schedule flash_decode --lengths uniform:1-2x9999999", "--lengths: names 9999999 sequences: must"),
        ("simulate --mask documents:8x99999999", "lengths: names 99999999 sequences: must be at most 1048576"),
        ("simulate --dropout 1.5", "--dropout = 1.5: must be a probability"),
        ("simulate --batch few", "'--batch': 'few' is no whole number"),
        ("simulate --block-m 100", "--block-m = 100: must be a power of two"),
        ("simulate --block-n few", "--block-n = 'few': must be a whole number"),
        ("simulate --block-m 8", "--block-m = 8: must be a power of two from 16 to 1024"),
        ("explore --block-m 8,64", "--block-m = 8: must be a power of two from 16 to 1024"),
        ("explore --schedule flash2 --schedule online_softmax", "--schedule: not the same work: flash2 computes"),
        ("simulate --softmax-variant lazy", "--softmax-variant: schedule flash2 does not take it"),
        (
            "simulate --schedule online_softmax --softmax-variant lazy",
            "--softmax-variant = 'lazy': must be one of naive",
        ),
        ("simulate --num-warps 3", "--num-warps = 3: must be one of 1, 2, 4"),
        ("simulate --num-stages 0", "--num-stages = 0: must be an integer from 1"),
        ("simulate --cta-order fast", "--cta-order = 'fast': must be one of m-fast"),
        ("simulate --schedule all", "schedule 'all' is unknown"),
        ("simulate --schedule flash9", "'flash9' is unknown: did you mean flash2, flash1"),
        ("simulate --schedule naive --kv-order forward", "--kv-order: schedule naive does not take it"),
        ("simulate --device h300", "--device: device 'h300' is unknown: did you mean h200"),
        ("simulate --device none.toml", "--device: none.toml: no such file"),
        ("simulate --set l3_bytes=4", "--set 'l3_bytes=4': key 'l3_bytes' is unknown: did you mean l2_bytes"),
        ("simulate --set l2_bytes", "--set 'l2_bytes': must be key=value"),
        ("simulate --set l2_bytes=much", "--set l2_bytes: 'much' is no number"),
        ("simulate --set l2_bytes=1", "--set l2_bytes: l2_bytes = 1: must be a number from"),
        ("simulate --l2 hot", "'--l2': 'hot' must be one of cold, warm"),
        (
            "simulate --cost compiled --registers 128",
            "--cost compiled and --registers 128: code has resources of its own",
        ),
        ("explore --cost compiled --smem-bytes 9", "--cost compiled and --smem-bytes 9: code has resources of its own"),
        ("explore --cost guess", "'--cost': 'guess' must be one of compiled, tiles"),
        ("simulate --registers 0", "--registers = 0: must be"),
        ("simulate --registers 256", "--registers 256: does not fit: registers: a thread needs 256"),
        ("simulate --smem-bytes -1", "--smem-bytes = -1: must be"),
        ("simulate --smem-bytes 999999", "--smem-bytes 999999: does not fit: shared memory: a CTA needs 999999"),
        ("simulate --block-m 256 --block-n 256 --num-stages 4", "--block-n 256 --num-stages 4: does not fit: shared"),
        ("simulate --trace no/such/folder/x", "--trace 'no/such/folder/x': cannot be written"),
        ("explore --workers 0", "--workers = 0: must be"),
        ("explore --top 0", "--top = 0: must be"),
        ("explore --block-m 64,100", "--block-m = 100: must be a power of two"),
        ("explore --block-m 64,", "--block-m = '64,': must be whole numbers, separated by commas"),
        ("explore --html .", "--html '.': is a folder"),
        ("explore --csv x.out --html x.out", "--html 'x.out': is the file of --csv already"),
        ("compare --seqlens 64,0", "--seqlens = 0: must be from 1 to"),
        ("compare --seqlens 64;128", "--seqlens = '64;128': must be whole numbers"),
        ("compare --seqlen-q 64", "--seqlen-q 64: changes nothing without --gpus; leave it out"),
        ("devices --set sms=2", "--set 'sms=2': name the device"),
        ("devices --all", "--all: name a device"),
        ("devices h300", "device 'h300' is unknown: did you mean h200"),
        ("simulate --blokc-m 64", "No such option: --blokc-m: did you mean"),
        ("explain k.py:run --html x", "option: --html: one of explore, predict, diff, tune, validate, not of explain"),
        ("simulate --batch", "'--batch' requires an argument"),
        ("simulate h200", "unexpected extra argument"),
        ("simulate --devise h200", "No such option: --devise: did you mean --device"),
        ("predikt k.py:run", "No such command 'predikt'. Did you mean 'predict'"),
        ("simulate --device mi300x", "--device: device 'mi300x' is unknown"),
        ("simulate --batch -1", "--batch = -1: must be an integer of 1 or more"),
        ("predict k.py:run --json --markdown", "No such option: --markdown: one of diff, not of predict"),
        ("diff k.py:run", "NEW is missing: name what OLD is compared with"),
        ("tune", "tune: name a function, FILE.py:FUNCTION"),
        ("tune k.py:run --top 0", "--top = 0: must be an integer of 1 or more"),
        ("explore --csv no/such/folder/x.csv", "--csv 'no/such/folder/x.csv': cannot be written"),
        ("predict k.py:run --html no/such/folder/x.html", "--html 'no/such/folder/x.html': cannot be written"),
        ("emulate", "No such command 'emulate'"),
    ],
)
def test_bad_input_is_one_line_that_names_it(capsys: pytest.CaptureFixture[str], arguments: str, named: str) -> None:
    """Exit code 2, nothing on stdout."""
    assert named in _error(capsys, *arguments.split())


@pytest.mark.parametrize("key", ["sms", "l2_bytes"])
def test_a_bad_device_file_is_named_with_its_key(capsys: pytest.CaptureFixture[str], tmp_path: Path, key: str) -> None:
    """File, key, value and allowed range."""
    text = (ROOT / "simulator" / "device" / "catalogue" / "h200.toml").read_text("utf-8")
    file = tmp_path / "mine.toml"
    file.write_text(re.sub(rf"(?m)^{key} = \{{ value = \d+", f"{key} = {{ value = -1", text), "utf-8")
    line = _error(capsys, "simulate", "--device", str(file))
    assert f"mine.toml: {key} = -1: must be a number from" in line


def test_control_characters_of_the_input_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """They are spelt out."""
    assert "\x1b" not in _error(capsys, "simulate", "--device", "\x1b[31mred\n\n")
