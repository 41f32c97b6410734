"""The laws in a pytest suite of one's own: one line for a test of each law, or a fixture for all at once.

    from tilesight.softmax_laws.pytest import each_law

    test_my_softmax = each_law(my_softmax)

gives `test_my_softmax[oracle]`, `test_my_softmax[masked rows]` and so on; laws that do not apply are skipped with the
reason. With `pytest_plugins = ["tilesight.softmax_laws.pytest"]` in the top conftest.py, tests take a fixture:

    def test_my_softmax(softmax_laws):
        softmax_laws(my_softmax, masking="entries")

All runs in pytest's own process: what hangs or crashes takes it along, unlike with `tilesight check-softmax`.
Installing this package adds nothing to anybody's pytest by itself.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from .call.calls import Subject
from .checking import check
from .run.fit import fit
from .run.hunt import EXAMPLES, LAWS, Result, find_law, hunt
from .run.report import failures_text


def each_law(
    function: Callable[..., Any], *, examples: int = EXAMPLES, seed: int = 0, **given: Any
) -> Callable[[str], None]:
    """A test function with one case for each law.

    Args:
        function: softmax, attention or merge function, or streaming class.
        examples: inputs for each law; seed: of what is drawn; given: declarations, as for `check`.
    """

    @cache
    def subject() -> Subject:
        return fit(function, **given)

    @pytest.mark.parametrize("law", [law.name for law in LAWS])
    def test_law(law: str) -> None:
        """The law holds."""
        result = hunt(find_law(law), subject(), examples=examples, seed=seed)
        if result.outcome == "not applicable":
            pytest.skip(result.reason)
        if result.outcome == "failed":
            pytest.fail(failures_text([result], function, given), pytrace=False)

    return test_law


@pytest.fixture
def softmax_laws() -> Callable[..., list[Result]]:
    """A function that sees that all laws which apply hold for an implementation; see `tilesight.softmax_laws.check`."""
    return check
