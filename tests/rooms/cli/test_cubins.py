"""A launch in plain data on the command line: what is missing, or too much, is said in one line."""

import pytest

from tilesight.cli.main import main

WHOLE = ("--cubin", "k.cubin", "--grid", "8", "--block", "32")


@pytest.mark.parametrize("command", ["predict", "explain"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--grid", "8"), "--grid: is of a kernel in a cubin: give --cubin FILE"),
        (("--cubin", "k.cubin", "--grid", "8"), "--block: is missing: --cubin needs --grid and --block"),
        (("a.py:f", *WHOLE), "a.py:f and --cubin: each names what is launched; give one"),
        ((*WHOLE[:3], "8x8x8x8", *WHOLE[4:]), "--grid '8x8x8x8': must be such as 132, or 64x64x1"),
        ((*WHOLE, "--arg", "n"), "--arg 'n': must be NAME=VALUE, e.g. x=tensor:fp16[64,4096]"),
        ((*WHOLE, "--arg", "n=1", "--arg", "n=2"), "--arg: is given as 'n=1' and as 'n=2'; give one"),
    ],
)
def test_a_launch_that_is_none_is_one_line(
    command: str, given: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is read, compiled or written before."""
    assert main([command, *given]) == 2
    output = capsys.readouterr()
    assert output.out == "" and output.err == f"tilesight: {said}\n"
