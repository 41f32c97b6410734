"""Files whole or not at all, one line for whatever goes wrong, and readers that leave."""

import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tilesight.cli.main import main
from tilesight.cli.output import PLAIN_TEXT, progress, text_width

pytestmark = pytest.mark.usefixtures("known_answers")

SMALL = ("--batch", "1", "--heads", "2", "--seqlen", "200", "--head-dim", "32")
PINNED = ("--block-m", "32,64", "--block-n", "32", "--num-warps", "4", "--num-stages", "2")


@pytest.fixture(autouse=True)
def _compiled_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remark on compiling belongs to its own test."""
    monkeypatch.setattr("tilesight.simulator.engine.engine.is_compiled", lambda: True)


def test_bad_output_is_found_before_any_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after an hour of it."""

    def work(*_: object, **__: object) -> None:
        raise AssertionError("worked")

    monkeypatch.setattr("tilesight.simulator.simulate.predict_with_timeline", work)
    assert main(["simulate", *SMALL, "--trace", "no/such/folder/x"]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_file_without_permission_is_found_before_any_work(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Even where its folder would let it be replaced."""
    file = tmp_path / "locked.csv"
    file.touch(mode=0o400)
    assert main(["explore", *SMALL, "--csv", str(file)]) == 2
    assert "no permission" in capsys.readouterr().err


def test_failed_work_leaves_the_old_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no temporary file behind."""
    file = tmp_path / "out.html"
    file.write_text("old", "utf-8")

    def fail(*_: object) -> str:
        raise RuntimeError("no picture")

    monkeypatch.setattr("tilesight.simulator.report.html.explore_html", fail)
    assert main(["explore", *SMALL, *PINNED, "--html", str(file)]) == 1
    assert file.read_text("utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path: Path) -> None:
    """Replacing a file must not show."""
    file, link = tmp_path / "real.csv", tmp_path / "link.csv"
    file.touch()
    file.chmod(0o640)
    link.symlink_to(file)
    assert main(["explore", *SMALL, *PINNED, "--csv", str(link)]) == 0
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert file.stat().st_size > 0


def test_what_is_no_file_is_written_in_place() -> None:
    """Renaming over a device would be a disaster."""
    assert main(["explore", *SMALL, *PINNED, "--csv", os.devnull]) == 0
    assert not Path(os.devnull).is_file()


def test_an_unforeseen_error_is_one_line_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1, and how to see more."""

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of\nall things")

    monkeypatch.setattr("tilesight.simulator.simulate.predict", fail)
    assert main(["simulate", *SMALL]) == 1
    output = capsys.readouterr()
    assert output.err.count("\n") == 1
    assert "internal error: ZeroDivisionError: of all things" in output.err


def test_ctrl_c_is_no_traceback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 130."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilesight.simulator.simulate.predict", interrupt)
    assert main(["simulate", *SMALL]) == 130
    assert capsys.readouterr().err == "tilesight: interrupted\n"


def test_the_first_call_tells_that_it_compiles(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On stderr, before the wait."""
    monkeypatch.setenv("TILESIGHT_PREDICTIONS", str(tmp_path / "none"))
    monkeypatch.setattr("tilesight.simulator.engine.engine.is_compiled", lambda: False)
    assert main(["simulate", *SMALL]) == 0
    assert "compiling the engine" in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_traceback() -> None:
    """As when piped into head: quiet, with the code of a program that SIGPIPE ends; help too."""
    for arguments in (["devices", "h200", "--json"], ["simulate", "--help"]):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-P", "-m", "tilesight", *arguments]
        process = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
        os.close(writer)
        assert (process.returncode, process.stderr) == (141, b"")


def test_a_closed_stdout_is_one_line_and_a_closed_stderr_none() -> None:
    """And remarks never become data."""
    command = shlex.join([sys.executable, "-P", "-m", "tilesight", "devices", "h200"])
    closed = subprocess.run(f"{command} >&-", shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert closed.returncode == 1
    assert closed.stderr.startswith("tilesight: standard output is closed") and closed.stderr.count("\n") == 1
    bad = subprocess.run(f"{command} --no-such 2>&-", shell=True, stdout=subprocess.PIPE, text=True, check=False)
    assert (bad.returncode, bad.stdout) == (2, "")


def test_a_terminal_of_ascii_gets_ascii() -> None:
    """Rules and bars are drawn with what it has."""
    command = [sys.executable, "-P", "-m", "tilesight", "devices"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    printed = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True).stdout.decode("ascii")
    assert set(printed.splitlines()[1]) == {"-"}
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors=PLAIN_TEXT)
    stream.write("█░ 2 × 3 é")
    stream.flush()
    assert stream.buffer.getvalue() == rb"#. 2 x 3 \xe9"  # type: ignore[attr-defined]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_file_that_cannot_be_written_costs_neither_the_table_nor_other_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The line names option, file and reason, and says that the answer is there."""
    other = tmp_path / "x.png"
    compare = ["compare", "--seqlens", "128", "--schedule", "flash2", "--block-m", "64", *PINNED[2:]]
    for command in (["explore", *PINNED, "--plot", str(other)], [*compare, "--plot", str(other)]):
        shape = [part for part in SMALL if command[0] == "explore" or part not in ("--seqlen", "200")]
        assert main([*command, *shape, "--csv", "/dev/full"]) == 1
        printed = capsys.readouterr()
        assert printed.out.count("\n") > 5
        assert printed.err.splitlines()[-1] == (
            "tilesight: --csv '/dev/full': cannot be written (No space left on device);"
            " the answer is printed all the same"
        )
        assert other.read_bytes().startswith(b"\x89PNG")
        other.unlink()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_behind_stdout_costs_no_file(tmp_path: Path) -> None:
    """Nor does a reader that leaves."""
    file = tmp_path / "all.csv"
    command = [sys.executable, "-P", "-m", "tilesight", "explore", *SMALL, *PINNED, "--csv", str(file)]
    with open("/dev/full", "w") as full:
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert process.returncode == 1
    assert "standard output: cannot be written (No space left on device)" in process.stderr
    assert file.stat().st_size > 0


@pytest.mark.parametrize(("columns", "width"), [("77", 77), ("200", 200), ("", 120), ("wide", 120), ("1", 40)])
def test_redirected_output_is_as_wide_as_columns_says(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in other programs; 120 where it says nothing."""
    monkeypatch.setenv("COLUMNS", columns)
    assert text_width() == width
    assert capsys.readouterr().out == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_one_line() -> None:
    """Exit code 1."""
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-P", "-m", "tilesight", "devices", "h200"]
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert process.returncode == 1
    assert process.stderr.count("\n") == 1


def test_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stderr is no terminal: every 15 s, and none when the rest takes 5 s at most."""
    times_s = iter([0.0, 14.0, 16.0, 20.0, 96.0, 112.0])
    monkeypatch.setattr("tilesight.cli.output.monotonic", lambda: next(times_s))
    with progress("points") as tick:
        for done in (1, 10, 20, 90, 99):
            tick(done, 100)
    assert capsys.readouterr().err.splitlines() == [
        "tilesight: 10 of 100 points, about 20 s left",
        "tilesight: 90 of 100 points, about 9 s left",
    ]


def test_what_the_first_one_takes_says_nothing_of_the_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It compiles the engine: 129 configurations that take 17 s would be announced with 75 min."""
    times_s = iter([0.0, 35.0, 51.0])
    monkeypatch.setattr("tilesight.cli.output.monotonic", lambda: next(times_s))
    with progress("configurations") as tick:
        for done in (1, 65):
            tick(done, 129)
    assert capsys.readouterr().err.splitlines() == [
        "tilesight: 1 of 129 configurations",
        "tilesight: 65 of 129 configurations, about 16 s left",
    ]


def test_every_file_is_announced_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And a trace with where to open it."""
    files = {name: tmp_path / f"x.{name}" for name in ("csv", "html", "plot", "trace")}
    explored = [part for name in ("csv", "html", "plot") for part in (f"--{name}", str(files[name]))]
    assert main(["explore", *SMALL, *PINNED, *explored]) == 0
    announced = [f"tilesight: wrote {files[name]}" for name in ("csv", "html", "plot")]
    assert capsys.readouterr().err.splitlines() == announced
    assert main(["simulate", *SMALL, "--trace", str(files["trace"])]) == 0
    assert capsys.readouterr().err == f"tilesight: wrote {files['trace']}; open it at https://ui.perfetto.dev\n"
