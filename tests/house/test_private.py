"""Tests go through public doors: what starts with an underscore is the business of its own module."""

import ast
from collections.abc import Iterator

import pytest
from house import farm

PRODUCT = "tilesight"


def private_names(text: str) -> Iterator[str]:
    """Names with an underscore that a test takes from the product: imported, or looked up in a module of it."""
    tree = ast.parse(text)
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _is_product(node.module):
            yield from (f"{node.module}.{alias.name}" for alias in node.names if _is_private(alias.name))
            yield from (node.module or "" for part in (node.module or "").split(".") if _is_private(part))
            modules |= {alias.asname or alias.name for alias in node.names if alias.name.islower()}
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _is_product(alias.name) and "._" in alias.name)
            modules |= {alias.asname for alias in node.names if alias.asname and _is_product(alias.name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield from [f"{node.value.id}.{node.attr}"] * _is_private(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            yield from _patched(node.args, modules)


def _patched(arguments: list[ast.expr], modules: set[str]) -> Iterator[str]:
    """The private name that `monkeypatch.setattr` puts another value in the place of, if it is one."""
    match arguments:
        case [ast.Name(id=module), ast.Constant(value=str(name)), *_] if module in modules and _is_private(name):
            yield f"{module}.{name}"
        case [ast.Constant(value=str(path)), *_] if _is_product(path) and "._" in path:
            yield path


def _is_product(module: str | None) -> bool:
    return module is not None and module.split(".")[0] == PRODUCT


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_no_test_takes_a_private_name_of_the_product() -> None:
    """A function worth a test of its own has a public name; all else is tested by what it is for."""
    files = sorted((farm.ROOT / "tests").rglob("*.py"))
    taken = {str(path.relative_to(farm.ROOT)): list(private_names(path.read_text("utf-8"))) for path in files}
    assert {path: names for path, names in taken.items() if names} == {}
    assert len(files) > 100


@pytest.mark.parametrize(
    ("planted", "names"),
    [
        ("from tilesight.simulator.sm.full_sm import _rate\n", ["tilesight.simulator.sm.full_sm._rate"]),
        ("from tilesight.simulator.sm import full_sm\nfull_sm._rate()\n", ["full_sm._rate"]),
        ("from tilesight.simulator.sm import full_sm as full\nfull._rate()\n", ["full._rate"]),
        ("import tilesight.simulator.sm.full_sm as full\nfull._rate()\n", ["full._rate"]),
        ("from tilesight.simulator._sm import rate\n", ["tilesight.simulator._sm"]),
        ("from tilesight.simulator.core import jit\nmonkeypatch.setattr(jit, '_told', [])\n", ["jit._told"]),
        ("monkeypatch.setattr('tilesight.simulator.core.jit._told', [])\n", ["tilesight.simulator.core.jit._told"]),
        ("from tilesight import __version__\n", []),
        ("from support import _toys\nfrom tilesight.simulator.sm import full_sm\nfull_sm.__name__\n", []),
        ("import numpy as np\nnp._globals\n", []),
    ],
)
def test_a_planted_private_name_is_caught(planted: str, names: list[str]) -> None:
    """Imported by itself, reached through its module or patched there, or from a private module."""
    assert list(private_names(planted)) == names
