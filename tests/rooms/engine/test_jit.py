"""What is compiled is kept on disk, whole, for several processes at once; where it cannot be, one line says so."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from house import farm
from tilesight.simulator.core import jit
from tilesight.simulator.core.jit import SharedCacheFile

NOWHERE = f"{os.devnull}/home"
"""Below what is no folder nobody can make one, not even root."""


def kept(folder: Path, stamp: str = "today") -> SharedCacheFile:
    return SharedCacheFile(str(folder), "room.function-1.py311", stamp)


def test_code_is_kept_under_its_types(tmp_path: Path) -> None:
    """And comes back to another process, which has its own view of the folder."""
    kept(tmp_path).save("float", "float's code")
    kept(tmp_path).save("int", "int's code")
    assert [kept(tmp_path).load(key) for key in ("float", "int", "bool")] == ["float's code", "int's code", None]


def test_code_of_changed_files_is_not_taken(tmp_path: Path) -> None:
    """Nor left lying, once the new one is there."""
    kept(tmp_path).save("float", "old")
    assert kept(tmp_path, "tomorrow").load("float") is None
    kept(tmp_path, "tomorrow").save("float", "new")
    assert kept(tmp_path, "tomorrow").load("float") == "new"
    assert len(list(tmp_path.glob("*.nbc"))) == 1


@pytest.mark.parametrize("moment", ["_load_index", "_save_data", "_save_index"])
def test_two_first_runs_never_take_each_others_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Wherever the one is when the other saves: its code, or none and it is compiled anew."""
    writer, other = kept(tmp_path), kept(tmp_path)
    step = getattr(writer, moment)

    def interrupted(*given: Any) -> Any:
        done = step(*given) if moment == "_load_index" else None
        other.save("int", "int's code")
        return done if moment == "_load_index" else step(*given)

    monkeypatch.setattr(writer, moment, interrupted)
    monkeypatch.setattr(other, "_load_index", dict)  # it has looked before the one began
    writer.save("float", "float's code")
    assert kept(tmp_path).load("float") in ("float's code", None)
    assert kept(tmp_path).load("int") in ("int's code", None)
    for key in ("float", "int"):
        kept(tmp_path).save(key, f"{key}'s code")
    assert [kept(tmp_path).load(key) for key in ("float", "int")] == ["float's code", "int's code"]


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_file_is_compiled_anew(tmp_path: Path, suffix: str) -> None:
    """As a full disk or a pulled plug may leave it."""
    kept(tmp_path).save("float", "code")
    (file,) = tmp_path.glob(f"*.{suffix}")
    for damage in (b"", b"\x80\x05nonsense", file.read_bytes()[:-3]):
        file.write_bytes(damage)
        assert kept(tmp_path).load("float") is None
    kept(tmp_path).save("float", "code")
    assert kept(tmp_path).load("float") == "code"


COMPILED = (
    "import numpy\n"
    "from tilesight.simulator.core.engine.lru import insert, make_lru\n"
    "insert(make_lru(4, numpy.array([2])), 0, 1, 1, False)\n"
)


def test_installs_of_one_source_share_what_is_compiled(tmp_path: Path) -> None:
    """Nothing of it lies in the package, where an uninstall would leave a folder that hides another install."""
    cache, first, second = tmp_path / "cache", tmp_path / "first", tmp_path / "second"
    for install in (first, second):
        copied(install)
        environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(install)}
        _run(COMPILED, environment)
        assert not [*install.rglob("*.nbi")]
    (index,) = cache.rglob("*.nbi")
    assert index.stat().st_mtime_ns < (second / "tilesight").stat().st_ctime_ns


def test_code_of_few_sources_is_kept(tmp_path: Path) -> None:
    """Of those that were compiled last."""
    names = [f"{number}-numba-0.68.1" for number in range(9)]
    for number, name in enumerate(names):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (number, number))
    (tmp_path / "mine").mkdir()
    _run(COMPILED, os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)})
    left = {path.name for path in tmp_path.iterdir()}
    assert left & set(names) == set(names[-3:])
    assert "mine" in left and len(left) == 5


def copied(to: Path) -> None:
    """Copies the packages, without what Python has compiled."""
    for package, folder in farm.folders().items():
        if package.count(".") < 2:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(farm.ROOT / folder, to / package.replace(".", "/"), ignore=ignored, dirs_exist_ok=True)


@pytest.fixture
def unwritable(tmp_path: Path) -> dict[str, str]:
    """Variables for a run of an install whose folders nobody can write to, by a user without a home."""
    copied(tmp_path)
    for folder in [path for path in tmp_path.rglob("*") if path.is_dir()]:
        (folder / "__pycache__").touch()
    gone = {"NUMBA_CACHE_DIR", "TILESIGHT_CACHE_DIR", "XDG_CACHE_HOME"}
    kept = {name: value for name, value in os.environ.items() if name not in gone}
    return kept | {"HOME": NOWHERE, "PYTHONPATH": str(tmp_path)}


def _run(code: str, environment: dict[str, str]) -> tuple[str, str]:
    finished = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout, finished.stderr


def test_an_install_that_cannot_be_written_compiles_for_itself(unwritable: dict[str, str]) -> None:
    """Uncached, with one line on stderr; and the command does not promise that it is for once."""
    code = (
        "import numpy\n"
        "from tilesight.cli.output import announce_compiler\n"
        "from tilesight.simulator.core.engine.lru import USED, insert, make_lru\n"
        "announce_compiler()\n"
        "lru = make_lru(4, numpy.array([2]))\n"
        "insert(lru, 0, 1, 1, False)\n"
        "print(int(lru.lists[0, USED]))"
    )
    out, err = _run(code, unwritable)
    assert out == "1\n"
    assert err.count("\n") == 1
    assert err.startswith("tilesight: the compiled engine cannot be kept")
    assert "set TILESIGHT_CACHE_DIR to a folder" in err


def test_what_compiled_functions_call_is_compiled_and_kept_as_a_part_of_them_alone(tmp_path: Path) -> None:
    """Once for all numbers that it is called with; and Python can call it by itself, where that is asked for."""
    code = (
        "import numpy\n"
        "from numba.core import event\n"
        "made = []\n"
        "class Listener(event.Listener):\n"
        "    def on_start(self, event):\n"
        "        function = event.data['dispatcher'].py_func\n"
        "        if function.__module__.startswith('tilesight'): made.append((function.__name__, event.data['args']))\n"
        "    def on_end(self, event): pass\n"
        "event.register('numba:compile', Listener())\n"
        "from tilesight.simulator.core.engine.lru import USED, insert, is_present, make_lru\n"
        "lru = make_lru(4, numpy.array([2]))\n"
        "insert(lru, 0, 1, 1, False)\n"
        "print(int(lru.lists[0, USED]), len(made) == len(set(made)), 'Literal' in str(made))\n"
        "{more}"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for more, kept_names in (("", {"lru.insert"}), ("assert is_present(lru, 1)", {"lru.insert", "lru.is_present"})):
        out, _ = _run(code.format(more=more), environment)
        assert out == "1 True False\n"
        assert {path.name.split("-")[0] for path in tmp_path.rglob("*.nbi")} == kept_names


def test_a_folder_that_is_lost_costs_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the disk is full: what was compiled runs all the same, and one line says that it was not kept."""
    monkeypatch.setattr(jit, "WARNED", [])
    file = tmp_path / "file"
    file.touch()
    for key in ("float", "int"):
        kept(file).save(key, "code")
        assert kept(file).load(key) is None
    (said,) = caplog.messages
    assert f"{file} cannot be written (Not a directory)" in said
