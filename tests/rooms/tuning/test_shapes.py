"""Shapes in a file: a line each, as arguments of a call."""

from pathlib import Path

import pytest

from tilesight.tuning.tune import read_shapes


def test_lines_are_arguments_and_remarks_are_none(tmp_path: Path) -> None:
    """Numbers, texts, truth values."""
    path = tmp_path / "shapes.txt"
    path.write_text("# sizes\nM=512, N=4096\n\nM=1, N=4096, name='a b', causal=True, eps=-1e-3  # decode\n")
    assert read_shapes(path) == (
        {"M": 512, "N": 4096},
        {"M": 1, "N": 4096, "name": "a b", "causal": True, "eps": -1e-3},
    )


@pytest.mark.parametrize("line", ["512", "M=512 N=4", "M=f(3)", "**{}", "M=", "M=512, M=3", "M==3"])
def test_a_line_that_is_none_is_told_by_number(tmp_path: Path, line: str) -> None:
    """Calls, names and repeats are no values."""
    path = tmp_path / "shapes.txt"
    path.write_text(f"M=1\n{line}\n")
    with pytest.raises(ValueError, match=r"^line 2: .*: must be NAME=VALUE, NAME=VALUE with numbers"):
        read_shapes(path)


def test_a_shape_twice_and_a_file_without_any_are_told(tmp_path: Path) -> None:
    """Both are mistakes of whoever wrote the file."""
    path = tmp_path / "shapes.txt"
    path.write_text("M=1\nM = 1\n")
    with pytest.raises(ValueError, match="line 2: 'M = 1': stands there already"):
        read_shapes(path)
    path.write_text("# none\n")
    with pytest.raises(ValueError, match="has no line such as"):
        read_shapes(path)
