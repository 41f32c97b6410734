"""The types hold in all four packages, and the checker really sees all four."""

import os
import re
import shutil
import subprocess
import sys
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


USE = """
from tilesight import AttentionProblem, simulate
from tilesight.softmax_laws import check

problem = AttentionProblem(batch=1, heads=1, seqlen_q=64, seqlen_k=64, head_dim=64)
reveal_type(simulate(problem).launches[0].bottleneck)
reveal_type(check)
simulate(problem, config=3)
"""


def test_a_users_checker_finds_the_types_of_an_editable_install(tmp_path: Path) -> None:
    """In an environment with nothing but the links that `make` lays beside it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    farm.lay_stubs(site)
    (tmp_path / "use.py").write_text(USE, "utf-8")
    command = ["-m", "mypy", "--strict", "--python-executable", str(tmp_path / "venv" / "bin" / "python"), "use.py"]
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "200"}
    said = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    ).stdout
    assert re.search(r'use.py:6: note: Revealed type is "(builtins\.)?str"', said), said
    assert "use.py:7: note: Revealed type is" in said and '"Any"' not in said, said
    assert 'use.py:8: error: Argument "config" to "simulate" has incompatible type "int"' in said, said


def test_make_lays_these_links() -> None:
    """Wherever it installs."""
    recipe = (farm.ROOT / "Makefile").read_text("utf-8").partition("$(VENV)/installed: ")[2].partition("\n\n")[0]
    assert "--editable" in recipe and "tests/house/farm.py stubs" in recipe
