"""What differs between versions of Triton, and does not reach an answer: source lines of loads, a warning."""

import warnings
from typing import Any

import pytest

pytest.importorskip("triton")

import torch
import triton
import triton.language as tl
from tilesight.kernels.compile.worker import keep_lines, with_lines_of_calls
from triton.backends.nvidia.compiler import CUDABackend

import tilesight

INSERTED = """\t.loc\t1 9 21                          // norm.py:9:21
\t// begin inline asm
\t.loc\t1 9 21                          // norm.py:9:21
\tmov.u32 %r1, 0x0;
\t.loc\t1 10 21                         // norm.py:10:21
\t@%p1 ld.global.v2.b32 { %r1, %r2 }, [ %rd1 + 0 ];

\t// end inline asm
\t.loc\t1 10 58                         // norm.py:10:58
\tadd.s64 \t%rd2, %rd5, %rd7;
"""


def test_what_is_inserted_as_ptx_has_the_line_of_its_call() -> None:
    """As Triton 3.9 writes a load: lines counted on within it go, others and all instructions stay."""
    lines = with_lines_of_calls(INSERTED + INSERTED).splitlines()
    assert [line.split()[2] for line in lines if ".loc" in line] == ["9", "10"] * 2
    others = [line for line in (INSERTED + INSERTED).splitlines() if ".loc" not in line]
    assert [line for line in lines if ".loc" not in line] == others


def test_a_compiler_assembles_ptx_with_lines_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Triton passes to its assembler, the rest as it is."""
    assembled: list[tuple[str, ...]] = []
    monkeypatch.setattr(CUDABackend, "make_cubin", lambda self, *given: assembled.append(given))
    keep_lines()
    CUDABackend.make_cubin(None, INSERTED, "metadata", "options", "capability")
    assert assembled == [(with_lines_of_calls(INSERTED), "metadata", "options", "capability")]


@triton.jit
def copied(X, Z, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(Z + i, tl.load(X + i))


def test_triton_may_warn_of_a_default_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As 3.9 does at each first launch: nothing is said before an answer."""
    packed = triton.JITFunction._pack_args

    def warning(*given: Any) -> Any:
        warnings.warn("TRITON_DEFAULT_FP_FUSION is unset: defaulting to FP fusion ENABLED", stacklevel=1)
        return packed(*given)

    monkeypatch.setattr(triton.JITFunction, "_pack_args", warning)
    with tilesight.capture("h200") as launches:
        x = torch.empty(1024, device="cuda")
        copied[(1,)](x, torch.empty_like(x), B=1024)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (row,) = tilesight.predict(launches).rows
    assert not row.refused
