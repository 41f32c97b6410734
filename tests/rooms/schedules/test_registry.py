"""The registry: schedules are found by their files."""

import re
from pathlib import Path

import pytest
from tilesight.simulator import schedules
from tilesight.simulator.schedules.registry import all_schedules, find_schedule

SHARED = (
    "__init__",
    "config",
    "contract",
    "coverage",
    "rules",
    "launches",
    "options",
    "registry",
    "smaller",
    "tiles",
)


def test_every_file_is_a_schedule_of_the_same_name() -> None:
    """One file, one schedule, also in folders, beside what they share."""
    (folder,) = schedules.__path__
    files = sorted(file.stem for file in Path(folder).rglob("*.py") if file.stem not in SHARED)
    assert list(all_schedules()) == files
    assert {"flash1", "flash2", "naive", "unfused"} <= set(files)


def test_a_schedule_is_found_by_name() -> None:
    """The same object as in the registry."""
    assert find_schedule("flash2") is all_schedules()["flash2"]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """The message names what was asked for and what there is."""
    with pytest.raises(ValueError, match=re.escape("'flash9' is unknown: did you mean flash2, flash1")):
        find_schedule("flash9")


@pytest.mark.parametrize("schedule", all_schedules().values(), ids=lambda schedule: schedule.name)
def test_a_schedule_describes_itself_in_one_line(schedule) -> None:  # type: ignore[no-untyped-def]
    """Summary and source, for tables and help."""
    for text in (schedule.summary, schedule.source):
        assert text
        assert "\n" not in text
        assert len(text) <= 100
