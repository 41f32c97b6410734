"""What the library of compiled kernels is made from: a digest of the sources that decide its numbers.

Comments, docstrings, layout, and where a module lies decide nothing, so the digest is of syntax trees without them.
"""

import ast
import hashlib
from pathlib import Path

HOUSE = Path(__file__).parents[2]
PATTERNS = {
    "simulator": (
        "core/engine/l1.py",
        "core/sm/*.py",
        "launch/walk.py",
        "library/files.py",
        "library/keys.py",
        "residency/l1_reuse.py",
        "residency/occupancy.py",
        "sass/*.py",
        "sass/*.toml",
        "schedules/*.py",
        "sm/*.py",
        "trace/*.py",
    ),
    "kernels": (
        "compile/worker.py",
        "flash*.py",
        "launch/launch.py",
        "naive.py",
        "numbers.py",
        "query_tile.py",
        "unfused.py",
    ),
}


def sources() -> list[Path]:
    """Files that decide what the library holds, in a stable order."""
    return [path for room, some in PATTERNS.items() for one in some for path in sorted((HOUSE / room).glob(one))]


def digest() -> str:
    """Digest of the sources' meaning, in hexadecimal."""
    texts = [(path, path.read_text(encoding="utf-8")) for path in sources()]
    meanings = sorted(_meaning(text) if path.suffix == ".py" else text for path, text in texts)
    return hashlib.sha256("\0".join(meanings).encode()).hexdigest()


def _meaning(text: str) -> str:
    """The syntax tree of a module, without imports, docstrings and the like."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [one for one in body if not _means_nothing(one)] or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _means_nothing(statement: ast.stmt) -> bool:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, ast.Import | ast.ImportFrom)
