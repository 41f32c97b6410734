#!/bin/sh
# Triton 3.6.0: a number that a loop computes for its next round, and that only bounds a loop inside, keeps its first value.
#
# Valid code that walks rows of unlike lengths: each round of the outer loop sums up to `length`, then loads the next one.
# The compiled kernel loads the first length alone: the outer loop carries no value, the load of the next length is gone,
# and every row gets the first row's sum. No warning. With `length` stored as well, it is carried, and the code is right:
# what feeds nothing but bounds of inner loops counts as dead. Gluon's kernels do the same.
# Seen: loads of a length in the TTGIR 1 (2 where it is stored too); values carried by the outer loop 0 (1).
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
"$place/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-compile triton==3.6.0
cat >"$place/finding.py" <<'EOF'
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def sums(lengths, out, rows, used: tl.constexpr):
    length = tl.load(lengths)
    for row in range(rows):
        total = 0
        for i in range(length):
            total += i
        tl.store(out + row, total)
        if used:
            tl.store(out + rows + row, length)
        length = tl.load(lengths + row + 1)


seen = {}
for used in (False, True):
    signature = {"lengths": "*i32", "out": "*i32", "rows": "i32", "used": "constexpr"}
    source = ASTSource(fn=sums, signature=signature, constexprs={(3,): used})
    ttgir = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ttgir"]
    outer = next(line for line in ttgir.splitlines() if "scf.for" in line and "%rows" in line)
    carried = outer.partition("iter_args(")[2].partition(")")[0].count("=")
    seen[used] = ttgir.count("tt.load"), carried
print("length is stored: (loads, values carried)", seen)
assert seen == {False: (1, 0), True: (2, 1)}
EOF
cd "$place"
"$place/venv/bin/python" finding.py
