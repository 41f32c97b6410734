"""Answers of compilers on disk: one JSON file for each key.

They lie in `$TILESIGHT_CACHE_DIR`, else in `$XDG_CACHE_HOME/tilesight`, else in `~/.cache/tilesight`.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """Where results are kept."""
    chosen = os.environ.get("TILESIGHT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tilesight"


def read(path: Path) -> dict[str, Any] | None:
    """The answer in a file; None where there is none that is whole."""
    try:
        answer = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def write(path: Path, answer: dict[str, Any]) -> None:
    """Whole or not at all: other processes may be reading. A cache that cannot be written only costs time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False, encoding="utf-8") as file:
            json.dump(answer, file)
        Path(file.name).replace(path)
    except OSError:
        return
