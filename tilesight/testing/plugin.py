"""What pytest loads whenever it starts: two options, an ini option, and the fixture `kernel_time`.

Nothing but pytest is imported here; all that predicts is imported by tests that run with `--tilesight`.
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .kernel_time import KernelTime

FOLDER = "tilesight-baselines"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("tilesight", "predicted times of Triton kernels (tilesight)")
    group.addoption(
        "--tilesight",
        action="store_true",
        help="Run tests with the fixture kernel_time, which predicts kernels and needs no GPU; else they are skipped.",
    )
    group.addoption(
        "--tilesight-update",
        action="store_true",
        help="With --tilesight: write baselines, rather than compare with them.",
    )
    parser.addini("tilesight_baselines", f"Folder of baselines, from rootdir (default: {FOLDER}).", default=FOLDER)


def pytest_configure(config: pytest.Config) -> None:
    """Register what collects predictions, where they are asked for. Raises: UsageError: an option changes nothing."""
    if config.getoption("tilesight"):
        from .judgements import Session

        config.pluginmanager.register(Session(), "tilesight-session")
    elif config.getoption("tilesight_update"):
        raise pytest.UsageError("--tilesight-update: changes nothing without --tilesight; give both")


@pytest.fixture
def kernel_time(request: pytest.FixtureRequest) -> "KernelTime":
    """Predict the Triton kernels that a function launches, without a GPU; fail where they take too long.

    `kernel_time("bench/kernels.py:run", device="h100", at_most="120 us")`, or `kernel_time(run, baseline="softmax")`
    beside what `pytest --tilesight --tilesight-update` wrote. Needs `--tilesight`.
    """
    if not request.config.getoption("tilesight"):
        pytest.skip("predicts kernels, which takes its time: pytest --tilesight runs it")
    from .kernel_time import KernelTime

    return KernelTime(request.node, request.config)
