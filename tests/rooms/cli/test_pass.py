"""`--pass`: which of attention and its gradients is computed, and what goes with it."""

import pytest

from tilesight.cli.main import main

COMMANDS = (["simulate"], ["explore"], ["compare", "--seqlens", "512"])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--pass", "backward", "--schedule", "naive"], "--schedule 'naive': computes attention; --pass backward has "),
        (
            ["--pass", "forward", "--schedule", "naive_backward"],
            "computes attention backward; --pass forward has chunked_flash, flash1",
        ),
        (["--pass", "sideways"], "'--pass': 'sideways' must be one of forward, backward, both"),
        (["--pass", "both", "--schedule", "flash1"], "'flash1': no schedule of attention backward goes with it"),
        (["--pass", "both", "--schedule", "online_softmax"], "'online_softmax': has no backward pass"),
        (["--pass", "both", "--splits", "2"], "--splits: none of these schedules takes it"),
        (["--pass", "both", "--trace", "x.json"], "changes nothing with --pass both"),
        (
            ["--pass", "both", "--window", "64", "--schedule", "naive"],
            "--window 64: cannot be given with schedules naive",
        ),
        (["--pass", "backward", "--dropout", "0.1"], "--dropout 0.1: cannot be given with schedule"),
        (["--pass", "backward", "--dtype", "fp8"], "fp8 is too coarse for gradients"),
        (["--pass", "backward", "--deterministic", "1"], "form = two_kernels adds in a fixed order anyway"),
    ],
)
def test_what_does_not_go_together_is_refused(
    options: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line on stderr, with what to do."""
    assert main(["simulate", *options]) == 2
    said = capsys.readouterr()
    assert text in said.err and said.err.count("\n") == 1 and not said.out


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_without_a_compiler_gradients_are_refused(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where torch and triton are missing: in one line that says that no GPU is needed."""
    monkeypatch.setattr("tilesight.cli.compiled.why_not", lambda: "torch and triton are not installed")
    assert main([*command, "--pass", "backward"]) == 2
    said = capsys.readouterr()
    assert "no GPU is needed" in said.err and said.err.count("\n") == 1 and not said.out
