"""What the library of compiled kernels is made from: a digest of the sources that decide its numbers.

Comments, docstrings, layout, sources of numbers, and where a module lies decide nothing, so the digest leaves them out.
"""

import ast
import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

from ...simulator.problems.attention import AttentionProblem
from ...simulator.schedules.registry import all_schedules

HOUSE = Path(__file__).parents[2]
PATTERNS = {
    "simulator": (
        "core/engine/l1.py",
        "core/sm/*.py",
        "device/sm/*.toml",
        "launch/walk.py",
        "library/files.py",
        "library/keys.py",
        "limits.py",
        "residency/l1_reuse.py",
        "residency/occupancy.py",
        "residency/residency.py",
        "sass/*.py",
        "sass/*.toml",
        "schedules/*.py",
        "sm/*.py",
        "trace/*.py",
    ),
    "kernels": (
        "compile/cubin.py",
        "compile/disassemble.py",
        "compile/worker.py",
        "launch/launch.py",
        "numbers.py",
        "query_tile.py",
        *(f"{name}.py" for name, schedule in all_schedules().items() if schedule.problem is AttentionProblem),
    ),
}


def sources() -> list[Path]:
    """Files that decide what the library holds, in a stable order."""
    return [
        path
        for room, patterns in PATTERNS.items()
        for pattern in patterns
        for path in sorted((HOUSE / room).glob(pattern))
    ]


def digest() -> str:
    """Digest of the sources' meaning, in hexadecimal."""
    texts = [(path, path.read_text(encoding="utf-8")) for path in sources()]
    meanings = sorted(_meaning(text) if path.suffix == ".py" else _numbers(text) for path, text in texts)
    return hashlib.sha256("\0".join(meanings).encode()).hexdigest()


def _meaning(text: str) -> str:
    """A module without imports, docstrings, comments and layout."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [statement for statement in body if not _means_nothing(statement)] or [ast.Pass()]  # type: ignore[attr-defined]
    # Versions of Python quote f-strings differently.
    return ast.unparse(tree).translate(dict.fromkeys(map(ord, "'\"\\")))


def _numbers(text: str) -> str:
    """A TOML file without sources and comments."""
    return json.dumps(_unsourced(tomllib.loads(text)), sort_keys=True)


def _unsourced(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unsourced(inner) for key, inner in value.items() if key != "source"}
    return [_unsourced(inner) for inner in value] if isinstance(value, list) else value


def _means_nothing(statement: ast.stmt) -> bool:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, ast.Import | ast.ImportFrom)
