"""The seed of samples that are others every day, so that what is kept is gone through in time.

A failure names it; TILESIGHT_TEST_SEED=20261125 draws the sample of that day again.
"""

import os
from datetime import UTC, datetime


def todays_seed() -> int:
    """The day as a number, in UTC; or what TILESIGHT_TEST_SEED says."""
    return int(os.environ.get("TILESIGHT_TEST_SEED") or f"{datetime.now(UTC):%Y%m%d}")
