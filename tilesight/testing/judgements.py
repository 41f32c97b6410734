"""What tests found, as processes of pytest-xdist hand it on, and the table of it that pytest shows below all tests."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

REPORTED = "tilesight"
"""Attribute of a report that holds predictions: pytest-xdist hands on all that are plain."""


class Session:
    """Collects what tests predict, in this process and in those of pytest-xdist."""

    def __init__(self) -> None:
        self._judgements: list[Judgement] = []

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, None]:
        """Put what the test has predicted so far into its report."""
        outcome = yield
        vars(outcome.get_result())[REPORTED] = item.stash.get(JUDGEMENTS, [])
        item.stash[JUDGEMENTS] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take it out again, where reports come together."""
        self._judgements += [Judgement(**values) for values in getattr(report, REPORTED, [])]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail where tests have written the same baseline."""
        if collisions(self._judgements) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        """Show all predictions."""
        if not self._judgements:
            return
        terminalreporter.section("predicted kernels")
        width = terminalreporter.config.get_terminal_writer().fullwidth
        terminalreporter.write_line(table_of(self._judgements, width))
        for note in dict.fromkeys(judgement.note for judgement in self._judgements if judgement.note):
            terminalreporter.write_line(f"Note     {note}")
        for line in collisions(self._judgements):
            terminalreporter.write_line(line, red=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A prediction, held against a limit or a baseline.

    Args:
        test: its node; function, device: names; time, bound: of all launches, and what binds the longest, for people;
        against: limit, or name of the baseline; verdict: in words.
        digest: of the file that was written; empty: none was. note: on the baseline.
    """

    test: str
    function: str
    device: str
    time: str
    bound: str
    against: str
    verdict: str
    digest: str = ""
    note: str = ""


JUDGEMENTS = pytest.StashKey[list[dict[str, Any]]]()
"""Where a test keeps them, until they are reported."""


def table_of(judgements: Sequence[Judgement], width: int) -> str:
    """A row for each. Args: width: characters at most."""
    from ..simulator.display.render import Column, table

    def cells(name: str) -> list[str]:
        return [str(getattr(judgement, name)) for judgement in judgements]

    columns = [
        Column("function", cells("function"), left=True),
        Column("device", cells("device"), left=True),
        Column("time", cells("time")),
        Column("bound by", cells("bound"), left=True, rank=1),
        Column("against", cells("against"), left=True),
        Column("verdict", cells("verdict"), left=True),
    ]
    return table(columns, width)


def collisions(judgements: Sequence[Judgement]) -> list[str]:
    """Baselines that several tests have written, another each, a line each."""
    written: dict[str, dict[str, str]] = {}
    for judgement in judgements:
        if judgement.digest:
            written.setdefault(judgement.against, {}).setdefault(judgement.digest, judgement.test)
    return [
        f"baseline {name!r}: is written by {' and by '.join(tests.values())}, for other kernels or devices: "
        "give each a name"
        for name, tests in written.items()
        if len(tests) > 1
    ]
