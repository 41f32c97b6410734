"""Where programs and data of the lab lie, and measurements of it, which are compressed."""

import json
import lzma
from pathlib import Path
from typing import Any

LAB, DATA = (Path(__file__).parents[2] / "validate" / folder for folder in ("lab", "data"))


def measured(name: str) -> Any:
    """What a file of measurements holds. Args: name: without `.json.xz`."""
    return json.loads(lzma.decompress((DATA / f"{name}.json.xz").read_bytes()))
