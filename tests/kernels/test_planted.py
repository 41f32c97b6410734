"""The planted schedule's kernel touches what the schedule says, as every other does."""

from pathlib import Path

import pytest
from support.planted import plant, run_tests

pytest.importorskip("triton")


def test_the_planted_kernel_follows_its_schedule(tmp_path: Path) -> None:
    """Recorded in Triton's interpreter, CTA by CTA."""
    equality = "tests/kernels/interpreted/test_trace_equality.py"
    run_tests(plant(tmp_path), equality, "-k", "streamed", TRITON_INTERPRET="1")
