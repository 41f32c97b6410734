"""What is true of one schedule, that schedule says: no other module of the product knows it by name."""

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from house import farm
from tilesight.simulator.schedules.registry import all_schedules

ROOMS = ("simulator", "kernels", "validate", "tilesight")
FILES = (*(f"simulator/schedules/{room}{{}}.py" for room in ("", "backward/", "decode/")), "kernels/{}.py")
"""The files of a schedule."""
ALLOWED = {"simulator/schedules/registry.py": "DEFAULT_SCHEDULE"}
"""File -> the constant that holds the default."""


def names_in(text: str, names: Collection[str], constant: str = "") -> Iterator[str]:
    """Names of schedules that stand as words in strings of a module, docstrings apart. Args: constant: may hold one."""
    tree = ast.parse(text)
    apart = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [constant]:
            apart.add(id(node.value))
    word = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(names, key=len, reverse=True))})(?![\w-])")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart:
            yield from word.findall(node.value)


def own_words(path: str) -> set[str]:
    """Names that a schedule's files may hold: its own, and those of values of its options."""
    schedules = all_schedules().values()
    mine = [schedule for schedule in schedules if path in [file.format(schedule.name) for file in FILES]]
    values = {value for schedule in mine for option in schedule.options.values() for value in option.values}
    return {schedule.name for schedule in mine} | {value for value in values if isinstance(value, str)}


def known_by_name(root: Path) -> dict[str, set[str]]:
    """Module -> the names of other schedules that it holds."""
    known = {}
    for path in sorted(path for room in ROOMS for path in (root / room).rglob("*.py")):
        place = path.relative_to(root).as_posix()
        if place.startswith("validate/lab/"):
            continue
        held = set(names_in(path.read_text("utf-8"), list(all_schedules()), ALLOWED.get(place, "")))
        known[place] = held - own_words(place)
    return known


def test_no_module_knows_a_schedule_by_name() -> None:
    """But the schedule's own file, its kernel's, and the constant that holds the default."""
    known = known_by_name(farm.ROOT)
    assert {place: names for place, names in known.items() if names} == {}
    assert len(known) > 200


def test_the_only_name_outside_is_the_default() -> None:
    """Its constant holds the name of a schedule that there is, and only there."""
    for place, constant in ALLOWED.items():
        text = (farm.ROOT / place).read_text("utf-8")
        assert len(list(names_in(text, list(all_schedules())))) == 1
        assert list(names_in(text, list(all_schedules()), constant)) == []


@pytest.mark.parametrize(
    ("planted", "names"),
    [
        ('COLORS = {"flash1": "#009E73"}\n', ["flash1"]),
        ('if point.schedule != "naive":\n    pass\n', ["naive"]),
        ("def f(schedule: str = 'flash2') -> None:\n    pass\n", ["flash2"]),
        ('import_module("tilesight.kernels.online_softmax")\n', ["online_softmax"]),
        ('print(f"speedup over naive: {gain}")\n', ["naive"]),
        ('FILES = ("flash2_tma.py",)\n', ["flash2_tma"]),
        ('DEFAULT_SCHEDULE = "flash2"\nOTHER = "flash2"\n', ["flash2"]),
        ('"""As flash2 does."""\nDEFAULT_SCHEDULE = "flash2"\n', []),
        ('KERNEL = "naive_softmax"\nflash2 = None  # flash1\n', []),
    ],
)
def test_a_planted_name_is_caught(planted: str, names: list[str]) -> None:
    """In a table, a comparison, a default, a path or a text; docstrings, comments and longer words are no knowledge."""
    assert list(names_in(planted, list(all_schedules()), "DEFAULT_SCHEDULE")) == names


def test_a_schedule_may_name_itself_and_its_options_values() -> None:
    """And no other schedule."""
    assert own_words("simulator/schedules/flash1.py") == {"flash1", "q", "k"}
    assert own_words("kernels/online_softmax.py") >= {"online_softmax", "naive"}
    assert own_words("validate/points/sets.py") == set()
