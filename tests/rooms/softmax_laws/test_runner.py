"""The user's code in processes of its own: what hangs, crashes or leaves costs its law, and no other."""

from pathlib import Path
from typing import Any

import pytest
from support.waiting import HANG_S, ended
from tilesight.softmax_laws.run import runner
from tilesight.softmax_laws.run.runner import Checked, Died, Job, Process, run

GOOD = """
import ctypes, os, subprocess, sys, time
import numpy as np
from tilesight.softmax_laws.examples import softmax

def has_nan(x):
    return bool(np.isnan(x).any())

def hang(*child):
    here = os.path.dirname(__file__)
    if child:
        with open(f"{here}/child", "w") as file:
            file.write(str(subprocess.Popen(child).pid))
    open(f"{here}/hanging", "w").close()
    while True:
        time.sleep(1)
"""
FAULTS = {
    "hangs": ("if has_nan(x): hang()", "hung: no answer in 0.5 s"),
    "segfaults": ("if has_nan(x): ctypes.string_at(0)", "the process ended (signal 11, SIGSEGV)"),
    "aborts": (
        "if has_nan(x): sys.stderr.write('native: assertion failed'); sys.stderr.flush(); os.abort()",
        "the process ended (signal 6, SIGABRT): native: assertion failed",
    ),
    "leaves": ("if has_nan(x): os._exit(0)", "the process ended (status 0)"),
    "exits": ("if has_nan(x): sys.exit(7)", "raised SystemExit: 7"),
    "breaks the GPU": (
        "if has_nan(x): raise RuntimeError('CUDA error: an illegal memory access')",
        "raised RuntimeError: CUDA error: an illegal memory access",
    ),
    "runs out of memory": ("if has_nan(x): raise MemoryError('all of it')", "raised MemoryError: all of it"),
}
LAWS = ("oracle", "NaN and +inf", "key order")


@pytest.fixture(autouse=True)
def _only_hangs_are_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog gives up only who has left a file before hanging, not who is late on a slow machine."""

    hanging = tmp_path / "hanging"

    class Watched(Process):
        def event(self, limit_s: float) -> dict[str, Any]:
            while True:
                try:
                    return super().event(limit_s)
                except Died as death:
                    if str(death).startswith("hung"):
                        if not hanging.exists():
                            continue
                        hanging.unlink()
                    raise

    monkeypatch.setattr(runner, "Process", Watched)


def _checked(folder: Path, line: str, laws: tuple[str, ...] = LAWS) -> Checked:
    file = folder / "faulty.py"
    file.write_text(f"{GOOD}\ndef f(x):\n    {line}\n    return softmax(x)\n", "utf-8")
    given = {"arrays": "numpy"}
    return run(Job(target=f"{file}:f", given=given, laws=laws, examples=60, timeout_s=0.5))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_costs_its_law_only(fault: str, tmp_path: Path) -> None:
    """The laws before and after it pass, and the input that did it is told."""
    line, reason = FAULTS[fault]
    checked = _checked(tmp_path, line)
    assert [result.law for result in checked.results] == list(LAWS)
    assert [result.outcome for result in checked.results] == ["passed", "failed", "passed"]
    assert checked.results[1].reason.startswith(reason)
    assert "x" in checked.results[1].inputs and "'nan'" in checked.results[1].inputs["knob"]


def test_after_a_fault_of_the_gpu_the_process_is_not_used_again(tmp_path: Path) -> None:
    """Whatever it computes from then on is wrong: the search stops there, and the next law has a new process."""
    calls = tmp_path / "calls"
    line = f"open({str(calls)!r}, 'a').write(f'{{os.getpid()}} {{has_nan(x)}}\\n')\n    "
    checked = _checked(tmp_path, line + FAULTS["breaks the GPU"][0])
    assert [result.outcome for result in checked.results] == ["passed", "failed", "passed"]
    seen = [call.split() for call in calls.read_text("utf-8").splitlines()]
    broken = [pid for pid, nan in seen if nan == "True"]
    assert len(broken) == 1
    assert [nan for pid, nan in seen if pid == broken[0]][-1] == "True"
    assert seen[-1][0] != broken[0]


def test_what_the_function_prints_and_reads_is_kept_apart(tmp_path: Path) -> None:
    """Events go another way than prints, and whoever waits for input is told that there is none."""
    line = "print('{\"result\": 1}' * 100, flush=True); sys.stderr.write('x' * 10000); assert sys.stdin.read() == ''"
    checked = _checked(tmp_path, line, LAWS[:1])
    assert [result.outcome for result in checked.results] == ["passed"]


def test_a_function_that_always_dies_fails_every_law(tmp_path: Path) -> None:
    """At once, and with the reason; nothing passes that was not tried."""
    checked = _checked(tmp_path, "os._exit(3)")
    assert checked.declaration is None
    assert {result.outcome for result in checked.results} == {"failed"}
    assert checked.results[0].reason == "numpy: the process ended (status 3), on a plain input"


def test_a_function_that_hangs_on_a_plain_input_is_bad_input(tmp_path: Path) -> None:
    """After the time that one input may take, in one line: nothing can be said of its laws."""
    with pytest.raises(ValueError, match=r":f': hung: no answer in 0.5 s, on a plain input of numpy arrays; --timeout"):
        _checked(tmp_path, "hang()")


@pytest.mark.parametrize(
    ("content", "text"),
    [("import os; os._exit(4)", "importing it, the process ended (status 4)"), ("f = 3", "must be a function")],
)
def test_a_module_that_cannot_be_used_is_bad_input(content: str, text: str, tmp_path: Path) -> None:
    """In one line, also where importing it ends the process."""
    file = tmp_path / "faulty.py"
    file.write_text(content, "utf-8")
    with pytest.raises(ValueError) as caught:
        run(Job(target=f"{file}:f"))
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_children_of_the_function_end_with_it(tmp_path: Path) -> None:
    """A process that hangs may have started others; they would burn on after it is ended."""
    _checked(tmp_path, f"has_nan(x) and hang(sys.executable, '-c', 'import time; time.sleep({HANG_S})')", LAWS[1:2])
    assert ended(int((tmp_path / "child").read_text()), HANG_S / 2)


def test_nothing_is_left_where_the_user_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No notes of Hypothesis, no file of ours; what importing the user's module leaves is Python's."""
    monkeypatch.chdir(tmp_path)
    _checked(tmp_path, "if has_nan(x): os._exit(0)")
    assert {path.name for path in tmp_path.iterdir()} <= {"faulty.py", "__pycache__"}


def test_progress_counts_every_law(tmp_path: Path) -> None:
    """Passed and failed; those of a dead worker too, by the next one's count."""
    seen: list[tuple[int, int]] = []
    file = tmp_path / "faulty.py"
    file.write_text(f"{GOOD}\ndef f(x):\n    if has_nan(x): os._exit(0)\n    return softmax(x)\n", "utf-8")
    run(Job(target=f"{file}:f", given={"arrays": "numpy"}, laws=LAWS, examples=20), lambda *pair: seen.append(pair))
    assert seen[-1] == (3, 3)


def test_the_same_seed_tries_the_same_inputs(tmp_path: Path) -> None:
    """So that a failure in somebody's suite can be had again."""
    line = "open('trace', 'a').write(x.tobytes().hex())"
    traces = []
    for _ in range(2):
        file = tmp_path / "faulty.py"
        file.write_text(
            f"{GOOD}\ndef f(x):\n    {line.replace('trace', str(tmp_path / 'trace'))}\n    return softmax(x)\n"
        )
        run(Job(target=f"{file}:f", given={"arrays": "numpy"}, laws=LAWS[:1], examples=20, seed=5))
        traces.append((tmp_path / "trace").read_text())
        (tmp_path / "trace").unlink()
    assert traces[0] == traces[1] and traces[0]
