"""Measurements of docs/lab/data, which are compressed."""

import json
import lzma
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "docs" / "lab" / "data"


def measured(name: str) -> Any:
    """What a file of measurements holds. Args: name: without `.json.xz`."""
    return json.loads(lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes()))
