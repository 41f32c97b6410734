"""`tilesight check-softmax`: what it prints where, its exit codes, and snippets that show a failure again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from laws.softmax_mutants import MUTANTS, Mutant

from tilesight.cli.main import main

EXAMPLES = "tilesight.softmax_laws.examples"
QUICK = ("--examples", "20")


def _mutant(name: str, where: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if (mutant.name, mutant.where) == (name, where))


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict]:
    code = main(["check-softmax", *arguments, "--json"])
    output = capsys.readouterr()
    assert output.err == ""
    return code, json.loads(output.out)


def test_a_correct_function_passes(capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 0, a table of all laws on stdout, and nothing on stderr."""
    assert main(["check-softmax", f"{EXAMPLES}:merge", *QUICK]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    assert output.out.startswith(f"{EXAMPLES}:merge as merge, f(state, state) -> state")
    lines = [" ".join(line.split()) for line in output.out.splitlines()]
    assert "merge: associative passed 20 (a b) c and a (b c) are the same state" in lines
    assert "causal prefix not applicable only attention has a causal mask" in lines
    assert "20 passed, 0 failed, 2 not applicable." in lines
    assert lines[-1].startswith("Not tested: NaN or inf in V; fp64 (--dtype); scores beyond 1e+07; more than 257 keys;")


def test_json_has_every_law_once(capsys: pytest.CaptureFixture[str]) -> None:
    """With outcome and reason, and the declaration that was found."""
    code, document = _printed(capsys, f"{EXAMPLES}:softmax", *QUICK, "--dtype", "fp16", "--seed", "3")
    assert code == 0
    assert document["schema"] == "tilesight.check-softmax/1"
    assert (document["declaration"]["adapter"], document["declaration"]["dtype"], document["seed"]) == (
        "softmax",
        "fp16",
        3,
    )
    names = [law["law"] for law in document["laws"]]
    assert len(names) == len(set(names)) == document["passed"] + document["failed"] + document["not_applicable"] == 22
    assert all(law["reason"] for law in document["laws"] if law["outcome"] == "not applicable")
    assert {law["examples"] for law in document["laws"] if law["outcome"] == "passed"} == {20}


SHOWN = [
    ("no rescale of the sum", "Stream", "oracle"),
    ("join keeps its own maximum", "Stream", "any order"),
    ("causal off by one: sees the next key", "attention", "causal prefix"),
    ("ignores the sum of one side", "merge", "merge: commutative"),
    ("maximum of all rows", "softmax", "oracle"),
]


@pytest.mark.parametrize(("name", "where", "law"), SHOWN)
def test_a_snippet_shows_the_failure_again(
    name: str, where: str, law: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run as it is printed, it ends with the very words of the table; and its input is a small one."""
    file = tmp_path / "mine.py"
    file.write_text(_mutant(name, where).source(), "utf-8")
    code, document = _printed(capsys, f"{file}:{where}", "--law", law)
    (entry,) = document["laws"]
    assert (code, entry["outcome"]) == (1, "failed")
    finished = subprocess.run(
        [sys.executable, "-P", "-c", entry["snippet"]], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 1
    assert finished.stderr.rstrip().endswith(f"Violation: {entry['reason']}"), finished.stderr
    assert len(entry["snippet"]) < 700, entry["snippet"]


def test_a_failure_is_shown_with_its_snippet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1; the table says failed, the reason and the snippet follow."""
    file = tmp_path / "mine.py"
    file.write_text(_mutant("maximum of all rows", "softmax").source(), "utf-8")
    assert main(["check-softmax", f"{file}:softmax", "--law", "oracle"]) == 1
    output = capsys.readouterr()
    assert output.err == ""
    assert "oracle failed: LSE is" in output.out
    assert "\nreproduce('oracle', softmax, x=x)\n" in output.out
    assert "\n0 passed, 1 failed, 0 not applicable.\nNot tested: 21 other laws; " in output.out


MINE = """
import numpy as np

def safe(x):
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)

def attention(q, k, v, causal=False, mask=-np.inf, first=False):
    wide = q.dtype if q.dtype == np.float64 else np.float32
    scores = q.astype(wide) @ k.astype(wide).swapaxes(-1, -2) * wide(q.shape[-1] ** -0.5)
    if causal:
        rows, keys = scores.shape[-2:]
        scores = np.where(np.tri(rows, keys, 0 if first else keys - rows, dtype=bool), scores, wide(mask))
    return (safe(scores) @ v.astype(wide)).astype(q.dtype)

def like_sdpa(q, k, v, is_causal=False):
    return attention(q, k, v, is_causal, first=True)

def nan_without_keys(q, k, v, causal=False):
    return attention(q, k, v, causal)

def million(q, k, v, causal=False):
    return attention(q, k, v, causal, -1e6)

def ten_thousand(q, k, v, causal=False):
    return attention(q, k, v, causal, -1e4)

def least(q, k, v, causal=False):
    return attention(q, k, v, causal, np.finfo(q.dtype).min)
"""
DROPPED = [
    ("safe", "fp32", {"masked rows": "masking=entries"}),
    ("like_sdpa", "fp32", {}),
    ("like_sdpa", "fp16", {}),
    ("nan_without_keys", "fp32", {"masked rows": "masking=entries"}),
    ("million", "fp32", {"masked rows": "masking=entries", "low scores": "largest_score=1000"}),
    ("million", "fp16", {"masked rows": "masking=entries", "low scores": "largest_score=1000"}),
    ("ten_thousand", "fp32", {"masked rows": "masking=entries", "low scores": "largest_score=1000"}),
    ("least", "fp16", {"masked rows": "masking=entries", "low scores": "largest_score=1000"}),
    ("least", "fp32", {"masked rows": "masking=entries"}),
]


@pytest.mark.parametrize(("name", "dtype", "failed"), DROPPED)
def test_what_a_function_does_not_promise_can_be_declared(
    name: str, dtype: str, failed: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Finite masks and rows without keys are caught; each failure names its declaration, and with those all is well."""
    file = tmp_path / "mine.py"
    file.write_text(MINE, "utf-8")
    given = [f"{file}:{name}", "--dtype", dtype]
    code, document = _printed(capsys, *given, "--law", "masked rows", "--law", "low scores")
    unless = {law["law"]: law["unless"] for law in document["laws"] if law["outcome"] == "failed"}
    assert (code, unless) == (1 if failed else 0, failed)
    declared = [part for word in failed.values() for part in ("--declare", word)]
    code, document = _printed(capsys, *given, *declared, "--examples", "60")
    assert code == 0, document
    assert ("rows without keys" in document["not_tested"]) == (name != "safe" or bool(failed))


def test_what_was_not_tested_comes_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what the user declared away, and what nobody drew; a failure ends with the declaration, ready to type."""
    file = tmp_path / "mine.py"
    file.write_text(MINE, "utf-8")
    assert main(["check-softmax", f"{file}:safe", *QUICK]) == 1
    text = capsys.readouterr().out
    assert (
        "\nreproduce('masked rows', safe, x=x, knob=knob)\n\nIf your function does not promise this: --declare " in text
    )
    assert main(["check-softmax", f"{file}:safe", *QUICK, "--declare", "masking=none",
                 "--declare", "nonfinite=undefined"]) == 0  # fmt: skip
    last = " ".join(capsys.readouterr().out.partition("Not tested: ")[2].split())
    for what in ("rows without keys", "NaN and +inf", "scores of -inf", "fp64, fp16 (--dtype)", "scores beyond 1e+07"):
        assert what in last
    assert last.endswith("more than 3 rows.")


def test_the_lesson_shows_what_its_function_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's own code fails with the page's own lines, and with -inf the law holds."""
    page = (Path(__file__).parents[3] / "docs" / "lesson.md").read_text("utf-8")
    page = page[page.index("```python\nimport numpy") :]
    code, printed = (page.partition(f"```{kind}\n")[2].partition("```")[0] for kind in ("python", "console"))
    shown = [line for line in printed.splitlines() if line and line != "..." and not line.startswith("$ ")]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(code, "utf-8")
    assert main(["check-softmax", "mine.py:attention", "--law", "low scores"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(shown) > 5
    assert [line for line in shown if line not in lines] == []
    (tmp_path / "mine.py").write_text(code.replace("np.float32(-1e6)", "-np.inf"), "utf-8")
    assert main(["check-softmax", "mine.py:attention", "--law", "low scores"]) == 0


REFUSED = [
    (("nothing",), "TARGET: 'nothing': must be package.module:function"),
    ((f"{EXAMPLES}:soft",), "it has inner"),
    ((f"{EXAMPLES}:softmax", "--adapter", "flash"), "must be one of softmax, attention, merge, streaming"),
    ((f"{EXAMPLES}:softmax", "--adapter", "merge"), "called as merge f(state, state)"),
    ((f"{EXAMPLES}:softmax", "--dtype", "fp8"), "must be one of fp64, fp32, fp16, bf16"),
    ((f"{EXAMPLES}:softmax", "--examples", "0"), "--examples = 0"),
    ((f"{EXAMPLES}:softmax", "--seed", "-1"), "--seed = -1"),
    ((f"{EXAMPLES}:softmax", "--timeout", "nan"), "--timeout = nan"),
    ((f"{EXAMPLES}:softmax", "--declare", "masking"), "--declare: 'masking': must be NAME=VALUE"),
    ((f"{EXAMPLES}:softmax", "--declare", "masking=some"), "--declare: masking = 'some': must be one of rows"),
    ((f"{EXAMPLES}:softmax", "--law", "gravity"), "--law: law = 'gravity': must be one of oracle"),
    ((f"{EXAMPLES}:softmax", "--declare", "dtypes=fp16", "--dtype", "fp32"), "the implementation supports fp16"),
    ((f"{EXAMPLES}:merge", "--dtype", "fp16"), "states are kept in fp32 or fp64"),
]


@pytest.mark.parametrize(("arguments", "text"), REFUSED)
def test_bad_input_is_one_line(arguments: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, with exit code 2, naming option or target, value and what is allowed."""
    assert main(["check-softmax", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert text in output.err


def test_a_law_that_does_not_apply_is_not_passed(capsys: pytest.CaptureFixture[str]) -> None:
    """What an implementation declares not to support is said, not counted."""
    code, document = _printed(
        capsys, f"{EXAMPLES}:softmax", "--declare", "masking=none", "--law", "masked rows", *QUICK
    )
    assert code == 0
    assert (document["passed"], document["not_applicable"]) == (0, 1)
    assert document["laws"][0]["reason"] == "it declares masking=none"


def test_the_help_says_that_code_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever checks somebody else's file should know."""
    assert main(["check-softmax", "--help"]) == 0
    assert "RUNS YOUR CODE" in capsys.readouterr().out


def test_numpy_functions_need_no_torch() -> None:
    """Where torch cannot be imported, a numpy function is checked all the same."""
    code = """
import sys
sys.modules["torch"] = None
from tilesight.softmax_laws import check
from tilesight.softmax_laws.examples import softmax
print(len(check(softmax, examples=5)))
"""
    finished = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert finished.stdout.strip() == "22", finished.stderr
