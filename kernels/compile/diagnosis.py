"""Why a kernel does not compile, in one line: from what Triton and its compiler print, which is in words of their own.

Source: what MLIR and LLVM print on stderr with Triton 3.6: `FILE:LINE:COLUMN: error: TEXT`, ``Pipeline failed while
executing [`PASS` on 'builtin.module' operation, ...]``, `Assertion ... failed`, `Cannot select: intrinsic %NAME`.
What is advised where `warp_specialize=True` is the cause was tried for sm_90 and sm_100: each of it compiles there.
"""

import re
from collections.abc import Mapping
from typing import Any

from .ttir import line_of

DIAGNOSTIC = re.compile(r'^(?:.*[/(" ])?([^/\s:"]+\.py)"?:(\d+):\d+\)?: error: (.*)$', re.M)
EMPTY = "Failures have been detected while processing an MLIR pass pipeline"
"""What every failed pipeline says last."""
PIPELINE = re.compile(r"Pipeline failed while executing \[(.*?)\]:? ", re.S)
PASS = re.compile(r"`([^`]+)`")
ASSERTION = re.compile(r"([\w.]+\.(?:cpp|h)):(\d+): .*?Assertion `(.*?)' failed")
INTRINSIC = re.compile(r"Cannot select: intrinsic %llvm\.nvvm\.([\w.]+)")
SPECIALISED = re.compile(r"\{[^{}]*tt\.warp_specialize\b[^{}]*\} loc\((#loc\d*)\)")
SPECIALISING = re.compile("[Ss]pecializ|WS")
"""In the name of a pass that has to do with `warp_specialize=True`."""
LONGEST = 300


def explained(reason: str, printed: str, job: Mapping[str, Any]) -> str:
    """Why a job has failed, in one line.

    Args:
        reason: what the error or the death says; printed: what the compiler has printed on stderr;
        job: as in `worker`; the line of a loop can be told where it holds the kernel's first IR.
    """
    if missing := INTRINSIC.search(printed) or INTRINSIC.search(reason):
        return f"{missing[1]} is an instruction that sm_{job['capability']} does not have"
    pipeline = PIPELINE.search(printed)
    cause = _cause(printed)
    if pipeline is None:
        return f"{reason}: {cause}" if cause and cause not in reason else reason
    names = PASS.findall(pipeline[1])
    said = f"Triton fails in its pass {names[-1]}" if names else "Triton fails"
    specialised = any(SPECIALISING.search(name) for name in names) and SPECIALISED.search(job.get("ttir", ""))
    if specialised:
        line = line_of(specialised[1], job["ttir"])
        said += f", on the loop with warp_specialize=True at line {line}" if line else ", on warp_specialize=True"
    if cause:
        said += f": {cause}"
    return said + (f"; try {_instead(job['ttir'])}" if specialised else "")


def _cause(printed: str) -> str:
    """The first error that names something, else the assertion that failed; empty where neither was printed."""
    for file, line, text in DIAGNOSTIC.findall(printed):
        if text.strip() != EMPTY:
            return f"{file}:{line}: {text.strip()}"[:LONGEST]
    assertion = ASSERTION.search(printed)
    if assertion is None:
        return ""
    what = "" if assertion[3] == "false" else f" ({assertion[3]})"
    return f"assertion in {assertion[1]}:{assertion[2]}{what}"[:LONGEST]


def _instead(ir: str) -> str:
    """What compiles in the place of a loop with `warp_specialize=True`."""
    ways = []
    if "tt.load" in ir:
        ways.append("loads by tensor descriptors in it")
    if ir.count("scf.for") > 1:
        ways.append("flatten=True where it holds another loop")
    return ", ".join([*ways, "or warp_specialize=False" if ways else "warp_specialize=False"])


def specialisation_note(job: Mapping[str, Any], asked_warps: int, warps: int) -> str:
    """What is to be said of a kernel that asks for `warp_specialize=True` in vain; empty of others.

    Args:
        asked_warps: of a CTA, as the user asked for them; warps: as compiled.
    """
    match = SPECIALISED.search(job.get("ttir", ""))
    if match is None or warps > asked_warps:
        return ""
    line = line_of(match[1], job["ttir"])
    target = f"sm_{job['capability']}"
    return f"line {line}: warp_specialize=True has no effect: Triton adds no warps for {target}"
