"""The version of the kernel driver, read without a GPU library."""

import re
from pathlib import Path


def driver_version() -> str:
    """Version of the kernel driver, e.g. `580.159.04`; empty where unknown."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return ""
    match = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", text)
    return match[1] if match else ""
