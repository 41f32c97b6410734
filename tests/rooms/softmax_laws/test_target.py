"""Targets: a module or a file, and a name in it; what cannot be found or imported is named in one line."""

import sys
from pathlib import Path

import pytest
from tilesight.softmax_laws.examples import softmax
from tilesight.softmax_laws.run.target import importing, load

EXAMPLES = "tilesight.softmax_laws.examples"


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Loading leaves traces in the interpreter's paths and modules."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.chdir(tmp_path)


def test_a_module_and_a_name_lead_to_a_function() -> None:
    """An installed module, and a name inside a class."""
    assert load(f"{EXAMPLES}:softmax") is softmax
    assert load(f"{EXAMPLES}:Stream.update").__name__ == "update"


def test_a_module_of_the_working_directory_is_found(tmp_path: Path) -> None:
    """As for `python -m`; a file is found without being one's package, and finds the modules beside it."""
    (tmp_path / "beside_it.py").write_text("number = 3\n", "utf-8")
    (tmp_path / "of_mine.py").write_text("import beside_it\ndef f(x): return beside_it.number\n", "utf-8")
    assert load("of_mine:f")(0) == 3
    sys.path.remove(str(tmp_path))
    assert load(str(tmp_path / "of_mine.py") + ":f")(0) == 3


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("softmax", "must be package.module:function or path/to/file.py:function"),
        ("a:b c", "must be package.module"),
        ("nowhere.py:f", "'nowhere.py': no such file"),
        ("no.such:f", "'no.such': no such module"),
        (f"{EXAMPLES}:sofmax", "has no sofmax; it has inner, ratio, log_sum_exp, softmax, Stream"),
        ("broken.py:f", "importing it raised SyntaxError"),
        ("lacks.py:f", "importing it raised ModuleNotFoundError: No module named 'not_there'"),
        ("lacks:f", "importing it raised ModuleNotFoundError: No module named 'not_there'"),
        ("leaves.py:f", "importing it raised SystemExit: 3"),
        ("empty.py:f", "empty.py has no f; it defines no function"),
    ],
)
def test_what_cannot_be_loaded_is_named(target: str, text: str, tmp_path: Path) -> None:
    """In one line, with what there is where the name is wrong."""
    (tmp_path / "broken.py").write_text("def f(x:\n", "utf-8")
    (tmp_path / "lacks.py").write_text("import not_there\n", "utf-8")
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)\n", "utf-8")
    (tmp_path / "empty.py").write_text("", "utf-8")
    with pytest.raises(ValueError) as caught:
        load(target)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_lines_that_import_a_target_do(tmp_path: Path) -> None:
    """They open every snippet."""
    (tmp_path / "of_mine.py").write_text("class A:\n    def f(x): return x\n", "utf-8")
    for target in (f"{EXAMPLES}:softmax", "of_mine.py:A", "of_mine:A.f"):
        lines, name = importing(target)
        space: dict[str, object] = {}
        exec(lines, space)
        assert eval(name, space).__name__ == target.split(":")[1].split(".")[-1]
