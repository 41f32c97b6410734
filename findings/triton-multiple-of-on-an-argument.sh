#!/bin/sh
# Triton 3.6.0: tl.multiple_of on an argument changes no load; on the sum of offsets it does.
#
# X and Y are known to be aligned to 16 bytes; the start `first` is an argument that may be any number. To say that
# it is a multiple of 16 leaves loads of fp16 as they are, 16 bits each. The same said of the tensor of offsets
# (multiple_of and max_contiguous) makes them loads of 16 bytes. Nothing warns where a hint is lost.
# Seen: none ld.global.b16, argument ld.global.b16, offsets ld.global.v4.b32.
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
def none(X, Y, first, B: tl.constexpr):
    i = first + tl.arange(0, B)
    tl.store(Y + i, tl.load(X + i) + 1)


@triton.jit
def argument(X, Y, first, B: tl.constexpr):
    first = tl.multiple_of(first, 16)
    i = first + tl.arange(0, B)
    tl.store(Y + i, tl.load(X + i) + 1)


@triton.jit
def offsets(X, Y, first, B: tl.constexpr):
    i = tl.max_contiguous(tl.multiple_of(first + tl.arange(0, B), B), B)
    tl.store(Y + i, tl.load(X + i) + 1)


seen = {}
for function in (none, argument, offsets):
    aligned = {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]}
    kernel = compiled(function, {"X": "*fp16", "Y": "*fp16", "first": "i32", "B": "constexpr"}, {(3,): 1024}, aligned)
    (seen[function.__name__],) = set(re.findall(r"ld\.global\S*", kernel.asm["ptx"]))
print(*(f"{name} {load}" for name, load in seen.items()), sep=", ")
assert seen == {"none": "ld.global.b16", "argument": "ld.global.b16", "offsets": "ld.global.v4.b32"}
EOF
cd "$place"
"$place/venv/bin/python" finding.py
