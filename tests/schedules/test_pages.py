"""The page of each schedule says what its docstring says."""

import sys
from pathlib import Path

import pytest
from schedules.contract import tables
from tilesight.simulator.schedules.contract import Schedule
from tilesight.simulator.schedules.registry import all_schedules

PAGES = Path(__file__).parents[2] / "docs" / "schedules"

every_schedule = pytest.mark.parametrize("schedule", all_schedules().values(), ids=lambda schedule: schedule.name)


@every_schedule
def test_the_tally_of_the_page_is_that_of_the_docstring(schedule: Schedule) -> None:
    """Row by row; pages of several launches name the launch first."""
    docstring = sys.modules[schedule.launches.__module__].__doc__ or ""
    expected = [
        f"| {launch} | {tensor} | {read} | {written} |" if launch else f"| {tensor} | {read} | {written} |"
        for launch, table in tables(docstring).items()
        for tensor, (read, written) in table.items()
    ]
    lines = (PAGES / f"{schedule.name}.md").read_text("utf-8").splitlines()
    tally = lines[lines.index("## Tally") :]
    lines = tally[: next((number for number, line in enumerate(tally[1:], 1) if line.startswith("## ")), None)]
    (rule,) = (number for number, line in enumerate(lines) if line.startswith("|---"))
    assert expected
    assert lines[rule + 1 : rule + 1 + len(expected) + 1] == [*expected, ""]


@every_schedule
def test_the_page_names_every_option(schedule: Schedule) -> None:
    """Or the schedule whose options it shares."""
    text = (PAGES / f"{schedule.name}.md").read_text("utf-8")
    assert all(f"`{option}" in text for option in schedule.options) or "those of `naive`" in text
