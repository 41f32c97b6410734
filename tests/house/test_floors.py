"""Imports go one way, and the checker catches one that does not."""

import re
from pathlib import Path

import pytest
from house import farm

PACKAGES = "tilesight > validate > kernels > simulator"
INSIDE = "inside simulator only downwards"
PURE = "simulator imports neither torch nor triton"
DOOR = "only engine, residency, screening and sm open the doors to core"
APART = "closed_form and what simulates never import each other"

# Imports against the arrows: place, line, the contract that forbids it, how it says so. Those of a set hide none.
ABOVE = [
    ("simulator/units.py", "from .. import kernels", PACKAGES, "simulator.units -> tilesight.kernels (l"),
    ("simulator/units.py", "from .. import validate", PACKAGES, "simulator.units -> tilesight.validate (l"),
    ("simulator/units.py", "from ..cli import main", PACKAGES, "simulator.units -> tilesight.cli.main (l"),
    ("kernels/__init__.py", "from .. import validate", PACKAGES, "kernels -> tilesight.validate (l"),
    ("validate/__init__.py", "from ..cli import main", PACKAGES, "validate -> tilesight.cli.main (l"),
]
INSIDE_AND_OUT = [
    ("simulator/problems/attention.py", "from ..schedules.contract import Config", INSIDE, "> tilesight.simulator.sch"),
    ("simulator/schedules/flash2.py", "from ..engine import engine", INSIDE, "flash2 -> tilesight.simulator.engine"),
    ("simulator/core/__init__.py", "from .. import report", INSIDE, "core -> tilesight.simulator.report (l"),
    ("simulator/emulator/threads.py", "from ..trace.cta import given", INSIDE, "threads -> tilesight.simulator.trac"),
    ("simulator/new_room.py", "import math", INSIDE, "- tilesight.simulator.new_room"),
    ("simulator/schedules/tiles.py", "from .. import core", DOOR, "tiles -> tilesight.simulator.core (l"),
    (
        "simulator/closed_form/roofline.py",
        "from ..engine import lower",
        APART,
        "roofline -> tilesight.simulator.engine",
    ),
    (
        "simulator/engine/lower.py",
        "from ..closed_form import roofline",
        APART,
        "lower -> tilesight.simulator.closed_form",
    ),
    ("simulator/units.py", "import torch", PURE, "simulator.units -> torch (l"),
    ("simulator/schedules/flash2.py", "def _late():\n    import triton.language", PURE, "flash2 -> triton (l"),
]
CIRCLE = [("simulator/units.py", "from .device import device", "no circles inside a floor", "tilesight.simulator")]


def test_floors_hold() -> None:
    """Every contract of pyproject.toml is kept."""
    finished = farm.run("floors")
    assert finished.returncode == 0, finished.stdout


@pytest.mark.parametrize("planted", [ABOVE, INSIDE_AND_OUT, CIRCLE], ids=["above", "inside and out", "circle"])
def test_planted_imports_are_caught(planted: list[tuple[str, str, str, str]], tmp_path: Path) -> None:
    """Each import against the arrows is named by the contract that forbids it."""
    root = farm.copy(farm.ROOT, tmp_path)
    for place, line, _, _ in planted:
        with (root / place).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    finished = farm.run("floors", root)
    assert finished.returncode == 1, finished.stdout
    for place, line, contract, says in planted:
        assert says in _complaint(finished.stdout, contract), f"{place}: {line}\n{finished.stdout}"


def _complaint(report: str, contract: str) -> str:
    """What a report says of a contract that is broken; nothing of one that is kept."""
    match = re.search(rf"^{re.escape(contract)}.*\n-+\n\n((?:.*\n)*?)(?=.*\n-+\n|\Z)", report, re.MULTILINE)
    return match[1] if match else ""
