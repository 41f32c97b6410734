"""Compilers' answers on disk: whole or not at all, and where nothing can be written one line says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tilesight.kernels.compile import cache
from tilesight.kernels.compile.cache import read, triton_cache, write
from tilesight.simulator.cache_folder import cache_folder

NOWHERE = Path(os.devnull) / "folder"


@pytest.fixture(autouse=True)
def _forget() -> None:
    """Each test is told anew."""
    cache.warn_once.cache_clear()
    triton_cache.cache_clear()


def test_an_answer_comes_back_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    """Of two that write at once the last one wins, whole."""
    file = tmp_path / "new" / "key.json"
    write(file, {"registers": 1})
    write(file, {"registers": 2})
    assert read(file) == {"registers": 2}
    assert list(file.parent.iterdir()) == [file]


def test_an_answer_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the last moment others read what was there before."""
    file, seen = tmp_path / "key.json", []
    write(file, {"registers": 1})
    replace = Path.replace

    def last_moment(self: Path, target: Path) -> Path:
        seen.append(read(file))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", last_moment)
    write(file, {"registers": 2})
    assert seen == [{"registers": 1}]


def test_a_folder_that_cannot_be_written_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """In one line with the remedy; nothing is kept."""
    for key in ("a", "b"):
        write(NOWHERE / f"{key}.json", {})
        assert read(NOWHERE / f"{key}.json") is None
    (said,) = caplog.messages
    assert said.startswith(f"tilesight: {NOWHERE} cannot be written (Not a directory)")
    assert "TILESIGHT_CACHE_DIR" in said and "\n" not in said


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """And gets no folder called `~` where the command runs."""
    for name in ("TILESIGHT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert cache_folder() == Path(os.devnull) / "tilesight"


def test_triton_keeps_its_own_cache_where_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is set for it."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    assert triton_cache() == {}


def test_triton_gets_a_cache_until_the_process_ends(tmp_path: Path) -> None:
    """It compiles nothing without one."""
    code = "from tilesight.kernels.compile.cache import triton_cache; import os; (v,) = triton_cache().values();"
    code += "open(f'{v}/x', 'w').close(); print(v)"
    environment = os.environ | {"TRITON_CACHE_DIR": str(NOWHERE), "TMPDIR": str(tmp_path)}
    finished = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    folder = Path(finished.stdout.strip())
    assert folder.parent == tmp_path
    assert not folder.exists()
