"""A copy of the house in which a schedule and a GPU are planted: the files of `tests/planted`, and no other change."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from house import farm

PLANTED = Path(__file__).parents[1] / "planted"
PLACES = {
    "schedule.py": "simulator/schedules/streamed.py",
    "kernel.py": "kernels/streamed.py",
    "page.md": "docs/schedules/streamed.md",
    "toy-100.toml": "simulator/device/catalogue/toy-100.toml",
}
"""File -> where whoever adds it puts it."""


def plant(folder: Path) -> Path:
    """Copy product, tests and pages below a folder, and add the planted files. Returns: the copy's root."""
    root = farm.copy(farm.ROOT, folder / "house")
    for name in ("tests", "docs/schedules"):
        shutil.copytree(farm.ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "recorded"))
    for compiled in (farm.ROOT / "simulator").rglob("*.nb[ic]"):
        # The engine of the copy is the same; compiling it again would take most of a minute.
        cache = (root / compiled.relative_to(farm.ROOT)).parent
        cache.mkdir(exist_ok=True)
        shutil.copy2(compiled, cache)
    for file, place in PLACES.items():
        assert not (root / place).exists()
        shutil.copy(PLANTED / file, root / place)
    packages = folder / "packages"
    for package, inside in sorted(farm.folders(root).items()):
        link = packages / package.replace(".", "/")
        if package == "tilesight":
            link.mkdir(parents=True)
            for path in (root / inside).iterdir():
                (link / path.name).symlink_to(path)
        elif not link.exists():
            link.symlink_to(root / inside)
    return root


def run(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the copy, with its packages. Args: arguments: after `python -P`."""
    paths = (str(root.parent / "packages"), os.environ.get("PYTHONPATH", ""))
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=root,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "NO_COLOR": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def run_tests(root: Path, *arguments: str, **environment: str) -> None:
    """Run tests of the copy, and see that some ran and all passed."""
    finished = run(root, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments, **environment)
    assert finished.returncode == 0, finished.stdout + finished.stderr
