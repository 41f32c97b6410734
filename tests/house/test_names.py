"""Values are named for what they are: in the packages and in most tests none is `one`, `found`, `told` or the like."""

import ast
from collections.abc import Iterator

import pytest
from house import farm
from support.lab import LAB

VAGUE = frozenset({"one", "found", "told", "each", "own"})
"""Names that say nothing of a value; as words in texts they are welcome."""
ROOMS = (
    *("simulator", "kernels", "validate", "tilesight"),
    *("tests/benchmarks", "tests/closed_forms", "tests/house", "tests/laws", "tests/machine", "tests/planted"),
    *("tests/gpu", "tests/kernels", "tests/rooms", "tests/schedules", "tests/support"),
)
ELSEWHERE = LAB / "public"
"""Not held to it yet: launches of other people's kernels."""


def vague_names(text: str) -> Iterator[str]:
    """Vague names that a module gives: to variables, parameters, functions, classes, attributes and imports.

    A leading underscore changes nothing. Inside f-strings they count too.
    """
    for node in ast.walk(ast.parse(text)):
        for name in _given(node):
            if name.lstrip("_").lower() in VAGUE:
                yield name


def _given(node: ast.AST) -> list[str]:
    """Names that a node gives to something."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return [name]
        case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.ClassDef(name=name) | ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
            return [name]
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return names
    return []


def test_no_value_of_these_rooms_has_a_vague_name() -> None:
    """A reader learns from a name what the value is."""
    names_by_file = {}
    for path in sorted(path for room in ROOMS for path in (farm.ROOT / room).rglob("*.py")):
        if path.is_relative_to(ELSEWHERE):
            continue
        names_by_file[path.relative_to(farm.ROOT).as_posix()] = sorted(set(vague_names(path.read_text("utf-8"))))
    assert {place: names for place, names in names_by_file.items() if names} == {}
    assert len(names_by_file) > 200


@pytest.mark.parametrize(
    ("planted", "names"),
    [
        ("found = []\n", ["found"]),
        ("one, other = pair\n", ["one"]),
        ("names = [each.name for each in launches]\n", ["each"]),
        ("text = f'{max(one.end for one in rows)}'\n", ["one"]),
        ("def f(own: int, *, told: int) -> None:\n    pass\n", ["own", "told"]),
        ("key = lambda one: one.time_s\n", ["one"]),
        ("def _told() -> None:\n    pass\n", ["_told"]),
        ("class Found:\n    each: int\n", ["Found", "each"]),
        ("class A:\n    def __init__(self) -> None:\n        self._own = 1\n", ["_own"]),
        ("if found := match(text):\n    pass\n", ["found"]),
        ("with open(path) as told:\n    pass\n", ["told"]),
        ("match value:\n    case [one, *_]:\n        pass\n", ["one"]),
        ('def launch(row):\n    """Each one that was found."""\n    return {"found": row}\n', []),
        ("Check(found=1)\nprinted = answer.told\nfoundry = one_line(row)\n", []),
    ],
)
def test_a_planted_name_is_caught(planted: str, names: list[str]) -> None:
    """However it is given; texts, keys, names that others gave and longer names are no business of the rule."""
    assert sorted(vague_names(planted)) == names
