"""What tests share: examples that no clock decides about, users' files, caches, a reason for each skipped GPU test."""

import os
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tilesight.simulator.cache_folder import cache_folder

# Processes of tests that have a cache of their own take the engine that is compiled already.
os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder() / "engine"))

# The same examples each time; `make test-random` draws others. Neither gives up what a slow machine takes long for.
settings.register_profile("house", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("random", settings.get_profile("house"), derandomize=False, print_blob=True)
settings.load_profile("house")


@pytest.fixture(autouse=True)
def _width_of_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are as wide as where nobody says how wide; processes of pytest-xdist are told 80 columns."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True)
def _no_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands answer however slow the machine is, and do not say what is under way meanwhile."""
    monkeypatch.setattr("tilesight.cli.limit.LIMIT_S", inf)
    monkeypatch.setattr("tilesight.cli.limit.ALL_LIMIT_S", inf)
    monkeypatch.setattr("tilesight.cli.limit.SHOW_AFTER_S", inf)


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is predicted is predicted anew, and nothing is written beside the user's own predictions."""
    monkeypatch.setenv("TILESIGHT_PREDICTIONS", "off")


@pytest.fixture(scope="session")
def _answers_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answers") / "kept.sqlite"


@pytest.fixture
def known_answers(_nothing_is_known: None, _answers_of_this_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another test has asked is not simulated again: for tests of how an answer is said, not of what it is."""
    monkeypatch.setenv("TILESIGHT_PREDICTIONS", str(_answers_of_this_run))


@pytest.fixture
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A user's file: what the module of the test has as `FILE`."""
    path = tmp_path / "mine.py"
    path.write_text(request.module.FILE, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def _compiled_in_this_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(scope="module")
def own_cache(_compiled_in_this_run: Path) -> Iterator[None]:
    """A cache of this run's own: what is tested is compiled, once for all who ask for this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILESIGHT_CACHE_DIR", str(_compiled_in_this_run))
        yield


def _why_no_gpu() -> str | None:
    """Why tests marked `gpu` cannot run here; None where they can."""
    try:
        import torch
        import triton  # noqa: F401
    except ImportError as error:
        return f"no {error.name}: install the gpu extra"
    if not torch.cuda.is_available():
        return "no CUDA GPU"
    if torch.cuda.get_device_capability() < (8, 0):
        return "the GPU is older than compute capability 8.0"
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked `gpu`, after `-m` has taken its pick, where there is no GPU to run it."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = _why_no_gpu() if marked else None
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))
