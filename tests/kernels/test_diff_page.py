"""`tilesight diff --html`: the page of two functions, and of one beside a file that was saved."""

import json
import re
from pathlib import Path

import pytest
from tilesight.kernels.launch.availability import missing_package
from tilesight.simulator import units
from users_file import DOUBLE

from tilesight.cli.main import main

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

OLD = (
    DOUBLE
    + """

def run():
    x = torch.empty(1 << 24, device="cuda")
    double[(1 << 14,)](x, torch.empty_like(x), 1 << 24, BLOCK=1024)
"""
)
NEW = (
    OLD.replace("    tl.store(", "    # twice\n    tl.store(")
    .replace(") * 2", ") * 2.5 + 1")
    .replace("1 << 24", "1 << 25")
)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both files in the working folder, and the time that pages tell."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1750000000")
    Path("old.py").write_text(OLD, "utf-8")
    Path("new.py").write_text(NEW, "utf-8")


def test_the_page_shows_what_json_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Both are given by one command: bytes of both sides, the band, and the line that was edited below a new one."""
    assert main(["diff", "old.py:run", "new.py:run", "--html", "page.html", "--json"]) == 0
    answer, page = json.loads(capsys.readouterr().out), Path("page.html").read_text("utf-8")
    change, (launch,) = answer["change"], answer["launches"]
    assert f"({change['ratio']:.2f}x; between {change['low']:.2f}x and {change['high']:.2f}x)" in page
    for side in ("old", "new"):
        picture = page[page.index(f'id="memory-1-{side}"') :].partition("</svg>")[0]
        assert f"bytes: {units.traffic(launch[side]['traffic']['hbm_read_bytes'])}" in picture
        assert f"<td>{launch[side]['registers_per_thread']}</td>" in page
    edited = [number for number, line in enumerate(OLD.splitlines(), 1) if "tl.store" in line]
    assert re.findall(r">~ (\d+)<", page) == [str(edited[0]), str(edited[0] + 1)]
    assert page.count(">+ ") == 1 and "# twice" in page


def test_a_saved_side_has_the_same_page(capsys: pytest.CaptureFixture[str]) -> None:
    """Pictures, figures and source, though the file that it comes from is gone; but for its name."""
    assert main(["diff", "old.py:run", "new.py:run", "--html", "page.html"]) == 0
    assert main(["predict", "old.py:run", "--save", "kept.json"]) == 0
    Path("old.py").unlink()
    assert main(["diff", "kept.json", "new.py:run", "--html", "kept.html"]) == 0
    pages = [Path(name).read_text("utf-8").partition("<footer>")[0] for name in ("page.html", "kept.html")]
    assert pages[0].replace("old.py:run", "kept.json") == pages[1]


def test_a_page_that_cannot_be_written_is_told_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """In one line."""
    assert main(["diff", "gone.py:run", "new.py:run", "--html", "no/page.html"]) == 2
    said = capsys.readouterr().err
    assert said == "tilesight: --html 'no/page.html': cannot be written (No such file or directory)\n"
