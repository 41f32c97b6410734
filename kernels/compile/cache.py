"""Answers of compilers on disk: one JSON file for each key.

They lie in `simulator.cache_folder.cache_folder`.
Where that cannot be written, nothing is kept, which only costs time; a warning says so once.
"""

import atexit
import json
import logging
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

_LOG = logging.getLogger(__name__)


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
        with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as folder:
            whole = Path(folder) / path.name
            whole.write_text(json.dumps(answer), encoding="utf-8")
            whole.replace(path)
    except OSError as error:
        warn_once(path.parent, error.strerror)


@cache
def warn_once(folder: Path, why: str) -> None:
    """Say so, once for each folder."""
    _LOG.warning(
        "tilesight: %s cannot be written (%s), so kernels are compiled again in each run; "
        "set TILESIGHT_CACHE_DIR to a folder that can",
        folder,
        why,
    )


@cache
def triton_cache() -> dict[str, str]:
    """Variables that give Triton a cache until this process ends, where its own cannot be written.

    Triton compiles nothing without one.
    """
    home = os.environ.get("TRITON_HOME") or os.path.expanduser("~")
    folder = os.environ.get("TRITON_CACHE_DIR") or os.path.join(home, ".triton", "cache")
    try:
        os.makedirs(folder, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
        return {}
    except OSError:
        ours = tempfile.mkdtemp(prefix="tilesight-triton-")
        atexit.register(shutil.rmtree, ours, ignore_errors=True)
        return {"TRITON_CACHE_DIR": ours}
