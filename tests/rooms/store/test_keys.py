"""What names of answers are made of: the code that decides them, and no other."""

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tilesight.simulator.store.keys import ANSWERED_BY, ASKED_FROM, digest_of

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The packages that answer, to be changed."""
    folder = tmp_path_factory.mktemp("code")
    for package in ANSWERED_BY:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "*.xz", "*.npz"))
    return {package: folder / package for package in ANSWERED_BY}


@pytest.mark.parametrize(
    ("file", "decides"),
    [
        ("simulator/report/explore.py", False),
        ("simulator/report/kernels/text.py", False),
        ("simulator/explore/ranking.py", False),
        ("simulator/engine/engine.py", True),
        ("simulator/core/engine/lru.py", True),
        ("simulator/device/sm/sm_90.toml", True),
        ("simulator/advice/__init__.py", True),
        ("simulator/prediction/notes.py", True),
        ("kernels/flash2.py", True),
        ("kernels/compile/calls.py", True),
    ],
)
def test_only_what_decides_an_answer_drops_it(copies: dict[str, Path], file: str, decides: bool) -> None:
    """A word of a table changes no figure that is kept; a line of the engine may change all."""
    before, changed = digest_of(copies), next(iter(copies.values())).parent / file
    text = changed.read_bytes()
    changed.write_bytes(text + b"\n# another line\n")
    assert (digest_of(copies) != before) is decides
    changed.write_bytes(text)
    assert digest_of(copies) == before


def imported(file: Path) -> Iterator[str]:
    """Paths below the root of what a file imports, as far as it says so."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = file.parents[node.level - 1].relative_to(ROOT)
            named = folder.joinpath(*(node.module or "").split("."))
            yield from (named.as_posix(), *((named / alias.name).as_posix() for alias in node.names))


def test_what_decides_imports_nothing_that_is_left_out() -> None:
    """Else a change of it would be answered from before it."""
    files = [file for package in ANSWERED_BY for file in (ROOT / package).rglob("*.py")]
    inside = [file for file in files if file.relative_to(ROOT).as_posix().startswith(ASKED_FROM)]
    taken = {
        (file.relative_to(ROOT).as_posix(), path)
        for file in set(files) - set(inside)
        for path in imported(file)
        if path.startswith(ASKED_FROM)
    }
    assert taken == set() and len(inside) > 20
    assert any(path.startswith("simulator/engine") for file in files for path in imported(file))
