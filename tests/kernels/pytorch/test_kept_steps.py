"""A recorded step is kept, and taken only while all that it was made of is as it was."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.kernels.pytorch.file import Recorded, WrittenStep, record_step
from tilesight.simulator.device.device import load_device
from tilesight.simulator.device.what_if import override

if missing_package():
    pytest.skip(str(missing_package()), allow_module_level=True)

H200 = load_device("h200")
STEP = """
import glob, os, torch
from helper import WIDTH
from package.part import HEIGHT

with open(os.path.join(os.path.dirname(__file__), "runs.txt"), "a") as runs:
    runs.write("run ")

def step():
    with open(os.path.join(os.path.dirname(__file__), "rows.txt")) as rows:
        count = int(rows.read())
    print("said by the step", len(glob.glob(os.path.join(os.path.dirname(__file__), "data", "*"))))
    count += int(os.environ.get("MORE_ROWS", "0"))
    return torch.zeros(count, HEIGHT, WIDTH, device="cuda") + 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, and a file of its own for what is kept."""
    monkeypatch.setenv("TILESIGHT_PREDICTIONS", str(tmp_path / "kept.sqlite"))
    made = tmp_path / "code"
    (made / "data").mkdir(parents=True)
    (made / "package").mkdir()
    for name, text in {
        "step.py": STEP,
        "helper.py": "WIDTH = 8",
        "rows.txt": "4",
        "package/part.py": "HEIGHT = 2",
    }.items():
        (made / name).write_text(text, encoding="utf-8")
    return made


def runs(folder: Path) -> int:
    """How often the user's file has run."""
    return len((folder / "runs.txt").read_text("utf-8").split())


def recorded(folder: Path, **options: object) -> Recorded:
    """What its step does."""
    return record_step(f"{folder}/step.py:step", H200, "h200", mode="eager", options=options)


def shape_of(made: Recorded) -> tuple[int, ...]:
    """Of what the step returns."""
    return made.step.operations[-1].outputs[0].shape


def test_a_step_is_recorded_once_and_comes_back_as_it_was(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Operations are equal, and what it prints is printed again; neither the time of a file nor a terminal matters."""
    first = recorded(folder)
    printed = capsys.readouterr().err
    os.utime(folder / "helper.py", (2e9, 2e9))
    (folder / "rows.txt").write_text("4", encoding="utf-8")
    (folder / "answer.json").write_text("{}", encoding="utf-8")
    monkeypatch.setenv("TERM", "another")
    again = recorded(folder)
    assert again == first and shape_of(first) == (4, 2, 8)
    assert printed == capsys.readouterr().err == "said by the step 0\n"
    assert runs(folder) == 1


def test_a_step_is_recorded_anew_when_something_that_it_is_made_of_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules that it imports, files that it reads or lists, variables, options, the device; each time once."""
    changes: dict[str, tuple[Callable[[], object], tuple[int, ...]]] = {
        "nothing": (lambda: None, (4, 2, 8)),
        "helper": (lambda: (folder / "helper.py").write_text("WIDTH = 16", encoding="utf-8"), (4, 2, 16)),
        "part": (lambda: (folder / "package/part.py").write_text("HEIGHT = 10 ", encoding="utf-8"), (4, 10, 16)),
        "data": (lambda: (folder / "rows.txt").write_text("6", encoding="utf-8"), (6, 10, 16)),
        "listed": (lambda: (folder / "data/new").write_text("", encoding="utf-8"), (6, 10, 16)),
        "variable": (lambda: monkeypatch.setenv("MORE_ROWS", "1"), (7, 10, 16)),
        "hidden": (lambda: (folder / "torch_tpu.py").write_text("", encoding="utf-8"), (7, 10, 16)),
    }
    for number, (change, shape) in enumerate(changes.values(), 1):
        change()
        assert (shape_of(recorded(folder)), shape_of(recorded(folder))) == (shape, shape)
        assert runs(folder) == number
    recorded(folder, indices="uniform")
    record_step(f"{folder}/step.py:step", override(H200, ["sms=100"]), "h200", settings=["sms=100"], mode="eager")
    assert runs(folder) == len(changes) + 2


def test_steps_that_do_not_end_and_where_nothing_is_kept_run_each_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a step raises may come from what nobody sees; TILESIGHT_PREDICTIONS=off keeps no recordings."""
    text = STEP.replace("    return", "    torch.ones(2, device='cuda')\n    raise OSError('no such host')\n    return")
    (folder / "step.py").write_text(text, encoding="utf-8")
    assert recorded(folder).step.ended == recorded(folder).step.ended != ""
    assert runs(folder) == 2
    (folder / "step.py").write_text(STEP, encoding="utf-8")
    monkeypatch.setenv("TILESIGHT_PREDICTIONS", "off")
    assert recorded(folder) == recorded(folder) and runs(folder) == 4


def test_a_step_that_is_written_for_a_question_goes_by_its_text(folder: Path) -> None:
    """It lies in another folder each time, which does not matter."""
    text = f"import sys\nsys.path.insert(0, {str(folder)!r})\nfrom other import step\n"
    (folder / "other.py").write_text(STEP, encoding="utf-8")
    steps = [WrittenStep(text=made, function="step") for made in (text, text, text + "\n")]
    made = [record_step(step, H200, "h200", mode="eager") for step in steps]
    assert made[0] == made[1] == made[2] and runs(folder) == 2


def test_a_step_that_asks_another_process_runs_each_time(folder: Path) -> None:
    """Nobody sees what that process reads."""
    text = STEP.replace("    return", "    import subprocess\n    subprocess.run(['true'])\n    return")
    (folder / "step.py").write_text(text, encoding="utf-8")
    assert recorded(folder) == recorded(folder) and runs(folder) == 2
