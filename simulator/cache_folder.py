"""Where answers are kept: in `$TILESIGHT_CACHE_DIR`, else `$XDG_CACHE_HOME/tilesight`, else `~/.cache/tilesight`."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where results are kept."""
    chosen = os.environ.get("TILESIGHT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    # A user without a home keeps a `~`, which would become a folder where the command runs.
    return Path(os.devnull if base.startswith("~") else base) / "tilesight"
