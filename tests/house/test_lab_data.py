"""Data of the lab: of every file an index has what made it, what it holds, date, GPU, driver, versions and commit."""

import csv
import lzma
import re
import subprocess
from pathlib import Path

import pytest
from house.farm import ROOT
from support.lab import DATA

UNKNOWN, NONE = "not recorded", "-"
HOLDS = ("measured", "predicted", "predicted and measured")
HASHES = r"[0-9a-f]{7,8}( [0-9a-f]{7,8})*"


def _rows() -> list[dict[str, str]]:
    with (DATA / "INDEX.csv").open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def _text(path: Path) -> str:
    with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as text:
        return str(text.read())


def test_the_index_lists_every_file_once() -> None:
    """In the order of their names, and no other."""
    files = sorted(path.name for path in DATA.iterdir() if path.name != "INDEX.csv")
    assert [row["file"] for row in _rows()] == files


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row["file"])
def test_a_file_has_date_gpu_driver_versions_and_commit(row: dict[str, str]) -> None:
    """Those of its name and of its own header where these say it; what nobody wrote down is `not recorded`."""
    assert row["holds"] in HOLDS and row["date"] in row["file"]
    gpus = re.findall(r"\bh[12]00\b", row["file"])
    assert all(gpu.upper() in row["gpu"] for gpu in gpus) and re.search("H[12]00", row["gpu"])
    predicted = row["holds"] == "predicted"
    assert re.fullmatch(NONE if predicted else rf"\d+\.\d+\.\d+|{UNKNOWN}", row["driver"])
    assert re.fullmatch(NONE if predicted else rf"(torch|triton|CUDA) \d.*|{UNKNOWN}", row["versions"])
    assert re.fullmatch(rf"{HASHES}|{UNKNOWN}", row["commit"]) and re.fullmatch(HASHES, row["added"])
    if not predicted:
        text = _text(DATA / row["file"])
        for key, cell in (("driver", "driver"), ("torch", "versions"), ("triton", "versions"), ("cuda", "versions")):
            assert all(said in row[cell] for said in re.findall(rf'"{key}": *"([0-9][^"]*)"', text)[:1]), key


@pytest.mark.parametrize("program", sorted({row["program"] for row in _rows()}))
def test_what_made_a_file_is_there_or_in_history(program: str) -> None:
    """A command of Tilesight, a file of this tree, `FILE@COMMIT` of one that was deleted since, or not recorded."""
    place, _, commit = program.partition("@")
    if commit:
        if subprocess.run(["git", "cat-file", "-e", commit], cwd=ROOT, check=False, capture_output=True).returncode:
            pytest.skip("not a clone with all of its history")
        assert subprocess.run(["git", "cat-file", "-e", f"{commit}:{place}"], cwd=ROOT, check=False).returncode == 0
    else:
        assert place == UNKNOWN or place.startswith("tilesight ") or (ROOT / place).exists()


SHOWN = re.compile(
    r"^\| ([^|]+) \| ([0-9a-f]{8}) \| ([0-9a-f]{8}) \| (blind|one commit|measured first) \|$", re.MULTILINE
)


@pytest.mark.parametrize(
    "row", SHOWN.findall((ROOT / "docs" / "accuracy.md").read_text("utf-8")), ids=lambda row: row[0]
)
def test_what_is_called_blind_was_committed_before(row: tuple[str, str, str, str]) -> None:
    """Git has the predictions in an earlier commit than the measurements, or the page says that it has not."""
    _, predicted, measured, shown = row

    def before(first: str, second: str) -> bool:
        return (
            subprocess.run(["git", "merge-base", "--is-ancestor", first, second], cwd=ROOT, check=False).returncode == 0
        )

    if not before(predicted, "HEAD") or not before(measured, "HEAD"):
        pytest.skip("not a clone with all of its history")
    history = "one commit" if predicted == measured else "blind" if before(predicted, measured) else "measured first"
    assert shown == history
