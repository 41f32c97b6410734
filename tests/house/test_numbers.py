"""Numbers in the rooms that model a GPU: each says where it is from or why it is so, or stands in a device file."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
ROOMS = ("core", "engine", "sm")
PLAIN_ROOMS = ("engine", "sm")
"""Rooms whose functions, too, are held to it: those of the compiled loops number columns and bits."""
LEAST_WORDS = 3
OBVIOUS = frozenset({0, 1, 2, 0.5})
"""Numbers that need no name within a function: nothing, one, a pair, a half."""
SHAPED = frozenset({"zeros", "ones", "empty", "full", "reshape", "int"})
"""Calls whose numbers are extents of an array, or the base of a numeral."""


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


def bare_literals(text: str) -> Iterator[str]:
    """Lines within functions that hold a number which is not obvious.

    Numbers of columns, extents of arrays and texts are let pass.
    """
    lines = text.splitlines()
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef):
            numbers = {number for statement in function.body for number in literals(statement)}
            yield from (lines[number - 1].strip() for number in sorted(numbers))


def literals(node: ast.AST) -> Iterator[int]:
    """Lines of the numbers below a node that are not obvious."""
    match node:
        case ast.Constant(value=value, lineno=line) if isinstance(value, int | float) and value not in OBVIOUS:
            yield line
        case ast.Subscript(value=value):
            yield from literals(value)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in SHAPED:
            yield from literals(node.args[0]) if name == "int" else ()
        case ast.FunctionDef():
            return
        case _:
            for below in ast.iter_child_nodes(node):
                yield from literals(below)


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


def files(rooms: tuple[str, ...]) -> list[Path]:
    return [path for room in rooms for path in sorted((HOUSE / "simulator" / room).rglob("*.py"))]


def test_every_number_of_the_model_has_a_source_or_a_reason() -> None:
    """A number of a GPU belongs into simulator/device/sm/; one of the method says below it why it is as it is."""
    names_by_file = {str(path.relative_to(HOUSE)): list(bare_numbers(path.read_text("utf-8"))) for path in files(ROOMS)}
    assert {path: names for path, names in names_by_file.items() if names} == {}
    assert len(names_by_file) > 30


def test_no_function_holds_a_number_without_a_name() -> None:
    """A number with a name can be given a source."""
    lines_by_file = {
        str(path.relative_to(HOUSE)): list(bare_literals(path.read_text("utf-8"))) for path in files(PLAIN_ROOMS)
    }
    assert {path: lines for path, lines in lines_by_file.items() if lines} == {}
    assert len(lines_by_file) > 20


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


@pytest.mark.parametrize(
    ("line", "is_caught"),
    [
        ("instructions += read_bytes / 512", True),
        ("barriers += 4", True),
        ("workers, least_rows = num_warps, 16", True),
        ("return ROW_LANES * 10 * rows / 64", True),
        ("threads = -32 * warps[0]", True),
        ("half = 0.5 * (first + last) - 1", False),
        ("number, text = int(text, 16), 'of 4 warps'", False),
        ("table[3] = np.zeros((0, 4))", False),
    ],
)
def test_a_number_within_a_function_is_caught(line: str, is_caught: bool) -> None:
    """Wherever it is counted with; columns, extents and bases of numerals are none."""
    assert list(bare_literals(f"def f() -> None:\n    {line}\n")) == ([line] if is_caught else [])
