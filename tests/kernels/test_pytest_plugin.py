"""`pytest --tilesight`: limits and baselines of a user's kernels, as the user's tests see them."""

import json

import pytest
from tilesight.kernels.launch.availability import missing_package
from users_file import DOUBLE

from tilesight.cli.main import main
from tilesight.testing.kernel_time import KernelTime

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

import torch
from tilesight.kernels.compile import calls

pytest_plugins = ["pytester"]
SIZED = (
    DOUBLE
    + """

def run(count={count}):
    x = torch.empty(count, device="cuda")
    double[(count // 1024,)](x, torch.empty_like(x), count, BLOCK=1024)
"""
)
SMALL, LARGE = (SIZED.format(count=count) for count in (1 << 22, 1 << 24))
UPDATE = ("--tilesight", "--tilesight-update")


@pytest.fixture
def user(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A user's repository with a file of kernels, 120 columns."""
    # Inner runs of pytest forget what they load themselves, and torch cannot be loaded twice.
    assert torch and calls and KernelTime
    monkeypatch.setenv("COLUMNS", "120")
    pytester.makeini("[pytest]\n")
    (pytester.path / "bench").mkdir()
    (pytester.path / "bench" / "mine.py").write_text(SMALL, "utf-8")
    return pytester


def asks(call: str) -> str:
    """A file of one test. Args: call: arguments of its only call."""
    return f"def test_it(kernel_time):\n    kernel_time({call})\n"


def test_a_limit_fails_in_words_and_lists_what_is_predicted(
    user: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its time is that of `predict --json`; text and function object are the same, and arguments are handed over."""
    assert main(["predict", "bench/mine.py:run", "--device", "h100", "--json"]) == 0
    time_s = json.loads(capfd.readouterr().out)["total"]["time_s"]
    user.makepyfile(
        f"""
        import sys

        sys.path.insert(0, "bench")
        from mine import run


        class TestRun:
            def test_object(self, kernel_time):
                answer = kernel_time(run, device="h100", at_most={time_s!r})
                assert answer.time_s == {time_s!r} and [row.name for row in answer.rows] == ["double"]

            def test_text(self, kernel_time):
                kernel_time("bench/mine.py:run", device="h100", at_most="1 us")

            def test_arguments(self, kernel_time):
                answer = kernel_time(run, device="h100", at_most=1, arguments={{"count": 1 << 24}})
                assert answer.time_s > 3 * {time_s!r}
        """
    )
    result = user.runpytest_inprocess("--tilesight")
    result.assert_outcomes(passed=2, failed=1)
    ratio = f"{time_s / 1e-6:.2f}x"
    result.stdout.fnmatch_lines(
        [
            f"bench/mine.py:run on h100-sxm: * us predicted, {ratio} the limit of 1.00 us",
            "Longest  double: * us, 100 % of all; bound by *",
            "*.py:13",
            "*= predicted kernels =*",
            "bench/mine.py:run *h100-sxm *at most * within",
            "bench/mine.py:run *h100-sxm *at most 1.00 us *over the limit",
            "bench/mine.py:run(count=16777216) *h100-sxm *at most 1.00 s *within",
        ]
    )


def test_a_baseline_is_the_file_of_predict_save(user: pytest.Pytester) -> None:
    """Nothing but an update writes it, the same byte for byte and without paths of this machine; later code answers."""
    user.makepyfile(asks("'bench/mine.py:run', baseline='mine'"))
    baseline = user.path / "tilesight-baselines" / "mine.json"
    missing = user.runpytest_inprocess("--tilesight")
    missing.assert_outcomes(failed=1)
    (line,) = [line for line in missing.outlines if line.startswith("tilesight-baselines/mine.json: there is no")]
    assert not baseline.exists()
    command = line.partition("write it: pytest ")[2].split()
    assert command[:2] == list(UPDATE)
    user.runpytest_inprocess(*command).stdout.fnmatch_lines(["bench/mine.py:run * mine * written", "*= 1 passed*"])
    assert main(["predict", "bench/mine.py:run", "--save", "saved.json"]) == 0
    text = baseline.read_text("utf-8")
    assert text == (user.path / "saved.json").read_text("utf-8")
    assert str(user.path) not in text and "mine.py" in text
    user.runpytest_inprocess(*UPDATE).stdout.fnmatch_lines(["bench/mine.py:run * mine * unchanged", "*= 1 passed*"])
    user.runpytest_inprocess("--tilesight").stdout.fnmatch_lines(["bench/mine.py:run * same code", "*= 1 passed*"])


def test_a_slower_kernel_fails_with_the_words_of_diff(
    user: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Four times the bytes; a share that allows it passes; a baseline of another device or model is told."""
    test = user.makepyfile(asks("'bench/mine.py:run'"))
    assert user.runpytest_inprocess(*UPDATE).ret == 0
    (baseline,) = user.path.glob("tilesight-baselines/**/*.json")
    name = baseline.relative_to(user.path).as_posix()
    assert name == f"tilesight-baselines/{test.stem}/test_it.json"
    (user.path / "bench" / "mine.py").write_text(LARGE, "utf-8")
    capfd.readouterr()
    assert main(["diff", name, "bench/mine.py:run"]) == 0
    said = capfd.readouterr().out
    result = user.runpytest_inprocess("--tilesight")
    result.assert_outcomes(failed=1)
    assert "Launch 1, double: slower" in said and said in result.stdout.str()
    result.stdout.fnmatch_lines([f"If it is meant to be: pytest {' '.join(UPDATE)} {test.name}::test_it"])

    saved = json.loads(baseline.read_text("utf-8"))
    baseline.write_text(json.dumps(saved | {"model": "0123456789abcdef"}), "utf-8")
    monkeypatch.chdir(user.path / "bench")
    test.write_text(asks("'bench/mine.py:run', slower_than=1"), "utf-8")
    result = user.runpytest_inprocess("--tilesight", f"../{test.name}", "-c", "../tox.ini", "--rootdir", "..")
    result.assert_outcomes(failed=1)
    failure, _, table = " ".join(result.stdout.str().split()).partition(" predicted kernels ")
    note = f"{name}: is of another version of the model (0123456789abcdef of"
    assert failure.count(note) == 1 and note in table.partition(" short test summary info ")[0]
    assert said.partition("Launch 1")[2] in result.stdout.str().partition("Launch 1")[2] + "\n"

    monkeypatch.chdir(user.path)
    test.write_text(asks("'bench/mine.py:run', device='a100'"), "utf-8")
    result = user.runpytest_inprocess("--tilesight")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["'*test_it.json': is of device h200 (asked for is a100-sxm-80gb): ask for the same, *"]
    )


def test_processes_of_xdist_hand_on_what_they_predict(user: pytest.Pytester) -> None:
    """One table; two tests that write the same name fail the run, although each of them passes."""
    user.makepyfile(
        """
        import pytest


        @pytest.mark.parametrize("count", [1 << 20, 1 << 21])
        def test_it(kernel_time, count):
            kernel_time("bench/mine.py:run", baseline="mine", arguments={"count": count})
        """
    )
    result = user.runpytest_subprocess(*UPDATE, "-n", "2")
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    for count in (1 << 20, 1 << 21):
        result.stdout.fnmatch_lines([f"bench/mine.py:run(count={count}) * mine *written"])
    result.stdout.fnmatch_lines(["baseline 'mine': is written by *::test_it* and by *, for other kernels or devices*"])
    assert [path.name for path in (user.path / "tilesight-baselines").iterdir()] == ["mine.json"]


def test_what_is_not_predicted_fails_unless_it_may(user: pytest.Pytester) -> None:
    """A launch that is refused, with its reason; partial takes the rest, where there is any; code that raises."""
    last = SMALL.rstrip().splitlines()[-1]
    refused = f"{last[:-1]}, num_ctas=2)"
    ways = f"""

def half():
    x, count = torch.empty(1 << 20, device="cuda"), 1 << 20
{last}
{refused}


def none():
    x, count = torch.empty(1 << 20, device="cuda"), 1 << 20
{refused}


def raises():
    raise KeyError("of my own")
"""
    (user.path / "bench" / "mine.py").write_text(SMALL + ways, "utf-8")
    user.makepyfile(
        """
        import pytest


        @pytest.mark.parametrize(
            ("name", "partial"), [("half", False), ("half", True), ("none", True), ("raises", True)]
        )
        def test_it(kernel_time, name, partial):
            kernel_time(f"bench/mine.py:{name}", at_most=1, partial=partial)

        def test_update(kernel_time):
            kernel_time("bench/mine.py:half", baseline="half")
        """
    )
    result = user.runpytest_inprocess(*UPDATE)
    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines(
        [
            "bench/mine.py:half on h200: not all is predicted; partial=True takes what is predicted",
            "Refused  kernel double: num_ctas = 2: clusters are not modelled",
            "bench/mine.py:none on h200: not all is predicted",
            "KeyError: 'of my own' (mine.py:*)",
            "bench/mine.py:half *at most 1.00 s *incomplete",
            "bench/mine.py:half *at most 1.00 s *within",
            "bench/mine.py:none * - *at most 1.00 s *incomplete",
            "bench/mine.py:half * half *incomplete",
        ]
    )
    assert not (user.path / "tilesight-baselines").exists()
