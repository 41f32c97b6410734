"""The pytest plugin where nothing is predicted: options, skips, what it costs, and what cannot be meant."""

import re
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from support.made_rows import row_of

from tilesight.testing.answer import PredictedKernels
from tilesight.testing.baselines import name_of
from tilesight.testing.judgements import Judgement, collisions
from tilesight.testing.kernel_time import KernelTime, expected, subject_of

pytest_plugins = ["pytester"]
NEVER = "def test_it(kernel_time):\n    kernel_time('mine.py:run', at_most='1 us')\n"
RUN = "def run():\n    pass\n"


def run() -> None:
    """What a test might hand over."""


def test_pytest_loads_it_and_nothing_else_of_the_package(pytester: pytest.Pytester) -> None:
    """No numpy, numba or torch where nobody asks for predictions."""
    assert [entry.value for entry in entry_points(group="pytest11", name="tilesight")] == ["tilesight.testing.plugin"]
    pytester.makepyfile(
        """
        import sys


        def test_it(pytestconfig):
            loaded = {name for name in sys.modules if name.partition(".")[0] == "tilesight"}
            assert loaded == {"tilesight", "tilesight.testing", "tilesight.testing.plugin"}
            assert not {"numpy", "numba", "torch", "triton", "msgspec", "rich"} & set(sys.modules)
        """
    )
    # Hypothesis has a plugin of its own that loads more.
    pytester.runpytest_subprocess("-p", "no:hypothesispytest").assert_outcomes(passed=1)


def test_without_the_option_tests_are_skipped_and_listed(pytester: pytest.Pytester) -> None:
    """The reason names the option; collection needs neither it nor torch."""
    pytester.makepyfile(NEVER)
    result = pytester.runpytest_inprocess("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED * predicts kernels, *: pytest --tilesight runs it"])
    for options in ([], ["--tilesight"]):
        assert pytester.runpytest_inprocess("--collect-only", *options).ret == 0


def test_an_update_without_predictions_is_refused(pytester: pytest.Pytester) -> None:
    """It would change nothing."""
    pytester.makepyfile(NEVER)
    result = pytester.runpytest_inprocess("--tilesight-update")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --tilesight-update: changes nothing without --tilesight; give both"])


def test_a_package_that_is_missing_fails_in_a_line(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install, and where the test asked."""
    assert KernelTime.__module__ == "tilesight.testing.kernel_time"
    monkeypatch.setattr("tilesight.testing.kernel_time.why_not", lambda: "torch is not installed: pip install torch")
    pytester.makepyfile(mine=RUN, test_it=NEVER)
    result = pytester.runpytest_inprocess("--tilesight")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["torch is not installed: pip install torch", "", "test_it.py:2"], consecutive=True)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ("'gone.py:run', at_most=1", "gone.py: no such file in *"),
        ("max, at_most=1", "function = <built-in function max>: must be FILE.py:FUNCTION, *"),
        ("lambda: 0, at_most=1", "function = <function test_it.*: must be FILE.py:FUNCTION, *"),
        ("'mine.py:run', device='h201'", "device 'h201' is unknown: did you mean h20*"),
        ("'mine.py:run', l2='hot'", "l2 = 'hot': must be one of pipeline, cold, warm"),
        ("'mine.py:run', at_most='120'", "at_most = '120': must be a time above 0, such as '120 us', *"),
        ("'mine.py:run', at_most=-1.0", "at_most = -1.0: must be a time above 0, *"),
        ("'mine.py:run', slower_than=5", "slower_than = 5: must be a share from 0 to 1, such as 0.05 for 5 %"),
        ("'mine.py:run', baseline='a/b'", "baseline = 'a/b': must be a name of letters, digits and *"),
        ("'mine.py:run', at_most=1, partial='yes'", "partial = 'yes': must be True or False"),
    ],
)
def test_what_cannot_be_meant_fails_in_a_line(pytester: pytest.Pytester, call: str, line: str) -> None:
    """Before anything runs, so that torch need not be there; no traceback."""
    pytester.makepyfile(mine=RUN, test_it=f"def test_it(kernel_time):\n    kernel_time({call})\n")
    result = pytester.runpytest_inprocess("--tilesight")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([line, "", "test_it.py:2"], consecutive=True)
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_function_is_named_alike_on_every_machine(tmp_path: Path) -> None:
    """By its path from the root, as text or as object; what lies elsewhere by its whole path."""
    here = Path(__file__)
    root = here.parents[3]
    named = {subject_of(form, root) for form in (run, "tests/rooms/testing/test_plugin.py:run", f"{here}:run")}
    assert [(subject.name, subject.target) for subject in named] == [
        ("tests/rooms/testing/test_plugin.py:run", f"{here}:run")
    ]
    assert subject_of(run, tmp_path).name == f"{here}:run"
    assert subject_of("package.module:run", tmp_path).target == "package.module:run"


def test_a_limit_leaves_no_baseline_and_a_test_has_one_of_its_own(request: pytest.FixtureRequest) -> None:
    """Where neither is given, the test's name is the baseline's."""
    assert expected("1.5 ms", None, "mine", 0.05, False).baseline == ""
    assert expected("1.5 ms", None, "mine", 0.05, False).limit_s == 1.5e-3
    assert expected(None, None, "mine", 0.05, False).baseline == "mine"
    assert expected(2e-6, "theirs", "mine", 0.05, False).baseline == "theirs"
    name = name_of(request.node, Path(__file__).parents[1])
    assert name == f"testing/test_plugin/{request.node.name}"


def test_the_name_of_a_test_is_safe_and_no_two_are_the_same(pytester: pytest.Pytester) -> None:
    """By its file, class and parameters; what a file cannot be named by leaves a digest."""
    items = pytester.getitems(
        textwrap.dedent(
            """
        import pytest


        class TestRows:
            @pytest.mark.parametrize("value", ["1-2.5", "a/b", "a b", "a::b", pytest.param(0, id="x" * 300)])
            def test_it(self, value):
                pass
        """
        )
    )
    plain, *others = [name_of(item, pytester.path) for item in items]
    assert plain == f"{items[0].path.stem}/TestRows.test_it-1-2.5"
    assert all(re.fullmatch(r"\w+/TestRows\.test_it-(a-b|x+)-[0-9a-f]{8}", name) for name in others), others
    assert len(set(others)) == 4


def test_two_tests_that_write_another_baseline_of_a_name_are_told() -> None:
    """The same file from both is no collision."""
    values = {"function": "f", "device": "d", "time": "t", "bound": "b", "verdict": "written"}
    first, same, other, third = (
        Judgement(test=test, against=against, digest=digest, **values)
        for test, against, digest in (("t1", "x", "1"), ("t2", "x", "1"), ("t3", "x", "2"), ("t4", "y", "2"))
    )
    assert collisions([first, same, third]) == []
    (line,) = collisions([first, same, other, third])
    assert line.startswith("baseline 'x': is written by t1 and by t3, for other kernels or devices")


@pytest.mark.parametrize(("limit_us", "failed"), [(100.0, 0), (99.9, 1), (85.0, 1)])
def test_a_limit_is_what_it_says(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, limit_us: float, failed: int
) -> None:
    """100 us are within 100 us, and over any time below."""
    answer = PredictedKernels(name="mine.py:run", device="h200", rows=(row_of(1e-4),), time_s=1e-4)
    for name, made in (("why_not", ""), ("recorded", ()), ("alone", answer)):
        monkeypatch.setattr(f"tilesight.testing.kernel_time.{name}", lambda *given, made=made: made)
    pytester.makepyfile(mine=RUN, test_it=NEVER.replace("'1 us'", f"'{limit_us} us'"))
    result = pytester.runpytest_inprocess("--tilesight")
    result.assert_outcomes(passed=1 - failed, failed=failed)
