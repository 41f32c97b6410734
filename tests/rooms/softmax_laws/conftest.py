"""Commands that run laws say how far they are every few seconds; how many that is depends on the machine."""

from math import inf

import pytest

from tilesight.cli import output


@pytest.fixture(autouse=True)
def _no_line_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests expect on stderr is what the command says at any speed."""
    monkeypatch.setattr(output, "SAY_PROGRESS_EVERY_S", inf)
