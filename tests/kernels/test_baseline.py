"""A prediction that is saved, and a later one beside it."""

import json
from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package
from users_file import DOUBLE

import tilesight
from tilesight.cli.main import main

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

RUN = (
    DOUBLE
    + """

def run():
    x = torch.empty({count}, device="cuda")
    double[({count} // 1024,)](x, torch.empty_like(x), {count}, BLOCK=1024)
"""
)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The saved prediction of a user's file, which has been edited since: four times the elements."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(RUN.format(count=1 << 22), "utf-8")
    assert main(["predict", "mine.py:run", "--save", "kept.json"]) == 0
    Path("same.py").write_text(RUN.format(count=1 << 22).replace("\n\ndef", "\n# a comment\n\ndef"), "utf-8")
    Path("mine.py").write_text(RUN.format(count=1 << 24), "utf-8")
    return Path("kept.json")


def other_model(kept: Path) -> None:
    """Let a file be of another version of the model, whose answers are 1 s."""
    saved = json.loads(kept.read_text("utf-8"))
    saved["model"], saved["program"] = "0123456789abcdef", "0.0.9"
    saved["side"]["launches"][0]["row"]["prediction"]["traffic"]["time_s"] = 1.0
    kept.write_text(json.dumps(saved), "utf-8")


def test_the_table_has_what_was_and_the_change(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Slower by the bytes; JSON has the difference, and the same code is called that."""
    capsys.readouterr()
    assert main(["predict", "mine.py:run", "--baseline", "kept.json"]) == 0
    text = capsys.readouterr().out
    (header,) = [line for line in text.splitlines() if line.startswith("launch")]
    assert header.split()[-7:] == ["time", "was", "change", "roofline", "bound", "by", "share"]
    assert "Baseline kept.json against mine.py:run on h200, L2 pipeline: slower" in text
    assert main(["predict", "mine.py:run", "--baseline", "kept.json", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["baseline"]["verdict"] == "slower"
    assert answer["baseline"]["change"]["new_s"] == answer["total"]["time_s"]
    assert main(["predict", "same.py:run", "--baseline", "kept.json"]) == 0
    assert "same code" in capsys.readouterr().out


def test_a_saved_side_is_compared_without_its_code(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`diff` takes the file in the place of a function, on either side."""
    assert main(["diff", "kept.json", "same.py:run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["same_code"]
    assert main(["diff", "mine.py:run", "kept.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "faster"


def test_another_model_is_refused_unless_predicted_anew(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says what to do; done, the launches that the file holds are those of the function."""
    other_model(kept)
    capsys.readouterr()
    for command in (["diff", "kept.json", "same.py:run"], ["predict", "same.py:run", "--baseline", "kept.json"]):
        assert main(command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "another version of the model (0123456789abcdef of tilesight 0.0.9" in line and "--repredict" in line
    assert main(["predict", "same.py:run", "--baseline", "kept.json", "--repredict", "--json"]) == 0
    change = json.loads(capsys.readouterr().out)["baseline"]
    assert change["same_code"] and change["launches"][0]["change"]["ratio"] == 1.0


def test_lines_that_are_predicted_anew_have_the_text_that_was_saved(kept: Path) -> None:
    """Whatever stands in the file today, and wherever it lies: the file holds no paths."""
    saved = json.loads(kept.read_text("utf-8"))["side"]["launches"][0]["lines"]
    Path("mine.py").write_text("\n".join("xyz"[number % 3] * number for number in range(99)), "utf-8")
    (launch,) = tilesight.diff("kept.json", "same.py:run", repredict=True).old.launches
    assert [(line.number, line.text) for line in launch.lines] == [(line["number"], line["text"]) for line in saved]
    assert any("tl.store" in line.text for line in launch.lines)


@pytest.mark.parametrize(
    ("content", "options", "line"),
    [
        ("{}", [], "is no file of predict --save"),
        ("no JSON", [], "is no file of predict --save"),
        (None, [], "cannot be read (No such file or directory)"),
        ("", ["--device", "h100"], "is of device h200 (asked for is h100-sxm)"),
        ("", ["--l2", "cold"], "is of --l2 pipeline (asked for is cold)"),
        ("", ["--set", "sms=100"], "is of --set nothing (asked for is sms=100)"),
    ],
)
def test_a_file_that_answers_something_else_is_refused(
    kept: Path, capsys: pytest.CaptureFixture[str], content: str | None, options: list[str], line: str
) -> None:
    """Exit 2, in one line. Args: content: of the file; empty: as it was saved, None: there is none."""
    if content is None:
        kept.unlink()
    elif content:
        kept.write_text(content, "utf-8")
    capsys.readouterr()
    assert main(["diff", "kept.json", "same.py:run", *options]) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--repredict"], "--repredict: changes nothing without --baseline"),
        (["--save", "a.json", "--sweep", "BLOCK=64"], "--save: not with --trace, --html or --sweep"),
        (["--save", "a.json", "--device", "h100,h200"], "--save 'a.json': shows one device"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything runs."""
    assert main(["predict", "mine.py:run", *options]) == 2
    assert line in capsys.readouterr().err
