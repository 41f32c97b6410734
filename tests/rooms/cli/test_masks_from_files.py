"""Masks and lengths from files: what they hold, and files that hold something else."""

from pathlib import Path

import numpy as np
import pytest
from tilesight.simulator.problems.pattern import pattern_of

from tilesight.cli.parse import mask_text, text_or_file


def test_blocks_and_documents_come_from_files_or_from_the_line(tmp_path: Path) -> None:
    """Rows of text, a matrix of NumPy, lengths; a line longer than any name of a file is no file."""
    rows, matrix, lengths = tmp_path / "rows.txt", tmp_path / "matrix.npy", tmp_path / "lengths.txt"
    rows.write_text("1 0 0\n1 1 0\n1 1 1\n")
    np.save(matrix, np.tri(3, dtype=bool))
    lengths.write_text("100\n28\n")
    for given in ("blocks:100/110/111", f"blocks:{rows}", f"blocks:{matrix}"):
        assert pattern_of(mask_text(given)).blocks == ("100", "110", "111")
    assert pattern_of(mask_text(f"documents:{lengths}")).lengths == (100, 28)
    assert text_or_file("lengths", "1," * 3000) == "1," * 3000
    assert mask_text("prefix:512") == "prefix:512"


def test_files_that_hold_no_blocks_are_refused_in_one_line(tmp_path: Path) -> None:
    """Bytes that are no text, a cube, a matrix of other numbers, none at all."""
    rubbish, cube, weights = tmp_path / "rubbish.txt", tmp_path / "cube.npy", tmp_path / "weights.npy"
    rubbish.write_bytes(b"\xff\xfe\x00")
    np.save(cube, np.ones((2, 2, 2)))
    np.save(weights, np.full((2, 2), 0.5))
    for file, text in (
        (rubbish, r"cannot be read \('utf-8' codec"),
        (cube, r"cannot be read \(holds float64 of shape \(2, 2, 2\): must be a matrix of 0 and 1"),
        (weights, r"must be a matrix of 0 and 1"),
        (tmp_path / "none.txt", r"there is no file"),
    ):
        with pytest.raises(ValueError, match=rf"^mask = .*{text}") as error:
            mask_text(f"blocks:{file}")
        assert "\n" not in str(error.value)
