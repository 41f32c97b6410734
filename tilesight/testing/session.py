"""What goes on around the tests of `pytest --tilesight`: predictions are carried from them to a table below all."""

from collections.abc import Generator
from typing import Any

import pytest

from .judgements import JUDGEMENTS, Judgement, collisions, table_of

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
