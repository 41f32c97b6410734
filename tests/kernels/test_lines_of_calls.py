"""Source lines of machine code, whatever Triton's version."""

import pytest

pytest.importorskip("triton")

from tilesight.kernels.compile.worker import with_lines_of_calls

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
