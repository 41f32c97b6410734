"""What tests of users' files share: the file itself, and a cache of compiled kernels that no other run has filled."""

from collections.abc import Iterator
from pathlib import Path

import pytest


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
