"""The files that commands write: a table, a page, a picture, a timeline."""

import csv
import gzip
import html
import io
import json
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tilesight import __version__
from tilesight.cli.main import main

pytestmark = pytest.mark.usefixtures("known_answers")

SMALL = ("--batch", "1", "--heads", "2", "--seqlen", "200", "--head-dim", "32")
PINNED = ("--block-m", "32,64", "--block-n", "32", "--num-warps", "4", "--num-stages", "2")


def test_a_timeline_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A slice for every CTA; compressed where the name asks for it."""
    file, packed = tmp_path / "trace.json", tmp_path / "trace.json.gz"
    assert main(["simulate", *SMALL, "--trace", str(file)]) == 0
    events = json.loads(file.read_text("utf-8"))["traceEvents"]
    assert sum(event["ph"] == "X" and "CTA" in event["args"] for event in events) == 4
    assert str(file) in capsys.readouterr().err
    assert main(["simulate", *SMALL, "--trace", str(packed)]) == 0
    assert gzip.decompress(packed.read_bytes()) == file.read_bytes()


def test_a_timeline_changes_no_figure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of a grid that is continued from a steady state as well; with --full the figures are those of the timeline."""
    large = ("--batch", "64", "--heads", "16", "--seqlen", "512", "--set", "sms=8", "--cost", "tiles")
    file, printed = tmp_path / "trace.json", []
    for more in ([], ["--trace", str(file)], ["--full"], ["--full", "--trace", str(file)]):
        assert main(["simulate", *large, *more]) == 0
        printed.append(capsys.readouterr())
    plain, traced, full, full_traced = (output.out for output in printed)
    assert "extrapolated from its steady state" in plain
    assert traced == plain != full == full_traced
    assert "the trace steps through every CTA and ends at" in printed[1].err and "extrapolate" not in printed[3].err
    events = json.loads(file.read_text("utf-8"))["traceEvents"]
    assert sum(event["ph"] == "X" and "CTA" in event["args"] for event in events) == 64 * 16 * 4


def test_a_timeline_shows_as_many_sms_as_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The first ones; and as many as fit says a line, where nobody asked."""
    file = tmp_path / "trace.json"
    assert main(["simulate", *SMALL, "--trace", str(file), "--trace-sms", "2"]) == 0
    document = json.loads(file.read_text("utf-8"))
    names = [event["args"]["name"] for event in document["traceEvents"] if event["name"] == "process_name"]
    assert names[1:] == ["SM 0", "SM 1"]
    assert document["otherData"] == {"SMs shown": "2 of 4"}
    assert main(["simulate", *SMALL, "--trace", str(file), "--trace-sms", "133"]) == 2
    assert "--trace-sms = 133: must be from 1 to the 132 SMs of h200" in capsys.readouterr().err


def test_a_large_timeline_says_what_it_leaves_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many SMs it shows, why, and what shows more."""
    monkeypatch.setattr("tilesight.simulator.report.perfetto.MOST_BYTES", 3500)
    assert main(["simulate", *SMALL, "--trace", str(tmp_path / "trace.json")]) == 0
    match = re.search(
        r"the trace shows CTAs of (\d) of 4 SMs, .*; simulate --trace-sms asks for more", capsys.readouterr().err
    )
    assert match and 1 <= int(match[1]) < 4


def test_explore_writes_its_files(tmp_path: Path) -> None:
    """Those asked for and no others."""
    files = {name: tmp_path / f"out.{name}" for name in ("csv", "html", "png")}
    options = ["--csv", str(files["csv"]), "--html", str(files["html"]), "--plot", str(files["png"])]
    assert main(["explore", *SMALL, *PINNED, *options]) == 0
    assert len(list(csv.DictReader(io.StringIO(files["csv"].read_text("utf-8"))))) == 2
    assert files["html"].read_text("utf-8").startswith("<!DOCTYPE html>")
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "out.html", "out.png"]


def test_a_report_tells_the_command_that_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quoted for a shell, with version and date; the same every time where the date is told."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    file = tmp_path / "a report.html"
    pages = []
    for _ in range(2):
        assert main(["explore", *SMALL, *PINNED, "--html", str(file)]) == 0
        pages.append(file.read_text("utf-8"))
    assert pages[0] == pages[1]
    foot = html.unescape(pages[0][pages[0].index("<footer>") :])
    assert f"<code>{shlex.join(['tilesight', 'explore', *SMALL, *PINNED, '--html', str(file)])}</code>" in foot
    assert "<dd>1970-01-02T00:00:00+00:00</dd>" in foot
    assert f"<dd>Tilesight {__version__}</dd>" in foot
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    before = datetime.now(UTC).replace(microsecond=0)
    assert main(["explore", *SMALL, *PINNED, "--html", str(file)]) == 0
    (date,) = re.findall(r"<dt>date</dt><dd>([^<]*)</dd>", file.read_text("utf-8"))
    assert before <= datetime.fromisoformat(date) <= datetime.now(UTC)
