"""A function under another Python, or another Triton: environments are made of what is here, without a network."""

import json
import subprocess
import sys
import zipfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from types import ModuleType, SimpleNamespace

import pytest
from tilesight.kernels.compile.made_by import triton_version
from tilesight.kernels.compile.versions import versions
from tilesight.kernels.launch.availability import missing_package
from users_file import DOUBLE

import tilesight
from tilesight.cli.main import main
from tilesight.diffing.environments import made

pytestmark = pytest.mark.skipif(missing_package() is not None, reason=str(missing_package()))

RUN = """

def run():
    x = torch.empty(1 << 20, device="cuda")
    i = torch.arange(1 << 20, device="cuda", dtype=torch.int32)
    double[(1024,)](x, torch.empty_like(x), 1 << 20, BLOCK=1024)
    taken[(64,)](x, i, torch.empty_like(x), BLOCK=1024)
"""
TAKEN = """

@triton.jit
def taken(X, I, Y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(Y + i, tl.cumsum(tl.load(X + tl.load(I + i))))
"""
MINE = DOUBLE + TAKEN + RUN
STUB = """\
from pathlib import Path
__path__ = [{folder!r}]
__file__ = {folder!r} + "/__init__.py"
exec(compile(Path(__file__).read_text("utf-8"), __file__, "exec"))
"""


def folder_of(package: str) -> Path:
    """Where a package lies."""
    spec = find_spec(package)
    assert spec and spec.origin
    return Path(spec.origin).parent


def environment(folder: Path, *paths: Path) -> str:
    """A Python of its own, which has packages from some folders. Returns: its path."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "more.pth").write_text("".join(f"{path}\n" for path in paths), "utf-8")
    return str(folder / "bin/python")


def wheel(folder: Path, version: str, more: str = "") -> None:
    """A wheel of a Triton that is the one here under another version. Args: more: what it runs when imported."""
    folder.mkdir(exist_ok=True)
    text, info = STUB.format(folder=str(folder_of("triton"))) + more, f"triton-{version}.dist-info"
    with zipfile.ZipFile(folder / f"triton-{version}-py3-none-any.whl", "w") as file:
        file.writestr("triton/__init__.py", text)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: triton\nVersion: {version}\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/entry_points.txt", "[triton.backends]\nnvidia = triton.backends.nvidia\n")
        file.writestr(f"{info}/RECORD", "")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's file in the working folder, an empty cache, and an index that holds no package yet."""
    monkeypatch.setenv("TILESIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    (tmp_path / "mine.py").write_text(MINE, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_same_torch_and_triton_in_another_environment_make_the_same_code(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every launch, values of tensors included, though it has neither this program nor numpy; versions are told."""
    python = environment(folder / "other", folder_of("torch").parent)
    assert main(["diff", "mine.py:run", "mine.py:run", "--old-python", python, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["same_code"] and [launch["name"] for launch in answer["launches"]] == ["double", "taken"]
    old, new = (answer["environments"][side] for side in ("old", "new"))
    assert old == new and old["python"] == ".".join(map(str, sys.version_info[:3])) and old["ptxas"]
    assert main(["diff", "mine.py:run", "--new-python", python]) == 0
    said = " ".join(capsys.readouterr().out.split())
    name = f"mine.py:run (triton {old['triton']}, torch {old['torch']}, Python {old['python']})"
    assert said.startswith(f"{name} against {name} on h200: same code, 2 launches")


@pytest.mark.parametrize(
    ("get_ptxas", "versions_by_gpu"),
    [
        (
            "def get_ptxas(arch): return of['old' if arch < 90 else 'new']",
            {80: "12.9.86", 90: "13.4.59", 100: "13.4.59"},
        ),
        ("def get_ptxas(arch): return of['old' if arch < 100 else 'new']", {90: "12.9.86", 100: "13.4.59"}),
        ("def get_ptxas(): return of['old']", {90: "12.9.86", 100: "12.9.86"}),
    ],
    ids=["3.9", "3.6", "3.5"],
)
def test_the_assembler_is_the_one_that_triton_takes_for_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, get_ptxas: str, versions_by_gpu: dict[int, str]
) -> None:
    """Which it is has changed between its versions: Triton is asked."""
    of = {}
    for name, number in (("old", "12.9.86"), ("new", "13.4.59")):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\necho Cuda compilation tools, release {number[:4]}, V{number}\n", "utf-8")
        tool.chmod(0o755)
        of[name] = SimpleNamespace(path=str(tool))
    compiler = ModuleType("compiler")
    exec(get_ptxas, {"of": of}, vars(compiler))
    monkeypatch.setitem(sys.modules, "triton.backends.nvidia.compiler", compiler)
    assert {gpu: versions(gpu)["ptxas"] for gpu in versions_by_gpu} == versions_by_gpu


def test_a_side_has_the_libraries_of_its_environment(folder: Path) -> None:
    """A kernel that is imported: there is another one of that name, as on another branch of its library."""
    for name, text in (("here", DOUBLE), ("there", DOUBLE.replace("* 2", "* 3 + 1"))):
        (folder / name).mkdir()
        (folder / name / "parts.py").write_text(text, "utf-8")
    (folder / "mine.py").write_text(f"from parts import *\n{RUN.replace('    taken', '    # taken')}", "utf-8")
    old, new = (environment(folder / f"py-{at}", folder_of("torch").parent, folder / at) for at in ("here", "there"))
    assert not tilesight.diff("mine.py:run", "mine.py:run", old_python=old, new_python=new).same_code
    assert tilesight.diff("mine.py:run", "mine.py:run", old_python=old, new_python=old).same_code


def test_two_versions_of_triton_are_installed_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One is here, one comes from an index; where it refuses a line of a kernel, that launch is a refused row."""
    wheel(folder / "wheels", "3.8.77", "import triton.language\ndel triton.language.cumsum\n")
    present = triton_version()
    command = ["diff", "--triton", f"{present},3.8.77", "mine.py:run"]
    assert main(command) == 1
    said = capsys.readouterr()
    place = next((folder / "cache/environments").iterdir())
    assert said.err.startswith("tilesight: installing triton 3.8.77, once, ") and f"rm -r {place}" in said.err
    line = MINE[: MINE.index("tl.cumsum")].count("\n") + 1
    out = " ".join(said.out.split())
    assert f"Note taken: compiles with triton {present}, not with triton 3.8.77: kernel taken: Triton refuses" in out
    assert f"(mine.py:{line})" in out and "triton 3.8.77, torch" in out
    double, taken = (row.split() for row in said.out.splitlines() if row.startswith(("double  ", "taken  ")))
    assert "same code" in " ".join(double) and "refused" in taken
    assert made.python_with_triton("3.8.77", version("torch"), pytest.fail) == str(place / "bin/python")


def test_a_version_that_pip_does_not_find_is_told_in_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the nearest that exist; without any there is no network, or no index; nothing is left of the attempt."""
    present = triton_version()
    for line in (
        "pip finds no version of triton: is there a network, or an index that has it?",
        "pip finds no such version of triton; nearest are 3.5.0, 3.7.1, 3.9.0",
    ):
        assert main(["diff", "--triton", f"{present},3.8.5", "mine.py:run"]) == 2
        assert capsys.readouterr().err.splitlines()[-1] == f"tilesight: --triton 3.8.5: {line}"
        for known in ("3.4.0", "3.5.0", "3.7.1", "3.9.0"):
            wheel(folder / "wheels", known)
    assert not list((folder / "cache/environments").iterdir())


def test_an_environment_is_whole_or_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that make it at once share what the first made; what is interrupted leaves nothing."""

    def make(command: list[str]) -> subprocess.CompletedProcess[str]:
        if "venv" in command:
            environment(Path(command[-1]))
        elif interrupted:
            raise KeyboardInterrupt
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(made, "run_quietly", make)
    interrupted = True
    with pytest.raises(KeyboardInterrupt):
        made.python_with_triton("3.8.0", "2.13.0", lambda text: None)
    assert not list((folder / "cache/environments").iterdir())
    interrupted = False
    pythons: list[str] = []
    threads = [
        Thread(target=lambda: pythons.append(made.python_with_triton("3.8.0", "2.13.0", print))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (place,) = (folder / "cache/environments").iterdir()
    assert pythons == [str(place / "bin/python")] * 3 and Path(pythons[0]).exists()


def test_a_python_that_cannot_be_used_is_told_in_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, with what to do."""
    (folder / "lone").mkdir()
    (folder / "lone/triton").symlink_to(folder_of("triton"))
    empty, torchless = environment(folder / "empty"), environment(folder / "torchless", folder / "lone")
    for name, answer in (
        ("old", {"python": "3.10.4"}),
        ("older", {"python": "3.12.1", "torch": "2.7", "triton": "3.3.1", "ptxas": "", "compiler": "3.3.1"}),
        ("mute", None),
    ):
        (folder / name).write_text(f"#!/bin/sh\n{'' if answer is None else f'echo {json.dumps(json.dumps(answer))}'}\n")
        (folder / name).chmod(0o755)
    for python, line in (
        ("nowhere/python", "no such interpreter; give the path of a Python, e.g. .venv/bin/python"),
        ("empty", "is a folder; name the Python in it, e.g. empty/bin/python"),
        ("./mine.py", "is not executable; give the path of a Python, e.g. .venv/bin/python"),
        ("./mute", "is no Python that works (it says nothing)"),
        ("./old", "is Python 3.10.4: must be 3.11 or newer"),
        ("./older", "has triton 3.3.1: must be 3.4 to 3.9"),
        (empty, f"torch and triton are not installed there: {empty} -m pip install torch 'triton>=3.4,<3.10'"),
        (torchless, f"torch is not installed there: {torchless} -m pip install torch"),
    ):
        assert main(["diff", "mine.py:run", "mine.py:run", "--new-python", python]) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err == f"tilesight: --new-python {python!r}: {line}\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["mine.py:run"], "NEW is missing: name what OLD is compared with, or have OLD predicted twice"),
        (["mine.py:run", "--triton", "3.6.0"], "--triton '3.6.0': must be two versions as pip takes them, e.g. "),
        (["mine.py:run", "--triton", "3.6.0,3.6.0"], "--triton '3.6.0,3.6.0': names one version twice; name two"),
        (["mine.py:run", "--triton", "2.1.0,3.6.0"], "--triton '2.1.0,3.6.0': triton 2.1.0: must be 3.4 to 3.9"),
        (["a.json", "--triton", "3.6.0,3.7.1"], "--triton: 'a.json' was compiled when it was saved; name a function"),
        (["a.json", "mine.py:run", "--old-python", "x"], "--old-python 'x': 'a.json' was compiled when it was saved"),
        (["mine.py:run", "--triton", "3.6.0,3.7.1", "--old-python", "x"], "--triton and --old-python, --new-python: "),
    ],
)
def test_what_makes_no_sense_together_is_told(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is installed or run."""
    assert main(["diff", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"tilesight: {line}") and said.count("\n") == 1
