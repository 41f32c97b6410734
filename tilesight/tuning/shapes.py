"""Shapes to tune for: values of a function's named arguments, one line each.

M=512, N=4096, K=4096
M=1024, N=4096, K=4096    # a remark
"""

import ast
from pathlib import Path
from typing import Any

ALLOWED = "NAME=VALUE, NAME=VALUE with numbers, texts in quotes, True, False or None"


def read_shapes(path: Path) -> tuple[dict[str, Any], ...]:
    """The shapes in a file. Raises: OSError; ValueError: a line is none, or there is none (one line)."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError("is no text") from None
    shapes: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        said = line.partition("#")[0].strip()
        if not said:
            continue
        shape = _shape(said, f"line {number}: {said!r}")
        if shape in shapes:
            raise ValueError(f"line {number}: {said!r}: stands there already; give it once")
        shapes.append(shape)
    if not shapes:
        raise ValueError(f"has no line such as {ALLOWED}")
    return tuple(shapes)


def _shape(text: str, where: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call) and not call.args
        names = [str(keyword.arg) for keyword in call.keywords if keyword.arg is not None]
        assert len(set(names)) == len(call.keywords)
        return {name: ast.literal_eval(keyword.value) for name, keyword in zip(names, call.keywords, strict=True)}
    except (SyntaxError, ValueError, AssertionError):
        raise ValueError(f"{where}: must be {ALLOWED}") from None
