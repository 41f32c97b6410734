"""Python that pages show runs, and prints what stands below it."""

import re
from pathlib import Path
from typing import Any

import pytest
from house.farm import ROOT

from tilesight.compiling import why_not

PAGES = {
    "docs/closed-forms.md": "## Training",
    "docs/lesson.md": "# Lesson",
    "docs/python.md": "# From Python",
    "docs/resources.md": "## ",
}
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


def _blocks(page: str) -> list[tuple[str, str]]:
    """Programs of a page behind a heading, each with the output that it shows."""
    text = (ROOT / page).read_text("utf-8")
    return BLOCK.findall(text[text.index(PAGES[page]) :])


@pytest.mark.parametrize("page", PAGES)
def test_shown_programs_print_what_is_shown(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, as a reader types them; what compiles says why, where it cannot."""
    names: dict[str, Any] = {}
    blocks = _blocks(page)
    assert blocks
    for program, shown in blocks:
        if "compiler(" in program and why_not():
            with pytest.raises(RuntimeError, match=re.escape(str(why_not()))):
                exec(program, names)
            continue
        exec(program, names)
        assert capsys.readouterr().out == shown


def test_another_output_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """The check above fails where a page shows something else."""
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    shown = "# From Python\n```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    (tmp_path / "docs/python.md").write_text(shown, "utf-8")
    with pytest.raises(AssertionError):
        test_shown_programs_print_what_is_shown("docs/python.md", capsys)
