"""What people get wrong in a file of kernels: each is answered in words of the user's code, with an exit code."""

import subprocess
from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package

from tilesight.cli.main import main

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

MINE = """import numpy
import torch
import triton
import triton.language as tl


@triton.jit
def double(X, Y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.load(X + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def undefined(X, BLOCK: tl.constexpr):
    tl.store(X + tl.arange(0, BLOCK), nowhere)


@triton.jit
def mixed(X, Y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = i[:, None] * BLOCK + i[None, :]
    tl.store(Y + at, tl.dot(tl.load(X + at), tl.load(Y + at)))


def pair():
    return torch.empty(4096, device="cuda"), torch.empty(4096, device="cuda")


def no_constexpr():
    x, y = pair()
    double[(4,)](x, y, 4096)


def no_argument():
    x, y = pair()
    double[(4,)](x, y, BLOCK=1024)


def not_pow2():
    x, y = pair()
    double[(4,)](x, y, 4096, BLOCK=1000)


def unknown_name():
    x, y = pair()
    undefined[(4,)](x, BLOCK=64)


def mixed_types():
    x, y = pair()
    mixed[(1,)](x.half(), y, BLOCK=32)


def wrong_key():
    x, y = pair()
    double[lambda meta: (triton.cdiv(4096, meta["BLOK"]),)](x, y, 4096, BLOCK=1024)


def no_ctas():
    x, y = pair()
    double[(0,)](x, y, 4096, BLOCK=1024)


def no_launch():
    pair()


def with_arguments(n):
    return n


def beyond():
    x, y = pair()
    double[(8,)](x, y, 8192, BLOCK=1024)


def numpy_array():
    x, y = pair()
    double[(4,)](numpy.zeros(4096), y, 4096, BLOCK=1024)


def too_large():
    x, y = pair()
    double[(1,)](x, y, 4096, BLOCK=1 << 21)


def later_error():
    x, y = pair()
    double[(4,)](x, y, 4096, BLOCK=1024)
    raise RuntimeError("after the launch")


SIZE = 3
"""
LINE = [
    ("no_constexpr", 1, "TypeError: missing a required argument: 'BLOCK' (mine.py:"),
    ("no_argument", 1, "TypeError: missing a required argument: 'n' (mine.py:"),
    ("wrong_key", 1, "KeyError: 'BLOK' (mine.py:"),
    ("no_ctas", 2, "grid (0, 1, 1) has no CTAs: nothing is launched"),
    ("no_launch", 2, "mine.py: no_launch() launches no Triton kernel"),
    ("with_arguments", 2, "mine.py: with_arguments needs arguments (n): tune --shapes gives them"),
    ("SIZE", 2, "mine.py: SIZE is no function"),
]
"""Function, exit code, and what the one line on stderr says."""
REFUSED = [
    ("not_pow2", "arange's range must be a power of 2 (mine.py:"),
    ("unknown_name", "nowhere is not defined"),
    ("mixed_types", "Both operands must be same dtype. Got fp16 and fp32 (mine.py:"),
    ("beyond", "load reaches 16.0 KiB beyond tensor X"),
    ("numpy_array", "numpy.ndarray"),
    ("too_large", "numel (2097152) exceeds triton maximum tensor numel (1048576)"),
]
"""Function, and why its launch is refused."""


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file."""
    path = tmp_path_factory.mktemp("mistakes") / "mine.py"
    path.write_text(MINE, "utf-8")
    return path


@pytest.mark.parametrize(("function", "code", "said"), LINE)
def test_a_mistake_is_a_line_on_stderr(
    mine: Path, capsys: pytest.CaptureFixture[str], function: str, code: int, said: str
) -> None:
    """And nothing on stdout: 1 where the code raises, 2 where the command names what cannot be predicted."""
    assert main(["predict", f"{mine}:{function}"]) == code
    output = capsys.readouterr()
    assert output.out == "" and said in output.err.splitlines()[-1]
    assert all(line.startswith("tilesight: ") for line in output.err.splitlines())


@pytest.mark.parametrize(("function", "said"), REFUSED)
def test_a_launch_that_would_fail_is_refused_in_its_words(
    mine: Path, capsys: pytest.CaptureFixture[str], function: str, said: str
) -> None:
    """As an answer that begins with how many are predicted; exit code 1."""
    assert main(["predict", f"{mine}:{function}"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("0 of 1 launch on h200") and said in out


def test_launches_before_an_error_are_predicted(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer begins with what it lacks."""
    assert main(["predict", f"{mine}:later_error"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("Incomplete: the code ended in an error after 1 launch")
    assert "RuntimeError: after the launch (mine.py:" in out and "double" in out


@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        ("syntax.py:run", 1, "SyntaxError: invalid syntax (syntax.py:1)"),
        ("nowhere.py:run", 2, "nowhere.py: no such file"),
        ("syntax.py", 2, "'syntax.py': must be FILE.py:FUNCTION or MODULE:FUNCTION"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    target: str,
    code: int,
    said: str,
) -> None:
    """By the commands that take one."""
    monkeypatch.chdir(tmp_path)
    Path("syntax.py").write_text("def run(:\n", "utf-8")
    for command in ("predict", "explain"):
        assert main([command, target]) == code
        output = capsys.readouterr()
        assert output.out == "" and output.err.splitlines()[-1] == f"tilesight: {said}"


def test_options_of_a_config_are_not_of_a_function(capsys: pytest.CaptureFixture[str]) -> None:
    """And a config.json that is not there is named."""
    for arguments, said in (
        (["mine.py:run", "--batch", "4"], "--batch 4: is for hf:config.json; a function makes its own inputs"),
        (["hf:nowhere/config.json", "--tokens", "8"], "hf:nowhere/config.json: no such file: must be the config.json"),
    ):
        assert main(["profile", *arguments]) == 2
        output = capsys.readouterr()
        assert output.out == "" and output.err.startswith(f"tilesight: {said}") and output.err.count("\n") == 1


def test_a_revision_outside_of_git_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, before anything is compiled."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE, "utf-8")
    assert subprocess.run(["git", "rev-parse"], capture_output=True, check=False).returncode
    assert main(["diff", "HEAD:mine.py:beyond", "mine.py:beyond"]) == 2
    output = capsys.readouterr()
    assert output.out == "" and "git" in output.err.splitlines()[-1]
