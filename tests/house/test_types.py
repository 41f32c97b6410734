"""The types hold in all four packages, and the checker really sees all four."""

import shutil
from pathlib import Path

from house import farm

PLANTED = '\n\ndef _planted() -> int:\n    """A mistake."""\n    return "no number"\n'
PLACES = ("simulator/units.py", "simulator/core/__init__.py", "kernels/__init__.py", "validate/__init__.py")
PLACES += ("tilesight/__init__.py",)


def test_types_hold_everywhere() -> None:
    """The type checker has nothing to say about the tree as it is."""
    finished = farm.run("types")
    assert finished.returncode == 0, finished.stdout


def test_planted_type_errors_are_caught(tmp_path: Path) -> None:
    """A text returned as a number, once in every package, is reported in each file that holds it."""
    root = farm.copy(farm.ROOT, tmp_path)
    for place in PLACES:
        with (root / place).open("a", encoding="utf-8") as file:
            file.write(PLANTED)
    known = tmp_path / ".mypy_cache"
    if (farm.ROOT / ".mypy_cache").exists():  # what the checker knows of all files that are as they were
        shutil.copytree(farm.ROOT / ".mypy_cache", known)
    verdict = farm.run("types", root, known).stdout
    wrong = [line for line in verdict.splitlines() if "Incompatible return value type" in line]
    names = {place if place.startswith("tilesight/") else f"tilesight/{place}" for place in PLACES}
    assert {line.partition(":")[0] for line in wrong} == names, verdict
