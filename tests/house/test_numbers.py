"""Numbers in the rooms that model a GPU: each says where it is from or why it is so, or stands in a device file."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
ROOMS = ("core", "engine", "sm")
LEAST_WORDS = 3


def bare_numbers(text: str) -> Iterator[str]:
    """Names of module constants that hold a number, and have no docstring of a few words right below.

    Names of columns and states, which are numbered 0, 1, 2, ... in one line, stand for no quantity.
    """
    body = ast.parse(text).body
    for statement, below in zip(body, [*body[1:], ast.Pass()], strict=True):
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        if not holds_number(statement.value) or is_numbering(statement.value) or words(below) >= LEAST_WORDS:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield " = ".join(ast.unparse(target) for target in targets)


def holds_number(node: ast.expr) -> bool:
    """Whether an expression is made of a number alone, or is a display with one in it."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.UnaryOp(operand=operand):
            return holds_number(operand)
        case ast.BinOp(left=left, right=right):
            return holds_number(left) and holds_number(right)
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            return any(holds_number(item) for item in items)
        case ast.Dict(values=items):
            return any(holds_number(item) for item in items)
        case ast.Call(func=ast.Name(id="frozenset" | "MappingProxyType"), args=items):
            return any(holds_number(item) for item in items)
    return False


def is_numbering(node: ast.expr) -> bool:
    """Whether it is the tuple 0, 1, 2, ..."""
    if not isinstance(node, ast.Tuple):
        return False
    values = [item.value for item in node.elts if isinstance(item, ast.Constant)]
    return values == list(range(len(node.elts))) and len(values) > 1


def words(statement: ast.stmt) -> int:
    """Words of a docstring; 0 of anything else."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return len(str(statement.value.value).split()) if is_text else 0  # type: ignore[attr-defined]


def files() -> list[Path]:
    return [path for room in ROOMS for path in sorted((HOUSE / "simulator" / room).rglob("*.py"))]


def test_every_number_of_the_model_has_a_source_or_a_reason() -> None:
    """A number of a GPU belongs into simulator/device/sm/; one of the method says below it why it is as it is."""
    names_by_file = {str(path.relative_to(HOUSE)): list(bare_numbers(path.read_text("utf-8"))) for path in files()}
    assert {path: names for path, names in names_by_file.items() if names} == {}
    assert len(names_by_file) > 30


@pytest.mark.parametrize(
    ("planted", "names"),
    [
        ("MATMUL_WAIT_CYCLES = 40.0\n", ["MATMUL_WAIT_CYCLES"]),
        ("A, B = 0.92, 1000.0\n", ["(A, B)"]),
        ("LIMIT: int = 1 << 20\n", ["LIMIT"]),
        ("SHARE = 1.0 - 1.0 / 5.2\n", ["SHARE"]),
        ("FIELDS = {'mma': 33.0}\n", ["FIELDS"]),
        ("FIELDS = MappingProxyType({'mma': 33.0})\n", ["FIELDS"]),
        ("OFF = -1\nB = 'text'\n", ["OFF"]),
        ("WAIT = 40.0\n# measured\n", ["WAIT"]),
        ('WAIT = 40.0\n"""Cycles."""\n', ["WAIT"]),
        ('WAIT = 40.0\nOTHER = 3.0\n"""Fitted on launches of seed 0."""\n', ["WAIT"]),
        ('WAIT = 40.0\n"""Fitted on launches of seed 0."""\n', []),
        ("KIND, PIPE, STALL = 0, 1, 2\n", []),
        ("NAMES = ('a', 'b')\nTRUE = True\n\ndef f() -> float:\n    return 3.0\n", []),
    ],
)
def test_a_planted_number_is_caught(planted: str, names: list[str]) -> None:
    """Alone, in a row, in a table or in an expression; a comment and a single word are no reason."""
    assert list(bare_numbers(f'"""A room."""\n\n{planted}')) == names
