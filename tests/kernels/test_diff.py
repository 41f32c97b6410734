"""What a change does to a user's kernels: two files, or revisions of a repository in a temporary folder."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from house.farm import ROOT
from tilesight.kernels.launch.availability import missing_package
from users_file import DOUBLE

import tilesight
from tilesight.cli.main import main

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

RUN = """

def run():
    x = torch.empty({count}, device="cuda")
    double[({count} // 1024,)](x, torch.empty_like(x), {count}, BLOCK=1024{options})
"""
SMALL = DOUBLE + RUN.format(count=1 << 20, options="")
WARPS = DOUBLE + RUN.format(count=1 << 20, options=", num_warps=2")
COMMENT = SMALL.replace("    i = tl", "    # a comment\n    i = tl")


def git(folder: Path, *arguments: str) -> str:
    """What git says in a folder."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a user's file, which is the working folder."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "mine.py").write_text(SMALL, "utf-8")
    git(folder, "init", "-q")
    git(folder, "add", "mine.py")
    git(folder, "commit", "-q", "-m", "a kernel")
    monkeypatch.chdir(folder)
    return folder


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, object]:
    """What `tilesight diff --json` says."""
    assert main(["diff", *arguments, "--json"]) == code
    answered: dict[str, object] = json.loads(capsys.readouterr().out)
    return answered


def test_an_edited_comment_is_the_same_code_and_nothing_is_predicted(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines move, the digest of the code does not; the edited file stays as it is, and no worktree is left."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("predicted")

    monkeypatch.setattr("tilesight.diffing.sides.predict_kernels", never)
    (repository / "mine.py").write_text(COMMENT, "utf-8")
    same = answer(capsys, "HEAD:mine.py:run", "mine.py:run")
    assert same["same_code"] and same["verdict"] == "same" and same["change"] is None
    assert same["notes"] == ["mine.py: is read with changes that are not committed (1 file)"]
    assert (repository / "mine.py").read_text("utf-8") == COMMENT
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert main(["diff", "HEAD:mine.py:run", "mine.py:run", "--markdown"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line == "**Tilesight**: HEAD:mine.py:run against mine.py:run on h200: same code, 1 launch."


def test_a_side_is_predicted_once(
    repository: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same answer again, with nothing predicted; where a line moves, it is told where it stands now."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("predicted")

    monkeypatch.setenv("TILESIGHT_PREDICTIONS", str(tmp_path / "kept.sqlite"))
    (repository / "mine.py").write_text(WARPS, "utf-8")
    first = answer(capsys, "HEAD:mine.py:run", "mine.py:run")
    with monkeypatch.context() as patched:
        patched.setattr("tilesight.diffing.sides.predict_kernels", never)
        assert answer(capsys, "HEAD:mine.py:run", "mine.py:run") == first
    (repository / "mine.py").write_text(WARPS.replace("\n    tl.store(", "\n    # last\n    tl.store("), "utf-8")
    edited = answer(capsys, "HEAD:mine.py:run", "mine.py:run")
    (before,), (after,) = first["launches"], edited["launches"]  # type: ignore[misc]
    places = [{line["source"]: line["new_line"] for line in launch["lines"]} for launch in (before, after)]
    moved = next(source for source in places[0] if source.startswith("tl.store("))
    assert places[1][moved] == places[0][moved] + 1


def test_another_number_of_warps_is_other_code(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same work: both are predicted, and no verdict is given on what differs by less than the band."""
    (repository / "mine.py").write_text(WARPS, "utf-8")
    differs = answer(capsys, "HEAD:mine.py:run", "mine.py:run", "--fail-above", "0%")
    (launch,) = differs["launches"]  # type: ignore[misc]
    assert not launch["same_code"] and launch["verdict"] == differs["verdict"] == "cannot tell"
    assert launch["change"]["low"] < 1.0 < launch["change"]["high"]
    assert launch["executed"] and {line["source"] for line in launch["lines"]} & set(map(str.strip, WARPS.split("\n")))


def test_operations_of_torch_that_come_in_are_told(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The kernels stay the same code, and the answer says what runs beside them without a price."""
    (repository / "mine.py").write_text(SMALL.replace("](x, torch", "](x + 1, torch"), "utf-8")
    differs = answer(capsys, "HEAD:mine.py:run", "mine.py:run")
    assert differs["same_code"] and not differs["torch_operations"]["old"]  # type: ignore[index]
    (added,) = differs["torch_operations"]["new"]  # type: ignore[index]
    assert (added["name"], added["count"], added["bytes"]) == ("add", 1, 2 * 4 << 20)
    for option in ([], ["--markdown"]):
        main(["diff", "HEAD:mine.py:run", "mine.py:run", *option])
        assert "operations of torch differ, and are not predicted: none before, 1 add" in capsys.readouterr().out


def test_twice_the_bytes_take_twice_the_time(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A copy of 512 MB beside one of 256 MB: bound by memory, so by arithmetic 2x; 1 by the threshold, whole table."""
    for name, count in (("once", 1 << 25), ("twice", 1 << 26)):
        (repository / f"{name}.py").write_text(DOUBLE + RUN.format(count=count, options=""), "utf-8")
    slower = answer(capsys, "once.py:run", "twice.py:run", "--fail-above", "5%", code=1)
    change = slower["change"]
    assert slower["verdict"] == "slower" and change["ratio"] == pytest.approx(2.0, rel=0.05)  # type: ignore[index]
    (launch,) = slower["launches"]  # type: ignore[misc]
    before, after = launch["figures"]["hbm_bytes"]
    assert after == pytest.approx(2 * before, rel=0.1)
    assert all(new == 2 * old for old, new in launch["executed"].values())
    assert answer(capsys, "twice.py:run", "once.py:run", "--fail-above", "5%")["verdict"] == "faster"


def test_a_launch_that_vanishes_is_told(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A function that launches twice at a revision, and once now."""
    call = next(line for line in SMALL.splitlines() if "double[" in line)
    (repository / "mine.py").write_text(SMALL + call + "\n", "utf-8")
    git(repository, "commit", "-q", "-a", "-m", "twice")
    assert main(["diff", "HEAD:mine.py:run", "HEAD~1:mine.py:run"]) == 0
    text = capsys.readouterr().out
    assert "double: is launched by HEAD:mine.py:run alone" in text and "same code" in text


def test_modules_beside_the_file_are_those_of_the_revision(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel that the file imports: each side has its own."""
    (repository / "parts.py").write_text(DOUBLE, "utf-8")
    (repository / "mine.py").write_text("from parts import *\n" + RUN.format(count=1 << 20, options=""), "utf-8")
    git(repository, "add", "parts.py")
    git(repository, "commit", "-q", "-a", "-m", "two files")
    (repository / "parts.py").write_text(DOUBLE.replace("* 2", "* 3 + 1"), "utf-8")
    assert not answer(capsys, "HEAD:mine.py:run", "mine.py:run")["same_code"]


@pytest.mark.parametrize(
    ("old", "line"),
    [
        ("nothing:mine.py:run", "nothing:mine.py: no such revision 'nothing' in "),
        ("HEAD:other.py:run", "HEAD:other.py: no such file at that revision"),
        ("HEAD:mine.py:rum", "at HEAD: mine.py: function 'rum' is unknown: did you mean run?"),
        (
            "HEAD:mine:run",
            "'HEAD:mine:run': must be FILE.py:FUNCTION, REVISION:FILE.py:FUNCTION, FILE.toml or FILE.json",
        ),
        ("gone.py:run", "gone.py: no such file"),
        ("--output=x:mine.py:run", "No such option"),
    ],
)
def test_what_there_is_not_is_told_in_a_line(
    repository: Path, capsys: pytest.CaptureFixture[str], old: str, line: str
) -> None:
    """Exit 2, and nothing is left behind."""
    assert main(["diff", old, "mine.py:run"]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"tilesight: {line}") and said.err.count("\n") == 1
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_a_revision_needs_a_repository(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is in none, and a machine without git."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "mine.py").write_text(SMALL, "utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["diff", "HEAD:mine.py:run", "mine.py:run"]) == 2
    assert "is in no git repository" in capsys.readouterr().err
    monkeypatch.setenv("PATH", "")
    assert main(["diff", "HEAD:mine.py:run", "mine.py:run"]) == 2
    assert "git is not installed" in capsys.readouterr().err


def test_the_action_writes_a_comment_and_fails_by_the_threshold(repository: Path, tmp_path: Path) -> None:
    """Its script, as a runner gives it inputs; what cannot be answered fails the job, too."""
    script = textwrap.dedent((ROOT / "action.yml").read_text("utf-8").partition("run: |\n")[2])
    program = tmp_path / "bin" / "tilesight"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tilesight "$@"\n', "utf-8")
    program.chmod(0o755)
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    inputs = {"TARGET": "mine.py:run", "DEVICE": "h100", "RUNNER_TEMP": str(tmp_path), "PATH": path}

    def code_of(base: str, fail_above: str) -> int:
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            env=os.environ | files | inputs | {"BASE": base, "FAIL_ABOVE": fail_above},
            check=False,
        ).returncode

    assert code_of("HEAD", "5%") == 0
    said = "**Tilesight**: HEAD:mine.py:run against mine.py:run on h100-sxm: same code, 1 launch.\n"
    assert Path(files["GITHUB_STEP_SUMMARY"]).read_text("utf-8") == said
    comment, page = tmp_path / "tilesight-diff.md", tmp_path / "tilesight-diff.html"
    assert Path(files["GITHUB_OUTPUT"]).read_text("utf-8") == f"comment={comment}\npage={page}\n"
    assert comment.read_text("utf-8") == said and page.read_text("utf-8").startswith("<!")
    assert code_of("nothing", "5%") == 2 and "no answer" in comment.read_text("utf-8")
    (repository / "mine.py").write_text(DOUBLE + RUN.format(count=1 << 26, options=""), "utf-8")
    assert [code_of("HEAD", fail_above) for fail_above in ("5%", "")] == [1, 0]


def test_python_gives_the_same(repository: Path) -> None:
    """And an error of its kind, with the line that the command says."""
    difference = tilesight.diff("HEAD:mine.py:run", "mine.py:run")
    assert difference.same_code and difference.verdict == "same" and not difference.new.predicted
    for error, old, line in (
        (ValueError, "nothing:mine.py:run", "no such revision"),
        (ValueError, "HEAD:mine.py:rum", "at HEAD: mine.py: function 'rum' is unknown"),
        (ValueError, "gone.json", "cannot be read"),
    ):
        with pytest.raises(error, match=line):
            tilesight.diff(old, "mine.py:run")


@pytest.mark.parametrize("share", ["5", "-5%", "much"])
def test_a_threshold_is_a_share(share: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With its sign, so that nobody takes 5 for 5 times."""
    assert main(["diff", "a.py:run", "b.py:run", "--fail-above", share]) == 2
    assert "must be a share such as 5%" in capsys.readouterr().err
