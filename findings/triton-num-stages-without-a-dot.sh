#!/bin/sh
# Triton 3.6.0: num_stages of a kernel changes nothing in a loop that only loads and adds.
#
# A loop without tl.dot is not pipelined by the option num_stages: for sm_90 the cubins of 1, 2, 3 and 5 stages are
# the same bytes. tl.range(..., num_stages=N) on the same loop is obeyed: copies run ahead, and take shared memory.
# So an autotuner that tries num_stages for such a kernel times one kernel several times.
# Seen: option {'same code': True, 'shared': [0, 0, 0, 0]}, tl.range shared [0, 4096, 8192, 16384].
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


def compiled(function, signature, constants, attributes=None, sm=90, **options):
    source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes or {})
    return triton.compile(source, target=GPUTarget("cuda", sm, 32), options=options)


@triton.jit
def by_option(X, Y, n, B: tl.constexpr):
    total = tl.zeros((B,), tl.float32)
    for i in range(n):
        total += tl.load(X + i * B + tl.arange(0, B))
    tl.store(Y + tl.arange(0, B), total)


@triton.jit
def by_range(X, Y, n, B: tl.constexpr, S: tl.constexpr):
    total = tl.zeros((B,), tl.float32)
    for i in tl.range(n, num_stages=S):
        total += tl.load(X + i * B + tl.arange(0, B))
    tl.store(Y + tl.arange(0, B), total)


STAGES = (1, 2, 3, 5)
aligned = {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]}
types = {"X": "*fp32", "Y": "*fp32", "n": "i32", "B": "constexpr"}
options = [compiled(by_option, types, {(3,): 1024}, aligned, num_stages=s) for s in STAGES]
ranges = [compiled(by_range, types | {"S": "constexpr"}, {(3,): 1024, (4,): s}, aligned) for s in STAGES]
same = all(kernel.asm["cubin"] == options[0].asm["cubin"] for kernel in options)
print("option", {"same code": same, "shared": [kernel.metadata.shared for kernel in options]})
print("tl.range shared", [kernel.metadata.shared for kernel in ranges])
assert same and [kernel.metadata.shared for kernel in options] == [0, 0, 0, 0]
assert [kernel.metadata.shared for kernel in ranges] == [0, 4096, 8192, 16384]
EOF
cd "$place"
"$place/venv/bin/python" finding.py
