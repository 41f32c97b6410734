"""Folders stay rooms: few modules in each, no prefix that does the work of a folder, and short lists of floors."""

import tomllib
from collections import Counter
from pathlib import Path

import pytest
from house import farm

MOST_MODULES = 16
MOST_ALIKE = 2
MOST_FLOORS = 12
MOST_IMPORTERS = 4
CONTRACTS = tomllib.loads((farm.ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]


def folders() -> list[Path]:
    """Every folder of the product that holds modules."""
    product = [path for folder in farm.folders().values() for path in farm.files_of(farm.ROOT, folder)]
    return sorted({path.parent for path in product if path.suffix == ".py"})


def modules(folder: Path) -> list[str]:
    """Names of a folder's modules."""
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("__"))


def alike(names: list[str]) -> list[str]:
    """Prefixes that more than two of these names begin with."""
    begins = Counter(name.partition("_")[0] for name in names)
    return [begin for begin, count in begins.items() if count > MOST_ALIKE]


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: str(folder.relative_to(farm.ROOT)))
def test_a_folder_holds_few_modules_and_says_what_for(folder: Path) -> None:
    """At most sixteen, no three of them named alike, and a docstring of one line."""
    names = modules(folder)
    assert len(names) <= MOST_MODULES
    assert alike(names) == []
    first = (folder / "__init__.py").read_text("utf-8").splitlines()[0]
    assert first.startswith('"""') and len(first) > len('"""x."""')


def test_a_prefix_that_stands_for_a_folder_is_seen() -> None:
    """Two that are named alike are let pass, three are not."""
    assert alike(["report", "report_html", "flash2"]) == []
    assert alike(["report_text", "report_html", "report_png", "flash2"]) == ["report"]


def test_the_list_of_floors_is_short() -> None:
    """One line a floor; and few rooms open the doors to the compiled loops."""
    layers = [contract["layers"] for contract in CONTRACTS if contract["type"] == "layers"]
    assert layers and all(len(floors) <= MOST_FLOORS for floors in layers)
    (doors,) = [contract["allowed_importers"] for contract in CONTRACTS if contract["type"] == "protected"]
    assert len(doors) <= MOST_IMPORTERS


def test_the_top_of_the_tree_is_what_it_should_be() -> None:
    """Three parts, their face, tests and docs; and findings about others' software."""
    folders_at_top = {path.name for path in farm.ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    assert folders_at_top - {"build"} == {"docs", "findings", "kernels", "simulator", "tests", "tilesight", "validate"}
