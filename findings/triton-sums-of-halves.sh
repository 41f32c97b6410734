#!/bin/sh
# Triton 3.6.0: tl.sum of fp16 or bf16 adds in 16 bits, while tl.max of the same gives fp32.
#
# Blocks of 8 and 16 bit integers are widened to int32 before both; of floats tl.max and tl.min alone are widened.
# A sum of more than 256 ones in bf16 so depends on the order of the tree of adds, and stops growing in a chain.
# x.to(tl.float32) before tl.sum is what the name suggests already.
# Seen: tl.sum {'fp16': 'f16', 'bf16': 'bf16', 'i8': 'i32'}, tl.max {'fp16': 'f32', 'bf16': 'f32', 'i8': 'i32'}.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile triton==3.6.0
cat >"$place/finding.py" <<'EOF'
import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def compiled(function, signature, constants, attributes=None, sm=90, **options):
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes or {})
    return triton.compile(source, target=GPUTarget("cuda", sm, 32), options=options)


@triton.jit
def summed(X, Y, B: tl.constexpr):
    tl.store(Y, tl.sum(tl.load(X + tl.arange(0, B)), 0))


@triton.jit
def largest(X, Y, B: tl.constexpr):
    tl.store(Y, tl.max(tl.load(X + tl.arange(0, B)), 0))


def reduced_as(function, element):
    kernel = compiled(function, {"X": "*" + element, "Y": "*fp32", "B": "constexpr"}, {(2,): 1024})
    return re.search(r"\}\) : \(tensor<1024x\w+>\) -> (\w+)", kernel.asm["ttir"])[1]


sums, maxima = ({element: reduced_as(f, element) for element in ("fp16", "bf16", "i8")} for f in (summed, largest))
print("tl.sum", sums, "tl.max", maxima)
assert sums == {"fp16": "f16", "bf16": "bf16", "i8": "i32"}
assert maxima == {"fp16": "f32", "bf16": "f32", "i8": "i32"}
EOF
cd "$place"
"$place/venv/bin/python" finding.py
