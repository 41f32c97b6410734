"""`--model`: what it fills, what the answer says of it, and what is refused."""

import json

import pytest

from tilesight.cli.main import main

pytestmark = pytest.mark.usefixtures("known_answers")

QUICK = ("--batch", "1", "--num-warps", "4", "--num-stages", "2", "--block-m", "64", "--block-n", "64")


@pytest.fixture(autouse=True)
def _compiled_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remark on compiling belongs to its own test."""
    monkeypatch.setattr("tilesight.simulator.engine.engine.is_compiled", lambda: True)


@pytest.mark.parametrize(
    ("command", "lengths"),
    [("simulate", ("--seqlen", "256")), ("explore", ("--seqlen", "256")), ("compare", ("--seqlens", "256"))],
)
def test_a_model_fills_what_is_not_typed(
    capsys: pytest.CaptureFixture[str], command: str, lengths: tuple[str, ...]
) -> None:
    """The local layers of a GPU of four; `--heads` is the user's, and the answer says all of it."""
    asked = ("--model", "gpt-oss-20b", "--tp", "4", "--layers", "local", "--heads", "8")
    assert main([command, *asked, *lengths, "--schedule", "flash2", *QUICK, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    answer = answer["devices"][0] if "devices" in answer else answer
    shape = {name: answer["problem"][name] for name in ("heads", "kv_heads", "head_dim", "dtype", "causal", "window")}
    assert shape == {"heads": 8, "kv_heads": 2, "head_dim": 64, "dtype": "bf16", "causal": True, "window": 128}
    assert answer["notes"][:2] == [
        "a local layer of gpt-oss-20b, with a window of 128: 12 of 24; --layers global: the others;"
        " 4 GPUs share its heads: 16 of 64, and 2 of 8 KV heads",
        "--heads 8 is yours, where gpt-oss-20b has 16",
    ]
    assert "sinks" in answer["notes"][2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "lama-3-8b"), "--model 'lama-3-8b' is unknown: did you mean llama-3-8b"),
        (("--model", "llama-3-70b", "--tp", "3"), "--tp = 3: cannot share the 64 heads and 8 KV heads"),
        (("--model", "llama-3-8b", "--layers", "local"), "--layers = 'local': all layers of llama-3-8b are global"),
        (("--model", "llama-3-8b", "--causal"), "--causal: changes nothing with --model"),
        (("--model", "llama-3-8b", "--schedule", "online_softmax"), "has layers of attention, not of softmax"),
        (("--model", "llama-3-8b", "--schedule", "mla_decode"), "--model = 'llama-3-8b': has no latent attention"),
        (("--model", "none.json"), "--model 'none.json': cannot be read"),
        (("--tp", "2"), "--tp 2: changes nothing without --model"),
    ],
)
def test_a_mistake_about_a_model_is_named(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    """In one line that names the option, with exit code 2."""
    assert main(["simulate", *options]) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.count("\n") == 1 and message in output.err


def test_a_model_is_answered_on_several_devices(capsys: pytest.CaptureFixture[str]) -> None:
    """Prefill, decode and memory of each, the same numbers as JSON, and which device is faster at what."""
    asked = ("model", "gpt-oss-20b", "--tp", "8", "--batch", "4", "--seqlen", "256", "--device", "h100,h200")
    assert main([*asked]) == 0
    text = capsys.readouterr().out
    for part in ("Prefill of one sequence of 256", "A decode step of 4", "Device memory", "Unlucky", "Which device"):
        assert part in text
    assert "12 global" in text and "12 local" in text and "Note: attention sinks" in text
    assert main([*asked, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [device["device"] for device in answer["devices"]] == ["h100-sxm", "h200"]
    assert answer["layers"] == {"global": 12, "local": 12}
    for device in answer["devices"]:
        assert device["kv_bytes_per_sequence"] == 2 * 64 * 2 * 12 * (256 + 128)
        assert device["prefill_s"] == pytest.approx(
            sum(12 * kind["prefill"]["best"]["time_s"] for kind in device["layers"])
        )


def test_a_whole_model_is_shared_in_ways_that_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """Parts of both steps, ways for 1, 2 and 4 GPUs, the best of each; the same numbers as JSON."""
    asked = ("model", "mixtral-8x7b", "--ep", "4", "--gpus", "4", "--batch", "4", "--seqlen", "256")
    assert main([*asked]) == 0
    text = capsys.readouterr().out
    for words in ("The whole model on 4 GPUs (tp 1, ep 4)", "communication", "Best on 1 GPU:", "Best on 4 GPUs: "):
        assert words in text
    assert main([*asked, "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["devices"]
    whole = answer["whole"]["decode"]
    assert whole["time_s"] == pytest.approx(sum(whole["parts_s"].values()) + whole["gaps_s"])
    assert {way["gpus"] for way in answer["splits"]} == {1, 2, 4}
    assert answer["whole"] in answer["splits"]


def test_each_answer_is_told_as_it_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, device by device, while others are still asked for."""
    assert main(["model", "llama-3-8b", "--tp", "8", "--seqlen", "256", "--device", "h100,h200"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "prefill of B=1 H=4 G=1 M=N=256" in line]
    assert [line.split(",")[0] for line in lines] == ["tilesight: h100-sxm", "tilesight: h200"]
    assert all(line.endswith("us a layer") for line in lines)


def test_a_cache_of_another_type_is_half_as_large(capsys: pytest.CaptureFixture[str]) -> None:
    """`--kv-dtype` is of keys and values, not of the weights, nor of what prefill computes with."""
    answers = []
    for options in ((), ("--kv-dtype", "fp8")):
        assert main(["model", "qwen-2.5-7b", "--tp", "4", "--seqlen", "128", *options, "--json"]) == 0
        (answers_of,) = json.loads(capsys.readouterr().out)["devices"]
        answers.append(answers_of)
    wide, narrow = answers
    assert wide["kv_bytes_per_sequence"] == 2 * narrow["kv_bytes_per_sequence"]
    assert (wide["weight_bytes"], wide["prefill_s"]) == (narrow["weight_bytes"], narrow["prefill_s"])


def test_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """All of the catalogue."""
    assert main(["model"]) == 0
    text = capsys.readouterr().out
    assert "gemma-3-27b" in text and "52 local (window 1,024)" in text and "192 (latents of 512 + 64)" in text
    assert main(["model", "--json"]) == 0
    assert all(item["source"] for item in json.loads(capsys.readouterr().out)["models"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("llama-3-70b", "--tp", "3"), "--tp = 3: cannot share"),
        (("llama-3-70b", "--tp", "16"), "--tp = 16: must be at most 8, the GPUs of one host"),
        (("llama-3-70b", "--gpus", "9"), "--gpus = 9: must be at most 8, the GPUs of one host"),
        (("llama-3-70b", "--ep", "2"), "--ep = 2: there are no experts in llama-3-70b"),
        (("llama-3-70b", "--batch", "0"), "--batch = 0: must be an integer of 1 or more"),
        (("llama-3-70b", "--seqlen", "99999999"), "--seqlen = 99999999: must be at most"),
        (("llama-3-8b", "--kv-dtype", "int4"), "'int4' must be one of fp8, i8"),
        (("llama-4",), "tilesight: model 'llama-4' is unknown: did you mean"),
        (("--tp", "8"), "--tp 8: changes nothing without a model"),
    ],
)
def test_a_mistake_about_serving_is_named(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    """In one line, with exit code 2."""
    assert main(["model", *options]) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err.count("\n") == 1 and message in output.err
