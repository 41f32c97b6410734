"""What is in the tree and in the wheel: everything that belongs there, nothing that does not."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from house import farm

LONGEST_LINES = 350
TEXTS = {".cfg", ".ini", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}
TOP = (".ci", "docs", "tests", *farm.folders().values())
MACHINE_PATH = re.compile(r"(?<![\w.}])/(?:work|root|home|Users)/\w")
REGISTRY_HOST = re.compile(r"(?:pypi|pythonhosted|debian|npmjs|crates|anaconda)\.(?:org|com|io)\b")


def _files(suffixes: set[str], tops: tuple[str, ...] = TOP) -> list[Path]:
    files = [path for top in tops for path in (farm.ROOT / top).rglob("*") if "__pycache__" not in path.parts]
    files += [path for path in farm.ROOT.iterdir() if path.name != ".git"]
    return sorted(path for path in files if path.is_file() and path.suffix in suffixes)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the tree, unpacked."""
    root = farm.copy(farm.ROOT, tmp_path_factory.mktemp("tree"))
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("unpacked")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    finished = subprocess.run([*build, f"--wheel-dir={wheels}", str(root)], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (wheel,) = wheels.glob("tilesight-*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def test_the_wheel_holds_every_module_and_every_device(unpacked: Path) -> None:
    """Whatever Python, device or CUDA file is in the packages' folders is in the wheel, at the mapped place."""
    for package, folder in farm.folders().items():
        here = farm.ROOT / folder
        files = farm.files_of(farm.ROOT, folder)
        held = {path.relative_to(here) for path in files if path.suffix in (".py", ".toml", ".cu", ".xz")}
        there = unpacked / package.replace(".", "/")
        assert held - {path.relative_to(there) for path in there.rglob("*")} == set(), package


def test_the_wheel_holds_one_top_level_package_and_the_licence(unpacked: Path) -> None:
    """An install adds `tilesight` alone to site-packages, so bare `kernels` or `validate` overwrite nobody's module."""
    assert [path.name for path in unpacked.iterdir() if not path.name.endswith(".dist-info")] == ["tilesight"]
    assert len(list(unpacked.glob("*.dist-info/**/LICENSE"))) == 1


def test_the_installed_wheel_finds_its_devices(unpacked: Path) -> None:
    """The catalogue of an installed copy lists every device file of the tree."""
    code = "from tilesight.simulator.device import device; print(device.__file__, *device.catalogue())"
    file, *names = _python(code, unpacked).split()
    assert Path(file).is_relative_to(unpacked)
    assert names == sorted(path.stem for path in (farm.ROOT / "simulator" / "device" / "catalogue").glob("*.toml"))


def test_no_module_of_the_simulator_loads_torch_or_triton() -> None:
    """After importing all of the simulator, schedules included, neither is among the loaded modules."""
    code = (
        "import sys, pkgutil, importlib, tilesight.simulator as s\n"
        "names = [m.name for m in pkgutil.walk_packages(s.__path__, s.__name__ + '.')]\n"
        "[importlib.import_module(name) for name in names]\n"
        "print(len(names), *{'torch', 'triton'} & set(sys.modules))"
    )
    modules = [path for path in _files({".py"}, ("simulator",)) if path.name != "__init__.py"]
    count, *loaded = _python(code).split()
    assert int(count) >= len(modules)
    assert loaded == []


def _python(code: str, path: Path | None = None) -> str:
    environment = os.environ | ({"PYTHONPATH": str(path)} if path else {})
    finished = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def _undocumented(body: list[ast.stmt], inside: str) -> list[str]:
    missing = []
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            name = f"{inside}{node.name}"
            missing += [] if ast.get_docstring(node) else [name]
            missing += _undocumented(node.body, f"{name}.") if isinstance(node, ast.ClassDef) else []
    return missing


@pytest.mark.parametrize("folder", farm.folders().values())
def test_every_public_name_has_a_docstring(folder: str) -> None:
    """Modules, public classes, functions and methods of the packages say what they are for."""
    missing = []
    for path in (path for path in farm.files_of(farm.ROOT, folder) if path.suffix == ".py"):
        tree, name = ast.parse(path.read_text("utf-8")), str(path.relative_to(farm.ROOT))
        missing += [] if ast.get_docstring(tree) else [name]
        missing += _undocumented(tree.body, f"{name}: ")
    assert missing == []


def test_every_test_has_a_docstring_of_one_line() -> None:
    """A test's name is the fact, its docstring one line on what that means."""
    wrong = []
    for path in sorted((farm.ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                text = ast.get_docstring(node)
                wrong += [] if text and "\n" not in text else [f"{path.relative_to(farm.ROOT)}: {node.name}"]
    assert wrong == []


def test_no_python_file_is_long() -> None:
    """Above 300 lines a file holds a second idea that wants its own room."""
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in _files({".py"})}
    assert len(lengths) > 10
    assert {str(path.relative_to(farm.ROOT)): n for path, n in lengths.items() if n > LONGEST_LINES} == {}


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY_HOST], ids=["machine path", "registry host"])
def test_no_text_names_a_machine_or_a_registry(pattern: re.Pattern[str]) -> None:
    """The project speaks of itself: no path of anybody's machine, no package index."""
    lines = [
        f"{path.relative_to(farm.ROOT)}:{number}: {line.strip()}"
        for path in _files(TEXTS)
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert lines == []


@pytest.mark.parametrize(
    ("text", "pattern"),
    [("see /" + "root/x", MACHINE_PATH), ("cd /" + "work/x", MACHINE_PATH), ("https://py" + "pi.org/x", REGISTRY_HOST)],
)
def test_a_machine_path_or_a_registry_is_recognised(text: str, pattern: re.Pattern[str]) -> None:
    """The two patterns catch what they are meant to catch."""
    assert pattern.search(text)
