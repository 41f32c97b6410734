"""A link farm: the tree as it looks once installed, for tools that do not know the `package-dir` mapping.

mypy and import-linter find packages by folder, and no folder here is called `tilesight/simulator`.
So they run in a temporary folder of links, laid out by the same table of pyproject.toml that the wheel is built from.

    python tests/house/farm.py types    mypy over all four packages
    python tests/house/farm.py floors   import-linter over all four packages
    python tests/house/farm.py stubs    links in this environment's site-packages, as `make` has them, by which a
                                        user's mypy finds the types of an editable install
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
CODE = {".py", ".pyi", ".typed"}
LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"
TOOLS = {
    "types": ("-m", "mypy", "--package=tilesight", "--config-file={root}/pyproject.toml", "--cache-dir={cache}"),
    "floors": ("-c", LINT_IMPORTS, "--no-logo", "--no-cache", "--config={root}/pyproject.toml"),
}


def folders(root: Path = ROOT) -> dict[str, str]:
    """Top-level packages and the folders that hold them, e.g. `tilesight.simulator` -> `simulator`."""
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    return dict(settings["tool"]["setuptools"]["package-dir"])


def files_of(root: Path, folder: str) -> list[Path]:
    """Files of a package's folder, without those of a package that has its place inside that folder, and of the lab."""
    inside = (*folders(root).values(), "validate/lab", "validate/data")
    nested = [root / other for other in inside if other.startswith(f"{folder}/")]
    files = sorted(path for path in (root / folder).rglob("*") if path.is_file())
    return [path for path in files if not any(path.is_relative_to(other) for other in nested)]


def lay_out(root: Path, farm: Path) -> None:
    """Fill the folder `farm` with links to the code below `root`, placed as after an install."""
    for package, folder in folders(root).items():
        for file in files_of(root, folder):
            if file.suffix in CODE:
                link = farm / package.replace(".", "/") / file.relative_to(root / folder)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(file)


def lay_stubs(site: Path, root: Path = ROOT) -> Path:
    """Fill `tilesight-stubs` in a folder of installed packages with links to the code below `root`.

    Python finds an editable install by a table that type checkers do not read; a stub package they find by its name
    (PEP 561). Folders are linked whole, so that a new module is found as well.
    """
    stubs = site / "tilesight-stubs"
    shutil.rmtree(stubs, ignore_errors=True)
    stubs.mkdir()
    places = {package.partition(".")[2]: root / folder for package, folder in folders(root).items()}
    top = places.pop("")
    places |= {path.name: path for path in top.iterdir() if path.name not in ("__init__.py", "__pycache__")}
    for name, place in {**places, "__init__.pyi": top / "__init__.py"}.items():
        (stubs / name).symlink_to(place)
    return stubs


def copy(root: Path, target: Path) -> Path:
    """Copy all that a wheel is built from to the folder `target`, to plant mistakes in. Returns: the copy's root."""
    tops = {folder.partition("/")[0] for folder in folders(root).values()}
    for name in [*sorted(tops), "pyproject.toml", "README.md", "LICENSE"]:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target / name)
    return target


def run(tool: str, root: Path = ROOT, cache: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `types` or `floors` over the tree at `root`, by the settings of its pyproject.toml.

    Returns:
        The finished process; its stdout holds all that the tool said.
    """
    arguments = [part.format(root=root, cache=cache or root / ".mypy_cache") for part in TOOLS[tool]]
    with TemporaryDirectory(prefix="tilesight-farm-") as farm:
        lay_out(root, Path(farm))
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=farm,
            env=os.environ | {"COLUMNS": "120", "NO_COLOR": "1"},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )


if __name__ == "__main__":
    if sys.argv[1] == "stubs":
        lay_stubs(Path(sysconfig.get_path("purelib")))
        sys.exit()
    finished = run(sys.argv[1])
    print(finished.stdout, end="")
    sys.exit(finished.returncode)
