"""The laws in somebody's own suite: one line, or a fixture."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tilesight.softmax_laws import Violation, check
from tilesight.softmax_laws.examples import attention, softmax

SUITE = """
import numpy as np
from tilesight.softmax_laws.examples import softmax
from tilesight.softmax_laws.pytest import each_law

def wrong(x):
    p = np.exp(x)
    return p / p.sum(axis=-1, keepdims=True)

test_right = each_law(softmax, examples=10)
test_wrong = each_law(wrong, masking="none")

def test_with_the_fixture(softmax_laws):
    softmax_laws(softmax, examples=10)

def test_wrong_with_the_fixture(softmax_laws):
    softmax_laws(wrong)
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of the suite above."""
    folder: Path = tmp_path_factory.mktemp("suite")
    (folder / "conftest.py").write_text('pytest_plugins = ["tilesight.softmax_laws.pytest"]\n', "utf-8")
    (folder / "test_mine.py").write_text(SUITE, "utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    return subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-v", "-rs", "-p", "no:cacheprovider", str(folder)],
        cwd=folder,
        env=environment | {"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout


def test_one_line_gives_a_test_for_each_law(finished: str) -> None:
    """Passed where the law holds, skipped with the reason where it does not apply."""
    assert "test_mine.py::test_right[oracle] PASSED" in finished
    assert "test_mine.py::test_right[causal prefix] SKIPPED" in finished
    assert "only attention has a causal mask" in finished
    assert "test_mine.py::test_wrong[masked rows] SKIPPED" in finished


def test_a_failure_shows_the_snippet(finished: str) -> None:
    """Of the function that the suite names, without the insides of this package."""
    assert "test_mine.py::test_wrong[oracle] FAILED" in finished
    assert "from test_mine import wrong" in finished
    assert "reproduce('oracle', wrong, x=x, masking='none')" in finished


def test_the_fixture_checks_all_laws(finished: str) -> None:
    """And fails with the counter-examples of all that do not hold."""
    assert "test_mine.py::test_with_the_fixture PASSED" in finished
    assert "test_mine.py::test_wrong_with_the_fixture FAILED" in finished
    assert "masked rows: output is nan at row 0, column 0, must be 0 within 0" in finished


@pytest.mark.parametrize("masked", [False, True])
def test_the_snippet_of_a_declared_mask_runs(masked: bool) -> None:
    """Whether the input asks for the mask or not: one keyword says how it is aligned, another that it is asked for."""

    def leaks(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        return attention(q, k, v, causal=causal)[0] + (0.5 if causal == masked else 0.0)

    with pytest.raises(AssertionError) as caught:
        check(leaks, adapter="attention", causal="last", arrays="numpy", examples=20)
    every = re.findall(r"(?ms)^from tilesight.*?^reproduce\([^\n]*\)$", str(caught.value))
    snippet = next(text for text in every if ("masked=masked" in text) == masked)
    assert "causal='last'" in snippet
    with pytest.raises(Violation):
        exec(snippet, {"function": leaks, "np": np})


def test_results_are_returned_for_whoever_looks() -> None:
    """What did not apply can be seen, and is never among the passed."""
    results = {result.law: result for result in check(softmax, examples=5)}
    assert results["oracle"].outcome == "passed"
    assert results["scaling of V"].outcome == "not applicable"
